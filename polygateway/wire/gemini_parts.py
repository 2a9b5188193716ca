"""The parts of an answer as Gemini sent them, kept for the next prompt."""

# A signature must go back in the part in which it came, no two parts made one, and newer models
# refuse function calls without theirs (ai.google.dev, Thought signatures). What the API's own tools
# did and drew goes back as well: it is part of what the model said.
#
# A message has its text and its calls where all wires have them, so a number stands for them here:
# {"text": 12} is a part with its next 12 characters, {"functionCall": 0} one with its first call.
# All that counts only while the message says what the model said.

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .conversation import Text
from .halves import Halves
from .jsontext import as_count, as_json, as_object, as_objects, as_text, from_json
from .opaque import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..messages import JSON
    from .answer import Answer
    from .conversation import Assistant, Call

SIGNATURE = "thoughtSignature"


@attrs.define
class _Held:
    """A part whose text or call the message holds."""

    name: str
    number: int
    signature: str = ""

    def as_json(self) -> JSON:
        signed = {SIGNATURE: self.signature} if self.signature else {}
        return {self.name: self.number, **signed}


class KeptParts:
    """Collects the parts of one answer."""

    def __init__(self, answer: Answer, source: Mapping[str, JSON]) -> None:
        """Begin with none.

        Args:
            answer: theirs.
            source: where it comes from, and they alone can go back to.
        """
        self._answer = answer
        self._source = source
        # Nothing is weighed for a stretch of text or a call: the answer does it for each call, and
        # between two stretches is something else.
        self._parts: list[_Held | str] = []  # JSON of those that the message cannot hold
        self._last_call: _Held | None = None
        self._is_needed = False

    def take_text(self, part: Mapping[str, JSON], text: str) -> None:
        """Take a part with a text, or with nothing but a signature.

        Args:
            part: the part.
            text: what the answer got of it.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        signature = signature_in(part)
        last = self._parts[-1] if self._parts else None
        if part.get("thought") is True:
            if signature:  # what the model thought is wanted only for what it signed
                self.take_whole({"text": text, "thought": True, SIGNATURE: signature})
        elif signature:
            self._answer.weigh(signature, begins=True)
            self._parts.append(_Held("text", len(text), signature))
            self._is_needed = True
        elif isinstance(last, _Held) and last.name == "text" and not last.signature:
            last.number += len(text)
        elif text:
            self._parts.append(_Held("text", len(text)))

    def take_call(self, index: int, part: Mapping[str, JSON]) -> None:
        """Take a part with a call, or with a piece of the last one.

        Args:
            index: the call's among those of the answer.
            part: the part.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        signature = signature_in(part)
        if self._last_call is None or self._last_call.number != index:
            self._last_call = _Held("functionCall", index)
            self._parts.append(self._last_call)
        if signature and not self._last_call.signature:
            self._answer.weigh(signature)
            self._last_call.signature = signature
        has_id = bool(as_object(part.get("functionCall")).get("id"))
        self._is_needed = self._is_needed or has_id or bool(signature)

    def take_whole(self, part: Mapping[str, JSON]) -> None:
        """Take a part that the message cannot hold.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        text = Halves().take(None, as_json(part))
        self._answer.weigh_json(text, begins=True)
        self._parts.append(text)
        self._is_needed = True

    def opaque(self) -> Mapping[str, JSON] | None:
        """Give what the message must hold besides; ``None`` if that would tell nothing."""
        if not self._is_needed:
            return None
        said = [(call.name, call.arguments) for call in self._answer.calls(ended=True)]
        parts: list[JSON] = [
            from_json(part) if isinstance(part, str) else part.as_json() for part in self._parts
        ]
        return {**self._source, "of": fingerprint(self._answer.text("text"), said), "parts": parts}


def signature_in(part: Mapping[str, JSON]) -> str:
    """Give the signature of a part; empty if it has none. It is base64."""
    signature = as_text(part.get(SIGNATURE))
    return signature if signature.isascii() else ""


def restored(
    turn: Assistant, source: Mapping[str, JSON], said: Callable[[Call], Mapping[str, JSON]]
) -> list[dict[str, JSON]] | None:
    """Give the parts of which *turn* consisted.

    ``None`` if nothing was kept of them, if it was edited since, or if it comes from elsewhere.

    Args:
        turn: what a model said.
        source: where the parts shall go; empty for anywhere.
        said: gives a call as Gemini has it.
    """
    text = "".join(part.text for part in turn.parts if isinstance(part, Text))
    calls = [(call.name, call.arguments) for call in turn.calls]
    kept = turn.opaque or {}
    is_same = kept.get("of") == fingerprint(text, calls) and source.items() <= kept.items()
    if not is_same or not all(isinstance(part, Text) for part in turn.parts):
        return None
    parts: list[dict[str, JSON]] = []
    at = 0
    for part in as_objects(kept.get("parts")):
        length, index = as_count(part.get("text")), as_count(part.get("functionCall"))
        if length is not None:
            parts.append({**part, "text": text[at : at + length]})
            at += length
        elif index is not None and index < len(calls):
            parts.append({**part, "functionCall": said(turn.calls[index])})
        else:
            parts.append(dict(part))
    is_whole = at == len(text) and sum("functionCall" in part for part in parts) == len(calls)
    return parts if is_whole else None
