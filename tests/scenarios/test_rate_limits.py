"""A provider that answers 429: it is obeyed, and not hammered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from polygateway import RateLimited
from tests.scenarios.scripts import ANSWER_S, text
from tests.scenarios.situations import (
    fallback_is_rate_limited_for_longer,
    rate_limited_and_alone,
    rate_limited_beyond_the_deadline,
    rate_limited_everywhere,
    rate_limited_for_a_moment,
    rate_limited_for_a_moment_again_and_again,
    rate_limited_for_an_hour,
    rate_limited_for_ever,
    rate_limited_for_ever_and_alone,
    rate_limited_for_longer,
    rival_is_rate_limited,
)
from tests.scenarios.stage import Stage, each_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.scenarios.stage import Make, Play, Reply


@each_way
def test_a_429_that_asks_for_one_second_is_waited_for(play: Play) -> None:
    seen = play(rate_limited_for_a_moment)
    assert seen.caller.answer.text == text("eu")
    assert seen.caller.story == ["eu primary failed", "eu retry won"]
    assert seen.requests("eu")[1].started_at == pytest.approx(1)
    assert seen.caller.took_s == pytest.approx(1 + ANSWER_S)
    assert seen.ends("eu") == ["done", "done"]
    assert seen.ends("us") == []


@each_way
def test_a_429_that_asks_for_20_s_is_a_reason_to_go_elsewhere_at_once(play: Play) -> None:
    seen = play(rate_limited_for_longer)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.story == ["eu primary failed", "us retry won"]
    assert seen.caller.took_s == pytest.approx(ANSWER_S)
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == ["done"]


@each_way
def test_with_nowhere_else_to_go_a_429_s_20_s_are_waited_for(play: Play) -> None:
    seen = play(rate_limited_and_alone)
    assert seen.caller.answer.text == text("eu")
    assert seen.requests("eu")[1].started_at == pytest.approx(20)
    assert len(seen.requests("eu")) == 2


@each_way
@pytest.mark.parametrize("make", [rate_limited_beyond_the_deadline, rate_limited_for_an_hour])
def test_a_429_that_cannot_be_waited_for_is_told_at_once(play: Play, make: Make) -> None:
    seen = play(make)
    assert isinstance(seen.caller.failure, RateLimited)
    assert seen.caller.took_s == pytest.approx(0)
    assert seen.caller.story == ["eu primary failed"]
    assert len(seen.requests("eu")) == 1


@each_way
def test_a_target_that_may_be_tried_soon_goes_before_one_that_asked_for_30_s(play: Play) -> None:
    seen = play(fallback_is_rate_limited_for_longer)
    assert seen.caller.answer.text == text("eu")
    assert seen.caller.story == ["eu primary failed", "us retry failed", "eu retry won"]
    assert seen.requests("eu")[1].started_at < 2
    assert len(seen.requests("us")) == 1


async def call_at_0_10_and_25_s(stage: Stage) -> Sequence[Reply]:
    replies: list[Reply] = []
    for at in (0, 10, 25):
        await trio.sleep_until(at)
        replies.append(await stage.ask())
    return replies


@each_way
def test_other_calls_keep_away_from_a_target_that_asked_for_20_s(play: Play) -> None:
    seen = play.run(rate_limited_for_longer, call_at_0_10_and_25_s)
    assert [each.story for each in seen.caller] == [
        ["eu primary failed", "us retry won"],
        ["us primary won"],
        ["eu primary won"],
    ]
    assert seen.requests("eu")[1].started_at == pytest.approx(25)
    assert seen.ends("eu") == seen.ends("us") == ["done", "done"]


@each_way
def test_no_hedge_goes_to_a_target_that_asked_not_to_be_tried(play: Play) -> None:
    seen = play.run(rival_is_rate_limited, Stage.ask_twice)
    first, second = seen.caller
    assert isinstance(first.failure, RateLimited)
    assert second.answer.text == text("eu")
    assert second.story == ["eu primary lost", "eu hedge won"]
    assert len(seen.requests("us")) == 1


HAMMERED = [
    rate_limited_for_ever,
    rate_limited_for_ever_and_alone,
    rate_limited_for_a_moment_again_and_again,
    rate_limited_everywhere,
]


@each_way
@pytest.mark.parametrize("make", HAMMERED)
def test_a_429_for_ever_is_asked_at_most_four_times_in_its_first_three_seconds(
    play: Play, make: Make
) -> None:
    seen = play(make)
    for target in seen.providers:
        early = [each for each in seen.requests(target) if each.started_at < 3]
        assert 1 <= len(early) <= 4


@each_way
def test_a_429_for_ever_is_left_for_the_next_target_after_one_request(play: Play) -> None:
    seen = play(rate_limited_for_ever)
    assert seen.caller.answer.text == text("us")
    assert seen.ends("eu") == ["done"]


@each_way
def test_a_429_for_ever_of_the_only_target_is_raised_after_two_retries(play: Play) -> None:
    seen = play(rate_limited_for_ever_and_alone)
    error = seen.caller.failure
    assert isinstance(error, RateLimited)
    assert error.not_tried == "max_retries"
    assert error.retryable
    assert seen.caller.story == ["eu primary failed", "eu retry failed", "eu retry failed"]
    first, second, third = (each.started_at for each in seen.requests("eu"))
    assert second - first >= 0.25
    assert third - second >= 0.5
