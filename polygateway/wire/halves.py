"""Characters that a provider cut in two."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class Halves:
    """Joins characters whose halves come in two pieces of a text.

    JSON writes what is beyond U+FFFF as two halves, and who cuts a text at UTF-16's units, as
    JavaScript does, sends one half with each piece. No half can be encoded: an application that
    printed the piece would fail, and so would the next request that has it in its conversation.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, str] = {}

    def take(self, of: Hashable, piece: str) -> str:
        """Give *piece* with the half that waited for it, without the half at its end.

        A half whose other one does not come is shown as U+FFFD or, at a text's end, left out.

        Args:
            of: the text that it is a piece of.
            piece: as it came; not empty.
        """
        if piece.isascii() and of not in self._waiting:
            return piece
        piece = self._waiting.pop(of, "") + piece
        if "\ud800" <= piece[-1] <= "\udbff":
            self._waiting[of] = piece[-1]
            piece = piece[:-1]
        return _whole(piece)


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
