"""Providers that are silent before they have said anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scenarios.scripts import ANSWER_S, TOKENS, text
from tests.scenarios.situations import (
    accepts_and_never_answers,
    fallback_never_answers,
    first_token_after_20_s,
    first_token_after_20_s_and_alone,
    keepalives_only,
    one_event_bit_by_bit,
    two_never_answer,
    two_never_answer_and_nothing_is_hedged,
)
from tests.scenarios.stage import each_way

if TYPE_CHECKING:
    from tests.scenarios.stage import Make, Play

AFTER_S = 5.0
TTFT_TIMEOUT_S = 60.0


@each_way
@pytest.mark.parametrize(
    "make",
    [accepts_and_never_answers, first_token_after_20_s, keepalives_only, one_event_bit_by_bit],
)
def test_a_target_without_content_for_five_seconds_is_raced(play: Play, make: Make) -> None:
    seen = play(make)
    answer = seen.caller.answer
    assert answer.text == text("us")
    assert seen.caller.story == ["eu primary lost", "us hedge won"]
    assert answer.stats.hedge_reason == "ttft"
    assert seen.requests("us")[0].started_at == pytest.approx(AFTER_S)
    assert seen.caller.took_s == pytest.approx(AFTER_S + ANSWER_S)
    assert seen.ends("eu") == ["client closed"]
    assert seen.ends("us") == ["done"]


@each_way
def test_the_loser_is_closed_at_the_winner_s_first_token(play: Play) -> None:
    seen = play(accepts_and_never_answers)
    closed = seen.requests("eu")[0].ended_at
    assert closed is not None
    assert closed == pytest.approx(AFTER_S + 1)
    assert seen.requests("us")[0].ended_at is not None
    assert closed < seen.requests("us")[0].sent[-1][0]
    assert seen.caller.attempts[0].cancel_reason == "lost the race"


@each_way
def test_a_slow_target_without_a_rival_answers_in_its_own_time(play: Play) -> None:
    seen = play(first_token_after_20_s_and_alone)
    assert seen.caller.answer.text == text("eu")
    assert seen.caller.story == ["eu primary won", "eu hedge lost", "eu hedge lost"]
    ttft_ms = seen.caller.answer.stats.ttft_ms
    assert ttft_ms is not None
    assert ttft_ms / 1000 == pytest.approx(20)
    assert [each.ended for each in seen.requests("eu")] == [
        "done",
        "client closed",
        "client closed",
    ]
    assert len(set(seen.connections("eu"))) == 3


@each_way
def test_a_silent_target_is_not_tried_twice_while_another_is_left(play: Play) -> None:
    seen = play(two_never_answer)
    assert seen.caller.answer.text == text("ap")
    assert seen.caller.story == ["eu primary lost", "us hedge lost", "ap hedge won"]
    assert [len(seen.requests(each)) for each in ("eu", "us", "ap")] == [1, 1, 1]
    assert seen.caller.took_s == pytest.approx(2 * AFTER_S + ANSWER_S)


@each_way
def test_a_target_that_has_failed_goes_before_one_that_is_silent(play: Play) -> None:
    seen = play(fallback_never_answers)
    assert seen.caller.answer.text == text("eu")
    assert seen.caller.story == ["eu primary failed", "us retry lost", "eu hedge won"]
    assert seen.caller.took_s == pytest.approx(AFTER_S + ANSWER_S)
    assert seen.ends("us") == ["client closed"]


@each_way
def test_unhedged_it_is_not_tried_twice_either(play: Play) -> None:
    seen = play(two_never_answer_and_nothing_is_hedged)
    assert seen.caller.answer.text == text("ap")
    assert seen.caller.story == ["eu primary failed", "us retry failed", "ap retry won"]
    assert [len(seen.requests(each)) for each in ("eu", "us", "ap")] == [1, 1, 1]
    assert seen.caller.took_s == pytest.approx(2 * TTFT_TIMEOUT_S + ANSWER_S)


@each_way
def test_what_a_lost_race_cost_is_told(play: Play) -> None:
    seen = play(first_token_after_20_s)
    lost, won = seen.caller.attempts
    assert won.wasted is None
    assert lost.wasted is not None
    assert lost.wasted.characters == 0
    assert lost.wasted.ran_ms / 1000 == pytest.approx(AFTER_S + 1)
    assert seen.caller.answer.usage.output_tokens == TOKENS
