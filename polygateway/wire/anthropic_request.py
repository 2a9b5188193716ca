"""A request in the words of Anthropic's Messages API (its reference, and SDK 2.14.0)."""

# What cannot be taken over word by word:
#
# 1. System messages before the first other one are the field ``system``. Later ones stay in the
#    conversation under their own role, which models before Opus 4.8 refuse in so many words: moved
#    to the front they would mean something else. Anthropic wants them behind a user's message, and
#    before an assistant's or at the end (page on mid-conversation system messages, chatcli#1523).
#    So they move behind what else the user says in that turn.
# 2. Consecutive messages of one role become one: Anthropic joins them itself, but not the chat
#    templates behind other servers. Results of tools are a user's content, and come first in it.
# 3. Text of white space alone is refused (claude-code#23440) and therefore left out, and with it a
#    message of which nothing remains.
# 4. Ids of calls have letters, digits, "_" and "-" only; other providers' have more (bifrost#5097).
# 5. The blocks of an answer go back unchanged where they came from, to the same model at the same
#    address: a signature holds for no other (hermes-agent#24401, UncommonRoute#19). If the text or
#    the calls of their message were changed they are left out, as for another.
# 6. Ranges are the server's affair: a temperature goes to 1 at Anthropic and to 2 at DeepSeek.

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..errors import ConfigurationError
from ..messages import JSON
from .conversation import Assistant, Call, Image, Part, Result, System, Text, Tool, Turn, User
from .jsontext import as_objects, as_text, from_json
from .malformed import Malformed
from .request_reader import Reader, unsayable

if TYPE_CHECKING:
    from ..messages import ChatRequest

Block: TypeAlias = Mapping[str, JSON]

DIALECT = "anthropic"

MAX_TOKENS = 32_000
"""The longest answer, for the wire wants a number, where the request has none.

The most that every model since Claude 4 gives (inspect_ai#2675). A lower one would cut answers of
models that think (hermes-agent#3426); a server that has less to give refuses it by name.
"""

_READER = Reader(DIALECT, marks=("cache_control",))
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")


def fields_of(
    request: ChatRequest, source: Mapping[str, JSON]
) -> tuple[dict[str, JSON], Sequence[str]]:
    """Give what *request* says, in Anthropic's names, and the dialects left out of it.

    Args:
        request: what is asked.
        source: :func:`source_of` its target; empty for any.

    Raises:
        ConfigurationError: something cannot be said; the text names its place.
    """
    conversation = _READER.conversation(request)
    messages = _Messages(source)
    for turn in conversation.turns:
        messages.add(turn)
    said: dict[str, JSON] = {
        "max_tokens": request.max_tokens or MAX_TOKENS,
        "system": _content(messages.system),
        "messages": messages.finished(),
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop_sequences": request.stop,
        "tools": [_tool(tool) for tool in _READER.tools(request)] or None,
        "tool_choice": _tool_choice(request),
        **_output(request),
    }
    if request.seed is not None:
        raise unsayable(DIALECT, "seed")
    left_out = dict.fromkeys(conversation.left_out)
    if messages.is_cut:
        left_out[DIALECT] = None
    return {name: value for name, value in said.items() if value is not None}, tuple(left_out)


# ---- messages -----------------------------------------------------------------------------------


class _Messages:
    """The messages of a request, while they are put together."""

    def __init__(self, source: Mapping[str, JSON]) -> None:
        self.system: list[Block] = []
        """What comes before the first other message."""

        self.is_cut: bool = False
        """Whether blocks of an answer were left out."""

        self._source = source
        self._all: list[tuple[str, list[Block]]] = []  # role and content
        self._later: list[Block] = []  # system text that waits for its place

    def add(self, turn: Turn) -> None:
        """Add a message.

        Raises:
            ConfigurationError: it cannot be said.
        """
        match turn:
            case System():
                texts = _texts(turn.parts)
                (self._later if self._all else self.system).extend(texts)
            case User():
                self._append("user", [_part(part) for part in turn.parts if _is_said(part)])
            case Assistant():
                if blocks := self._assistant(turn):
                    self._append("system", self._later)
                    self._later = []
                    self._append("assistant", blocks)
            case _:
                self._append("user", [_result(turn)])

    def finished(self) -> Sequence[JSON]:
        """Give all messages.

        Raises:
            ConfigurationError: there are none.
        """
        self._append("system", self._later)
        if not self._all:
            raise unsayable(DIALECT, "messages: a prompt without a user's words")
        return [{"role": role, "content": _content(_ordered(blocks))} for role, blocks in self._all]

    def _append(self, role: str, blocks: Sequence[Block]) -> None:
        if not blocks:
            return
        if not self._all or self._all[-1][0] != role:
            self._all.append((role, []))
        self._all[-1][1].extend(blocks)

    def _assistant(self, turn: Assistant) -> Sequence[Block]:
        texts = _texts(turn.parts)
        calls = [_call(call) for call in turn.calls]
        if turn.opaque is None:
            return [*texts, *calls]
        kept = _kept(turn, turn.opaque)
        is_ours = self._source.items() <= turn.opaque.items()
        if is_ours and _is_unchanged(turn, calls, kept):
            said = [_with_id(block) for block in kept if not _is_blank(block)]
            sent = _without_last_thinking(said)
            self.is_cut = self.is_cut or len(sent) < len(said)
            return sent
        self.is_cut = True
        return [*texts, *calls]


def _ordered(blocks: Sequence[Block]) -> Sequence[Block]:
    """Put results of tools first: there they must stand."""
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _content(blocks: Sequence[Block]) -> JSON:
    """Give blocks as content, a single plain text as just that; ``None`` if there are none."""
    if not blocks:
        return None
    is_plain = len(blocks) == 1 and set(blocks[0]) == {"type", "text"}
    return blocks[0]["text"] if is_plain else blocks


def _is_said(part: Part) -> bool:
    return not isinstance(part, Text) or bool(part.text.strip())


def _texts(parts: Sequence[Part]) -> list[Block]:
    """Give the parts of a message that can have nothing but text."""
    image = next((part for part in parts if isinstance(part, Image)), None)
    if image is not None:
        raise unsayable(DIALECT, f"{image.place}: an image that is not the user's or a tool's")
    return [_part(part) for part in parts if _is_said(part)]


def _part(part: Part) -> Block:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text, **part.marks}
    if part.detail:
        raise unsayable(DIALECT, f"{part.place}['image_url']['detail']")
    source: Block = {"type": "url", "url": part.url}
    if part.media_type:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": "image", "source": source, **part.marks}


def _call(call: Call) -> Block:
    return {
        "type": "tool_use",
        "id": _id(call.id),
        "name": call.name,
        "input": _arguments(call),
    }


def _arguments(call: Call) -> Mapping[str, JSON]:
    try:
        value: JSON = from_json(call.arguments) if call.arguments.strip() else {}
    except Malformed as error:
        raise _no_object(call) from error
    if isinstance(value, dict):
        return value
    raise _no_object(call)


def _no_object(call: Call) -> ConfigurationError:
    place = f"{call.place}['function']['arguments']"
    return unsayable(DIALECT, f"{place}: what is no JSON object", "leave the call out")


def _result(turn: Result) -> Block:
    block: dict[str, JSON] = {"type": "tool_result", "tool_use_id": _id(turn.call_id)}
    content = _content([_part(part) for part in turn.parts if _is_said(part)])
    return block if content is None else {**block, "content": content}


def _id(id: str) -> str:
    """Write an id with the characters that ids may have, the same one always the same way."""
    return _NOT_IN_IDS.sub(lambda found: f"_{ord(found[0]):x}_", id)


# ---- blocks that go back ------------------------------------------------------------------------


def _kept(turn: Assistant, opaque: Mapping[str, JSON]) -> Sequence[Block]:
    kept = opaque.get("content")
    blocks = as_objects(kept)
    if not blocks or blocks != kept:
        raise ConfigurationError(
            f"{turn.place}['opaque']['content'] must be what a completion's message held there"
        )
    return blocks


def _is_unchanged(turn: Assistant, calls: Sequence[Block], kept: Sequence[Block]) -> bool:
    """Tell whether a message still says what its blocks say. A mark on its text is a change."""
    texts = [as_text(block.get("text")) for block in kept if block.get("type") == "text"]
    said = [part.text for part in turn.parts if isinstance(part, Text) and not part.marks]
    made = [
        {name: block.get(name) for name in ("type", "id", "name", "input")}
        for block in map(_with_id, kept)
        if block.get("type") == "tool_use"
    ]
    return "".join(said) == "".join(texts) and made == calls


def _is_blank(block: Block) -> bool:
    return block.get("type") == "text" and not as_text(block.get("text")).strip()


def _without_last_thinking(blocks: Sequence[Block]) -> Sequence[Block]:
    """Leave out thinking that nothing follows, which is refused (forgecode#2107).

    Where it was cut, it has no signature either.
    """
    end = len(blocks)
    while end and blocks[end - 1].get("type") in {"thinking", "redacted_thinking"}:
        end -= 1
    return blocks[:end]


def _with_id(block: Block) -> Block:
    is_call = block.get("type") == "tool_use"
    return {**block, "id": _id(as_text(block.get("id")))} if is_call else block


# ---- tools and form -----------------------------------------------------------------------------


def _tool(tool: Tool) -> Block:
    said: dict[str, JSON] = {
        "name": tool.name,
        "description": tool.description or None,
        # The type may be left out in OpenAI's words, and not here.
        "input_schema": {"type": "object", **(tool.parameters or {"properties": {}})},
        "strict": tool.strict,
        **tool.marks,
    }
    return {name: value for name, value in said.items() if value is not None}


def _tool_choice(request: ChatRequest) -> JSON:
    choice = _READER.tool_choice(request)
    if choice is None:
        return None
    if choice.mode == "function":
        return {"type": "tool", "name": choice.name}
    return {"type": "any" if choice.mode == "required" else choice.mode}


def _output(request: ChatRequest) -> Mapping[str, JSON]:
    """Give the fields for the answer's form and for how much the model shall think."""
    output: dict[str, JSON] = {}
    if schema := _schema(request):
        output["format"] = {"type": "json_schema", "schema": schema}
    effort = request.reasoning_effort
    if effort == "none":
        return {"thinking": {"type": "disabled"}, "output_config": output or None}
    if effort is None:
        return {"output_config": output or None}
    # Without the one, models before Claude 5 do not think; without the other, those since Opus 4.7
    # think in silence, which would look like a stall (Anthropic's pages on effort and on adaptive
    # thinking; langchain#38887 does the same).
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, "output_config": {"effort": effort, **output}}


def _schema(request: ChatRequest) -> Mapping[str, JSON] | None:
    """Give the schema that the answer must follow; its name is OpenAI's label and says nothing."""
    form = _READER.response_format(request)
    if form is None or form.kind == "text":
        return None
    if form.schema is None:
        raise unsayable(DIALECT, f"response_format: the type {form.kind!r}", "give a json_schema")
    if form.description:
        place = "response_format['json_schema']['description']"
        raise unsayable(DIALECT, place, "give it in the schema")
    return form.schema
