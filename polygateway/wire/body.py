"""The body of a reply with status 200: a stream of events or values, or one document after all.

How it begins tells what it is. The content type decides only where that leaves it open: servers
label streams as plain text, and answer a request for a stream with a whole JSON reply, or with a
page of some proxy's (qwen-code#6465). On wires that stream bare JSON, which begins like a document,
the dialect says so.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from .json_stream import JSONStream
from .malformed import Malformed, excerpt
from .sse import BOM, Event, SSEDecoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..policies import Limits

# What the first line of a stream can begin with, and a page or a JSON document cannot.
_STREAM_MARKS = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")

_EXCERPT_BYTES = 500


class _Kind(enum.Enum):
    UNKNOWN = enum.auto()
    STREAM = enum.auto()
    DOCUMENT = enum.auto()


class Body:
    """Cuts one body into events; a document becomes a single event when it ends."""

    def __init__(self, content_type: str, limits: Limits, *, streams_json: bool) -> None:
        """Prepare for one body.

        Args:
            content_type: the response's.
            limits: on its size.
            streams_json: whether bare JSON is a stream of values rather than a document.
        """
        self._content_type = content_type
        self._kind = _Kind.UNKNOWN
        self._most = limits.max_body_bytes
        self._held = bytearray()  # all of a document, or what came before the kind was known
        self._head = b""  # the same from its first byte that is no white space, while unknown
        self._events = SSEDecoder(limits.max_event_bytes)
        self._stream: SSEDecoder | JSONStream = self._events
        self._values = JSONStream(limits.max_event_bytes) if streams_json else None

    @property
    def is_document(self) -> bool:
        """Whether this is no stream: its end is the end of the transport."""
        return self._kind is _Kind.DOCUMENT

    @property
    def keepalives(self) -> int:
        """Comments seen up to now."""
        return self._stream.keepalives

    @property
    def stray(self) -> str:
        """The beginning of the last line that belongs to no event; empty if there was none."""
        return self._events.stray

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take the bytes of one read and give the events that they completed.

        Nothing is decoded until it is asked for: iterate to the end before the next call.

        Raises:
            Malformed: it is neither a stream nor a document, or a damaged or too large one.
        """
        if self._kind is _Kind.STREAM:
            return self._stream.feed(data)
        self._held += data
        if self._kind is _Kind.UNKNOWN:
            self._head = self._head + data if self._head else data.lstrip()
            self._kind = self._recognise()
            if self._kind is _Kind.STREAM:
                held, self._held = bytes(self._held), bytearray()
                return self._stream.feed(held)
        if len(self._held) > self._most:
            raise Malformed(
                f"a reply that is no stream has over {self._most} bytes (limits.max_body_bytes)"
            )
        return iter(())

    def close(self) -> Event | None:
        """Give the document, or the event that the stream's end cut, if there is one.

        Raises:
            Malformed: it is neither a stream nor a document, or no UTF-8.
        """
        if self._kind is _Kind.STREAM:
            return self._stream.close()
        if self._kind is _Kind.UNKNOWN:
            if self._head:
                raise self._neither()
            return None
        held, self._held = self._held, bytearray()  # not held while its values are
        try:
            return Event("", held.decode().removeprefix("\ufeff"))
        except UnicodeDecodeError as error:
            raise Malformed(f"not UTF-8: {error.reason} at byte {error.start}") from None

    def _recognise(self) -> _Kind:
        head = self._head.removeprefix(BOM).lstrip()
        if head[:1] in {b"{", b"["}:
            if self._values is None:
                return _Kind.DOCUMENT
            self._stream = self._values
            return _Kind.STREAM
        if not head:
            self._head = self._head[: len(BOM)]  # what is white behind it is not looked at again
            return _Kind.UNKNOWN
        if BOM.startswith(head):
            return _Kind.UNKNOWN
        if head.startswith(_STREAM_MARKS) or (self._is_declared_stream() and head[:1] != b"<"):
            return _Kind.STREAM
        if len(head) >= _EXCERPT_BYTES:
            raise self._neither()
        return _Kind.UNKNOWN

    def _is_declared_stream(self) -> bool:
        return self._content_type.partition(";")[0].strip().lower() == "text/event-stream"

    def _neither(self) -> Malformed:
        head = self._head.removeprefix(BOM).lstrip()
        text = head[:_EXCERPT_BYTES].decode(errors="replace")
        return Malformed(
            f"neither a stream of events nor JSON, but {excerpt(self._content_type) or 'untyped'}:"
            f" {excerpt(text)!r}"
        )
