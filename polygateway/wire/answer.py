"""The answer of one attempt, collected chunk by chunk, whatever the dialect."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from ..messages import (
    JSON,
    Chunk,
    Completion,
    FinishReason,
    Message,
    ToolCall,
    ToolCallDelta,
)
from ..usage import Confidence, Usage
from .jsontext import footprint, from_json
from .malformed import Malformed
from .opaque import KEY
from .pieces import Pieces, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..stats import CallStats

TextKind: TypeAlias = Literal["text", "reasoning", "refusal"]
CallKey: TypeAlias = int | str | None


@attrs.frozen
class CallPiece:
    """A piece of a tool call, as one event brings it."""

    key: CallKey
    """What tells the answer's calls apart on the wire: an index or, where there is none, an id.

    ``None`` where there is neither: a piece with a name begins a call, one without goes on with
    the last.
    """

    id: str | None
    name: str
    arguments: str
    extra: str = ""
    """What else the call holds that only the provider understands, as JSON; empty if nothing."""

    @property
    def is_content(self) -> bool:
        """Whether it brings anything for the application."""
        return bool(self.name or self.arguments)


@attrs.define
class _Call:
    """A tool call whose arguments are still coming. The first id, name and extra stay."""

    index: int
    id: str | None = None
    name: str = ""
    arguments: Pieces = attrs.field(factory=Pieces)
    extra: str = ""
    looks_whole: bool = False
    """Whether the arguments end as an object does."""

    def lacks(self, piece: CallPiece) -> tuple[str, str, str, str]:
        """Give what *piece* brings that is not there yet: id, name, arguments and extra."""
        first_id = "" if self.id else piece.id or ""
        first_name = "" if self.name else piece.name
        return first_id, first_name, piece.arguments, "" if self.extra else piece.extra

    def add(self, id: str, name: str, arguments: str, extra: str) -> None:
        self.id = self.id or id or None
        self.name += name
        self.arguments.add(arguments)
        self.extra += extra
        if stripped := arguments.rstrip():
            self.looks_whole = stripped.endswith("}")

    def is_over(self, piece: CallPiece) -> bool:
        """Tell whether *piece* begins another call at the same index.

        Some servers give every call the index 0 (ollama#15457, lmdeploy#3412, agno#8879), others
        change a call's id between its pieces (poolsideai/pool#9), or repeat its name.
        """
        is_other = piece.id != self.id if piece.id and self.id else bool(piece.arguments)
        return (
            self.looks_whole
            and is_other
            and bool(piece.name)
            and (not piece.arguments or piece.arguments.startswith("{"))
        )

    def whole(self, *, ended: bool) -> ToolCall:
        arguments = self.arguments.whole()
        return ToolCall(self.id, self.name, arguments, ended and _is_object(arguments))


# What another call or choice costs in memory, however short: a limit on bytes alone would let a
# provider fill gigabytes with calls of one byte each.
_BEGINNING = 512


class Answer:
    """What one attempt has received up to now."""

    def __init__(
        self,
        *,
        attempt: int,
        max_bytes: int,
        opaque: Callable[[], Mapping[str, JSON] | None] = lambda: None,
    ) -> None:
        """Begin an answer.

        Args:
            attempt: index of its attempt.
            max_bytes: the most that it may hold.
            opaque: gives what only the provider understands of it, once it is whole.
        """
        self.id: str | None = None
        """The provider's id of this answer; ``None`` until it came."""
        self.model: str | None = None
        """The model's name as the provider said it; ``None`` until it came."""
        self.usage: Usage = Usage()
        self.raw_finish_reason: str | None = None
        """The provider's own word; ``None`` until it came, or when content made it void."""
        self.size: int = 0
        """Bytes that text, reasoning, refusal and tool calls take, and a weight for each call."""

        self._attempt = attempt
        self._most = max_bytes
        self._opaque = opaque
        self._finish_reason: FinishReason | None = None
        self._texts: dict[TextKind, Pieces] = defaultdict(Pieces)
        self._calls: list[_Call] = []
        self._calls_by_key: dict[CallKey, _Call] = {}

    # ---- what comes -----------------------------------------------------------------------------

    def add_text(self, kind: TextKind, piece: str) -> Chunk:
        """Append *piece*.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        text = self._texts[kind]
        self._count(text.cost(piece))
        text.add(piece)
        return Chunk(kind, piece, self._attempt)

    def add_call(self, piece: CallPiece) -> Chunk | None:
        """Append *piece* to its call; ``None`` if that gave the application nothing.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        known = self._find(piece)
        if not (piece.id or piece.is_content or (known and piece.extra)):
            return None
        call = known or _Call(len(self._calls))
        id_, name, arguments, extra = call.lacks(piece)
        size = call.arguments.cost(arguments) + sum(map(size_of, (id_, name, extra)))
        self._count(size, begins=known is None)
        call.add(id_, name, arguments, extra)
        if known is None:
            self._begin(call, piece.key)
        if not piece.is_content:
            return None
        delta = ToolCallDelta(call.index, call.id, call.name)
        return Chunk("tool_call", piece.arguments, self._attempt, delta)

    def weigh(self, *pieces: str, begins: bool = False) -> None:
        """Count what is kept elsewhere or not at all against the limit.

        Args:
            pieces: content of another choice, or what only the provider understands.
            begins: whether they are the first of their choice, block or item.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        self._count(sum(map(size_of, pieces)), begins=begins)

    def weigh_json(self, *texts: str, begins: bool = False) -> None:
        """Count JSON that is kept elsewhere, by what it takes when it is read in the end.

        Args:
            texts: what only the provider understands, written as JSON.
            begins: as for :meth:`weigh`.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        self._count(sum(size_of(text) + footprint(text) for text in texts), begins=begins)

    def identify(self, *, id: str, model: str) -> None:
        """Keep the first id and the first model name that are not empty."""
        self.id = self.id or id or None
        self.model = self.model or model or None

    def count_tokens(self, usage: Usage) -> None:
        """Take what *usage* knows; the last figure of each kind stands, nothing is summed."""
        if usage.is_known:
            known = attrs.asdict(usage, filter=lambda _, value: value is not None)
            self.usage = attrs.evolve(self.usage, **known)

    def finish(self, raw: str, reason: FinishReason) -> None:
        """Note why the model stopped; the first reason stands until :meth:`reopen`."""
        if self.raw_finish_reason is None:
            self.raw_finish_reason = raw
            self._finish_reason = reason

    def reopen(self) -> None:
        """Forget the finish reason: content followed it."""
        self.raw_finish_reason = self._finish_reason = None

    def _count(self, more: int, *, begins: bool = False) -> None:
        size = self.size + begins * _BEGINNING + more
        if size > self._most:
            raise Malformed(f"the answer has over {self._most} bytes (limits.max_answer_bytes)")
        self.size = size

    def _find(self, piece: CallPiece) -> _Call | None:
        """Give the call that *piece* goes on with; ``None`` if it begins one."""
        call = self._calls_by_key.get(piece.key)
        named = self._calls_by_key.get(piece.id)
        if call is not None:
            is_misplaced = named is not None and piece.id != call.id
            return named if is_misplaced else None if call.is_over(piece) else call
        # Arguments alone begin nothing: they are the tail of a call that has begun elsewhere.
        is_tail = bool(self._calls and piece.arguments and not piece.name)
        return (named if piece.id else self._calls[-1]) if is_tail else None

    def _begin(self, call: _Call, key: CallKey) -> None:
        self._calls.append(call)
        if key is not None:
            self._calls_by_key[key] = call
        # By its first id as well: some servers send the index with the first piece only.
        if call.id is not None:
            self._calls_by_key.setdefault(call.id, call)

    # ---- what is there --------------------------------------------------------------------------

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the model stopped; ``tool_calls`` also where a wire says ``stop`` after them."""
        stopped_to_call = self._finish_reason == "stop" and self._calls
        return "tool_calls" if stopped_to_call else self._finish_reason

    def counted(self, *, ended: bool) -> Usage:
        """Give the usage, and how far it can be trusted.

        Args:
            ended: whether the answer ended properly.
        """
        known: Confidence = "exact" if ended else "at_least"
        return attrs.evolve(self.usage, confidence=known) if self.usage.is_known else self.usage

    def text(self, kind: TextKind) -> str:
        """Give all pieces of *kind* as one."""
        return self._texts[kind].whole()

    def calls(self, *, ended: bool) -> tuple[ToolCall, ...]:
        """Give the tool calls.

        Args:
            ended: whether the answer ended properly; they are complete only then.
        """
        return tuple(call.whole(ended=ended) for call in self._calls)

    def extras(self) -> Sequence[str]:
        """Give what only the provider understands of each tool call, as JSON, or empty."""
        return [call.extra for call in self._calls]

    def arguments(self, key: CallKey) -> str:
        """Give the arguments of the call that has *key*, as far as they came."""
        call = self._calls_by_key.get(key)
        return "" if call is None else call.arguments.whole()

    def completion(
        self,
        *,
        target: str,
        request_id: str | None,
        headers: Mapping[str, str],
        stats: CallStats,
        ended: bool,
        before: str = "",
        withheld: int = 0,
    ) -> Completion:
        """Give what has been received up to now, as the application sees it.

        Args:
            target: name of the target.
            request_id: the provider's id of the request.
            headers: the response's headers.
            stats: where the time went.
            ended: whether the answer ended properly; tool calls are complete only then.
            before: the text that this answer goes on with. What only the provider understands is
                left out behind it: it belongs to the rest of the message alone.
            withheld: how many characters at the beginning of this answer's text repeat *before*.
        """
        calls = self.calls(ended=ended)
        text, refusal = before + self.text("text")[withheld:], self.text("refusal")
        opaque = self._opaque() if ended and not before else None
        return Completion(
            text=text,
            reasoning=self.text("reasoning"),
            refusal=refusal,
            tool_calls=calls,
            finish_reason=self.finish_reason,
            raw_finish_reason=self.raw_finish_reason,
            usage=self.counted(ended=ended),
            model=self.model,
            target=target,
            id=self.id,
            request_id=request_id,
            headers=headers,
            message=_message(text, refusal, calls, opaque),
            stats=stats,
        )


def _message(
    text: str, refusal: str, calls: Sequence[ToolCall], opaque: Mapping[str, JSON] | None
) -> Message:
    message: dict[str, JSON] = {"role": "assistant", "content": text}
    if refusal:
        message["refusal"] = refusal
    if calls:
        message["content"] = text or None
        message["tool_calls"] = [_as_message(call) for call in calls]
    if opaque is not None:
        message[KEY] = opaque
    return message


def _as_message(call: ToolCall) -> dict[str, JSON]:
    function: dict[str, JSON] = {"name": call.name, "arguments": call.arguments}
    named: dict[str, JSON] = {"type": "function", "function": function}
    return named if call.id is None else {"id": call.id, **named}


def _is_object(arguments: str) -> bool:
    """Tell whether *arguments* can be given to a function: nothing at all means no arguments."""
    try:
        return not arguments.strip() or isinstance(from_json(arguments), dict)
    except Malformed:
        return False
