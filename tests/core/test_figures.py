from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from polygateway.core.figures import figures_of
from polygateway.stats import Stall, StreamFigures
from polygateway.usage import Usage
from tests.strategies import (
    MS,
    NOTHING,
    ONE,
    SECOND,
    START,
    Gap,
    Stream,
    followed_figures,
    said,
    text,
    trace,
    waits,
)

if TYPE_CHECKING:
    from polygateway.stats import EndKind, RateReason
    from polygateway.trace import ReplyForm


def figures(gaps: list[Gap], threshold: int = 2 * SECOND) -> StreamFigures:
    return Stream(gaps, threshold).figures()


def test_a_stall_in_the_middle_is_told_apart_from_what_flowed() -> None:
    # A first token after 1.6 s, 40 chunks 50 ms apart, a silence of 55 s, 60 chunks 50 ms apart,
    # the finish 0.3 s later.
    flow = [Gap(0, 50 * MS)]
    gaps = [
        Gap(0, 1600 * MS),
        *flow * 39,
        Gap(0, 55 * SECOND),
        *flow * 59,
        Gap(0, 300 * MS, NOTHING),
    ]
    usage = Usage(input_tokens=7, output_tokens=100, confidence="exact")
    stream = Stream(gaps, 2 * SECOND, usage=usage, attempt=1)
    seen = stream.figures()
    assert seen.tpot_ms == pytest.approx(59_900 / 99)
    assert seen.tokens_per_s == pytest.approx(99 / 59.9)  # it stood still for longer than it flowed
    assert seen == StreamFigures(
        chunk_count=100,
        ttft_ms=1600,
        ttft_text_ms=1600,
        generation_ms=59_900,
        stall_ms=55_000,
        stall_gap_count=1,
        stall_count=1,
        active_generation_ms=4_900,
        backpressure_ms=0,
        max_gap_ms=55_000,
        tail_ms=300,
        open_gap_ms=None,
        total_ms=61_800,
        output_tokens=100,
        tokens_source="usage",
        tpot_ms=seen.tpot_ms,
        tokens_per_s=seen.tokens_per_s,
        rate_basis="wall_lower_bound",
        rate_reason=None,
        stalls=(
            Stall(
                attempt=1,
                after_chunk=39,
                offset_ms=3550,
                duration_ms=55_000,
                characters_before=40,
                next_kind="text",
                keepalives=0,
                open=False,
                cause="server_silence",
            ),
        ),
    )


# ------------------------------------------------------------------------ which figures exist

NOTHING_YET = StreamFigures(
    chunk_count=0,
    ttft_ms=None,
    ttft_text_ms=None,
    generation_ms=None,
    stall_ms=None,
    stall_gap_count=None,
    stall_count=None,
    active_generation_ms=None,
    backpressure_ms=None,
    max_gap_ms=None,
    tail_ms=None,
    open_gap_ms=None,
    total_ms=0,
    output_tokens=None,
    tokens_source="none",
    tpot_ms=None,
    tokens_per_s=None,
    rate_basis=None,
    rate_reason="empty",
    stalls=(),
)


@pytest.mark.parametrize("end_kind", ["complete", "cut", "error", "watchdog", "cancelled", None])
@pytest.mark.parametrize("gaps", [[], [Gap(0, 9 * SECOND, NOTHING)] * 3])
def test_an_answer_without_content_has_only_its_length(
    gaps: list[Gap], end_kind: EndKind | None
) -> None:
    stream = Stream(gaps, 2 * SECOND, end_kind)
    assert stream.figures() == attrs.evolve(NOTHING_YET, total_ms=len(gaps) * 9000)


def test_a_single_chunk_spans_no_interval() -> None:
    usage = Usage(output_tokens=80)
    stream = Stream([Gap(0, 9 * SECOND), Gap(0, SECOND, NOTHING)], SECOND, usage=usage)
    assert stream.figures() == attrs.evolve(
        NOTHING_YET,
        chunk_count=1,
        ttft_ms=9000,
        ttft_text_ms=9000,
        tail_ms=1000,
        total_ms=10_000,
        output_tokens=80,
        tokens_source="usage",
        rate_reason="single_chunk",
    )


def test_two_chunks_of_one_read_took_no_time_which_is_a_true_zero() -> None:
    usage = Usage(output_tokens=3)
    stream = Stream([Gap(0, 9 * SECOND, ONE * 2)], SECOND, usage=usage)
    assert stream.figures() == attrs.evolve(
        NOTHING_YET,
        chunk_count=2,
        ttft_ms=9000,
        ttft_text_ms=9000,
        generation_ms=0,
        stall_ms=0,
        stall_gap_count=0,
        stall_count=0,
        active_generation_ms=0,
        backpressure_ms=0,
        max_gap_ms=0,
        tail_ms=0,
        total_ms=9000,
        output_tokens=3,
        tokens_source="usage",
        tpot_ms=0,
        rate_reason="burst",
    )


@pytest.mark.parametrize(
    ("form", "reason"), [("document", "not_streamed"), ("choices", "multiple_choices")]
)
@pytest.mark.parametrize("end_kind", ["complete", "cut"])
def test_what_is_no_single_stream_has_counts_and_a_length(
    form: ReplyForm, reason: RateReason, end_kind: EndKind
) -> None:
    gaps = [*waits(3 * SECOND, SECOND), Gap(0, 5 * SECOND, NOTHING)]
    stream = Stream(gaps, 2 * SECOND, end_kind, Usage(output_tokens=30), form)
    expected = attrs.evolve(
        NOTHING_YET,
        chunk_count=3,
        total_ms=9000,
        output_tokens=30,
        tokens_source="usage",
        rate_reason=reason,
    )
    assert stream.figures() == stream.traced_figures() == expected


@pytest.mark.parametrize(
    ("tokens", "tpot_ms"), [(None, None), (0, None), (1, None), (2, 4000), (5, 1000), (9, 500)]
)
def test_time_per_output_token_leaves_out_the_first_token(
    tokens: int | None, tpot_ms: float | None
) -> None:
    usage = Usage(output_tokens=tokens)
    assert Stream(waits(SECOND, 3 * SECOND), SECOND, usage=usage).figures().tpot_ms == tpot_ms


def test_the_first_text_may_come_after_reasoning_and_tool_calls() -> None:
    gaps = [
        Gap(0, 2 * SECOND, (said("reasoning", "hm"),)),
        Gap(0, 3 * SECOND, (said("tool_call", "{}"), said("refusal", "no"))),
        Gap(0, 4 * SECOND, (said("reasoning", "ah"), *text("yes"))),
        Gap(0, 5 * SECOND, text("!")),
    ]
    for count, ttft_text_ms in ((1, None), (2, None), (3, 9000), (4, 9000)):
        seen = figures(gaps[:count])
        assert (seen.ttft_ms, seen.ttft_text_ms) == (2000, ttft_text_ms)


def test_the_way_to_the_first_chunk_and_the_tail_after_the_last_are_no_generation() -> None:
    body, long = waits(SECOND, 3 * SECOND), Gap(0, 99 * SECOND, NOTHING, keepalives=9)
    seen, plain = figures([long, *body, long]), figures(body)
    assert seen == attrs.evolve(
        plain,
        ttft_ms=99_000,
        ttft_text_ms=99_000,
        tail_ms=99_000,
        total_ms=202_000,
        stalls=tuple(attrs.evolve(stall, offset_ms=100_000) for stall in plain.stalls),
    )


# ------------------------------------------------------------------------ the end


@pytest.mark.parametrize("end_kind", ["cut", "error", "watchdog", "cancelled", None])
def test_a_silence_that_nothing_ended_is_told_apart_from_the_stalls(
    end_kind: EndKind | None,
) -> None:
    gaps = [*waits(SECOND, 3 * SECOND), Gap(0, 7 * SECOND, NOTHING)]
    whole = figures(gaps)
    seen = Stream(gaps, 2 * SECOND, end_kind).figures()
    # What it would have become is not known, so it is not in the sums.
    assert (seen.stall_ms, seen.stall_gap_count, seen.stall_count) == (3000, 1, 1)
    assert (seen.tail_ms, seen.open_gap_ms) == (7000, 7000)
    assert (whole.tail_ms, whole.open_gap_ms) == (7000, None)
    assert [stall.open for stall in whole.stalls] == [False]
    assert seen.stalls[0] == whole.stalls[0]
    assert seen.stalls[1:] == (
        Stall(
            attempt=0,
            after_chunk=2,
            offset_ms=4000,
            duration_ms=7000,
            characters_before=3,
            next_kind=None,
            keepalives=0,
            open=True,
            cause="disconnect" if end_kind == "cut" else "server_silence",
        ),
    )


@pytest.mark.parametrize(
    ("end_kind", "cause"),
    [("cut", "disconnect"), ("error", "server_alive"), ("watchdog", "server_alive")],
)
def test_of_an_open_stall_with_keep_alives_only_a_cut_says_more(
    end_kind: EndKind, cause: str
) -> None:
    alive = Gap(0, SECOND, NOTHING, keepalives=1)
    seen = Stream([Gap(0, 0), *[alive] * 4], 2 * SECOND, end_kind).figures()
    assert [(it.open, it.cause, it.keepalives) for it in seen.stalls] == [(True, cause, 4)]


def test_the_tail_is_only_what_was_waited() -> None:
    gaps = [Gap(0, SECOND), Gap(5 * SECOND, 30 * MS, NOTHING, late=10 * MS)]
    seen = Stream(gaps, SECOND, "cut", idle=9 * SECOND).figures()
    assert (seen.tail_ms, seen.open_gap_ms, seen.total_ms) == (30, 30, 15_040)
    assert seen.stalls == ()


def test_a_single_chunk_may_be_followed_by_an_open_stall() -> None:
    seen = Stream([Gap(0, SECOND), Gap(0, 9 * SECOND, NOTHING)], 2 * SECOND, "watchdog").figures()
    assert [(it.after_chunk, it.duration_ms, it.open) for it in seen.stalls] == [(0, 9000, True)]
    assert seen.stall_ms is None


# ------------------------------------------------------------------------ a call's view


def test_a_call_starts_before_its_attempts_and_shares_their_figures() -> None:
    # A hedge that was started 5 s after the application's call.
    observed = Stream([*waits(3 * SECOND), Gap(0, SECOND, NOTHING)], SECOND).observed()
    own = followed_figures(observed)
    assert (own.ttft_ms, own.ttft_text_ms, own.total_ms) == (0, 0, 4000)
    of_call = attrs.evolve(own, ttft_ms=5000, ttft_text_ms=5000, total_ms=9000)
    assert followed_figures(observed, START - 5 * SECOND) == of_call


def test_a_call_may_last_longer_than_the_attempt_that_answered() -> None:
    observed = Stream(waits(3 * SECOND), SECOND).observed()
    own = followed_figures(observed)
    lasting = {"since_ns": START - SECOND, "until_ns": START + 9 * SECOND}
    seen = figures_of(trace(observed), **lasting)
    assert seen == followed_figures(observed, *lasting.values())
    assert seen == attrs.evolve(own, ttft_ms=1000, ttft_text_ms=1000, total_ms=10_000)


def test_figures_cannot_be_had_from_a_trace_that_lacks_arrivals() -> None:
    seen = attrs.evolve(trace(Stream(waits(3, 4), 5).observed()), dropped=2)
    message = "2 arrivals were dropped from this trace, 3 were kept"
    with pytest.raises(ValueError, match=f"^{message}$"):
        figures_of(seen)
