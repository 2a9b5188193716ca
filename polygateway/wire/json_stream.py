"""JSON values that come one after another: lines of JSON, or the elements of one array."""

# Theory of operation
#
# 1. A value is given as soon as its last bracket came, whether a line feed follows or not, and
#    wherever line feeds are inside it: what is called NDJSON is also written over several lines.
# 2. Where the first byte is the bracket of an array, the values are its elements, and its own end
#    is given as ARRAY_END: on Gemini's wire that is the proper end of an answer.
# 3. What is no object and no array at the place of a value goes to the end of its line, to be
#    refused by whoever reads it as JSON: an HTML page, a proxy's apology.
# 4. A line that ends inside a string damages the value, which JSON forbids: else its end would be
#    sought in all that follows.
# 5. Brackets are only counted, wherever strings do not hold them: whether they match, and whether
#    the rest is JSON, is found when the value is read.
# 6. Every byte is looked at a fixed number of times, however small the reads, and what is kept
#    never exceeds ``max_event_bytes`` by more than the last read.

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from .malformed import Malformed
from .sse import BOM, Event

if TYPE_CHECKING:
    from collections.abc import Iterator

ARRAY_END = Event("", "]")
"""Stands for the bracket that closes an array of values."""

_BRACKETS = frozenset(b"{[")
_LINE_END = re.compile(rb"[\r\n]")

# They match anywhere, and stop at the end of the data or behind what they look for. Possessive, for
# what a pattern could go back to costs many times the bytes that it has passed.
_BETWEEN = re.compile(rb"[\s,]*+")
_TO_BRACKET = re.compile(
    rb'[^"{}\[\]]*+(?:"[^"\\\r\n]*+"[^"{}\[\]]*+)*+'  # what is no bracket, and plain strings
    rb'(?:(?P<open>[{\[]++)|(?P<close>[}\]]++)|(?P<quote>"))?'
)
_TO_QUOTE = re.compile(
    rb'[^"\\\r\n]*+(?:\\.[^"\\\r\n]*+)*+(?:(?P<quote>")|(?P<line_end>[\r\n]))?', re.DOTALL
)


class JSONStream:
    """Decodes one stream of values.

    A byte order mark that it begins with must be whole in the first read.
    """

    keepalives: int = 0
    """There are no comments here."""

    def __init__(self, max_event_bytes: int) -> None:
        self._most = max_event_bytes
        self._position = 0  # in the stream, of the first byte that is held
        self._held = bytearray()
        self._at = 0  # in what is held: everything before has been looked at
        self._depth = 0  # of brackets that are open in the value that is held
        self._in_string = False
        self._begun = False
        self._in_array = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take the bytes of one read and give the values that they completed.

        Nothing is decoded until it is asked for: iterate to the end before the next call.

        Raises:
            Malformed: a limit is exceeded, a line ends inside a string, or the bytes are not UTF-8.
                Nothing can follow.
        """
        self._held += data
        while (event := self._next()) is not None:
            yield event
        self._check_size(len(self._held))

    def close(self) -> Event | None:
        """Give the value that the stream's end cut, if there is one."""
        try:
            return Event("", self._held.decode()) if self._held.strip() else None
        except UnicodeDecodeError:
            return None

    def _next(self) -> Event | None:
        if not self._at and self._skip():
            return ARRAY_END
        if not self._held:
            return None
        in_brackets = self._depth or self._held[0] in _BRACKETS
        end = self._value_end() if in_brackets else self._line_end()
        return None if end is None else self._take(end)

    def _skip(self) -> bool:
        """Drop what stands between values; tell whether it was the array's end."""
        if not self._begun and self._held.startswith(BOM):
            self._drop(len(BOM))
        self._drop_between()
        if not self._begun and self._held:
            self._begun = True
            self._in_array = self._held.startswith(b"[")
            if self._in_array:
                self._drop(1)
                self._drop_between()
        if self._in_array and self._held.startswith(b"]"):
            self._drop(1)
            self._in_array = False
            return True
        return False

    def _value_end(self) -> int | None:
        """Give the end of a bracketed value; ``None`` if it has not come."""
        while self._at < len(self._held):
            if self._in_string:
                if not self._leave_string():
                    return None
            elif (end := self._pass_brackets()) is not None:
                return end
        return None

    def _leave_string(self) -> bool:
        # A backslash that ends the read is not passed: what it escapes has not come.
        found = _match(_TO_QUOTE, self._held, self._at)
        self._at = found.end()
        if found["line_end"]:
            self._check_size(self._at)
            at = self._position + self._at - 1
            raise Malformed(f"a line ends inside a JSON string, at byte {at} of the stream")
        self._in_string = found["quote"] is None
        return not self._in_string

    def _pass_brackets(self) -> int | None:
        """Pass the next brackets, or enter the next string; give the value's end if it is there."""
        found = _match(_TO_BRACKET, self._held, self._at)
        self._at = found.end()
        if found.lastgroup == "open":
            self._depth += len(found["open"])
        elif found.lastgroup == "close":
            closed = len(found["close"])
            if closed >= self._depth:
                end = self._at - closed + self._depth
                self._depth = 0
                return end
            self._depth -= closed
        else:
            self._in_string = found.lastgroup == "quote"
        return None

    def _line_end(self) -> int | None:
        found = _LINE_END.search(self._held, self._at)
        self._at = len(self._held)
        return None if found is None else found.start()

    def _take(self, end: int) -> Event:
        """Give what is held up to *end*."""
        self._check_size(end)
        try:
            event = Event("", self._held[:end].decode())
        except UnicodeDecodeError as error:
            at = self._position + error.start
            raise Malformed(f"not UTF-8: {error.reason} at byte {at} of the stream") from None
        self._drop(end)
        return event

    def _drop_between(self) -> None:
        self._drop(_match(_BETWEEN, self._held, 0).end())

    def _drop(self, count: int) -> None:
        del self._held[:count]
        self._position += count
        self._at = 0

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise Malformed(f"a JSON value has over {self._most} bytes (limits.max_event_bytes)")


def _match(pattern: re.Pattern[bytes], data: bytearray, at: int) -> re.Match[bytes]:
    """Match a pattern that matches anywhere."""
    return cast("re.Match[bytes]", pattern.match(data, at))
