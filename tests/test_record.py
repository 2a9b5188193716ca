"""What is on record of attempts and calls: where the time went, how it ended, what it cost."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import event, given, strategies as st

from polygateway import (
    GatewayError,
    HedgePolicy,
    Limits,
    StreamPolicy,
    Usage,
)
from polygateway.instrument import AttemptEnded, CallEnded
from polygateway.testing import (
    ScriptedProvider,
    Send,
    answer,
    chunk,
    comment,
    cut,
    done,
    error_frame,
    finish,
    hang,
    headers,
    page,
    raw,
    reasoning,
    reset,
    silence,
    status,
    together,
    tool_call,
    usage,
)
from tests.listening import complete, figures_in, stream, told
from tests.scenario import AT_ONCE, NO_RETRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hypothesis.strategies import SearchStrategy

    from polygateway import AttemptStats, Completion, Gateway
    from polygateway.messages import JSON
    from polygateway.stats import EndKind
    from polygateway.testing import Step
    from tests.listening import Use

NO_HEDGE = HedgePolicy(enabled=False)


def script(*steps: Step, connect_s: float = 0) -> ScriptedProvider:
    return ScriptedProvider(steps, connect_s=connect_s)


def only(
    use: Use, provider: ScriptedProvider, *, stream: StreamPolicy | None = None
) -> AttemptStats:
    """Give the record of a call's only attempt."""
    policy = stream or StreamPolicy()
    notes = told(use, {"eu": provider}, hedge=NO_HEDGE, retry=NO_RETRY, stream=policy)
    (attempt,) = notes.end.stats.attempts
    return attempt


# ---------------------------------------------------------------- where the time went


def test_the_way_of_a_request_is_timed_step_by_step() -> None:
    eu = script(silence(1), headers(), silence(2), *answer("Once "), connect_s=0.5)
    attempt = only(complete, eu)
    assert (attempt.sent_ms, attempt.headers_ms, attempt.ttft_ms) == (500, 1500, 3500)


def test_what_did_not_happen_has_no_time() -> None:
    refusing = only(complete, ScriptedProvider(answer("Once "), refuses=True))
    assert (refusing.sent_ms, refusing.headers_ms, refusing.status) == (None, None, None)

    policy = StreamPolicy(ttft_timeout_s=3)
    mute = only(complete, script(hang(), connect_s=1), stream=policy)
    assert (mute.sent_ms, mute.headers_ms, mute.status) == (1000, None, None)
    assert (mute.total_ms, mute.tail_ms, mute.open_gap_ms) == (3000, None, None)

    refused = only(complete, script(silence(2), *status(500)))
    assert (refused.sent_ms, refused.headers_ms, refused.status) == (0, 2000, 500)


@pytest.mark.parametrize("use", [complete, stream])
def test_what_is_waited_for_behind_the_last_content_is_its_tail(use: Use) -> None:
    eu = script(chunk("Once "), silence(1), finish(), silence(0.25), usage(7, 1), done())
    attempt = only(use, eu)
    assert (attempt.tail_ms, attempt.total_ms, attempt.open_gap_ms) == (1250, 1250, None)


@pytest.mark.parametrize("use", [complete, stream])
def test_the_grace_behind_a_finish_reason_is_no_part_of_the_tail(use: Use) -> None:
    # The answer was whole with its finish reason; what follows is waited for, but does not come.
    eu = script(chunk("Once "), silence(1), finish(), hang())
    attempt = only(use, eu)
    assert (attempt.end_kind, attempt.total_ms, attempt.tail_ms) == ("complete", 1000, 1000)


@pytest.mark.parametrize("use", [complete, stream])
def test_the_wait_for_the_end_of_the_body_is_no_part_of_the_tail(use: Use) -> None:
    # The connection is to be reused; the answer was whole before.
    eu = script(chunk("Once "), silence(1), finish(), done(), silence(0.04))
    attempt = only(use, eu)
    assert (attempt.total_ms, attempt.tail_ms) == (1000, 1000)


def test_a_silence_that_a_stream_ends_in_is_its_open_gap() -> None:
    attempt = only(complete, script(chunk("a"), silence(1), chunk("b"), silence(3), cut()))
    assert (attempt.tail_ms, attempt.open_gap_ms, attempt.total_ms) == (3000, 3000, 4000)


def test_the_read_that_losing_cuts_off_is_in_the_losers_time() -> None:
    # Silent from 1 s on; hedged at 6 s; beaten at 8 s, in the middle of a read.
    eu = script(silence(1), chunk("Once "), hang())
    us = script(silence(2), *answer("Once "))
    for winner in ("first-delivered", "first-complete"):
        notes = told(complete, {"eu": eu, "us": us}, hedge=HedgePolicy(winner=winner))
        lost, won = notes.end.stats.attempts
        assert (lost.outcome, won.outcome) == ("lost", "won")
        assert (lost.ttft_ms, lost.tail_ms, lost.total_ms) == (1000, 7000, 8000)
        assert lost.open_gap_ms == 7000


# ---------------------------------------------------------------- how it ended

QUICK = StreamPolicy(connect_timeout_s=2, ttft_timeout_s=3, stall_timeout_s=3)

ENDS: list[tuple[str, EndKind, ScriptedProvider]] = [
    ("[DONE]", "complete", ScriptedProvider(answer("a"))),
    ("a finish reason", "complete", script(chunk("a"), finish())),
    ("a finish reason and nothing more", "complete", script(chunk("a"), finish(), hang())),
    ("without content", "complete", script(finish(), done())),
    ("cut", "cut", script(chunk("a"), cut())),
    ("reset", "cut", script(chunk("a"), reset())),
    ("only over", "cut", script(chunk("a"))),
    ("closed without a reply", "cut", script(cut())),
    ("refused", "cut", ScriptedProvider(answer("a"), refuses=True)),
    ("429", "error", ScriptedProvider(status(429))),
    ("an error in the stream", "error", script(chunk("a"), error_frame("boom"))),
    ("a web page", "error", ScriptedProvider(page("<html>"))),
    ("no content in time", "watchdog", script(headers(), hang())),
    ("a silence", "watchdog", script(chunk("a"), hang())),
    ("no connection in time", "watchdog", script(chunk("a"), connect_s=9)),
]


@pytest.mark.parametrize(("kind", "eu"), [case[1:] for case in ENDS], ids=[it[0] for it in ENDS])
def test_how_a_stream_ended_is_said_in_one_word(kind: EndKind, eu: ScriptedProvider) -> None:
    attempt = only(complete, eu, stream=QUICK)
    assert attempt.end_kind == kind
    assert attempt.outcome == ("won" if kind == "complete" else "failed")


def test_one_that_was_given_up_while_it_waited_for_a_slot_was_ended_by_a_limit_of_ours() -> None:
    async def two(gw: Gateway) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(complete, gw)
            await trio.sleep(1)
            with suppress(GatewayError):
                await complete(gw)

    limits = Limits(max_connections_per_target=1, admission_timeout_s=2)
    eu = script(chunk("a"), silence(9), finish(), done())
    notes = told(two, {"eu": eu}, hedge=NO_HEDGE, retry=NO_RETRY, limits=limits)
    busy = notes.of(CallEnded)[0].stats.attempts[0]
    assert (busy.end_kind, busy.error_kind, busy.total_ms) == ("watchdog", "busy", 2000)
    assert waste(busy) == (0, 0, "exact")


# ---------------------------------------------------------------- what it cost


def waste(attempt: AttemptStats) -> tuple[int | None, int | None, str]:
    """Give the tokens that an attempt wasted, prompt first, and how far that is known."""
    assert attempt.wasted is not None
    found = attempt.wasted
    assert found.characters == attempt.characters
    assert found.ran_ms == attempt.total_ms
    return found.input_tokens, found.output_tokens, found.confidence


def counted(text: str, tokens: int, *, prompt: int = 5) -> Send:
    """Send a piece of text with the tokens up to now, as vLLM does with continuous_usage_stats."""
    counts: dict[str, JSON] = {"prompt_tokens": prompt, "completion_tokens": tokens}
    return event_of([{"index": 0, "delta": {"content": text}}], usage=counts)


def event_of(choices: Sequence[JSON], **fields: JSON) -> Send:
    return raw(b"data: " + json.dumps({"choices": choices, **fields}).encode() + b"\n\n")


TIDE = ScriptedProvider(answer("The ", "tide"))
"""Two tokens for 8 characters, after a prompt of 7 tokens."""


def test_what_a_loser_cost_is_estimated_by_the_winner_when_the_call_has_ended() -> None:
    eu = script(chunk("Once upon a "), hang())
    notes = told(complete, {"eu": eu, "us": TIDE})
    lost, won = notes.end.stats.attempts
    assert waste(lost) == (7, 3, "estimate")  # a quarter of 12 characters
    assert won.wasted is None
    at_its_end = next(event.stats for event in notes.of(AttemptEnded) if event.stats.index == 0)
    assert waste(at_its_end) == (None, None, "unknown")  # nobody had won yet


def test_a_loser_whose_reply_had_not_begun_had_its_prompt_read() -> None:
    notes = told(complete, {"eu": script(hang()), "us": TIDE})
    assert waste(notes.end.stats.attempts[0]) == (7, 0, "estimate")
    at_its_end = notes.of(AttemptEnded)[0].stats
    assert at_its_end.sent_ms == 0
    assert waste(at_its_end) == (None, None, "unknown")


def test_a_loser_that_waited_for_its_connection_cost_nothing() -> None:
    eu = script(hang(), connect_s=60)
    notes = told(complete, {"eu": eu, "us": TIDE}, stream=StreamPolicy(connect_timeout_s=50))
    lost = notes.end.stats.attempts[0]
    assert (lost.outcome, lost.sent_ms, waste(lost)) == ("lost", None, (0, 0, "exact"))


def test_a_loser_that_counted_its_tokens_cost_at_least_those() -> None:
    eu = script(counted("Once ", 1), counted("upon ", 3), hang())
    notes = told(complete, {"eu": eu, "us": TIDE})
    assert waste(notes.end.stats.attempts[0]) == (5, 3, "at_least")


def test_a_refused_request_is_not_estimated_although_another_won() -> None:
    notes = told(complete, {"eu": ScriptedProvider(status(429)), "us": TIDE}, retry=AT_ONCE)
    failed, won = notes.end.stats.attempts
    assert (failed.outcome, won.outcome) == ("failed", "won")
    assert waste(failed) == (None, None, "unknown")


def test_where_nobody_won_nothing_is_estimated() -> None:
    eu = script(chunk("Once "), cut())
    assert waste(only(complete, eu)) == (None, None, "unknown")


def test_what_a_hedge_saved_is_estimated_by_how_long_the_beaten_had_been_silent() -> None:
    stalled = script(silence(1), chunk("Once "), hang())
    us = script(silence(2), *answer("Once ", every_s=3))
    stats = told(complete, {"eu": stalled, "us": us}).end.stats
    assert stats.estimated_saved_ms == 10_000  # silent from 1 s on, beaten at 11 s

    late = script(headers(), hang())
    stats = told(complete, {"eu": late, "us": us}).end.stats
    assert stats.estimated_saved_ms == 10_000  # without content for all of its 10 s


def test_of_several_that_a_hedge_beat_the_one_that_was_silent_for_the_shortest_counts() -> None:
    # Silent from 0 s and from 5 s on, both beaten at 11 s: the second might have spoken next.
    stalled, late = script(chunk("Once "), hang()), script(headers(), hang())
    ap = script(silence(1), *answer("Once "))
    stats = told(complete, {"eu": stalled, "us": late, "ap": ap}).end.stats
    assert [attempt.outcome for attempt in stats.attempts] == ["lost", "lost", "won"]
    assert stats.estimated_saved_ms == 6000


def test_where_no_hedge_won_nothing_was_saved() -> None:
    us = script(silence(3), *answer("Once "))
    for eu, outcomes in [
        (script(chunk("Once "), silence(6), *answer("upon")), ["won", "lost"]),
        (script(silence(6), cut()), ["failed", "won"]),  # the hedge beat nobody
    ]:
        stats = told(complete, {"eu": eu, "us": us}).end.stats
        assert [attempt.outcome for attempt in stats.attempts] == outcomes
        assert stats.estimated_saved_ms is None


# ---------------------------------------------------------------- how far usage is known


async def whole(gw: Gateway) -> Completion:
    return await gw.complete("x", model="m", deadline_s=9)


async def streamed(gw: Gateway) -> Completion:
    async with gw.stream("x", model="m", deadline_s=9) as opened:
        async for _ in opened:
            pass
    return opened.completion


def received(use: Callable[[Gateway], Awaitable[Completion]], *steps: Step) -> Completion:
    """Give what an application has received, by its error if there is one."""
    seen: list[Completion | None] = []

    async def noted(gw: Gateway) -> None:
        try:
            seen.append(await use(gw))
        except GatewayError as error:
            seen.append(error.partial)

    notes = told(noted, {"eu": script(*steps)}, hedge=NO_HEDGE, retry=NO_RETRY)
    (completion,) = seen
    assert completion is not None
    assert notes.end.usage == completion.usage
    return completion


@pytest.mark.parametrize("use", [whole, streamed])
def test_usage_is_exact_at_a_proper_end_and_a_lower_bound_before_it(
    use: Callable[[Gateway], Awaitable[Completion]],
) -> None:
    pieces = (counted("a", 1), chunk("b"))
    completion = received(use, *pieces, finish(), usage(7, 2), done())
    assert completion.usage == Usage(input_tokens=7, output_tokens=2, confidence="exact")
    for end in (cut(), hang(), error_frame("boom")):
        partial = received(use, *pieces, end)
        assert partial.usage == Usage(input_tokens=5, output_tokens=1, confidence="at_least")
        assert partial.text == "ab"


@pytest.mark.parametrize("use", [whole, streamed])
def test_without_a_count_usage_is_unknown_however_the_answer_ended(
    use: Callable[[Gateway], Awaitable[Completion]],
) -> None:
    for end in (done(), cut(), hang()):
        assert received(use, chunk("a"), end).usage == Usage(confidence="unknown")


# ---------------------------------------------------------------- figures and traces


def document(text: str) -> Sequence[Step]:
    """Reply with a whole document to a request for a stream."""
    choice: dict[str, JSON] = {"message": {"content": text}, "finish_reason": "stop"}
    return status(200, {"choices": [choice], "usage": {"completion_tokens": 3}})


def other_choice(text: str) -> Send:
    """Send a piece of a second answer, which the application is not given."""
    return event_of([{"index": 1, "delta": {"content": text}}])


def compressed(steps: Sequence[Step]) -> Sequence[Step]:
    """Compress a reply as a proxy does: whatever was written can be inflated at once."""
    coder = zlib.compressobj(wbits=31)
    coded = [_compressed(step, coder) if isinstance(step, Send) else step for step in steps]
    trailer = [] if hang() in steps else [raw(coder.flush())]
    return [headers({"content-encoding": "gzip"}), *coded, *trailer]


def _compressed(step: Send, coder: zlib._Compress) -> Send:
    return raw(coder.compress(step.data) + coder.flush(zlib.Z_SYNC_FLUSH))


CONTENT = (
    st.text("abc", min_size=1, max_size=5).map(chunk)
    | st.sampled_from([reasoning("hm"), tool_call("{", id="c", name="f"), comment()])
    | st.builds(counted, st.just("tide"), st.integers(0, 40))
)
WRITES = st.lists(CONTENT, min_size=1, max_size=3).map(lambda steps: together(*steps))

# Longer than the 64 KiB to which a body is inflated at once: one read, and several pieces.
LONG_WRITES = st.lists(
    st.just(chunk("a" * 90_000)) | st.builds(counted, st.just("b" * 40_000), st.integers(0, 40)),
    min_size=1,
    max_size=4,
).map(lambda steps: together(*steps))

WAITS = st.sampled_from([0, 1, 20, 199, 200, 201, 1999, 2000, 2001, 9000]).map(
    lambda ms: silence(ms / 1000)
)
ENDINGS: list[Sequence[Step]] = [
    (finish(), usage(7, 9), done()),
    (finish(),),
    (finish(), hang()),
    (done(),),
    (),
    (error_frame("boom"),),
    (hang(),),
]


def _joined(pairs: list[tuple[Step, Step]], wait: Step, end: Sequence[Step]) -> Sequence[Step]:
    return [*chain.from_iterable(pairs), wait, *end]


def replies(contents: SearchStrategy[Send]) -> SearchStrategy[Sequence[Step]]:
    """Draw replies that write such contents."""
    pairs = st.lists(st.tuples(WAITS, contents), max_size=6)
    return st.builds(_joined, pairs, WAITS, st.sampled_from(ENDINGS))


REPLIES = (
    replies(WRITES)
    | replies(WRITES | LONG_WRITES).map(compressed)
    | replies(WRITES | st.just(other_choice("x")))
    | st.builds(_joined, st.just([]), WAITS, st.just(document("Once upon")))
)


@given(
    st.lists(REPLIES, min_size=1, max_size=2),
    st.sampled_from([0.0, 0.3, 3.0]),
    st.sampled_from([0.5, 200.0, 2000.0]),
)
def test_the_figures_of_every_attempt_follow_from_its_trace(
    scripts: list[Sequence[Step]], pause_s: float, threshold_ms: float
) -> None:
    # told() compares the figures of each attempt, and those of the call, with its trace's.
    async def slowly(gw: Gateway) -> None:
        async with gw.stream("x", model="m") as opened:
            async for _ in opened:
                await trio.sleep(pause_s)

    providers = {
        name: ScriptedProvider(each) for name, each in zip(("eu", "us"), scripts, strict=False)
    }
    policy = StreamPolicy(stall_threshold_ms=threshold_ms, stall_timeout_s=20)
    for use in (complete, slowly):
        notes = told(use, providers, stream=policy, retry=AT_ONCE)
        for ended in notes.of(AttemptEnded):
            assert ended.trace is not None
            event(ended.trace.form)
            event(f"stalls: {len(ended.stats.stalls)}")


def test_a_compressed_reply_has_the_figures_of_a_plain_one() -> None:
    flowing = (chunk("b" * 90_000), silence(0.1)) * 6
    steps = (chunk("a"), silence(3), *flowing, finish(), done())
    plain, coded = (only(complete, ScriptedProvider(each)) for each in (steps, compressed(steps)))
    assert figures_in(coded) == figures_in(plain)
    assert plain.stall_ms == 3000


def test_counts_that_fall_in_the_middle_of_a_read_do_not_come_to_life_again_in_a_trace() -> None:
    # The read brings 5 and then 12, after 10: such counts are not used, here as there.
    piece = "b" * 40_000
    fallen = together(counted(piece, 5), counted(piece, 12))
    steps = (counted(piece, 10), silence(0.3), fallen, silence(0.3), done())
    attempt = only(complete, ScriptedProvider(compressed(steps)))
    # Shared out by characters, two thirds of 12 came after the first read, in 0.3 s.
    assert attempt.tokens_per_s == pytest.approx(8 / 0.3)


@pytest.mark.parametrize(
    ("steps", "form"),
    [
        ([silence(1), *document("Once upon")], "not_streamed"),
        ([chunk("a"), other_choice("b"), silence(3), chunk("c"), done()], "multiple_choices"),
    ],
)
def test_what_is_no_single_stream_has_no_times_of_one(steps: Sequence[Step], form: str) -> None:
    attempt = only(complete, ScriptedProvider(steps))
    assert attempt.rate_reason == form
    assert (attempt.ttft_ms, attempt.generation_ms, attempt.tail_ms) == (None, None, None)
    assert attempt.stalls == ()
    assert attempt.chunk_count > 0


def test_a_trace_holds_the_text_piece_by_piece_as_it_came() -> None:
    eu = script(together(reasoning("hm"), chunk("Once ")), silence(1), chunk("upon"), done())
    (ended,) = told(complete, {"eu": eu}).of(AttemptEnded)
    assert ended.trace is not None
    first, second = ended.trace.pieces
    assert [(it.kind, it.text) for it in first] == [("reasoning", "hm"), ("text", "Once ")]
    assert [(it.kind, it.text) for it in second] == [("text", "upon")]
