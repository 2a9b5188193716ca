"""Streams of content as gaps between reads, and hypothesis strategies that draw them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from polygateway.core.timeline import Timeline
from tests.oracle import Read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypothesis.strategies import SearchStrategy

    from polygateway.core.timeline import Figures

MS = 1_000_000
SECOND = 1_000_000_000

START = 10**15 + 1
"""When streams start: nothing may depend on a clock that starts at 0."""


class Gap(NamedTuple):
    """What lies between the return of one read and that of the next."""

    held: int
    """Nobody asked for so long."""

    waited: int
    """Then a read took so long."""

    chunks: int = 1
    """So many content chunks came with it."""


class Stream(NamedTuple):
    """A stream, and the threshold that it is judged by."""

    gaps: list[Gap]
    threshold: int

    def figures(self) -> Figures:
        """Give the figures of this stream."""
        return figures(self.gaps, self.threshold)

    def but(self, change: Callable[[Gap], Iterable[Gap]]) -> Stream:
        """Give this stream with each gap replaced by others."""
        return self._replace(gaps=[new for gap in self.gaps for new in change(gap)])


def reads(gaps: Iterable[Gap], start: int = START) -> list[Read]:
    """Put gaps one after the other."""
    found: list[Read] = []
    for gap in gaps:
        asked = start + gap.held
        start = asked + gap.waited
        found.append(Read(asked, start, gap.chunks))
    return found


def follow(timeline: Timeline, read: Read) -> None:
    """Tell a timeline of a read and of the content that came with it."""
    timeline.read(read.asked, read.arrived)
    timeline.content(read.chunks)


def timeline(gaps: Iterable[Gap], threshold: int) -> Timeline:
    """Give the timeline of a whole stream."""
    followed = Timeline(START, threshold)
    for read in reads(gaps):
        follow(followed, read)
    return followed


def figures(gaps: Iterable[Gap], threshold: int = 2 * SECOND) -> Figures:
    """Give the figures of a whole stream."""
    return timeline(gaps, threshold).figures()


def streams(
    chunks: SearchStrategy[int], *, min_size: int = 0, max_size: int = 12
) -> SearchStrategy[Stream]:
    """Draw streams in which gaps around the threshold are frequent.

    Args:
        chunks: how many content chunks come with a read.
        min_size: the fewest reads.
        max_size: the most reads.
    """

    def of(threshold: int) -> SearchStrategy[Stream]:
        around = sorted({0, threshold - 1, threshold, threshold + 1})
        waited = st.sampled_from(around) | st.integers(0, 10 * MS) | st.integers(0, 10**12)
        gap = st.tuples(st.just(0) | waited, waited, chunks).map(Gap._make)
        return st.builds(
            Stream, st.lists(gap, min_size=min_size, max_size=max_size), st.just(threshold)
        )

    return THRESHOLDS.flatmap(of)


THRESHOLDS = st.sampled_from([1, 100 * MS, 300 * MS, 2 * SECOND]) | st.integers(1, 10**12)

_SMALL_GAPS = st.tuples(st.integers(0, 3), st.integers(0, 6), st.sampled_from([0, 1, 1, 2]))

SMALL_STREAMS = st.builds(
    Stream, st.lists(_SMALL_GAPS.map(Gap._make), max_size=25), st.integers(1, 6)
)
"""Streams of few ticks, for whoever looks at each."""
