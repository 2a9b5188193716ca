"""What one delta of OpenAI's chat wire holds, in all the shapes in which servers send it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..usage import Usage
from .answer import CallPiece
from .jsontext import as_count, as_json, as_object, as_objects, as_text
from .openai_chat_opaque import extra_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..messages import JSON
    from .answer import CallKey, TextKind

# Types of parts whose text is reasoning: Mistral's and Databricks' (symfony/ai#2422, opik#8376).
_THOUGHTS = frozenset({"thinking", "reasoning"})

# Gemini puts these around thoughts in the content (see :func:`is_thought`).
_THOUGHT, _THOUGHT_END = "<thought>", "</thought>"


# ---- texts --------------------------------------------------------------------------------------


def texts_in(
    delta: Mapping[str, JSON], *, after_thought: bool = False
) -> list[tuple[TextKind, str]]:
    """Give what is not empty of the reasoning, the text and the refusal of a delta.

    Args:
        delta: what came.
        after_thought: whether the content before it was a thought (see :func:`is_thought`).
    """
    text, thinking, refused = _content(delta.get("content"))
    if is_thought(delta):
        thought, _, text = text.removeprefix(_THOUGHT).partition(_THOUGHT_END)
        thinking += thought
    elif after_thought:
        text = text.removeprefix(_THOUGHT_END)
    texts: tuple[tuple[TextKind, str], ...] = (
        ("reasoning", _reasoning(delta) or thinking),
        ("text", text),
        ("refusal", as_text(delta.get("refusal")) or refused),
    )
    return [(kind, piece) for kind, piece in texts if piece]


def is_thought(delta: Mapping[str, JSON]) -> bool:
    """Tell whether the content is a thought: how Gemini's compatible endpoint says it."""
    if "extra_content" not in delta:  # nearly all deltas
        return False
    google = as_object(as_object(delta["extra_content"]).get("google"))
    return google.get("thought") is True


def _content(content: JSON) -> tuple[str, str, str]:
    """Give the text, the thinking and the refusal of a string or of a list of parts."""
    if isinstance(content, str):
        return content, "", ""
    texts = {"text": "", "thinking": "", "refusal": ""}
    for part in as_objects(content):
        if as_text(part.get("type")) in _THOUGHTS:
            texts["thinking"] += _thought(part)
        else:
            texts["text"] += as_text(part.get("text"))
            texts["refusal"] += as_text(part.get("refusal"))
    return texts["text"], texts["thinking"], texts["refusal"]


def _thought(part: Mapping[str, JSON]) -> str:
    """Give the text of a thought: under one of these names, or in parts of its own."""
    texts = (_text_in(part.get(name)) for name in ("thinking", "summary", "text"))
    return next(filter(None, texts), "")


def _text_in(value: JSON) -> str:
    return as_text(value) or "".join(as_text(part.get("text")) for part in as_objects(value))


def _reasoning(delta: Mapping[str, JSON]) -> str:
    plain = as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning"))
    return plain or "".join(map(_detail, as_objects(delta.get("reasoning_details"))))


def _detail(detail: Mapping[str, JSON]) -> str:
    return as_text(detail.get("text")) or as_text(detail.get("summary"))


# ---- tool calls ---------------------------------------------------------------------------------


def calls_in(delta: Mapping[str, JSON]) -> Sequence[CallPiece]:
    """Give the pieces of tool calls in a delta.

    Raises:
        Malformed: arguments are nested too deeply.
    """
    calls = delta.get("tool_calls")
    if calls := as_objects([calls] if calls and isinstance(calls, dict) else calls):
        return [_call(call) for call in calls]
    older = as_object(delta.get("function_call"))
    return [_call_piece("function_call", None, older, "")] if older else []


def _call(call: Mapping[str, JSON]) -> CallPiece:
    call_id, index = as_text(call.get("id")) or None, as_count(call.get("index"))
    key = call_id if index is None else index
    return _call_piece(key, call_id, as_object(call.get("function")), extra_in(call))


def _call_piece(
    key: CallKey, id: str | None, function: Mapping[str, JSON], extra: str
) -> CallPiece:
    arguments = function.get("arguments")
    if isinstance(arguments, dict):  # an object where OpenAI has its text
        arguments = as_json(arguments)
    return CallPiece(key, id, as_text(function.get("name")), as_text(arguments), extra)


# ---- usage --------------------------------------------------------------------------------------


def usage_in(usage: Mapping[str, JSON]) -> Usage:
    """Give the token counts of a usage object, by whatever names it has them."""
    details = as_object(usage.get("completion_tokens_details"))
    reasoning = as_count(details.get("reasoning_tokens"))
    prompt = _first_count(usage, "prompt_tokens", "input_tokens")  # the second: mlx-vlm, pi#2326
    output = _first_count(usage, "completion_tokens", "output_tokens")
    if prompt is not None and output is not None and reasoning:
        # xAI counts its reasoning apart (sub2api#5771; Vertex AI, "Reasoning for Grok Models");
        # only the total tells.
        is_apart = as_count(usage.get("total_tokens")) == prompt + output + reasoning
        output += reasoning * is_apart
    cached = _first_count(as_object(usage.get("prompt_tokens_details")), "cached_tokens")
    if cached is None:  # DeepSeek, Moonshot
        cached = _first_count(usage, "prompt_cache_hit_tokens", "cached_tokens")
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        reasoning_tokens=reasoning,
        cached_input_tokens=cached,
    )


def _first_count(counts: Mapping[str, JSON], *names: str) -> int | None:
    return next((n for n in map(as_count, map(counts.get, names)) if n is not None), None)
