"""The output items of one reply on the Responses wire: which is meant, and what of it was given."""

# Theory of operation
#
# 1. An event says which item it belongs to by output_index, by id, by both, or not at all. In
#    llama.cpp's there is no index, and in older versions a delta's item_id is the call's call_id;
#    GitHub Copilot gives every event another id (vercel/ai's fixture github-copilot-id-rotation);
#    the items of codex's tests have neither. So an id that is known decides, then an index that is
#    known; what is left belongs to the last item of its type that has not ended, unless both have
#    names and the names differ; else it begins an item.
# 2. A server says the same text up to five times: in deltas, and whole in the events that end the
#    text, its part, its item and the response. Some leave the deltas out (langchain#37625), some
#    the items of the end (hermes-agent#5689). What was given is known by its length and checksum,
#    for each part, each item and the answer: of a whole only what comes after it is given, and
#    nothing if the whole begins otherwise.
# 3. Whatever is remembered here is weighed against the answer's limit, except for the first item of
#    a type and the first part of an item, which every answer has.

from __future__ import annotations

from collections import defaultdict
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

import attrs

from .answer import TextKind
from .jsontext import as_count, as_json, as_object, as_objects, as_text, from_json
from .openai_responses_request import CALLS, call_item, message_item

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..messages import JSON
    from .answer import Answer

Part: TypeAlias = tuple[TextKind, int]
"""A kind of text, and a position among the item's parts."""


_AT_ONCE = 64 * 1024  # characters that are copied, so that a large text is not


@attrs.define
class Given:
    """How much of a text the application has been given."""

    length: int = 0
    checksum: int = 0

    def add(self, piece: str) -> None:
        """Note that *piece* has been given."""
        self.length += len(piece)
        for at in range(0, len(piece), _AT_ONCE):
            part = piece[at : at + _AT_ONCE].encode("utf-8", "surrogatepass")
            self.checksum = crc32(part, self.checksum)

    def rest(self, texts: Sequence[str]) -> Sequence[str]:
        """Give for each of *texts*, which together are the whole, what is missing of it."""
        if not self.length:
            return texts
        beginning = Given()
        beginning.add("".join(texts)[: self.length])
        if beginning != self:
            return [""] * len(texts)
        rests, given = list[str](), self.length
        for text in texts:
            rests.append(text[given:])
            given = max(0, given - len(text))
        return rests


@attrs.define(eq=False)
class Item:
    """An item that has appeared."""

    type: str
    number: int
    """Its place among all that appeared."""

    has_id: bool = False
    has_index: bool = False
    is_done: bool = False
    given: dict[TextKind | Part, Given] = attrs.field(factory=dict[TextKind | Part, Given])
    arguments: Given = attrs.field(factory=Given)
    """Of a call."""

    is_begun: bool = False
    """Whether the answer has this call, and then whether it has its name."""

    is_named: bool = False
    sources: dict[TextKind, str] = attrs.field(factory=dict[TextKind, str])
    """The sort of events that brings each kind of text: servers that say the same in two sorts
    (halogen-flash-server#67) are heard once.
    """

    def rest(self, key: TextKind | Part, texts: Sequence[str]) -> Sequence[str]:
        """Give what is missing of *texts*, which are the whole of a part or of a kind."""
        return self.given.get(key, Given()).rest(texts)


class Items:
    """All items that have appeared."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._count = 0
        self._by_name: dict[tuple[str, str | int], Item] = {}
        self._by_type: defaultdict[str, list[Item]] = defaultdict(list)

    def of_event(self, type: str, event: Mapping[str, JSON]) -> Item:
        """Give the item of *type* that an event about a part of it belongs to.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        ids, index = _ids(event, "item_id", "call_id"), as_count(event.get("output_index"))
        return self._named(type, ids) or self._at(type, index) or self._adopt(type, ids, index)

    def of_item(self, value: Mapping[str, JSON], index: int | None, *, begins: bool) -> Item:
        """Give the item that *value* is.

        Args:
            value: the item as the wire has it.
            index: its place, as its event says it; ``None`` if it does not.
            begins: whether it is only announced.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        type_, ids = as_text(value.get("type")), _ids(value, "id", "call_id")
        known, at = self._named(type_, ids), self._at(type_, index)
        # A new id at an old place is the same item only while that goes on: there are servers
        # whose index is always 0.
        if known is None and at and not (ids and (begins or at.is_done)):
            known = at
        if known is None:
            return self._adopt(type_, ids, index)
        self._name(known, ids, index)
        return known

    def of_output(self, value: Mapping[str, JSON], nth: int) -> Item:
        """Give the item that *value* is, the *nth* of its type in the output of a response.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        type_, ids = as_text(value.get("type")), _ids(value, "id", "call_id")
        if known := self._named(type_, ids):
            return known
        there = self._by_type[type_]
        if nth < len(there) and not there[nth].has_id:
            return there[nth]
        return self._begin(type_, ids, None)

    def note(self, item: Item, part: Part, piece: str) -> None:
        """Note that a piece of a text has been given.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        kind, index = part
        if index and part not in item.given:
            self._answer.weigh(begins=True)
        for key in (kind, part):
            item.given.setdefault(key, Given()).add(piece)

    def _named(self, type_: str, ids: Sequence[str]) -> Item | None:
        return next((item for id_ in ids if (item := self._by_name.get((type_, id_)))), None)

    def _at(self, type_: str, index: int | None) -> Item | None:
        return None if index is None else self._by_name.get((type_, index))

    def _adopt(self, type_: str, ids: Sequence[str], index: int | None) -> Item:
        """Give the last item if it can be the one, else a new one."""
        there = self._by_type[type_]
        if not there or there[-1].is_done:
            return self._begin(type_, ids, index)
        last = there[-1]
        if (ids and last.has_id) or (index is not None and last.has_index):
            return self._begin(type_, ids, index)
        self._name(last, ids, index)
        return last

    def _begin(self, type_: str, ids: Sequence[str], index: int | None) -> Item:
        there = self._by_type[type_]
        if there:
            self._answer.weigh(begins=True)
        item = Item(type_, self._count)
        self._count += 1
        there.append(item)
        self._name(item, ids, index)
        return item

    def _name(self, item: Item, ids: Sequence[str], index: int | None) -> None:
        for id_ in ids:
            if (item.type, id_) not in self._by_name:
                if item.has_id or item is not self._by_type[item.type][0]:
                    self._answer.weigh(id_, begins=item.has_id)
                self._by_name[item.type, id_] = item
                item.has_id = True
        if index is not None:
            if item.has_index and (item.type, index) not in self._by_name:
                self._answer.weigh(begins=True)
            self._by_name[item.type, index] = item
            item.has_index = True


def _ids(value: Mapping[str, JSON], *names: str) -> list[str]:
    return [id_ for name in names if (id_ := as_text(value.get(name)))]


def texts_in(value: Mapping[str, JSON], source: str) -> Mapping[TextKind, Sequence[str]]:
    """Give the texts of a whole item, part by part.

    Args:
        value: the item.
        source: of a reasoning item, the sort of events that brought it; empty if none did.
    """
    content = as_objects(value.get("content"))
    texts = [as_text(part.get("text")) for part in content]
    if value.get("type") == "message":
        return {"text": texts, "refusal": [as_text(part.get("refusal")) for part in content]}
    if value.get("type") == "reasoning":
        summary = [as_text(part.get("text")) for part in as_objects(value.get("summary"))]
        is_summary = source.startswith("reasoning_summary") if source else not any(texts)
        return {"reasoning": summary if is_summary else texts}
    return {}


# ---- what goes back -----------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Whole:
    """A whole item, without what the answer holds of it."""

    type: str
    raw: str = ""
    """The item itself, as JSON, where only the provider understands it."""

    call_id: str = ""
    text: int = 0
    """How many characters of the answer's text are this message's."""

    refusal: int = 0
    phase: str = ""
    """What the message is to the model: its commentary or its final answer."""


class Output:
    """The whole items of a response, in the order in which they go back."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._wholes: list[_Whole] = []

    def __len__(self) -> int:
        return len(self._wholes)

    def keep(self, value: Mapping[str, JSON], *, is_stored: bool) -> None:
        """Keep a whole item, if it can go back.

        Args:
            value: the item.
            is_stored: whether the provider will know it by its id.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        whole = _whole(value)
        is_reference = whole.type == "reasoning" and not (is_stored or _has_content(value))
        if is_reference or _has_halves(whole.raw):
            return
        self._answer.weigh_json(whole.raw, whole.call_id, whole.phase, begins=bool(self._wholes))
        self._wholes.append(whole)

    def items(self) -> Sequence[Mapping[str, JSON]] | None:
        """Give the items that go back in place of the answer's message.

        ``None`` if that says it all, or if they are not all of the answer.
        """
        wholes = list(self._wholes)
        while wholes and wholes[-1].type == "reasoning":
            wholes.pop()  # reasoning that nothing follows is refused (openai-node#1567)
        says_more = any(
            whole.raw or whole.phase or whole.type == "custom_tool_call" for whole in wholes
        )
        return list(self._filled(wholes)) if says_more and self._is_answer(wholes) else None

    def _is_answer(self, wholes: Sequence[_Whole]) -> bool:
        calls = [whole.call_id for whole in wholes if whole.type in CALLS]
        return (
            sum(whole.text for whole in wholes) == len(self._answer.text("text"))
            and sum(whole.refusal for whole in wholes) == len(self._answer.text("refusal"))
            and sorted(calls) == sorted(call.id or "" for call in self._answer.calls(ended=True))
        )

    def _filled(self, wholes: Sequence[_Whole]) -> Iterator[Mapping[str, JSON]]:
        """Give the items with what the answer holds of them."""
        text, refusal = StringIO(self._answer.text("text")), StringIO(self._answer.text("refusal"))
        calls = {call.id or "": call for call in self._answer.calls(ended=True)}
        for whole in wholes:
            if whole.raw:
                yield as_object(from_json(whole.raw))
            elif whole.type in CALLS:
                call = calls[whole.call_id]
                yield call_item(whole.call_id, call.name, call.arguments, type=whole.type)
            elif said := text.read(whole.text) + refusal.read(whole.refusal):
                yield message_item("assistant", said, phase=whole.phase)


def _whole(value: Mapping[str, JSON]) -> _Whole:
    match as_text(value.get("type")):
        case "message":
            texts = texts_in(value, "")
            return _Whole(
                type="message",
                text=sum(map(len, texts["text"])),
                refusal=sum(map(len, texts["refusal"])),
                phase=as_text(value.get("phase")),
            )
        case "function_call" | "custom_tool_call" as type_:
            return _Whole(type=type_, call_id=as_text(value.get("call_id")))
        case type_:
            return _Whole(type=type_, raw=as_json(value))


def _has_content(reasoning: Mapping[str, JSON]) -> bool:
    """Tell whether a reasoning item holds the reasoning, and not only its id and a summary.

    Without, it is refused where nothing is stored (vercel/ai#7543).
    """
    return bool(as_text(reasoning.get("encrypted_content")) or as_objects(reasoning.get("content")))


def _has_halves(raw: str) -> bool:
    """Tell whether half a character is in there, which can be changed or not be sent at all."""
    try:
        raw.encode()
    except UnicodeEncodeError:
        return True
    return False
