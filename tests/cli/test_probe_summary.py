"""From requests to what they say: what is counted as what, and what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, strategies as st

from polygateway import (
    AuthenticationFailed,
    ConnectFailed,
    ConnectTimeout,
    DeadlineExceeded,
    FirstContentTimeout,
    GatewayError,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    RateLimited,
    ServerError,
    StallTimeout,
    StreamBroken,
    Truncated,
)
from polygateway.cli.probing.effort import Effort
from polygateway.cli.probing.estimate import Observed, Share
from polygateway.cli.probing.sample import Sample, is_hopeless
from polygateway.cli.probing.summary import summarize
from tests.cli.probes import FLOWING, MADE, SILENT, STALLED

if TYPE_CHECKING:
    from polygateway.errors import AttemptError


def failure(cls: type[AttemptError], text: str = "no") -> AttemptError:
    return cls(text, target="eu", attempt=0)


def failed(error: GatewayError, *, elapsed_ms: float = 1400.0) -> Sample:
    """Give a request without any content."""
    return attrs.evolve(MADE, figures=SILENT, error=error, elapsed_ms=elapsed_ms)


def broken(cls: type[AttemptError], *, silent_ms: float, chunk_count: int = 11) -> Sample:
    """Give a request whose answer broke after such a silence."""
    figures = attrs.evolve(
        FLOWING,
        open_gap_ms=silent_ms,
        chunk_count=chunk_count,
        max_gap_ms=100.0 if chunk_count > 1 else None,
        tokens_per_s=None,
        rate_basis=None,
        rate_reason="truncated",
    )
    error = StreamBroken("the stream broke", failure(cls, "cut after 11 chunks"))
    return attrs.evolve(MADE, figures=figures, error=error)


UNFINISHED = attrs.evolve(MADE, figures=None, finished=False, elapsed_ms=55_000.0)
SLOW = failed(DeadlineExceeded("over 60 s"), elapsed_ms=60_000.0)


# ---------------------------------------------------------------- outcomes


@pytest.mark.parametrize(
    ("sample", "outcome"),
    [
        (MADE, "whole"),
        (attrs.evolve(MADE, figures=SILENT), "whole"),  # an empty answer has its proper end too
        (broken(Truncated, silent_ms=0.0), "truncated"),
        (broken(StallTimeout, silent_ms=120_000.0), "truncated"),
        (failed(failure(ServerError)), "failed"),
        (attrs.evolve(MADE, figures=None, error=failure(ServerError)), "failed"),
        (SLOW, "failed"),
        (UNFINISHED, "unfinished"),
    ],
)
def test_an_outcome_tells_whether_content_and_the_proper_end_came(
    sample: Sample, outcome: str
) -> None:
    assert sample.outcome == outcome


def test_shares_are_of_what_has_finished() -> None:
    samples = [MADE, MADE, broken(Truncated, silent_ms=0.0), SLOW, UNFINISHED]
    summary = summarize(samples)
    assert (summary.whole, summary.truncated, summary.failed) == (
        Share(2, 4),
        Share(1, 4),
        Share(1, 4),
    )
    assert summary.unfinished == 1


OUTCOMES = st.sampled_from([MADE, broken(Truncated, silent_ms=0.0), SLOW, UNFINISHED])


@given(st.lists(OUTCOMES))
def test_every_request_is_counted_once(samples: list[Sample]) -> None:
    summary = summarize(samples)
    shares = (summary.whole, summary.truncated, summary.failed)
    assert sum(share.count for share in shares) + summary.unfinished == len(samples)
    assert {share.of for share in shares} == {len(samples) - summary.unfinished}


def test_of_no_requests_nothing_is_said() -> None:
    summary = summarize([])
    assert summary.whole.value is None
    assert summary.stall_share is None
    assert summary.backpressure_ms is None
    assert not any(figure.samples for figure in summary.figures.values())


# ---------------------------------------------------------------- times


def test_first_content_is_the_callers_whatever_came_later() -> None:
    assert broken(Truncated, silent_ms=0.0).ttft_ms() == Observed(400.0)


@pytest.mark.parametrize(
    "error", [failure(FirstContentTimeout), failure(ConnectTimeout), DeadlineExceeded("late")]
)
def test_what_was_given_up_without_content_took_at_least_so_long(error: GatewayError) -> None:
    given_up = failed(error, elapsed_ms=60_000.0)
    assert given_up.ttft_ms() == Observed(60_000.0, at_least=True)
    assert given_up.total_ms() == Observed(60_000.0, at_least=True)


def test_a_refusal_is_no_fast_answer() -> None:
    refused = failed(failure(Overloaded), elapsed_ms=5.0)
    assert (refused.ttft_ms(), refused.total_ms(), refused.silence_ms()) == (None, None, None)


def test_only_a_whole_answer_has_a_total() -> None:
    assert MADE.total_ms() == Observed(1400.0)
    assert broken(Truncated, silent_ms=0.0).total_ms() is None
    assert broken(StallTimeout, silent_ms=120_000.0).total_ms() == Observed(1400.0, at_least=True)


def test_what_nothing_is_known_of_observed_nothing() -> None:
    unknown = attrs.evolve(MADE, figures=None, error=failure(ServerError))
    assert (unknown.ttft_ms(), unknown.total_ms(), unknown.silence_ms()) == (None, None, None)


def test_the_longest_silence_is_the_longest_gap_of_a_whole_answer() -> None:
    assert MADE.silence_ms() == Observed(100.0)
    assert attrs.evolve(MADE, figures=SILENT).silence_ms() is None


@pytest.mark.parametrize(
    ("sample", "silence"),
    [
        # The peer closed after it: that silence was over.
        (broken(Truncated, silent_ms=3000.0), Observed(3000.0)),
        # We gave up: it would have gone on.
        (broken(StallTimeout, silent_ms=120_000.0), Observed(120_000.0, at_least=True)),
        # A longer one had been before.
        (broken(StallTimeout, silent_ms=50.0), Observed(100.0)),
        # After a single chunk there is no gap but the open one.
        (broken(Truncated, silent_ms=7.0, chunk_count=1), Observed(7.0)),
    ],
)
def test_the_silence_in_which_a_stream_ended_counts(sample: Sample, silence: Observed) -> None:
    assert sample.silence_ms() == silence


def test_from_the_due_time_every_delay_on_our_side_is_added() -> None:
    delayed = attrs.evolve(MADE, late_ms=20.0, queued_ms=300.0)
    figures = summarize([delayed, attrs.evolve(SLOW, queued_ms=5.0)]).figures
    assert figures["ttft_ms"].samples == [Observed(400.0), Observed(60_000.0, at_least=True)]
    assert figures["ttft_from_due_ms"].samples == [
        Observed(720.0),
        Observed(60_005.0, at_least=True),
    ]
    assert figures["total_from_due_ms"].samples[0] == Observed(1720.0)
    assert MADE.from_due(None) is None


def test_what_did_not_finish_is_in_no_figure() -> None:
    begun = attrs.evolve(UNFINISHED, figures=STALLED)
    assert summarize([MADE, begun]) == attrs.evolve(summarize([MADE]), unfinished=1)


# ---------------------------------------------------------------- stalls and speeds


def test_the_stall_share_is_the_sum_of_stalls_over_the_sum_of_generation() -> None:
    summary = summarize([MADE, attrs.evolve(MADE, figures=STALLED), SLOW])
    # 3 s of 1 s + 4 s, not the mean of 0 % and 75 %.
    assert summary.stall_share == pytest.approx(0.6)
    assert summary.stalled == Share(1, 2)  # the one without content cannot stall


def test_a_stream_that_was_given_up_in_its_stall_has_stalled() -> None:
    silent = broken(StallTimeout, silent_ms=120_000.0)
    assert silent.figures is not None
    figures = attrs.evolve(silent.figures, stalls=STALLED.stalls)
    assert summarize([attrs.evolve(silent, figures=figures)]).stalled == Share(1, 1)


def test_backpressure_is_told_as_a_share_and_for_an_answer() -> None:
    late = attrs.evolve(MADE, figures=attrs.evolve(FLOWING, backpressure_ms=100.0))
    summary = summarize([late, MADE])
    assert summary.backpressure_share == pytest.approx(0.05)
    assert summary.backpressure_ms == pytest.approx(50.0)


def test_speeds_of_different_bases_are_not_mixed_and_what_has_none_says_why() -> None:
    samples = [MADE, MADE, attrs.evolve(MADE, figures=STALLED), broken(Truncated, silent_ms=0.0)]
    summary = summarize(samples)
    assert summary.speeds == {"active": 2, "wall_lower_bound": 1, "truncated": 1}
    assert summary.figures["tokens_per_s_active"].samples == [Observed(10.0)] * 2
    assert summary.figures["tokens_per_s_wall_lower_bound"].samples == [Observed(2.5)]


# ---------------------------------------------------------------- failures


def test_failures_are_counted_by_what_went_wrong_the_most_frequent_first() -> None:
    samples = [
        failed(failure(ServerError, "answered 500")),
        broken(Truncated, silent_ms=0.0),
        broken(Truncated, silent_ms=0.0),
        MADE,
    ]
    first, second = summarize(samples).failures
    # Not StreamBroken: that is the shell which says that part of it was delivered.
    assert (first.error, first.count, first.example) == ("Truncated", 2, "cut after 11 chunks")
    assert (second.error, second.count, second.example) == ("ServerError", 1, "answered 500")


def test_that_nothing_was_tried_after_it_is_no_news_of_a_probe() -> None:
    error = failure(ServerError, "answered 500")
    error.not_tried = "max_retries"
    assert failed(error).says == "answered 500"
    assert MADE.says == ""


HOPELESS = [
    failure(AuthenticationFailed),
    failure(InvalidRequest),
    failure(ConnectFailed),
    failure(ConnectTimeout),
    failure(ProtocolViolation),
    failure(RateLimited),
]


@pytest.mark.parametrize("error", HOPELESS, ids=lambda error: type(error).__name__)
def test_three_first_failures_that_will_not_pass_are_enough(error: GatewayError) -> None:
    assert not is_hopeless([failed(error)] * 2)
    assert is_hopeless([failed(error)] * 3)
    assert is_hopeless([*[failed(error)] * 3, MADE])
    assert not is_hopeless([MADE, *[failed(error)] * 3])
    assert not is_hopeless([failed(error), failed(error), failed(failure(ServerError)), SLOW])


@pytest.mark.parametrize(
    "sample",
    [
        failed(failure(ServerError)),
        failed(failure(Overloaded)),
        failed(failure(FirstContentTimeout)),
        broken(Truncated, silent_ms=0.0),
        SLOW,
    ],
    ids=lambda sample: type(sample.cause).__name__,
)
def test_what_may_pass_is_measured_on(sample: Sample) -> None:
    assert not is_hopeless([sample] * 5)


def test_failures_of_different_kinds_may_pass() -> None:
    assert not is_hopeless([failed(error) for error in HOPELESS])


# ---------------------------------------------------------------- the generator

AT_EASE = Effort(
    requests=1000,
    elapsed_s=100.0,
    cpu_s=10.0,
    late=10,
    latest_ms=10.0,
    slots=8,
    queued=0,
    longest_queue_ms=0.0,
    backpressure_share=0.049,
    backpressure_ms=50.0,
)


def test_a_generator_at_its_ease_is_no_bottleneck() -> None:
    assert AT_EASE.findings() == []
    assert AT_EASE.cpu_share == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("effort", "finding"),
    [
        (attrs.evolve(AT_EASE, cpu_s=70.0), "the probe used 70% of a core"),
        (
            attrs.evolve(AT_EASE, late=11, latest_ms=123.4),
            "11 of 1000 requests began 10 ms or more after they were due, the latest by 123 ms",
        ),
        (
            attrs.evolve(AT_EASE, queued=3, longest_queue_ms=1500.0),
            "3 of 1000 requests waited for one of 8 slots, the longest for 1.50 s",
        ),
        (
            attrs.evolve(AT_EASE, backpressure_share=0.05, backpressure_ms=10.0),
            "the probe was late to read by 10 ms an answer, 5.0% of the time of generation",
        ),
    ],
)
def test_each_way_to_be_the_bottleneck_is_told_with_its_numbers(
    effort: Effort, finding: str
) -> None:
    assert effort.findings() == [finding]


def test_a_few_milliseconds_of_a_burst_harm_no_figure() -> None:
    assert attrs.evolve(AT_EASE, backpressure_share=0.7, backpressure_ms=9.9).findings() == []


def test_in_no_time_no_share_of_a_core_was_used() -> None:
    assert attrs.evolve(AT_EASE, elapsed_s=0.0).cpu_share is None
    assert attrs.evolve(AT_EASE, elapsed_s=0.0).findings() == []
