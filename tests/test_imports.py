"""A program loads what its gateway needs, counted in modules: seconds differ."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TypeAlias, cast

import pytest

from polygateway.wire import DIALECTS

Modules: TypeAlias = frozenset[str]

# A program that has trio and httpcore anyway. For each step a line with what it has loaded besides.
PROGRAM = """
import json, sys
import trio, httpcore

before = set(sys.modules)

def tell():
    print(json.dumps(sorted(set(sys.modules) - before)))

from polygateway import Config, Target, open_gateway
tell()

async def opened(config):
    async with open_gateway(config):
        tell()

async def main():
    for dialect in sys.argv[1:]:
        target = {"dialect": dialect, "base_url": "http://127.0.0.1:9", "model": "lyra-3"}
        await opened(Config(targets={"eu": Target(**target)}, models={"fast": ["eu"]}))
    await opened({"targets": {"eu": target}, "models": {"fast": ["eu"]}})

trio.run(main)
"""

ENTRANCES = {name: f"polygateway.wire.{name.replace('-', '_')}" for name in DIALECTS}
"""The module that each dialect begins with."""

# msgspec loads the other one. attrs and h11 are trio's and httpcore's as well.
NEEDED = {"polygateway", "msgspec", "typing_extensions"}


@pytest.fixture(scope="module")
def steps() -> list[Modules]:
    """What is loaded by the import, with a gateway for each dialect, and with one of a mapping."""
    done = subprocess.run(  # noqa: S603 - our own interpreter and text
        [sys.executable, "-c", PROGRAM, *DIALECTS], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    return [frozenset(cast("list[str]", json.loads(line))) for line in lines]


@pytest.fixture
def opened(steps: list[Modules]) -> Modules:
    """What is loaded with one gateway, which was given objects and has one target."""
    return steps[1]


def packages(modules: Modules) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_a_dialect_is_loaded_when_a_target_first_has_it(steps: list[Modules]) -> None:
    loaded = [[name for name in DIALECTS if ENTRANCES[name] in modules] for modules in steps]
    assert loaded[:-1] == [list(DIALECTS)[:count] for count in range(len(DIALECTS) + 1)]


def test_what_reads_plain_data_is_loaded_when_there_is_some(steps: list[Modules]) -> None:
    *before, of_mapping = steps
    for modules in before:
        assert not packages(modules) & {"cattrs", "platformdirs", "tomllib"}
        assert not modules & {"polygateway.config.file", "polygateway.config.structure"}
    assert packages(of_mapping) & {"cattrs", "platformdirs", "tomllib"} == {"cattrs"}
    assert "polygateway.config.file" not in of_mapping


def test_a_gateway_loads_no_package_but_those_that_it_needs(opened: Modules) -> None:
    assert packages(opened) - sys.stdlib_module_names <= NEEDED


def test_a_gateway_loads_no_other_event_loop_and_no_other_http_client(opened: Modules) -> None:
    assert not opened & {"asyncio", "http.client", "urllib.request"}


@pytest.mark.parametrize("room", ["cli", "observe", "testing"])
def test_a_gateway_loads_nothing_of_the_rooms_above_it(room: str, opened: Modules) -> None:
    assert f"polygateway.{room}" not in opened
