"""What holds for the figures of every stream."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import attrs
import pytest
from hypothesis import assume, event, given, settings, strategies as st, target

from tests.oracle import Read, agree, brute_force
from tests.strategies import (
    CHUNK_LISTS,
    CHUNKS,
    FLOWING_STREAMS,
    MS,
    NOTHING,
    SMALL_STREAMS,
    START,
    TICKS,
    Follower,
    Gap,
    Stream,
    followed,
    followed_figures,
    streams,
    trace,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from polygateway import Chunk
    from polygateway.stats import StreamFigures

STREAMS = streams(CHUNK_LISTS)
CHUNK_BY_CHUNK = streams(st.tuples(CHUNKS), min_size=2)

OFTEN = settings(max_examples=2 * settings().max_examples)

OF_GENERATION = {
    *("generation_ms", "active_generation_ms", "backpressure_ms", "max_gap_ms"),
    *("stall_ms", "stall_gap_count", "stall_count"),
}
OF_CONTENT = {"ttft_ms", "tail_ms"}
OF_THE_RATE = ("tokens_per_s", "rate_basis", "rate_reason")


class Sums(NamedTuple):
    """What is counted and added up. Durations are nanoseconds; what is missing is 0."""

    generation: int
    active: int
    stall: int
    held: int
    gaps: int
    stalls: int
    longest: int


def ns(ms: float | None) -> int:
    """Give the integer that an exported figure was made of: exact below 2**51 ns, 26 days."""
    return round((ms or 0) * 1e6)


def sums(seen: StreamFigures) -> Sums:
    """Give the sums of a stream."""
    return Sums(
        generation=ns(seen.generation_ms),
        active=ns(seen.active_generation_ms),
        stall=ns(seen.stall_ms),
        held=ns(seen.backpressure_ms),
        gaps=seen.stall_gap_count or 0,
        stalls=seen.stall_count or 0,
        longest=ns(seen.max_gap_ms),
    )


def whole(seen: StreamFigures) -> Sums:
    """Give the sums of at least two chunks, or reject the example."""
    assume(seen.chunk_count >= 2)
    return sums(seen)


# -------------------------------------------------------- against the brute force: law 12


@OFTEN
@given(SMALL_STREAMS, TICKS, st.integers(0, 5), st.integers(0, 5))
def test_the_figures_are_those_of_the_brute_force(
    stream: Stream, tick_ns: int, earlier: int, later: int
) -> None:
    seen, ticks = stream.scaled(tick_ns).observed(), stream.observed(tick_ns=tick_ns)
    expected = brute_force(ticks)
    agree(followed_figures(seen), expected)
    of_call = brute_force(ticks, ticks.started - earlier, ticks.ended + later)
    called, over = seen.started - earlier * tick_ns, seen.ended + later * tick_ns
    agree(followed_figures(seen, called, over), of_call)
    target(expected.stall_count or 0)
    event(f"rate: {expected.rate_basis or expected.rate_reason}")
    event(f"stalls: {expected.stall_count}")
    event(f"open: {any(stall.open for stall in expected.stalls)}")


@OFTEN
@given(FLOWING_STREAMS, st.sampled_from([20 * MS, 50 * MS]))
def test_the_rate_is_that_of_the_brute_force(stream: Stream, tick_ns: int) -> None:
    expected = brute_force(stream.observed(tick_ns=tick_ns))
    agree(stream.scaled(tick_ns).figures(), expected)
    event(f"rate: {expected.rate_basis or expected.rate_reason}")


@given(SMALL_STREAMS, TICKS)
def test_at_every_moment_the_figures_are_those_of_the_brute_force(
    stream: Stream, tick_ns: int
) -> None:
    running = attrs.evolve(stream.scaled(tick_ns).observed(), end_kind=None)
    follower = Follower(running)
    ticks = attrs.evolve(stream.observed(tick_ns=tick_ns), end_kind=None)
    for count, read in enumerate(running.reads, 1):
        follower.follow(read)
        expected = brute_force(attrs.evolve(ticks, reads=ticks.reads[:count]))
        agree(follower.figures(), expected)


@given(STREAMS)
def test_figures_read_back_from_a_trace_are_those_that_were_followed(stream: Stream) -> None:
    assert stream.traced_figures() == stream.figures()


@given(STREAMS)
def test_a_timeline_that_keeps_all_keeps_every_arrival_and_its_figures(stream: Stream) -> None:
    seen = stream.observed()
    keeper, forgetful = followed(seen, keeps=True), followed(seen)
    assert keeper.kept() == (trace(seen).arrivals, trace(seen).pieces)
    assert forgetful.timeline.recording is None
    assert keeper.figures() == forgetful.figures()


# ----------------------------------------------------------- sums and counts: laws 1 to 3


@given(STREAMS)
def test_what_flowed_and_what_stood_still_are_the_whole(stream: Stream) -> None:
    seen = whole(stream.figures())
    target(seen.stalls)
    assert seen.generation == seen.active + seen.stall
    assert min(seen) >= 0
    waited = seen.generation - seen.held
    assert seen.stall <= waited <= sum(gap.waited for gap in stream.gaps)
    assert seen.held <= seen.active
    assert (seen.longest >= stream.threshold) == (seen.stalls > 0)


@given(STREAMS)
def test_the_counts_of_stalls_are_bounded_by_each_other_and_by_the_stall(stream: Stream) -> None:
    seen = whole(stream.figures())
    target(seen.stalls)
    assert seen.stall >= stream.threshold * seen.gaps
    assert seen.stalls <= seen.gaps <= stream.figures().chunk_count - 1
    assert (seen.stall > 0) == (seen.gaps > 0) == (seen.stalls > 0)


@given(STREAMS)
def test_the_list_of_stalls_adds_up_to_the_sums(stream: Stream) -> None:
    seen = stream.figures()
    closed = [stall for stall in seen.stalls if not stall.open]
    assert len(closed) == (seen.stall_gap_count or 0)
    assert sum(ns(stall.duration_ms) for stall in closed) == ns(seen.stall_ms)
    assert [stall.open for stall in seen.stalls[:-1]] == [False] * len(seen.stalls[:-1])
    is_open = ns(seen.open_gap_ms) >= stream.threshold
    assert is_open == any(stall.open for stall in seen.stalls)
    assert all(ns(stall.duration_ms) >= stream.threshold for stall in seen.stalls)


@given(STREAMS)
def test_figures_are_missing_by_the_number_of_chunks(stream: Stream) -> None:
    seen = attrs.asdict(stream.figures(), recurse=False)
    count = sum(len(gap.chunks) for gap in stream.gaps)
    assert seen["chunk_count"] == count
    assert {seen[name] is None for name in OF_GENERATION} == {count < 2}
    assert {seen[name] is None for name in OF_CONTENT} == {count == 0}
    is_proper = stream.end_kind == "complete"
    assert (seen["open_gap_ms"] is None) == (count == 0 or is_proper)
    has_text = any(chunk.kind == "text" for gap in stream.gaps for chunk in gap.chunks)
    assert (seen["ttft_text_ms"] is None) == (not has_text)
    tokens = stream.usage.output_tokens
    assert (seen["tpot_ms"] is None) == (count < 2 or tokens is None or tokens < 2)
    assert (seen["tokens_source"] == "none") == (seen["output_tokens"] is None) == (tokens is None)


@given(STREAMS)
def test_a_rate_has_a_basis_and_no_rate_has_a_reason(stream: Stream) -> None:
    seen = stream.figures()
    assert (seen.tokens_per_s is None) == (seen.rate_basis is None)
    assert (seen.tokens_per_s is None) == (seen.rate_reason is not None)
    assert seen.tokens_per_s is None or 0 < seen.tokens_per_s <= 10_000


# ----------------------------------------------- other thresholds and times: laws 4 and 5


@given(STREAMS, st.integers(1, 10**12))
def test_a_higher_threshold_sees_no_more_stall_and_the_same_generation(
    stream: Stream, more: int
) -> None:
    lower, higher = (
        attrs.evolve(stream, threshold=threshold).figures()
        for threshold in (stream.threshold, stream.threshold + more)
    )
    seen, raised = whole(lower), whole(higher)
    assert raised._replace(active=0, stall=0, gaps=0, stalls=0) == seen._replace(
        active=0, stall=0, gaps=0, stalls=0
    )
    assert raised.active >= seen.active
    assert raised.stall <= seen.stall
    assert raised.gaps <= seen.gaps
    unchanged = ("ttft_ms", "ttft_text_ms", "tail_ms", "open_gap_ms", "total_ms", "tpot_ms")
    for name in unchanged:
        assert getattr(higher, name) == getattr(lower, name), name


@given(STREAMS, st.integers(-START, 10**15))
def test_when_a_stream_happened_changes_nothing(stream: Stream, shift: int) -> None:
    assert stream.figures(START + shift) == stream.figures()


@given(STREAMS, st.integers(1, 50))
def test_scaling_all_times_scales_the_durations_and_keeps_the_counts(
    stream: Stream, by: int
) -> None:
    # But for the rate, whose rules know of milliseconds.
    scaled = attrs.asdict(stream.scaled(by).figures(), recurse=False)
    for name, value in attrs.asdict(stream.figures(), recurse=False).items():
        if name == "stalls":
            durations = [ns(stall.duration_ms) * by for stall in value]
            offsets = [ns(stall.offset_ms) * by for stall in value]
            assert durations == [ns(stall.duration_ms) for stall in scaled[name]]
            assert offsets == [ns(stall.offset_ms) for stall in scaled[name]]
        elif name == "tpot_ms":
            assert (scaled[name] or 0) == pytest.approx((value or 0) * by)
        elif name.endswith("_ms"):
            assert ns(scaled[name]) == ns(value) * by, name
        elif name not in OF_THE_RATE:
            assert scaled[name] == value, name


# ---------------------------------------------------------- order and parts: laws 6 and 7


def _with_other_order(stream: Stream) -> SearchStrategy[tuple[Stream, Stream]]:
    first, *gaps = stream.gaps
    others = st.permutations(gaps).map(lambda order: attrs.evolve(stream, gaps=[first, *order]))
    return st.tuples(st.just(stream), others)


@given(CHUNK_BY_CHUNK.flatmap(_with_other_order))
def test_the_order_of_the_gaps_changes_nothing_but_the_number_of_stalls(
    pair: tuple[Stream, Stream],
) -> None:
    one, other = (stream.figures() for stream in pair)
    assert whole(one)._replace(stalls=0) == whole(other)._replace(stalls=0)
    assert (one.stall_count == 0) == (other.stall_count == 0)
    assert (one.rate_basis, one.rate_reason) == (other.rate_basis, other.rate_reason)
    assert (one.tokens_per_s or 0) == pytest.approx(other.tokens_per_s or 0, rel=1e-12)
    durations = [sorted(stall.duration_ms for stall in seen.stalls) for seen in (one, other)]
    assert durations[0] == durations[1]


@given(CHUNK_BY_CHUNK, st.data())
def test_a_stream_that_is_cut_at_a_chunk_is_the_sum_of_its_parts(
    stream: Stream, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(stream.gaps)), label="chunks of the first part")
    shared = Gap(0, 0)  # the chunk at the cut belongs to both parts
    parts = stream.gaps[:cut], [shared, *stream.gaps[cut:]]
    one, other = (attrs.evolve(stream, gaps=part, end_kind="complete").figures() for part in parts)
    beside = [gap.waited >= stream.threshold for gap in stream.gaps[1:][cut - 2 : cut]]
    split = cut > 1 and beside == [True, True]
    joined = attrs.evolve(stream, end_kind="complete").figures()
    added = Sums(*map(sum, zip(sums(one), sums(other), strict=True)))
    assert whole(joined) == added._replace(
        stalls=added.stalls - split,
        longest=max(sums(one).longest, sums(other).longest),
    )
    durations = [[stall.duration_ms for stall in seen.stalls] for seen in (one, other, joined)]
    assert durations[0] + durations[1] == durations[2]


# ----------------------------------------------------- what is read besides: laws 8 and 9


@given(STREAMS, st.floats(0, 1), st.integers(1, 3))
def test_keep_alives_within_a_silence_change_nothing_but_their_number(
    stream: Stream, share: float, count: int
) -> None:
    def interrupted(gap: Gap) -> list[Gap]:
        before = min(gap.waited, round(gap.waited * share))
        alive = Gap(gap.held, before, NOTHING, keepalives=count)
        return [alive, gap._replace(held=0, waited=gap.waited - before)]

    def quiet(seen: StreamFigures) -> StreamFigures:
        stalls = [attrs.evolve(it, keepalives=0, cause="server_silence") for it in seen.stalls]
        return attrs.evolve(seen, stalls=stalls)

    plain, alive = stream.figures(), stream.but(interrupted).figures()
    assert quiet(alive) == quiet(plain)
    for before, after in zip(plain.stalls, alive.stalls, strict=True):
        assert after.keepalives >= before.keepalives + (0 if after.open else count)
        assert after.open or after.cause == "server_alive"


@given(STREAMS, st.floats(0, 1))
def test_a_pause_of_the_consumer_may_lie_anywhere_in_a_gap(stream: Stream, share: float) -> None:
    def divided(gap: Gap) -> list[Gap]:
        before = min(gap.waited, round(gap.waited * share))
        first = Gap(0, before, NOTHING)
        return [first, gap._replace(waited=gap.waited - before)]

    assert stream.but(divided).figures() == stream.figures()


@given(STREAMS)
def test_how_many_chunks_a_read_is_divided_into_changes_their_count_only(stream: Stream) -> None:
    def halves(chunk: Chunk) -> list[Chunk]:
        middle = len(chunk.delta) // 2
        pieces = chunk.delta[:middle], chunk.delta[middle:]
        return [attrs.evolve(chunk, delta=piece) for piece in pieces if piece]

    def divided(gap: Gap) -> list[Gap]:
        chunks = tuple(half for chunk in gap.chunks for half in halves(chunk))
        return [gap._replace(chunks=chunks)]

    plain, finer = stream.figures(), stream.but(divided).figures()
    assume(plain.chunk_count >= 2)
    assert finer.chunk_count == sum(
        len(halves(chunk)) for gap in stream.gaps for chunk in gap.chunks
    )
    uncounted = [attrs.evolve(stall, after_chunk=0) for stall in plain.stalls]
    assert [attrs.evolve(stall, after_chunk=0) for stall in finer.stalls] == uncounted
    same_count = attrs.evolve(finer, chunk_count=plain.chunk_count, stalls=plain.stalls)
    assert same_count == plain


@given(STREAMS)
def test_chunks_of_one_read_may_be_told_one_by_one(stream: Stream) -> None:
    seen = stream.observed()
    one_by_one = Follower(seen, keeps=True)
    for read in seen.reads:
        one_by_one.follow(read._replace(chunks=read.chunks[:1]))
        for chunk in read.chunks[1:]:
            one_by_one.timeline.content(1, (chunk,), read.counted)
    assert one_by_one.figures() == stream.figures()
    assert one_by_one.kept() == (trace(seen).arrivals, trace(seen).pieces)


# ------------------------------------------- consumers and other attempts: laws 10 and 11


@given(CHUNK_BY_CHUNK, st.data())
def test_neither_a_slow_consumer_nor_a_late_loop_makes_a_provider_look_slower(
    stream: Stream, data: st.DataObject
) -> None:
    # What the provider does is fixed; a read returns when it is begun and there is something, or
    # as much later as the loop is late, of which at least that much is known.
    eager_gaps = [gap._replace(held=0, late=0) for gap in stream.gaps]
    eager = attrs.evolve(stream, gaps=eager_gaps)
    available = now = START
    reads = list[Read]()
    for gap in stream.gaps:
        available += gap.waited
        asked = now + gap.held
        now = max(asked, available) + gap.late
        share = data.draw(st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1)]))
        late = gap.late + round((now - asked - gap.late) * share)
        reads.append(Read(asked, now, gap.chunks, late))
    slow = attrs.evolve(stream.observed(), reads=reads, ended=now)
    arrivals = [followed(it, keeps=True).kept()[0] for it in (eager.observed(), slow)]
    for most_waited, arrival in zip(*arrivals, strict=True):
        assert arrival.waited_ns <= most_waited.waited_ns
    most, seen = whole(eager.figures()), whole(followed_figures(slow))
    assert seen.longest <= most.longest
    assert seen.stall <= most.stall
    assert seen.gaps <= most.gaps


@given(STREAMS, STREAMS, st.data())
def test_two_timelines_know_nothing_of_each_other(
    one: Stream, other: Stream, data: st.DataObject
) -> None:
    seen = [stream.observed() for stream in (one, other)]
    both = [Follower(observed) for observed in seen]
    left = [list(observed.reads) for observed in seen]
    while any(left):
        turn = data.draw(st.sampled_from([i for i in (0, 1) if left[i]]), label="whose read")
        both[turn].follow(left[turn].pop(0))
    assert [follower.figures() for follower in both] == [one.figures(), other.figures()]
