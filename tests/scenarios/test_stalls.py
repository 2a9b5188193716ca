"""Answers that are cut, stop or only trickle after their first content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway import StreamBroken, Truncated
from tests.scenarios.scripts import ANSWER_S, TOKENS, text
from tests.scenarios.situations import (
    a_trickle,
    cut_after_40_of_60_tokens,
    keepalives_only_after_20_tokens,
    no_done_and_no_end_of_the_connection,
    no_done_and_no_finish_reason,
    no_done_but_a_finish_reason,
    stall_of_30_s_after_20_tokens,
)
from tests.scenarios.stage import completed, each_way, streamed

if TYPE_CHECKING:
    from tests.scenarios.stage import Make, Play

TWENTY_S = 1.0
"""When the 20th token comes."""

STALL_AFTER_S = 5.0
STALLS = [stall_of_30_s_after_20_tokens, keepalives_only_after_20_tokens]


@completed
def test_a_whole_answer_that_is_cut_is_made_anew_elsewhere(play: Play) -> None:
    seen = play(cut_after_40_of_60_tokens)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.story == ["eu primary failed", "us retry won"]
    cut, _ = seen.caller.attempts
    assert cut.error_kind == "transient"
    assert cut.chunk_count == 40
    assert cut.wasted is not None
    assert cut.wasted.characters == len(text("eu", 40))
    assert seen.ends("eu") == ["cut"]
    assert seen.ends("us") == ["done"]


@streamed
def test_a_delivered_stream_that_is_cut_is_never_reported_whole(play: Play) -> None:
    seen = play(cut_after_40_of_60_tokens)
    error = seen.caller.failure
    assert isinstance(error, StreamBroken)
    assert isinstance(error.__cause__, Truncated)
    assert (error.kind, error.retryable) == ("transient", True)
    assert error.partial is not None
    assert error.partial.text == seen.caller.delivered == text("eu", 40)
    assert error.partial.finish_reason is None
    assert seen.caller.story == ["eu primary failed"]
    assert seen.ends("eu") == ["cut"]
    assert seen.ends("us") == []


@completed
@pytest.mark.parametrize("make", STALLS)
def test_a_whole_answer_that_stops_for_30_s_is_raced_after_five(play: Play, make: Make) -> None:
    seen = play(make)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.story == ["eu primary lost", "us hedge won"]
    assert seen.caller.answer.stats.hedge_reason == "stall"
    assert seen.requests("us")[0].started_at == pytest.approx(TWENTY_S + STALL_AFTER_S)
    assert seen.caller.took_s == pytest.approx(TWENTY_S + STALL_AFTER_S + ANSWER_S)
    assert seen.caller.attempts[0].cancel_reason == "lost a duel"
    assert seen.ends("eu") == ["client closed"]
    assert seen.ends("us") == ["done"]


@streamed
@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (stall_of_30_s_after_20_tokens, "server_silence"),
        (keepalives_only_after_20_tokens, "server_alive"),
    ],
)
def test_a_delivered_stream_that_stops_for_30_s_comes_whole_and_its_stall_is_told(
    play: Play, make: Make, cause: str
) -> None:
    seen = play(make)
    answer = seen.caller.answer
    assert answer.text == seen.caller.delivered == text("eu")
    assert seen.caller.story == ["eu primary won"]
    (stall,) = answer.stats.stalls
    assert stall.duration_ms / 1000 == pytest.approx(30)
    assert (stall.after_chunk, stall.cause, stall.open) == (19, cause, False)
    assert answer.stats.stall_count == 1
    assert answer.stats.active_generation_ms is not None
    assert answer.stats.active_generation_ms == pytest.approx(1000)
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == []


@each_way
def test_a_trickle_is_slow_but_no_silence(play: Play) -> None:
    seen = play(a_trickle)
    answer = seen.caller.answer
    assert answer.text == text("eu", 6)
    assert seen.caller.story == ["eu primary won"]
    assert seen.caller.took_s == pytest.approx(18)
    # Each of the five gaps is over the 2 s that count as a stall; in a row they are one.
    assert (answer.stats.stall_gap_count, answer.stats.stall_count) == (5, 1)
    assert seen.ends("us") == []


@each_way
@pytest.mark.parametrize(
    ("make", "tail_s", "ended"),
    [
        (no_done_but_a_finish_reason, 0.0, "done"),
        (no_done_and_no_end_of_the_connection, 0.5, "client closed"),
    ],
)
def test_a_finish_reason_without_an_end_marker_is_the_end(
    play: Play, make: Make, tail_s: float, ended: str
) -> None:
    seen = play(make)
    answer = seen.caller.answer
    assert answer.text == text("eu")
    assert answer.finish_reason == "stop"
    assert answer.usage.output_tokens is None
    assert seen.caller.took_s == pytest.approx(ANSWER_S + tail_s)
    assert seen.ends("eu") == [ended]
    assert seen.ends("us") == []


@completed
def test_a_whole_answer_without_any_end_is_made_anew_elsewhere(play: Play) -> None:
    seen = play(no_done_and_no_finish_reason)
    assert seen.caller.answer.text == text("us")
    assert seen.caller.story == ["eu primary failed", "us retry won"]
    assert seen.caller.attempts[0].end_kind == "cut"
    assert len(seen.requests("eu")) == 1
    assert seen.ends("us") == ["done"]


@streamed
def test_a_delivered_stream_without_any_end_is_broken(play: Play) -> None:
    seen = play(no_done_and_no_finish_reason)
    assert isinstance(seen.caller.failure, StreamBroken)
    assert isinstance(seen.caller.failure.__cause__, Truncated)
    assert seen.caller.delivered == text("eu", TOKENS)
    assert seen.ends("us") == []
