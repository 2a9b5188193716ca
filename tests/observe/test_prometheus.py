"""What Prometheus scrapes: read by its own parser, checked against what callers got."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families

from polygateway import ConfigurationError, open_gateway
from polygateway.observe.metrics import METRICS
from polygateway.observe.prometheus import PrometheusInstrument
from polygateway.testing import run_virtual, serve_memory
from tests.observe.scenes import PROMPT, SCENES, read_all, show


class Scrape:
    """One scrape of a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.text = generate_latest(registry).decode()
        self.families = list(text_string_to_metric_families(self.text))
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """Give the one sample of that name with exactly these labels, but for empty ones."""
        return self.samples[f"polygateway_{name}", frozenset(labels.items())]

    def total(self, name: str, **labels: str) -> float:
        """Give the sum of all samples of that name which have these labels."""
        return sum(
            value
            for (full, having), value in self.samples.items()
            if full == f"polygateway_{name}" and labels.items() <= dict(having).items()
        )


def scrape(scene: str, *, times: int = 1) -> Scrape:
    registry = CollectorRegistry()
    show(scene, PrometheusInstrument(registry), times=times)
    return Scrape(registry)


# ---------------------------------------------------------------- scenes, by arithmetic


def test_a_rescue_is_a_hedge_that_won_and_a_primary_that_lost() -> None:
    seen = scrape("rescued")
    assert seen.value("calls_total", model="m", outcome="complete", error="") == 1
    attempts = {"model": "m", "error": ""}
    primary = {"target": "eu", "kind": "primary", "reason": "", "outcome": "lost"}
    hedge = {"target": "us", "kind": "hedge", "reason": "stall", "outcome": "won"}
    assert seen.value("attempts_total", **attempts, **primary) == 1
    assert seen.value("attempts_total", **attempts, **hedge) == 1
    assert seen.total("attempts_total") == 2


def test_the_times_of_a_rescue_are_the_callers_and_each_targets_own() -> None:
    seen = scrape("rescued")
    assert seen.value("call_duration_seconds_sum", model="m", outcome="complete") == 6.1
    assert seen.value("call_time_to_first_content_seconds_sum", model="m") == 5.7
    assert seen.value("attempt_time_to_first_content_seconds_sum", model="m", target="eu") == 0.2
    assert seen.value("attempt_time_to_first_content_seconds_sum", model="m", target="us") == 0.1


def test_a_stall_in_which_an_attempt_lost_is_no_part_of_its_generation() -> None:
    seen = scrape("rescued")
    eu = {"model": "m", "target": "eu"}
    assert seen.value("generation_time_seconds_total", **eu) == 0.4
    assert seen.value("stall_time_seconds_total", **eu) == 0
    assert seen.value("stall_open_time_seconds_total", **eu) == 5.1
    assert seen.value("stalls_total", **eu) == 1
    assert seen.value("attempt_longest_silence_seconds_sum", **eu) == 5.1


def test_a_stall_that_ended_is_part_of_generation() -> None:
    seen = scrape("stalled")
    eu = {"model": "m", "target": "eu"}
    assert seen.value("generation_time_seconds_total", **eu) == 3.9
    assert seen.value("stall_time_seconds_total", **eu) == 3
    assert seen.value("stalls_total", **eu) == 1
    assert seen.value("stall_duration_seconds_sum", **eu, cause="server_silence") == 3
    assert not seen.total("stall_open_time_seconds_total")


def test_a_stall_of_three_seconds_is_in_the_bucket_up_to_five() -> None:
    seen = scrape("stalled")
    labels = {"model": "m", "target": "eu", "cause": "server_silence"}
    assert seen.value("stall_duration_seconds_bucket", **labels, le="2.0") == 0
    assert seen.value("stall_duration_seconds_bucket", **labels, le="5.0") == 1


def test_the_longest_bucket_of_a_stall_ends_at_ten_minutes() -> None:
    seen = scrape("stalled")
    bounds = {
        float(dict(labels)["le"])
        for name, labels in seen.samples
        if name == "polygateway_stall_duration_seconds_bucket"
    }
    assert sorted(bounds)[-2:] == [600, float("inf")]


def test_tokens_of_the_winner_and_tokens_in_vain_are_told_apart() -> None:
    seen = scrape("rescued")
    us = {"model": "m", "target": "us"}
    assert seen.value("tokens_total", **us, type="input") == 7
    assert seen.value("tokens_total", **us, type="output") == 5
    # eu counted nothing. The prompt was the winner's; 3 characters are 3/21 of its 5 tokens.
    eu = {"model": "m", "target": "eu", "confidence": "estimate"}
    assert seen.value("wasted_tokens_total", **eu, type="input") == 7
    assert seen.value("wasted_tokens_total", **eu, type="output") == 1
    assert seen.total("tokens_total", target="eu") == 0


def test_a_loser_is_closed_at_once() -> None:
    seen = scrape("rescued")
    labels = {"model": "m", "target": "eu"}
    assert seen.value("attempt_cancel_to_closed_seconds_bucket", **labels, le="0.0001") == 1
    assert seen.total("attempt_cancel_to_closed_seconds_count") == 1


def test_a_refused_hedge_is_counted_with_its_reason() -> None:
    seen = scrape("refused")
    assert seen.value("hedges_refused_total", model="m", why="max_attempts") == 1
    assert seen.total("attempts_total", kind="hedge") == 0


@pytest.mark.parametrize(("scene", "kind"), [("restarted", "restart"), ("continued", "continue")])
def test_a_seam_is_counted_by_what_becomes_of_the_text_before_it(scene: str, kind: str) -> None:
    seen = scrape(scene)
    assert seen.value("seams_total", model="m", seam=kind) == seen.total("seams_total") == 1


def test_tokens_before_a_seam_are_in_vain_if_their_text_is_discarded() -> None:
    # eu counted nothing, so an estimate: 9 characters are 9/15 of the 3 tokens of us.
    assert scrape("restarted").total("wasted_tokens_total", target="eu", type="output") == 2
    assert not scrape("continued").total("wasted_tokens_total")


def test_a_failure_is_counted_by_its_kind_for_the_call_and_for_each_attempt() -> None:
    seen = scrape("failed")
    assert seen.value("calls_total", model="m", outcome="failed", error="auth") == 1
    assert seen.total("attempts_total", target="eu", kind="primary", error="rate_limited") == 1
    assert seen.total("attempts_total", target="us", kind="retry", error="auth") == 1


def test_what_a_call_without_content_does_not_have_is_not_counted_as_zero() -> None:
    seen = scrape("failed")
    assert not seen.total("call_time_to_first_content_seconds_count")
    assert not seen.total("attempt_longest_silence_seconds_count")


def test_a_call_that_its_caller_left_is_no_failure() -> None:
    seen = scrape("left")
    assert seen.value("calls_total", model="m", outcome="cancelled", error="") == 1
    assert seen.total("attempts_total", outcome="cancelled", error="") == 1


def test_a_connection_that_breaks_is_the_cause_of_its_last_silence() -> None:
    seen = scrape("cut")
    stall = {"model": "m", "target": "eu", "cause": "disconnect"}
    assert seen.value("stall_duration_seconds_sum", **stall) == 2.5


# ---------------------------------------------------------------- every scene


@pytest.mark.parametrize("name", SCENES)
def test_every_figure_is_the_callers(name: str) -> None:
    registry = CollectorRegistry()
    stats = show(name, PrometheusInstrument(registry)).stats
    seen = Scrape(registry)
    attempts = stats.attempts
    assert seen.total("call_duration_seconds_sum") == stats.total_ms / 1e3
    assert seen.total("call_time_to_first_content_seconds_sum") == (stats.ttft_ms or 0) / 1e3
    assert seen.total("hedges_refused_total") == sum(stats.hedges_refused.values())
    assert seen.total("attempts_total") == len(attempts)
    sums_ms = {
        "attempt_time_to_first_content_seconds_sum": sum(each.ttft_ms or 0 for each in attempts),
        "generation_time_seconds_total": sum(each.generation_ms or 0 for each in attempts),
        "stall_time_seconds_total": sum(each.stall_ms or 0 for each in attempts),
    }
    for metric, sum_ms in sums_ms.items():
        assert seen.total(metric) == pytest.approx(sum_ms / 1e3)
    stalls = [stall for attempt in stats.attempts for stall in attempt.stalls]
    assert seen.total("stall_duration_seconds_count") == len(stalls)


@pytest.mark.parametrize("name", SCENES)
def test_every_sum_is_the_gateways_own(name: str) -> None:
    registry = CollectorRegistry()
    totals = show(name, PrometheusInstrument(registry), times=3).totals
    seen = Scrape(registry)
    for target, own in totals.targets.items():
        at = {"target": target}
        for kind, fates in own.attempts.items():
            for outcome, count in fates.items():
                assert seen.total("attempts_total", kind=kind, outcome=outcome, **at) == count
        assert seen.total("stalls_total", **at) == own.stalls
        assert seen.total("stall_time_seconds_total", **at) == pytest.approx(own.stall_s)
        assert seen.total("stall_open_time_seconds_total", **at) == pytest.approx(own.open_stall_s)
        assert seen.total("generation_time_seconds_total", **at) == pytest.approx(own.generation_s)
        assert seen.total("tokens_total", type="output", **at) == own.output_tokens
        wasted = {"input": own.wasted_input_tokens, "output": own.wasted_output_tokens}
        for sort, count in wasted.items():
            assert seen.total("wasted_tokens_total", type=sort, **at) == count
        distributions = {
            "attempt_time_to_first_content": own.ttft_ms,
            "attempt_longest_silence": own.longest_silence_ms,
            "stall_duration": own.stall_duration_ms,
            "attempt_cancel_to_closed": own.cancel_to_closed_ms,
        }
        for metric, distribution in distributions.items():
            assert seen.total(f"{metric}_seconds_count", **at) == distribution.count
            assert seen.total(f"{metric}_seconds_sum", **at) == pytest.approx(
                distribution.sum / 1e3
            )
    for ending, count in totals.models["m"].outcomes.items():
        assert seen.total("calls_total", outcome=ending) == count


@pytest.mark.parametrize("name", SCENES)
def test_nothing_is_under_way_when_all_calls_have_ended(name: str) -> None:
    seen = scrape(name, times=2)
    assert seen.value("calls_active", model="m") == 0
    assert seen.total("stalls_active") == 0


async def scraped_after(seconds: float) -> Scrape:
    """Scrape so long after the call of the scene "stalled" began."""
    registry = CollectorRegistry()
    watching = [PrometheusInstrument(registry)]
    async with (
        serve_memory(SCENES["stalled"].providers()) as network,
        open_gateway(network.config(), connect=network.connect, instruments=watching) as gw,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(read_all, gw)
        await trio.sleep(seconds)
        seen = Scrape(registry)
        nursery.cancel_scope.cancel()
    return seen


@pytest.mark.parametrize(("seconds", "stalls"), [(2.69, 0), (2.71, 1), (3.69, 1), (3.71, 0)])
def test_what_is_under_way_can_be_scraped(seconds: float, stalls: int) -> None:
    # The silence begins at 0.7 and ends at 3.7; from 2 s on it is a stall.
    seen = run_virtual(scraped_after, seconds)
    assert seen.value("calls_active", model="m") == 1
    assert seen.total("stalls_active", target="eu") == stalls
    assert seen.total("calls_total") == 0


@pytest.mark.parametrize("name", SCENES)
def test_no_scrape_holds_what_was_asked(name: str) -> None:
    assert PROMPT not in scrape(name).text


# Not where the first call teaches that a target wants to be left alone: the second goes elsewhere.
@pytest.mark.parametrize("name", [each for each in SCENES if each != "failed"])
def test_a_second_call_adds_to_the_counters_but_brings_no_new_series(name: str) -> None:
    once, twice = scrape(name), scrape(name, times=2)
    assert once.samples.keys() == twice.samples.keys()
    assert twice.total("calls_total") == 2 * once.total("calls_total")


def test_openmetrics_is_told_the_units() -> None:
    registry = CollectorRegistry()
    PrometheusInstrument(registry)
    encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    told = re.findall(r"^# UNIT (\w+) (\w+)$", encode(registry).decode(), re.MULTILINE)
    assert sorted(told) == sorted(
        (family.name, "seconds") for family in registry.collect() if "_seconds" in family.name
    )


# ---------------------------------------------------------------- names and registries


def test_names_follow_the_rules_of_prometheus() -> None:
    registry = CollectorRegistry()
    PrometheusInstrument(registry)
    families = Scrape(registry).families
    assert len(families) == len(METRICS)
    for family in families:
        assert re.fullmatch(r"polygateway_[a-z_]+", family.name)
        assert family.documentation.endswith(".")


def test_the_documentation_has_every_metric_with_its_labels() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/export-metrics.md").read_text("utf-8")
    row = r"^\| `([a-z_.]+)` \| (\w+) \| (\w+) \| ((?:`\w+`(?:, )?)+) \|"
    told = re.findall(row, page, re.MULTILINE)
    assert told == [
        (
            metric.name,
            metric.kind,
            metric.unit.strip("{}"),
            ", ".join(f"`{label}`" for label in metric.labels),
        )
        for metric in METRICS
    ]


def test_a_second_instrument_on_one_registry_is_refused_and_says_what_to_do() -> None:
    registry = CollectorRegistry()
    PrometheusInstrument(registry)
    with pytest.raises(ConfigurationError, match=r"registry has metrics .*'polygateway'"):
        PrometheusInstrument(registry)
    PrometheusInstrument(registry, namespace="other")
    PrometheusInstrument(CollectorRegistry())


def test_an_instrument_that_is_refused_leaves_nothing_in_the_registry() -> None:
    registry = CollectorRegistry()
    Counter("polygateway_tokens", "Of somebody else.", registry=registry)
    with pytest.raises(ConfigurationError):
        PrometheusInstrument(registry)
    assert "polygateway_calls" not in Scrape(registry).text


def test_one_instrument_may_watch_several_gateways() -> None:
    registry = CollectorRegistry()
    instrument = PrometheusInstrument(registry)
    show("left", instrument)
    show("failed", instrument)
    assert Scrape(registry).total("calls_total") == 2
