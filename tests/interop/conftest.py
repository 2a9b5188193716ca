"""The servers, started once for all tests, and the key that they want to see."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.servers import KEY, KEY_ENV, Server, running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the key, which the environment holds as well."""
    monkeypatch.setenv(KEY_ENV, KEY)
    return KEY


@pytest.fixture(scope="session")
def llama() -> Iterator[Server]:
    """Give llama.cpp's server, which serves the tiny model."""
    with running(sys.executable, "-m", "tests.interop.llama_server", KEY) as url:
        yield Server(url)


@pytest.fixture(scope="session")
def aimock() -> Iterator[Server]:
    """Give aimock's server, which answers as ``fixtures.json`` says."""
    package, node = os.environ.get("POLYGATEWAY_AIMOCK"), shutil.which("node")
    if package is None or node is None:
        pytest.skip("aimock is not here: `nox -s interop` installs it where npm is")
    here = Path(__file__).parent
    script, fixtures = str(here / "aimock_server.mjs"), str(here / "fixtures.json")
    with running(node, script, package, fixtures, KEY) as url:
        yield Server(url)
