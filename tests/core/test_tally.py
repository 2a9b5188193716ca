from __future__ import annotations

import attrs
import pytest

from polygateway.stats import Stall, StreamFigures
from tests.oracle import brute_force
from tests.strategies import MS, NOTHING, ONE, SECOND, Gap, Stream, followed, said, text, waits


def figures(gaps: list[Gap], threshold: int = 2 * SECOND) -> StreamFigures:
    return Stream(gaps, threshold).figures()


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
        assert seen.stall_ms == waited * stalled / 1e6
        assert seen.active_generation_ms == waited * (1 - stalled) / 1e6
        assert [stall.duration_ms for stall in seen.stalls] == [waited / 1e6] * stalled


@pytest.mark.parametrize("threshold_s", [0.1, 0.3, 0.5, 2.0])
def test_a_silence_at_the_end_of_exactly_the_threshold_is_an_open_stall(threshold_s: float) -> None:
    threshold = round(threshold_s * 1000) * MS
    for waited, stalled in ((threshold - 1, 0), (threshold, 1), (threshold + 1, 1)):
        gaps = [Gap(0, 1600 * MS), Gap(0, waited, NOTHING)]
        seen = Stream(gaps, threshold, "cut").figures()
        assert seen.open_gap_ms == waited / 1e6
        assert [stall.duration_ms for stall in seen.stalls] == [waited / 1e6] * stalled


def test_time_in_which_nobody_asked_is_no_stall() -> None:
    seen = figures([Gap(0, 0), Gap(60 * SECOND, 0), Gap(1900 * MS, 1900 * MS)])
    assert seen.stall_ms == seen.stall_gap_count == seen.stall_count == 0
    assert seen.max_gap_ms == 1900
    assert seen.generation_ms == seen.active_generation_ms == 63_800
    assert seen.backpressure_ms == 61_900


def test_time_in_which_the_event_loop_was_late_is_no_stall() -> None:
    # A loop that is blocked for 1 s on a steady stream of 20 ms, then a true silence of 1 s.
    seen = figures([Gap(0, 0), Gap(0, 20 * MS, late=997 * MS), Gap(0, 1020 * MS)], SECOND)
    assert (seen.stall_ms, seen.stall_count, seen.backpressure_ms) == (1020, 1, 997)
    assert (seen.generation_ms, seen.active_generation_ms) == (2037, 1017)


def test_of_a_stalled_gap_only_what_was_waited_is_the_stall() -> None:
    seen = figures([Gap(0, 0), Gap(7 * SECOND, 3 * SECOND)])
    assert (seen.generation_ms, seen.stall_ms) == (10_000, 3000)
    assert (seen.active_generation_ms, seen.backpressure_ms, seen.max_gap_ms) == (7000, 7000, 3000)
    assert [(stall.offset_ms, stall.duration_ms) for stall in seen.stalls] == [(0, 3000)]


def test_keep_alives_do_not_end_a_silence() -> None:
    alive = [Gap(0, 500 * MS, NOTHING, keepalives=1)] * 5
    seen = figures([Gap(0, 0), *alive, Gap(0, 500 * MS)])
    assert (seen.stall_ms, seen.stall_count) == (3000, 1)
    assert [(stall.keepalives, stall.cause) for stall in seen.stalls] == [(5, "server_alive")]


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
    seen = figures(waits(*waited), 2)
    assert seen.stall_count == stalls
    assert len(seen.stalls) == seen.stall_gap_count == waited.count(2)


def test_a_higher_threshold_can_split_a_stall_in_two() -> None:
    assert figures(waits(3, 1, 3), 1).stall_count == 1
    assert figures(waits(3, 1, 3), 3).stall_count == 2


def test_gaps_between_chunks_of_one_read_neither_end_a_stall_nor_begin_another() -> None:
    assert figures([Gap(0, 0), Gap(0, 9, ONE * 3), Gap(0, 9)], 5).stall_count == 1


# ------------------------------------------------------------------------ the list of stalls


def test_each_stall_says_where_it_lay_and_what_ended_it() -> None:
    alive = Gap(0, SECOND, NOTHING, keepalives=2)
    gaps = [
        *(Gap(0, SECOND, text("ab", "c")), alive, alive),
        *(Gap(0, SECOND, (said("tool_call", ""), *text("d"))), Gap(0, SECOND), Gap(4, 6 * SECOND)),
        *(alive, Gap(0, 2 * SECOND, (said("reasoning", "xyz"),))),
    ]
    silent = Stall(
        attempt=2,
        after_chunk=5,
        offset_ms=5000,
        duration_ms=6000,
        characters_before=5,
        next_kind="text",
        keepalives=0,
        open=False,
        cause="server_silence",
    )
    seen = Stream(gaps, 2 * SECOND, attempt=2).figures()
    assert seen.stalls == (
        attrs.evolve(
            silent,
            after_chunk=1,
            offset_ms=1000,
            duration_ms=3000,
            characters_before=3,
            next_kind="tool_call",
            keepalives=4,
            cause="server_alive",
        ),
        attrs.evolve(silent, after_chunk=4),
        attrs.evolve(
            silent,
            after_chunk=5,
            offset_ms=11_000.000004,
            duration_ms=3000,
            characters_before=6,
            next_kind="reasoning",
            keepalives=2,
            cause="server_alive",
        ),
    )


@pytest.mark.parametrize("tail", [0, 2, 3, 9])
@pytest.mark.parametrize("order", ["rising", "falling", "even"])
def test_of_more_than_64_stalls_the_longest_are_listed_and_all_are_counted(
    order: str, tail: int
) -> None:
    waited = {"rising": range(2, 72), "falling": range(71, 1, -1), "even": [3] * 70}[order]
    stream = Stream([*waits(*waited), Gap(0, tail, NOTHING)], 2, "cut")
    seen = stream.figures()
    assert seen == brute_force(stream.observed()) == stream.traced_figures()
    assert (seen.stall_gap_count, len(seen.stalls)) == (70, 64)
    open_counts = tail == 9 or (order == "even" and tail > 3)
    assert seen.stalls[-1].open == open_counts
    if order == "even" and not open_counts:
        assert [stall.after_chunk for stall in seen.stalls] == [*range(64)], "ties: the earlier"


def test_no_stream_is_too_long_to_be_followed() -> None:
    seen = followed(Stream(waits(*[0, SECOND] * 1000), SECOND).observed())
    assert seen.figures().stall_count == 1000
    assert len(seen.figures().stalls) == 64
    assert seen.timeline.recording is None
