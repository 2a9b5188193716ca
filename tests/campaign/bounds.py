"""What one call may do at most: attempts, time, and what it leaves at the other end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygateway.core.units import ns

from .laws import require

if TYPE_CHECKING:
    from .sides import Sides

_SLACK_S = 3.0
"""For the ends of answers and the texts of refusals, which have limits of their own."""


def check_bounds(sides: Sides) -> None:
    _check_attempts(sides)
    _check_requests(sides)
    _check_time(sides)


def _check_attempts(sides: Sides) -> None:
    hedge, retry = sides.policies.hedge, sides.policies.retry
    kinds = [attempt.kind for attempt in sides.attempts]
    require("one primary, and first", kinds[:1] == ["primary"] and kinds.count("primary") == 1)
    require("retries are bounded", kinds.count("retry") <= retry.max_retries, kinds)
    hedges = [attempt for attempt in sides.attempts if attempt.kind == "hedge"]
    may_hedge = hedge.enabled and not sides.ended.stats.holdout
    require("who is not to be hedged is not", may_hedge or not hedges)
    for each in hedges:
        require("hedges are bounded", each.index < hedge.max_attempts, kinds)
    outcomes = [attempt.outcome for attempt in sides.attempts]
    require("at most one attempt wins", outcomes.count("won") <= 1, outcomes)
    require("every attempt comes to an end", None not in outcomes, outcomes)


def _check_requests(sides: Sides) -> None:
    """Check that nobody went on generating for an attempt that had ended, and nobody wrote."""
    over_ns = ns(sides.seen.over)
    for index, asked in sides.requests.items():
        attempt, exchange = sides.attempts[index], asked.exchange
        assert exchange.ended_at is not None
        ended_ns = ns(exchange.ended_at)
        require("a call leaves no request behind", ended_ns <= over_ns, index, ended_ns - over_ns)
        if attempt.end_kind != "complete":
            late = ended_ns - sides.end_ns(attempt)
            require("an attempt leaves no request behind", late <= 0, index, late)
        writes = [at for at, _ in exchange.sent]
        require("nobody writes after the end", max(writes, default=0) <= exchange.ended_at, index)


def _check_time(sides: Sides) -> None:
    call, seen = sides.seen.call, sides.seen
    took = seen.over - seen.began
    if call.cancelled_after_ms is not None:
        limit = call.cancelled_after_ms / 1000
        require("a cancelled call is over at once", took <= limit + 1e-6, took, limit)
    if call.deadline_ms is not None:
        # What has been read already is handed out, and looked at, in any case.
        limit = (call.deadline_ms + call.pause_ms * len(seen.chunks)) / 1000
        require("a call keeps to its deadline", took <= limit + 1e-6, took, limit)
    require("a call does not take for ever", took <= longest_s(sides), took, longest_s(sides))


def longest_s(sides: Sides) -> float:
    """Give how long the call can take at most, by its policies and what its providers say."""
    stream, retry = sides.policies.stream, sides.policies.retry
    pieces = 20
    attempt = stream.ttft_timeout_s + pieces * stream.stall_timeout_s + _SLACK_S
    wait = max(retry.backoff_max_s, retry.retry_after_max_s)
    consumer = pieces * sides.seen.call.pause_ms / 1000
    return len(sides.attempts) * (attempt + wait + consumer)
