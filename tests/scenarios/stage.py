"""Where situations are played: in memory and exactly on time, or over TCP and twenty times faster.

Both worlds are given the same scripts and policies, in real seconds. Over TCP the clock of the run
goes faster than the one on the wall, so all ratios are kept, those of polygateway's own constants
too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, get_args

import attrs
import pytest
import trio
from trio.testing import MockClock

from polygateway import (
    CallOptions,
    Chunk,
    Completion,
    Gateway,
    GatewayError,
    HedgePolicy,
    Limits,
    RetryPolicy,
    StreamPolicy,
    open_gateway,
)
from polygateway.testing import (
    Exchange,
    Head,
    MemoryNetwork,
    ScriptedProvider,
    Send,
    run_virtual,
    serve_memory,
    serve_tcp,
)

if TYPE_CHECKING:
    from polygateway import AttemptStats, Config
    from polygateway.testing import ServedProviders

T = TypeVar("T")

How = Literal["complete", "stream"]
World = Literal["memory", "tcp"]

RATE = 20.0
"""How much faster than the wall's clock the one of a run over TCP goes."""

LATE_S = 0.075
"""By how much a busy machine may be late, on the wall. Nothing that decides may be as close: at the
usual rate that is one and a half seconds.
"""

_MOST_PLAYS = 20
_CLEARING_S = 60.0
_LIMIT_S = 600.0


class Provider(ScriptedProvider):
    """A scripted provider that knows when all its connections are closed."""

    _closings: Sequence[trio.Event] = ()

    async def serve(
        self, stream: trio.abc.Stream, *, reset: Callable[[], None] | None = None
    ) -> None:
        closing = trio.Event()
        self._closings = [*self._closings, closing]
        try:
            await super().serve(stream, reset=reset)
        finally:
            closing.set()

    async def wait_closed(self) -> None:
        for closing in self._closings:
            await closing.wait()


class Deaf(Provider):
    """A provider that does not notice when a client leaves, and goes on writing while it can."""

    async def serve(
        self, stream: trio.abc.Stream, *, reset: Callable[[], None] | None = None
    ) -> None:
        await super().serve(_Deafened(stream), reset=reset)


class _Deafened(trio.abc.Stream):
    """A stream whose end is never read."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        with suppress(trio.BrokenResourceError):
            if data := await self._stream.receive_some(max_bytes):
                return data
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        await self._stream.aclose()


@attrs.frozen(kw_only=True)
class Situation:
    """What providers do, and how the gateway to them is configured."""

    providers: Mapping[str, Provider]
    """The model's targets, the primary first."""

    prefill: Collection[str] = ()
    """Which of them go on with an answer that has been begun."""

    hedge: HedgePolicy = attrs.field(factory=HedgePolicy)
    stream: StreamPolicy = attrs.field(factory=StreamPolicy)
    retry: RetryPolicy = attrs.field(factory=RetryPolicy)
    limits: Limits = attrs.field(factory=Limits)
    options: CallOptions = attrs.field(factory=CallOptions)
    """Of the call."""

    calls_before: int = 0
    """How many calls the gateway has had before the one that the situation is about."""

    rate: float = RATE
    """How much faster it is played over TCP."""

    def config(self, served: ServedProviders) -> Config:
        return served.config(
            prefill=self.prefill,
            hedge=self.hedge,
            stream=self.stream,
            retry=self.retry,
            limits=self.limits,
        )


Make: TypeAlias = Callable[[], Situation]


def registered(situations: list[tuple[Make, How]], *ways: How) -> Callable[[Make], Make]:
    """Give a decorator that puts a situation among those of which every checkpoint is tried.

    Args:
        situations: where they are put.
        ways: how is asked in them.
    """

    def put(make: Make) -> Make:
        situations.extend((make, how) for how in ways)
        return make

    return put


@attrs.frozen(kw_only=True)
class Reply:
    """What the application got from one call. Times are seconds of the run's clock."""

    chunks: Sequence[Chunk]
    """What a stream delivered."""

    completion: Completion | None
    error: GatewayError | None
    asked_s: float
    took_s: float

    @property
    def answer(self) -> Completion:
        """The whole answer, which must be there."""
        assert self.error is None, self.error
        assert self.completion is not None
        return self.completion

    @property
    def failure(self) -> GatewayError:
        """The error, which must be there."""
        assert self.error is not None, self.completion
        return self.error

    @property
    def attempts(self) -> Sequence[AttemptStats]:
        return self.answer.stats.attempts if self.error is None else self.error.attempts

    @property
    def story(self) -> list[str]:
        """Every attempt in a few words, like ``us hedge won``."""
        return [f"{each.target} {each.kind} {each.outcome}" for each in self.attempts]

    @property
    def delivered(self) -> str:
        """The text that the application holds when it heeds the seams."""
        texts = ["" if each.kind == "seam" else each.text for each in self.chunks]
        restarts = [at for at, each in enumerate(self.chunks) if each.seam_kind == "restart"]
        return "".join(texts[restarts[-1] :] if restarts else texts)


async def complete(gw: Gateway, options: CallOptions) -> Reply:
    """Ask for a whole answer."""
    asked, completion, error = trio.current_time(), None, None
    try:
        completion = await gw.complete("How is the tide?", model="m", **options)
    except GatewayError as caught:
        error = caught
    took = trio.current_time() - asked
    return Reply(chunks=(), completion=completion, error=error, asked_s=asked, took_s=took)


async def stream(gw: Gateway, options: CallOptions, *, pause_s: float = 0.0) -> Reply:
    """Ask for a stream and read it to its end, with a pause after the first chunk."""
    asked, completion, error = trio.current_time(), None, None
    chunks: list[Chunk] = []
    try:
        async with gw.stream("How is the tide?", model="m", **options) as each_chunk:
            async for chunk in each_chunk:
                chunks.append(chunk)
                if pause_s and len(chunks) == 1:
                    await trio.sleep(pause_s)
            completion = each_chunk.completion
    except GatewayError as caught:
        error = caught
    took = trio.current_time() - asked
    return Reply(chunks=chunks, completion=completion, error=error, asked_s=asked, took_s=took)


@attrs.frozen(kw_only=True)
class Stage:
    """What an application has: a gateway, and a way of asking."""

    gw: Gateway
    how: How
    options: CallOptions
    providers: Mapping[str, Provider]

    async def ask(self) -> Reply:
        """Make one call and read its answer to the end."""
        return await (complete if self.how == "complete" else stream)(self.gw, self.options)

    async def ask_twice(self) -> Sequence[Reply]:
        """Make one call after the other."""
        return [await self.ask(), await self.ask()]


Plot: TypeAlias = Callable[[Stage], Awaitable[T]]


@attrs.frozen(kw_only=True)
class Seen(Generic[T]):
    """What both sides saw."""

    caller: T
    providers: Mapping[str, Provider]
    exact: bool
    """Whether every time is as it should be, and not only at least so late."""

    def requests(self, target: str) -> Sequence[Exchange]:
        """Give what a provider was asked, in order."""
        return self.providers[target].log

    def ends(self, target: str) -> list[str | None]:
        """Give how each of a provider's exchanges ended, in its own words."""
        return [_ended(exchange) for exchange in self.requests(target)]

    def connections(self, target: str) -> list[int]:
        """Give on which connection each of a provider's requests came."""
        return [exchange.connection for exchange in self.requests(target)]

    def is_at(self, actual_s: float, expected_s: float) -> bool:
        """Compare times; over TCP, where the machine may be busy, nothing may be too early."""
        if self.exact:
            return math.isclose(actual_s, expected_s, abs_tol=1e-6)
        return actual_s >= expected_s - 1e-6


def _ended(exchange: Exchange) -> str | None:
    """Give how an exchange ended: done, if the client has closed after the last byte of it.

    Over TCP it is a matter of luck whether the provider sees that before it is done itself.
    """
    writes = [step for _, step in exchange.sent]
    lengths = [step.headers.get("content-length") for step in writes if isinstance(step, Head)]
    written = sum(len(step.data) for step in writes if isinstance(step, Send))
    is_all = exchange.ended == "client closed" and lengths == [str(written)]
    return "done" if is_all else exchange.ended


class _Lateness(trio.abc.Instrument):
    """Notes how late the loop has been at most, in seconds of the wall's clock."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._expected = math.inf

    def before_io_wait(self, timeout: float) -> None:
        self._note(time.perf_counter(), timeout)

    def after_io_wait(self, timeout: float) -> None:
        self._note(time.perf_counter(), 0)

    def _note(self, now: float, then_s: float) -> None:
        self.worst_s = max(self.worst_s, now - self._expected)
        self._expected = now + then_s


@attrs.frozen
class Play:
    """Plays situations in one of the worlds, with one of the two ways of asking."""

    world: World
    how: How

    def __str__(self) -> str:
        return f"{self.how} over {self.world}"

    def __call__(self, make: Make) -> Seen[Reply]:
        """Make one call, and compare what both sides have counted."""
        seen = self.run(make, Stage.ask)
        for target in seen.providers:
            asked = [each for each in seen.caller.attempts if each.target == target]
            sent = [each for each in asked if each.sent_ms is not None]
            assert len(sent) == len(seen.requests(target))
        return seen

    def run(self, make: Make, plot: Plot[T]) -> Seen[T]:
        """Let an application do as *plot* says, and check that nothing is left of it."""
        if self.world == "memory":
            return run_virtual(self._run, make, plot)
        for _ in range(_MOST_PLAYS):
            clock, lateness = MockClock(), _Lateness()
            seen = trio.run(self._run, make, plot, clock, clock=clock, instruments=[lateness])
            if lateness.worst_s <= LATE_S:
                return seen
        raise AssertionError("this machine is too busy to tell anything about time")

    async def _run(self, make: Make, plot: Plot[T], clock: MockClock | None = None) -> Seen[T]:
        situation = make()
        if clock is not None:
            clock.rate = situation.rate
        providers = situation.providers
        memory = self.world == "memory"
        async with serve_memory(providers) if memory else serve_tcp(providers) as served:
            connect = served.connect if isinstance(served, MemoryNetwork) else None
            async with open_gateway(situation.config(served), connect=connect) as gw:
                stage = Stage(gw=gw, how=self.how, options=situation.options, providers=providers)
                with trio.fail_after(_LIMIT_S):
                    caller = await plot(stage)
                await check_nothing_is_left(gw, situation)
            with trio.fail_after(_CLEARING_S):
                await _all_closed(providers)
        return Seen(caller=caller, providers=providers, exact=memory)


async def check_nothing_is_left(gw: Gateway, situation: Situation) -> None:
    """Check that every slot is free, and every exchange over; and no write came after its end."""
    assert not gw._calls
    for route in gw._routes.values():
        assert route.connections.free_slots == situation.limits.max_connections_per_target
    with trio.fail_after(_CLEARING_S):
        await _all_over(situation.providers)


async def _all_closed(providers: Mapping[str, Provider]) -> None:
    await trio.lowlevel.checkpoint()
    for provider in providers.values():
        await provider.wait_closed()


async def _all_over(providers: Mapping[str, Provider]) -> None:
    await trio.lowlevel.checkpoint()
    for provider in providers.values():
        for exchange in provider.log:
            await exchange.wait_ended()
            assert exchange.ended_at is not None
            assert all(began <= exchange.ended_at for began, _ in exchange.sent)


def _played(*ways: How) -> pytest.MarkDecorator:
    plays = [Play(world, how) for world in get_args(World) for how in ways]
    return pytest.mark.parametrize("play", plays, ids=str)


each_way = _played("complete", "stream")
"""In both worlds, and with both ways of asking."""

completed = _played("complete")
streamed = _played("stream")
