"""The content blocks of an answer on Anthropic's wire, kept so that they can go back unchanged.

Thinking is signed, what the server's own tools found is encrypted, and either is refused unless it
comes back as it was and in its place (Anthropic's page on extended thinking).
"""

# Theory of operation
#
# 1. Nothing is kept twice. A block of text or thinking is a span of what the answer has anyway, a
#    tool_use block has its input there. What else a block holds is kept as JSON text, an object a
#    line: parsed, a hostile one could take twenty times its bytes.
# 2. All of it counts against the answer's limit, and so does every block but the first.
# 3. A block belongs to one of three slots: text, thinking, everything else. In the first two only
#    the last block is open, so that they are spans: a piece for an earlier one begins a new block.
#    Blocks of the third slot are found by their index, whatever their order.

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import attrs

from .jsontext import as_json, as_object, as_objects, as_text, from_json
from .malformed import Malformed, excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..messages import JSON
    from .answer import Answer, TextKind

_KINDS: Mapping[str, TextKind] = {"text": "text", "thinking": "reasoning"}

# What the answer keeps of a block. The rest, if there is any, only the provider understands.
_IN_ANSWER: Mapping[str, Sequence[str]] = {
    "text": ("type", "text"),
    "thinking": ("type", "thinking"),
    "tool_use": ("type", "id", "name", "input"),
}

# The last one: the model itself made the call. Anthropic says so of every ordinary call.
_SAY_NOTHING: Sequence[JSON] = (None, "", [], {}, {"type": "direct"})

# Deltas of what only the provider understands: the type of their block.
_OWNERS: Mapping[str, str] = {
    "citations_delta": "text",
    "signature_delta": "thinking",
    "compaction_delta": "compaction",
}


@attrs.define(eq=False)
class Block:
    """One block."""

    type: str
    number: int
    """Its place among the blocks."""

    index: int | None
    """What the wire calls it by; ``None`` if it does not say."""

    id: str
    name: str

    start: int
    """Of text and thinking: where it begins in the answer's text of its kind."""

    end: int
    """Likewise, where it ends."""

    rest: StringIO = attrs.field(factory=StringIO)
    """What the answer does not keep of it: a JSON object a line; of a field the last one stands."""

    input: StringIO = attrs.field(factory=StringIO)
    """The input of one of the server's own tools, as far as it came in pieces."""

    is_whole: bool = False
    """Whether its input came with its beginning, so that pieces would be a second one."""

    @property
    def kind(self) -> TextKind | None:
        """The kind of text that it is; ``None`` if it is none."""
        return _KINDS.get(self.type)

    @property
    def is_opaque(self) -> bool:
        """Whether anything in it is not in the answer."""
        return self.type not in {"text", "tool_use"} or self.rest.tell() > 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing came of it: text without a character, thinking without a signature."""
        is_blank = self.kind is not None and self.start == self.end and not self.rest.tell()
        return is_blank or not self.type


class Blocks:
    """The blocks of one answer."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._all: list[Block] = []
        self._last: dict[str, Block] = {}  # by slot
        self._others: dict[int | None, Block] = {}  # of the third slot, by index
        self._lengths: dict[TextKind, int] = {"text": 0, "reasoning": 0}

    # ---- what comes -----------------------------------------------------------------------------

    def begin(self, index: int | None, fields: Mapping[str, JSON]) -> Block:
        """Begin a block with all that it holds but text and thinking: see :meth:`extend`.

        Args:
            index: what the wire calls it by; ``None`` if it does not say.
            fields: what it holds at its beginning.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        type_ = as_text(fields.get("type"))
        self._answer.weigh(begins=bool(self._all))
        at = self._lengths[_KINDS.get(type_, "text")]
        block = Block(
            type=type_,
            number=len(self._all),
            index=index,
            id=as_text(fields.get("id")),
            name=as_text(fields.get("name")),
            start=at,
            end=at,
        )
        self._all.append(block)
        self._last[_slot(type_)] = block
        if block.kind is None:
            self._others[index] = block
        self._keep(block, _beyond_answer(fields, type_))
        return block

    def at(self, index: int | None, type: str) -> Block:
        """Give the block that a delta for *type* belongs to; begin it if there is none.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        last = self._last.get(_slot(type))
        if last is not None and index not in {None, last.index}:
            last = None if type in _KINDS else self._others.get(index)
        return last or self.begin(index, {"type": type})

    def extend(self, block: Block, piece: str) -> None:
        """Note a piece that was added to the answer's text, or that is input of the server's tools.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        if block.kind is None:
            self._answer.weigh(piece)
            block.input.write(piece)
        else:
            self._lengths[block.kind] += len(piece)
            block.end = self._lengths[block.kind]

    def keep(self, index: int | None, delta: Mapping[str, JSON]) -> None:
        """Keep a delta of what only the provider understands; other deltas are passed over.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        owner = _OWNERS.get(as_text(delta.get("type")))
        said = dict(_without(delta, ("type", "citation")))
        if citation := as_object(delta.get("citation")):
            said["citations"] = [citation]
        if owner and said:
            self._keep(self.at(index, owner), said)

    def _keep(self, block: Block, fields: Mapping[str, JSON]) -> None:
        if fields:
            line = f"{as_json(fields)}\n"
            self._answer.weigh_json(line)
            block.rest.write(line)

    # ---- what goes back -------------------------------------------------------------------------

    def opaque(self) -> Sequence[JSON] | None:
        """Give all blocks as they must go back; ``None`` if the answer has all that is in them."""
        kept = [block for block in self._all if not block.is_empty]
        if not any(block.is_opaque for block in kept):
            return None
        texts: Mapping[TextKind, str] = {kind: self._answer.text(kind) for kind in self._lengths}
        try:
            content = [self._whole(block, texts) for block in kept]
            as_json(content).encode()
        except ValueError:  # a call that is no object, half a character: what no request can say
            return None
        return content

    def _whole(self, block: Block, texts: Mapping[TextKind, str]) -> Mapping[str, JSON]:
        whole: dict[str, JSON] = {"type": block.type}
        if block.kind is not None:
            whole[block.type] = texts[block.kind][block.start : block.end]
        if block.type == "thinking":
            # Who does not sign wants the field all the same (opencode#44713).
            whole["signature"] = ""
        if block.type == "tool_use":
            arguments = self._answer.arguments(block.number)
            whole |= {"id": block.id, "name": block.name, "input": _input(arguments)}
        _merge(whole, block.rest.getvalue())
        if pieces := block.input.getvalue():
            whole["input"] = _input(pieces)
        return whole


def _slot(type: str) -> str:
    return type if type in _KINDS else ""


def _beyond_answer(fields: Mapping[str, JSON], type: str) -> Mapping[str, JSON]:
    names = _IN_ANSWER.get(type)
    return fields if names is None else _without(fields, names)


def _without(fields: Mapping[str, JSON], names: Sequence[str]) -> Mapping[str, JSON]:
    """Give what *fields* say under other names than *names*."""
    return {
        name: value
        for name, value in fields.items()
        if name not in names and value not in _SAY_NOTHING
    }


def _merge(whole: dict[str, JSON], lines: str) -> None:
    """Add to a block what is kept of it, in the order in which it came."""
    citations: list[JSON] = []
    for line in lines.split("\n")[:-1]:
        fields = as_object(from_json(line))
        citations += as_objects(fields.get("citations"))
        whole |= fields
    if whole["type"] == "text" and citations:
        whole["citations"] = citations


def _input(text: str) -> Mapping[str, JSON]:
    """Give the object that the pieces of an input make; none at all make an empty one.

    Raises:
        Malformed: they make none.
    """
    value: JSON = from_json(text) if text.strip() else {}
    if isinstance(value, dict):
        return value
    raise Malformed(f"no object: {excerpt(text)!r}")
