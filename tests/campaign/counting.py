"""Count what happened in a series: a campaign proves nothing about what it never met."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

from polygateway import (
    AuthenticationFailed,
    ConnectFailed,
    ConnectTimeout,
    ContentFiltered,
    ContextLengthExceeded,
    DeadlineExceeded,
    FirstContentTimeout,
    GatewayBusy,
    GatewayClosed,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    QuotaExhausted,
    RateLimited,
    ServerError,
    StallTimeout,
    StreamBroken,
    Truncated,
)
from polygateway.stats import RefusalReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .playing import Played
    from .sides import Sides

FLOORS: Mapping[str, int] = {
    "call complete": 30_000,
    "call failed": 8000,
    "call cancelled": 4000,
    "call in the holdout": 3000,
    "calls that were not begun": 800,
    **{
        f"error {each.__name__}": least
        for each, least in {
            AuthenticationFailed: 20,
            ConnectFailed: 400,
            ConnectTimeout: 400,
            ContentFiltered: 50,
            ContextLengthExceeded: 20,
            DeadlineExceeded: 1000,
            FirstContentTimeout: 800,
            GatewayBusy: 1500,
            GatewayClosed: 150,
            InvalidRequest: 200,
            Overloaded: 150,
            ProtocolViolation: 200,
            QuotaExhausted: 20,
            RateLimited: 100,
            ServerError: 200,
            StallTimeout: 300,
            StreamBroken: 1000,
            Truncated: 100,
        }.items()
    },
    "hedge won": 1000,
    "hedge failed": 500,
    "hedge lost lost the race": 500,
    "hedge lost lost a duel": 40,
    "hedge cancelled caller": 50,
    "primary lost lost the race": 800,
    "primary lost lost a duel": 60,
    "retry won": 3000,
    "continuation won": 150,
    "continuation failed": 150,
    "continuation lost": 3,
    "seam: continue": 200,
    "seam: restart": 200,
    **{
        f"hedge refused: {why}": 50
        for why in get_args(RefusalReason)
        if why not in {"deadline", "max_retries"}
    },
    **dict.fromkeys(
        ("retry refused: breaker", "retry refused: budget", "retry refused: throttled"), 200
    ),
    "retry refused: max_retries": 1000,
    "retry refused: rate_limited": 10,
    "target open at last": 400,
    "target degraded at last": 150,
    "target rate_limited at last": 20,
    "target whose first content was learned": 10,
    "request lost with its connection": 100,
}
"""How often something must happen in 100,000 calls, for the campaign to have tried it."""


_FEW = 50_000


def missing(counts: Counter[str]) -> list[str]:
    """Give a line for each thing that has happened too seldom. Few calls need not have all."""
    share = counts["calls"] / 100_000 if counts["calls"] >= _FEW else 0
    return [
        f"{what}: {counts[what]} times, not {int(least * share)}"
        for what, least in FLOORS.items()
        if counts[what] < int(least * share)
    ]


def counted(played: Played, calls: Sequence[Sides]) -> Counter[str]:
    """Count what happened, by a few words for each thing."""
    counts = Counter(each for sides in calls for each in _of_call(sides))
    counts["calls"] += len(played.seen)
    counts["calls that were not begun"] += len(played.seen) - len(calls)
    logs = [provider.log for provider in played.cast.providers.values()]
    counts["request lost with its connection"] += sum(
        exchange.ended == "dropped" for log in logs for exchange in log
    )
    for target in played.stats.targets.values():
        counts[f"target {target.standing} at last"] += 1
        counts["target whose first content was learned"] += target.after_s is not None
    return counts


def _of_call(sides: Sides) -> Iterator[str]:
    stats, error = sides.ended.stats, sides.seen.error
    yield f"call {sides.ended.outcome}"
    if error is not None:
        yield f"error {type(error).__name__}"
        not_tried = getattr(error.__cause__ or error, "not_tried", None)
        if not_tried is not None:
            yield f"retry refused: {not_tried}"
    if stats.holdout:
        yield "call in the holdout"
    for seam in stats.seams:
        yield f"seam: {seam.kind}"
    for reason, count in stats.hedges_refused.items():
        yield from [f"hedge refused: {reason}"] * count
    for attempt in sides.attempts:
        why = attempt.cancel_reason or ""
        yield f"{attempt.kind} {attempt.outcome} {why}".rstrip()
        if attempt.reason is not None:
            yield f"hedge for {attempt.reason}"
        if attempt.index in sides.requests and sides.requests[attempt.index].prefix:
            yield f"continuation {attempt.outcome}"
