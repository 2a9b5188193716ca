"""One short whole answer on every wire, event by event, with what each event means."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway.messages import JSON
    from polygateway.policies import DialectName


@attrs.frozen
class GoldenEvent:
    """One event of a stream."""

    data: bytes
    whole: int
    """How many of its bytes make it readable where the transport ends behind them."""

    given: int
    """How many of them make it readable while more may come. A CR ends a line at once."""

    text: str = ""
    """What it brings of the answer's text; an event that brings none is no content."""

    terminal: bool = False
    """Whether with it the answer is whole."""


@attrs.frozen
class Golden:
    """A whole answer, ``Ebb. Tide.``, in two pieces."""

    events: tuple[GoldenEvent, ...]
    content_type: str


def _sse(
    value: JSON, text: str = "", *, name: str = "", terminal: bool = False, eol: str = "\n"
) -> GoldenEvent:
    data = value if isinstance(value, str) else json.dumps(value)
    head = f"event: {name}{eol}" if name else ""
    whole = f"{head}data: {data}".encode()
    given = len(whole) + len(eol) + 1
    return GoldenEvent(whole + 2 * eol.encode(), len(whole), given, text, terminal)


def _chat(delta: JSON, finish: str | None = None) -> GoldenEvent:
    text = str(delta["content"]) if isinstance(delta, dict) and "content" in delta else ""
    choice: JSON = {"delta": delta, "finish_reason": finish}
    return _sse({"id": "c1", "choices": [choice]}, text, terminal=finish is not None)


def _typed(fields: Mapping[str, JSON], text: str = "", *, terminal: bool = False) -> GoldenEvent:
    return _sse(fields, text, name=str(fields["type"]), terminal=terminal)


def _anthropic_text(text: str) -> GoldenEvent:
    delta: JSON = {"type": "text_delta", "text": text}
    return _typed({"type": "content_block_delta", "index": 0, "delta": delta}, text)


def _responses_text(text: str) -> GoldenEvent:
    return _typed({"type": "response.output_text.delta", "output_index": 0, "delta": text}, text)


def _gemini(text: str, finish: str | None = None) -> Mapping[str, JSON]:
    candidate: dict[str, JSON] = {"content": {"parts": [{"text": text}]}}
    return {"candidates": [candidate if finish is None else {**candidate, "finishReason": finish}]}


def _ollama(text: str, *, done: bool = False) -> GoldenEvent:
    value: JSON = {"message": {"role": "assistant", "content": text}, "done": done}
    data = json.dumps(value).encode()
    return GoldenEvent(data + b"\n", len(data), len(data), text, done)


def _element(before: bytes, text: str, finish: str | None = None) -> GoldenEvent:
    data = before + json.dumps(_gemini(text, finish)).encode()
    return GoldenEvent(data, len(data), len(data), text, finish is not None)


SSE = "text/event-stream"
GOLDEN: Mapping[str, tuple[DialectName, Golden]] = {
    "openai-chat": (
        "openai-chat",
        Golden(
            (
                _chat({"role": "assistant"}),
                _chat({"content": "Ebb. "}),
                _chat({"content": "Tide."}),
                _chat({}, "stop"),
                _sse("[DONE]"),
            ),
            SSE,
        ),
    ),
    "openai-responses": (
        "openai-responses",
        Golden(
            (
                _typed({"type": "response.created", "response": {"id": "r1"}}),
                _responses_text("Ebb. "),
                _responses_text("Tide."),
                _typed(
                    {"type": "response.completed", "response": {"id": "r1", "status": "completed"}},
                    terminal=True,
                ),
            ),
            SSE,
        ),
    ),
    "anthropic": (
        "anthropic",
        Golden(
            (
                _typed({"type": "message_start", "message": {"id": "m1"}}),
                _typed({"type": "ping"}),
                _anthropic_text("Ebb. "),
                _anthropic_text("Tide."),
                _typed(
                    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, terminal=True
                ),
                _typed({"type": "message_stop"}),
            ),
            SSE,
        ),
    ),
    "gemini": (
        "gemini",
        Golden(
            (
                _sse(_gemini("Ebb. "), "Ebb. ", eol="\r\n"),
                _sse(_gemini("Tide.", "STOP"), "Tide.", eol="\r\n", terminal=True),
            ),
            SSE,
        ),
    ),
    "gemini without alt=sse": (
        "gemini",
        Golden(
            (
                _element(b"[", "Ebb. "),
                _element(b"\n,\n", "Tide.", "STOP"),
                GoldenEvent(b"\n]", 2, 2),
            ),
            "application/json",
        ),
    ),
    "ollama": (
        "ollama",
        Golden(
            (_ollama("Ebb. "), _ollama("Tide."), _ollama("", done=True)), "application/x-ndjson"
        ),
    ),
}
"""By the name of the wire: its dialect, and the answer."""
