"""Where situations are played: in memory or over TCP, and in virtual time in both.

Both worlds are given the same scripts and policies, in real seconds. Over TCP the clock jumps as
soon as nobody has had anything to do for a moment of the wall's time: what one side has written,
the other has read by then.
"""

from __future__ import annotations

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

SETTLING_S = 0.01
"""How long nothing has to happen over TCP, on the wall, before the clock jumps. The loopback
interface hands over within the writer's own system call, so this is ample.
"""

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

    def requests(self, target: str) -> Sequence[Exchange]:
        """Give what a provider was asked, in order."""
        return self.providers[target].log

    def ends(self, target: str) -> list[str | None]:
        """Give how each of a provider's exchanges ended, in its own words."""
        return [_ended(exchange) for exchange in self.requests(target)]

    def connections(self, target: str) -> list[int]:
        """Give on which connection each of a provider's requests came."""
        return [exchange.connection for exchange in self.requests(target)]


def _ended(exchange: Exchange) -> str | None:
    """Give how an exchange ended: done, if the client has closed after the last byte of it.

    Over TCP it is a matter of luck whether the provider sees that before it is done itself.
    """
    writes = [step for _, step in exchange.sent]
    lengths = [step.headers.get("content-length") for step in writes if isinstance(step, Head)]
    written = sum(len(step.data) for step in writes if isinstance(step, Send))
    is_all = exchange.ended == "client closed" and lengths == [str(written)]
    return "done" if is_all else exchange.ended


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
        clock = MockClock(autojump_threshold=SETTLING_S)
        return trio.run(self._run, make, plot, clock=clock)

    async def _run(self, make: Make, plot: Plot[T]) -> Seen[T]:
        situation = make()
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
        return Seen(caller=caller, providers=providers)


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
