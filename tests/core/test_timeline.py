from __future__ import annotations

from polygateway.core.latency import LEARNED_NS
from polygateway.core.timeline import MOST_SILENCES, Timeline
from tests.strategies import (
    NOTHING,
    ONE,
    SECOND,
    START,
    Follower,
    Gap,
    Stream,
    followed,
    said,
    text,
    waits,
)


def test_the_time_waited_since_the_last_content_is_known_at_any_moment() -> None:
    seen = list[tuple[int, int]]()
    gaps = [Gap(1, 2, NOTHING), Gap(10, 20, NOTHING), Gap(100, 200), Gap(5, 7, NOTHING), Gap(9, 8)]
    observed = Stream([*gaps, Gap(0, 4, NOTHING)], SECOND).observed()
    follower = Follower(observed)
    for read in observed.reads:
        follower.follow(read)
        assert follower.timeline.arrived_ns == read.arrived
        seen.append((follower.timeline.waited_ns, follower.timeline.chunk_count))
    assert seen == [(2, 0), (22, 0), (0, 1), (7, 1), (0, 2), (4, 2)]


def test_before_its_first_read_a_timeline_knows_when_it_started_and_nothing_else() -> None:
    fresh = Timeline(START, 5)
    assert (fresh.started_ns, fresh.arrived_ns, fresh.waited_ns) == (START, 0, 0)
    assert (fresh.first_ns, fresh.last_ns) == (None, None)
    assert (fresh.chunk_count, fresh.keepalives) == (0, 0)


def test_what_the_event_loop_was_late_nobody_waited_for_the_provider() -> None:
    late = Timeline(START, SECOND)
    late.read(START, START + 1017, late_ns=1000)
    assert (late.waited_ns, late.arrived_ns) == (17, START + 1017)
    late.read(START + 1017, START + 2000, late_ns=983)
    assert late.waited_ns == 17


def test_the_stamps_are_those_of_the_reads_that_brought_content() -> None:
    stamps = list[tuple[int | None, int | None]]()
    gaps = [Gap(0, 1, NOTHING), Gap(0, 2), Gap(0, 3, NOTHING), Gap(0, 4, ONE * 2)]
    observed = Stream([*gaps, Gap(0, 5, NOTHING)], SECOND).observed()
    follower = Follower(observed)
    for read in observed.reads:
        follower.follow(read)
        stamps.append((follower.timeline.first_ns, follower.timeline.last_ns))
    first, second = START + 3, START + 10
    assert stamps == [(None, None), (first, first), (first, first), *[(first, second)] * 2]


def test_content_that_ends_a_stall_gives_the_stalled_gap() -> None:
    told = Timeline(START, 5)
    told.read(START, START + 9)
    assert told.content(1, text("abc"), None) is None, "the way to the first content is no gap"
    told.read(START + 20, START + 24)
    assert told.content(1, text("de"), None) is None, "4 is less than 5, 15 in which nobody asked"
    told.read(START + 24, START + 27)
    told.alive(1)
    told.read(START + 30, START + 32)
    gap = told.content(2, (said("reasoning", "f"), said("text", "g")), None)
    assert gap is not None
    assert (gap.waited_ns, gap.from_ns, gap.after_chunk) == (5, START + 24, 1)
    assert (gap.characters_before, gap.keepalives, gap.next_kind) == (5, 1, "reasoning")
    assert not gap.is_open
    assert told.content(1, text("h"), None) is None, "of the same read: no gap lies before it"


def test_what_comes_with_content_is_no_sign_of_life_in_a_silence() -> None:
    # A role before the first chunk, a usage behind it in the same read, then silence.
    gaps = [
        *(Gap(0, 1, NOTHING, keepalives=1), Gap(0, 1, keepalives=1)),
        *(Gap(0, 9, NOTHING, keepalives=2), Gap(0, 9, NOTHING, keepalives=1)),
        *(Gap(0, 1, keepalives=1), Gap(0, 9)),
    ]
    told = followed(Stream(gaps, 5).observed(), keeps=True)
    assert [arrival.keepalives for arrival in told.kept()[0]] == [1, 3, 0]
    assert told.timeline.keepalives == 0


def test_signs_of_life_since_the_last_content_are_counted() -> None:
    waiting = Gap(0, 1, NOTHING, keepalives=2)
    for gaps, count in (([waiting], 2), ([waiting, Gap(0, 1), waiting, waiting], 4)):
        assert followed(Stream(gaps, 5).observed()).timeline.keepalives == count


def test_content_ends_the_count_of_signs_of_life_even_if_it_comes_with_the_end() -> None:
    told = Timeline(START, 5)
    told.read(START, START + 1)
    told.alive(3)
    told.read(START + 1, START + 2)
    told.content(1, ONE, None)
    assert told.keepalives == 0


def test_chunks_of_a_choice_that_is_not_kept_are_counted_and_nothing_else() -> None:
    told = Timeline(START, 5)
    told.read(START, START + 9)
    told.content(2, (), None)
    assert (told.chunk_count, told.tally.characters) == (2, 0)
    told.read(START + 9, START + 19)
    gap = told.content(1, (), None)
    assert gap is not None
    assert gap.next_kind is None


# ---------------------------------------------------------------- silences to learn from

LONG = LEARNED_NS


def test_the_silences_that_content_ended_are_kept_in_their_order_if_they_were_long() -> None:
    gaps = waits(LONG - 1, LONG, 1, 3 * LONG, LONG + 1)
    for threshold in (1, 100 * LONG):  # whatever counts as a stall
        silences = followed(Stream(gaps, threshold).observed()).timeline.silences
        assert silences == [LONG, 3 * LONG, LONG + 1]


def test_neither_the_way_to_the_first_content_nor_an_open_gap_is_a_silence_that_ended() -> None:
    gaps = [Gap(0, 2 * LONG, NOTHING), Gap(0, 3 * LONG), Gap(0, 4 * LONG, NOTHING)]
    told = followed(Stream(gaps, SECOND).observed()).timeline
    assert told.silences == []
    assert told.waited_ns == 4 * LONG


def test_a_silence_is_what_was_waited_whatever_reads_it_took_and_whoever_was_late() -> None:
    gaps = [Gap(0, 0), Gap(LONG, LONG - 1, NOTHING), Gap(5 * LONG, 1, late=LONG)]
    assert followed(Stream(gaps, SECOND).observed()).timeline.silences == [LONG]
    gaps = [Gap(0, 0), Gap(5 * LONG, LONG - 1, late=LONG)]
    assert followed(Stream(gaps, SECOND).observed()).timeline.silences == []


def test_a_stream_that_trickles_keeps_no_more_silences_than_any_other_may() -> None:
    gaps = waits(*(LONG + position for position in range(3 * MOST_SILENCES)))
    silences = followed(Stream(gaps, SECOND).observed()).timeline.silences
    assert silences == [LONG + position for position in range(MOST_SILENCES)]
