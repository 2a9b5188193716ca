"""Whether chunks and calls have become dearer: counted in instructions, which no load changes.

What counts are the bytecode instructions that polygateway's own code runs, scripted providers left
out. What users feel of it, ``python -m benchmarks.speed`` measures.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

import polygateway
from polygateway import Gateway, HedgePolicy, open_gateway
from polygateway.testing import (
    ScriptedProvider,
    chunk,
    done,
    finish,
    role,
    run_virtual,
    serve_memory,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from types import FrameType

    Call: TypeAlias = "Callable[[Gateway], Awaitable[None]]"
    Trace: TypeAlias = "Callable[[FrameType, str, object], Trace | None]"

PACKAGE = str(Path(polygateway.__file__).parent)
TESTING = str(Path(PACKAGE, "testing"))
OFF, ARMED = HedgePolicy(enabled=False), HedgePolicy()


async def stream(gw: Gateway) -> None:
    async with gw.stream("x", model="m") as chunks:
        async for _ in chunks:
            pass


async def complete(gw: Gateway) -> None:
    await gw.complete("x", model="m")


each_manner = pytest.mark.parametrize("call", [stream, complete])


class Count:
    """Instructions that were run."""

    def __init__(self) -> None:
        self.instructions = 0

    def enter(self, frame: FrameType, event: str, value: object) -> Trace | None:
        """Count what this frame runs, if it is polygateway's."""
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE) or file.startswith(TESTING):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, value: object) -> Trace | None:
        self.instructions += event == "opcode"
        return self._step


@contextmanager
def counting() -> Generator[Count]:
    count, before = Count(), sys.gettrace()
    sys.settrace(count.enter)
    try:
        yield count
    finally:
        sys.settrace(before)


def cost(
    call: Call,
    *,
    chunks: int = 1,
    at_once: bool = False,
    policy: HedgePolicy = ARMED,
    targets: int = 2,
    calls: int = 1,
) -> float:
    """Give the instructions of a call at a warm gateway, for an answer of so many chunks.

    Each chunk comes in a read of its own, or all *at_once*. Some of what calls cost is due after
    every sixteenth: it is in what so many *calls* cost on average.
    """

    async def main() -> float:
        pieces = [chunk("a dozen characters")] * chunks
        said = (role(), *([together(*pieces)] if at_once else pieces), finish(), done())
        providers = {f"t{number}": ScriptedProvider(said) for number in range(targets)}
        async with (
            serve_memory(providers) as network,
            open_gateway(network.config(hedge=policy), connect=network.connect) as gw,
        ):
            await call(gw)
            with counting() as count:
                for _ in range(calls):
                    await call(gw)
            return count.instructions / calls

    return run_virtual(main)


def cost_of_a_chunk(
    call: Call, *, upto: int = 200, at_once: bool = False, policy: HedgePolicy = ARMED
) -> float:
    """Give the instructions of each further chunk, between half as many and so many."""
    few, many = (
        cost(call, chunks=chunks, at_once=at_once, policy=policy) for chunks in (upto // 2, upto)
    )
    return (many - few) / (upto - upto // 2)


# A quarter over what was counted when they were set, for Python's versions compile differently.
A_CHUNK_READ_ALONE, A_CHUNK_AMONG_OTHERS, A_CALL, A_TARGET = 1600, 420, 19_600, 58


@each_manner
def test_a_chunk_is_as_cheap_as_it_was(call: Call) -> None:
    assert cost_of_a_chunk(call) <= A_CHUNK_READ_ALONE
    assert cost_of_a_chunk(call, at_once=True) <= A_CHUNK_AMONG_OTHERS


@each_manner
def test_a_call_is_as_cheap_as_it_was(call: Call) -> None:
    assert cost(call, calls=16) <= A_CALL


@each_manner
def test_a_chunk_costs_the_same_in_a_long_answer(
    call: Call,
) -> None:
    assert cost_of_a_chunk(call, upto=1000) <= 1.05 * cost_of_a_chunk(call, upto=100)


@each_manner
def test_armed_hedging_costs_a_chunk_next_to_nothing(
    call: Call,
) -> None:
    assert cost_of_a_chunk(call) <= 1.05 * cost_of_a_chunk(call, policy=OFF)


@each_manner
def test_armed_hedging_costs_a_call_little(call: Call) -> None:
    assert cost(call, calls=16) <= 1.1 * cost(call, calls=16, policy=OFF)


@each_manner
def test_a_further_target_costs_a_call_little(call: Call) -> None:
    assert (cost(call, targets=101) - cost(call, targets=1)) / 100 <= A_TARGET
