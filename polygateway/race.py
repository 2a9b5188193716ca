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
# Rule 3: whoever has reported reads on only when it is decided what that means. So at the commit no
#         task reads from the winner.
# Rule 4: losers are cancelled and their connections closed in the step that decides, by a close
#         that waits for nothing.
# Rule 5: the nursery closes before the application's code runs, so there is no task and no scope
#         between two chunks, and no exception group can reach the application.
# Rule 6: a stream that was delivered in part is rescued by racing again, beside the attempt that
#         delivers it or after its end. Nothing that this attempt brings is lost by it, not even
#         when the rescue is cancelled; what was started beside it is closed then.

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never, cast

import attrs
import trio

from .attempt import Attempt
from .core.decisions import Cancel, Commit, Fail, Launch, Refuse
from .core.plan import Planner
from .core.units import ns
from .errors import InternalError
from .messages import Chunk
from .net.clock import now_ns, trio_deadline
from .report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .call import Call
    from .core.decisions import Decision, Rescue
    from .core.failures import Failure
    from .stats import RefusalReason

Receive: TypeAlias = "trio.MemoryReceiveChannel[tuple[Attempt, Report]]"
_open_channel = trio.open_memory_channel[tuple[Attempt, Report]]

Until: TypeAlias = Literal["content", "end"]
"""What decides a race: the first content, or the proper end of an answer."""


@attrs.frozen
class Winner:
    """The attempt that is committed, and what it brought in the race."""

    attempt: Attempt
    chunks: Sequence[Chunk]
    """Empty in a race for whole answers."""


class Race:
    """The race for one call. It may be run again to rescue what was delivered."""

    def __init__(self, call: Call, until: Until) -> None:
        self.winner: Winner | None = None
        """Of the latest run; ``None`` before it is decided, and if nobody won."""

        self._call = call
        self._until: Until = until
        order = call.order
        self._planner = Planner(
            order.lineup.candidates,
            until=until,
            hedge=order.hedge,
            retry=order.retry,
            thresholds=order.thresholds,
            purse=order.purse,
            hold_back_ns=ns(order.stream.hold_back_s),
            deadline_ns=call.deadline_ns,
        )
        self._incumbent: Attempt | None = None
        """The attempt whose content is delivered; ``None`` before any is."""

        self._failure: tuple[Failure, Attempt] | None = None
        """What the call ends with, and the attempt that it is about."""

        self._spoke: set[int] = set()
        """The attempts that have reported content."""

        self._chunks: dict[int, list[Chunk]] = {}
        """What each attempt has reported, where that will be wanted."""

        self._untaken: dict[int, Report] = {}
        """What an attempt has read and not been able to report yet."""

    async def run(self) -> Winner:
        """Let attempts compete. The winner is the caller's, to be read from and closed.

        If cancelled, every attempt is cancelled and closed.

        Raises:
            GatewayError: no attempt won; the error of the last that failed by itself, or
                ``DeadlineExceeded`` or ``GatewayClosed``.
        """
        try:
            return await self._decided(lambda: self._carry_out(self._planner.start(now_ns())))
        finally:
            if self.winner is None:
                self._call.abandon("caller")

    async def rescue(self, incumbent: Attempt, rescue: Rescue) -> None:
        """Let others compete with an attempt that was delivered in part, or take its place.

        The :attr:`winner` may be *incumbent* itself, which then goes on as if nothing had been.

        If cancelled, it stays the winner, and all others are closed.

        Args:
            incumbent: the attempt, from which nobody reads. It has fallen silent or failed.
            rescue: what may be started.

        Raises:
            GatewayError: as :meth:`run`; *incumbent* has failed, too.
            trio.ClosedResourceError: another task left the call.
        """
        self.winner, self._incumbent, self._failure = None, incumbent, None
        self._chunks.clear()
        self._planner.reopen(incumbent.spoke_ns or incumbent.started_ns, rescue)
        self._call.reopen()
        try:
            await self._decided(lambda: self._begin_rescue(incumbent))
        except trio.Cancelled:
            self._stand_down(incumbent)
            raise
        except Exception:
            self._call.abandon("caller")
            raise

    def silent_at_ns(self, attempt: Attempt) -> int | None:
        """Tell when the attempt that was committed counts as silent if nothing comes.

        ``None``: silences start nothing.
        """
        if attempt.spoke_ns is None:
            return None
        return self._planner.silent_at_ns(attempt.spoke_ns, attempt.excused_ns)

    def brought(self, incumbent: Attempt) -> Sequence[Chunk]:
        """Give what *incumbent* brought in a rescue that was decided for nobody."""
        report = self._untaken.pop(incumbent.index, None)
        if report is not None:
            self._keep(incumbent, report)
        return self._chunks.get(incumbent.index, ())

    # In the task that wants a winner

    async def _decided(self, begin: Callable[[], None]) -> Winner:
        try:
            await self._race(begin)
        except BaseExceptionGroup as group:
            plain = _plain(group)
            if isinstance(plain, InternalError):
                self._call.describe(plain, None)
            raise plain from plain.__cause__
        if self._failure is not None:
            raise self._call.describe(*self._failure)
        if self.winner is None:
            if self._call.ended_ns is not None and not self._call.shut_down:
                raise trio.ClosedResourceError("the block of this stream was left")
            self._call.abandon("deadline")
            raise self._call.interrupted(self._incumbent or self._front())
        return self.winner

    def _front(self) -> Attempt | None:
        self._listen()
        front = self._planner.front()
        return None if front is None else self._call.attempts[front]

    async def _race(self, begin: Callable[[], None]) -> None:
        send, receive = _open_channel(0)
        with send, receive:
            async with trio.open_nursery() as nursery:
                self._call.govern(nursery.cancel_scope)
                self._nursery, self._send, self._turn = nursery, send, trio.Event()
                begin()
                while not self._is_over:
                    self._decide(await self._next_reports(receive))
                    self._turn.set()
                    self._turn = trio.Event()

    @property
    def _is_over(self) -> bool:
        return self.winner is not None or self._failure is not None

    def _begin_rescue(self, incumbent: Attempt) -> None:
        if incumbent.failure is None:
            self._start(incumbent)
            self._tick(now_ns())
        else:
            self._take_failure(incumbent, incumbent.failure)

    def _stand_down(self, incumbent: Attempt) -> None:
        """Let *incumbent* go on alone, unless something was decided before."""
        if self.winner is not None:
            return
        report = self._untaken.get(incumbent.index)
        if report is not None and report.failure is not None:
            self._call.fail(incumbent, report.failure)
        self.winner = Winner(incumbent, self.brought(incumbent))
        self._call.stand_down(incumbent)

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
        over = False
        while not (over or self._is_over):
            report = await attempt.read()
            over = report.over
            if over or self._is_news(attempt, report):
                await self._tell(attempt, report)

    def _is_news(self, attempt: Attempt, report: Report) -> bool:
        # The first content is always reported: from then on another silence counts.
        is_first = attempt.index not in self._spoke
        return report.content and (is_first or self._planner.disputed(attempt.index))

    async def _tell(self, attempt: Attempt, report: Report) -> None:
        """Report, and wait until it is decided what that means."""
        self._untaken[attempt.index] = report
        turn = self._turn
        await self._send.send((attempt, report))
        await turn.wait()

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
        if not self._is_over and self._call.ended_ns is None:
            self._tick(now_ns())

    def _take(self, attempt: Attempt, report: Report) -> None:
        del self._untaken[attempt.index]
        self._keep(attempt, report)
        if report.failure is not None:
            # What came before it in the same read wins nothing: the attempt is already over. It is
            # delivered if it goes on with what was, and nobody takes its place.
            self._call.fail(attempt, report.failure)
            self._take_failure(attempt, report.failure)
            return
        if report.content:
            self._spoke.add(attempt.index)
            self._carry_out(self._planner.content(attempt.index, report.at_ns))
        if report.ended and not self._is_over:
            empty = not attempt.timeline.chunk_count
            self._carry_out(self._planner.ended(attempt.index, empty=empty))

    def _take_failure(self, attempt: Attempt, failure: Failure) -> None:
        share = random.random()  # noqa: S311 - jitter, no secret
        self._carry_out(self._planner.failed(attempt.index, failure, now_ns(), share))

    def _keep(self, attempt: Attempt, report: Report) -> None:
        """Keep what a stream will deliver. A whole answer is kept by its attempt."""
        if self._until == "content":
            self._chunks.setdefault(attempt.index, []).extend(report.chunks)

    def _tick(self, now: int) -> None:
        if not self._is_due(now):
            return
        self._listen()
        if self._is_due(now):
            for index in self._planner.live():
                self._call.fell_silent(self._call.attempts[index])
            self._carry_out(self._planner.tick(now))

    def _is_due(self, now: int) -> bool:
        wake = self._planner.wake_ns()
        return wake is not None and now >= wake

    def _listen(self) -> None:
        """Tell the planner what the attempts have not reported."""
        for index in self._planner.live():
            attempt = self._call.attempts[index]
            self._planner.heard(index, attempt.spoke_ns)
            self._planner.excuse(index, attempt.excused_ns)

    def _carry_out(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Launch():
                    self._start(self._call.launch(decision))
                case Cancel():
                    self._call.lose(decision.attempt, decision.reason)
                case Commit():
                    self._call.commit(decision.attempt)
                    attempt = self._call.attempts[decision.attempt]
                    self.winner = Winner(attempt, self._chunks.get(attempt.index, ()))
                case Fail():
                    self._end(self._call.attempts[decision.attempt], decision.not_tried)
                case Refuse():
                    self._call.refuse(decision)
                case _:
                    assert_never(decision)

    def _end(self, attempt: Attempt, not_tried: RefusalReason | None) -> None:
        if attempt.failure is not None:
            attempt.failure.not_tried = not_tried
            self._failure = attempt.failure, attempt

    def _start(self, attempt: Attempt) -> None:
        attempt.scope = trio.CancelScope()
        self._nursery.start_soon(self._compete, attempt, name=str(attempt))


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
