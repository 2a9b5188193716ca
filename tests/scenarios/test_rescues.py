"""Streams that broke or stopped after they had been delivered in part, and were to be rescued."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from polygateway import StreamBroken, Truncated
from tests.scenarios.rescues import (
    cut_and_continued,
    cut_and_restarted,
    cut_and_said_again,
    fallback_rejects_prefill,
    fallback_rejects_prefill_and_another_goes_on,
    fallback_rejects_prefill_and_restarts,
    stalled_and_continued,
    stalled_and_its_rescue_fails,
    stalled_and_restarted,
    stalled_and_resumed_before_its_rescue,
    stalled_while_it_was_held_back,
)
from tests.scenarios.scripts import TOKENS, text
from tests.scenarios.stage import streamed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polygateway.testing import Exchange
    from tests.scenarios.stage import Make, Play

BROKEN_S = 2.0
"""When the 40th token has come, and the connection is cut."""

SILENT_S = 6.0
"""When the 20th token has been the last for five seconds."""


def asked(exchange: Exchange) -> list[tuple[str, str]]:
    """Give the messages of a request."""
    messages = cast("Sequence[Mapping[str, str]]", exchange.request.body["messages"])
    return [(each["role"], each["content"]) for each in messages]


@streamed
@pytest.mark.parametrize(
    ("make", "starts_s", "had", "ended"),
    [
        (cut_and_restarted, BROKEN_S, 40, "cut"),
        (stalled_and_restarted, SILENT_S, 20, "client closed"),
    ],
)
def test_a_restart_is_marked_and_only_what_follows_is_the_answer(
    play: Play, make: Make, starts_s: float, had: int, ended: str
) -> None:
    seen = play(make)
    answer = seen.caller.answer
    assert answer.text == seen.caller.delivered == text("us")
    (seam,) = answer.seams
    assert (seam.kind, seam.before, seam.after) == ("restart", 0, 1)
    assert seam.characters == len(text("eu", had))
    assert seam.at_ms / 1000 == pytest.approx(starts_s + 1)
    assert [each.kind for each in seen.caller.chunks].index("seam") == had
    assert (answer.target, answer.usage.output_tokens) == ("us", TOKENS)
    assert seen.requests("us")[0].started_at == pytest.approx(starts_s)
    assert asked(seen.requests("us")[0]) == asked(seen.requests("eu")[0])
    assert seen.ends("eu") == [ended]
    assert seen.ends("us") == ["done"]


@streamed
@pytest.mark.parametrize(
    ("make", "had"),
    [(cut_and_continued, 40), (cut_and_said_again, 40), (stalled_and_continued, 20)],
)
def test_a_continuation_joins_without_a_gap_and_without_a_word_twice(
    play: Play, make: Make, had: int
) -> None:
    seen = play(make)
    answer = seen.caller.answer
    assert answer.text == seen.caller.delivered == text("eu")
    (seam,) = answer.seams
    assert (seam.kind, seam.before, seam.after) == ("continue", 0, 1)
    assert seam.characters == len(text("eu", had))
    assert answer.target == "us"
    assert answer.finish_reason == "stop"
    assert asked(seen.requests("us")[0]) == [
        *asked(seen.requests("eu")[0]),
        ("assistant", text("eu", had).rstrip()),
    ]
    assert seen.ends("us") == ["done"]


@streamed
def test_a_fallback_that_rejects_prefill_is_asked_once_and_the_stream_is_broken(
    play: Play,
) -> None:
    seen = play(fallback_rejects_prefill)
    error = seen.caller.failure
    assert isinstance(error, StreamBroken)
    # The request was fine; it is the cut that ended the call.
    assert isinstance(error.__cause__, Truncated)
    assert (error.kind, error.retryable) == ("transient", True)
    assert error.partial is not None
    assert error.partial.text == seen.caller.delivered == text("eu", 40)
    assert seen.caller.story == ["eu primary failed", "us retry failed"]
    assert seen.ends("eu") == ["cut"]
    assert seen.ends("us") == ["done"]


@streamed
def test_after_a_fallback_that_rejects_prefill_the_next_one_goes_on(play: Play) -> None:
    seen = play(fallback_rejects_prefill_and_another_goes_on)
    answer = seen.caller.answer
    assert answer.text == seen.caller.delivered == text("eu")
    assert [(each.kind, each.before, each.after) for each in answer.seams] == [("continue", 0, 2)]
    assert seen.caller.story == ["eu primary failed", "us retry failed", "ap retry won"]
    assert seen.ends("us") == seen.ends("ap") == ["done"]


@streamed
def test_a_fallback_that_rejects_prefill_may_begin_anew(play: Play) -> None:
    seen = play(fallback_rejects_prefill_and_restarts)
    answer = seen.caller.answer
    assert answer.text == seen.caller.delivered == text("us")
    assert [each.kind for each in answer.seams] == ["restart"]
    first, second = seen.requests("us")
    assert asked(first)[-1] == ("assistant", text("eu", 40).rstrip())
    assert asked(second) == asked(seen.requests("eu")[0])


@streamed
def test_an_attempt_that_resumes_before_its_rescue_speaks_goes_on_without_a_seam(
    play: Play,
) -> None:
    seen = play(stalled_and_resumed_before_its_rescue)
    answer = seen.caller.answer
    assert answer.text == seen.caller.delivered == text("eu")
    assert not answer.seams
    assert seen.caller.story == ["eu primary won", "us hedge lost"]
    assert seen.requests("us")[0].started_at == pytest.approx(SILENT_S)
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == ["client closed"]


@streamed
def test_an_attempt_whose_rescue_fails_is_read_on(play: Play) -> None:
    seen = play(stalled_and_its_rescue_fails)
    answer = seen.caller.answer
    assert answer.text == seen.caller.delivered == text("eu")
    assert not answer.seams
    assert seen.caller.story == ["eu primary won", "us hedge failed", "us hedge failed"]
    assert answer.stats.stall_count == 1
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == ["done", "done"]


@streamed
def test_what_is_held_back_can_still_be_raced(play: Play) -> None:
    seen = play(stalled_while_it_was_held_back)
    answer = seen.caller.answer
    assert answer.text == seen.caller.delivered == text("us")
    assert not answer.seams
    assert seen.caller.story == ["eu primary lost", "us hedge won"]
    assert seen.ends("eu") == ["client closed"]
    assert seen.ends("us") == ["done"]
