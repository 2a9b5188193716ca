from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import pytest

from polygateway.usage import Usage
from tests.strategies import MS, NOTHING, ONE, SECOND, Gap, Stream, counted, said, text

if TYPE_CHECKING:
    from polygateway.stats import EndKind, RateBasis, RateReason, StreamFigures
    from polygateway.trace import ReplyForm


def stream(*gaps: Gap, tokens: int | None) -> Stream:
    return Stream([*gaps], 2 * SECOND, usage=Usage(output_tokens=tokens))


def speed(seen: StreamFigures) -> tuple[float | None, RateBasis | None]:
    """Give the rate and its basis; there must be one, and no reason why not."""
    assert (seen.tokens_per_s is None) == (seen.rate_reason is not None)
    return seen.tokens_per_s, seen.rate_basis


def active(per_s: float) -> tuple[object, RateBasis]:
    return pytest.approx(per_s, rel=1e-12), "active"


def wall(per_s: float) -> tuple[object, RateBasis]:
    return pytest.approx(per_s, rel=1e-12), "wall_lower_bound"


def steady(per_chunk: int, *, chunks: int = 11, stalled: int = 0) -> list[Gap]:
    """Give a true 50 tokens a second: so many chunks, of which so many end a stall besides."""
    every = per_chunk * 20 * MS
    chunk = text("x" * 4 * per_chunk)
    flowing = [Gap(0, every, chunk)] * (chunks - 1 - stalled)
    return [
        Gap(0, SECOND, chunk),
        *flowing[3:],
        *[Gap(0, 3 * SECOND, chunk)] * stalled,
        *flowing[:3],
    ]


# ------------------------------------------------------------------------ a true 50 tokens a second


@pytest.mark.parametrize("per_chunk", [1, 5])
@pytest.mark.parametrize("shared_out", [True, False])
def test_a_steady_stream_reads_50(per_chunk: int, shared_out: bool) -> None:
    seen = stream(*steady(per_chunk), tokens=11 * per_chunk)
    if not shared_out:
        seen = counted(seen, accumulate([per_chunk] * 11))
    assert speed(seen.figures()) == active(50)


@pytest.mark.parametrize("per_chunk", [1, 5])
@pytest.mark.parametrize("stalled", [1, 2])
def test_a_stream_that_stalls_reads_50_as_long_as_it_flows_for_longer(
    per_chunk: int, stalled: int
) -> None:
    chunks = 20 + 300 * stalled // per_chunk
    seen = stream(*steady(per_chunk, chunks=chunks, stalled=stalled), tokens=chunks * per_chunk)
    stats = seen.figures()
    assert stats.stall_ms == 3000 * stalled
    assert speed(stats) == active(50)


def test_the_tokens_that_ended_a_stall_came_in_no_flowing_time() -> None:
    # Nine flowing gaps of 0.1 s and a stall, five tokens each. 50 tokens in 0.9 s would be 55.6.
    flowing, stalled = [Gap(0, 100 * MS, text("x" * 20))], [Gap(0, 500 * MS, text("x" * 20))]
    seen = Stream([*flowing * 6, *stalled, *flowing * 4], 500 * MS, usage=Usage(output_tokens=55))
    assert seen.figures().active_generation_ms == 900
    assert speed(seen.figures()) == active(50)


def test_backpressure_is_never_deducted() -> None:
    # A slow consumer finds each token of a true 50 a second after 1 ms: 1000 a second.
    slow = [Gap(19 * MS, 1 * MS)] * 50
    seen = stream(Gap(0, SECOND), *slow, tokens=51)
    assert seen.figures().backpressure_ms == 950
    assert speed(seen.figures()) == wall(50)


def test_a_late_event_loop_is_backpressure_too() -> None:
    late = [Gap(0, 1 * MS, late=19 * MS)] * 50
    seen = stream(Gap(0, SECOND), *late, tokens=51)
    assert seen.figures().backpressure_ms == 950
    assert speed(seen.figures()) == wall(50)


def test_after_long_stalls_the_true_rate_was_at_least_that_of_the_wall_clock() -> None:
    seen = stream(*steady(1, chunks=51, stalled=1), tokens=51)
    # 49 flowing gaps of 20 ms, 3 s of stall.
    assert speed(seen.figures()) == wall(50 / 3.98)


def test_the_first_tokens_took_no_time() -> None:
    # A prompt's worth of text at once, then a token every 20 ms.
    long = Gap(0, SECOND, text("x" * 400))
    seen = stream(long, *[Gap(0, 20 * MS, text("x" * 4))] * 50, tokens=150)
    assert speed(seen.figures()) == active(50)


# ------------------------------------------------------------------------ what the best basis needs

TEN = [Gap(0, 100 * MS)] * 11  # ten gaps of 0.1 s, all flowing


@pytest.mark.parametrize("flowing", [4, 5])
def test_it_needs_five_flowing_gaps(flowing: int) -> None:
    gaps = [Gap(0, 0), *[Gap(0, 1500 * MS)] * flowing, Gap(0, 2 * SECOND)]
    seen = stream(*gaps, tokens=flowing + 2).figures()
    total = flowing * 1.5 + 2
    assert speed(seen) == (wall((flowing + 1) / total) if flowing == 4 else active(1 / 1.5))


def test_chunks_of_one_read_are_one_arrival_with_one_gap_before_it() -> None:
    gaps = [Gap(0, 0), *[Gap(0, 100 * MS, ONE * 3)] * 4]
    assert stream(*gaps, tokens=13).figures().chunk_count == 13
    assert speed(stream(*gaps, tokens=13).figures()) == wall(30)
    # All that came with the first read took no time, and all that ended a stall no flowing time.
    gaps = [Gap(0, 0, ONE * 8), *[Gap(0, 600 * MS)] * 5, Gap(0, 2 * SECOND, ONE * 9)]
    assert speed(stream(*gaps, tokens=22).figures()) == active(1 / 0.6)


@pytest.mark.parametrize(("gap_ns", "is_active"), [(MS, True), (MS - 1, False)])
def test_it_needs_gaps_of_a_millisecond_on_average(gap_ns: int, is_active: bool) -> None:
    # Some of 1.5 ms, as many of 0.5 ms or a nanosecond less.
    pair = [Gap(0, MS // 2 * 3), Gap(0, 2 * gap_ns - MS // 2 * 3)]
    seen = stream(Gap(0, 0), *pair * 150, tokens=301).figures()
    rate = 1e9 / gap_ns
    assert speed(seen) == (active(rate) if is_active else wall(rate))


def test_a_gap_is_as_long_as_it_lasted_and_not_only_as_it_was_waited_for() -> None:
    # Gaps of 1 ms, of which a twentieth is backpressure.
    seen = stream(Gap(0, 0), *[Gap(MS // 20, MS // 20 * 19)] * 300, tokens=301).figures()
    assert speed(seen) == active(1000)


@pytest.mark.parametrize(("active_ms", "basis"), [(200, "active"), (199, "wall_lower_bound")])
def test_it_needs_200_ms_of_flowing_time(active_ms: int, basis: RateBasis) -> None:
    gaps = [Gap(0, 0), *[Gap(0, 40 * MS)] * 4, Gap(0, (active_ms - 160) * MS), Gap(0, 41 * MS)]
    seen = Stream(gaps, 41 * MS, usage=Usage(output_tokens=7)).figures()
    assert seen.active_generation_ms == active_ms
    assert seen.rate_basis == basis


@pytest.mark.parametrize(("stall_ms", "is_active"), [(999, True), (1000, False), (1001, False)])
def test_it_needs_more_flowing_time_than_stall(stall_ms: int, is_active: bool) -> None:
    seen = Stream([*TEN, Gap(0, stall_ms * MS)], 500 * MS, usage=Usage(output_tokens=12)).figures()
    assert (seen.active_generation_ms, seen.stall_ms) == (1000, stall_ms)
    assert speed(seen) == (active(10) if is_active else wall(11_000 / (1000 + stall_ms)))


@pytest.mark.parametrize(("held_ns", "is_active"), [(100 * MS, True), (100 * MS + 1, False)])
def test_it_needs_backpressure_of_at_most_a_tenth(held_ns: int, is_active: bool) -> None:
    gaps = [*TEN[1:], Gap(held_ns, SECOND - 900 * MS - held_ns)]
    seen = stream(*gaps, tokens=11).figures()
    assert seen.active_generation_ms == 1000
    assert speed(seen) == (active(10) if is_active else wall(10))


def test_flowing_gaps_that_brought_no_token_fall_back_on_the_wall_clock() -> None:
    # By the wire's own counts, all tokens but the first came with the end of the stall.
    gaps = [*TEN, Gap(0, 500 * MS)]
    seen = counted(Stream(gaps, 500 * MS), [*[1] * 11, 16]).figures()
    assert speed(seen) == wall(15 / 1.5)


def test_a_burst_after_flowing_gaps_falls_back_on_the_wall_clock() -> None:
    # 11,000 tokens in 1 s of flow would be over 10,000 a second; with 0.5 s of stall they are not.
    gaps = [*TEN, Gap(0, 500 * MS)]
    seen = counted(Stream(gaps, 500 * MS), [*range(0, 11_001, 1100), 11_000]).figures()
    assert speed(seen) == wall(11_000 / 1.5)


# ------------------------------------------------------------------------ where tokens belong


def test_tokens_are_shared_out_by_characters() -> None:
    # Half of the characters came first.
    gaps = [Gap(0, 0, text("x" * 100)), *[Gap(0, 100 * MS, text("x" * 10))] * 10]
    assert speed(stream(*gaps, tokens=80).figures()) == active(40)


def test_without_any_character_tokens_are_shared_out_by_chunks() -> None:
    call = said("tool_call", "")
    gaps = [Gap(0, 0, (call, call)), *[Gap(0, 100 * MS, (call,))] * 10]
    assert speed(stream(*gaps, tokens=36).figures()) == active(30)


def test_counts_that_the_wire_gave_with_each_arrival_are_taken_as_they_are() -> None:
    # By characters, half of the tokens would belong to the first arrival.
    gaps = [Gap(0, 0, text("x" * 100)), *[Gap(0, 100 * MS, text("x" * 10))] * 10]
    alive = Gap(0, 0, NOTHING, counted=None)
    seen = counted(stream(*gaps, tokens=None), range(5, 56, 5))
    assert speed(seen.figures()) == active(50)
    assert speed(seen.but(lambda gap: [alive, gap]).figures()) == active(50)


@pytest.mark.parametrize(
    ("counts", "final"),
    [
        ([None, *range(10, 56, 5)], 55),  # one arrival without
        ([*range(5, 51, 5), None], 55),
        ([*range(5, 46, 5), 40, 55], 55),  # one that fell
        ([5, 5, *range(15, 56, 5)], 56),  # a final count that says something else
        ([*range(5, 56, 5)], 54),
    ],
)
def test_counts_that_contradict_each_other_are_not_used(
    counts: list[int | None], final: int
) -> None:
    gaps = [Gap(0, 0, text("x" * 100)), *[Gap(0, 100 * MS, text("x" * 10))] * 10]
    partial = counted(stream(*gaps, tokens=None), counts)
    seen = Stream(partial.gaps, partial.threshold, usage=Usage(output_tokens=final))
    assert speed(seen.figures()) == active(final / 2)


def test_hidden_reasoning_came_in_no_chunk() -> None:
    usage = Usage(output_tokens=111, reasoning_tokens=100)
    assert speed(Stream(TEN, SECOND, usage=usage).figures()) == active(10)


def test_reasoning_that_was_shown_is_counted() -> None:
    usage = Usage(output_tokens=110, reasoning_tokens=100)
    shown = Gap(0, 100 * MS, (*text("a"), said("reasoning", "bcd")))
    # 3 + 44 characters; all but the first of each kind took their time.
    seen = Stream([shown, *TEN[1:]], SECOND, usage=usage).figures()
    assert speed(seen) == active(110 * 10 / 14)


def test_reasoning_in_counts_of_each_arrival_is_not_deducted_again() -> None:
    seen = counted(Stream(TEN, SECOND, usage=Usage(reasoning_tokens=100)), range(100, 111))
    assert speed(seen.figures()) == active(10)


# ------------------------------------------------------------------------ why there is none


@pytest.mark.parametrize(
    ("form", "gaps", "end_kind", "tokens", "reason"),
    [
        ("document", TEN, "complete", 11, "not_streamed"),
        ("choices", TEN, "complete", 11, "multiple_choices"),
        ("stream", [], "complete", 11, "empty"),
        ("stream", TEN[:1], "complete", 11, "single_chunk"),
        ("stream", [Gap(0, 0), Gap(0, 200 * MS - 1)], "complete", 11, "burst"),
        ("stream", [Gap(0, 0), Gap(0, 200 * MS)], "complete", 11, None),
        ("stream", TEN, "cut", 11, "truncated"),
        ("stream", TEN, "watchdog", 11, "truncated"),
        ("stream", TEN, None, 11, "truncated"),
        ("stream", TEN, "complete", None, "no_token_count"),
        ("stream", TEN, "complete", 0, "implausible"),
        ("stream", TEN, "complete", 11_000, None),
        ("stream", TEN, "complete", 11_001, "implausible"),
    ],
)
def test_without_a_rate_there_is_a_reason(
    form: ReplyForm,
    gaps: list[Gap],
    end_kind: EndKind | None,
    tokens: int | None,
    reason: RateReason | None,
) -> None:
    seen = Stream(gaps, 2 * SECOND, end_kind, Usage(output_tokens=tokens), form).figures()
    assert seen.rate_reason == reason
    assert (seen.tokens_per_s is None) == (seen.rate_basis is None) == (reason is not None)


@pytest.mark.parametrize(
    ("form", "gaps", "reason"),
    [
        ("document", [], "not_streamed"),
        ("choices", [], "multiple_choices"),
        ("stream", [], "empty"),
        ("stream", TEN[:1], "single_chunk"),
        ("stream", [Gap(0, 0), Gap(0, MS)], "burst"),
        ("stream", TEN, "truncated"),
    ],
)
def test_of_several_reasons_the_one_that_says_most_is_given(
    form: ReplyForm, gaps: list[Gap], reason: RateReason
) -> None:
    # All of these were cut, and nothing was counted either.
    assert Stream(gaps, 2 * SECOND, "cut", form=form).figures().rate_reason == reason


def test_more_hidden_reasoning_than_tokens_is_implausible() -> None:
    usage = Usage(output_tokens=11, reasoning_tokens=12)
    assert Stream(TEN, SECOND, usage=usage).figures().rate_reason == "implausible"


def test_tokens_that_all_came_first_make_no_rate() -> None:
    seen = counted(stream(*TEN, tokens=None), [11] * 11)
    assert seen.figures().rate_reason == "implausible"
