"""What the servers are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polygateway.messages import JSON, Message

PORT: Mapping[str, JSON] = {
    "type": "object",
    "properties": {"port": {"type": "string", "enum": ["Oban", "Kiel"]}},
    "required": ["port"],
    "additionalProperties": False,
}
"""A schema that leaves little room."""

TIDE: Mapping[str, JSON] = {
    "type": "function",
    "function": {"name": "tide", "description": "The tide at a port.", "parameters": PORT},
}
"""A tool."""

QUESTION: Message = {"role": "user", "content": "How is the tide?"}

CONVERSATION: Sequence[Message] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Is it high?"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "tide", "arguments": '{"port": "Oban"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "2.4 m"},
    {"role": "assistant", "content": "It is."},
    {"role": "user", "content": [{"type": "text", "text": "How is the tide at Kiel?"}]},
)
"""Something of everything that all wires can say."""
