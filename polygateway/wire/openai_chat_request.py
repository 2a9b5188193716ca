"""What a request says on OpenAI's chat wire, and where it goes: OpenAI, Azure and the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from .opaque import KEY, opaque_in
from .openai_chat_opaque import is_of, restored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..messages import JSON, ChatRequest, Message
    from ..policies import Target
    from ..secret import Secret

# Whose reasoning models refuse "max_tokens". A base_url names a resource of Azure's, or OpenAI
# itself in a region (its page "Data controls": eu.api.openai.com).
_OPENAI_HOSTS = (
    "api.openai.com",
    ".openai.azure.com",
    ".cognitiveservices.azure.com",
    ".services.ai.azure.com",
)

# Who wants to be told that the last message is no whole one, and how: the OpenAPI description of
# Mistral (AssistantMessage), DeepSeek's page "Chat Prefix Completion", Moonshot's and Alibaba's on
# their partial mode. Mistral refuses the request without it (portkey's error 10573), DeepSeek with
# it unless the base_url is the one of its beta (new-api#999). Nobody else is known to want it.
_BEGUN_MARKS = {
    ".mistral.ai": "prefix",
    "api.deepseek.com": "prefix",
    ".moonshot.ai": "partial",
    ".moonshot.cn": "partial",
    ".aliyuncs.com": "partial",
}

UNDATED_VERSIONS = frozenset({"preview", "latest"})
"""Versions of Azure's that have no deployments in their paths (openai-python, lib/azure.py)."""


# ---- what it says -------------------------------------------------------------------------------


def fields_of(
    request: ChatRequest, messages: Sequence[Message], max_tokens_field: str = "max_tokens"
) -> dict[str, JSON]:
    """Give what *request* says, in OpenAI's names.

    Args:
        request: the request.
        messages: its messages, as they are sent.
        max_tokens_field: what the longest answer is called.
    """
    said: dict[str, JSON] = {
        "messages": messages,
        "temperature": request.temperature,
        "top_p": request.top_p,
        max_tokens_field: request.max_tokens,
        "stop": request.stop,
        "seed": request.seed,
        "tools": request.tools,
        "tool_choice": request.tool_choice,
        "response_format": request.response_format,
        "reasoning_effort": request.reasoning_effort,
    }
    return {name: value for name, value in said.items() if value is not None}


def messages_for(
    base_url: str, messages: Sequence[Message]
) -> tuple[Sequence[Message], Sequence[str]]:
    """Give the messages as they are sent, and the dialects whose opaque parts are left out.

    Args:
        base_url: where they are sent; empty for nowhere in particular.
        messages: as the application has them.

    Raises:
        ConfigurationError: opaque parts are not what polygateway put there.
    """
    sent: list[Message] = []
    left_out: dict[str, None] = {}
    ids = _Ids()
    for index, message in enumerate(messages):
        plain = message
        if KEY in message:
            plain = {name: value for name, value in message.items() if name != KEY}
            opaque = opaque_in(message, f"messages[{index}]")
            if opaque is not None and is_of(opaque, base_url):
                plain = restored(plain, opaque)
            elif opaque is not None:
                left_out[opaque.dialect] = None
        sent.append(ids.completed(plain, index))
    return sent, tuple(left_out)


def begun(base_url: str, messages: Sequence[Message], prefix: str) -> Sequence[Message]:
    """Add the beginning of the answer: to what *messages* end with, if that is its beginning, too.

    For two answers at the end are refused (llama.cpp, hermes-agent#80265).

    Args:
        base_url: where they are sent.
        messages: as they are sent.
        prefix: the beginning.
    """
    *before, last = messages
    content = last.get("content")
    if last["role"] != "assistant" or last.get("tool_calls") or not isinstance(content, str):
        before, last, content = [*messages], {"role": "assistant"}, ""
    host = urlsplit(base_url).hostname or ""
    marks = {mark: True for end, mark in _BEGUN_MARKS.items() if host.endswith(end)}
    return [*before, {**last, "content": content + prefix, **marks}]


class _Ids:
    """Ids for tool calls and results that have none, as Gemini's: those of ``request_reader``.

    A call's stands for its place in the conversation; a result's is that of the first unanswered
    call of the last answer that made any, of the function that the result names if it names one.
    """

    def __init__(self) -> None:
        self._open: dict[str, str] = {}  # the function's name, by the id of the call

    def completed(self, message: Message, index: int) -> Message:
        """Give *message* with its ids."""
        calls = message.get("tool_calls")
        if isinstance(calls, (list, tuple)) and calls:
            self._open = {}
            whole = [self._call(call, f"call_{index}_{i}") for i, call in enumerate(calls)]
            return message if whole == list(calls) else {**message, "tool_calls": whole}
        return self._result(message) if message.get("role") == "tool" else message

    def _call(self, call: JSON, stand_in: str) -> JSON:
        if not isinstance(call, Mapping):
            return call
        call_id, function = call.get("id") or stand_in, call.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        if isinstance(call_id, str):
            self._open[call_id] = name if isinstance(name, str) else ""
        return {**call, "id": call_id}

    def _result(self, message: Message) -> Message:
        own, name = message.get("tool_call_id"), message.get("name")
        fitting = (known for known, named in self._open.items() if not name or name == named)
        call_id = own or next(fitting, None)
        if isinstance(call_id, str):
            self._open.pop(call_id, None)
        return message if own or call_id is None else {**message, "tool_call_id": call_id}


# ---- where it goes ------------------------------------------------------------------------------


def max_tokens_field(target: Target) -> str:
    """Give what *target* calls the longest answer."""
    if target.max_tokens_field is not None:
        return target.max_tokens_field
    is_openai = target.api_version is not None or _is_openai(target.base_url)
    return "max_completion_tokens" if is_openai else "max_tokens"


@lru_cache
def _is_openai(base_url: str) -> bool:
    return (urlsplit(base_url).hostname or "").endswith(_OPENAI_HOSTS)


def path_of(target: Target) -> str:
    """Give the path behind the ``base_url`` of *target*."""
    if target.api_version is None:
        return "/chat/completions"
    root = _azure_root(target, target.api_version)
    return f"{root}/chat/completions?api-version={target.api_version}"


def _azure_root(target: Target, version: str) -> str:
    """Give what a ``base_url`` lacks: a resource's alone, or with a part or all of the path."""
    base = urlsplit(target.base_url).path.rstrip("/")
    if "/deployments/" in base or base.endswith(("/v1", "/models")):
        return ""
    root = "" if base.endswith("/openai") else "/openai"
    if version in UNDATED_VERSIONS:
        return f"{root}/v1"
    return f"{root}/deployments/{quote(target.model, safe='')}"


def authentication(target: Target, key: Secret | None) -> Mapping[str, Secret]:
    """Give the header that holds *key*."""
    if key is None:
        return {}
    if target.api_version is not None:
        return {"api-key": key}
    return {"authorization": key.after("Bearer ")}
