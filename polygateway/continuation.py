"""What an attempt goes on with: the text that another one had delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.splice import Splice
from .messages import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Continuation:
    """Joins the chunks of an attempt to what was delivered before."""

    def __init__(self, delivered: str, *, may_begin_anew: bool) -> None:
        """Begin behind the text *delivered*.

        Args:
            delivered: what the caller has.
            may_begin_anew: whether an answer from the beginning will do as well.
        """
        self.begins_anew: bool = False
        """Whether the model has begun at the beginning after all, and differently."""

        self._splice = Splice(delivered)
        self._may_begin_anew = may_begin_anew
        self._is_joined = False
        self._waiting: list[Chunk] = []
        """What it has said before it was known whether it goes on, as models that reason do."""

    @property
    def prefix(self) -> str:
        """What the model is shown of its answer."""
        return self._splice.sent

    @property
    def before(self) -> str:
        """The text before that of the attempt; empty if it began anew."""
        return "" if self.begins_anew else self._splice.delivered

    @property
    def withheld(self) -> int:
        """How many characters of the attempt's text are not part of the answer."""
        return 0 if self.begins_anew else self._splice.withheld

    @property
    def is_useless(self) -> bool:
        """Whether the model began anew although only a continuation would do."""
        return self.begins_anew and not self._may_begin_anew

    def joined(self, chunks: Sequence[Chunk], attempt: int, *, ended: bool) -> list[Chunk]:
        """Give what the application is to be given of *chunks*.

        Args:
            chunks: what a read brought.
            attempt: index of the attempt.
            ended: whether they are the last ones.
        """
        said = list(self._pieces(chunks))
        if ended:
            said += self._text(self._splice.close(), attempt)
        self._waiting += said
        if not (self._is_joined or ended or any(each.kind == "text" for each in said)):
            return []
        self._is_joined = True
        given, self._waiting = self._waiting, []
        return given

    def _pieces(self, chunks: Sequence[Chunk]) -> Iterator[Chunk]:
        for chunk in chunks:
            if chunk.kind == "text":
                yield from self._text(self._splice.feed(chunk.delta), chunk.attempt)
            else:
                yield chunk

    def _text(self, text: str, attempt: int) -> Iterator[Chunk]:
        if self._splice.started_over and not self.begins_anew:
            self.begins_anew = True
            text = f"{self._splice.whole}{text}"
        if text:
            yield Chunk("text", text, attempt)
