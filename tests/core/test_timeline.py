from __future__ import annotations

import attrs
import pytest

from polygateway.core.timeline import Figures, Timeline
from tests.strategies import MS, SECOND, START, Gap, figures, follow, reads, timeline


def waits(*waited: int) -> list[Gap]:
    """Give a first chunk, and one more after each of these waits."""
    return [Gap(0, 0), *(Gap(0, each) for each in waited)]


def stall_count(*waited: int, threshold: int) -> int | None:
    return figures(waits(*waited), threshold).stall_count


def test_a_stall_in_the_middle_is_told_apart_from_what_flowed() -> None:
    # A first token after 1.6 s, 40 chunks 50 ms apart, a silence of 55 s, 60 chunks 50 ms apart.
    flow = [Gap(0, 50 * MS)]
    stream = [Gap(0, 1600 * MS), *flow * 39, Gap(0, 55 * SECOND), *flow * 59]
    assert figures(stream) == Figures(
        chunk_count=100,
        generation_ns=59_900 * MS,
        stall_ns=55_000 * MS,
        stall_gap_count=1,
        stall_count=1,
        active_generation_ns=4_900 * MS,
        max_gap_ns=55_000 * MS,
    )


NOTHING = dict.fromkeys(
    (
        "generation_ns",
        "stall_ns",
        "stall_gap_count",
        "stall_count",
        "active_generation_ns",
        "max_gap_ns",
    )
)


@pytest.mark.parametrize("stream", [[], [Gap(0, SECOND, 0)], [Gap(0, 9 * SECOND, 0)] * 3])
def test_an_answer_without_content_has_no_figure_but_its_count(stream: list[Gap]) -> None:
    assert attrs.asdict(figures(stream)) == {"chunk_count": 0, **NOTHING}


@pytest.mark.parametrize("tail", [[], [Gap(0, 9 * SECOND, 0)]])
def test_a_single_chunk_spans_no_interval(tail: list[Gap]) -> None:
    stream = [Gap(0, 9 * SECOND), *tail]
    assert attrs.asdict(figures(stream)) == {"chunk_count": 1, **NOTHING}
    assert timeline(stream, SECOND).first_ns == START + 9 * SECOND


def test_two_chunks_of_one_read_took_no_time_which_is_a_true_zero() -> None:
    assert attrs.asdict(figures([Gap(0, 9 * SECOND, 2)])) == {
        "chunk_count": 2,
        **dict.fromkeys(NOTHING, 0),
    }


@pytest.mark.parametrize("threshold_s", [0.1, 0.3, 0.5, 2.0])
@pytest.mark.parametrize("start_ms", [0, 1, 300, 1_600, 123_457, 10**9 + 7])
def test_a_gap_of_exactly_the_threshold_is_a_stall_wherever_it_lies(
    threshold_s: float, start_ms: int
) -> None:
    # In float seconds 0.3 s is lost in four cases of ten: 1.6 + 0.3 - 1.6 < 0.3.
    threshold = round(threshold_s * 1000) * MS
    for waited, stalled in ((threshold - 1, 0), (threshold, 1), (threshold + 1, 1)):
        seen = figures([Gap(0, start_ms * MS), Gap(0, waited)], threshold)
        assert (seen.stall_gap_count, seen.stall_count) == (stalled, stalled)
        assert seen.stall_ns == waited * stalled
        assert seen.active_generation_ns == waited * (1 - stalled)


def test_time_in_which_nobody_asked_is_no_stall() -> None:
    seen = figures([Gap(0, 0), Gap(60 * SECOND, 0), Gap(1900 * MS, 1900 * MS)])
    assert seen.stall_ns == seen.stall_gap_count == seen.stall_count == 0
    assert seen.max_gap_ns == 1900 * MS
    assert seen.generation_ns == seen.active_generation_ns == 63_800 * MS


def test_of_a_stalled_gap_only_what_was_waited_is_the_stall() -> None:
    seen = figures([Gap(0, 0), Gap(7 * SECOND, 3 * SECOND)])
    assert (seen.generation_ns, seen.stall_ns) == (10 * SECOND, 3 * SECOND)
    assert (seen.active_generation_ns, seen.max_gap_ns) == (7 * SECOND, 3 * SECOND)


def test_keep_alives_do_not_end_a_silence() -> None:
    seen = figures([Gap(0, 0), *[Gap(0, 500 * MS, 0)] * 5, Gap(0, 500 * MS)])
    assert (seen.stall_ns, seen.stall_count) == (3 * SECOND, 1)


def test_the_way_to_the_first_chunk_and_the_tail_after_the_last_belong_to_nothing() -> None:
    body = waits(SECOND, 3 * SECOND)
    long = Gap(0, 99 * SECOND, 0)
    assert figures([long, *body, long]) == figures(body)


@pytest.mark.parametrize(
    ("waited", "stalls"),
    [
        ((2, 2, 2), 1),
        ((2, 1, 2), 2),
        ((1, 2, 2, 1, 1, 2, 1), 2),
        ((1, 1, 1), 0),
        ((2, 0, 2), 2),
    ],
)
def test_stalled_gaps_in_a_row_are_one_stall(waited: tuple[int, ...], stalls: int) -> None:
    assert stall_count(*waited, threshold=2) == stalls


def test_a_higher_threshold_can_split_a_stall_in_two() -> None:
    assert stall_count(3, 1, 3, threshold=1) == 1
    assert stall_count(3, 1, 3, threshold=3) == 2


def test_gaps_between_chunks_of_one_read_neither_end_a_stall_nor_begin_another() -> None:
    assert figures([Gap(0, 0), Gap(0, 9, 3), Gap(0, 9)], 5).stall_count == 1


def test_chunks_of_one_read_may_be_told_one_by_one() -> None:
    followed = Timeline(START, 5)
    for read in reads(waits(9, 9)):
        followed.read(read.asked, read.arrived)
        followed.content(1)
        followed.content(1)
    assert followed.figures() == figures([gap._replace(chunks=2) for gap in waits(9, 9)], 5)


def test_the_time_waited_since_the_last_content_is_known_at_any_moment() -> None:
    seen: list[int] = []
    followed = Timeline(START, SECOND)
    for read in reads(
        [Gap(1, 2, 0), Gap(10, 20, 0), Gap(100, 200), Gap(5, 7, 0), Gap(9, 8, 0), Gap(0, 4)]
    ):
        followed.read(read.asked, read.arrived)
        seen.append(followed.waited_ns)
        followed.content(read.chunks)
        assert followed.arrived_ns == read.arrived
    assert seen == [2, 22, 222, 7, 15, 19]
    assert followed.waited_ns == 0


def test_the_stamps_are_those_of_the_reads_that_brought_content() -> None:
    followed = Timeline(START, SECOND)
    assert (followed.first_ns, followed.last_ns) == (None, None)
    stamps: list[tuple[int | None, int | None]] = []
    for read in reads([Gap(0, 1, 0), Gap(0, 2), Gap(0, 3, 0), Gap(0, 4, 2), Gap(0, 5, 0)]):
        follow(followed, read)
        stamps.append((followed.first_ns, followed.last_ns))
    first, second = START + 3, START + 10
    assert stamps == [(None, None), (first, first), (first, first), *[(first, second)] * 2]


def test_no_stream_is_too_long_to_be_followed() -> None:
    followed = timeline(waits(*[0, SECOND] * 1000), SECOND)
    assert followed.figures().stall_count == 1000
    assert all(value is None or isinstance(value, int) for value in attrs.astuple(followed))
