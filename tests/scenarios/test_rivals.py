"""Two attempts at once: which one speaks, and what becomes of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scenarios.scripts import ANSWER_S, text
from tests.scenarios.situations import (
    begins_as_its_rival_begins,
    error_frame_from_the_rival_of_a_late_primary,
    error_frame_from_the_rival_of_a_stalled_primary,
    loser_goes_on_writing,
    resumes_as_its_rival_speaks,
    rival_stalls_too,
)
from tests.scenarios.stage import completed, each_way

if TYPE_CHECKING:
    from tests.scenarios.stage import Make, Play


@each_way
def test_an_error_frame_wins_nothing(play: Play) -> None:
    seen = play(error_frame_from_the_rival_of_a_late_primary)
    assert seen.caller.answer.text == text("eu")
    assert seen.caller.story == ["eu primary won", "us hedge failed"]
    assert seen.caller.attempts[1].error_kind == "transient"
    assert seen.caller.took_s == pytest.approx(9 + ANSWER_S - 1)
    assert seen.ends("eu") == ["done"]
    assert len(seen.requests("us")) == 1


@completed
def test_an_error_frame_does_not_end_a_stalled_answer_that_resumes(play: Play) -> None:
    seen = play(error_frame_from_the_rival_of_a_stalled_primary)
    assert seen.caller.answer.text == text("eu")
    assert seen.caller.story == ["eu primary won", "us hedge failed"]
    assert seen.caller.answer.stats.stall_count == 1
    assert seen.ends("eu") == ["done"]
    assert len(seen.requests("us")) == 1


@each_way
@pytest.mark.parametrize("make", [begins_as_its_rival_begins, resumes_as_its_rival_speaks])
def test_of_two_that_speak_at_one_instant_one_is_heard(play: Play, make: Make) -> None:
    seen = play(make)
    winner = seen.caller.answer.target
    assert seen.caller.answer.text == text(winner)
    for loser in {"eu", "us"} - {winner}:
        assert set(seen.ends(loser)) <= {"client closed"}
    # At equal stamps the front goes first.
    assert winner == "eu" or play.world == "tcp"


@each_way
def test_a_loser_that_goes_on_writing_writes_to_nobody(play: Play) -> None:
    seen = play(loser_goes_on_writing)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.story == ["eu primary lost", "us hedge won"]
    assert seen.caller.attempts[0].characters == 0
    (exchange,) = seen.requests("eu")
    assert exchange.ended == "client closed"
    assert exchange.ended_at is not None
    # A peer may write once to a socket that is gone; then it is told so.
    first_write = 7.6
    assert exchange.ended_at >= first_write
    assert sum(began >= first_write for began, _ in exchange.sent) <= 5


@completed
def test_a_second_stall_opens_a_second_duel_at_the_third_target(play: Play) -> None:
    seen = play(rival_stalls_too)
    assert seen.caller.answer.text == text("ap")
    assert seen.caller.story == ["eu primary lost", "us hedge lost", "ap hedge won"]
    assert [each.reason for each in seen.caller.attempts] == [None, "stall", "stall"]
    assert seen.ends("eu") == seen.ends("us") == ["client closed"]
    assert seen.ends("ap") == ["done"]
