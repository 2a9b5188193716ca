"""When and where something was measured, and with which versions."""

from __future__ import annotations

import datetime
import os
import platform
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class About(TypedDict):
    """When, where and with which versions."""

    date: str
    system: str
    cores: int
    python: str
    versions: Mapping[str, str]


def about(packages: Iterable[str]) -> About:
    """Tell it; of *packages* those count that are installed."""
    release, _, _ = platform.release().partition("-")  # without what a builder appended
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "system": f"{platform.system()} {release} on {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "versions": dict(_versions(packages)),
    }


def _versions(packages: Iterable[str]) -> Iterator[tuple[str, str]]:
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            yield package, metadata.version(package)


def sentence(made: About) -> str:
    """Say it, for a document."""
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    place = f"{made['cores']} cores, {made['system']}"
    return f"Measured on {made['date']}: {place}, Python {made['python']}, {versions}."
