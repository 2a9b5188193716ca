"""The reads of one attempt, and the content that came with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from ..stats import ContentKind
from ..trace import Arrival
from .latency import LEARNED_NS
from .recording import Recording
from .tally import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..messages import Chunk
    from .tally import Gap

MOST_SILENCES = 16
"""Silences that are kept of one attempt: a stream that trickles must not outvote all the others."""

_ALONE: Mapping[str, tuple[ContentKind, ...]] = {kind: (kind,) for kind in get_args(ContentKind)}


class Timeline:
    """Follows the reads of one attempt, which must come in order.

    A read is told when it has returned; then, if its bytes completed content, so is that. Times
    are integer nanoseconds of one monotonic clock.
    """

    def __init__(self, started_ns: int, threshold_ns: int, *, keeps: bool = False) -> None:
        """Begin at *started_ns*.

        Args:
            started_ns: when the attempt started.
            threshold_ns: a gap in which at least so long was waited is stalled; over 0.
            keeps: whether the arrivals are kept one by one, for a :class:`Trace`.
        """
        self.started_ns: int = started_ns
        self.tally: Tally = Tally(threshold_ns)
        self.arrived_ns: int = 0
        """Stamp of the latest read; 0 before the first."""

        self.waited_ns: int = 0
        """Time waited in reads since the last content, or since the start."""

        self.silences: list[int] = []
        """What was waited in each gap, in their order, that lasted long enough for learning."""

        self.recording: Recording | None = Recording() if keeps else None
        """The arrivals; ``None`` unless they are kept."""

        self._keepalives = 0  # up to the latest read
        self._keepalives_before = 0  # up to the last one with content
        self._same_read = False

    @property
    def first_ns(self) -> int | None:
        """Stamp of the first content; ``None`` before it."""
        return self.tally.first_ns

    @property
    def last_ns(self) -> int | None:
        """Stamp of the last content; ``None`` before the first."""
        return self.tally.last_ns

    @property
    def chunk_count(self) -> int:
        """Content chunks up to now."""
        return self.tally.chunk_count

    @property
    def keepalives(self) -> int:
        """Events and comments without content since the last content, or since the start."""
        return self._keepalives - self._keepalives_before

    def read(self, asked_ns: int, arrived_ns: int, late_ns: int = 0) -> None:
        """Take a read of the socket, whatever it brought.

        Args:
            asked_ns: when it was begun.
            arrived_ns: when it returned.
            late_ns: how much of that time our own event loop was late, and the provider was not.
        """
        self.waited_ns += arrived_ns - asked_ns - late_ns
        self.arrived_ns = arrived_ns
        self._same_read = False

    def alive(self, keepalives: int) -> None:
        """Take how many events and comments without content have come in all.

        To be told after the content of the same read: what comes together with content, or with
        the end, is no sign of life in a silence.
        """
        self._keepalives = keepalives
        if self._same_read:
            self._keepalives_before = keepalives

    def content(self, count: int, chunks: Sequence[Chunk], output_tokens: int | None) -> Gap | None:
        """Take the content that the latest read completed; give the stalled gap that it closed.

        Args:
            count: content chunks, as the figures count them; at least 1.
            chunks: what they gave the application.
            output_tokens: tokens that the wire has counted up to now; ``None`` if it has not.
        """
        arrival = Arrival(
            self.arrived_ns,
            self.waited_ns,
            self.keepalives,
            count,
            *_content_of(chunks),
            output_tokens,
        )
        if self.waited_ns >= LEARNED_NS:
            self._keep_silence()
        self.waited_ns = 0
        self._keepalives_before = self._keepalives
        joins, self._same_read = self._same_read, True
        gap = None
        if joins:
            self.tally.join(arrival)
        else:
            gap = self.tally.take(arrival)
        if self.recording is not None:
            self._keep(self.recording, arrival, chunks, joins=joins)
        return gap

    def _keep_silence(self) -> None:
        # What came before the first content was no silence.
        if self.chunk_count and len(self.silences) < MOST_SILENCES:
            self.silences.append(self.waited_ns)

    def _keep(
        self, recording: Recording, arrival: Arrival, chunks: Sequence[Chunk], *, joins: bool
    ) -> None:
        if arrival.output_tokens is not None and not self.tally.counts_tokens:
            # Counts that fell within a read must not look whole again in what is kept of it.
            arrival = arrival._replace(output_tokens=None)
        if joins:
            recording.extend(arrival, chunks)
        else:
            recording.add(arrival, chunks)


def _content_of(chunks: Sequence[Chunk]) -> tuple[int, tuple[ContentKind, ...]]:
    """Give how many characters are in *chunks*, and of what kinds, each once, in order."""
    if len(chunks) == 1:  # as in most reads
        chunk = chunks[0]
        return len(chunk.delta), _ALONE[chunk.kind]
    kinds: dict[ContentKind, None] = {kind: None for chunk in chunks for kind in _ALONE[chunk.kind]}
    return sum([len(chunk.delta) for chunk in chunks]), tuple(kinds)
