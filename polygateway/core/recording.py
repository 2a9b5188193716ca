"""The arrivals of one attempt, kept one by one for a trace."""

# What is kept lies in flat lists of numbers and texts. An object for each arrival and each chunk
# would be simpler, but the garbage collector looks at every object that can hold others, again and
# again as their number grows, and nothing else in a call makes so many: that alone cost more than
# all the rest of the recording.

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

from ..trace import MOST_ARRIVALS, Arrival, Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..messages import Chunk, ChunkKind

_FIELDS = len(Arrival._fields)

# The classes themselves are called through Python, and that is most of what making them costs.
_new = cast("Callable[[type[object], object], object]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType] - typeshed leaves it open
_as_arrival = cast("Callable[[object], Arrival]", partial(_new, Arrival))
_as_piece = cast("Callable[[object], Piece]", partial(_new, Piece))


class Recording:
    """Keeps what arrives, up to a bound."""

    def __init__(self) -> None:
        self.dropped: int = 0
        """Arrivals that were too many to be kept."""

        self._arrivals: list[object] = []
        """The fields of each arrival, one arrival after the other."""

        self._piece_counts: list[int] = []
        """How many pieces each arrival brought."""

        self._kinds: list[ChunkKind] = []
        self._texts: list[str] = []
        """Of each piece, whatever arrival brought it."""

    def add(self, arrival: Arrival, chunks: Sequence[Chunk]) -> None:
        """Keep an arrival, and the chunks that it brought."""
        if len(self._piece_counts) == MOST_ARRIVALS:
            self.dropped += 1
            return
        self._arrivals += arrival
        self._piece_counts.append(len(chunks))
        self._add_pieces(chunks)

    def extend(self, arrival: Arrival, chunks: Sequence[Chunk]) -> None:
        """Add to the last arrival what came with the same read."""
        if self.dropped:
            return
        last = Arrival._make(self._arrivals[-_FIELDS:])
        self._arrivals[-_FIELDS:] = last._replace(
            chunk_count=last.chunk_count + arrival.chunk_count,
            characters=last.characters + arrival.characters,
            kinds=tuple(dict.fromkeys((*last.kinds, *arrival.kinds))),
            output_tokens=arrival.output_tokens,
        )
        self._piece_counts[-1] += len(chunks)
        self._add_pieces(chunks)

    def _add_pieces(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            self._kinds.append(chunk.kind)
            self._texts.append(chunk.delta)

    def arrivals(self) -> Sequence[Arrival]:
        """Give the arrivals that were kept."""
        fields = iter(self._arrivals)
        return tuple(map(_as_arrival, zip(*[fields] * _FIELDS, strict=True)))

    def pieces(self) -> Sequence[Sequence[Piece]]:
        """Give what each of them brought."""
        texts = self._texts
        pieces = map(_as_piece, zip(self._kinds, map(len, texts), texts, strict=True))
        counts = self._piece_counts
        if len(counts) == len(texts) and min(counts, default=1) == 1:
            return tuple(zip(pieces, strict=True))  # one each, as in most streams
        return tuple([tuple(islice(pieces, count)) for count in counts])
