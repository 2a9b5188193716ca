"""The made-up answers of the tail simulation."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, strategies as st

from benchmarks.tail_model import Answer, Outage, Workload
from polygateway import FirstContentTimeout, StallTimeout, StreamPolicy

SECOND = 1_000_000_000
PIECE = SECOND // 20

LENGTHS = st.integers(1, 9)


@st.composite
def all_spans(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Draw stretches of whole pieces, with gaps of whole and half pieces between them."""
    spans: list[tuple[int, int]] = []
    begin = draw(LENGTHS) * PIECE
    for _ in range(draw(st.integers(1, 3))):
        spans.append((begin, begin + draw(LENGTHS) * PIECE))
        begin = spans[-1][1] + draw(LENGTHS) * PIECE // 2
    return spans


@given(all_spans(), st.integers(0, 100))
def test_an_answer_tells_what_a_list_of_its_pieces_tells(
    spans: list[tuple[int, int]], when: int
) -> None:
    at = when * PIECE // 2
    pieces = sorted({each for begin, end in spans for each in range(begin, end + 1, PIECE)})
    answer = Answer(spans, 0, StreamPolicy())

    assert answer.first == pieces[0]
    assert answer.over == pieces[-1]
    assert answer.failure is None
    assert answer.last(at) == max((each for each in pieces if each <= at), default=None)
    assert answer.following(at) == min((each for each in pieces if each > at), default=None)
    flows = [each for begin, end in spans for each in range(begin, min(end, at), PIECE // 2)]
    assert answer.flowed(at) == len(flows) * PIECE // 2
    silent = [(end, begin) for (_, end), (begin, _) in itertools.pairwise(spans)]
    assert list(answer.silences(at)) == [
        (min(begin, at) - end, begin > at) for end, begin in silent if end < at
    ]


def test_an_answer_that_comes_too_late_is_given_up_by_the_watchdog() -> None:
    policy = StreamPolicy(ttft_timeout_s=2)
    answer = Answer([(4 * SECOND, 5 * SECOND)], SECOND, policy)
    assert isinstance(answer.failure, FirstContentTimeout)
    assert (answer.first, answer.over) == (None, 3 * SECOND)
    assert Answer([(3 * SECOND, 5 * SECOND)], SECOND, policy).failure is None


def test_an_answer_that_stalls_for_too_long_is_given_up_by_the_watchdog() -> None:
    spans = [(SECOND, 2 * SECOND), (7 * SECOND, 9 * SECOND)]
    answer = Answer(spans, 0, StreamPolicy(stall_timeout_s=3))
    assert isinstance(answer.failure, StallTimeout)
    assert (answer.first, answer.over) == (SECOND, 5 * SECOND)
    assert answer.following(2 * SECOND) is None
    assert list(answer.silences(5 * SECOND)) == [(3 * SECOND, True)]


def test_a_slow_target_takes_longer_for_the_same_answer() -> None:
    workload = Workload(slowness=(1, 2))
    one, two = (workload.spans(target, 0, 10 * SECOND, random.Random(3)) for target in range(2))
    assert two[0][0] == pytest.approx(2 * one[0][0], abs=2)
    flows = [sum(end - begin for begin, end in spans) for spans in (one, two)]
    assert flows == [10 * SECOND, 20 * SECOND]


def test_in_an_outage_most_streams_stall_and_only_of_its_targets() -> None:
    outage = Outage(targets={1}, every_s=100, begins_s=50, lasts_s=20)
    workload = Workload(outage=outage)
    shares = [workload.stall_share_of(1, at) for at in (0, 49, 50, 69, 70, 100, 149, 150, 170)]
    assert shares == [0.05, 0.05, 0.8, 0.8, 0.05, 0.05, 0.05, 0.8, 0.05]
    assert workload.stall_share_of(0, 60) == 0.05
