"""What is put on record of attempts and of calls."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, cast

import attrs

from .core.figures import Ending, as_waited_for, figures
from .core.recording import Recording
from .core.waste import Cost, wasted
from .errors import ConnectFailed, GatewayBusy, Truncated
from .net.clock import now_ns
from .stats import AttemptStats, CallStats, StreamFigures
from .trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .attempt import Attempt
    from .core.figures import Figures
    from .stats import EndKind, Outcome, RefusalReason, Seam, Waste

_FIGURES = tuple(field.name for field in attrs.fields(StreamFigures))
_figure_values = attrgetter(*_FIGURES)


def attempt_record(
    attempt: Attempt,
    *,
    called_ns: int,
    outcome: Outcome | None,
    winner: Attempt | None,
    kept: bool,
) -> AttemptStats:
    """Give the record of an attempt up to now.

    Args:
        attempt: the attempt.
        called_ns: when the application called.
        outcome: what became of it; ``None`` while it runs.
        winner: the one that was committed last, by which waste is estimated; ``None`` if none was.
        kept: whether its content is part of what the caller got, so that it was not in vain.
    """
    failure = attempt.failure if outcome == "failed" else None
    head, end = attempt.head, ending(attempt)
    return AttemptStats(
        **figures(attempt.timeline.tally, end),
        index=attempt.index,
        target=attempt.route.name,
        kind=attempt.kind,
        reason=attempt.reason,
        left_out=attempt.left_out,
        started_ms=(attempt.started_ns - called_ns) / 1e6,
        sent_ms=_since(attempt.sent_ns, attempt.started_ns),
        headers_ms=_since(attempt.headers_ns, attempt.started_ns),
        outcome=outcome,
        end_kind=end.end_kind,
        cancel_reason=attempt.cancel_reason,
        cancel_to_closed_ms=_since(attempt.cancel_to_closed_ns, 0),
        status=None if head is None else head.status,
        request_id=attempt.request_id,
        error=None if failure is None else f"{type(failure).__name__}: {failure}",
        error_kind=None if failure is None else failure.kind,
        characters=attempt.timeline.tally.characters,
        usage=end.usage,
        wasted=None if outcome is None or kept else _waste(attempt, winner),
    )


def call_record(
    attempts: Sequence[AttemptStats],
    front: Attempt,
    *,
    called_ns: int,
    committed_ns: int | None,
    ended_ns: int | None,
    refused: Mapping[RefusalReason, int],
    seams: Sequence[Seam],
    holdout: bool | None,
) -> CallStats:
    """Give the record of a call up to now.

    Args:
        attempts: the records of its attempts, in order of launch.
        front: the one whose figures are the call's.
        called_ns: when the application called.
        committed_ns: when the race was first decided; ``None`` if it was not.
        ended_ns: when the call ended; ``None`` while it runs.
        refused: how many hedges that were due did not start, by why.
        seams: where another attempt took over, in order.
        holdout: whether it was kept from being hedged; ``None`` if nothing is hedged in any case.
    """
    until = now_ns() if ended_ns is None else ended_ns
    seen = as_waited_for(
        _figures_in(attempts[front.index]),
        front.timeline.tally,
        front.form,
        since_ns=called_ns,
        until_ns=until,
    )
    hedges = [attempt for attempt in attempts if attempt.kind == "hedge"]
    return CallStats(
        **seen,
        attempts=attempts,
        front=front.index,
        hedge_reason=hedges[0].reason if hedges else None,
        hedge_after_ms=hedges[0].started_ms if hedges else None,
        hedges_refused=dict(refused),
        commit_ms=_since(committed_ns, called_ns),
        seams=tuple(seams),
        holdout=holdout,
        estimated_saved_ms=_saved_ms(attempts),
    )


def _figures_in(record: AttemptStats) -> Figures:
    values = zip(_FIGURES, _figure_values(record), strict=True)
    return cast("Figures", dict(values))


def trace_of(attempt: Attempt) -> Trace:
    """Give the recorded timeline of an attempt that has ended."""
    end, timeline = ending(attempt), attempt.timeline
    recording = timeline.recording or Recording()
    return Trace(
        attempt=attempt.index,
        started_ns=attempt.started_ns,
        ended_ns=end.until_ns,
        sent_ns=attempt.sent_ns,
        headers_ns=attempt.headers_ns,
        threshold_ns=timeline.tally.threshold_ns,
        arrivals=recording.arrivals(),
        pieces=recording.pieces(),
        waited_ns=end.waited_ns,
        keepalives=end.keepalives,
        end_kind=end.end_kind or "cancelled",
        form=end.form,
        usage=end.usage,
        dropped=recording.dropped,
    )


def ending(attempt: Attempt) -> Ending:
    """Give what the figures of an attempt need besides its arrivals."""
    timeline = attempt.timeline
    return Ending(
        attempt=attempt.index,
        started_ns=attempt.started_ns,
        until_ns=now_ns() if attempt.ended_ns is None else attempt.ended_ns,
        waited_ns=timeline.waited_ns,
        keepalives=timeline.keepalives,
        end_kind=end_kind(attempt),
        form=attempt.form,
        usage=attempt.usage,
    )


def end_kind(attempt: Attempt) -> EndKind | None:
    """Tell how an attempt's stream ended; ``None`` while it runs."""
    if attempt.whole:
        return "complete"
    if attempt.failure is None:
        return None if attempt.cancel_reason is None else "cancelled"
    if isinstance(attempt.failure, TimeoutError | GatewayBusy):
        return "watchdog"
    return "cut" if isinstance(attempt.failure, Truncated | ConnectFailed) else "error"


def _waste(attempt: Attempt, winner: Attempt | None) -> Waste:
    end = attempt.started_ns if attempt.ended_ns is None else attempt.ended_ns
    head = attempt.head
    return wasted(
        _cost(attempt),
        ran_ns=end - attempt.started_ns,
        sent=attempt.sent_ns is not None,
        refused=head is not None and head.status != 200,
        winner=None if winner is None else _cost(winner),
    )


def _cost(attempt: Attempt) -> Cost:
    return Cost(usage=attempt.usage, characters=attempt.timeline.tally.characters)


def _saved_ms(attempts: Sequence[AttemptStats]) -> float | None:
    """Estimate what a hedge saved; see ``CallStats.estimated_saved_ms``."""
    hedge = next((each for each in attempts if (each.outcome, each.kind) == ("won", "hedge")), None)
    if hedge is None:
        return None
    beaten = [each for each in attempts if _was_beaten_by(hedge, each)]
    silences = [each.total_ms if each.open_gap_ms is None else each.open_gap_ms for each in beaten]
    return min(silences, default=None)


def _was_beaten_by(hedge: AttemptStats, other: AttemptStats) -> bool:
    """Tell whether *other* was there before the hedge and lost to it, and not to an earlier one."""
    ended_ms = other.started_ms + other.total_ms
    return other.outcome == "lost" and other.index < hedge.index and ended_ms > hedge.started_ms


def _since(at_ns: int | None, since_ns: int) -> float | None:
    return None if at_ns is None else (at_ns - since_ns) / 1e6
