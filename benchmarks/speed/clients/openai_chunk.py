"""The fields of a chunk on OpenAI's wire, for those who decode it by hand."""

from __future__ import annotations

import json

import msgspec

QUESTION = "Name three rivers."


class Delta(msgspec.Struct):
    """What is new."""

    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class Choice(msgspec.Struct):
    """One of the answers."""

    index: int
    delta: Delta
    finish_reason: str | None = None


class Usage(msgspec.Struct):
    """What was counted."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatChunk(msgspec.Struct):
    """An event."""

    id: str
    model: str
    created: int
    choices: list[Choice]
    usage: Usage | None = None


decode = msgspec.json.Decoder(ChatChunk).decode


def take_apart(received: bytes) -> tuple[list[str], bytes]:
    """Give the texts of the whole events in *received*, and what comes after those."""
    *events, rest = received.split(b"\n\n")
    texts = [
        choice.delta.content
        for event in events
        if event != b"data: [DONE]"
        for choice in decode(event[6:]).choices
        if choice.delta.content
    ]
    return texts, rest


def body(model: str) -> bytes:
    """Give the request's body."""
    messages = [{"role": "user", "content": QUESTION}]
    return json.dumps({"model": model, "messages": messages, "stream": True}).encode()
