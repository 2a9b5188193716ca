"""Runs the provider in a process of its own."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import attrs

from .system import cores

if TYPE_CHECKING:
    from collections.abc import Generator

    from .provider import Status

ROOT = Path(__file__).parents[2]
"""The checkout, in which ``benchmarks`` can be imported."""


@attrs.frozen
class Upstream:
    """A provider that runs."""

    port: int

    @property
    def base_url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def status(self) -> Status:
        """Ask it what it has done since its start."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/status")
        try:
            return cast("Status", json.loads(connection.getresponse().read()))
        finally:
            connection.close()


@contextmanager
def serving(scripts: str | None = None) -> Generator[Upstream]:
    """Run a provider for the block, on the last core.

    Args:
        scripts: a module with a function ``script_of``; see ``provider.py``.
    """
    command = [sys.executable, "-m", "benchmarks.speed.provider", "--core", str(cores()[1])]
    if scripts is not None:
        command += ["--scripts", scripts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:  # noqa: S603 - ours
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            yield Upstream(int(process.stdout.readline()))
        finally:
            process.kill()
