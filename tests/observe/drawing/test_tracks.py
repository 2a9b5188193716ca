"""What happened in an attempt, and when, to the nanosecond."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from polygateway.core.tally import MOST_STALLS
from polygateway.observe.drawing.tracks import (
    MOST_TRACKS,
    Track,
    extent_ns,
    seams_of,
    tracks_of,
)
from tests.observe.staged import Content, attempt, call, flow, ns, seam

if TYPE_CHECKING:
    from polygateway.observe.records import RecordedAttempt


def track(recorded: RecordedAttempt) -> Track:
    (only,) = tracks_of(call(recorded, total=60))
    return only


def spans(recorded: RecordedAttempt) -> list[tuple[float, float]]:
    """Give its stalls in seconds from the call."""
    return [(span.begin_ns / 1e9, span.end_ns / 1e9) for span, _ in track(recorded).stalls]


def test_times_count_from_the_applications_call() -> None:
    drawn = track(attempt(1, [Content(3), Content(4, "reasoning")], 5, started=2))
    assert drawn.life == (ns(2), ns(5))
    assert drawn.wait == (ns(2), ns(3))
    assert drawn.ticks == {"text": [ns(3)], "reasoning": [ns(4)]}
    assert drawn.tail == (ns(4), ns(5))


def test_an_attempt_without_content_waits_to_its_end() -> None:
    drawn = track(attempt(0, [], 5, outcome="failed", end_kind="error"))
    assert (drawn.wait, drawn.tail) == ((0, ns(5)), None)
    assert (drawn.ticks, drawn.stalls, drawn.held) == ({}, [], [])


def test_a_read_with_several_kinds_of_content_ticks_for_each() -> None:
    recorded = attempt(0, [Content(1)], 2)
    both = recorded.trace.arrivals[0]._replace(kinds=("reasoning", "tool_call"))
    recorded = attrs.evolve(recorded, trace=attrs.evolve(recorded.trace, arrivals=[both]))
    assert track(recorded).ticks == {"reasoning": [ns(1)], "tool_call": [ns(1)]}


def test_a_stall_is_all_of_a_gap_in_which_somebody_waited() -> None:
    assert spans(attempt(0, [Content(1), Content(6.5), Content(6.6)], 7)) == [(1, 6.5)]


def test_time_in_which_nobody_asked_is_drawn_before_the_wait() -> None:
    recorded = attempt(0, [Content(1), Content(6, held=1.5), Content(6.5, held=0.25)], 7)
    assert spans(recorded) == [(2.5, 6)]
    assert track(recorded).held == [(ns(1), ns(2.5)), (ns(6), ns(6.25))]


def test_nobody_asking_after_the_last_content_is_seen_too() -> None:
    drawn = track(attempt(0, [Content(1), Content(2)], 7, last_held=4))
    assert drawn.held == [(ns(2), ns(6))]
    assert drawn.tail == (ns(6), ns(7))


def test_a_silence_that_the_end_broke_is_an_open_stall_and_no_tail() -> None:
    recorded = attempt(
        0, [Content(1), Content(2)], 9, last_held=0.5, outcome="failed", end_kind="watchdog"
    )
    drawn = track(recorded)
    assert spans(recorded) == [(2.5, 9)]
    assert [stall.open for _, stall in drawn.stalls] == [True]
    assert drawn.tail is None


def test_a_short_silence_before_a_bad_end_is_a_tail() -> None:
    drawn = track(attempt(0, [Content(1)], 2.9, outcome="failed", end_kind="cut"))
    assert (drawn.stalls, drawn.tail) == ([], (ns(1), ns(2.9)))


def test_only_the_stalls_that_figures_list_are_drawn() -> None:
    many = [Content(3 * i) for i in range(1, MOST_STALLS + 11)]
    recorded = attempt(0, many, 300)
    assert len(track(recorded).stalls) == MOST_STALLS
    more = attrs.evolve(recorded.stats, stalls=[*recorded.stats.stalls] * 1000)
    assert len(track(attrs.evolve(recorded, stats=more)).stalls) == MOST_STALLS


def test_where_arrivals_are_missing_nothing_is_said_of_the_time() -> None:
    drawn = track(attempt(0, flow(1, 2, 0.1), 50, dropped=7, last_held=3))
    assert (drawn.tail, drawn.held, drawn.dropped) == (None, [], 7)


def test_a_stall_among_missing_arrivals_lies_where_it_was_measured() -> None:
    recorded = attempt(0, [Content(1), Content(2), Content(7), Content(7.5)], 50)
    first = attrs.evolve(recorded.trace, arrivals=recorded.trace.arrivals[:2], dropped=2)
    assert spans(attrs.evolve(recorded, trace=first)) == [(2, 7)]


def test_what_is_no_single_stream_has_no_stalls_and_no_backpressure() -> None:
    document = track(attempt(0, [Content(5)], 5, last_held=0, form="document"))
    assert (document.stalls, document.held) == ([], [])
    choices = track(attempt(0, [Content(1), Content(9, held=3)], 10, form="choices"))
    assert (choices.stalls, choices.held) == ([], [])
    assert choices.ticks == {"text": [ns(1), ns(9)]}


def test_the_close_comes_behind_the_decision_to_cancel() -> None:
    lost = attempt(0, [], 5, outcome="lost", end_kind="cancelled", closing_ms=250)
    assert track(lost).closed_ns == ns(5.25)
    assert track(attempt(0, [], 5)).closed_ns is None


def test_a_picture_shows_all_of_the_call_and_of_its_attempts() -> None:
    late = attempt(0, [], 5, outcome="lost", end_kind="cancelled", closing_ms=4000)
    long = call(late, total=12)
    assert extent_ns(long, tracks_of(long)) == ns(12)
    short = call(late, total=5)
    assert extent_ns(short, tracks_of(short)) == ns(9)
    assert extent_ns(short, []) == ns(5)


def test_no_picture_is_without_any_time() -> None:
    instant = call(attempt(0, [], 0), total=0)
    assert extent_ns(instant, tracks_of(instant)) == 1


def test_the_number_of_tracks_is_bounded() -> None:
    attempts = [attempt(index, [], 1) for index in range(MOST_TRACKS + 5)]
    assert len(tracks_of(call(*attempts, total=1))) == MOST_TRACKS


def test_a_seam_is_drawn_where_both_of_its_attempts_are() -> None:
    seams = [seam("restart", 0, 1, 3), seam("continue", 1, 2, 5)]
    three = [attempt(index, [], 9, outcome="failed") for index in range(3)]
    recorded = call(*three, total=9, seams=seams)
    assert list(seams_of(recorded, tracks_of(recorded))) == seams
    torn = attrs.evolve(recorded, attempts=recorded.attempts[1:])
    assert list(seams_of(torn, tracks_of(torn))) == seams[1:]


def test_seams_beyond_number_are_as_many_as_there_are_tracks() -> None:
    forged = [seam("restart", 0, index % 2, index) for index in range(10_000)]
    recorded = call(attempt(0, [], 9), attempt(1, [], 9), total=9, seams=forged)
    assert list(seams_of(recorded, tracks_of(recorded))) == forged[-2:]
