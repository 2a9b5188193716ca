"""What few samples can say, by definition, by the literature's tables, and by exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, strategies as st

from polygateway.cli.probing.estimate import (
    PERCENTS,
    Distribution,
    Observed,
    Share,
    fewest,
    interval_ranks,
    nearest_rank,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES = st.floats(min_value=0, max_value=1e6)
PERCENT = st.sampled_from(PERCENTS)
EXACT = st.builds(Observed, VALUES)


# ---------------------------------------------------------------- percentiles


# The worked examples of the nearest-rank method in the encyclopaedia's article on percentiles.
@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([15, 20, 35, 40, 50], 5, 15),
        ([15, 20, 35, 40, 50], 30, 20),
        ([15, 20, 35, 40, 50], 40, 20),
        ([15, 20, 35, 40, 50], 50, 35),
        ([15, 20, 35, 40, 50], 100, 50),
        ([3, 6, 7, 8, 8, 10, 13, 15, 16, 20], 25, 7),
        ([3, 6, 7, 8, 8, 10, 13, 15, 16, 20], 50, 8),
        ([3, 6, 7, 8, 8, 10, 13, 15, 16, 20], 75, 15),
    ],
)
def test_the_nearest_rank_is_the_textbooks(
    values: Sequence[int], percent: int, expected: int
) -> None:
    assert values[nearest_rank(len(values), percent) - 1] == expected


@given(st.lists(VALUES, min_size=100, max_size=120), PERCENT)
def test_a_percentile_is_the_least_sample_that_so_many_do_not_exceed(
    values: Sequence[float], percent: int
) -> None:
    found = Distribution.rising([Observed(value) for value in values]).percentile(percent)
    assert found is not None
    reached = [
        each for each in values if 100 * sum(v <= each for v in values) >= percent * len(values)
    ]
    assert found.value == Observed(min(reached))


@given(st.lists(VALUES, min_size=100, max_size=120), PERCENT)
def test_a_percentile_of_speeds_is_the_greatest_that_so_many_reach(
    values: Sequence[float], percent: int
) -> None:
    found = Distribution.falling(values).percentile(percent)
    assert found is not None
    kept = [
        each for each in values if 100 * sum(v >= each for v in values) >= percent * len(values)
    ]
    assert found.value == Observed(max(kept))


def test_percentiles_need_2_10_20_and_100_samples() -> None:
    assert {percent: fewest(percent) for percent in PERCENTS} == {50: 2, 90: 10, 95: 20, 99: 100}


@given(st.integers(1, 300), PERCENT)
def test_a_percentile_is_refused_exactly_where_it_would_be_the_worst_sample(
    count: int, percent: int
) -> None:
    distribution = Distribution.rising([Observed(float(value)) for value in range(count)])
    found = distribution.percentile(percent)
    assert (found is None) == (nearest_rank(count, percent) == count)
    assert found is None or found.value != distribution.worst


def test_without_samples_there_is_neither_a_percentile_nor_a_worst() -> None:
    assert Distribution.rising([]).percentile(50) is None
    assert Distribution.rising([]).worst is None


def test_the_worst_of_times_is_the_longest_and_of_speeds_the_slowest() -> None:
    assert Distribution.rising([Observed(2.0), Observed(1.0)]).worst == Observed(2.0)
    assert Distribution.falling([2.0, 1.0]).worst == Observed(1.0)


# ---------------------------------------------------------------- bounds


def test_a_percentile_below_all_bounds_is_exact_and_one_above_is_a_bound() -> None:
    waits = [Observed(float(value)) for value in range(1, 20)]
    distribution = Distribution.rising([*waits, Observed(60.0, at_least=True)])
    median, tail = distribution.percentile(50), distribution.percentile(95)
    assert median is not None
    assert tail is not None
    assert (median.value, tail.value) == (Observed(10.0), Observed(19.0))
    assert distribution.worst == Observed(60.0, at_least=True)


def test_where_half_was_given_up_the_tail_is_at_least_the_limit() -> None:
    distribution = Distribution.rising([Observed(1.0)] * 50 + [Observed(60.0, at_least=True)] * 50)
    median, tail = distribution.percentile(50), distribution.percentile(95)
    assert median is not None
    assert tail is not None
    assert median.value == Observed(1.0)
    assert (median.low, median.high) == (1.0, None)
    assert tail.value == Observed(60.0, at_least=True)
    assert (tail.low, tail.high) == (60.0, None)


@given(
    st.lists(st.tuples(VALUES, st.booleans(), VALUES), min_size=20, max_size=40),
    st.sampled_from([50, 90, 95]),
)
def test_whatever_the_given_up_would_have_become_what_is_said_holds(
    waits: Sequence[tuple[float, bool, float]], percent: int
) -> None:
    seen = Distribution.rising([Observed(value, given_up) for value, given_up, _ in waits])
    came = Distribution.rising(
        [Observed(value + given_up * more) for value, given_up, more in waits]
    )
    said, true = seen.percentile(percent), came.percentile(percent)
    assert said is not None
    assert true is not None
    assert true.value.value >= said.value.value
    assert said.value.at_least or true.value == said.value
    assert true.low is None or (said.low is not None and said.low <= true.low)
    assert said.high is None or said.high == true.high


# ---------------------------------------------------------------- intervals


# Ranks for the median at 95 %, as in the table of Campbell and Gardner (BMJ 1988;296:1454).
@pytest.mark.parametrize(
    ("count", "ranks"),
    [
        (5, (None, None)),
        (6, (1, 6)),
        (10, (2, 9)),
        (15, (4, 12)),
        (20, (6, 15)),
        (25, (8, 18)),
        (30, (10, 21)),
        (50, (18, 33)),
        (100, (40, 61)),
    ],
)
def test_the_interval_of_the_median_is_that_of_the_tables(
    count: int, ranks: tuple[int | None, int | None]
) -> None:
    assert interval_ranks(count, 50) == ranks


def at_most(hits: int, count: int, share: Fraction) -> Fraction:
    """Give the probability of no more than so many hits, exactly."""
    ways = (comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(hits + 1))
    return sum(ways, Fraction(0))


@given(st.integers(1, 120), PERCENT)
@example(2, 99)  # 0.99 squared is over 39 of 40: the true percentile is above both
def test_each_end_of_an_interval_is_missed_in_1_of_40_cases_and_no_narrower_one_is(
    count: int, percent: int
) -> None:
    share, tail = Fraction(percent, 100), Fraction(1, 40)
    low, high = interval_ranks(count, percent)
    rank = low or 0
    # The true percentile is below the sample of that rank if fewer samples lie below it.
    assert rank == 0 or at_most(rank - 1, count, share) <= tail
    assert at_most(rank, count, share) > tail
    above = count + 1 if high is None else high
    assert high is None or 1 - at_most(above - 1, count, share) <= tail
    assert 1 - at_most(above - 2, count, share) > tail


def test_many_samples_underflow_nothing() -> None:
    low, high = interval_ranks(100_000, 50)
    assert low is not None
    assert high is not None
    # The normal approximation: 50,000 -+ 1.96 * sqrt(100,000) / 2.
    assert low == pytest.approx(49_690, abs=1)
    assert high == pytest.approx(50_311, abs=1)


@given(st.lists(EXACT, min_size=2, max_size=120), PERCENT)
def test_an_interval_holds_its_percentile(samples: Sequence[Observed], percent: int) -> None:
    values = [sample.value for sample in samples]
    for distribution in (Distribution.rising(samples), Distribution.falling(values)):
        found = distribution.percentile(percent)
        if found is not None:
            assert found.low is None or found.low <= found.value.value
            assert found.high is None or found.value.value <= found.high


def test_the_open_end_of_a_tails_interval_is_the_worse_one() -> None:
    times = Distribution.rising([Observed(float(value)) for value in range(1, 31)])
    speeds = Distribution.falling([float(value) for value in range(1, 31)])
    slow, slower = times.percentile(95), speeds.percentile(95)
    assert slow is not None
    assert slower is not None
    assert (slow.low, slow.value.value, slow.high) == (26.0, 29.0, None)
    assert (slower.low, slower.value.value, slower.high) == (None, 2.0, 5.0)


# ---------------------------------------------------------------- shares


# Table I of Newcombe, Statistics in Medicine 1998;17:857: method 3, the score interval.
@pytest.mark.parametrize(
    ("share", "interval"),
    [
        (Share(81, 263), (0.2553, 0.3662)),
        (Share(15, 148), (0.0624, 0.1605)),
        (Share(0, 20), (0.0, 0.1611)),
        (Share(1, 29), (0.0061, 0.1718)),
    ],
)
def test_the_interval_of_a_share_is_wilsons(share: Share, interval: tuple[float, float]) -> None:
    assert share.interval == pytest.approx(interval, abs=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_the_interval_of_a_share_holds_it_and_mirrors_that_of_the_rest(
    counted: tuple[int, int],
) -> None:
    count, of = counted
    share, rest = Share(count, of), Share(of - count, of)
    assert share.value is not None
    assert share.interval is not None
    assert rest.interval is not None
    low, high = share.interval
    assert 0 <= low <= share.value <= high <= 1
    assert rest.interval == pytest.approx((1 - high, 1 - low))
    assert (low == 0) == (count == 0)
    assert (high == 1) == (count == of)


def test_of_nothing_there_is_no_share() -> None:
    assert Share(0, 0).value is None
    assert Share(0, 0).interval is None
