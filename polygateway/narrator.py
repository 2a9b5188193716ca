"""From what becomes of a call to the events that instruments are told of."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from .core.figures import stall
from .instrument import (
    AttemptEnded,
    AttemptStarted,
    CallEnded,
    CallStarted,
    Committed,
    HedgeRefused,
    SeamMade,
    StallBegan,
    StallEnded,
)
from .net.clock import now_ns
from .record import ending, trace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .attempt import Attempt
    from .core.decisions import Refuse
    from .core.tally import Gap
    from .errors import GatewayError
    from .instrument import CallOutcome
    from .reporting import Audience
    from .route import Route
    from .stats import AttemptStats, CallStats, Seam

_NUMBERS = count(1)


class Narrator:
    """Tells an audience of one call. Without an audience it costs a look."""

    def __init__(self, audience: Audience, *, model: str, stream: bool) -> None:
        """Prepare to tell of a call.

        Args:
            audience: the gateway's instruments.
            model: what is asked for.
            stream: whether by ``gw.stream(...)``.
        """
        self._audience = audience
        self._call = next(_NUMBERS)
        self._model = model
        self._stream = stream

    @property
    def is_heard(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self._audience)

    @property
    def hears_stalls(self) -> bool:
        """Whether somebody wants to know of stalls."""
        return self._audience.hears_stalls

    @property
    def wants_traces(self) -> bool:
        """Whether somebody wants the timelines of attempts."""
        return self._audience.wants_traces

    def call_started(self, at_ns: int, routes: Sequence[Route]) -> None:
        """Tell that the application called, for an answer of one of the targets of *routes*."""
        if self._audience:
            self._audience.tell(
                CallStarted(
                    call=self._call,
                    at_ns=at_ns,
                    model=self._model,
                    stream=self._stream,
                    targets=[route.name for route in routes],
                )
            )

    def attempt_started(self, attempt: Attempt) -> None:
        """Tell that an attempt began."""
        if not self._audience:
            return
        route = attempt.route
        self._audience.tell(
            AttemptStarted(
                call=self._call,
                at_ns=attempt.started_ns,
                attempt=attempt.index,
                kind=attempt.kind,
                reason=attempt.reason,
                target=route.name,
                dialect=route.target.dialect,
                provider_model=route.target.model,
                host=route.connections.endpoint.host,
                port=route.connections.endpoint.port,
            )
        )

    def stalled(self, attempt: Attempt, gap: Gap | None) -> None:
        """Tell that an attempt stalls or, with the gap, that it did.

        A stall whose beginning nobody saw, because reads kept returning, is told as a whole.
        """
        at_ns = _until_ns(attempt)
        if not attempt.in_stall:
            attempt.in_stall = True
            self._audience.tell(
                StallBegan(
                    call=self._call,
                    at_ns=at_ns,
                    attempt=attempt.index,
                    target=attempt.route.name,
                    after_chunk=attempt.timeline.chunk_count - 1
                    if gap is None
                    else gap.after_chunk,
                )
            )
        if gap is not None:
            attempt.in_stall = False
            self._audience.tell(
                StallEnded(
                    call=self._call,
                    at_ns=at_ns,
                    attempt=attempt.index,
                    target=attempt.route.name,
                    stall=stall(gap, ending(attempt)),
                )
            )

    def hedge_refused(self, refusal: Refuse) -> None:
        """Tell that a hedge was due and did not start."""
        if self._audience:
            self._audience.tell(
                HedgeRefused(
                    call=self._call, at_ns=now_ns(), reason=refusal.reason, why=refusal.why
                )
            )

    def committed(self, attempt: Attempt, at_ns: int) -> None:
        """Tell that the race was decided for *attempt*."""
        if self._audience:
            self._audience.tell(
                Committed(
                    call=self._call,
                    at_ns=at_ns,
                    attempt=attempt.index,
                    target=attempt.route.name,
                )
            )

    def seam(self, seam: Seam, at_ns: int) -> None:
        """Tell that the attempt which was just committed took over from another one."""
        if self._audience:
            self._audience.tell(SeamMade(call=self._call, at_ns=at_ns, seam=seam))

    def attempt_ended(self, attempt: Attempt, stats: AttemptStats) -> None:
        """Tell that an attempt came to its end. Only if :attr:`is_heard`."""
        if attempt.in_stall or not attempt.whole:
            self._still_open(attempt)
        self._audience.tell(
            AttemptEnded(
                call=self._call,
                at_ns=_until_ns(attempt),
                stats=stats,
                trace=trace_of(attempt) if self._audience.wants_traces else None,
            )
        )

    def _still_open(self, attempt: Attempt) -> None:
        """Tell that the silence at an attempt's end is over, if it was a stall."""
        timeline = attempt.timeline
        gap = timeline.tally.open_gap(timeline.waited_ns, timeline.keepalives)
        if gap is not None:
            self.stalled(attempt, gap._replace(is_open=not attempt.whole))

    def call_ended(
        self,
        front: Attempt,
        stats: CallStats,
        *,
        at_ns: int,
        outcome: CallOutcome,
        error: GatewayError | None,
    ) -> CallEnded:
        """Tell that the call came to its end; give the event."""
        answer = front.decoder.answer if front.decoder is not None else None
        event = CallEnded(
            call=self._call,
            at_ns=at_ns,
            model=self._model,
            stream=self._stream,
            outcome=outcome,
            error=error,
            stats=stats,
            usage=front.usage,
            finish_reason=None if answer is None else answer.raw_finish_reason,
            provider_model=None if answer is None else answer.model,
            response_id=None if answer is None else answer.id,
        )
        self._audience.tell(event)
        return event


def _until_ns(attempt: Attempt) -> int:
    """Give when an attempt ended, which may be told later; now if it has not."""
    return now_ns() if attempt.ended_ns is None else attempt.ended_ns
