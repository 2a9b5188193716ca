"""One call: what was asked, its attempts, what became of each, and the figures of it all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypedDict, TypeVar

import attrs
import trio

from .attempt import Attempt
from .core.budget import Purse
from .core.gate import AttemptState, Gate
from .core.units import ns
from .errors import DeadlineExceeded, GatewayClosed, InternalError
from .messages import ChatRequest
from .net.clock import now_ns, trio_deadline
from .policies import HedgePolicy, Limits, RetryPolicy, StreamPolicy
from .route import Route
from .stats import AttemptStats, CallStats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .core.failures import Failure
    from .core.plan import Launch
    from .core.timeline import Timeline
    from .errors import GatewayError
    from .messages import Completion
    from .stats import Outcome, RefusalReason

    G = TypeVar("G", bound=GatewayError)

_OUTCOMES: Mapping[AttemptState, Outcome | None] = {
    AttemptState.RUNNING: None,
    AttemptState.WON: "won",
    AttemptState.LOST: "lost",
    AttemptState.FAILED: "failed",
    AttemptState.CANCELLED: "cancelled",
}


@attrs.frozen(kw_only=True)
class Order:
    """What was asked for, and by which rules it is to be had."""

    model: str
    routes: Sequence[Route]
    """The model's targets, the primary first."""

    request: ChatRequest
    hedge: HedgePolicy
    retry: RetryPolicy
    stream: StreamPolicy
    limits: Limits
    purse: Purse
    deadline_s: float | None
    """How long the call may take; ``None`` for any time."""


class Call:
    """Owns the attempts of a call. Times are nanoseconds of the one clock."""

    def __init__(self, order: Order) -> None:
        self.order: Order = order
        self.started_ns: int = now_ns()
        self.committed_ns: int | None = None
        """When the gate chose; ``None`` before."""

        self.ended_ns: int | None = None
        """When the call ended, however; ``None`` while it runs."""

        self.gate: Gate = Gate()
        self.attempts: list[Attempt] = []
        """By index, like the gate's."""

        self.failures: list[Failure] = []
        """What attempts failed with, in order; each has the one before it as its cause."""

        self.refused: Mapping[RefusalReason, int] = {}
        """How many hedges that were due did not start, by why."""

        self.shut_down: bool = False
        """Whether the gateway was left while the call ran."""

        limit = order.deadline_s
        self.deadline_ns: int | None = None if limit is None else self.started_ns + ns(limit)
        self.scope: trio.CancelScope = trio.CancelScope(deadline=trio_deadline(self.deadline_ns))
        """Around the race: what the deadline and a shutdown cancel."""

    # Attempts

    def launch(self, launch: Launch) -> Attempt:
        """Make the next attempt."""
        order = self.order
        attempt = Attempt(
            order.routes[launch.target],
            order.request,
            index=self.gate.launch(),
            kind=launch.kind,
            reason=launch.reason,
            policy=order.stream,
            limits=order.limits,
        )
        self.attempts.append(attempt)
        return attempt

    def commit(self, winner: int) -> None:
        """Let *winner* speak from now on, and end every other attempt."""
        losers = self.gate.commit(winner)
        self.committed_ns = now_ns()
        with ExitStack() as closing:
            for loser in losers:
                closing.callback(self.attempts[loser].cancel, "lost the race")

    def lose(self, attempt: int, reason: str) -> None:
        """Take an attempt out of the open race."""
        self.gate.lose(attempt)
        self.attempts[attempt].cancel(reason)

    def fail(self, attempt: Attempt, failure: Failure) -> None:
        """Note that *attempt* ended by its own fault."""
        self.gate.fail(attempt.index)
        failure.__cause__ = self.failures[-1] if self.failures else None
        self.failures.append(failure)

    def abandon(self, reason: str) -> None:
        """End the call: every attempt that is still under way is cancelled from outside.

        Raises:
            InternalError: a connection could not be closed; all others were.
        """
        self.end()
        try:
            with ExitStack() as closing:
                for attempt in self.attempts:
                    closing.callback(self._abandon, attempt, reason)
        except Exception as error:
            raise InternalError.because(error) from error

    def _abandon(self, attempt: Attempt, reason: str) -> None:
        state = self.gate.attempts[attempt.index]
        if state is AttemptState.RUNNING or (state is AttemptState.WON and not attempt.whole):
            self.gate.cancel(attempt.index)
            attempt.cancel(reason)
        else:
            attempt.close()

    def shut(self) -> None:
        """End the call because the gateway is left: whoever waits in it learns of it."""
        self.shut_down = True
        self.scope.cancel(reason="the gateway was left")
        self.abandon("shutdown")

    def end(self) -> None:
        """Note that the call has ended. Only the first time counts."""
        if self.ended_ns is None:
            self.ended_ns = now_ns()
            self.gate.end()

    # Figures

    def attempt_stats(self) -> tuple[AttemptStats, ...]:
        """Give the record of every attempt up to now."""
        return tuple(map(self._attempt_stats, self.attempts))

    def stats(self, attempt: Attempt) -> CallStats:
        """Give the figures of the call up to now, its stream being *attempt*'s."""
        hedges = [attempt for attempt in self.attempts if attempt.kind == "hedge"]
        committed = self.committed_ns
        return CallStats(
            **_figures(attempt.timeline, self.started_ns, self.ended_ns),
            attempts=self.attempt_stats(),
            hedge_reason=hedges[0].reason if hedges else None,
            hedges_refused=dict(self.refused),
            commit_ms=None if committed is None else _ms(committed - self.started_ns),
        )

    def completion(self, attempt: Attempt) -> Completion:
        """Give what *attempt*, whose reply has begun, has received up to now."""
        decoder, head = attempt.decoder, attempt.head
        if decoder is None or head is None:
            raise InternalError(f"{attempt} has no reply (please report it)")
        return decoder.answer.completion(
            target=attempt.route.name,
            request_id=attempt.request_id,
            headers=head.headers,
            stats=self.stats(attempt),
            ended=attempt.whole,
        )

    # Failing

    def interrupted(self, front: Attempt | None) -> DeadlineExceeded | GatewayClosed:
        """Say what ended the call from outside while *front* was ahead."""
        error: DeadlineExceeded | GatewayClosed
        model = self.order.model
        count = f"{len(self.attempts)} attempt{'s' if len(self.attempts) != 1 else ''}"
        if self.shut_down:
            error = GatewayClosed(f"the gateway was left while the call to {model!r} ran ({count})")
        else:
            error = DeadlineExceeded(
                f"the call to {model!r} took longer than {self.order.deadline_s:g} s"
                f" (deadline_s; {count})"
            )
        error.__cause__ = self.failures[-1] if self.failures else None
        return self.describe(error, front)

    def describe(self, error: G, attempt: Attempt | None) -> G:
        """Put the record of every attempt into *error*, and what *attempt* had received."""
        error.attempts = self.attempt_stats()
        if attempt is not None and attempt.timeline.chunk_count:
            error.partial = self.completion(attempt)
        return error

    def _attempt_stats(self, attempt: Attempt) -> AttemptStats:
        failure = attempt.failure
        return AttemptStats(
            **_figures(attempt.timeline, attempt.started_ns, attempt.ended_ns),
            index=attempt.index,
            target=attempt.route.name,
            kind=attempt.kind,
            reason=attempt.reason,
            started_ms=(attempt.started_ns - self.started_ns) / 1e6,
            outcome=_OUTCOMES[self.gate.attempts[attempt.index]],
            cancel_reason=attempt.cancel_reason,
            cancel_to_closed_ms=_ms(attempt.cancel_to_closed_ns),
            status=None if attempt.head is None else attempt.head.status,
            request_id=attempt.request_id,
            error=None if failure is None else f"{type(failure).__name__}: {failure}",
            error_kind=None if failure is None else failure.kind,
        )


class _Figures(TypedDict):
    """The fields of :class:`StreamFigures`."""

    chunk_count: int
    ttft_ms: float | None
    generation_ms: float | None
    stall_ms: float | None
    stall_gap_count: int | None
    stall_count: int | None
    active_generation_ms: float | None
    max_gap_ms: float | None
    total_ms: float


def _figures(timeline: Timeline, start_ns: int, end_ns: int | None) -> _Figures:
    """Give a stream's figures in milliseconds, as seen from *start_ns*."""
    figures = timeline.figures()
    first = timeline.first_ns
    return {
        "chunk_count": figures.chunk_count,
        "ttft_ms": None if first is None else _ms(first - start_ns),
        "generation_ms": _ms(figures.generation_ns),
        "stall_ms": _ms(figures.stall_ns),
        "stall_gap_count": figures.stall_gap_count,
        "stall_count": figures.stall_count,
        "active_generation_ms": _ms(figures.active_generation_ns),
        "max_gap_ms": _ms(figures.max_gap_ns),
        "total_ms": ((now_ns() if end_ns is None else end_ns) - start_ns) / 1e6,
    }


def _ms(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / 1e6
