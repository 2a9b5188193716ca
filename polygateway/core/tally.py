"""What the arrivals of one attempt add up to, in integer nanoseconds."""

# Theory of operation
# ===================
#
# All times are integer nanoseconds of one monotonic clock. Float seconds lose the boundary: a gap
# of exactly 0.3 s would be judged shorter than 0.3 s in four cases of ten.
#
# Rule 1: the unit is the arrival, a read that completed content. Chunks of one read came at one
#         instant: between them there is no gap, and nothing tells in which of them a token was.
# Rule 2: a gap lies between two arrivals. The time waited in it was measured; what it lasted beyond
#         that, nobody waited for the provider: that is backpressure.
# Rule 3: a gap is stalled when the time waited in it is at least the threshold, else it flowed.
#         Consecutive stalled gaps are one stall.
# Rule 4: an arrival's content belongs to the gap that it closed. What ended a stall came in no
#         flowing time, and what came first in no time at all, so both are kept apart for the rate.
#
# The state is bounded, so a stream of any length costs the same. Arrivals must come in order.

from __future__ import annotations

from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..stats import ContentKind
    from ..trace import Arrival

MOST_STALLS = 64
"""Stalled gaps that are kept one by one; the sums hold all of them."""


class Gap(NamedTuple):
    """A stalled gap. The longest is the greatest; of equal ones, the earliest."""

    waited_ns: int
    minus_after_chunk: int
    """Less than 0 by the position of the chunk before it: what came earlier is greater."""

    from_ns: int
    """Stamp of the arrival before it."""

    characters_before: int
    keepalives: int
    next_kind: ContentKind | None
    """Kind of the chunk that closed it; ``None`` if it is open, or of a choice that is not kept."""

    is_open: bool

    @property
    def after_chunk(self) -> int:
        """Position of the content chunk before it, from 0."""
        return -self.minus_after_chunk


@attrs.define
class Share:
    """A part of the content."""

    chunk_count: int = 0
    characters: int = 0
    output_tokens: int = 0
    """Meaningful only where :attr:`Tally.counts_tokens`."""


@attrs.define
class Tally:
    """Adds up arrivals."""

    threshold_ns: int
    """A gap in which at least so long was waited is stalled; over 0."""

    first_ns: int | None = attrs.field(default=None, init=False)
    """Stamp of the first arrival; ``None`` before it."""

    last_ns: int | None = attrs.field(default=None, init=False)
    """Stamp of the last arrival; ``None`` before the first."""

    first_text_ns: int | None = attrs.field(default=None, init=False)
    """Stamp of the first arrival with text; ``None`` before it."""

    has_reasoning: bool = attrs.field(default=False, init=False)
    chunk_count: int = attrs.field(default=0, init=False)
    characters: int = attrs.field(default=0, init=False)
    output_tokens: int | None = attrs.field(default=None, init=False)
    """Tokens that the wire had counted at the last arrival; ``None`` if it had not."""

    counts_tokens: bool = attrs.field(default=True, init=False)
    """Whether every arrival came with a count of tokens, and none fell."""

    waited_ns: int = attrs.field(default=0, init=False)
    """Time waited in all gaps."""

    flowing_ns: int = attrs.field(default=0, init=False)
    """Length of all gaps that are not stalled."""

    flowing_gap_count: int = attrs.field(default=0, init=False)
    stall_ns: int = attrs.field(default=0, init=False)
    """Time waited in stalled gaps."""

    stall_gap_count: int = attrs.field(default=0, init=False)
    stall_count: int = attrs.field(default=0, init=False)
    max_gap_ns: int = attrs.field(default=0, init=False)
    first: Share = attrs.field(factory=Share, init=False)
    """Content of the first arrival."""

    flowing: Share = attrs.field(factory=Share, init=False)
    """Content of arrivals that closed a flowing gap."""

    resuming: Share = attrs.field(factory=Share, init=False)
    """Content of arrivals that closed a stalled gap."""

    _longest: list[Gap] = attrs.field(factory=list[Gap], init=False)
    """The longest stalled gaps; a heap."""

    _share: Share = attrs.field(init=False)
    """Where the content of the last arrival belongs."""

    def __attrs_post_init__(self) -> None:
        self._share = self.first

    def take(self, arrival: Arrival) -> Gap | None:
        """Add the next arrival; give the gap that it closed if that was stalled."""
        gap = None
        if self.last_ns is None:
            self.first_ns = arrival.at_ns
        else:
            gap = self._close_gap(arrival, self.last_ns)
        self.last_ns = arrival.at_ns
        self.join(arrival)
        return gap

    def join(self, arrival: Arrival) -> None:
        """Add content to the last arrival: it came with the same read."""
        share = self._share
        share.chunk_count += arrival.chunk_count
        share.characters += arrival.characters
        self.chunk_count += arrival.chunk_count
        self.characters += arrival.characters
        self._count_tokens(arrival.output_tokens)
        if self.first_text_ns is None and "text" in arrival.kinds:
            self.first_text_ns = arrival.at_ns
        if not self.has_reasoning and "reasoning" in arrival.kinds:
            self.has_reasoning = True

    def _count_tokens(self, count: int | None) -> None:
        before = self.output_tokens or 0
        if count is None or count < before:
            self.counts_tokens = False
        else:
            self._share.output_tokens += count - before
            self.output_tokens = count

    def _close_gap(self, arrival: Arrival, last_ns: int) -> Gap | None:
        waited = arrival.waited_ns
        self.waited_ns += waited
        self.max_gap_ns = max(self.max_gap_ns, waited)
        if waited < self.threshold_ns:
            self.flowing_ns += arrival.at_ns - last_ns
            self.flowing_gap_count += 1
            self._share = self.flowing
            return None
        kind = next(iter(arrival.kinds), None)
        gap = self._gap(waited, arrival.keepalives, last_ns, kind, is_open=False)
        self.stall_ns += waited
        self.stall_gap_count += 1
        self.stall_count += self._share is not self.resuming
        self._share = self.resuming
        self._keep(gap)
        return gap

    def _gap(
        self,
        waited_ns: int,
        keepalives: int,
        from_ns: int,
        next_kind: ContentKind | None,
        *,
        is_open: bool,
    ) -> Gap:
        after = self.chunk_count - 1
        return Gap(waited_ns, -after, from_ns, self.characters, keepalives, next_kind, is_open)

    def _keep(self, gap: Gap) -> None:
        if len(self._longest) < MOST_STALLS:
            heappush(self._longest, gap)
        else:
            heappushpop(self._longest, gap)

    def open_gap(self, waited_ns: int, keepalives: int) -> Gap | None:
        """Give the gap after the last arrival if it is stalled.

        Args:
            waited_ns: the time waited in it.
            keepalives: events and comments without content that came in it.
        """
        if self.last_ns is None or waited_ns < self.threshold_ns:
            return None
        return self._gap(waited_ns, keepalives, self.last_ns, None, is_open=True)

    def longest(self, still_open: Gap | None) -> Iterable[Gap]:
        """Give the longest stalled gaps, in the order of the stream; *still_open* competes."""
        gaps = [*self._longest, still_open] if still_open is not None else self._longest
        return sorted(sorted(gaps, reverse=True)[:MOST_STALLS], key=lambda gap: gap.from_ns)
