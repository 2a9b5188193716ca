"""What is measured, and how often."""

# Kinds, and what their sizes are:
#   chunks    CPU for each chunk of answers of so many chunks that come at once; of 1: for each call
#   paced     the same, of one answer of so many chunks that come one by one
#   streams   so many answers at the same time, 50 chunks each, one in 20 ms
#   spread    the same, started over a second
#   armed     polygateway beside itself with hedging off, in one process; chunks
#   fired     polygateway beside itself where every call is hedged; chunks
#   targets   polygateway with so many targets beside itself with one
#   imports   CPU and memory of an import

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .clients import (
    AIOHTTP,
    ANTHROPIC,
    CLIENTS,
    COMPLETE,
    HTTPCORE,
    LANGCHAIN,
    LITELLM,
    OPENAI,
    RAW,
    STREAM,
)
from .results import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Plan: TypeAlias = "Mapping[Cell, int]"
"""In how many rounds each is measured."""

BURST = dict.fromkeys(CLIENTS, 20_000) | {LITELLM: 5000, LANGCHAIN: 5000}
"""Chunks of the answer in the measure of a chunk: fewer of those that take longest."""

PACED, STREAMS, MANY = 1000, 200, 1000
CROWD = (STREAM, COMPLETE, RAW, AIOHTTP, ANTHROPIC, OPENAI)
"""What is measured with many streams: what ends within a minute."""

MANNERS = ("stream", "complete")
TARGETS = (2, 5, 10, 20, 50, 100)

_OPENING = """
import trio
from polygateway import Config, Target, open_gateway

async def main():
    target = Target(dialect="openai-chat", base_url="http://127.0.0.1:1/v1", model="m")
    async with open_gateway(Config(targets={"t": target}, models={"m": ["t"]})):
        pass

trio.run(main)
"""
IMPORT, OPEN = "import polygateway", "open_gateway, and a gateway opened"
IMPORTS: Mapping[str, str] = {
    IMPORT: IMPORT,
    OPEN: _OPENING,
    **{
        f"import {name}": f"import {name}"
        for name in ("aiohttp", "openai", "anthropic", "langchain_openai", "litellm")
    },
}
"""The statements, by name."""

LONG, LONGER = 10_000, 100_000
GROWING_CHUNKS = (1, 10, 100, 1000, LONG, LONGER)
GROWING_STREAMS = (1, 10, 50, 100, 200, 500, 1000, 2000)
GROWTH: Mapping[str, tuple[int, int]] = {
    STREAM: (LONGER, 2000),
    RAW: (LONGER, 2000),
    HTTPCORE: (LONGER, 500),
    OPENAI: (LONG, 1000),
}
"""How many chunks, and how many streams, each is measured with at most."""


def short() -> Plan:
    """Give what the goals need."""
    cpu = [
        *(Cell("chunks", name, BURST[name]) for name in (STREAM, COMPLETE, HTTPCORE, RAW)),
        *(Cell("chunks", name, BURST[name]) for name in (OPENAI, LITELLM)),
        *(Cell("chunks", name) for name in (STREAM, COMPLETE, HTTPCORE, RAW, OPENAI)),
        *(Cell("streams", name, STREAMS) for name in (STREAM, RAW, OPENAI)),
        *_itself(TARGETS[-1:]),
        *(Cell("imports", name) for name in (IMPORT, OPEN)),
    ]
    # Of what goes by the wall clock more rounds, for that is disturbed more.
    wall = [
        *(Cell("spread", name, STREAMS) for name in (STREAM, RAW)),
        *(Cell("streams", name, MANY) for name in (STREAM, RAW)),
    ]
    return dict.fromkeys(wall, 5) | dict.fromkeys(cpu, 3)


def full() -> Plan:
    """Give everything."""
    measured = [
        *(Cell("chunks", name, size) for name, size in BURST.items()),
        *(Cell("chunks", name) for name in CLIENTS),
        *(Cell("paced", name, PACED) for name in CLIENTS),
        *(Cell("streams", name, STREAMS) for name in CLIENTS),
        *(Cell("spread", name, STREAMS) for name in CLIENTS),
        *(Cell("streams", name, MANY) for name in CROWD),
        *_itself(TARGETS),
        *(Cell("imports", name) for name in IMPORTS),
    ]
    # Which takes over a minute, so that once is enough.
    crowded = {Cell("streams", HTTPCORE, MANY): 1}
    return crowded | dict.fromkeys(_growth(), 3) | dict.fromkeys(measured, 5)


def _itself(targets: Iterable[int]) -> Iterator[Cell]:
    for manner in MANNERS:
        yield from [Cell("armed", manner), Cell("armed", manner, 20_000), Cell("fired", manner)]
        yield from (Cell("targets", manner, count) for count in targets)


def _growth() -> Iterator[Cell]:
    for name, (chunks, streams) in GROWTH.items():
        yield from (Cell("chunks", name, size) for size in GROWING_CHUNKS if size <= chunks)
        yield from (Cell("streams", name, size) for size in GROWING_STREAMS if size <= streams)
