"""What is told and recorded of a stream that another attempt takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from polygateway import HedgePolicy, StreamPolicy
from polygateway.instrument import AttemptEnded, CallEnded, SeamMade
from polygateway.stats import Seam
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    hang,
    reasoning,
    silence,
    status,
    together,
)
from tests.listening import Notes, figures_in, stream, told
from tests.scenario import AT_ONCE, NO_RETRY

if TYPE_CHECKING:
    from polygateway import Chunk, CompletionStream, Gateway
    from polygateway.policies import Recovery
    from polygateway.stats import SeamKind
    from polygateway.testing import Step
    from tests.listening import Providers

SECOND = 1_000_000_000


def script(*steps: Step) -> ScriptedProvider:
    return ScriptedProvider(steps)


def read(providers: Providers, recovery: Recovery) -> Notes:
    policy = StreamPolicy(recovery=recovery)
    return told(stream, providers, stream=policy, retry=AT_ONCE)


# eu is cut after 2 s, with ten characters in two chunks.
CUT = script(silence(1), chunk("Once "), silence(1), chunk("upon "), cut())

# The same, but it falls silent.
SILENT = script(silence(1), chunk("Once "), silence(1), chunk("upon "), hang())

WHOLE = ScriptedProvider(answer("Once ", "upon ", "a time.", every_s=1))
REST = ScriptedProvider(answer("a ", "time.", every_s=1))


# ---------------------------------------------------------------- what is told, in order


def test_a_stream_that_breaks_and_begins_anew() -> None:
    notes = read({"eu": CUT, "us": WHOLE}, "restart")
    assert notes.lines == [
        *("call", "primary 0", "commit 0", "0 failed", "retry 1", "commit 1", "restart 0 -> 1"),
        *("1 won", "call complete"),
    ]


def test_a_stream_that_falls_silent_and_goes_on_elsewhere() -> None:
    notes = read({"eu": SILENT, "us": REST}, "continue")
    assert notes.lines == [
        *("call", "primary 0", "commit 0", "0 stalls", "hedge 1 (stall)", "0 stalled", "0 lost"),
        *("commit 1", "continue 0 -> 1", "1 won", "call complete"),
    ]


def test_a_stream_that_resumes_before_anybody_takes_over() -> None:
    resuming = script(silence(1), chunk("Once "), silence(6), *answer("upon"))
    notes = read({"eu": resuming, "us": script(silence(8), *answer("late"))}, "continue")
    assert notes.lines == [
        *("call", "primary 0", "commit 0", "0 stalls", "hedge 1 (stall)", "0 stalled", "1 lost"),
        *("0 won", "call complete"),
    ]
    assert notes.end.stats.seams == ()


def test_a_stream_that_is_taken_over_twice() -> None:
    breaking = script(chunk("a "), silence(1), chunk("long "), cut())
    last = ScriptedProvider(answer("time ago."))
    notes = read({"eu": SILENT, "us": breaking, "ap": last}, "continue")
    assert notes.lines[7:] == [
        *("commit 1", "continue 0 -> 1", "1 failed", "retry 2", "commit 2", "continue 1 -> 2"),
        *("2 won", "call complete"),
    ]
    assert [seam.characters for seam in notes.end.stats.seams] == [10, 17]


def test_a_break_that_nobody_can_mend() -> None:
    notes = read({"eu": CUT, "us": ScriptedProvider(status(400))}, "restart")
    assert notes.lines[-1] == "call failed"
    assert notes.of(SeamMade) == []


# ---------------------------------------------------------------- what the event says


@pytest.mark.parametrize("recovery", ["restart", "continue"])
def test_a_seam_says_when_and_where_it_is(recovery: SeamKind) -> None:
    # eu has spoken at 2 s and is silent for 5; us has its first content a second later.
    notes = read({"eu": SILENT, "us": WHOLE if recovery == "restart" else REST}, recovery)
    (made,) = notes.of(SeamMade)
    assert made.at_ns == 8 * SECOND
    assert made.seam == Seam(kind=recovery, before=0, after=1, at_ms=8000.0, characters=10)
    assert list(notes.end.stats.seams) == [made.seam]


def test_reasoning_is_no_text_that_a_seam_counts() -> None:
    thinking = script(together(reasoning("Hm, "), chunk("Once ")), silence(1), cut())
    (made,) = read({"eu": thinking, "us": WHOLE}, "restart").of(SeamMade)
    assert made.seam.characters == 5


def test_a_seam_is_told_when_its_chunk_is_there() -> None:
    seen: list[tuple[float, Chunk]] = []

    async def note(gw: Gateway) -> None:
        async with gw.stream("x", model="m") as opened:
            seen.extend([(trio.current_time(), each) async for each in opened])

    notes = told(
        note, {"eu": SILENT, "us": WHOLE}, stream=StreamPolicy(recovery="restart"), retry=AT_ONCE
    )
    (made,) = notes.of(SeamMade)
    ((at, chunk_of_seam),) = [each for each in seen if each[1].kind == "seam"]
    assert (at, chunk_of_seam.attempt, chunk_of_seam.seam_kind) == (8, 1, "restart")
    assert made.at_ns == at * SECOND


# ---------------------------------------------------------------- what is on record


def test_what_was_delivered_before_a_restart_was_in_vain() -> None:
    notes = read({"eu": CUT, "us": WHOLE}, "restart")
    eu, us = notes.end.stats.attempts
    # When it broke it might have been all that there would be.
    assert notes.of(AttemptEnded)[0].stats.wasted is None
    assert eu.wasted is not None
    # Two of the answer's three tokens, by its characters, and its prompt: estimates.
    assert (eu.wasted.characters, eu.wasted.input_tokens, eu.wasted.output_tokens) == (10, 7, 2)
    assert eu.wasted.confidence == "estimate"
    assert us.wasted is None


@pytest.mark.parametrize("eu", [CUT, SILENT], ids=["cut", "silent"])
def test_what_was_delivered_before_a_continue_is_part_of_the_answer(eu: ScriptedProvider) -> None:
    notes = read({"eu": eu, "us": REST}, "continue")
    assert [attempt.wasted for attempt in notes.end.stats.attempts] == [None, None]


def test_a_restart_makes_all_vain_that_was_delivered_before_it() -> None:
    # us goes on where eu stopped; but nobody can go on after reasoning, so ap begins anew.
    thinking = script(chunk("a "), silence(1), reasoning("Hm."), silence(1), cut())
    notes = read({"eu": CUT, "us": thinking, "ap": WHOLE}, "continue-or-restart")
    assert [seam.kind for seam in notes.end.stats.seams] == ["continue", "restart"]
    assert [seam.characters for seam in notes.end.stats.seams] == [10, 12]
    assert [attempt.wasted is None for attempt in notes.end.stats.attempts] == [False, False, True]


def test_an_attempt_that_was_not_needed_is_in_vain_as_in_any_race() -> None:
    resuming = script(chunk("Once "), silence(6), *answer("upon"))
    notes = read({"eu": resuming, "us": script(silence(8), *answer("late"))}, "restart")
    eu, us = notes.end.stats.attempts
    assert (eu.wasted is None, us.wasted is None) == (True, False)


@pytest.mark.parametrize("recovery", ["restart", "continue"])
def test_the_figures_are_those_of_the_attempt_that_answered_last(recovery: Recovery) -> None:
    stats = read({"eu": CUT, "us": REST}, recovery).end.stats
    us = stats.attempts[1]
    assert stats.front == 1
    # us starts at 2 s, has its first content at 3 and its last at 4.
    assert (us.ttft_ms, stats.ttft_ms) == (1000, 3000)
    assert stats.commit_ms == 1000  # when the caller had the first content of eu
    same = attrs.evolve(
        figures_in(us), ttft_ms=3000.0, ttft_text_ms=3000.0, total_ms=stats.total_ms
    )
    assert figures_in(stats) == same


def test_a_hedge_that_takes_over_saved_what_the_one_before_it_had_been_silent_for() -> None:
    # Silent from 2 s on, beaten at 8 s.
    assert read({"eu": SILENT, "us": WHOLE}, "restart").end.stats.estimated_saved_ms == 6000
    assert read({"eu": SILENT, "us": REST}, "continue").end.stats.estimated_saved_ms == 6000


def test_what_was_beaten_before_the_hedge_started_was_not_beaten_by_it() -> None:
    # us beats eu at 6 s, after 6 s of silence, and is beaten itself by ap after 5.25 s of it.
    late, briefly = script(hang()), script(silence(1), chunk("Once "), hang())
    ap = script(silence(0.25), *answer("upon"))
    stats = read({"eu": late, "us": briefly, "ap": ap}, "restart").end.stats
    assert [attempt.outcome for attempt in stats.attempts] == ["lost", "lost", "won"]
    assert stats.estimated_saved_ms == 5250


def test_a_retry_that_takes_over_saves_nothing_by_being_early() -> None:
    assert read({"eu": CUT, "us": REST}, "continue").end.stats.estimated_saved_ms is None


def test_what_the_application_sees_has_the_seams() -> None:
    opened: list[CompletionStream] = []

    async def keep(gw: Gateway) -> None:
        async with gw.stream("x", model="m") as stream:
            opened.append(stream)
            async for _ in stream:
                pass

    policy = StreamPolicy(recovery="continue")
    notes = told(keep, {"eu": CUT, "us": REST}, stream=policy, retry=AT_ONCE)
    (seen,) = opened
    assert seen.stats == seen.completion.stats == notes.end.stats
    assert list(seen.completion.seams) == [made.seam for made in notes.of(SeamMade)]
    assert seen.completion.text == "Once upon a time."


# ---------------------------------------------------------------- the holdout


@pytest.mark.parametrize(
    ("hedge", "holdout"),
    [
        (HedgePolicy(holdout=0), False),
        (HedgePolicy(holdout=1), True),
        (HedgePolicy(enabled=False, holdout=1), None),
    ],
)
def test_a_call_says_whether_it_is_of_the_holdout(hedge: HedgePolicy, *, holdout: bool) -> None:
    eu, us = script(chunk("Once "), silence(30), *answer("upon")), REST

    async def complete(gw: Gateway) -> None:
        await gw.complete("x", model="m")

    notes = told(complete, {"eu": eu, "us": us}, hedge=hedge, retry=NO_RETRY)
    (end,) = notes.of(CallEnded)
    assert end.stats.holdout is holdout
    assert (len(end.stats.attempts) == 1) == (holdout is not False)
    assert end.stats.hedges_refused == {}
