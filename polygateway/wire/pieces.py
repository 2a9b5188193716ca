"""Texts that come in pieces, and the memory that they take.

A limit on what is held must be one on memory: a text of a million letters takes a megabyte, and
four with a single emoji in it.
"""

from __future__ import annotations

import re
from io import StringIO

_BEYOND_LATIN_1 = re.compile("[^\0-\xff]")
_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")


def width_of(text: str) -> int:
    """Give how many bytes each character of *text* takes, which is as many as its widest one."""
    if text.isascii() or not _BEYOND_LATIN_1.search(text):
        return 1
    return 4 if _BEYOND_16_BITS.search(text) else 2


def size_of(text: str) -> int:
    """Give the bytes that the characters of *text* take."""
    return len(text) * width_of(text)


class Pieces:
    """A text whose pieces are still coming."""

    def __init__(self) -> None:
        # Not a list of strings: a million short pieces would cost many times their bytes.
        self._text = StringIO()
        self._width = 1

    def cost(self, piece: str) -> int:
        """Give how many bytes more the text takes with *piece*."""
        if self._width == 1 and piece.isascii():
            return len(piece)
        width = max(self._width, width_of(piece))
        return width * len(piece) + (width - self._width) * self._text.tell()

    def add(self, piece: str) -> None:
        """Append *piece*."""
        self._text.write(piece)
        if not piece.isascii():
            self._width = max(self._width, width_of(piece))

    def whole(self) -> str:
        """Give all pieces as one."""
        return self._text.getvalue()
