"""The race: a nursery in which attempts compete until one is committed or none is left."""

# Theory of operation
# ===================
#
# Rule 1: attempts are child tasks, each under its own cancel scope. Whatever decides something goes
#         over a memory channel without buffer to the task that opened the nursery, which asks the
#         planner and carries out its decisions before anything else can happen. An attempt whose
#         content decides nothing keeps it to itself: no task switch and no timer for each chunk.
# Rule 2: everything that waits in the channel is taken before a decision. At equal stamps the
#         front speaks first. What comes later has lost, for the gate does not let it pass.
# Rule 3: a child never outlives what it may say: it returns after its last report, or after the
#         content that a stream is handed over with. So at the commit no task reads from the winner.
# Rule 4: losers are cancelled and their connections closed in the step that decides, by a close
#         that waits for nothing.
# Rule 5: the nursery closes before the application's code runs, so there is no task and no scope
#         between two chunks, and no exception group can reach the application.

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never, cast

import attrs
import trio

from .attempt import Attempt, Report
from .core.plan import Cancel, Commit, Fail, Launch, Planner, Refuse
from .errors import InternalError
from .net.clock import now_ns, trio_deadline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .call import Call
    from .core.failures import Failure
    from .core.plan import Decision

Receive: TypeAlias = "trio.MemoryReceiveChannel[tuple[Attempt, Report]]"

Until: TypeAlias = Literal["content", "end"]
"""What decides a race: the first content, or the proper end of an answer."""


@attrs.frozen
class Winner:
    """The attempt that is committed, and what it brought with the deciding read."""

    attempt: Attempt
    report: Report


async def race(call: Call, until: Until) -> Winner:
    """Let attempts compete for *call*. The winner is the caller's, to be read from and closed.

    If cancelled, every attempt is cancelled and closed.

    Raises:
        GatewayError: no attempt won; the error of the last that failed by itself, or
            ``DeadlineExceeded`` or ``GatewayClosed``.
    """
    running = _Race(call, until)
    winner: Winner | None = None
    try:
        with call.scope:
            winner = await running.run()
    except BaseExceptionGroup as group:
        plain = _plain(group)
        if isinstance(plain, InternalError):
            call.describe(plain, None)
        raise plain from plain.__cause__
    finally:
        if winner is None:
            call.abandon("deadline" if call.scope.cancel_called else "caller")
    if winner is None:
        raise call.interrupted(running.front())
    return winner


class _Race:
    def __init__(self, call: Call, until: Until) -> None:
        self._call = call
        self._until: Until = until
        order = call.order
        self._planner = Planner(
            targets=len(order.routes),
            until=until,
            hedge=order.hedge,
            retry=order.retry,
            purse=order.purse,
            deadline_ns=call.deadline_ns,
        )
        self._reports: dict[int, Report] = {}
        """The latest report of each attempt."""

        self._outcome: Winner | Failure | None = None

    def front(self) -> Attempt | None:
        """Give the attempt that is ahead; ``None`` if none lives."""
        self._listen()
        front = self._planner.front()
        return None if front is None else self._call.attempts[front]

    async def run(self) -> Winner:
        """Race until there is a winner, or nobody left."""
        send, receive = trio.open_memory_channel[tuple[Attempt, Report]](0)
        with send, receive:
            async with trio.open_nursery() as nursery:
                self._nursery, self._send = nursery, send
                self._carry_out(self._planner.start(now_ns()))
                while self._outcome is None:
                    self._decide(await self._next_reports(receive))
        if isinstance(self._outcome, Winner):
            return self._outcome
        raise self._outcome

    # In the attempts' tasks

    async def _compete(self, attempt: Attempt) -> None:
        with attempt.scope:
            try:
                await self._run(attempt)
            except trio.ClosedResourceError:
                # Whoever cancels an attempt closes it, and that may be seen first.
                if not attempt.scope.cancel_called:
                    raise

    async def _run(self, attempt: Attempt) -> None:
        over = spoke = False
        while not over:
            report = await attempt.read()
            over = report.over or (self._until == "content" and report.content)
            # The first content is always reported: from then on another silence counts.
            news = report.content and (not spoke or self._planner.disputed(attempt.index))
            if over or news:
                await self._send.send((attempt, report))
                spoke = True

    # In the task of the nursery

    async def _next_reports(self, receive: Receive) -> list[tuple[Attempt, Report]]:
        """Wait for a report or for the planner's time, then take all that waits."""
        reports: list[tuple[Attempt, Report]] = []
        with trio.CancelScope(deadline=trio_deadline(self._planner.wake_ns())):
            reports.append(await receive.receive())
        if not reports:
            # After a time in which the loop was blocked, bytes may wait that have silenced nobody:
            # whoever was woken with this task has its turn before a hedge is due.
            await trio.lowlevel.checkpoint()
        waiting = receive.statistics().tasks_waiting_send
        reports += [receive.receive_nowait() for _ in range(waiting)]
        front = self._planner.front()
        return sorted(reports, key=lambda each: (each[1].at_ns, each[0].index != front))

    def _decide(self, reports: list[tuple[Attempt, Report]]) -> None:
        for index in self._planner.live():
            self._planner.excuse(index, self._call.attempts[index].excused_ns)
        for attempt, report in reports:
            if self._call.gate.may_speak(attempt.index):
                self._take(attempt, report)
        if self._outcome is None and not self._call.shut_down:
            self._tick(now_ns())

    def _take(self, attempt: Attempt, report: Report) -> None:
        self._reports[attempt.index] = report
        if report.failure is not None:
            # What came before it in the same read wins nothing: the attempt is already over.
            self._call.fail(attempt, report.failure)
            share = random.random()  # noqa: S311 - jitter, no secret
            self._carry_out(self._planner.failed(attempt.index, report.failure, now_ns(), share))
            return
        if report.content:
            self._carry_out(self._planner.content(attempt.index, report.at_ns))
        if report.ended and self._outcome is None:
            empty = not attempt.timeline.chunk_count
            self._carry_out(self._planner.ended(attempt.index, empty=empty))

    def _tick(self, now: int) -> None:
        wake = self._planner.wake_ns()
        if wake is None or now < wake:
            return
        self._listen()
        self._carry_out(self._planner.tick(now))

    def _listen(self) -> None:
        """Tell the planner what the attempts have not reported."""
        for index in self._planner.live():
            attempt = self._call.attempts[index]
            self._planner.heard(index, attempt.timeline.last_ns)
            self._planner.excuse(index, attempt.excused_ns)

    def _carry_out(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Launch():
                    attempt = self._call.launch(decision)
                    self._nursery.start_soon(self._compete, attempt, name=str(attempt))
                case Cancel():
                    self._call.lose(decision.attempt, decision.reason)
                case Commit():
                    self._call.commit(decision.attempt)
                    attempt = self._call.attempts[decision.attempt]
                    self._outcome = Winner(attempt, self._reports[decision.attempt])
                case Fail():
                    failure = self._call.failures[-1]
                    failure.not_tried = decision.not_tried
                    self._outcome = self._call.describe(
                        failure, self._call.attempts[decision.attempt]
                    )
                case Refuse():
                    self._call.refuse(decision)
                case _:
                    assert_never(decision)


def _plain(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Give the one exception that a nursery's group means.

    An interrupt of the program goes first, then a defect; else the group is a cancellation.
    """
    errors = list(leaves(group))
    for error in errors:
        if not isinstance(error, Exception | trio.Cancelled):
            return error
    for error in errors:
        if isinstance(error, Exception):
            return InternalError.because(error)
    return errors[0]


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Give the exceptions that are no groups in *error*, or *error* itself."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for each in cast("BaseExceptionGroup[BaseException]", error).exceptions:
        yield from leaves(each)
