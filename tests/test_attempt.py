"""One attempt by itself: what it tells while it is read from, and after it was cancelled."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from polygateway import Limits, StreamPolicy, Target
from polygateway.attempt import Attempt, Watched
from polygateway.core.decisions import Launch
from polygateway.core.tally import Gap
from polygateway.net.lateness import LoopWatch
from polygateway.net.tls import Contexts
from polygateway.record import attempt_record
from polygateway.request import build_request
from polygateway.route import open_route
from tests.net.wires import SECOND

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
CONTENT = b'data: {"choices": [{"index": 0, "delta": {"content": "Once "}}]}\n\n'


def framed(*pieces: bytes) -> bytes:
    """Give pieces of a body, each in a chunk of its own."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


@attrs.define
class Bench:
    """An attempt over a socket whose other end the test holds."""

    attempt: Attempt
    there: socket.socket
    told: list[Gap | None]
    """What was told of stalls."""

    async def read(self) -> None:
        """Read to the end, as a task of a race does."""
        with self.attempt.scope, suppress(trio.ClosedResourceError):
            while not (await self.attempt.read()).over:
                pass

    def record(self) -> object:
        """Give what would be put on record now."""
        return attempt_record(self.attempt, called_ns=0, outcome="lost", winner=None, kept=False)


@contextmanager
def bench(*, watched: bool = True) -> Generator[Bench]:
    """Give an attempt, and close both ends of its connection behind the block."""
    here, there = socket.socketpair()

    async def connect(host: str, port: int, tls: object) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        return trio.SocketStream(trio.socket.from_stdlib_socket(here))

    target = Target(dialect="openai-chat", base_url="http://eu.invalid/v1", model="x")
    request, _ = build_request("x", {})
    told: list[Gap | None] = []
    loop = LoopWatch()
    trio.lowlevel.add_instrument(loop)
    route = open_route("eu", target, Limits(), connect, Contexts())
    attempt = Attempt(
        route,
        partial(route.encode, request),
        Launch(0, "primary"),
        index=0,
        continuation=None,
        policy=StreamPolicy(),
        limits=Limits(),
        watched=Watched(
            loop=loop,
            traces=False,
            on_stall=(lambda _, gap: told.append(gap)) if watched else None,
        ),
    )
    with here, there:
        yield Bench(attempt, there, told)
        attempt.close()
    trio.lowlevel.remove_instrument(loop)


# ---------------------------------------------------------------- after it was cancelled


@attrs.define(eq=False)
class _At(trio.abc.Instrument):
    """Does something before a given step of a task."""

    task_name: str
    at: int
    what: Callable[[], None]
    steps: int = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task.name == self.task_name:
            self.steps += 1
            if self.steps == self.at:
                self.what()


async def _cancelled(at: int) -> bool:
    """Cancel an attempt before its step number *at*; tell whether it took so many."""
    with bench() as each:
        each.there.send(HEAD + b"\r\n" + framed(CONTENT, CONTENT))
        seen: list[object] = []

        def cancel() -> None:
            each.attempt.cancel("lost the race")
            seen.append(each.record())

        instrument = _At("reader", at, cancel)
        trio.lowlevel.add_instrument(instrument)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(each.read, name="reader")
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        trio.lowlevel.remove_instrument(instrument)
        assert seen in ([], [each.record()])
    return bool(seen)


def test_nothing_comes_on_the_record_of_an_attempt_that_was_cancelled_before() -> None:
    # A read of a socket may have its bytes and still be on its way back to its task.
    at = 1
    while trio.run(_cancelled, at, clock=MockClock()):
        at += 1
    assert at > 5  # as many as it takes to have the head, and content


# ---------------------------------------------------------------- a loop that is late


def blocked(then: Callable[[Bench, MockClock], None]) -> Attempt:
    """Give an attempt that is parked behind its content when a coroutine blocks the loop."""

    async def main(clock: MockClock) -> Attempt:
        with bench() as each:
            each.there.send(HEAD + b"\r\n" + framed(CONTENT))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(each.read)
                await wait_all_tasks_blocked()
                then(each, clock)
                await wait_all_tasks_blocked()
                each.attempt.cancel("caller")
        return each.attempt

    clock = MockClock()
    return trio.run(main, clock, clock=clock)


def test_content_that_comes_while_the_loop_is_blocked_was_not_waited_for() -> None:
    def then(each: Bench, clock: MockClock) -> None:
        each.there.send(framed(CONTENT))
        clock.jump(3)

    attempt = blocked(then)
    assert attempt.timeline.last_ns == 3 * SECOND
    assert attempt.timeline.tally.max_gap_ns == 0


def test_a_read_that_is_cut_off_was_not_late_however_long_the_loop_was_blocked() -> None:
    # Nothing had come: the silence was real up to the end.
    def then(each: Bench, clock: MockClock) -> None:
        clock.jump(3)
        each.attempt.cancel("lost a duel")

    attempt = blocked(then)
    assert attempt.timeline.waited_ns == attempt.ended_ns == 3 * SECOND


# ---------------------------------------------------------------- stalls, as they begin


@pytest.mark.parametrize(("watched", "told"), [(True, [None]), (False, [])])
def test_a_stall_is_told_when_it_begins_to_whoever_wants_to_know(
    watched: bool, told: list[Gap | None]
) -> None:
    async def main(clock: MockClock) -> None:
        with bench(watched=watched) as each:
            each.there.send(HEAD + b"\r\n" + framed(CONTENT))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(each.read)
                for second in range(5):
                    await wait_all_tasks_blocked()
                    assert each.told == (told if second >= 2 else [])
                    clock.jump(1)
                nursery.cancel_scope.cancel()

    clock = MockClock()
    trio.run(main, clock, clock=clock)


def test_time_that_is_taken_by_inflating_is_no_part_of_a_stall() -> None:
    # 1.9 s are waited for a long event. The loop is then busy with its pieces, for longer than the
    # tenth of a second that was left to the threshold; but nobody waits.
    coder = zlib.compressobj(wbits=31)
    long = CONTENT.replace(b"Once ", b"a" * 400_000)
    first, second = (
        framed(coder.compress(data) + coder.flush(zlib.Z_SYNC_FLUSH)) for data in (CONTENT, long)
    )

    async def busy(clock: MockClock) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            clock.jump(0.05)

    async def main(clock: MockClock) -> None:
        with bench() as each:
            each.there.send(HEAD + b"content-encoding: gzip\r\n\r\n" + first)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(each.read)
                await wait_all_tasks_blocked()
                clock.jump(1.9)
                await wait_all_tasks_blocked()
                each.there.send(second)
                nursery.start_soon(busy, clock)
                while each.attempt.timeline.chunk_count < 2:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            assert trio.current_time() > 2
            assert each.told == []

    clock = MockClock()
    trio.run(main, clock, clock=clock)
