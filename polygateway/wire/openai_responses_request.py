"""A request in the words of OpenAI's Responses API.

Every request is stateless: ``store`` is false, and the whole conversation is sent. A call may go to
several providers at once and to another one next time, so that none of them knows what another has
stored; and what OpenAI and xAI store, they keep for 30 days, which nobody asked for. ``extra`` can
say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import urlsplit

from .._checks import as_list
from ..errors import ConfigurationError
from ..messages import JSON
from .conversation import Assistant, Image, Part, System, Text, Turn, User
from .jsontext import as_object, as_text
from .opaque import KEY
from .openai_chat_request import UNDATED_VERSIONS
from .request_reader import Reader, unsayable

if TYPE_CHECKING:
    from ..messages import ChatRequest
    from ..policies import Target
    from .conversation import Format, Result, Tool, ToolChoice

Item: TypeAlias = Mapping[str, JSON]

DIALECT = "openai-responses"

CALLS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""Types of the items that are calls, and where each holds what the tool is given."""

_READER = Reader(DIALECT)


def sealed_for(target: Target) -> str:
    """Give who alone can read what *target* has encrypted: its host.

    OpenAI reads what another of its accounts has sealed, but neither Azure's nor any other
    provider's (subrouter#259), and on Azure each resource has keys of its own (codex#3573). Whoever
    sends it elsewhere is refused with ``invalid_encrypted_content``.
    """
    return urlsplit(target.base_url).netloc.lower()


def path_of(target: Target) -> str:
    """Give the path behind the ``base_url`` of *target*.

    Azure's, as openai-python's ``lib/azure.py`` has it, holds no deployment: the body names the
    model. A ``base_url`` there is a resource's alone, or with a part or all of the path.
    """
    version = target.api_version
    if version is None:
        return "/responses"
    base, root = urlsplit(target.base_url).path.rstrip("/"), ""
    if not base.endswith("/v1"):
        root = "" if base.endswith("/openai") else "/openai"
        root += "/v1" if version in UNDATED_VERSIONS else ""
    return f"{root}/responses?api-version={version}"


def request_fields(request: ChatRequest, host: str) -> tuple[dict[str, JSON], Sequence[str]]:
    """Give the body but for its model, and whose opaque parts are left out of it.

    Args:
        request: what is asked.
        host: who will read it, as :func:`sealed_for` gives it; empty for anybody.

    Raises:
        ConfigurationError: the Responses API cannot say it.
    """
    if request.prefix:
        raise unsayable(DIALECT, "prefix")
    for name, value in (("stop", request.stop), ("seed", request.seed)):
        if value is not None:
            raise unsayable(DIALECT, name, f"a server that knows it takes it as extra[{name!r}]")
    conversation = _READER.conversation(request)
    items, left_out = _Input(host), dict.fromkeys(conversation.left_out)
    for turn in conversation.turns:
        items.add(turn)
    if items.has_left_out:
        left_out[DIALECT] = None
    tools = [_tool(tool) for tool in _READER.tools(request)]
    said: dict[str, JSON] = {
        "input": items.items,
        "tools": tools or None,
        "tool_choice": _choice(_READER.tool_choice(request)),
        "text": _text(_READER.response_format(request)),
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_output_tokens": request.max_tokens,
        **_reasoning(request.reasoning_effort),
        "store": False,
    }
    return {name: value for name, value in said.items() if value is not None}, tuple(left_out)


# ---- the conversation ---------------------------------------------------------------------------


class _Input:
    """Collects the items that say a conversation."""

    def __init__(self, host: str) -> None:
        self.items: list[Item] = []
        self.has_left_out = False
        self._host = host
        self._custom_calls: set[str] = set()

    def add(self, turn: Turn) -> None:
        """Say *turn*."""
        match turn:
            # Where it stands, and not as ``instructions``: there may be several, and not all at
            # the beginning. "system" is known to every server, "developer" to few templates.
            case System(parts=parts):
                self.items.append(message_item("system", _content(parts)))
            case User(parts=parts):
                self.items.append(message_item("user", _content(parts)))
            case Assistant():
                self.items += self._as_it_was(turn) or _as_it_reads(turn)
            case _:
                self.items.append(self._result(turn))

    def _result(self, turn: Result) -> Item:
        is_custom = turn.call_id in self._custom_calls
        type_ = "custom_tool_call_output" if is_custom else "function_call_output"
        return {"type": type_, "call_id": turn.call_id, "output": _content(turn.parts)}

    def _as_it_was(self, turn: Assistant) -> Sequence[Item]:
        """Give the items that the provider sent; none if there are none that can go back."""
        if turn.opaque is None:
            return []
        items = _items_in(turn.opaque, turn.place)
        is_sealed = self._host and turn.opaque.get("host") not in (None, self._host)
        if is_sealed or not _say(items, turn):
            self.has_left_out = True
            return []
        custom = (item.get("call_id") for item in items if item.get("type") == "custom_tool_call")
        self._custom_calls.update(map(as_text, custom))
        return items


def _items_in(opaque: Mapping[str, JSON], place: str) -> Sequence[Item]:
    items = [as_object(cast("JSON", item)) for item in as_list(opaque.get("output")) or ()]
    if not items or not all(items):
        wanted = "what a completion's message held there, or be left out"
        raise ConfigurationError(f"{place}[{KEY!r}]['output'] must be {wanted}")
    return items


def _say(items: Sequence[Item], turn: Assistant) -> bool:
    """Tell whether *items* say what *turn* says, which the application may have changed."""
    text, calls = "", dict[str, tuple[JSON, JSON]]()
    for item in items:
        type_ = as_text(item.get("type"))
        if type_ == "message":
            text += as_text(item.get("content"))
        elif type_ in CALLS:
            given = item.get(CALLS[type_])
            calls[as_text(item.get("call_id"))] = (item.get("name"), given)
    said = {call.id: (call.name, call.arguments) for call in turn.calls}
    return text == _text_of(turn) and calls == said


def _as_it_reads(turn: Assistant) -> Sequence[Item]:
    """Give the items that say what the application knows of an answer."""
    text = _text_of(turn)
    calls = [call_item(call.id, call.name, call.arguments) for call in turn.calls]
    return [message_item("assistant", text), *calls] if text else calls


def _text_of(turn: Assistant) -> str:
    # In one piece: vLLM takes several only as an item of its own, with an id and a status.
    return "".join(_said(part) for part in turn.parts)


def _said(part: Part) -> str:
    if isinstance(part, Image):
        raise unsayable(DIALECT, f"{part.place}: an image that the model made")
    return part.text


def message_item(role: str, content: JSON, phase: str = "") -> Item:
    """Give the item that says a message."""
    # With its type, by which llama.cpp knows an assistant's.
    item: dict[str, JSON] = {"type": "message", "role": role, "content": content}
    return {**item, "phase": phase} if phase else item


def call_item(id: str, name: str, given: str, type: str = "function_call") -> Item:
    """Give the item that says a call."""
    return {"type": type, "call_id": id, "name": name, CALLS[type]: given}


def _content(parts: Sequence[Part]) -> JSON:
    """Give a text as itself, and everything else as a list."""
    match parts:
        case []:
            return ""
        case [Text(text=text)]:
            return text
        case _:
            return [_part(part) for part in parts]


def _part(part: Part) -> JSON:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    # ``detail`` may be missing at OpenAI, but not in its SDK's types, by which vLLM reads.
    return {"type": "input_image", "image_url": part.url, "detail": part.detail or "auto"}


# ---- everything else ----------------------------------------------------------------------------


def _reasoning(effort: str | None) -> Mapping[str, JSON]:
    """Say how much to think, and that the reasoning shall come in a form that can go back.

    OpenAI sends it so by itself; Azure and xAI want to be asked. Who asks a model that does not
    reason is refused (pydantic-ai#2865), so it is done only where the request says that it does.
    """
    if effort is None:
        return {}
    return {"reasoning": {"effort": effort}, "include": ["reasoning.encrypted_content"]}


def _tool(tool: Tool) -> JSON:
    described: dict[str, JSON] = {"description": tool.description} if tool.description else {}
    parameters = tool.parameters
    return {
        "type": "function",
        "name": tool.name,
        **described,
        "parameters": {"type": "object", "properties": {}} if parameters is None else parameters,
        # Here what is not said is strict, in the chat API it is not (langchain#35837).
        "strict": bool(tool.strict),
    }


def _choice(choice: ToolChoice | None) -> JSON:
    if choice is None:
        return None
    return {"type": "function", "name": choice.name} if choice.name else choice.mode


def _text(form: Format | None) -> JSON:
    """Say the form of the text; a schema has a name here, even if nobody gave it one."""
    if form is None:
        return None
    if form.kind != "json_schema":
        return {"format": {"type": form.kind}}
    said: dict[str, JSON] = {
        "type": "json_schema",
        "name": form.name or "answer",
        "description": form.description or None,
        "schema": form.schema,
        "strict": form.strict,
    }
    return {"format": {name: value for name, value in said.items() if value is not None}}
