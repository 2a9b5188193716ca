"""What a call makes of an event loop, or a consumer, that is late: never a provider's silence.

What comes from outside comes by its own schedule here, also while the loop is blocked. A blocked
loop is a clock that goes on while no other task has its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
import trio
from hypothesis import given, settings, strategies as st
from trio.testing import MemorySendStream, MockClock

from polygateway import Config, Gateway, HedgePolicy, StreamPolicy, Target, open_gateway
from polygateway.instrument import Instrument
from polygateway.testing import (
    ScriptedProvider,
    Send,
    Silence,
    chunk,
    done,
    finish,
    keepalives,
    run_virtual,
    silence,
    usage,
)
from tests.scenario import gateway_to

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from typing import TypeAlias

    from polygateway import CallStats
    from polygateway.instrument import StallBegan, StallEnded
    from polygateway.testing import Step

    Call: TypeAlias = Callable[[Gateway], Awaitable[CallStats]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
THRESHOLD = StreamPolicy(stall_threshold_ms=500)
CONFIG = Config(
    targets={"eu": Target(dialect="openai-chat", base_url="http://eu.invalid/v1", model="x")},
    models={"m": ("eu",)},
    hedge=HedgePolicy(enabled=False),
    stream=THRESHOLD,
)
WORD = chunk("tide ")


def steady(count: int, every_s: float = 0.02) -> Sequence[Step]:
    return (silence(every_s), WORD) * count


def end(tokens: int) -> Sequence[Step]:
    return (finish(), usage(7, tokens), done())


class Incoming(trio.abc.ReceiveStream):
    """What a socket receives: a read takes one turn of the loop, if it need not wait.

    trio's memory streams take two, and what other tasks do in the first is no longer known after
    the second.
    """

    def __init__(self) -> None:
        self._data = b""
        self._readers = trio.lowlevel.ParkingLot()

    def put(self, data: bytes) -> None:
        self._data += data
        self._readers.unpark_all()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if not self._data:
            await self._readers.park()
            return self._take()
        data = self._take()
        await trio.lowlevel.cancel_shielded_checkpoint()
        return data

    def _take(self) -> bytes:
        data, self._data = self._data, b""
        return data

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class Outside:
    """The world outside of the loop: bytes that come when they are due, whatever the loop does."""

    def __init__(self, script: Sequence[Step]) -> None:
        self._incoming = Incoming()
        self._due = [(0.0, HEAD), *_timed(script)]

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return trio.StapledStream(MemorySendStream(), self._incoming)

    async def go_on(self) -> None:
        while self._due:
            await trio.sleep_until(self._due[0][0])
            self._deliver()

    def block(self, seconds: float) -> None:
        """Keep the loop from everything else for so long. The world goes on."""
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        until = trio.current_time() + seconds
        while self._due and self._due[0][0] <= until:
            clock.jump(max(self._due[0][0] - trio.current_time(), 0))
            self._deliver()
        clock.jump(until - trio.current_time())

    def _deliver(self) -> None:
        while self._due and self._due[0][0] <= trio.current_time() + 1e-9:
            self._incoming.put(self._due.pop(0)[1])


def _timed(script: Iterable[Step]) -> Iterable[tuple[float, bytes]]:
    at = 0.0
    for step in script:
        if isinstance(step, Silence):
            at += step.seconds
        elif isinstance(step, Send):
            yield at, step.data


async def complete(gw: Gateway) -> CallStats:
    return (await gw.complete("x", model="m")).stats


async def stream(gw: Gateway) -> CallStats:
    async with gw.stream("x", model="m") as opened:
        async for _ in opened:
            pass
    return opened.stats


@attrs.frozen
class Block:
    """Computing without a checkpoint. Times are seconds."""

    at: float
    lasts: float


def measured(
    call: Call,
    script: Sequence[Step],
    *blocks: Block,
    config: Config = CONFIG,
    instruments: Sequence[Instrument] = (),
) -> CallStats:
    """Give the stats of a call that is made at time 0, beside a task that blocks the loop."""

    async def compute(world: Outside) -> None:
        for block in blocks:
            await trio.sleep_until(block.at)
            world.block(block.lasts)

    return measured_beside(compute, call, script, config, instruments)


def measured_beside(
    compute: Callable[[Outside], Awaitable[None]],
    call: Call,
    script: Sequence[Step],
    config: Config = CONFIG,
    instruments: Sequence[Instrument] = (),
) -> CallStats:
    async def main() -> CallStats:
        world = Outside(script)
        async with (
            open_gateway(config, connect=world.connect, instruments=instruments) as gw,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(world.go_on)
            nursery.start_soon(compute, world)
            stats = await call(gw)
            nursery.cancel_scope.cancel()
        return stats

    return run_virtual(main)


both = pytest.mark.parametrize("call", [complete, stream])


# ---------------------------------------------------------------- a loop that is late


@both
def test_a_loop_that_was_blocked_for_a_second_is_no_stall(call: Call) -> None:
    # A chunk every 20 ms; the loop is blocked 10 ms after one of them.
    stats = measured(call, [*steady(100), *end(100)], Block(0.51, 1.0))
    assert stats.stall_count == 0
    assert stats.stall_ms == 0
    assert stats.max_gap_ms == pytest.approx(20)
    assert stats.generation_ms == pytest.approx(99 * 20)
    assert stats.backpressure_ms == pytest.approx(1000)


@both
def test_beside_a_blocked_loop_the_rate_is_a_lower_bound(call: Call) -> None:
    stats = measured(call, [*steady(100), *end(100)], Block(0.51, 1.0))
    assert stats.rate_basis == "wall_lower_bound"
    assert stats.tokens_per_s == pytest.approx(50)


def test_nobody_is_told_of_a_stall_while_the_loop_is_blocked() -> None:
    told: list[StallBegan | StallEnded] = []

    class Told(Instrument):
        def stall_began(self, event: StallBegan) -> None:
            told.append(event)

        def stall_ended(self, event: StallEnded) -> None:
            told.append(event)

    measured(stream, [*steady(100), *end(100)], Block(0.51, 1.0), instruments=[Told()])
    assert told == []


@both
@pytest.mark.parametrize("at", [0.51, 1.52], ids=["before", "behind"])
def test_a_second_of_silence_beside_a_blocked_loop_is_found(call: Call, at: float) -> None:
    # A chunk every 20 ms up to 1.5 s or from 1.02 s on; then or before, none for 1.02 s.
    flow, pause = steady(75), silence(1.0)
    script = [*flow, pause, *steady(25)] if at < 1 else [WORD, pause, *flow]
    stats = measured(call, [*script, *end(100)], Block(at, 0.9))
    assert [stall.duration_ms for stall in stats.stalls] == [pytest.approx(1020)]
    assert stats.stall_count == 1


@both
def test_a_silence_outlasting_a_busy_time_is_measured_whole(call: Call) -> None:
    # Silent from 0.2 s to 1.72 s; busy in it, when nothing came.
    script = [*steady(10), silence(1.5), *steady(10), *end(20)]
    stats = measured(call, script, Block(0.5, 0.5))
    assert [stall.duration_ms for stall in stats.stalls] == [pytest.approx(1520)]


@both
def test_a_silence_that_ends_in_a_busy_time_is_underestimated_by_what_they_share(
    call: Call,
) -> None:
    # Silent from 0.2 s to 1.72 s, busy from 1.0 s to 2.0 s.
    script = [*steady(10), silence(1.5), *steady(50), *end(60)]
    stats = measured(call, script, Block(1.0, 1.0))
    assert [stall.duration_ms for stall in stats.stalls] == [pytest.approx(800)]


@both
def test_a_stream_that_is_only_kept_alive_is_stalled_also_beside_a_blocked_loop(call: Call) -> None:
    # Content at 0.2 s and 1.72 s, a keep-alive every 300 ms between them; busy with one of these.
    script = [*steady(10), *keepalives(1.5, every_s=0.3), *steady(10), *end(20)]
    stats = measured(call, script, Block(0.7, 0.25))
    (stall,) = stats.stalls
    assert stall.cause == "server_alive"
    assert stall.duration_ms == pytest.approx(1520 - 250)


@both
def test_what_runs_between_the_poll_and_the_readers_turn_is_no_silence_either(call: Call) -> None:
    # Two tasks stand around the reader in trio's queue, so one of them runs before it, whichever
    # end the queue is worked off from.
    async def compute(world: Outside) -> None:
        ahead, behind = trio.Event(), trio.Event()

        async def block(once: trio.Event) -> None:
            await once.wait()
            world.block(1.0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(block, ahead)
            nursery.start_soon(block, behind)
            await trio.sleep_until(0.51)
            ahead.set()
            world.block(0.02)  # a chunk comes, which puts the reader into the queue
            behind.set()

    stats = measured_beside(compute, call, [*steady(200), *end(200)])
    assert stats.stall_count == 0
    assert stats.max_gap_ms == pytest.approx(20)


HEDGED = attrs.evolve(
    CONFIG,
    targets={
        name: Target(dialect="openai-chat", base_url=f"http://{name}.invalid/v1", model="x")
        for name in ("eu", "us")
    },
    models={"m": ("eu", "us")},
    hedge=HedgePolicy(after_s=0.5, stall_after_s=0.5),
)


@both
@pytest.mark.parametrize("at", [0.005, 0.51], ids=["before the first content", "later"])
@settings(deadline=None, max_examples=20)
@given(order=st.random_module())  # examples differ in the order in which trio runs the tasks
def test_a_blocked_loop_starts_no_hedge(call: Call, at: float, order: object) -> None:
    stats = measured(call, [*steady(100), *end(100)], Block(at, 1.0), config=HEDGED)
    assert [attempt.kind for attempt in stats.attempts] == ["primary"]


gaps = st.sampled_from([0, 1, 20, 499, 500, 501, 1000]) | st.integers(0, 3000)
busy = st.builds(Block, at=st.floats(0, 10), lasts=st.floats(0.001, 3))


@both
@settings(deadline=None, max_examples=150)
@given(
    gaps_ms=st.lists(gaps, min_size=1, max_size=8),
    blocks=st.lists(busy, max_size=4),
    order=st.random_module(),  # in which trio runs the tasks
)
def test_a_stall_is_never_longer_than_the_silence_before_its_end(
    call: Call, gaps_ms: list[int], blocks: list[Block], order: object
) -> None:
    script = [step for gap in gaps_ms for step in (silence(gap / 1000), WORD)]
    blocks.sort(key=lambda block: block.at)
    stats = measured(call, [*script, *end(len(gaps_ms))], *blocks)
    for stall in stats.stalls:
        assert stall.duration_ms <= gaps_ms[stall.after_chunk + 1] + 1e-3


# ---------------------------------------------------------------- a consumer that is slow


async def slow(gw: Gateway) -> CallStats:
    async with gw.stream("x", model="m") as opened:
        async for _ in opened:
            await trio.sleep(1)
    return opened.stats


def consumed_slowly(script: Sequence[Step]) -> CallStats:
    async def main() -> CallStats:
        hedge = HedgePolicy(enabled=False)
        provider = ScriptedProvider(script)
        async with gateway_to({"eu": provider}, hedge=hedge, stream=THRESHOLD) as (gw, _):
            return await slow(gw)

    return run_virtual(main)


@pytest.mark.parametrize("every_s", [0.02, 0.5, 0.999])
def test_a_consumer_that_takes_a_second_for_each_chunk_meets_no_stall(every_s: float) -> None:
    stats = consumed_slowly([*steady(10, every_s), *end(10)])
    assert stats.stall_count == 0
    assert stats.stall_ms == 0


def test_a_silence_that_a_slow_consumer_had_to_wait_for_is_found() -> None:
    # The fourth chunk comes at 2.0 s and is done with at 4.5 s. The fifth comes at 5.5 s.
    stats = consumed_slowly([*steady(4, 0.5), silence(3.0), *steady(2, 0.5), *end(6)])
    (stall,) = stats.stalls
    assert stall.after_chunk == 3
    assert stall.duration_ms == pytest.approx(1000)


def test_a_consumer_that_blocks_the_loop_itself_meets_no_stall() -> None:
    world = Outside([*steady(100), *end(100)])

    async def main() -> CallStats:
        async with (
            trio.open_nursery() as nursery,
            open_gateway(CONFIG, connect=world.connect) as gw,
        ):
            nursery.start_soon(world.go_on)
            async with gw.stream("x", model="m") as opened:
                async for _ in opened:
                    if opened.stats.chunk_count == 10:
                        world.block(1.0)
        return opened.stats

    stats = run_virtual(main)
    assert stats.stall_count == 0
    assert stats.max_gap_ms == pytest.approx(20)
