"""The events of an answer on the two wires that are spoken here. Standard library only."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHARACTERS = 20
"""Of each content that is made here: as many as nanoseconds since a boot may have digits."""

SIZE = 250
"""Bytes of an event with content, about what OpenAI's are."""

COMMENT = b": keep-alive\n\n"

_MARK = "\0"


class Wire(ABC):
    """Events, each as the bytes that a provider writes."""

    path: str
    """Where requests go."""

    @abstractmethod
    def begin(self) -> Sequence[bytes]:
        """Give what comes before the content."""

    @abstractmethod
    def around(self, size: int = SIZE) -> tuple[bytes, bytes]:
        """Give what stands before and after a content of 20 characters in an event of *size* bytes.

        Raises:
            ValueError: *size* is too small for an event of this wire.
        """

    @abstractmethod
    def end(self, chunks: int) -> Sequence[bytes]:
        """Give what comes after so many chunks of content."""

    def content(self, text: str, size: int = SIZE) -> bytes:
        """Give an event with *text*, of *size* bytes if the text has 20 characters.

        Raises:
            ValueError: *size* is too small for an event of this wire.
        """
        before, after = self.around(size)
        return before + json.dumps(text)[1:-1].encode() + after


class OpenAIWire(Wire):
    """OpenAI's chat completions."""

    path = "/v1/chat/completions"

    def begin(self) -> Sequence[bytes]:
        """Give the role."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def around(self, size: int = SIZE) -> tuple[bytes, bytes]:
        """Split an event with a text; what it lacks in size is padding, OpenAI's own field."""
        event = self._chunk({"content": _MARK}, obfuscation=_MARK)
        before, between, after = event.split(json.dumps(_MARK)[1:-1].encode())
        return before, between + _padding(size, before, between, after) * b"x" + after

    def end(self, chunks: int) -> Sequence[bytes]:
        """Give the finish reason with the token counts, and the end mark.

        OpenAI counts in an event of its own, and only if asked; so every client gets the same.
        """
        usage = {"prompt_tokens": 9, "completion_tokens": chunks, "total_tokens": 9 + chunks}
        return [self._chunk({}, "stop", usage=usage), b"data: [DONE]\n\n"]

    def _chunk(self, delta: Mapping[str, str], reason: str | None = None, **more: object) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        fields = {
            "id": "chatcmpl-C8kTnW2mR5vQx7LhZ0aYb",
            "object": "chat.completion.chunk",
            "created": 1764374400,
            "model": "gpt-4o",
            "choices": [choice],
            **more,
        }
        return b"data: " + _compact(fields) + b"\n\n"


class AnthropicWire(Wire):
    """Anthropic's messages."""

    path = "/v1/messages"

    def begin(self) -> Sequence[bytes]:
        """Give the message without content, and its first block's start."""
        message: dict[str, object] = {
            "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 1},
        }
        block = {"type": "text", "text": ""}
        return [
            _event("message_start", message=message),
            _event("content_block_start", index=0, content_block=block),
        ]

    def around(self, size: int = SIZE) -> tuple[bytes, bytes]:
        """Split an event with a text; what it lacks in size is blanks, as Anthropic pads."""
        delta = {"type": "text_delta", "text": _MARK}
        event = _event("content_block_delta", index=0, delta=delta)
        before, after = event.split(json.dumps(_MARK)[1:-1].encode())
        last = b"}\n\n"
        after = after.removesuffix(last)
        return before, after + _padding(size, before, after, last) * b" " + last

    def end(self, chunks: int) -> Sequence[bytes]:
        """Give the end of the block, the stop reason with the token counts, and the end."""
        delta = {"stop_reason": "end_turn", "stop_sequence": None}
        return [
            _event("content_block_stop", index=0),
            _event("message_delta", delta=delta, usage={"output_tokens": chunks}),
            _event("message_stop"),
        ]


WIRES: Mapping[str, Wire] = {wire.path: wire for wire in (OpenAIWire(), AnthropicWire())}


def _padding(size: int, *parts: bytes) -> int:
    missing = size - CHARACTERS - sum(map(len, parts))
    if missing < 0:
        raise ValueError(f"an event of {size} bytes is too small by {-missing}")
    return missing


def _event(kind: str, **fields: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), _compact({"type": kind, **fields}))


def _compact(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def framed(event: bytes) -> bytes:
    """Give *event* as HTTP/1.1 carries it: as a chunk."""
    return b"%x\r\n%s\r\n" % (len(event), event)
