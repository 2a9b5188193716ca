"""Server-sent events out of bytes, in whatever split the reads bring them."""

# Theory of operation (https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2)
#
# 1. Bytes are cut into lines at CR, LF and CRLF, and nowhere else: text splitters also cut at
#    U+2028, U+0085 or a form feed, which JSON strings may hold (httpx-sse#34, codex-lb#1010). A CR
#    that ends a read ends its line at once; the LF of the same pair, in the next read, is skipped.
# 2. Only whole lines are decoded, so that no character is cut (aisix#111), and strictly: a
#    replacement character would change the answer in silence (openai-python#2960).
# 3. An empty line ends an event. An event without data is none (openai-python#2722).
# 4. One byte order mark before the first line is dropped (openai-python#3819).
# 5. ``error: {...}`` is not of the standard: older llama.cpp servers report their errors so
#    (coddy-agent#106). It counts as data of an event named ``error``, unless it is no JSON: then it
#    is an unknown field, as what a proxy appends in plain text (agenc-core#2492).
# 6. The lines of an event, with the one being read, may have ``max_event_bytes`` together. What is
#    kept between reads never exceeds that by more than the last read, and every byte is looked at
#    a fixed number of times, however small the reads.
# 7. Comments and unknown fields are skipped undecoded, whatever bytes they hold. The last line with
#    an unknown field is kept: what a proxy appends when it loses its provider looks like one
#    (agenc-core#2492), and says why the answer was cut.

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .malformed import Malformed, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"
"""UTF-8's byte order mark."""

_LF = 0x0A

_STANDARD = (b"id", b"retry")  # besides those that have a meaning here
_STRAY_BYTES = 500

# Of what says an error: an object, or a text.
_JSON_BEGINS = (b"{", b'"')


class Event(NamedTuple):
    """One event of a stream."""

    name: str
    """Its ``event`` field; empty if it had none."""

    data: str
    """Its ``data`` fields, joined by line feeds."""


class SSEDecoder:
    """Decodes one stream."""

    def __init__(self, max_event_bytes: int) -> None:
        self.keepalives: int = 0
        """Comments seen up to now."""

        self._stray = b""
        self._most = max_event_bytes
        self._position = 0  # in the stream, of the first line that is not decoded yet
        self._rest = bytearray()  # the line whose end has not come
        self._after_cr = False

        # The event whose end has not come.
        self._name = ""
        self._data: str | None = None  # its first line of data, by far most often the only one
        self._more = bytearray()  # further lines; bytes, for a list of short strings is large
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take the bytes of one read and give the events that they completed.

        Nothing is decoded until it is asked for: iterate to the end before the next call.

        Raises:
            Malformed: a limit is exceeded, or the bytes are not UTF-8. Nothing can follow.
        """
        # Most reads bring whole events and nothing else.
        if self._rest or self._after_cr or not self._position or not data.endswith(b"\n"):
            data = self._whole_lines(data)
        is_large = self._size + len(data) > self._most
        line, lines = b"", data.splitlines()
        try:
            for line in lines:
                if is_large:
                    self._check_size(line)
                if line:
                    self._field(line)
                elif event := self._end_event():
                    yield event
        except UnicodeDecodeError as error:
            raise self._not_utf8(error, line, lines, data) from None
        self._position += len(data)
        self._check_size(self._rest)

    def close(self) -> Event | None:
        """Give the event that the stream's end cut before its empty line, if there is one.

        The standard discards it. It may yet be whole: some servers do not write the last empty
        line (openai-node#2725). Use it only if its data is complete in itself.
        """
        try:
            if rest := self._without_bom(bytes(self._rest)):
                self._field(rest)
        except UnicodeDecodeError:
            return None
        return self._end_event()

    @property
    def stray(self) -> str:
        """The beginning of the last line that was of no known field; empty if there was none."""
        return excerpt(self._stray.decode(errors="replace"))

    # ---- lines ----------------------------------------------------------------------------------

    def _whole_lines(self, data: bytes) -> bytes:
        """Give the lines which *data* completes, and keep the rest of it."""
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                self._position += 1
                data = data[1:]
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end:
            self._rest += data
            return b""
        whole = bytes(self._rest) + data[:end]
        self._rest = bytearray(data[end:])
        self._after_cr = data.endswith(b"\r")
        return self._without_bom(whole)

    def _without_bom(self, whole: bytes) -> bytes:
        if self._position or not whole.startswith(BOM):
            return whole
        self._position = len(BOM)
        return whole[len(BOM) :]

    def _check_size(self, line: bytes | bytearray) -> None:
        if self._size + len(line) > self._most:
            raise Malformed(
                f"an event or a line of it has over {self._most} bytes (limits.max_event_bytes)"
            )

    def _not_utf8(
        self, error: UnicodeDecodeError, line: bytes, lines: list[bytes], data: bytes
    ) -> Malformed:
        """Say where *line*, one of the *lines* of *data*, is damaged."""
        # Counted only here, for counting costs; by identity, for lines may be equal.
        number = next(i for i, other in enumerate(lines) if other is line)
        start = sum(map(len, data.splitlines(keepends=True)[:number]))
        at = self._position + start + len(line) - len(error.object) + error.start
        return Malformed(f"not UTF-8: {error.reason} at byte {at} of the stream")

    # ---- fields ---------------------------------------------------------------------------------

    def _field(self, line: bytes) -> None:
        if line[:6] == b"data: " and self._data is None:
            self._data = line[6:].decode()  # what nearly every line is, at half the price
            self._size += len(line)
            return
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"event":
            self._name = value.decode()
            self._size += len(line)
        elif name == b"data" or (name == b"error" and value[:1] in _JSON_BEGINS):
            self._add_data(value)
            self._size += len(line)
            if name == b"error":
                self._name = "error"
        elif not name:
            self.keepalives += 1
        elif name not in _STANDARD:
            self._stray = line[:_STRAY_BYTES]

    def _add_data(self, value: bytes) -> None:
        text = value.decode()  # of every line at once, so that an error knows its place
        if self._data is None:
            self._data = text
        else:
            self._more += b"\n"
            self._more += value

    def _end_event(self) -> Event | None:
        """Give the event that an empty line ends, unless it has no data."""
        name, data = self._name, self._data
        if self._more:
            data = f"{data}{self._more.decode()}"
            self._more.clear()
        self._name = ""
        self._data = None
        self._size = 0
        return Event(name, data) if data else None
