"""What an application is told when a call fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygateway import (
    AttemptError,
    DeadlineExceeded,
    GatewayBusy,
    GatewayClosed,
    GatewayError,
    StreamBroken,
)

from .laws import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway import AttemptStats

    from .playing import Played
    from .sides import Sides

# What a refusal without a word of the provider's own means, by its status; one that names a wait is
# no exhausted quota (docs/reference/errors.md).
_REFUSALS: Mapping[int, str] = {
    400: "invalid_request",
    401: "auth",
    402: "quota",
    404: "invalid_request",
    408: "transient",
    413: "invalid_request",
    429: "rate_limited",
    500: "transient",
    503: "overloaded",
    529: "overloaded",
}


def check_failing(sides: Sides) -> None:
    """Check the error of a call, and what its attempts failed with."""
    error, ended = sides.seen.error, sides.ended
    if error is not None:
        require("the record has the error that was raised", ended.error is error, ended.error)
        _check_error(sides, error)
    elif ended.error is not None:
        # It came with the last chunks, and the application left before it had read them all.
        broken = isinstance(ended.error, StreamBroken) and not sides.seen.whole
        require("an error is raised if anybody is there", broken, ended.error)
    for attempt in sides.attempts:
        if attempt.outcome == "failed":
            _check_failed(sides, attempt)


def _check_error(sides: Sides, error: GatewayError) -> None:
    told = [(each.index, each.target, each.kind) for each in error.attempts]
    known = [(each.index, each.target, each.kind) for each in sides.attempts]
    require("an error has every attempt", told == known, told, known)
    match error:
        case StreamBroken():
            cause = error.__cause__
            assert isinstance(cause, AttemptError | GatewayBusy)
            same = (error.kind, error.retryable) == (cause.kind, cause.retryable)
            require("a broken stream is of its cause's kind", same, error.kind, cause.kind)
            require("a broken stream has a part", error.partial is not None)
            _check_subject(sides, cause)
        case AttemptError() | GatewayBusy():
            _check_subject(sides, error)
        case DeadlineExceeded():
            limit = sides.seen.call.deadline_ms
            assert limit is not None, "there was no deadline"
            took = sides.seen.over - sides.seen.began
            require("a deadline is not early", took >= limit / 1000 - 1e-6, took, limit)
        case _:
            require(f"no such error: {error}", isinstance(error, GatewayClosed))


def _check_subject(sides: Sides, error: AttemptError | GatewayBusy) -> None:
    """Check that an error is of the attempt that failed last by itself."""
    attempt = sides.attempts[error.attempt]
    require("an error names an attempt that failed", attempt.outcome == "failed", attempt.outcome)
    require("an error names its target", attempt.target == error.target, error.target)
    require("an error is of its attempt's kind", attempt.error_kind == error.kind, error.kind)
    ends = {
        each.index: sides.end_ns(each)
        for each in sides.attempts
        if each.outcome == "failed" and not _only_refused_prefix(sides, each)
    }
    require("the last failure is raised", ends[error.attempt] == max(ends.values()), ends)


def _only_refused_prefix(sides: Sides, attempt: AttemptStats) -> bool:
    """Tell whether a target only would not go on with an answer, which fails no call."""
    request = sides.requests.get(attempt.index)
    goes_on = request is not None and bool(request.prefix)
    # What it answers with a 404 is not the prefix, but the model or the path.
    return goes_on and attempt.error_kind == "invalid_request" and attempt.status != 404


def _check_failed(sides: Sides, attempt: AttemptStats) -> None:
    """Check what an attempt failed with against what its provider did."""
    asked = sides.requests.get(attempt.index)
    if asked is None or asked.reply.status == 200 or asked.reply.code is not None:
        return
    kind = _REFUSALS[asked.reply.status]
    if kind == "quota" and asked.reply.retry_after is not None:
        kind = "rate_limited"
    if attempt.status is not None:
        require("a refusal is known by its status", attempt.status == asked.reply.status)
        require("a refusal is of its kind", attempt.error_kind == kind, attempt.error_kind)


def check_closed(played: Played) -> None:
    """Check that only a gateway that was left says so, and begins nothing any more."""
    left_at = played.series.left_at_ms
    for number, seen in enumerate(played.seen):
        if isinstance(seen.error, GatewayClosed):
            was_left = left_at is not None and seen.over >= left_at / 1000 - 1e-6
            require("a gateway is not closed before it is left", was_left, left_at, seen.over)
        if number not in played.notes.call_of:
            begins_nothing = isinstance(seen.error, GatewayClosed) or seen.was_cancelled
            require("only a gateway that was left begins nothing", begins_nothing, seen.error)
            attempts = seen.error.attempts if seen.error is not None else ()
            require("what did not begin has no attempts", not attempts, attempts)
