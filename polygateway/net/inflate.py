"""Undoing content codings as the bytes arrive, in pieces of bounded size."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from ..wire.malformed import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = 16 * 1024
"""How many bytes of a body are given at once. What takes them, events of three bytes at worst,
keeps everybody else waiting meanwhile; and a few kilobytes can inflate to a thousand times as many.
"""

# Window sizes of zlib.decompressobj: 31 reads gzip, 15 zlib's format, which is what HTTP calls
# "deflate" (RFC 9110, section 8.4.1.2).
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class CodingError(Exception):
    """The body is not what its content-encoding says."""


class Inflater:
    """Undoes one content coding.

    Raises:
        CodingError: the coding is not one that can be undone here.
    """

    def __init__(self, coding: str) -> None:
        if coding not in _WINDOWS:
            shown = excerpt(coding)
            raise CodingError(f"content-encoding {shown!r} was not asked for and is not known")
        self._coding = coding
        self._member = zlib.decompressobj(_WINDOWS[coding])

    def feed(self, data: bytes, *, last: bool) -> Iterator[bytes]:
        """Take bytes of the body and give what they mean, in pieces of at most 16 KiB.

        Args:
            data: the next bytes.
            last: whether they are the last ones.

        Raises:
            CodingError: the bytes are damaged, or end too early.
        """
        more = bool(data)
        while more:
            if self._member.eof:
                # A gzip body is a series of members (RFC 1952, section 2.2).
                self._member = zlib.decompressobj(_WINDOWS[self._coding])
            piece = self._inflate(data)
            data = self._member.unused_data or self._member.unconsumed_tail
            more = bool(data) or (len(piece) == AT_ONCE and not self._member.eof)
            if piece:
                yield piece
        if last and not self._member.eof:
            raise CodingError(f"the {self._coding} body ended before its coding did")

    def _inflate(self, data: bytes) -> bytes:
        try:
            return self._member.decompress(data, AT_ONCE)
        except zlib.error as error:
            raise CodingError(f"the {self._coding} body is damaged: {error}") from error
