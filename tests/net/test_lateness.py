"""Told apart: waiting for the provider, and waiting for our own event loop."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, TypeVar

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from polygateway.net.clock import now_ns
from polygateway.net.lateness import LoopWatch
from polygateway.net.stream import TimedStream
from polygateway.testing import run_virtual
from tests.net.wires import SECOND, wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    T = TypeVar("T")


class Loop:
    """A loop that turns by hand: tasks run for so long, then it polls for so long."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self.watch = LoopWatch()

    def busy(self, seconds: float) -> None:
        self._clock.jump(seconds)

    def poll(self, seconds: float) -> None:
        self.watch.before_io_wait(seconds)
        self._clock.jump(seconds)
        self.watch.after_io_wait(seconds)

    def late_since(self, asked_ns: int) -> float:
        """Tell how late a read was, in seconds, that returns now."""
        return self.watch.late_ns(asked_ns, now_ns()) / SECOND


def by_hand(main: Callable[[Loop], T]) -> T:
    """Run *main* with a loop of its own, under a clock that moves by hand only."""

    async def outer(clock: MockClock) -> T:
        await trio.lowlevel.checkpoint()
        return main(Loop(clock))

    clock = MockClock()
    return trio.run(outer, clock, clock=clock)


def read(*, asked_after: float, busy: float, poll: float, until_its_turn: float) -> float:
    """Give how late a read was.

    Args:
        asked_after: how long the tasks had run when it was begun, since the poll before.
        busy: how long they ran after that.
        poll: how long the poll then took that found its bytes.
        until_its_turn: how long other tasks ran before the reader.
    """

    def main(loop: Loop) -> float:
        loop.poll(0)
        loop.busy(asked_after)
        asked = now_ns()
        loop.busy(busy)
        loop.poll(poll)
        loop.busy(until_its_turn)
        return loop.late_since(asked)

    return by_hand(main)


def test_what_was_waited_in_the_poll_is_the_providers() -> None:
    assert read(asked_after=0, busy=0, poll=5, until_its_turn=0) == 0


def test_what_tasks_ran_before_the_poll_that_found_the_bytes_may_have_been_late() -> None:
    # A coroutine computes for 1 s; the bytes may have been in the kernel all the time.
    assert read(asked_after=0, busy=1, poll=0, until_its_turn=0) == 1


def test_what_tasks_ran_between_that_poll_and_the_readers_turn_was_late() -> None:
    assert read(asked_after=0, busy=0, poll=3, until_its_turn=1) == 1


def test_both_add_up_and_the_poll_between_them_stays_the_providers() -> None:
    # 1 s, then 3 s in the poll, then 2 s: of the 6 s, 3 were the provider's silence.
    assert read(asked_after=0, busy=1, poll=3, until_its_turn=2) == 3


def test_what_tasks_ran_before_the_read_was_begun_is_no_lateness() -> None:
    # An application that works for 2 s on each chunk, without a checkpoint, and then waits for 3 s:
    # these 3 s are the provider's.
    assert read(asked_after=2, busy=0, poll=3, until_its_turn=0) == 0
    assert read(asked_after=2, busy=1, poll=0, until_its_turn=0) == 1


def test_a_poll_that_did_not_find_the_bytes_clears_what_tasks_ran_before_it() -> None:
    # What the last poll found came after the one before it, so it cannot have waited so long.
    def main(loop: Loop) -> float:
        asked = now_ns()
        loop.busy(1)
        loop.poll(0)
        loop.poll(5)
        return loop.late_since(asked)

    assert by_hand(main) == 0


def test_a_read_that_finds_its_bytes_at_once_has_waited_for_nobody() -> None:
    # It is begun after the poll, and ends without another: all of its time is ours.
    def main(loop: Loop) -> float:
        loop.poll(7)
        loop.busy(2)
        asked = now_ns()
        loop.busy(0.5)
        return loop.late_since(asked)

    assert by_hand(main) == 0.5


SECONDS = st.integers(0, 10).map(float)


@given(
    turns=st.lists(st.tuples(SECONDS, SECONDS), max_size=3),
    asked_after=SECONDS,
    busy=SECONDS,
    came_after=SECONDS,
    until_its_turn=SECONDS,
)
def test_a_silence_is_never_overestimated(
    turns: list[tuple[float, float]],
    asked_after: float,
    busy: float,
    came_after: float,
    until_its_turn: float,
) -> None:
    """After some turns tasks run for *busy*; bytes come *came_after* their beginning."""

    def main(loop: Loop) -> None:
        loop.poll(0)
        loop.busy(asked_after)
        asked = now_ns()
        for ran, polled in turns:
            loop.busy(ran)
            loop.poll(polled)
        came = max(now_ns(), asked) + round(came_after * SECOND)
        loop.busy(busy)
        loop.poll(max(came - now_ns(), 0) / SECOND)  # it ends with the bytes
        loop.busy(until_its_turn)
        waited = now_ns() - asked - loop.watch.late_ns(asked, now_ns())
        assert 0 <= waited <= came - asked

    by_hand(main)


# ---------------------------------------------------------------- with trio's own loop


async def late_of_a_socket(between: Callable[[socket.socket], Awaitable[None]]) -> float:
    """Read from a socket, whose other end is given away; tell how late that was, in seconds."""
    watch, late = LoopWatch(), list[int]()
    here, there = socket.socketpair()
    client = trio.SocketStream(trio.socket.from_stdlib_socket(here))
    timed = TimedStream(client)
    timed.on_read = lambda asked, arrived, _: late.append(watch.late_ns(asked, arrived))
    trio.lowlevel.add_instrument(watch)
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(timed.read, 100)
        await wait_all_tasks_blocked()
        await between(there)
    trio.lowlevel.remove_instrument(watch)
    there.close()
    return late[0] / SECOND


def test_bytes_that_come_while_a_coroutine_blocks_the_loop_are_late() -> None:
    clock = MockClock()

    async def block(there: socket.socket) -> None:
        await trio.lowlevel.checkpoint()
        there.send(b"x")
        clock.jump(1)  # no checkpoint: the loop is blocked for so long

    assert trio.run(late_of_a_socket, block, clock=clock) == 1


def test_a_blocked_loop_does_not_excuse_the_silence_after_it() -> None:
    clock = MockClock()

    async def block(there: socket.socket) -> None:
        clock.jump(1)
        await wait_all_tasks_blocked()  # the loop has looked, and nothing was there
        there.send(b"x")

    assert trio.run(late_of_a_socket, block, clock=clock) == 0


@pytest.mark.parametrize("pause_s", [0, 0.001, 60])
def test_a_clock_that_jumps_over_waits_makes_nothing_late(pause_s: float) -> None:
    late: list[int] = []

    async def main() -> None:
        watch = LoopWatch()
        trio.lowlevel.add_instrument(watch)
        client, server = wire()
        timed = TimedStream(client)
        timed.on_read = lambda asked, arrived, _: late.append(watch.late_ns(asked, arrived))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(timed.read, 100)
                await trio.sleep(pause_s)
                await server.send_all(b"x")
                await wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(watch)

    run_virtual(main)
    assert late == [0, 0, 0]
