"""A call as a tree of spans: what is kept of it while it runs, and what is written at its end.

Nothing is open in between, so nothing can be left open: spans carry the times at which they began
and ended, not those at which they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, TypeAlias

import attrs
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from ..instrument import AttemptStarted, CallStarted, Committed, HedgeRefused, SeamMade
from ..trace import Trace
from .providers import provider_name

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from ..instrument import CallEnded
    from ..stats import AttemptStats, Seam, Stall, StreamFigures, Waste

Values: TypeAlias = Mapping[str, str | bool | int | float | Sequence[str] | None]
"""Attributes; those that are ``None`` do not exist."""


@attrs.define
class Recording:
    """What has been told of a call that runs."""

    started: CallStarted
    context: Context
    """Where it was called: what is current there becomes its parent."""

    wall_ns: int
    """What a time of trio's clock is earlier than the same time since the epoch."""

    attempts: list[AttemptStarted] = attrs.field(factory=list[AttemptStarted])
    refused: list[HedgeRefused] = attrs.field(factory=list[HedgeRefused])
    commits: list[Committed] = attrs.field(factory=list[Committed])
    seams: list[SeamMade] = attrs.field(factory=list[SeamMade])
    traces: dict[int, Trace | None] = attrs.field(factory=dict[int, Trace | None])
    """Of the attempts that have ended, by index."""

    def front(self, event: CallEnded) -> AttemptStarted:
        """Give the attempt whose figures the call has."""
        return self.attempts[event.stats.front]

    def operation(self, event: CallEnded) -> Values:
        """Give the attributes that spans and metrics of the conventions share."""
        front = self.front(event)
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(front.dialect, front.host),
            "gen_ai.request.model": event.model,
            "gen_ai.response.model": event.provider_model,
            "server.address": front.host,
            "server.port": front.port,
        }

    def chunk_times(self) -> Iterator[float]:
        """Give the seconds from the end of each chunk of the winner to the end of the next.

        Between chunks of one read they are 0. The winner is the last one, as for all figures of a
        call. There are none without a winner that streamed, and none without its trace.
        """
        trace = self.traces.get(self.commits[-1].attempt) if self.commits else None
        if trace is None or trace.form != "stream":
            return
        for before, arrival in pairwise(trace.arrivals):
            yield (arrival.at_ns - before.at_ns) / 1e9
        for arrival in trace.arrivals:
            yield from repeat(0.0, arrival.chunk_count - 1)


def present(values: Values) -> dict[str, str | bool | int | float | Sequence[str]]:
    """Give those of the attributes that exist."""
    return {name: value for name, value in values.items() if value is not None}


def seconds(milliseconds: float | None) -> float | None:
    """Give a duration in the conventions' unit."""
    return None if milliseconds is None else milliseconds / 1e3


def write_spans(tracer: Tracer, recording: Recording, event: CallEnded) -> Context:
    """Write the span of a call and, below it, those of its attempts.

    Returns:
        A context in which the call's span is the current one.
    """
    start_ns = recording.started.at_ns + recording.wall_ns
    span = tracer.start_span(
        f"chat {event.model}",
        context=recording.context,
        kind=SpanKind.CLIENT,
        attributes=present({**recording.operation(event), **_of_call(recording, event)}),
        start_time=start_ns,
    )
    if event.error is not None:
        span.set_status(Status(StatusCode.ERROR, type(event.error).__name__))
    _add_decisions(span, recording)
    inside = set_span_in_context(span, recording.context)
    for started, stats in zip(recording.attempts, event.stats.attempts, strict=True):
        _write_attempt(tracer, inside, started, stats, recording.wall_ns)
    span.end(start_ns + _ns(event.stats.total_ms))
    return inside


def _add_decisions(span: Span, recording: Recording) -> None:
    for refused in recording.refused:
        span.add_event(
            "polygateway.hedge.refused",
            {"polygateway.hedge.reason": refused.reason, "polygateway.refusal.why": refused.why},
            refused.at_ns + recording.wall_ns,
        )
    for commit in recording.commits:
        span.add_event(
            "polygateway.commit",
            {"polygateway.attempt.index": commit.attempt, "polygateway.target": commit.target},
            commit.at_ns + recording.wall_ns,
        )
    for made in recording.seams:
        span.add_event("polygateway.seam", _of_seam(made.seam), made.at_ns + recording.wall_ns)


def _write_attempt(
    tracer: Tracer, context: Context, started: AttemptStarted, stats: AttemptStats, wall_ns: int
) -> None:
    start_ns = started.at_ns + wall_ns
    span = tracer.start_span(
        f"attempt {stats.target}",
        context=context,
        attributes=present(_of_attempt(started, stats)),
        start_time=start_ns,
    )
    if stats.error_kind is not None:
        span.set_status(Status(StatusCode.ERROR))
    for name, after_ms in (("request.sent", stats.sent_ms), ("response.head", stats.headers_ms)):
        if after_ms is not None:
            span.add_event(f"polygateway.{name}", timestamp=start_ns + _ns(after_ms))
    for stall in stats.stalls:
        span.add_event("polygateway.stall", _of_stall(stall), start_ns + _ns(stall.offset_ms))
    span.end(start_ns + _ns(stats.total_ms))


def _of_call(recording: Recording, event: CallEnded) -> Values:
    stats, usage = event.stats, event.usage
    return {
        # Every request is made in streaming mode, also that of a caller who wants the whole answer.
        "gen_ai.request.stream": True,
        "gen_ai.response.id": event.response_id,
        "gen_ai.response.finish_reasons": _finish_reasons(event),
        "gen_ai.response.time_to_first_chunk": seconds(stats.ttft_ms),
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "polygateway.usage.confidence": usage.confidence if usage.is_known else None,
        "error.type": None if event.error is None else event.error.kind,
        "polygateway.call.method": "stream" if event.stream else "complete",
        "polygateway.call.outcome": event.outcome,
        "polygateway.call.attempts": len(stats.attempts),
        "polygateway.call.seams": len(stats.seams),
        "polygateway.target": recording.front(event).target,
        "polygateway.hedge.reason": stats.hedge_reason,
        "polygateway.hedge.after": seconds(stats.hedge_after_ms),
        "polygateway.hedge.holdout": stats.holdout,
        **_figures(stats),
    }


def _finish_reasons(event: CallEnded) -> Sequence[str] | None:
    """Give the reason, in the conventions' word where a generation ended before it had one."""
    if event.finish_reason is not None:
        return (event.finish_reason,)
    broken = event.outcome != "complete" and event.stats.chunk_count > 0
    return ("error",) if broken else None


def _of_attempt(started: AttemptStarted, stats: AttemptStats) -> Values:
    # No attribute of gen_ai: whatever adds up tokens or counts calls by them would take an attempt
    # for another call.
    return {
        "server.address": started.host,
        "server.port": started.port,
        "http.response.status_code": stats.status,
        "error.type": stats.error_kind,
        "polygateway.target": stats.target,
        "polygateway.dialect": started.dialect,
        "polygateway.provider.model": started.provider_model,
        "polygateway.provider.request_id": stats.request_id,
        "polygateway.attempt.index": stats.index,
        "polygateway.attempt.kind": stats.kind,
        "polygateway.attempt.outcome": stats.outcome,
        "polygateway.attempt.end": stats.end_kind,
        "polygateway.attempt.cancelled_because": stats.cancel_reason,
        "polygateway.attempt.cancel_to_closed": seconds(stats.cancel_to_closed_ms),
        "polygateway.attempt.time_to_first_content": seconds(stats.ttft_ms),
        "polygateway.hedge.reason": stats.reason,
        **_figures(stats),
        **({} if stats.wasted is None else _of_waste(stats.wasted)),
    }


def _figures(stats: StreamFigures) -> Values:
    return {
        "polygateway.chunks": stats.chunk_count,
        "polygateway.generation.duration": seconds(stats.generation_ms),
        "polygateway.stall.duration": seconds(stats.stall_ms),
        "polygateway.stall.count": stats.stall_count,
        "polygateway.backpressure.duration": seconds(stats.backpressure_ms),
        "polygateway.gap.max": seconds(stats.max_gap_ms),
        "polygateway.gap.open": seconds(stats.open_gap_ms),
        "polygateway.rate.tokens_per_second": stats.tokens_per_s,
        "polygateway.rate.basis": stats.rate_basis,
    }


def _of_waste(waste: Waste) -> Values:
    return {
        "polygateway.wasted.input_tokens": waste.input_tokens,
        "polygateway.wasted.output_tokens": waste.output_tokens,
        "polygateway.wasted.confidence": waste.confidence,
    }


def _of_stall(stall: Stall) -> Mapping[str, str | bool | int | float]:
    return {
        "polygateway.stall.duration": stall.duration_ms / 1e3,
        "polygateway.stall.cause": stall.cause,
        "polygateway.stall.after_chunk": stall.after_chunk,
        "polygateway.stall.keepalives": stall.keepalives,
        "polygateway.stall.open": stall.open,
    }


def _of_seam(seam: Seam) -> Mapping[str, str | bool | int | float]:
    return {
        "polygateway.seam.kind": seam.kind,
        "polygateway.seam.before": seam.before,
        "polygateway.seam.after": seam.after,
        "polygateway.seam.characters": seam.characters,
    }


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1e6)
