"""The recorded timeline of one attempt: from it, and from nothing else, its figures follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import attrs

from .stats import ContentKind, EndKind
from .usage import Usage

# What recording may cost in memory, whatever a provider sends: some 50 MB.
MOST_ARRIVALS = 100_000
"""Arrivals that are kept of one attempt; see ``Trace.dropped``."""

ReplyForm = Literal["stream", "document", "choices"]
"""``stream``: one answer, piece by piece. ``document``: a reply that is no stream. ``choices``:
several answers in one stream. Only the first can be timed.
"""


class Arrival(NamedTuple):
    """A read that completed content. All of it came at one instant."""

    at_ns: int
    """When the read returned."""

    waited_ns: int
    """Time waited for the provider since the content before, or since the start."""

    keepalives: int
    """Events and comments without content since the content before."""

    chunk_count: int
    """Content chunks that it completed, at least 1."""

    characters: int
    """Characters in them."""

    kinds: tuple[ContentKind, ...]
    """Their kinds, each once, in the order in which they came. Empty if they belong to a choice
    that is not kept.
    """

    output_tokens: int | None
    """Output tokens that the wire had counted by then; ``None`` if it had not."""


class Piece(NamedTuple):
    """What a :class:`Chunk` brought."""

    kind: ContentKind
    length: int
    """Characters."""

    text: str | None = None
    """The characters themselves; ``None`` where they were not kept."""


@attrs.frozen(kw_only=True)
class Trace:
    """All that the figures of one attempt are made of. Times are nanoseconds of one clock."""

    attempt: int
    """Index of the attempt."""

    started_ns: int
    ended_ns: int
    sent_ns: int | None
    """When the last byte of the request was written; ``None`` if it was not."""

    headers_ns: int | None
    """When the head of the response was complete; ``None`` if none came."""

    threshold_ns: int
    """A gap in which at least so long was waited is stalled."""

    arrivals: Sequence[Arrival]
    pieces: Sequence[Sequence[Piece]]
    """What each arrival brought."""

    waited_ns: int
    """Time waited since the last content, or since the start."""

    keepalives: int
    """Events and comments without content since then."""

    end_kind: EndKind
    form: ReplyForm
    usage: Usage

    dropped: int = 0
    """Arrivals that were not kept, because there were over 100,000. Unless it is 0, figures cannot
    be had from this trace.
    """
