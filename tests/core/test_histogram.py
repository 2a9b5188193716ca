from __future__ import annotations

import math
import random
import sys
from fractions import Fraction
from typing import NamedTuple

import pytest
from ddsketch import DDSketch
from hypothesis import example, given, strategies as st
from opentelemetry.sdk.metrics._internal.exponential_histogram.mapping.logarithm_mapping import (
    LogarithmMapping,
)

from polygateway.aggregates import BUCKET_FLOORS, Distribution
from polygateway.core.histogram import Histogram, bucket_of

SECOND = 1_000_000_000
SLICE = 30 * SECOND
START = 7 * 10**15 + 123_456_789

BOUND = 0.0109  # 1.09 %
LEAST, GREATEST = sys.float_info.min, sys.float_info.max  # of the normal floats

normal = st.floats(LEAST, GREATEST)
counted = st.floats(1e-6, 1e12) | st.sampled_from([0.0, 1.0, 2.0, 1024.0, 2000.0, 55_000.0])
"""Milliseconds as they occur, and as they might."""


def distribution(values: list[float]) -> Distribution:
    histogram = Histogram()
    for value in values:
        histogram.record(value, START)
    return histogram.snapshot(START)


def is_in_bucket(value: float, index: int) -> bool:
    """Tell whether 2^(index/32) < value <= 2^((index+1)/32), in whole numbers."""
    power = Fraction(value) ** 32
    return Fraction(2) ** index < power <= Fraction(2) ** (index + 1)


# Buckets


@pytest.mark.parametrize(
    ("value", "index"),
    # 32 * log2(value), rounded up, less 1.
    [(1.0, -1), (1.0001, 0), (1.5, 18), (2.0, 31), (0.5, -33), (3.0, 50), (1000.0, 318)],
)
def test_a_value_is_in_the_bucket_that_its_logarithm_says(value: float, index: int) -> None:
    assert bucket_of(value) == index


@given(normal)
def test_every_float_is_in_the_bucket_whose_exact_bounds_enclose_it(value: float) -> None:
    assert is_in_bucket(value, bucket_of(value))


@pytest.mark.parametrize("exponent", [*range(-1022, 1024, 31), -1, 0, 1, 10, 1023])
def test_the_floats_beside_every_bound_are_on_their_side_of_it(exponent: int) -> None:
    for floor in BUCKET_FLOORS:
        below = math.ldexp(floor, exponent)
        assert is_in_bucket(below, bucket_of(below))
        above = math.nextafter(below, math.inf)
        assert is_in_bucket(above, bucket_of(above))
        assert bucket_of(above) == bucket_of(below) + 1


def test_the_exact_powers_of_two_end_their_buckets() -> None:
    for exponent in range(-1022, 1024):
        assert bucket_of(2.0**exponent) == 32 * exponent - 1


def test_what_is_less_than_the_least_normal_float_is_in_its_bucket() -> None:
    # So memory is bounded: 2046 doublings of 32 buckets, and that one.
    assert bucket_of(5e-324) == bucket_of(LEAST) == -1022 * 32 - 1
    assert bucket_of(GREATEST) == 1024 * 32 - 1


OPENTELEMETRY = LogarithmMapping(5)


@given(normal)
def test_the_buckets_are_those_of_opentelemetry_at_scale_5(value: float) -> None:
    # Its logarithm in floats may miss a bound by some units in the last place.
    index = bucket_of(value)
    theirs = OPENTELEMETRY.map_to_index(value)
    beside = {bucket_of(value * (1 - 1e-12)), bucket_of(min(value * (1 + 1e-12), GREATEST))}
    assert theirs == index or (theirs in beside and abs(theirs - index) == 1)


def test_amid_a_bucket_and_at_a_power_of_two_opentelemetry_has_the_same_index() -> None:
    for exponent in range(-1022, 1024):
        middles = [math.ldexp(floor * 2 ** (1 / 64), exponent) for floor in BUCKET_FLOORS]
        for value in (2.0**exponent, *middles):
            assert bucket_of(value) == OPENTELEMETRY.map_to_index(value)


@pytest.mark.parametrize("value", [5e-324, LEAST / 2, LEAST, GREATEST])
def test_at_the_ends_of_the_floats_opentelemetry_has_the_same_index(value: float) -> None:
    assert bucket_of(value) == OPENTELEMETRY.map_to_index(value)


# What is counted


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, -5e-324])
def test_what_is_no_duration_is_refused_by_name_and_changes_nothing(value: float) -> None:
    histogram = Histogram()
    histogram.record(1.0, START)
    before = histogram.snapshot(START)
    with pytest.raises(ValueError, match=rf"finite values from 0 up, not {value!r}$"):
        histogram.record(value, START)
    assert histogram.snapshot(START) == before


def test_nothing_counted_is_the_empty_distribution() -> None:
    assert Histogram().snapshot(START) == Distribution()


@pytest.mark.parametrize("zero", [0.0, -0.0, 0])
def test_a_zero_is_counted_apart(zero: float) -> None:
    assert distribution([zero]) == Distribution(zero_count=1, min=0.0, max=0.0)


def test_values_are_counted_by_bucket_and_the_extremes_and_the_sum_are_exact() -> None:
    assert distribution([4.0, 0.0, 1.5, 4.0, 1.5, 1.5]) == Distribution(
        zero_count=1, buckets={63: 2, 18: 3}, sum=12.5, min=0.0, max=4.0
    )


def test_a_snapshot_does_not_change_afterwards() -> None:
    histogram = Histogram()
    histogram.record(1.0, START)
    before = histogram.snapshot(START)
    histogram.record(1.0, START)
    assert (before.count, histogram.snapshot(START).count) == (1, 2)


whole_numbers = st.lists(st.integers(0, 10**6).map(float))  # their sums are exact


@given(whole_numbers, whole_numbers)
def test_the_sum_of_two_is_the_histogram_of_the_union(one: list[float], two: list[float]) -> None:
    assert distribution(one) + distribution(two) == distribution([*one, *two])


# Quantiles against the values themselves


@given(st.lists(counted, min_size=1))
@example([0.0, 0.0, 1.0])
@example([1e-6, 1e12])
def test_each_value_is_found_by_its_rank_to_within_the_bound(values: list[float]) -> None:
    seen = distribution(values)
    for rank, exact in enumerate(sorted(values), start=1):
        assert seen.quantile(rank / len(values)) == pytest.approx(exact, rel=BOUND, abs=0)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 99, 100, 101, 1000])
@pytest.mark.parametrize("share", ["0.001", "0.01", "0.07", "0.29", "0.5", "0.95", "0.99", "0.999"])
def test_a_quantile_is_the_least_value_that_covers_the_share(count: int, share: str) -> None:
    # Powers of 1.1 are in buckets of their own. 0.07 * 100 is more than 7 in floats.
    seen = distribution([1.1**power for power in range(1, count + 1)])
    rank = math.ceil(Fraction(share) * count)
    assert seen.quantile(float(share)) == pytest.approx(1.1**rank, rel=BOUND)


@given(st.lists(counted, min_size=2))
def test_a_ddsketch_of_the_same_accuracy_is_as_near_to_the_values(values: list[float]) -> None:
    seen, sketch = distribution(values), DDSketch(BOUND)
    for value in values:
        sketch.add(value)
    last = len(values) - 1
    for rank, exact in enumerate(sorted(values)[:last]):
        # Theirs is the value at rank q * (n - 1), counted from 0 and rounded down.
        theirs = sketch.get_quantile_value((rank + 0.5) / last)
        ours = seen.quantile((rank + 1) / len(values))
        assert ours == pytest.approx(exact, rel=BOUND, abs=0)
        assert theirs == pytest.approx(exact, rel=BOUND * 1.0001, abs=0)


def test_percentiles_of_many_lognormal_times_agree_with_ddsketch_and_the_truth() -> None:
    # First tokens of median 1.6 s, as in a week of calls.
    source = random.Random(3)
    times = [source.lognormvariate(math.log(1600), 1.2) for _ in range(20_000)]
    seen, sketch = distribution(times), DDSketch(BOUND)
    for time in times:
        sketch.add(time)
    times.sort()
    for q in (0.5, 0.9, 0.95, 0.99, 0.999):
        exact = times[math.ceil(q * len(times)) - 1]
        assert seen.quantile(q) == pytest.approx(exact, rel=BOUND)
        assert seen.quantile(q) == pytest.approx(sketch.get_quantile_value(q), rel=2.2 * BOUND)
    assert seen.mean == pytest.approx(math.fsum(times) / len(times))


# The window


def test_a_value_is_seen_for_ten_slices_of_30_s_and_then_gone() -> None:
    first = 1000 * SLICE
    for inside in (0, 1, SLICE - 1):
        histogram = Histogram()
        histogram.record(5.0, first + inside)
        for later in (inside, SLICE, 10 * SLICE - 1):
            assert histogram.snapshot(first + later).count == 1
        for later in (10 * SLICE, 11 * SLICE, 10**6 * SLICE):
            assert histogram.snapshot(first + later) == Distribution()


def test_values_go_slice_by_slice() -> None:
    histogram = Histogram()
    for number in range(25):
        histogram.record(float(number), number * SLICE)
        seen = histogram.snapshot(number * SLICE)
        assert (seen.min, seen.max) == (max(0, number - 9), number)
    for later in range(10):
        assert histogram.snapshot((24 + later) * SLICE).count == 10 - later


def test_after_a_gap_of_any_length_only_what_is_recent_is_seen() -> None:
    histogram, now = Histogram(), START
    for gap in (10 * SLICE, 11 * SLICE, 10**9 * SLICE):
        now += gap
        histogram.record(1.0, now)
        assert histogram.snapshot(now).count == 1


def test_a_clock_that_goes_back_loses_nothing_and_counts_as_the_latest_time() -> None:
    histogram = Histogram()
    histogram.record(1.0, 100 * SLICE)
    histogram.record(2.0, 3 * SLICE)
    for now in (3 * SLICE, 100 * SLICE, 110 * SLICE - 1):
        assert histogram.snapshot(now).count == 2
    assert histogram.snapshot(110 * SLICE).count == 0


def test_a_clock_may_begin_anywhere() -> None:
    histogram = Histogram()
    histogram.record(1.0, -1)
    assert histogram.snapshot(9 * SLICE - 1).count == 1
    assert histogram.snapshot(9 * SLICE).count == 0


class Came(NamedTuple):
    """A value, and how long after the one before it came."""

    after_ns: int
    value: float


waits = st.sampled_from([0, 1, SLICE - 1, SLICE, SLICE + 1, 9 * SLICE, 10 * SLICE, 10**18])
arrivals = st.lists(st.builds(Came, waits | st.integers(0, 12 * SLICE), counted), max_size=40)


@given(arrivals, waits)
def test_the_window_is_that_of_a_list_in_which_every_value_is_kept(
    came: list[Came], afterwards: int
) -> None:
    histogram, kept, now = Histogram(), list[tuple[int, float]](), START
    for after, value in came:
        now += after
        histogram.record(value, now)
        kept.append((now, value))
    now += afterwards
    inside = sorted(value for at, value in kept if now // SLICE - at // SLICE < 10)
    seen = histogram.snapshot(now)
    assert (seen.count, seen.zero_count) == (len(inside), inside.count(0.0))
    assert (seen.min, seen.max) == ((inside[0], inside[-1]) if inside else (None, None))
    assert seen.sum == pytest.approx(math.fsum(inside))
    assert seen.buckets == distribution(inside).buckets
    for rank, exact in enumerate(inside, start=1):
        assert seen.quantile(rank / len(inside)) == pytest.approx(exact, rel=BOUND, abs=0)
