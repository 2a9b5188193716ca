"""What only the provider understands of an answer on OpenAI's chat wire, and how it goes back."""

# Kept of answers that call tools, for there providers demand their own back:
#
# reasoning_details   OpenRouter. It streams a block in fragments of one index, and refuses the
#                     fragments as they came (langchain#36401, agno#8794): they are put together.
# thinking_blocks     LiteLLM: the same without an index, the signature in the last fragment, which
#                     may repeat the text (litellm#29428, open-webui#29860).
# reasoning_content   the text of the reasoning under the name that it came by, unless it came in
# or reasoning        blocks as well. DeepSeek, Moonshot and Zhipu want it back ("Thinking Mode" in
#                     the docs of the first and the last; n8n#29142), the first two also where it is
#                     empty (deepseek-harness, discussion 739).
# extra_content       of a tool call: Gemini's thought signature (its page "Thought Signatures";
#                     pi#6733). LiteLLM puts it into provider_specific_fields.
#
# The dialect is really some twenty wires, and Mistral and Groq refuse a message with a field that
# they do not know (litellm#30835, freellmapi#1070): so these go back only where they came from.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

import attrs

from ..messages import JSON
from .jsontext import as_count, as_json, as_objects, as_text, from_json

if TYPE_CHECKING:
    from ..messages import Message
    from .answer import Answer
    from .opaque import Opaque

BLOCKS = ("reasoning_details", "thinking_blocks")
"""Fields of a message that hold reasoning as a list of blocks."""

TEXTS = ("reasoning_content", "reasoning")
"""Fields of a message that hold reasoning as a text. Only the first means something empty."""

CALL_EXTRAS = ("extra_content", "provider_specific_fields")
"""Fields of a tool call that only the provider understands."""

_KEPT = frozenset({*BLOCKS, *TEXTS})

# The text of a block, by its type. Blocks of other types come whole.
_TEXT_OF = {"reasoning.text": "text", "reasoning.summary": "summary", "thinking": "thinking"}

# What else a block has that comes in fragments. By name, for a provider could fill the memory with
# short ones.
_FIELDS = ("type", "id", "format", "index", "signature")


# ---- from the answer ----------------------------------------------------------------------------


class Kept:
    """What has come up to now."""

    def __init__(self, answer: Answer) -> None:
        """Begin to keep, within the limit of *answer*."""
        self._answer = answer
        self._blocks = {name: _Blocks(answer) for name in BLOCKS}
        self._text_name = ""  # that a text came by
        self._has_empty_text = False

    def take(self, delta: Mapping[str, JSON]) -> None:
        """Keep what is to be kept of a delta, its tool calls apart.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        if _KEPT.isdisjoint(delta):  # nearly all deltas
            return
        for name, blocks in self._blocks.items():
            if pieces := as_objects(delta.get(name)):
                blocks.take(pieces)
        named = (name for name in TEXTS if as_text(delta.get(name)))
        self._text_name = self._text_name or next(named, "")
        self._has_empty_text = self._has_empty_text or delta.get(TEXTS[0]) == ""

    def parts(self, base_url: str) -> Mapping[str, JSON] | None:
        """Give what goes back to *base_url*; ``None`` if there is nothing."""
        extras = self._answer.extras()
        if not extras:
            return None
        message: dict[str, JSON] = {
            name: blocks.whole() for name, blocks in self._blocks.items() if blocks
        }
        text_name = self._text_name or (TEXTS[0] if self._has_empty_text else "")
        if text_name and not message:
            message[text_name] = self._answer.text("reasoning")
        ids = [call.id for call in self._answer.calls(ended=True)]
        calls: list[JSON] = [
            {"index": index, "id": ids[index], "fields": from_json(extra)}
            for index, extra in enumerate(extras)
            if extra
        ]
        if not (message or calls):
            return None
        return {"base_url": base_url.rstrip("/"), "message": message, "tool_calls": calls}


def extra_in(call: Mapping[str, JSON]) -> str:
    """Give what only the provider understands of a tool call, as JSON; empty if nothing.

    Raises:
        Malformed: it is nested too deeply.
    """
    extra = {name: call[name] for name in CALL_EXTRAS if call.get(name)}
    return as_json(extra) if extra else ""


@attrs.define
class _Block:
    """A block whose fragments are still coming. Of its other fields the first that comes stays."""

    kind: str
    index: int | None
    fields: dict[str, JSON] = attrs.field(factory=dict[str, JSON])
    text: StringIO = attrs.field(factory=StringIO)
    length: int = 0

    def new_in(self, piece: Mapping[str, JSON]) -> tuple[str, Mapping[str, JSON]]:
        """Give what *piece* brings that is not there yet: text, and other fields."""
        text_name = _TEXT_OF[self.kind]
        text = as_text(piece.get(text_name))
        if self.kind == "thinking" and piece.get("signature") and self.is_repeated(text):
            text = ""
        fields = {
            name: value
            for name in _FIELDS
            if isinstance(value := piece.get(name), (str, int))
            and value != ""
            and name not in self.fields
        }
        return text, fields

    def is_repeated(self, text: str) -> bool:
        return len(text) == self.length and text == self.text.getvalue()

    def add(self, text: str, fields: Mapping[str, JSON]) -> None:
        self.text.write(text)
        self.length += len(text)
        self.fields.update(fields)

    def whole(self) -> JSON:
        return {**self.fields, _TEXT_OF[self.kind]: self.text.getvalue()}


class _Blocks:
    """The blocks of one field."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        # What comes whole is kept as JSON: read, it can take twenty times the memory.
        self._blocks: list[_Block | str] = []
        self._by_index: dict[tuple[str, int], _Block] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def take(self, pieces: Sequence[Mapping[str, JSON]]) -> None:
        before = self._blocks[-1] if self._blocks else None
        for piece in pieces:
            kind = as_text(piece.get("type"))
            if kind in _TEXT_OF:
                self._take_fragment(piece, kind, before)
            else:
                self._take_whole(piece)
            before = None  # what stands in one event are different blocks

    def _take_whole(self, piece: Mapping[str, JSON]) -> None:
        written = as_json(piece)
        self._answer.weigh_json(written, begins=True)
        self._blocks.append(written)

    def _take_fragment(
        self, piece: Mapping[str, JSON], kind: str, before: _Block | str | None
    ) -> None:
        index = as_count(piece.get("index"))
        known = self._find(kind, index, before)
        block = known or _Block(kind, index)
        text, fields = block.new_in(piece)
        self._answer.weigh(text, as_json(fields), begins=known is None)
        block.add(text, fields)
        if known is None:
            self._blocks.append(block)
            if index is not None:
                self._by_index[kind, index] = block

    def _find(self, kind: str, index: int | None, before: _Block | str | None) -> _Block | None:
        """Give the block that a fragment goes on with; ``None`` if it begins one."""
        if index is not None:
            return self._by_index.get((kind, index))
        is_open = (
            isinstance(before, _Block)
            and (before.kind, before.index) == (kind, None)
            and "signature" not in before.fields
        )
        return before if is_open and isinstance(before, _Block) else None

    def whole(self) -> JSON:
        return [
            from_json(block) if isinstance(block, str) else block.whole() for block in self._blocks
        ]


# ---- into the next request ----------------------------------------------------------------------


def is_of(opaque: Opaque, base_url: str) -> bool:
    """Tell whether *opaque* may go back to *base_url*."""
    return opaque.dialect == "openai-chat" and opaque.parts.get("base_url") == base_url.rstrip("/")


def restored(message: Message, opaque: Opaque) -> Message:
    """Put what was kept back into the message that it was kept of, under what is there."""
    whole = {**message, **_lacking(message, opaque.parts.get("message"))}
    extras = _tables(opaque.parts.get("tool_calls"))
    calls = message.get("tool_calls")
    if extras and isinstance(calls, (list, tuple)):
        whole["tool_calls"] = [_call(call, index, extras) for index, call in enumerate(calls)]
    return whole


def _call(call: JSON, index: int, extras: Sequence[Mapping[str, JSON]]) -> JSON:
    if not isinstance(call, Mapping):
        return call
    name, value = ("id", call["id"]) if call.get("id") else ("index", index)
    extra = next((extra for extra in extras if extra.get(name) == value), None)
    return {**call, **_lacking(call, extra.get("fields"))} if extra else call


def _lacking(there: Mapping[str, JSON], kept: JSON) -> Mapping[str, JSON]:
    if not isinstance(kept, Mapping):
        return {}
    return {name: value for name, value in kept.items() if name not in there}


def _tables(value: JSON) -> Sequence[Mapping[str, JSON]]:
    items = value if isinstance(value, (list, tuple)) else ()
    return [item for item in items if isinstance(item, Mapping)]
