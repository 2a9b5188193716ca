"""Providers that fail before they have said anything, or refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway import (
    ContentFiltered,
    ContextLengthExceeded,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    StreamBroken,
)
from tests.scenarios.scripts import ANSWER_S, TOKENS, text
from tests.scenarios.situations import (
    another_model_answers,
    answer_filtered,
    bad_request,
    malformed_chunk_after_20_tokens,
    malformed_first_chunk,
    one_500,
    overloaded_everywhere,
    overloaded_for_ever,
    prompt_filtered,
    prompt_too_long_for_all,
    prompt_too_long_for_the_primary,
    reset_before_the_headers,
    reset_before_the_headers_for_ever,
)
from tests.scenarios.stage import completed, each_way, streamed

if TYPE_CHECKING:
    from tests.scenarios.stage import Make, Play


@each_way
@pytest.mark.parametrize(
    ("make", "ended"), [(one_500, "done"), (reset_before_the_headers, "reset")]
)
def test_a_single_failure_is_followed_by_a_second_try_at_the_same_target(
    play: Play, make: Make, ended: str
) -> None:
    seen = play(make)
    assert seen.caller.answer.text == text("eu")
    assert seen.caller.story == ["eu primary failed", "eu retry won"]
    assert seen.caller.attempts[0].error_kind == "transient"
    assert seen.ends("eu") == [ended, "done"]
    assert seen.ends("us") == []
    # The backoff before the first retry is between half of 0.5 s and all of it.
    first, second = (each.started_at for each in seen.requests("eu"))
    assert second - first >= 0.25
    assert seen.caller.took_s <= 0.5 + ANSWER_S


@each_way
def test_a_second_failure_moves_the_call_to_the_next_target(play: Play) -> None:
    seen = play(reset_before_the_headers_for_ever)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.story == ["eu primary failed", "eu retry failed", "us retry won"]
    assert seen.ends("eu") == ["reset", "reset"]
    assert seen.ends("us") == ["done"]


@each_way
def test_a_503_moves_the_call_to_the_next_target_at_once(play: Play) -> None:
    seen = play(overloaded_for_ever)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.story == ["eu primary failed", "us retry won"]
    assert seen.caller.took_s == pytest.approx(ANSWER_S)
    assert seen.ends("eu") == ["done"]


@each_way
def test_a_503_of_every_target_is_raised_after_two_retries(play: Play) -> None:
    seen = play(overloaded_everywhere)
    error = seen.caller.failure
    assert isinstance(error, Overloaded)
    assert (error.status, error.kind, error.retryable) == (503, "overloaded", True)
    assert error.not_tried == "max_retries"
    assert isinstance(error.__cause__, Overloaded)
    assert error.partial is None
    assert len(seen.caller.story) == 3
    assert len(seen.requests("eu")) + len(seen.requests("us")) == 3


@each_way
def test_a_400_is_sent_once(play: Play) -> None:
    seen = play(bad_request)
    error = seen.caller.failure
    assert isinstance(error, InvalidRequest)
    assert (error.status, error.target, error.retryable) == (400, "eu", False)
    assert error.not_tried is None
    assert seen.caller.story == ["eu primary failed"]
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == []


@each_way
def test_a_prompt_too_long_for_one_target_is_sent_to_the_next(play: Play) -> None:
    seen = play(prompt_too_long_for_the_primary)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.attempts[0].error_kind == "context_length"
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == ["done"]


@each_way
def test_a_prompt_too_long_for_all_is_sent_once_to_each(play: Play) -> None:
    seen = play(prompt_too_long_for_all)
    assert isinstance(seen.caller.failure, ContextLengthExceeded)
    assert not seen.caller.failure.retryable
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == ["done"]


@each_way
def test_a_prompt_that_is_filtered_is_sent_nowhere_else(play: Play) -> None:
    seen = play(prompt_filtered)
    assert isinstance(seen.caller.failure, ContentFiltered)
    assert seen.caller.failure.code == "content_filter"
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == []


@each_way
def test_an_answer_that_is_filtered_is_an_answer_that_says_so(play: Play) -> None:
    seen = play(answer_filtered)
    assert seen.caller.answer.finish_reason == "content_filter"
    assert seen.caller.answer.text == text("eu", 20)
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == []


@each_way
def test_a_malformed_first_chunk_moves_the_call_to_the_next_target(play: Play) -> None:
    seen = play(malformed_first_chunk)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.story == ["eu primary failed", "us retry won"]
    assert seen.caller.attempts[0].error_kind == "protocol"
    assert seen.ends("eu") == ["client closed"]


@completed
def test_a_malformed_chunk_costs_a_whole_answer_a_new_start(play: Play) -> None:
    seen = play(malformed_chunk_after_20_tokens)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.story == ["eu primary failed", "us retry won"]
    assert seen.ends("eu") == ["client closed"]
    assert seen.ends("us") == ["done"]


@streamed
def test_a_malformed_chunk_breaks_a_delivered_stream(play: Play) -> None:
    seen = play(malformed_chunk_after_20_tokens)
    error = seen.caller.failure
    assert isinstance(error, StreamBroken)
    assert isinstance(error.__cause__, ProtocolViolation)
    assert error.kind == "protocol"
    assert error.partial is not None
    assert error.partial.text == seen.caller.delivered == text("eu", 20)
    assert seen.ends("eu") == ["client closed"]
    assert seen.ends("us") == []


@each_way
def test_after_a_failover_the_model_that_answered_and_its_usage_are_told(play: Play) -> None:
    seen = play(another_model_answers)
    answer = seen.caller.answer
    assert (answer.target, answer.model) == ("us", "lyra-3-small")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, TOKENS)
    assert answer.stats.front == 1
    failed, won = seen.caller.attempts
    assert failed.usage.input_tokens is failed.usage.output_tokens is None
    assert (won.usage.input_tokens, won.usage.output_tokens) == (7, TOKENS)
    assert won.wasted is None
    assert seen.ends("eu") == seen.ends("us") == ["done"]
