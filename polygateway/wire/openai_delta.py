"""What one delta of OpenAI's chat wire holds, in all the shapes in which servers send it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..usage import Usage
from .answer import CallPiece
from .jsontext import as_count, as_json, as_object, as_objects, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..messages import JSON
    from .answer import CallKey, TextKind


def texts_in(delta: Mapping[str, JSON]) -> list[tuple[TextKind, str]]:
    """Give what is not empty of the reasoning, the text and the refusal of a delta."""
    text, thinking = _content(delta.get("content"))
    texts: tuple[tuple[TextKind, str], ...] = (
        ("reasoning", _reasoning(delta) or thinking),
        ("text", text),
        ("refusal", as_text(delta.get("refusal"))),
    )
    return [(kind, piece) for kind, piece in texts if piece]


def _content(content: JSON) -> tuple[str, str]:
    """Give the text and the thinking of a string or of Mistral's list of parts."""
    if isinstance(content, str):
        return content, ""
    parts = as_objects(content)
    text = "".join(as_text(part.get("text")) for part in parts)
    return text, "".join(map(_thinking, parts))


def _thinking(part: Mapping[str, JSON]) -> str:
    thinking = part.get("thinking")
    inner = (as_text(inner.get("text")) for inner in as_objects(thinking))
    return as_text(thinking) or "".join(inner)


def _reasoning(delta: Mapping[str, JSON]) -> str:
    plain = as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning"))
    return plain or "".join(map(_detail, as_objects(delta.get("reasoning_details"))))


def _detail(detail: Mapping[str, JSON]) -> str:
    return as_text(detail.get("text")) or as_text(detail.get("summary"))


def calls_in(delta: Mapping[str, JSON]) -> list[CallPiece]:
    """Give the pieces of tool calls in a delta."""
    if calls := as_objects(delta.get("tool_calls")):
        return [_call(call) for call in calls]
    older = as_object(delta.get("function_call"))
    return [_call_piece("function_call", None, older)] if older else []


def _call(call: Mapping[str, JSON]) -> CallPiece:
    call_id, index = as_text(call.get("id")) or None, as_count(call.get("index"))
    key = call_id if index is None else index
    return _call_piece(key, call_id, as_object(call.get("function")))


def _call_piece(key: CallKey, id: str | None, function: Mapping[str, JSON]) -> CallPiece:
    arguments = function.get("arguments")
    if isinstance(arguments, dict):  # an object where OpenAI has its text
        arguments = as_json(arguments)
    return CallPiece(key, id, as_text(function.get("name")), as_text(arguments))


def usage_in(usage: Mapping[str, JSON]) -> Usage:
    """Give the token counts of a usage object, by whatever names it has them."""
    cached = (
        as_object(usage.get("prompt_tokens_details")).get("cached_tokens"),
        usage.get("prompt_cache_hit_tokens"),  # DeepSeek
        usage.get("cached_tokens"),  # Moonshot
    )
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        reasoning_tokens=as_count(
            as_object(usage.get("completion_tokens_details")).get("reasoning_tokens")
        ),
        cached_input_tokens=next((n for n in map(as_count, cached) if n is not None), None),
    )
