"""From the reads of one attempt to its figures: what flowed and what stood still."""

# Theory of operation
# ===================
#
# All times are integer nanoseconds of one monotonic clock. Float seconds lose the boundary: a gap
# of exactly 0.3 s would be judged shorter than 0.3 s in four cases of ten.
#
# Rule 1: a read is (asked, arrived): when it was begun and when it returned. All content chunks
#         that its bytes complete share the stamp `arrived`.
# Rule 2: the time waited in a gap between two chunks is the sum of (arrived - asked) over the reads
#         that lie in it. What the gap lasted beyond that, nobody was asking: the consumer's time.
# Rule 3: a gap is stalled when the time waited in it is at least the threshold. Consecutive stalled
#         gaps are one stall. Gaps between chunks of one read are neither: they are passed over.
# Rule 4: nothing before the first chunk or after the last belongs to the generation.
#
# The state is constant in size, so a stream of any length costs the same. Reads must come in order.

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Figures:
    """The figures of one answer, in integer nanoseconds. ``None`` as in :class:`StreamFigures`."""

    chunk_count: int
    generation_ns: int | None
    stall_ns: int | None
    stall_gap_count: int | None
    stall_count: int | None
    active_generation_ns: int | None
    max_gap_ns: int | None


@attrs.define
class Timeline:
    """Follows the reads of one attempt."""

    started_ns: int
    """When the attempt started."""

    threshold_ns: int
    """A gap in which at least so long was waited is stalled; over 0."""

    chunk_count: int = attrs.field(default=0, init=False)
    first_ns: int | None = attrs.field(default=None, init=False)
    """Stamp of the first content chunk; ``None`` before it."""

    last_ns: int | None = attrs.field(default=None, init=False)
    """Stamp of the last content chunk; ``None`` before the first."""

    arrived_ns: int = attrs.field(default=0, init=False)
    """Stamp of the latest read; 0 before the first."""

    waited_ns: int = attrs.field(default=0, init=False)
    """Time waited in reads since the last content chunk, or since the start."""

    _stall_ns: int = attrs.field(default=0, init=False)
    _stall_gap_count: int = attrs.field(default=0, init=False)
    _stall_count: int = attrs.field(default=0, init=False)
    _max_gap_ns: int = attrs.field(default=0, init=False)
    _in_stall: bool = attrs.field(default=False, init=False)
    _same_read: bool = attrs.field(default=False, init=False)

    def read(self, asked_ns: int, arrived_ns: int) -> None:
        """Take a read of the socket, whatever it brought."""
        self.waited_ns += arrived_ns - asked_ns
        self.arrived_ns = arrived_ns
        self._same_read = False

    def content(self, chunks: int) -> None:
        """Take the content chunks that the latest read completed; 0 for none."""
        if not chunks:
            return
        self.chunk_count += chunks
        if self.first_ns is None:
            self.first_ns = self.arrived_ns
        elif not self._same_read:
            self._close_gap(self.waited_ns)
        self.last_ns = self.arrived_ns
        self.waited_ns = 0
        self._same_read = True

    def _close_gap(self, waited_ns: int) -> None:
        self._max_gap_ns = max(self._max_gap_ns, waited_ns)
        stalled = waited_ns >= self.threshold_ns
        if stalled:
            self._stall_ns += waited_ns
            self._stall_gap_count += 1
            self._stall_count += not self._in_stall
        self._in_stall = stalled

    def figures(self) -> Figures:
        """Give the figures of what has been read up to now."""
        if self.chunk_count < 2 or self.first_ns is None or self.last_ns is None:
            return Figures(
                chunk_count=self.chunk_count,
                generation_ns=None,
                stall_ns=None,
                stall_gap_count=None,
                stall_count=None,
                active_generation_ns=None,
                max_gap_ns=None,
            )
        generation = self.last_ns - self.first_ns
        return Figures(
            chunk_count=self.chunk_count,
            generation_ns=generation,
            stall_ns=self._stall_ns,
            stall_gap_count=self._stall_gap_count,
            stall_count=self._stall_count,
            active_generation_ns=generation - self._stall_ns,
            max_gap_ns=self._max_gap_ns,
        )
