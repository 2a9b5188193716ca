"""Spans and metrics of the calls for OpenTelemetry."""

# The names that begin with gen_ai. are those of the semantic conventions for generative AI, release
# 0.1, "client inference": a call is one inference operation of theirs. They are in development, and
# the Python package of constants has none of the newer ones, so they are written out here.

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING

from .._version import __version__
from .metrics import METRICS, OF_CALLS, MetricsInstrument

try:
    from opentelemetry import context, metrics, trace

    from .spans import Recording, present, write_spans
except ImportError as _missing:
    raise ImportError(
        "OpenTelemetryInstrument needs opentelemetry-api: pip install 'polygateway[otel]'"
    ) from _missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, Meter, MeterProvider
    from opentelemetry.sdk.metrics.view import View
    from opentelemetry.trace import TracerProvider

    from ..instrument import (
        AttemptEnded,
        AttemptStarted,
        CallEnded,
        CallStarted,
        Committed,
        HedgeRefused,
        SeamMade,
    )
    from .metrics import Metric, Sample

_NAME = "polygateway"

# The conventions' own bounds end at 81.92 s; stalls do not. The series goes on.
_SECONDS = tuple(0.01 * 2**step for step in range(17))

_ATTRIBUTES = {
    "model": "gen_ai.request.model",
    "target": "polygateway.target",
    "kind": "polygateway.attempt.kind",
    "outcome": "polygateway.attempt.outcome",
    "error": "error.type",
    "reason": "polygateway.hedge.reason",
    "why": "polygateway.refusal.why",
    "seam": "polygateway.seam.kind",
    "cause": "polygateway.stall.cause",
    "type": "gen_ai.token.type",
    "confidence": "polygateway.wasted.confidence",
}
"""What the labels of :mod:`.metrics` are called."""


class OpenTelemetryInstrument(MetricsInstrument):
    """Writes each call as a span, with one below it for each attempt, and keeps metrics.

    The span of a call is a child of the span that is current where the application calls. Spans are
    written when the call ends, with the times at which they began and ended. No attribute holds
    text of a prompt or an answer, a key, or the text of an error.

    One instrument may watch several gateways.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        legacy_names: bool = False,
        chunk_times: bool = True,
    ) -> None:
        """Prepare tracer and meter.

        Args:
            tracer_provider: where spans go; by default to the application's global provider.
            meter_provider: where metrics go; likewise.
            legacy_names: whether the conventions' three metrics get their names of before the
                release 0.1, ``gen_ai.client.operation.*``, instead of
                ``gen_ai.client.inference.*``.
            chunk_times: whether to record the time of each chunk. The SDK takes some ten
                microseconds for one, and all of an answer are recorded when its call has ended.
        """
        self.wants_traces = chunk_times
        self._calls: dict[int, Recording] = {}
        self._tracer = trace.get_tracer(_NAME, __version__, tracer_provider)
        meter = metrics.get_meter(_NAME, __version__, meter_provider)
        self._adders = {
            metric: _adder(meter, metric) for metric in METRICS if metric not in OF_CALLS
        }
        prefix = f"gen_ai.client.{'operation' if legacy_names else 'inference'}"
        self._duration = _histogram(meter, f"{prefix}.duration", "Duration of the call.")
        self._first_chunk = _histogram(
            meter, f"{prefix}.time_to_first_chunk", "From the call to the first content."
        )
        self._per_chunk = _histogram(
            meter, f"{prefix}.time_per_output_chunk", "From each content chunk to the next."
        )

    @staticmethod
    def views() -> list[View]:
        """Give what makes a meter provider keep exponential histograms of these metrics.

        ``MeterProvider(..., views=OpenTelemetryInstrument.views())``. Without it the histograms
        have fixed buckets, up to ten minutes.

        Raises:
            ImportError: ``opentelemetry-sdk`` is not installed.
        """
        from opentelemetry.sdk.metrics import Histogram as SDKHistogram  # noqa: PLC0415 - the
        from opentelemetry.sdk.metrics.view import (  # noqa: PLC0415 - application brings the SDK
            ExponentialBucketHistogramAggregation,
            View,
        )

        return [
            View(
                instrument_type=SDKHistogram,
                meter_name=_NAME,
                aggregation=ExponentialBucketHistogramAggregation(),
            )
        ]

    def call_started(self, event: CallStarted) -> None:
        """Remember where and when the application called."""
        super().call_started(event)
        here = context.get_current()
        self._calls[event.call] = Recording(event, here, time_ns() - event.at_ns)

    def attempt_started(self, event: AttemptStarted) -> None:
        """Remember where an attempt went."""
        self._calls[event.call].attempts.append(event)

    def hedge_refused(self, event: HedgeRefused) -> None:
        """Remember a hedge that did not start."""
        self._calls[event.call].refused.append(event)

    def committed(self, event: Committed) -> None:
        """Remember who won."""
        self._calls[event.call].commits.append(event)

    def seam_made(self, event: SeamMade) -> None:
        """Remember where another attempt took over."""
        self._calls[event.call].seams.append(event)

    def attempt_ended(self, event: AttemptEnded) -> None:
        """Remember when its chunks came."""
        self._calls[event.call].traces[event.stats.index] = event.trace

    def call_ended(self, event: CallEnded) -> None:
        """Write the call's spans, and add it to the metrics."""
        super().call_ended(event)
        recording = self._calls.pop(event.call)
        inside = write_spans(self._tracer, recording, event)
        self._measure(recording, event, inside)

    def add(self, sample: Sample) -> None:
        """Add to a metric. Those of whole calls are the conventions' own."""
        if (add := self._adders.get(sample.metric)) is not None:
            labels = sample.labels.items()
            add(sample.amount, {_ATTRIBUTES[name]: value for name, value in labels if value})

    def _measure(self, recording: Recording, event: CallEnded, inside: Context) -> None:
        """Record the conventions' metrics, with the call's span as their exemplar."""
        operation = present(recording.operation(event))
        ending = present(
            {
                "error.type": None if event.error is None else event.error.kind,
                "polygateway.call.outcome": event.outcome,
            }
        )
        self._duration.record(event.stats.total_ms / 1e3, operation | ending, inside)
        if event.stats.ttft_ms is not None:
            self._first_chunk.record(event.stats.ttft_ms / 1e3, operation, inside)
        for time_s in recording.chunk_times():
            self._per_chunk.record(time_s, operation, inside)


def _adder(meter: Meter, metric: Metric) -> Callable[[float, Mapping[str, str]], None]:
    """Make a metric, and give what adds to it."""
    name = f"{_NAME}.{metric.name}"
    if metric.kind == "histogram":
        return _histogram(meter, name, metric.text, metric.bounds).record
    if metric.kind == "gauge":
        return meter.create_up_down_counter(name, metric.unit, metric.text).add
    return meter.create_counter(name, metric.unit, metric.text).add


def _histogram(meter: Meter, name: str, text: str, bounds: Sequence[float] = _SECONDS) -> Histogram:
    return meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=bounds)
