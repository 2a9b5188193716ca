"""What OpenTelemetry's own SDK exports, checked against what callers got."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, TypeAlias

import pytest
from opentelemetry import context
from opentelemetry.sdk.metrics import AlwaysOnExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import (
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry

from polygateway.instrument import CallEnded, CallStarted, Instrument
from polygateway.observe import opentelemetry as observed
from polygateway.observe.metrics import METRICS, OF_CALLS
from polygateway.observe.opentelemetry import OpenTelemetryInstrument
from polygateway.observe.prometheus import PrometheusInstrument
from tests.observe.scenes import PROMPT, SCENES, Shown, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opentelemetry.sdk.metrics.view import View

Point: TypeAlias = NumberDataPoint | HistogramDataPoint | ExponentialHistogramDataPoint

SECOND = 1_000_000_000
EPOCH = 1_772_600_000 * SECOND
"""What the wall clock shows while a scene is played, whose own clock begins at 0."""


class Export:
    """An instrument, and what OpenTelemetry's SDK exports of what it is told."""

    def __init__(
        self, *, views: Sequence[View] = (), legacy_names: bool = False, chunk_times: bool = True
    ) -> None:
        self._spans = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        self.instrument = OpenTelemetryInstrument(
            tracer_provider=self.tracers,
            meter_provider=MeterProvider(
                [self._reader], views=views, exemplar_filter=AlwaysOnExemplarFilter()
            ),
            legacy_names=legacy_names,
            chunk_times=chunk_times,
        )

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._spans.get_finished_spans()

    @property
    def call(self) -> ReadableSpan:
        (span,) = [span for span in self.spans if span.name.startswith("chat ")]
        return span

    @property
    def attempts(self) -> Sequence[ReadableSpan]:
        """In order of launch."""
        return [span for span in self.spans if span.name.startswith("attempt ")]

    def metrics(self) -> Mapping[str, Sequence[Point]]:
        """Give the points of each metric that has any."""
        data = self._reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: metric.data.data_points
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def histogram(self, name: str) -> HistogramDataPoint | ExponentialHistogramDataPoint:
        """Give the one point of a histogram."""
        (point,) = self.metrics()[name]
        assert not isinstance(point, NumberDataPoint)
        return point


def played(name: str, export: Export | None = None) -> tuple[Export, Shown]:
    """Play a scene, and give what was exported."""
    export = export or Export()
    return export, show(name, export.instrument)


@pytest.fixture(autouse=True)
def _wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "time_ns", lambda: EPOCH)


def of(span: ReadableSpan, prefix: str = "") -> dict[str, object]:
    """Give the attributes of a span whose names begin so."""
    return {
        name: value for name, value in (span.attributes or {}).items() if name.startswith(prefix)
    }


def when(span: ReadableSpan) -> tuple[float, float]:
    """Give when a span began and ended, in seconds from the beginning of its scene."""
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.start_time - EPOCH) / SECOND, (span.end_time - EPOCH) / SECOND


def events(span: ReadableSpan) -> Mapping[str, tuple[float, Mapping[str, object]]]:
    """Give the events of a span by name, with their times; no name may occur twice."""
    found = {
        event.name: ((event.timestamp - EPOCH) / SECOND, dict(event.attributes or {}))
        for event in span.events
    }
    assert len(found) == len(span.events)
    return found


# ---------------------------------------------------------------- spans, by arithmetic


def test_a_call_is_one_client_span_with_one_below_it_for_each_attempt() -> None:
    export, _ = played("rescued")
    assert [(span.name, span.kind) for span in export.spans] == [
        ("attempt eu", SpanKind.INTERNAL),
        ("attempt us", SpanKind.INTERNAL),
        ("chat m", SpanKind.CLIENT),
    ]
    assert export.call.parent is None
    for attempt in export.attempts:
        assert attempt.parent == export.call.context


def test_spans_have_the_times_at_which_things_happened() -> None:
    export, _ = played("rescued")
    assert when(export.call) == (0, 6.1)
    assert [when(attempt) for attempt in export.attempts] == [(0, 5.7), (5.6, 6.1)]


def test_the_span_of_a_call_says_what_the_conventions_have_a_name_for() -> None:
    export, _ = played("rescued")
    assert of(export.call, "gen_ai.") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "chatcmpl-scripted",
        "gen_ai.response.model": "scripted",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 5.7,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 5,
    }
    assert of(export.call, "server.") == {"server.address": "us.invalid", "server.port": 80}


def test_attempts_are_not_taken_for_calls() -> None:
    export, _ = played("rescued")
    assert [of(attempt, "gen_ai.") for attempt in export.attempts] == [{}, {}]


def test_the_span_of_an_attempt_says_what_became_of_it() -> None:
    export, _ = played("rescued")
    eu, us = map(of, export.attempts)
    assert eu["polygateway.attempt.kind"] == "primary"
    assert eu["polygateway.attempt.outcome"] == "lost"
    assert eu["polygateway.attempt.cancelled_because"] == "lost a duel"
    assert eu["polygateway.wasted.confidence"] == "estimate"
    assert eu["polygateway.gap.open"] == 5.1
    assert us["polygateway.attempt.kind"] == "hedge"
    assert us["polygateway.attempt.outcome"] == "won"
    assert us["polygateway.hedge.reason"] == "stall"
    assert us["polygateway.provider.model"] == "scripted"
    assert us["http.response.status_code"] == 200
    assert "polygateway.wasted.confidence" not in us


def test_the_commit_is_an_event_of_the_call() -> None:
    export, _ = played("rescued")
    winner = {"polygateway.attempt.index": 1, "polygateway.target": "us"}
    assert events(export.call) == {"polygateway.commit": (6.1, winner)}


def test_a_refused_hedge_is_an_event_of_the_call() -> None:
    export, _ = played("refused")
    refusal = {"polygateway.hedge.reason": "ttft", "polygateway.refusal.why": "max_attempts"}
    assert events(export.call)["polygateway.hedge.refused"] == (5, refusal)


@pytest.mark.parametrize(
    ("scene", "kind", "at_s"), [("restarted", "restart", 2.8), ("continued", "continue", 5.3)]
)
def test_a_seam_is_an_event_of_the_call_and_so_is_each_commit(
    scene: str, kind: str, at_s: float
) -> None:
    export, _ = played(scene)
    told = [(each.name, (each.timestamp - EPOCH) / SECOND) for each in export.call.events]
    assert told == [
        ("polygateway.commit", 0.1),
        ("polygateway.commit", at_s),
        ("polygateway.seam", at_s),
    ]
    winners = [dict(each.attributes or {}) for each in export.call.events[:2]]
    assert [winner["polygateway.target"] for winner in winners] == ["eu", "us"]
    assert dict(export.call.events[2].attributes or {}) == {
        "polygateway.seam.kind": kind,
        "polygateway.seam.before": 0,
        "polygateway.seam.after": 1,
        "polygateway.seam.characters": 9,
    }
    assert of(export.call)["polygateway.call.seams"] == 1


@pytest.mark.parametrize(
    ("scene", "holdout"), [("held out", True), ("rescued", False), ("refused", False)]
)
def test_a_call_says_whether_it_is_of_the_holdout(scene: str, holdout: bool) -> None:
    export, _ = played(scene)
    assert of(export.call)["polygateway.hedge.holdout"] is holdout
    assert of(export.call)["polygateway.call.seams"] == 0


def test_a_stall_is_an_event_of_its_attempt_when_the_silence_began() -> None:
    export, _ = played("stalled")
    at, stall = events(export.attempts[0])["polygateway.stall"]
    assert at == 0.7
    assert stall == {
        "polygateway.stall.duration": 3.0,
        "polygateway.stall.cause": "server_silence",
        "polygateway.stall.after_chunk": 7,
        "polygateway.stall.keepalives": 0,
        "polygateway.stall.open": False,
    }


def test_sending_and_the_head_of_the_response_are_events_of_an_attempt() -> None:
    export, _ = played("refused")
    times = {name: at for name, (at, _) in events(export.attempts[0]).items()}
    assert times == {"polygateway.request.sent": 0, "polygateway.response.head": 6}


def test_a_call_that_failed_says_with_what() -> None:
    export, _ = played("failed")
    assert export.call.status.status_code is StatusCode.ERROR
    assert export.call.status.description == "AuthenticationFailed"
    assert of(export.call)["error.type"] == "auth"
    assert of(export.call)["polygateway.call.outcome"] == "failed"
    assert [span.status.status_code for span in export.attempts] == [StatusCode.ERROR] * 2
    assert [of(span)["error.type"] for span in export.attempts] == ["rate_limited", "auth"]


def test_what_was_rescued_is_no_error() -> None:
    export, _ = played("rescued")
    assert [span.status.status_code for span in export.spans] == [StatusCode.UNSET] * 3
    assert not any("error.type" in of(span) for span in export.spans)


def test_a_call_that_its_caller_left_is_no_error() -> None:
    export, _ = played("left")
    assert [span.status.status_code for span in export.spans] == [StatusCode.UNSET] * 2
    assert of(export.call)["polygateway.call.outcome"] == "cancelled"
    assert of(export.attempts[0])["polygateway.attempt.cancelled_because"] == "caller"


@pytest.mark.parametrize(
    ("scene", "reasons"),
    [("stalled", ("length",)), ("cut", ("error",)), ("left", ("error",)), ("failed", None)],
)
def test_a_generation_that_ended_without_a_reason_has_the_conventions_word(
    scene: str, reasons: Sequence[str] | None
) -> None:
    export, _ = played(scene)
    assert of(export.call).get("gen_ai.response.finish_reasons") == reasons


@pytest.mark.parametrize(("scene", "method"), [("rescued", "complete"), ("stalled", "stream")])
def test_how_the_application_called_is_not_how_the_request_was_made(
    scene: str, method: str
) -> None:
    export, _ = played(scene)
    assert of(export.call)["polygateway.call.method"] == method
    assert of(export.call)["gen_ai.request.stream"] is True


# ---------------------------------------------------------------- spans, of every scene


def same(ms: float | None) -> float | None:
    return None if ms is None else ms / 1e3


@pytest.mark.parametrize("name", SCENES)
def test_every_figure_of_a_span_is_the_callers(name: str) -> None:
    export, shown = played(name)
    told = of(export.call)
    stats, usage = shown.stats, shown.event.usage
    assert when(export.call)[1] == pytest.approx(stats.total_ms / 1e3)
    assert told.get("gen_ai.response.time_to_first_chunk") == same(stats.ttft_ms)
    assert told.get("gen_ai.usage.input_tokens") == usage.input_tokens
    assert told.get("gen_ai.usage.output_tokens") == stats.output_tokens
    assert told["polygateway.call.attempts"] == len(stats.attempts) == len(export.attempts)
    assert told.get("polygateway.hedge.after") == same(stats.hedge_after_ms)
    for span, figures in zip(
        [export.call, *export.attempts], [stats, *stats.attempts], strict=True
    ):
        told = of(span)
        assert told["polygateway.chunks"] == figures.chunk_count
        assert told.get("polygateway.generation.duration") == same(figures.generation_ms)
        assert told.get("polygateway.stall.duration") == same(figures.stall_ms)
        assert told.get("polygateway.stall.count") == figures.stall_count
        assert told.get("polygateway.backpressure.duration") == same(figures.backpressure_ms)
        assert told.get("polygateway.gap.max") == same(figures.max_gap_ms)
        assert told.get("polygateway.gap.open") == same(figures.open_gap_ms)
        assert told.get("polygateway.rate.tokens_per_second") == figures.tokens_per_s


@pytest.mark.parametrize("name", SCENES)
def test_every_attempt_lies_within_its_call(name: str) -> None:
    export, shown = played(name)
    begin, end = when(export.call)
    for span, stats in zip(export.attempts, shown.stats.attempts, strict=True):
        began, ended = when(span)
        assert begin <= began <= ended <= end
        assert began == pytest.approx(stats.started_ms / 1e3)
        assert ended - began == pytest.approx(stats.total_ms / 1e3)
        assert all(began <= at <= ended for at, _ in events(span).values())


@pytest.mark.parametrize("name", SCENES)
def test_nothing_that_is_exported_holds_what_was_asked(name: str) -> None:
    export, _ = played(name)
    assert all(PROMPT not in span.to_json() for span in export.spans)
    assert PROMPT not in str(export.metrics())


@pytest.mark.parametrize("name", SCENES)
def test_nothing_is_kept_of_a_call_that_has_ended(name: str) -> None:
    export, _ = played(name)
    assert not export.instrument._calls


# ---------------------------------------------------------------- where spans belong


def test_the_span_of_a_call_is_a_child_of_what_is_current_where_it_is_made() -> None:
    export = Export()
    with export.tracers.get_tracer("application").start_as_current_span("request") as request:
        before = context.get_current()
        played("rescued", export)
        assert context.get_current() == before
    assert export.call.parent == request.get_span_context()


class EndsTheParent(Instrument):
    """Makes nothing current any more while a call runs, as a task elsewhere would."""

    def call_started(self, event: CallStarted) -> None:
        self.token = context.attach(context.Context())

    def call_ended(self, event: CallEnded) -> None:
        context.detach(self.token)


def test_it_is_so_too_when_the_call_ends_where_something_else_is_current() -> None:
    export = Export()
    with export.tracers.get_tracer("application").start_as_current_span("request") as request:
        show("left", export.instrument, EndsTheParent())
    assert export.call.parent == request.get_span_context()


@pytest.mark.parametrize(("scene", "target"), [("rescued", "us"), ("failed", "us"), ("left", "eu")])
def test_the_address_is_that_of_the_attempt_that_the_figures_are_of(
    scene: str, target: str
) -> None:
    export, _ = played(scene)
    assert of(export.call)["polygateway.target"] == target
    assert of(export.call)["server.address"] == f"{target}.invalid"


def test_the_address_of_a_call_that_nobody_won_is_where_content_came_from_last() -> None:
    export, _ = played("duel")
    assert of(export.call)["polygateway.target"] == "eu"
    assert of(export.call)["polygateway.call.outcome"] == "cancelled"
    assert len(export.attempts) == 2


# ---------------------------------------------------------------- metrics of the conventions


@pytest.mark.parametrize("name", SCENES)
def test_the_duration_is_that_of_the_span(name: str) -> None:
    export, _ = played(name)
    point = export.histogram("gen_ai.client.inference.duration")
    begin, end = when(export.call)
    assert point.count == 1
    assert point.sum == pytest.approx(end - begin)


def test_the_duration_says_what_the_conventions_ask_for_and_how_the_call_ended() -> None:
    export, _ = played("rescued")
    assert export.histogram("gen_ai.client.inference.duration").attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "scripted",
        "server.address": "us.invalid",
        "server.port": 80,
        "polygateway.call.outcome": "complete",
    }


def test_the_duration_of_a_failure_has_its_error() -> None:
    export, _ = played("cut")
    told = export.histogram("gen_ai.client.inference.duration").attributes or {}
    assert told["error.type"] == "transient"
    assert told["polygateway.call.outcome"] == "failed"


def test_the_time_to_the_first_chunk_is_the_callers() -> None:
    export, _ = played("rescued")
    point = export.histogram("gen_ai.client.inference.time_to_first_chunk")
    assert (point.count, point.sum) == (1, 5.7)


def test_the_time_of_each_chunk_after_the_first_is_recorded() -> None:
    export, _ = played("stalled", Export(views=OpenTelemetryInstrument.views()))
    point = export.histogram("gen_ai.client.inference.time_per_output_chunk")
    assert isinstance(point, ExponentialHistogramDataPoint)
    # Twelve chunks from 0.1 to 4.0, two of them in one read.
    assert (point.count, point.zero_count, point.max) == (11, 1, 3)
    assert point.sum == pytest.approx(3.9)


def test_of_a_call_with_a_seam_the_chunks_of_the_last_attempt_are_timed() -> None:
    export, _ = played("restarted")
    point = export.histogram("gen_ai.client.inference.time_per_output_chunk")
    assert point.count == 2
    assert point.sum == pytest.approx(0.2)


def test_only_the_winners_chunks_are_timed() -> None:
    export, _ = played("rescued")
    point = export.histogram("gen_ai.client.inference.time_per_output_chunk")
    assert point.count == 4
    assert point.sum == pytest.approx(0.4)


@pytest.mark.parametrize("scene", ["document", "failed"])
def test_what_was_not_streamed_has_no_times_of_chunks(scene: str) -> None:
    export, _ = played(scene)
    assert "gen_ai.client.inference.time_to_first_chunk" not in export.metrics()
    assert "gen_ai.client.inference.time_per_output_chunk" not in export.metrics()


def test_the_times_of_chunks_can_be_left_out() -> None:
    export = Export(chunk_times=False)
    assert not export.instrument.wants_traces
    played("stalled", export)
    assert "gen_ai.client.inference.time_per_output_chunk" not in export.metrics()
    assert "gen_ai.client.inference.time_to_first_chunk" in export.metrics()


def test_an_exemplar_leads_to_the_span_of_its_call() -> None:
    export, _ = played("stalled")
    for name, points in export.metrics().items():
        if name.startswith("gen_ai."):
            (exemplar, *_) = points[0].exemplars
            assert export.call.context is not None
            assert exemplar.span_id == export.call.context.span_id
            assert exemplar.trace_id == export.call.context.trace_id


def conventional(export: Export) -> Iterable[str]:
    return sorted(name for name in export.metrics() if name.startswith("gen_ai."))


def test_the_metrics_have_the_names_of_the_conventions_or_their_older_ones() -> None:
    new, _ = played("stalled")
    old, _ = played("stalled", Export(legacy_names=True))
    parts = ["duration", "time_per_output_chunk", "time_to_first_chunk"]
    assert conventional(new) == [f"gen_ai.client.inference.{part}" for part in parts]
    assert conventional(old) == [f"gen_ai.client.operation.{part}" for part in parts]


# ---------------------------------------------------------------- our own metrics


@pytest.mark.parametrize("name", SCENES)
def test_our_own_metrics_add_up_to_those_of_prometheus(name: str) -> None:
    export, registry = Export(), CollectorRegistry()
    show(name, export.instrument, PrometheusInstrument(registry))
    theirs = [sample for family in registry.collect() for sample in family.samples]
    suffixes = {"counter": "_total", "gauge": "", "histogram": "_sum"}
    for metric in METRICS:
        if metric not in OF_CALLS:
            unit = "_seconds" if metric.unit == "s" else ""
            full = f"polygateway_{metric.name.replace('.', '_')}{unit}{suffixes[metric.kind]}"
            expected = sum(sample.value for sample in theirs if sample.name == full)
            points = export.metrics().get(f"polygateway.{metric.name}", ())
            assert sum(map(amount, points)) == pytest.approx(expected), metric


def amount(point: Point) -> float:
    return point.value if isinstance(point, NumberDataPoint) else point.sum


def test_our_own_metrics_say_what_they_are_of() -> None:
    export, _ = played("rescued")
    hedge = {
        "gen_ai.request.model": "m",
        "polygateway.target": "us",
        "polygateway.attempt.kind": "hedge",
        "polygateway.attempt.outcome": "won",
        "polygateway.hedge.reason": "stall",
    }
    primary = {
        "gen_ai.request.model": "m",
        "polygateway.target": "eu",
        "polygateway.attempt.kind": "primary",
        "polygateway.attempt.outcome": "lost",
    }
    attempts = export.metrics()["polygateway.attempts"]
    assert [point.attributes for point in attempts] == [primary, hedge]
    (stall,) = export.metrics()["polygateway.stall.duration"]
    assert stall.attributes == {
        "gen_ai.request.model": "m",
        "polygateway.target": "eu",
        "polygateway.stall.cause": "server_silence",
    }


# ---------------------------------------------------------------- histograms


def test_the_views_make_every_histogram_exponential_and_leave_counters_alone() -> None:
    export, _ = played("rescued", Export(views=OpenTelemetryInstrument.views()))
    kinds = {name: {type(point) for point in points} for name, points in export.metrics().items()}
    histograms = {f"polygateway.{metric.name}" for metric in METRICS if metric.kind == "histogram"}
    for name, kind in kinds.items():
        is_histogram = name in histograms or name.startswith("gen_ai.")
        assert kind == {ExponentialHistogramDataPoint if is_histogram else NumberDataPoint}, name


def test_without_views_the_buckets_go_on_where_the_conventions_end_too_early() -> None:
    export, _ = played("rescued")
    point = export.histogram("gen_ai.client.inference.duration")
    assert isinstance(point, HistogramDataPoint)
    conventions = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48]
    assert list(point.explicit_bounds) == [*conventions, 40.96, 81.92, 163.84, 327.68, 655.36]


# ---------------------------------------------------------------- without the packages


@pytest.mark.parametrize("name", SCENES)
def test_an_application_without_the_sdk_notices_nothing(name: str) -> None:
    # The global providers are the API's own, which do nothing.
    show(name, OpenTelemetryInstrument())


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("opentelemetry", "opentelemetry", "otel"), ("prometheus", "prometheus_client", "prometheus")],
)
def test_without_its_package_a_module_says_what_to_install(
    module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"polygateway.observe.{module}")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'polygateway\[{extra}\]'"):
        importlib.import_module(f"polygateway.observe.{module}")
