"""A configuration from a TOML file, and the environment on top of it."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from ..errors import ConfigurationError
from .environment import PREFIX, put_on_top
from .structure import checked

if TYPE_CHECKING:
    from ..policies import Config

_FILE_VARIABLE = f"{PREFIX}CONFIG"


def from_file(path: str | os.PathLike[str] | None) -> Config:
    """Read a file; ``None``: the one that :func:`load_config` takes if none is named.

    Raises:
        ConfigurationError: as :func:`load_config` does.
    """
    file, why = _default_path() if path is None else (_path(path), "")
    source = f"{file}{why}"
    table = _read(file, source)
    setters, mistakes = put_on_top(table, os.environ)
    return checked(table, source, setters, mistakes)


def _path(config: str | os.PathLike[str]) -> Path:
    try:
        return Path(config)
    except TypeError:
        raise ConfigurationError(
            f"a configuration is a Config, a mapping, a path or None, not a {type(config).__name__}"
        ) from None


def _default_path() -> tuple[Path, str]:
    """Give the path to read when none is given, and why it is that one."""
    named = os.environ.get(_FILE_VARIABLE)
    if named:
        return Path(named), f" (named by {_FILE_VARIABLE})"
    folder = platformdirs.user_config_path("polygateway", appauthor=False)
    if not folder.is_absolute():
        raise ConfigurationError(
            f"no configuration: none was given, {_FILE_VARIABLE} is not set, and where the user's"
            f" configuration folder is cannot be told ({folder})"
        )
    return folder / "config.toml", f" (none was given, and {_FILE_VARIABLE} is not set)"


def _read(path: Path, source: str) -> dict[str, object]:
    # None of these errors becomes a cause: they hold the whole text.
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"cannot read {source}: {reason}") from None
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{source} is not UTF-8 (at line {line})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source} is not TOML: {error}") from None
