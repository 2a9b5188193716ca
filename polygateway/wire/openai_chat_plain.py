"""The events of OpenAI's chat wire that bring a piece of text and nothing else: nearly all."""

# Theory of operation
# ===================
#
# The shapes name every field that the decoder looks at, each with the values that mean nothing to
# it. Whatever fits brings text only; the other fields are passed over here as they are there. What
# does not fit is read again by the decoder, which alone knows what all the rest means.
#
# msgspec reads a shape without making the objects that JSON would become, and is as strict as the
# decoder's JSON in what it passes over.

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class _Delta(msgspec.Struct, gc=False):
    content: Annotated[str, msgspec.Meta(min_length=1)]
    refusal: Literal[""] | None = None
    reasoning_content: None = None
    reasoning: Literal[""] | None = None
    reasoning_details: None = None
    thinking_blocks: None = None
    tool_calls: None = None
    function_call: None = None
    extra_content: None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta
    index: Literal[0] = 0
    finish_reason: Literal["", "null"] | None = None
    usage: None = None
    error: msgspec.UnsetType = msgspec.UNSET  # a null beside it is looked at


class _Event(msgspec.Struct, gc=False):
    choices: tuple[_Choice]
    object: Literal["chat.completion.chunk"] | None = None
    type: None = None
    usage: None = None
    x_groq: None = None
    error: None = None


_decode = msgspec.json.Decoder(_Event).decode


def plain_text(data: str) -> str:
    """Give the text that an event brings to its first choice; empty if it may bring more."""
    try:
        return _decode(data).choices[0].delta.content
    except (msgspec.MsgspecError, RecursionError):
        return ""
