"""A tool-use loop over every pair of wires: what only a provider understands goes to it alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from polygateway import Config, HedgePolicy, RetryPolicy, Target, open_gateway
from polygateway.testing import ScriptedProvider, raw, run_virtual, serve_memory
from polygateway.wire import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway import Completion
    from polygateway.messages import JSON, Message
    from polygateway.policies import DialectName
    from polygateway.testing import Request

OPAQUE = "b3BhcXVl"  # what nobody but the provider can read
QUESTION: Message = {"role": "user", "content": "When is the tide at Brest?"}
TOOLS: list[Mapping[str, JSON]] = [
    {
        "type": "function",
        "function": {
            "name": "tide_at",
            "description": "Gives the time of the next high tide.",
            "parameters": {"type": "object", "properties": {"port": {"type": "string"}}},
        },
    }
]


def sse(*values: JSON) -> bytes:
    return b"".join(f"data: {json.dumps(value)}\n\n".encode() for value in values)


def chat_call() -> bytes:
    function: JSON = {"name": "tide_at", "arguments": '{"port": "Brest"}'}
    detail: JSON = {"type": "reasoning.encrypted", "data": OPAQUE, "index": 0}
    delta: JSON = {
        "reasoning_details": [detail],
        "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}],
    }
    choices: JSON = [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]
    return sse({"id": "c1", "choices": choices}) + b"data: [DONE]\n\n"


def responses_call() -> bytes:
    reasoning: JSON = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": OPAQUE,
    }
    call: JSON = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "tide_at",
        "arguments": '{"port": "Brest"}',
        "status": "completed",
    }
    done = "response.output_item.done"
    return sse(
        {"type": done, "output_index": 0, "item": reasoning},
        {"type": done, "output_index": 1, "item": call},
        {
            "type": "response.completed",
            "response": {"id": "r1", "status": "completed", "output": [reasoning, call]},
        },
    )


def anthropic_call() -> bytes:
    def start(index: int, block: JSON) -> JSON:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def delta(index: int, piece: JSON) -> JSON:
        return {"type": "content_block_delta", "index": index, "delta": piece}

    return sse(
        {"type": "message_start", "message": {"id": "m1"}},
        start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(0, {"type": "thinking_delta", "thinking": "Moon."}),
        delta(0, {"type": "signature_delta", "signature": OPAQUE}),
        {"type": "content_block_stop", "index": 0},
        start(1, {"type": "tool_use", "id": "call_1", "name": "tide_at", "input": {}}),
        delta(1, {"type": "input_json_delta", "partial_json": '{"port": "Brest"}'}),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    )


def gemini_call() -> bytes:
    call: JSON = {"name": "tide_at", "args": {"port": "Brest"}}
    parts: JSON = [{"functionCall": call, "thoughtSignature": OPAQUE}]
    return sse({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})


def ollama_call() -> bytes:
    function: JSON = {"name": "tide_at", "arguments": {"port": "Brest"}}
    message: JSON = {
        "role": "assistant",
        "content": "",
        "thinking": OPAQUE,
        "tool_calls": [{"function": function}],
    }
    lines: list[JSON] = [{"message": message, "done": False}, {"done": True, "done_reason": "stop"}]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


CALLS: Mapping[DialectName, bytes] = {
    "openai-chat": chat_call(),
    "openai-responses": responses_call(),
    "anthropic": anthropic_call(),
    "gemini": gemini_call(),
    "ollama": ollama_call(),
}
"""An answer on each wire that asks for a tool, and holds what only its provider understands."""


async def loop(
    first: DialectName, then: DialectName, change: Mapping[str, JSON]
) -> tuple[Request, Completion]:
    """Ask on the wire *first*, give the tool's result to *then*; give what that was asked."""
    providers = {name: ScriptedProvider([raw(CALLS[dialect])]) for name, dialect in NAMES.items()}
    async with serve_memory(providers) as network:
        config = Config(
            targets={
                name: Target(dialect=dialect, base_url=network.base_urls[name], model="lyra-3")
                for name, dialect in NAMES.items()
            },
            models={dialect: (name,) for name, dialect in NAMES.items()},
            hedge=HedgePolicy(enabled=False),
            retry=RetryPolicy(max_retries=0),
        )
        async with open_gateway(config, connect=network.connect) as gw:
            asked = await gw.complete([QUESTION], model=first, tools=TOOLS)
            (call,) = asked.tool_calls
            assert json.loads(call.arguments) == {"port": "Brest"}
            result = {"role": "tool", "content": "at noon", "tool_call_id": call.id}
            # As an application that keeps its conversations somewhere would.
            stored = json.loads(json.dumps({**asked.message, **change}, default=dict))
            answer = await gw.complete([QUESTION, stored, result], model=then, tools=TOOLS)
    name = next(name for name, dialect in NAMES.items() if dialect == then)
    return providers[name].log[-1].request, answer


NAMES: Mapping[str, DialectName] = {name.replace("-", ""): name for name in DIALECTS}


@pytest.mark.parametrize("then", DIALECTS)
@pytest.mark.parametrize("first", DIALECTS)
def test_a_tool_s_result_can_be_given_to_any_provider(
    first: DialectName, then: DialectName
) -> None:
    unchanged: Mapping[str, JSON] = {}
    request, answer = run_virtual(loop, first, then, unchanged)
    sent = request.content.decode()
    assert "at noon" in sent
    assert "tide_at" in sent
    assert "Brest" in sent
    assert (OPAQUE in sent) == (first == then)
    (attempt,) = answer.stats.attempts
    assert list(attempt.left_out) == ([] if first == then else [first])


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "openai-chat"])
def test_what_the_application_has_changed_is_not_undone_by_what_the_provider_kept(
    dialect: DialectName,
) -> None:
    request, answer = run_virtual(loop, dialect, dialect, {"content": "I shall look it up."})
    assert "I shall look it up." in request.content.decode()
    assert OPAQUE not in request.content.decode()
    (attempt,) = answer.stats.attempts
    assert list(attempt.left_out) == [dialect]
