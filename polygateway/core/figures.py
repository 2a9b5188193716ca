"""From what an attempt's arrivals add up to, and how it ended, to its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

import attrs

from ..stats import EndKind, RateBasis, RateReason, Stall, StreamFigures
from ..trace import ReplyForm
from ..usage import Usage
from .rate import Rate, rate
from .tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..stats import StallCause
    from ..trace import Trace
    from .tally import Gap


@attrs.frozen(kw_only=True)
class Ending:
    """What is known of an attempt besides its arrivals. Times are nanoseconds."""

    attempt: int
    """Index of the attempt."""

    started_ns: int
    until_ns: int
    """When it ended; now, while it runs."""

    waited_ns: int
    """Time waited since the last content, or since the start."""

    keepalives: int
    """Events and comments without content since then."""

    end_kind: EndKind | None
    """How it ended; ``None`` while it runs."""

    form: ReplyForm
    usage: Usage


class _OfGeneration(TypedDict):
    """The figures that exist from two chunks on."""

    generation_ms: float | None
    stall_ms: float | None
    stall_gap_count: int | None
    stall_count: int | None
    active_generation_ms: float | None
    backpressure_ms: float | None
    max_gap_ms: float | None


class _Waits(TypedDict):
    """The figures that tell how long somebody has waited."""

    ttft_ms: float | None
    ttft_text_ms: float | None
    total_ms: float


class Figures(_OfGeneration, _Waits):
    """The fields of :class:`StreamFigures`, for whatever has more of them."""

    chunk_count: int
    tail_ms: float | None
    open_gap_ms: float | None
    output_tokens: int | None
    tokens_source: Literal["usage", "none"]
    tpot_ms: float | None
    tokens_per_s: float | None
    rate_basis: RateBasis | None
    rate_reason: RateReason | None
    stalls: Sequence[Stall]


def figures(tally: Tally, ending: Ending) -> Figures:
    """Give the figures of an attempt.

    Args:
        tally: what its arrivals add up to.
        ending: what else is known.
    """
    seen = _seen(tally, ending.form)
    generation_ns = _generation_ns(seen)
    tail_ns = None if seen.last_ns is None else ending.waited_ns
    tokens = ending.usage.output_tokens
    speed = _rate(tally, ending)
    return {
        **_of_generation(seen, generation_ns),
        **_waits(tally, ending.form, ending.started_ns, ending.until_ns),
        "chunk_count": tally.chunk_count,
        "tail_ms": _ms(tail_ns),
        "open_gap_ms": None if ending.end_kind == "complete" else _ms(tail_ns),
        "output_tokens": tokens,
        "tokens_source": "none" if tokens is None else "usage",
        "tpot_ms": _tpot_ms(generation_ns, tokens),
        "tokens_per_s": speed.per_s,
        "rate_basis": speed.basis,
        "rate_reason": speed.reason,
        "stalls": tuple(_stalls(seen, ending)),
    }


def as_waited_for(
    seen: Figures, tally: Tally, form: ReplyForm, *, since_ns: int, until_ns: int
) -> Figures:
    """Give an attempt's figures for somebody who has waited for it from one time to another.

    Args:
        seen: the figures.
        tally: what its arrivals add up to.
        form: what sort of reply they belong to.
        since_ns: when the waiting began.
        until_ns: when it ended.
    """
    return {**seen, **_waits(tally, form, since_ns, until_ns)}


def _waits(tally: Tally, form: ReplyForm, since_ns: int, until_ns: int) -> _Waits:
    seen = _seen(tally, form)
    return {
        "ttft_ms": _since(seen.first_ns, since_ns),
        "ttft_text_ms": _since(seen.first_text_ns, since_ns),
        "total_ms": (until_ns - since_ns) / 1e6,
    }


def _seen(tally: Tally, form: ReplyForm) -> Tally:
    """Give what *tally* tells of times: of a reply that is no stream, nothing."""
    return tally if form == "stream" else Tally(tally.threshold_ns)


def figures_of(
    trace: Trace, *, since_ns: int | None = None, until_ns: int | None = None
) -> StreamFigures:
    """Give the figures of a recorded attempt, or of the call that it won.

    Args:
        trace: what was recorded.
        since_ns: for the figures of the call, when the application called.
        until_ns: likewise, when the call ended.

    Raises:
        ValueError: arrivals are missing from the trace, so its figures cannot be had.
    """
    if trace.dropped:
        kept = len(trace.arrivals)
        raise ValueError(f"{trace.dropped} arrivals were dropped from this trace, {kept} were kept")
    tally = Tally(trace.threshold_ns)
    for arrival in trace.arrivals:
        tally.take(arrival)
    ending = Ending(
        attempt=trace.attempt,
        started_ns=trace.started_ns,
        until_ns=trace.ended_ns,
        waited_ns=trace.waited_ns,
        keepalives=trace.keepalives,
        end_kind=trace.end_kind,
        form=trace.form,
        usage=trace.usage,
    )
    since = trace.started_ns if since_ns is None else since_ns
    until = trace.ended_ns if until_ns is None else until_ns
    seen = figures(tally, ending)
    return StreamFigures(**as_waited_for(seen, tally, trace.form, since_ns=since, until_ns=until))


def _generation_ns(tally: Tally) -> int | None:
    if tally.chunk_count < 2 or tally.first_ns is None or tally.last_ns is None:
        return None
    return tally.last_ns - tally.first_ns


def _of_generation(tally: Tally, generation_ns: int | None) -> _OfGeneration:
    exists = generation_ns is not None
    generation = generation_ns or 0
    return {
        "generation_ms": _ms(generation_ns),
        "stall_ms": tally.stall_ns / 1e6 if exists else None,
        "stall_gap_count": tally.stall_gap_count if exists else None,
        "stall_count": tally.stall_count if exists else None,
        "active_generation_ms": (generation - tally.stall_ns) / 1e6 if exists else None,
        "backpressure_ms": (generation - tally.waited_ns) / 1e6 if exists else None,
        "max_gap_ms": tally.max_gap_ns / 1e6 if exists else None,
    }


def _rate(tally: Tally, ending: Ending) -> Rate:
    if ending.form == "document":
        return Rate(None, None, "not_streamed")
    if ending.form == "choices":
        return Rate(None, None, "multiple_choices")
    return rate(tally, ending.usage, ended=ending.end_kind == "complete")


def _tpot_ms(generation_ns: int | None, tokens: int | None) -> float | None:
    if generation_ns is None or tokens is None or tokens < 2:
        return None
    return generation_ns / 1e6 / (tokens - 1)


def _stalls(tally: Tally, ending: Ending) -> Iterator[Stall]:
    still_open = None
    if ending.end_kind != "complete":
        still_open = tally.open_gap(ending.waited_ns, ending.keepalives)
    for gap in tally.longest(still_open):
        yield stall(gap, ending)


def stall(gap: Gap, ending: Ending) -> Stall:
    """Give a stalled gap as the figures have it."""
    return Stall(
        attempt=ending.attempt,
        after_chunk=gap.after_chunk,
        offset_ms=(gap.from_ns - ending.started_ns) / 1e6,
        duration_ms=gap.waited_ns / 1e6,
        characters_before=gap.characters_before,
        next_kind=gap.next_kind,
        keepalives=gap.keepalives,
        open=gap.is_open,
        cause=_cause(gap, ending),
    )


def _cause(gap: Gap, ending: Ending) -> StallCause:
    if gap.is_open and ending.end_kind == "cut":
        return "disconnect"
    return "server_alive" if gap.keepalives else "server_silence"


def _since(at_ns: int | None, since_ns: int) -> float | None:
    return None if at_ns is None else (at_ns - since_ns) / 1e6


def _ms(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / 1e6
