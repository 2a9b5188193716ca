"""The axis: where a time stands, and which times are written there."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from polygateway.observe.drawing.axis import Axis

SECOND = 1_000_000_000
EXTENTS = st.integers(1, 2**63) | st.integers(0, 63).map(lambda power: 2**power)


def labels(extent_ns: float) -> list[str]:
    return [label for _, label in Axis(round(extent_ns), 0, 100).marks(9)]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.000_1, ["0", "0.02 ms", "0.04 ms", "0.06 ms", "0.08 ms", "0.1 ms"]),
        (0.1, ["0", "20 ms", "40 ms", "60 ms", "80 ms", "100 ms"]),
        (0.7, ["0", "100 ms", "200 ms", "300 ms", "400 ms", "500 ms", "600 ms", "700 ms"]),
        (3, ["0", "0.5 s", "1 s", "1.5 s", "2 s", "2.5 s", "3 s"]),
        (60, ["0", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]),
        (119, ["0", "20 s", "40 s", "60 s", "80 s", "100 s"]),
        (150, ["0", "20 s", "40 s", "1 min", "1 min 20 s", "1 min 40 s", "2 min", "2 min 20 s"]),
        (230, ["0", "30 s", "1 min", "1 min 30 s", "2 min", "2 min 30 s", "3 min", "3 min 30 s"]),
        (600, ["0", "2 min", "4 min", "6 min", "8 min", "10 min"]),
        (3 * 3600, ["0", "30 min", "1 h", "1 h 30 min", "2 h", "2 h 30 min", "3 h"]),
        (50 * 3600, ["0", "10 h", "20 h", "30 h", "40 h", "50 h"]),
    ],
)
def test_times_are_written_in_steps_that_people_count_in(
    seconds: float, expected: list[str]
) -> None:
    assert labels(seconds * SECOND) == expected


@given(EXTENTS, st.integers(1, 12))
def test_there_are_never_too_many_and_never_two_alike(extent_ns: int, most: int) -> None:
    marks = Axis(extent_ns, 0, 100).marks(most)
    assert 1 <= len(marks) <= most
    assert len({label for _, label in marks}) == len(marks)


@given(EXTENTS)
def test_they_are_evenly_spaced_from_zero_and_lie_on_the_axis(extent_ns: int) -> None:
    times = [time for time, _ in Axis(extent_ns, 0, 100).marks(9)]
    step = times[1] if len(times) > 1 else 0
    assert times == [index * step for index in range(len(times))]
    assert times[-1] <= extent_ns


@given(EXTENTS)
def test_more_than_a_third_of_the_room_for_times_is_used(extent_ns: int) -> None:
    # The widest distance between two steps that people count in is 2.5 times.
    assert extent_ns < 9 or len(Axis(extent_ns, 0, 100).marks(9)) >= 4


def test_a_time_stands_in_proportion() -> None:
    axis = Axis(10 * SECOND, 200, 700)
    assert [axis.at(second * SECOND) for second in (0, 1, 5, 10)] == [200, 250, 450, 700]


@given(EXTENTS, st.integers(-(2**70), 2**70))
def test_no_time_stands_beyond_the_ends(extent_ns: int, time_ns: int) -> None:
    assert 200 <= Axis(extent_ns, 200, 700).at(time_ns) <= 700
