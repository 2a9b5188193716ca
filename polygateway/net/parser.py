"""HTTP/1.1 as h11 parses it, with one pass over all the chunks of a body that a read brought."""

# h11 takes some five microseconds for each chunk of a body, and takes each through its machine of
# states, which a piece of a body leaves as it is. Here such pieces skip the machine, and chunks
# that are there as a whole are taken together. All else goes h11's way: heads, sizes with
# extensions, parts of chunks, trailers, and whatever is damaged.
# tests/net/test_parser.py compares the two on whatever bytes, and pins the private names.

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias, cast

import h11
from h11._readers import ChunkedReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from h11._receivebuffer import ReceiveBuffer

    Event: TypeAlias = type[h11.NEED_DATA | h11.PAUSED] | h11.Event

_ALL_SENT = h11.EndOfMessage()

# Seven digits are more than any read holds.
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,7})\r\n")


class Parser(h11.Connection):
    """The client's side of one connection."""

    @property
    def is_used_up(self) -> bool:
        """Whether nothing waits to be parsed."""
        return not self._receive_buffer

    def sends(self, request: h11.Request) -> None:
        """Note that *request* is sent, with all of its body.

        Raises:
            h11.LocalProtocolError: it is not its turn.
        """
        self._process_event(self.our_role, request)
        self._process_event(self.our_role, _ALL_SENT)

    def next_event(self) -> Event:
        """Give the next event as h11 does, but whole chunks that follow each other as one.

        Raises:
            h11.RemoteProtocolError: what came is not HTTP/1.1.
        """
        if self.their_state is h11.SEND_BODY and self._receive_buffer:
            return self._next_of_body()
        return super().next_event()

    def _next_of_body(self) -> Event:
        try:
            event = self._reader_of_body()(self._receive_buffer)
        except h11.LocalProtocolError as error:
            self._process_error(self.their_role)
            hint = error.error_status_hint
            raise h11.RemoteProtocolError(str(error), error_status_hint=hint) from error
        if isinstance(event, h11.Data):
            return event
        if event is None:  # More is needed: h11 knows how much may be, and whether it can come.
            return super().next_event()
        self._process_event(self.their_role, event)
        return event

    def _reader_of_body(self) -> Callable[[ReceiveBuffer], h11.Event | None]:
        if type(self._reader) is ChunkedReader:  # h11's, which nothing was read with yet
            self._reader = _Chunks()
        return cast("Callable[[ReceiveBuffer], h11.Event | None]", self._reader)


class _Chunks(ChunkedReader):
    """Reads a chunked body."""

    def __call__(self, buffer: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        if not (self._bytes_in_chunk or self._reading_trailer):
            whole = self._take_whole(buffer)
            if whole:
                return h11.Data(data=whole, chunk_start=True, chunk_end=True)
        return super().__call__(buffer)

    def _take_whole(self, buffer: ReceiveBuffer) -> bytes:
        """Take the chunks that are whole and plain, up to the first that is not."""
        waiting, before = bytes(buffer), self._bytes_to_discard
        if not waiting.startswith(before):
            return b""
        chunks: list[bytes] = []
        end = len(before)
        while (size := _SIZE.match(waiting, end)) is not None:
            start = size.end()
            stop = start + int(size[1], 16)
            if stop == start or not waiting.startswith(b"\r\n", stop):
                break
            chunks.append(waiting[start:stop])
            end = stop + 2
        if chunks:
            buffer.maybe_extract_at_most(end)
            self._bytes_to_discard = b""
        return b"".join(chunks)
