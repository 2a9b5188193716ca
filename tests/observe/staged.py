"""Recorded calls made by hand, to be looked at. Times are seconds from the application's call."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs

from polygateway.core.figures import figures_of
from polygateway.observe.records import RecordedAttempt, RecordedCall
from polygateway.stats import AttemptStats, CallStats, Seam, Waste
from polygateway.trace import Arrival, Piece, Trace
from polygateway.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polygateway.instrument import CallOutcome
    from polygateway.stats import (
        AttemptKind,
        ContentKind,
        EndKind,
        HedgeReason,
        Outcome,
        SeamKind,
        StreamFigures,
    )
    from polygateway.trace import ReplyForm

ORIGIN = 7_000_000_000_000_123
"""When calls start: nothing may depend on a clock that starts at 0."""

SECOND = 1_000_000_000


class Content(NamedTuple):
    """A read that brought content."""

    at: float
    kind: ContentKind = "text"
    held: float = 0
    """Seconds of the gap before it in which nobody asked."""

    keepalives: int = 0


def flow(begin: float, end: float, every: float, kind: ContentKind = "text") -> list[Content]:
    """Give steady content from *begin* on, up to and including *end*."""
    return [Content(begin + i * every, kind) for i in range(int((end - begin) / every + 1e-6) + 1)]


def ns(seconds: float) -> int:
    return round(seconds * SECOND)


def attempt(
    index: int,
    content: Sequence[Content],
    ended: float,
    *,
    target: str = "eu",
    started: float = 0,
    kind: AttemptKind = "primary",
    reason: HedgeReason | None = None,
    outcome: Outcome | None = "won",
    end_kind: EndKind = "complete",
    cancel_reason: str | None = None,
    closing_ms: float | None = None,
    error: tuple[str, str] | None = None,
    threshold: float = 2,
    last_held: float = 0,
    last_keepalives: int = 0,
    tokens: int | None = None,
    form: ReplyForm = "stream",
    dropped: int = 0,
    kept: bool = False,
) -> RecordedAttempt:
    """Record an attempt whose figures follow from its content."""
    last = max([started, *(each.at for each in content)])
    usage = Usage(output_tokens=tokens, confidence="unknown" if tokens is None else "exact")
    trace = Trace(
        attempt=index,
        started_ns=ORIGIN + ns(started),
        ended_ns=ORIGIN + ns(ended),
        sent_ns=None,
        headers_ns=None,
        threshold_ns=ns(threshold),
        arrivals=list(_arrivals(content, started)),
        pieces=[[Piece(each.kind, 4)] for each in content],
        waited_ns=ns(ended) - ns(last) - ns(last_held),
        keepalives=last_keepalives,
        end_kind=end_kind,
        form=form,
        usage=usage,
    )
    figures = figures_of(trace)
    stats = AttemptStats(
        **attrs.asdict(figures, recurse=False),
        index=index,
        target=target,
        kind=kind,
        reason=reason,
        started_ms=started * 1000,
        sent_ms=None,
        headers_ms=None,
        outcome=outcome,
        end_kind=end_kind,
        cancel_reason=cancel_reason,
        cancel_to_closed_ms=closing_ms,
        status=200,
        request_id=None,
        error=error[1] if error else None,
        error_kind=error[0] if error else None,
        characters=4 * len(content),
        usage=usage,
        wasted=None if kept or outcome in {"won", None} else _waste(figures, content),
    )
    return RecordedAttempt(stats=stats, trace=attrs.evolve(trace, dropped=dropped))


def call(
    *attempts: RecordedAttempt,
    total: float,
    commit: float | None = None,
    outcome: CallOutcome = "complete",
    error: tuple[str, str] | None = None,
    model: str = "fast",
    number: int = 17,
    run: str = "5f3a9c",
    refused: int = 0,
    saved_ms: float | None = None,
    seams: Sequence[Seam] = (),
    holdout: bool | None = None,
) -> RecordedCall:
    """Record a call; its figures are those of the winner, else of the last attempt."""
    front = next((each for each in attempts if each.stats.outcome == "won"), attempts[-1])
    kept = attrs.evolve(front.trace, dropped=0)
    figures = figures_of(kept, since_ns=ORIGIN, until_ns=ORIGIN + ns(total))
    hedges = [each.stats for each in attempts if each.stats.kind == "hedge"]
    stats = CallStats(
        **attrs.asdict(figures, recurse=False),
        attempts=[each.stats for each in attempts],
        front=front.stats.index,
        hedge_reason=hedges[0].reason if hedges else None,
        hedge_after_ms=hedges[0].started_ms if hedges else None,
        hedges_refused={"budget": refused} if refused else {},
        commit_ms=None if commit is None else commit * 1000,
        seams=seams,
        holdout=holdout,
        estimated_saved_ms=saved_ms,
    )
    return RecordedCall(
        run=run,
        call=number,
        started_at="2026-03-04T05:06:07.890Z",
        started_ns=ORIGIN,
        ended_ns=ORIGIN + ns(total),
        model=model,
        stream=True,
        targets=["eu", "us"],
        outcome=outcome,
        error_kind=error[0] if error else None,
        error=error[1] if error else None,
        stats=stats,
        attempts=attempts,
        usage=front.trace.usage,
        finish_reason="stop" if outcome == "complete" else None,
        provider_model="lyra-3",
        response_id=None,
    )


def seam(kind: SeamKind, before: int, after: int, at: float, characters: int = 120) -> Seam:
    """Record where an attempt took over."""
    return Seam(kind=kind, before=before, after=after, at_ms=at * 1000, characters=characters)


def _arrivals(content: Iterable[Content], started: float) -> Iterable[Arrival]:
    before = ns(started)
    for each in content:
        at = ns(each.at)
        waited = at - before - ns(each.held)
        yield Arrival(ORIGIN + at, waited, each.keepalives, 1, 4, (each.kind,), None)
        before = at


def _waste(figures: StreamFigures, content: Sequence[Content]) -> Waste:
    return Waste(
        ran_ms=figures.total_ms,
        characters=4 * len(content),
        input_tokens=12,
        output_tokens=len(content),
        confidence="estimate",
    )
