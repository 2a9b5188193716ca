"""What holds for the figures of every stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs
from hypothesis import assume, event, given, strategies as st, target

from polygateway.core.timeline import Timeline
from tests.oracle import Read, brute_force
from tests.strategies import (
    SMALL_STREAMS,
    START,
    Gap,
    Stream,
    figures,
    follow,
    reads,
    streams,
    timeline,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from polygateway.core.timeline import Figures

STREAMS = streams(st.sampled_from([0, 1, 1, 2]))
CHUNK_BY_CHUNK = streams(st.just(1), min_size=2)


class Whole(NamedTuple):
    """The figures of at least two chunks. Durations are nanoseconds."""

    generation: int
    active: int
    stall: int
    gaps: int
    stalls: int
    longest: int


def whole(seen: Figures) -> Whole:
    """Give the figures of at least two chunks, or reject the example."""
    assume(seen.chunk_count >= 2)
    return Whole(*sums(seen))


def sums(seen: Figures) -> Whole:
    """Give figures with those that are missing counted as 0."""
    return Whole(
        generation=seen.generation_ns or 0,
        active=seen.active_generation_ns or 0,
        stall=seen.stall_ns or 0,
        gaps=seen.stall_gap_count or 0,
        stalls=seen.stall_count or 0,
        longest=seen.max_gap_ns or 0,
    )


@given(SMALL_STREAMS)
def test_at_every_moment_the_figures_are_those_of_the_brute_force(stream: Stream) -> None:
    followed = Timeline(START, stream.threshold)
    seen = reads(stream.gaps)
    for position, read in enumerate(seen, 1):
        follow(followed, read)
        expected = brute_force(seen[:position], stream.threshold)
        assert attrs.asdict(followed.figures()) == expected
    target(followed.figures().stall_count or 0)
    event(f"stalls: {followed.figures().stall_count}")


@given(STREAMS)
def test_what_flowed_and_what_stood_still_are_the_whole(stream: Stream) -> None:
    seen = whole(stream.figures())
    target(seen.stalls)
    assert seen.generation == seen.active + seen.stall
    assert min(seen) >= 0
    assert seen.stall <= sum(gap.waited for gap in stream.gaps)
    assert (seen.longest >= stream.threshold) == (seen.stalls > 0)


@given(STREAMS)
def test_the_counts_of_stalls_are_bounded_by_each_other_and_by_the_stall(stream: Stream) -> None:
    seen = whole(stream.figures())
    assert seen.stall >= stream.threshold * seen.gaps
    assert seen.stalls <= seen.gaps <= stream.figures().chunk_count - 1
    assert (seen.stall > 0) == (seen.gaps > 0) == (seen.stalls > 0)


@given(STREAMS)
def test_figures_are_missing_together_exactly_below_two_chunks(stream: Stream) -> None:
    seen = attrs.asdict(stream.figures())
    count = seen.pop("chunk_count")
    assert count == sum(gap.chunks for gap in stream.gaps)
    assert {value is None for value in seen.values()} == {count < 2}
    followed = timeline(stream.gaps, stream.threshold)
    assert (followed.first_ns is None) == (followed.last_ns is None) == (count == 0)


@given(STREAMS, st.integers(1, 10**12))
def test_a_higher_threshold_sees_no_more_stall_and_the_same_generation(
    stream: Stream, more: int
) -> None:
    seen = whole(stream.figures())
    higher = whole(stream._replace(threshold=stream.threshold + more).figures())
    assert (higher.generation, higher.longest) == (seen.generation, seen.longest)
    assert higher.active >= seen.active
    assert higher.stall <= seen.stall
    assert higher.gaps <= seen.gaps


@given(STREAMS, st.integers(-START, 10**15))
def test_when_a_stream_happened_changes_nothing(stream: Stream, shift: int) -> None:
    followed = Timeline(START + shift, stream.threshold)
    for read in reads(stream.gaps, START + shift):
        follow(followed, read)
    assert followed.figures() == stream.figures()


@given(STREAMS, st.integers(1, 1000))
def test_scaling_all_times_scales_the_durations_and_keeps_the_counts(
    stream: Stream, by: int
) -> None:
    seen = whole(stream.figures())
    scaled = stream.but(lambda gap: [Gap(gap.held * by, gap.waited * by, gap.chunks)])
    assert whole(figures(scaled.gaps, stream.threshold * by)) == Whole(
        generation=seen.generation * by,
        active=seen.active * by,
        stall=seen.stall * by,
        gaps=seen.gaps,
        stalls=seen.stalls,
        longest=seen.longest * by,
    )


def _with_other_order(stream: Stream) -> SearchStrategy[tuple[Stream, Stream]]:
    first, *gaps = stream.gaps
    others = st.permutations(gaps).map(lambda order: stream._replace(gaps=[first, *order]))
    return st.tuples(st.just(stream), others)


@given(CHUNK_BY_CHUNK.flatmap(_with_other_order))
def test_the_order_of_the_gaps_changes_nothing_but_the_number_of_stalls(
    pair: tuple[Stream, Stream],
) -> None:
    one, other = (whole(stream.figures()) for stream in pair)
    assert one._replace(stalls=0) == other._replace(stalls=0)
    assert (one.stalls > 0) == (other.stalls > 0)


@given(CHUNK_BY_CHUNK, st.data())
def test_a_stream_that_is_cut_at_a_chunk_is_the_sum_of_its_parts(
    stream: Stream, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(stream.gaps)), label="chunks of the first part")
    shared = Gap(0, 0)  # the chunk at the cut belongs to both parts
    parts = stream.gaps[:cut], [shared, *stream.gaps[cut:]]
    one, other = (sums(figures(part, stream.threshold)) for part in parts)
    beside = [gap.waited >= stream.threshold for gap in stream.gaps[1:][cut - 2 : cut]]
    split = cut > 1 and beside == [True, True]
    assert whole(stream.figures()) == Whole(
        generation=one.generation + other.generation,
        active=one.active + other.active,
        stall=one.stall + other.stall,
        gaps=one.gaps + other.gaps,
        stalls=one.stalls + other.stalls - split,
        longest=max(one.longest, other.longest),
    )


@given(STREAMS, st.floats(0, 1))
def test_keep_alives_within_a_silence_change_nothing(stream: Stream, share: float) -> None:
    def interrupted(gap: Gap) -> list[Gap]:
        before = min(gap.waited, round(gap.waited * share))
        return [Gap(gap.held, before, 0), Gap(0, gap.waited - before, gap.chunks)]

    assert stream.but(interrupted).figures() == stream.figures()


@given(STREAMS, st.floats(0, 1))
def test_a_pause_of_the_consumer_may_lie_anywhere_in_a_gap(stream: Stream, share: float) -> None:
    def divided(gap: Gap) -> list[Gap]:
        before = min(gap.waited, round(gap.waited * share))
        return [Gap(0, before, 0), Gap(gap.held, gap.waited - before, gap.chunks)]

    assert stream.but(divided).figures() == stream.figures()


@given(STREAMS)
def test_how_many_chunks_a_read_is_divided_into_changes_their_count_only(stream: Stream) -> None:
    merged = stream.but(lambda gap: [gap._replace(chunks=min(gap.chunks, 1))])
    assume(merged.figures().chunk_count >= 2)
    count = stream.figures().chunk_count
    assert attrs.evolve(merged.figures(), chunk_count=count) == stream.figures()


@given(STREAMS, STREAMS, st.data())
def test_two_timelines_know_nothing_of_each_other(
    one: Stream, other: Stream, data: st.DataObject
) -> None:
    both = [Timeline(START, stream.threshold) for stream in (one, other)]
    left = [reads(stream.gaps) for stream in (one, other)]
    while any(left):
        turn = data.draw(st.sampled_from([i for i in (0, 1) if left[i]]), label="whose read")
        follow(both[turn], left[turn].pop(0))
    assert [followed.figures() for followed in both] == [one.figures(), other.figures()]


@given(CHUNK_BY_CHUNK)
def test_a_slow_consumer_never_makes_a_provider_look_slower(stream: Stream) -> None:
    # What the provider does is fixed; a read returns when it is begun and there is something.
    eager = whole(figures([gap._replace(held=0) for gap in stream.gaps], stream.threshold))
    available = now = START
    slow = Timeline(START, stream.threshold)
    for gap in stream.gaps:
        available += gap.waited
        asked = now + gap.held
        now = max(asked, available)
        follow(slow, Read(asked, now, 1))
    seen = whole(slow.figures())
    assert seen.longest <= eager.longest
    assert seen.stall <= eager.stall
    assert seen.gaps <= eager.gaps
