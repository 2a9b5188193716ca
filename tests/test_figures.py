"""The figures of whole calls against what the server truly wrote, tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
import trio
from hypothesis import given, settings, strategies as st

from polygateway import Gateway, HedgePolicy, open_gateway
from polygateway.testing import (
    ScriptedProvider,
    Send,
    chunk,
    comment,
    done,
    empty,
    finish,
    keepalives,
    ping,
    reasoning,
    role,
    run_virtual,
    serve_memory,
    silence,
    together,
    tool_call,
    usage,
)
from tests.oracle import Read, brute_force

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeAlias

    from polygateway import CallStats
    from polygateway.testing import Exchange, Step

    Call: TypeAlias = Callable[[Gateway], Awaitable[CallStats]]

THRESHOLD_MS = 2000  # the default of stream.stall_threshold_ms


async def complete(gw: Gateway) -> CallStats:
    return (await gw.complete("x", model="m")).stats


async def stream(gw: Gateway) -> CallStats:
    async with gw.stream("x", model="m") as opened:
        async for _ in opened:
            pass
    return opened.stats


@attrs.frozen
class Piece:
    """A pause, keep-alives in it, and one write of content."""

    pause_ms: int
    alive: Send | None
    every_ms: int
    content: tuple[Send, ...]

    def steps(self) -> Sequence[Step]:
        seconds = self.pause_ms / 1000
        waiting: Sequence[Step] = [silence(seconds)]
        if self.alive is not None and self.pause_ms:
            waiting = keepalives(seconds, every_s=self.every_ms / 1000, step=self.alive)
        return [*waiting, together(*self.content)]


CONTENT = [chunk("a"), chunk("tide"), reasoning("r"), tool_call("{", index=0, id="c", name="f")]
ALIVE = [comment(), ping(), empty(), role(), usage(1, 2)]

pieces = st.builds(
    Piece,
    pause_ms=st.sampled_from([0, 1, 999, 1999, 2000, 2001, 3000]) | st.integers(0, 5000),
    alive=st.none() | st.sampled_from(ALIVE),
    every_ms=st.sampled_from([50, 300, 1000]),
    content=st.lists(st.sampled_from(CONTENT), min_size=1, max_size=3).map(tuple),
)


def reads(exchange: Exchange) -> list[Read]:
    """Give the reads of a client that never pauses, from the log of the server."""
    asked, found = round(exchange.started_at * 1000), list[Read]()
    for at, step in exchange.sent:
        if isinstance(step, Send):
            arrived = round(at * 1000)
            found.append(Read(asked, arrived, step.content))
            asked = arrived
    return found


async def measured(call: Call, script: Sequence[Step]) -> tuple[CallStats, list[Read]]:
    provider = ScriptedProvider(script)
    async with (
        serve_memory({"eu": provider}) as network,
        open_gateway(
            network.config(hedge=HedgePolicy(enabled=False)), connect=network.connect
        ) as gw,
    ):
        await trio.sleep(0.25)  # figures do not start with the clock
        stats = await call(gw)
    return stats, reads(provider.log[0])


@pytest.mark.parametrize("call", [complete, stream])
@settings(deadline=None, max_examples=150)
@given(said=st.lists(pieces, max_size=7))
def test_the_figures_of_a_call_are_those_of_what_was_written(call: Call, said: list[Piece]) -> None:
    script = [step for piece in said for step in piece.steps()]
    stats, seen = run_virtual(measured, call, [*script, finish(), done()])
    for name, ticks in brute_force(seen, THRESHOLD_MS).items():
        is_count = name.endswith("_count")
        found = getattr(stats, name if is_count else name.replace("_ns", "_ms"))
        assert found == (ticks if ticks is None else pytest.approx(ticks, abs=1e-3)), name
    first = next((read.arrived for read in seen if read.chunks), None)
    wanted = None if first is None else pytest.approx(first - 250, abs=1e-3)
    assert stats.ttft_ms == wanted
