"""Streams of content as gaps between reads, and hypothesis strategies that draw them."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, cast

import attrs
from hypothesis import strategies as st

from polygateway import Chunk
from polygateway.core.figures import Ending, as_waited_for, figures, figures_of
from polygateway.core.timeline import Timeline
from polygateway.messages import ToolCallDelta
from polygateway.stats import EndKind, StreamFigures
from polygateway.trace import Arrival, Piece, ReplyForm, Trace
from polygateway.usage import Usage
from tests.oracle import Observation, Read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypothesis.strategies import SearchStrategy

    from polygateway.stats import ContentKind

MS = 1_000_000
SECOND = 1_000_000_000

START = 10**15 + 1
"""When streams start: nothing may depend on a clock that starts at 0."""


def said(kind: ContentKind, delta: str) -> Chunk:
    """Give a chunk of content."""
    call = ToolCallDelta(0, None, "f") if kind == "tool_call" else None
    return Chunk(kind, delta, 0, call)


def text(*deltas: str) -> tuple[Chunk, ...]:
    """Give chunks of text that come with one read."""
    return tuple(said("text", delta) for delta in deltas)


ONE = text("a")
NOTHING = text()


class Gap(NamedTuple):
    """What lies between the return of one read and that of the next."""

    held: int
    """Nobody asked for so long."""

    waited: int
    """Then a read took so long."""

    chunks: tuple[Chunk, ...] = ONE
    """The content that came with it."""

    late: int = 0
    """So long after that the event loop handed it over."""

    keepalives: int = 0
    """So many events without content came with it."""

    counted: int | None = None
    """Output tokens that the wire had counted by then."""


def waits(*waited: int) -> list[Gap]:
    """Give a first chunk, and one more after each of these waits."""
    return [Gap(0, 0), *(Gap(0, each) for each in waited)]


@attrs.frozen
class Stream:
    """One attempt: its reads, how it ended, and the threshold that it is judged by."""

    gaps: list[Gap]
    threshold: int
    end_kind: EndKind | None = "complete"
    usage: Usage = attrs.field(factory=Usage)
    form: ReplyForm = "stream"
    idle: int = 0
    """So long after the last read it ended."""

    attempt: int = 0

    def but(self, change: Callable[[Gap], Iterable[Gap]]) -> Stream:
        """Give this stream with each gap replaced by others."""
        return attrs.evolve(self, gaps=[new for gap in self.gaps for new in change(gap)])

    def scaled(self, by: int) -> Stream:
        """Give this stream with all durations multiplied."""
        longer = self.but(
            lambda gap: [
                gap._replace(held=gap.held * by, waited=gap.waited * by, late=gap.late * by)
            ]
        )
        return attrs.evolve(longer, threshold=self.threshold * by, idle=self.idle * by)

    def observed(self, start: int = START, tick_ns: int = 1) -> Observation:
        """Put the gaps one after the other."""
        found, now = list[Read](), start
        for gap in self.gaps:
            asked = now + gap.held
            now = asked + gap.waited + gap.late
            found.append(Read(asked, now, gap.chunks, gap.late, gap.keepalives, gap.counted))
        return Observation(
            started=start,
            reads=found,
            ended=now + self.idle,
            threshold=self.threshold,
            end_kind=self.end_kind,
            form=self.form,
            usage=self.usage,
            attempt=self.attempt,
            tick_ns=tick_ns,
        )

    def figures(self, start: int = START) -> StreamFigures:
        """Give the figures as they are while the stream is followed."""
        return followed_figures(self.observed(start))

    def traced_figures(self) -> StreamFigures:
        """Give the figures as they are when the recorded stream is read back."""
        return figures_of(trace(self.observed()))


# ---------------------------------------------------------------- telling the package of a stream


class Follower:
    """Tells a timeline of reads, and of the content that came with them."""

    def __init__(self, seen: Observation, *, keeps: bool = False) -> None:
        self.timeline = Timeline(seen.started, seen.threshold, keeps=keeps)
        self.keepalives = 0
        self._seen = seen

    def follow(self, read: Read) -> None:
        """Tell of one read."""
        self.timeline.read(read.asked, read.arrived, read.late)
        if read.chunks:
            self.timeline.content(read.chunk_count, read.chunks, read.counted)
        self.keepalives += read.keepalives
        self.timeline.alive(self.keepalives)

    def kept(self) -> tuple[Sequence[Arrival], Sequence[Sequence[Piece]]]:
        """Give the arrivals that the timeline kept, and what each brought."""
        recording = self.timeline.recording
        assert recording is not None
        return recording.arrivals(), recording.pieces()

    def figures(self, since: int | None = None, until: int | None = None) -> StreamFigures:
        """Give the figures of the reads that were told of, for whoever waited for them."""
        seen, timeline = self._seen, self.timeline
        ending = Ending(
            attempt=seen.attempt,
            started_ns=seen.started,
            until_ns=seen.ended,
            waited_ns=timeline.waited_ns,
            keepalives=timeline.keepalives,
            end_kind=seen.end_kind,
            form=seen.form,
            usage=seen.usage,
        )
        found = as_waited_for(
            figures(timeline.tally, ending),
            timeline.tally,
            seen.form,
            since_ns=seen.started if since is None else since,
            until_ns=seen.ended if until is None else until,
        )
        return StreamFigures(**found)


def followed(seen: Observation, *, keeps: bool = False) -> Follower:
    """Tell a timeline of all that was seen."""
    follower = Follower(seen, keeps=keeps)
    for read in seen.reads:
        follower.follow(read)
    return follower


def followed_figures(
    seen: Observation, since: int | None = None, until: int | None = None
) -> StreamFigures:
    """Give the figures of all that was seen."""
    return followed(seen).figures(since, until)


def trace(seen: Observation) -> Trace:
    """Give what a timeline that keeps all should have kept."""
    assert seen.end_kind is not None, "what still runs leaves no trace"
    arrivals, waited, keepalives = list[Arrival](), 0, 0
    for read in seen.reads:
        waited += read.arrived - read.asked - read.late
        if read.chunks:
            arrivals.append(_arrival(read, waited, keepalives))
            waited = keepalives = 0
        else:
            keepalives += read.keepalives
    return Trace(
        attempt=seen.attempt,
        started_ns=seen.started,
        ended_ns=seen.ended,
        sent_ns=None,
        headers_ns=None,
        threshold_ns=seen.threshold,
        arrivals=tuple(arrivals),
        pieces=tuple(pieces(read) for read in seen.reads if read.chunks),
        waited_ns=waited,
        keepalives=keepalives,
        end_kind=seen.end_kind,
        form=seen.form,
        usage=seen.usage,
    )


def _arrival(read: Read, waited: int, keepalives: int) -> Arrival:
    return Arrival(
        at_ns=read.arrived,
        waited_ns=waited,
        keepalives=keepalives,
        chunk_count=read.chunk_count,
        characters=read.characters,
        kinds=tuple(dict.fromkeys([piece.kind for piece in pieces(read)])),
        output_tokens=read.counted,
    )


def pieces(read: Read) -> Sequence[Piece]:
    """Give what a read brought."""
    return tuple(
        Piece(cast("ContentKind", chunk.kind), len(chunk.delta), chunk.delta)
        for chunk in read.chunks
    )


# ---------------------------------------------------------------- drawing streams

_KINDS: list[ContentKind] = ["text", "text", "text", "reasoning", "refusal", "tool_call"]
CHUNKS = st.builds(said, st.sampled_from(_KINDS), st.text("abc", min_size=1, max_size=4))

CHUNK_LISTS = st.sampled_from([0, 1, 1, 2]).flatmap(
    lambda size: st.lists(CHUNKS, min_size=size, max_size=size).map(tuple)
)
"""What comes with a read: keep-alives only, or one chunk or two."""

THRESHOLDS = st.sampled_from([1, 100 * MS, 300 * MS, 2 * SECOND]) | st.integers(1, 10**12)

_ENDS: list[EndKind] = ["complete", "complete", "complete", "cut", "error", "watchdog", "cancelled"]
END_KINDS = st.sampled_from(_ENDS)


def streams(
    chunks: SearchStrategy[tuple[Chunk, ...]], *, min_size: int = 0, max_size: int = 12
) -> SearchStrategy[Stream]:
    """Draw streams in which gaps around the threshold are frequent.

    Args:
        chunks: the content that comes with a read.
        min_size: the fewest reads.
        max_size: the most reads.
    """

    def of(threshold: int) -> SearchStrategy[Stream]:
        around = sorted({0, threshold - 1, threshold, threshold + 1})
        waited = st.sampled_from(around) | st.integers(0, 10 * MS) | st.integers(0, 10**12)
        gap = st.builds(
            Gap,
            held=st.just(0) | waited,
            waited=waited,
            chunks=chunks,
            late=st.just(0) | waited,
            keepalives=st.integers(0, 2),
            counted=st.none(),
        )
        return st.builds(
            Stream,
            st.lists(gap, min_size=min_size, max_size=max_size),
            st.just(threshold),
            end_kind=END_KINDS,
            usage=USAGES,
            idle=st.just(0) | waited,
        )

    return THRESHOLDS.flatmap(of)


_TOKENS = st.none() | st.integers(0, 3) | st.integers(0, 20) | st.integers(0, 20_000)
USAGES = st.builds(Usage, output_tokens=_TOKENS, reasoning_tokens=st.none() | st.integers(0, 4))

_EMPTY = said("tool_call", "")
_SMALL_GAPS = st.builds(
    Gap,
    held=st.sampled_from([0, 0, 0, 0, 1, 3]),
    waited=st.integers(0, 6),
    chunks=CHUNK_LISTS | st.just((_EMPTY,)),
    late=st.sampled_from([0, 0, 0, 0, 1, 2]),
    keepalives=st.sampled_from([0, 0, 1]),
    counted=st.none(),
)
_FLOWING_GAPS = st.builds(
    Gap,
    held=st.sampled_from([*[0] * 20, 1]),
    waited=st.sampled_from([1, 1, 2, 3, 4, 5]),
    chunks=st.lists(CHUNKS, min_size=1, max_size=2).map(tuple) | st.just((_EMPTY,)),
    late=st.just(0),
    keepalives=st.just(0),
    counted=st.none(),
)


def counted(stream: Stream, counts: Iterable[int | None]) -> Stream:
    """Let the wire count tokens with each read; its last count is the final one."""
    gaps = [gap._replace(counted=count) for gap, count in zip(stream.gaps, counts, strict=True)]
    final = gaps[-1].counted if gaps else None
    return attrs.evolve(stream, gaps=gaps, usage=attrs.evolve(stream.usage, output_tokens=final))


def _with_counts(stream: Stream) -> SearchStrategy[Stream]:
    """Draw how tokens are counted: at the end, read by read, or in a way that cannot be used."""

    size = len(stream.gaps)
    steps = st.lists(st.integers(0, 9), min_size=size, max_size=size)
    wild = st.lists(st.none() | st.integers(0, 20), min_size=size, max_size=size)
    at_the_end = st.just(stream)
    read_by_read = steps.map(lambda drawn: counted(stream, accumulate(drawn)))
    with_other_end = read_by_read.map(lambda drawn: attrs.evolve(drawn, usage=stream.usage))
    unusable = wild.map(lambda drawn: counted(stream, drawn))
    return at_the_end | read_by_read | with_other_end | unusable


_FORMS: list[ReplyForm] = ["stream", "stream", "stream", "stream", "document", "choices"]

SMALL_STREAMS = st.builds(
    Stream,
    st.lists(_SMALL_GAPS, max_size=25),
    st.integers(1, 6),
    end_kind=END_KINDS,
    usage=USAGES,
    form=st.sampled_from(_FORMS),
    idle=st.sampled_from([0, 0, 3]),
    attempt=st.integers(0, 2),
).flatmap(_with_counts)
"""Streams of few ticks, for whoever looks at each."""

FLOWING_STREAMS = st.builds(
    Stream, st.lists(_FLOWING_GAPS, min_size=5, max_size=25), st.integers(4, 6), usage=USAGES
).flatmap(_with_counts)
"""Streams of few ticks that stall seldom and end properly, so that most have a rate."""

TICKS = st.sampled_from([1, 7, MS, 40 * MS, 50 * MS, SECOND])
"""How long a tick is: some rules know of milliseconds."""
