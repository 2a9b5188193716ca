"""What is exported as metrics: one table, and what each event adds to it.

The names are OpenTelemetry's, without the prefix ``polygateway.``. Prometheus has the same ones, as
OpenTelemetry's rules translate them. A metric is as :class:`Aggregate` defines its figure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import attrs

from ..instrument import Instrument

if TYPE_CHECKING:
    from ..instrument import CallEnded, CallStarted, StallBegan, StallEnded
    from ..stats import AttemptStats

# From quick answers up to stalls of ten minutes. The limits that are set most are among them.
SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)

# A socket is closed within a millisecond, unless something is wrong.
_CLOSING_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.1, 1)


@attrs.frozen
class Metric:
    """A metric, by its name without prefix and unit."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    """``s``, or what is counted, in braces."""

    text: str
    labels: Sequence[str]
    bounds: Sequence[float] = ()
    """Of a histogram: upper bounds of its buckets."""


class Sample(NamedTuple):
    """What an event adds to a metric."""

    metric: Metric
    amount: float
    """To observe, or by which to go up. Only a gauge goes down."""

    labels: Mapping[str, str]
    """Empty where there is nothing to name, like the reason of what is no hedge."""


def _counter(name: str, unit: str, text: str, *labels: str) -> Metric:
    return Metric(name, "counter", unit, text, labels)


def _histogram(name: str, text: str, *labels: str, bounds: Sequence[float] = SECONDS) -> Metric:
    return Metric(name, "histogram", "s", text, labels, bounds)


CALLS = _counter("calls", "{call}", "Calls that ended.", "model", "outcome", "error")
CALL_DURATION = _histogram(
    "call.duration", "From the application's call to the end of the answer.", "model", "outcome"
)
CALL_FIRST_CONTENT = _histogram(
    "call.time_to_first_content",
    "From the application's call to the first content, the delay before a hedge included.",
    "model",
)
CALLS_ACTIVE = Metric("calls.active", "gauge", "{call}", "Calls under way.", ("model",))
STALLS_ACTIVE = Metric(
    "stalls.active", "gauge", "{stall}", "Streams that are stalled at this moment.", ("target",)
)
HEDGES_REFUSED = _counter(
    "hedges.refused", "{hedge}", "Hedges that were due and did not start.", "model", "why"
)
SEAMS = _counter(
    "seams",
    "{seam}",
    "Times that an attempt took over what another had delivered in part.",
    *("model", "seam"),
)

_TARGET = ("model", "target")
ATTEMPTS = _counter(
    "attempts",
    "{attempt}",
    "Attempts that ended, by what started them and what became of them.",
    *(*_TARGET, "kind", "reason", "outcome", "error"),
)
FIRST_CONTENT = _histogram(
    "attempt.time_to_first_content", "From an attempt's start to its first content.", *_TARGET
)
LONGEST_SILENCE = _histogram(
    "attempt.longest_silence",
    "The longest time waited in an attempt after its first content.",
    *_TARGET,
)
GENERATION_TIME = _counter(
    "generation.time", "s", "From first to last content, silences included.", *_TARGET
)
STALL_TIME = _counter("stall.time", "s", "The part of it that was waited in stalls.", *_TARGET)
OPEN_STALL_TIME = _counter(
    "stall.open.time", "s", "Waited in stalls in which streams ended.", *_TARGET
)
STALLS = _counter("stalls", "{stall}", "Stall events.", *_TARGET)
STALL_DURATION = _histogram("stall.duration", "How long stalled gaps lasted.", *(*_TARGET, "cause"))
TOKENS = _counter(
    "tokens", "{token}", "Tokens of attempts that were not in vain.", *(*_TARGET, "type")
)
WASTED_TOKENS = _counter(
    "wasted.tokens",
    "{token}",
    "Tokens of attempts in vain, as far as anything tells.",
    *(*_TARGET, "type", "confidence"),
)
CANCEL_TO_CLOSED = _histogram(
    "attempt.cancel_to_closed",
    "From the decision to cancel an attempt to the closing of its socket.",
    *_TARGET,
    bounds=_CLOSING_SECONDS,
)

OF_CALLS = (CALLS, CALL_DURATION, CALL_FIRST_CONTENT)
OF_ATTEMPTS = (
    *(ATTEMPTS, FIRST_CONTENT, LONGEST_SILENCE, GENERATION_TIME, STALL_TIME, OPEN_STALL_TIME),
    *(STALLS, STALL_DURATION, TOKENS, WASTED_TOKENS, CANCEL_TO_CLOSED),
)
METRICS = (*OF_CALLS, CALLS_ACTIVE, STALLS_ACTIVE, HEDGES_REFUSED, SEAMS, *OF_ATTEMPTS)


class MetricsInstrument(Instrument, ABC):
    """Turns events into samples. What is under way is counted live, all else when a call ends."""

    @abstractmethod
    def add(self, sample: Sample) -> None:
        """Add to a metric."""

    def call_started(self, event: CallStarted) -> None:
        """Count a call that is under way."""
        self.add(Sample(CALLS_ACTIVE, 1, {"model": event.model}))

    def stall_began(self, event: StallBegan) -> None:
        """Count a stream that is stalled."""
        self.add(Sample(STALLS_ACTIVE, 1, {"target": event.target}))

    def stall_ended(self, event: StallEnded) -> None:
        """Count one less."""
        self.add(Sample(STALLS_ACTIVE, -1, {"target": event.target}))

    def call_ended(self, event: CallEnded) -> None:
        """Add all that a call cost."""
        self.add(Sample(CALLS_ACTIVE, -1, {"model": event.model}))
        for sample in _of_call(event):
            self.add(sample)
        for stats in event.stats.attempts:
            labels = {"model": event.model, "target": stats.target}
            for metric, amount, more in _of_attempt(stats):
                self.add(Sample(metric, amount, {**labels, **more}))


def _of_call(event: CallEnded) -> Iterator[Sample]:
    model = {"model": event.model}
    outcome = {**model, "outcome": event.outcome}
    error = "" if event.error is None else event.error.kind
    yield Sample(CALLS, 1, outcome | {"error": error})
    yield Sample(CALL_DURATION, event.stats.total_ms / 1e3, outcome)
    if event.stats.ttft_ms is not None:
        yield Sample(CALL_FIRST_CONTENT, event.stats.ttft_ms / 1e3, model)
    for why, count in event.stats.hedges_refused.items():
        yield Sample(HEDGES_REFUSED, count, model | {"why": why})
    for seam in event.stats.seams:
        yield Sample(SEAMS, 1, model | {"seam": seam.kind})


def _of_attempt(stats: AttemptStats) -> Iterator[Sample]:
    """Give what an attempt adds, with the labels beyond model and target."""
    yield Sample(
        ATTEMPTS,
        1,
        {
            "kind": stats.kind,
            "reason": stats.reason or "",
            "outcome": stats.outcome or "",
            "error": stats.error_kind or "",
        },
    )
    for metric, duration_ms in (
        (FIRST_CONTENT, stats.ttft_ms),
        (LONGEST_SILENCE, _longest_silence_ms(stats)),
        (GENERATION_TIME, stats.generation_ms),
        (STALL_TIME, stats.stall_ms),
        (CANCEL_TO_CLOSED, stats.cancel_to_closed_ms),
    ):
        if duration_ms is not None:
            yield Sample(metric, duration_ms / 1e3, {})
    yield from _of_stalls(stats)
    yield from _of_tokens(stats)


def _longest_silence_ms(stats: AttemptStats) -> float | None:
    silences = (stats.max_gap_ms, stats.open_gap_ms)
    return max((each for each in silences if each is not None), default=None)


def _of_stalls(stats: AttemptStats) -> Iterator[Sample]:
    events = stats.stall_count or 0
    for stall in stats.stalls:
        yield Sample(STALL_DURATION, stall.duration_ms / 1e3, {"cause": stall.cause})
        if stall.open:
            events += 1
            yield Sample(OPEN_STALL_TIME, stall.duration_ms / 1e3, {})
    yield Sample(STALLS, events, {})


def _of_tokens(stats: AttemptStats) -> Iterator[Sample]:
    counted = stats.usage if stats.wasted is None else stats.wasted
    metric = TOKENS if stats.wasted is None else WASTED_TOKENS
    more = {} if stats.wasted is None else {"confidence": stats.wasted.confidence}
    for kind, tokens in (("input", counted.input_tokens), ("output", counted.output_tokens)):
        if tokens is not None:
            yield Sample(metric, tokens, {"type": kind, **more})
