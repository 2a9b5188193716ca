"""What a request says, in Ollama's words."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .conversation import Assistant, Image, Result, System, Text
from .jsontext import as_text
from .opaque import fingerprint
from .request_reader import Reader, unsayable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..messages import JSON, ChatRequest
    from .conversation import Call, Part, Tool, Turn

DIALECT = "ollama"

_READER = Reader(DIALECT)

# What stands between texts that are one string there: what the server itself puts between messages
# that it merges (template.go, collate), such as the parts of one message at its OpenAI endpoint.
_BETWEEN = "\n\n"


def path_below(base_url: str) -> str:
    """Give the path of the chat endpoint, for a base URL with or without the ``/api``."""
    has_api = urlsplit(base_url).path.rstrip("/").endswith("/api")
    return "/chat" if has_api else "/api/chat"


def fields_of(request: ChatRequest) -> tuple[Mapping[str, JSON], Sequence[str]]:
    """Give the body's fields, and the dialects whose opaque parts are not among them.

    Raises:
        ConfigurationError: something is not what it should be, or not for this dialect.
    """
    conversation = _READER.conversation(request)
    left_out = dict.fromkeys(conversation.left_out)
    messages: list[JSON] = []
    for turn in conversation.turns:
        message = _message(turn)
        if isinstance(turn, Assistant) and turn.opaque is not None:
            if thinking := _thinking(turn, message, turn.opaque):
                message["thinking"] = thinking
            else:
                left_out[DIALECT] = None
        messages.append(message)
    said: dict[str, JSON] = {
        "messages": messages,
        "tools": _tools(request),
        "format": _format(request),
        "think": _think(request.reasoning_effort),
        "options": _options(request),
    }
    return {name: value for name, value in said.items() if value is not None}, tuple(left_out)


# ---- messages -----------------------------------------------------------------------------------


def _message(turn: Turn) -> dict[str, JSON]:
    said = _content(turn.parts)
    if isinstance(turn, Result):
        return {"role": "tool", **said, **_answered(turn)}
    if isinstance(turn, Assistant):
        calls: list[JSON] = [_call(call) for call in turn.calls]
        return {"role": "assistant", **said, **({"tool_calls": calls} if calls else {})}
    return {"role": "system" if isinstance(turn, System) else "user", **said}


def _content(parts: Sequence[Part]) -> dict[str, JSON]:
    """Give the texts as one, and the pictures; where they stand among the texts is not said."""
    texts = [part.text for part in parts if isinstance(part, Text) and part.text]
    images: list[JSON] = [_image(part) for part in parts if isinstance(part, Image)]
    return {"content": _BETWEEN.join(texts), **({"images": images} if images else {})}


def _image(image: Image) -> str:
    if not image.data:
        instead = "send the picture itself, as data:<type>;base64,<data>"
        raise unsayable(DIALECT, f"{image.place}: the address of a picture", instead)
    if image.detail:
        raise unsayable(DIALECT, f"{image.place}['image_url']['detail']")
    return image.data


def _call(call: Call) -> JSON:
    arguments = _READER.arguments(call)
    function: JSON = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "function": function} if call.has_own_id else {"function": function}


def _answered(result: Result) -> dict[str, JSON]:
    """Say which call was answered: older servers know it by the function's name only."""
    said: dict[str, JSON] = {"tool_name": result.name} if result.name else {}
    if result.call is None or result.call.has_own_id:
        said["tool_call_id"] = result.call_id
    return said


def _thinking(turn: Assistant, message: Mapping[str, JSON], opaque: Mapping[str, JSON]) -> str:
    """Give what the model thought before its calls; empty if the message was edited since."""
    calls = [(call.name, call.arguments) for call in turn.calls]
    is_unedited = opaque.get("of") == fingerprint(as_text(message["content"]), calls)
    return as_text(opaque.get("thinking")) if is_unedited else ""


# ---- everything else ----------------------------------------------------------------------------


def _tools(request: ChatRequest) -> Sequence[JSON] | None:
    """Give the tools; ``None`` also where the model must not use them."""
    tools = [_tool(tool) for tool in _READER.tools(request)]
    choice = _READER.tool_choice(request)
    if choice is None or choice.mode == "auto":
        return tools or None
    if choice.mode != "none":
        raise unsayable(DIALECT, "tool_choice", "only 'auto' and 'none' can be had")
    return None


def _tool(tool: Tool) -> JSON:
    if tool.strict:
        raise unsayable(DIALECT, f"{tool.place}['function']['strict']")
    described: dict[str, JSON] = {"description": tool.description} if tool.description else {}
    parameters: Mapping[str, JSON] = {"type": "object", "properties": {}}
    if tool.parameters is not None:
        parameters = tool.parameters
    function: JSON = {"name": tool.name, **described, "parameters": parameters}
    return {"type": "function", "function": function}


def _format(request: ChatRequest) -> JSON:
    """Give the answer's form. A schema is kept to always, so that ``strict`` need not be said."""
    form = _READER.response_format(request)
    if form is None or form.kind == "text":
        return None
    if form.description:
        place = "response_format['json_schema']['description']"
        raise unsayable(DIALECT, place, "put it into the schema")
    return "json" if form.schema is None else form.schema


def _think(effort: str | None) -> JSON:
    """Say how much to think, as Ollama's own OpenAI endpoint does: in the model's words."""
    return False if effort == "none" else effort


def _options(request: ChatRequest) -> Mapping[str, JSON] | None:
    options: dict[str, JSON] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "stop": request.stop,
        "num_predict": request.max_tokens,
    }
    return {name: value for name, value in options.items() if value is not None} or None
