"""The rooms of the house import downwards only; the pure ones touch neither clock nor world."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import attrs
import pytest

import polygateway

PACKAGE = Path(polygateway.__file__).parent

# From the roof to the cellar: each floor may import those below it, rooms of one floor do not know
# each other, and what is inside one room is that room's own affair.
FLOORS = (
    {"front door"},
    {"cli"},
    {"serve"},
    {"testing"},
    {"observe"},
    {"gateway"},
    {"response"},
    {"race"},
    {"call"},
    {"narrator", "lessons"},
    {"record"},
    {"attempt"},
    {"report", "continuation", "patience", "order"},
    {"reporting"},
    {"logs"},
    {"diagnosis", "model"},
    {"route"},
    {"net"},
    {"config"},
    {"core", "wire"},
    {"values"},
)
LEVEL = {room: level for level, floor in enumerate(reversed(FLOORS)) for room in floor}
VALUES = {
    *("messages", "request", "policies", "errors", "secret"),
    *("stats", "usage", "trace", "aggregates", "instrument"),
    *("_checks", "_models", "_version"),
}

# What a pure room may not ask: the time, chance, the machine, another thread or process.
PURE = {"core", "wire", "values"}
IMPURE = {
    *("datetime", "logging", "os", "pathlib", "platform", "random", "secrets", "shutil"),
    *("http", "select", "selectors", "signal", "socket", "socketserver", "ssl", "urllib.request"),
    *("concurrent", "contextvars", "multiprocessing", "queue", "subprocess", "threading", "time"),
}
PURE_PACKAGES = {"attrs", "msgspec", *sys.stdlib_module_names}
ONLY_IN = {"httpcore": {"net"}, "httpcore2": {"net"}, "hypothesis": {"testing"}}
MOST_LINES = 420  # about 400, so that a comment more does not cut a module in two


@attrs.frozen
class Module:
    """A module of the package, by its dotted name below ``polygateway``."""

    name: str
    source: str
    is_package: bool = False

    @property
    def room(self) -> str:
        first = self.name.partition(".")[0]
        return "values" if first in VALUES else first or "front door"

    def imports(self) -> set[str]:
        """Give the absolute name of everything it imports, wherever the statement stands."""
        found: set[str] = set()
        for node in ast.walk(ast.parse(self.source)):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                found.update(f"{base}.{alias.name}" for alias in node.names)
        return found

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        here = ["polygateway", *filter(None, self.name.split("."))]
        base = here[: len(here) - node.level + self.is_package]
        return ".".join([*base, *filter(None, [node.module])])


def read(path: Path) -> Module:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Module(name, path.read_text("utf-8"), is_package)


MODULES = [read(path) for path in sorted(PACKAGE.rglob("*.py"))]


def is_in(name: str, modules: set[str]) -> bool:
    """Tell whether *name* is one of *modules* or something inside one."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def room_of(imported: str) -> str | None:
    """Give the room that *imported* lies in; ``None`` for what is not ours."""
    package, _, name = imported.partition(".")
    if package != "polygateway":
        return None
    room = Module(name, "").room
    return room if room in LEVEL else "front door"  # `from polygateway import Chunk`


def mistakes(module: Module) -> list[str]:
    """Give what *module* imports although its room may not."""
    return [
        f"{module.room} may not import {imported}"
        for imported in sorted(module.imports())
        if is_upwards(module.room, imported) or is_foreign(module.room, imported)
    ]


def is_upwards(room: str, imported: str) -> bool:
    other = room_of(imported)
    return other is not None and other != room and LEVEL[other] >= LEVEL[room]


def is_foreign(room: str, imported: str) -> bool:
    top = imported.partition(".")[0]
    if top == "asyncio" or room not in ONLY_IN.get(top, {room}):
        return True
    if room not in PURE or top == "polygateway":
        return False
    return is_in(imported, IMPURE) or top not in PURE_PACKAGES


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "__init__")
def test_every_module_imports_downwards_only(module: Module) -> None:
    assert module.room in LEVEL, f"{module.name} lies in no room: add it to FLOORS or VALUES"
    assert mistakes(module) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name or "__init__")
def test_no_module_is_longer_than_a_reader_can_hold(module: Module) -> None:
    assert len(module.source.splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    ("name", "source", "imported"),
    [
        ("race", "from .response import CompletionStream", "polygateway.response.CompletionStream"),
        ("race", "from . import gateway", "polygateway.gateway"),
        ("core.plan", "from ..wire.sse import SSEDecoder", "polygateway.wire.sse.SSEDecoder"),
        ("wire.sse", "from ..core import gate", "polygateway.core.gate"),
        ("wire.sse", "import polygateway.config", "polygateway.config"),
        ("errors", "from .net.http import post", "polygateway.net.http.post"),
        ("net.http", "from polygateway import Chunk", "polygateway.Chunk"),
        ("core.plan", "import time", "time"),
        ("core.backoff", "from random import uniform", "random.uniform"),
        ("core.plan", "import os.path", "os.path"),
        ("core.plan", "import trio", "trio"),
        ("wire.sse", "import logging", "logging"),
        ("wire.sse", "from http.client import HTTPException", "http.client.HTTPException"),
        ("wire.sse", "from urllib import request", "urllib.request"),
        ("policies", "import cattrs", "cattrs"),
        ("race", "import httpcore", "httpcore"),
        ("gateway", "import asyncio", "asyncio"),
        ("gateway", "from asyncio import Queue", "asyncio.Queue"),
    ],
)
def test_a_forbidden_import_is_found(name: str, source: str, imported: str) -> None:
    expected = [f"{Module(name, source).room} may not import {imported}"]
    assert mistakes(Module(name, source)) == expected


def test_an_import_hidden_in_a_function_or_for_types_only_is_found() -> None:
    hidden = """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from ..race import run
        def later():
            import trio
    """
    source = "\n".join(line[8:] for line in hidden.splitlines())
    assert mistakes(Module("core.plan", source)) == [
        "core may not import polygateway.race.run",
        "core may not import trio",
    ]


def test_a_package_resolves_its_relative_imports_from_itself() -> None:
    assert Module("net", "from . import http", is_package=True).imports() == {
        "polygateway.net.http"
    }
    assert Module("net", "from .. import race", is_package=True).imports() == {"polygateway.race"}
    assert Module("", "from .race import run", is_package=True).imports() == {
        "polygateway.race.run"
    }


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("gateway", "from .race import run"),
        ("core.plan", "from .gate import Gate"),
        ("core.plan", "from ..errors import GatewayError"),
        ("wire.sse", "import json, attrs, urllib.parse"),
        ("net.http", "import httpcore, trio, time"),
        ("cli.demo", "from polygateway.testing import chunk"),
        ("policies", "from ._checks import Number"),
    ],
)
def test_what_is_allowed_is_not_reported(name: str, source: str) -> None:
    assert mistakes(Module(name, source)) == []
