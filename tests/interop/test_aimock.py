"""aimock understands our requests on all wires, and we understand what it answers.

aimock (npm) imitates the providers' servers. It turns every request into one of OpenAI's chat API,
whatever the wire, and shows that in its journal: so what it has understood can be compared.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs
import pytest

from polygateway import (
    AttemptError,
    AuthenticationFailed,
    ConnectFailed,
    ContextLengthExceeded,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    QuotaExhausted,
    RateLimited,
    ServerError,
    Truncated,
)
from polygateway.wire import DIALECTS
from tests.interop.prompts import CONVERSATION, QUESTION, TIDE
from tests.interop.servers import KEY_ENV, gateway, table, tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polygateway.messages import JSON, Completion, Message
    from polygateway.policies import DialectName
    from polygateway.request import CallOptions
    from tests.interop.servers import Server

on_every_wire = pytest.mark.parametrize("wire", DIALECTS)


def entry(aimock: Server, answer: Completion) -> Mapping[str, JSON]:
    """Give what the journal has about the request that got *answer*."""
    for _ in range(500):  # it is written behind the answer
        for found in tables(aimock.get(f"/__aimock/journal?requestId={answer.request_id}")):
            return found
    raise LookupError(f"no request {answer.request_id!r}")


def understood(aimock: Server, answer: Completion) -> Mapping[str, JSON]:
    """Give the request that got *answer*, as aimock has understood it."""
    return table(entry(aimock, answer)["body"])


# ---- requests -----------------------------------------------------------------------------------


def facts(messages: JSON) -> Iterator[tuple[str, JSON]]:
    """Take messages apart, for wires put what one message says into one or several."""
    for message in tables(messages):
        text = message.get("content")
        if isinstance(text, list):
            text = "".join(str(part["text"]) for part in tables(text))
        if text:
            yield str(message["role"]), text
        for call in tables(message.get("tool_calls")):
            function = table(call["function"])
            yield f"call of {function['name']}", json.loads(str(function["arguments"]))


# aimock does not read the field in which Gemini has a JSON schema.
WITHOUT_SCHEMA: JSON = {
    "type": "function",
    "function": {"name": "tide", "description": "The tide at a port."},
}


@on_every_wire
async def test_a_conversation_is_understood_as_the_same_on_every_wire(
    aimock: Server, wire: DialectName
) -> None:
    answer = await aimock.ask(wire, CONVERSATION, tools=[TIDE], temperature=0.25, max_tokens=70)
    seen = understood(aimock, answer)
    found = list(facts(seen["messages"]))
    role, result = found.pop(4)
    assert (role, "2.4 m" in str(result)) == ("tool", True)  # Gemini's is wrapped in an object
    assert found == [
        ("system", "Be brief."),
        ("user", "Is it high?"),
        ("assistant", "I look."),
        ("call of tide", {"port": "Oban"}),
        ("assistant", "It is."),
        ("user", "How is the tide at Kiel?"),
    ]
    assert seen["tools"] == [WITHOUT_SCHEMA if wire == "gemini" else TIDE]
    assert (seen["model"], seen["temperature"], seen["max_tokens"]) == ("tiny", 0.25, 70)
    assert seen["stream"] is True


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic", "gemini"])
async def test_a_result_is_understood_as_that_of_its_call(
    aimock: Server, wire: DialectName
) -> None:
    answer = await aimock.ask(wire, CONVERSATION, tools=[TIDE], max_tokens=70)
    messages = tables(understood(aimock, answer)["messages"])
    (call,) = (call for message in messages for call in tables(message.get("tool_calls")))
    (result,) = (message for message in messages if message["role"] == "tool")
    assert result["tool_call_id"] == call["id"]


@on_every_wire
async def test_a_key_that_it_does_not_know_is_refused(
    aimock: Server, wire: DialectName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_ENV, "sk-wrong-9876543210")
    with pytest.raises(AuthenticationFailed) as caught:
        await aimock.ask(wire, [QUESTION])
    assert caught.value.status == 401


async def test_azures_deployments_are_found_under_their_own_paths(aimock: Server) -> None:
    target = attrs.evolve(
        aimock.target("openai-chat"), base_url=aimock.url, api_version="2024-10-21"
    )
    async with gateway(target) as gw:
        answer = await gw.complete([QUESTION], model="m")
    seen = entry(aimock, answer)
    assert seen["path"] == "/openai/deployments/tiny/chat/completions?api-version=2024-10-21"
    assert "api-key" in table(seen["headers"])


# ---- answers ------------------------------------------------------------------------------------


@on_every_wire
async def test_an_answer_is_whole(aimock: Server, wire: DialectName) -> None:
    async with gateway(aimock.target(wire)) as gw, gw.stream([QUESTION], model="m") as stream:
        pieces = [chunk.text async for chunk in stream]
    assert pieces == ["The ", "tide", " is ", "high", ".", ""]
    assert stream.completion.text == "The tide is high."
    assert stream.completion.finish_reason == "stop"
    used = stream.completion.usage
    counts = (0, 0) if wire == "ollama" else (11, 7)  # on that wire aimock always says 0
    assert (used.input_tokens, used.output_tokens, used.confidence) == (*counts, "exact")


# aimock's Ollama has its reasoning where no Ollama has it.
@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic", "gemini"])
async def test_reasoning_is_told_from_the_answer(aimock: Server, wire: DialectName) -> None:
    answer = await aimock.ask(wire, "Think.")
    assert (answer.reasoning, answer.text) == ("The moon is full.", "High.")


@on_every_wire
async def test_tools_are_called(aimock: Server, wire: DialectName) -> None:
    answer = await aimock.ask(wire, "Call both.", tools=[TIDE])
    assert answer.text == "I look."
    calls = [(call.name, json.loads(call.arguments), call.complete) for call in answer.tool_calls]
    assert calls == [("tide", {"port": port}, True) for port in ("Oban", "Kiel")]
    # Its Gemini says "FUNCTION_CALL", which is no word of Gemini's.
    assert answer.finish_reason == ("other" if wire == "gemini" else "tool_calls")


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ("openai-chat", "length"),
        ("openai-responses", "other"),  # aimock says "incomplete", and not why
        ("anthropic", "length"),
        ("gemini", "length"),
    ],
)
async def test_an_answer_that_was_too_long_says_so(
    aimock: Server, wire: DialectName, reason: str
) -> None:
    answer = await aimock.ask(wire, "Tell all.")
    assert (answer.text, answer.finish_reason) == ("Once upon a", reason)


THINK_THEN_CALL: Message = {"role": "user", "content": "Think, then call."}


@on_every_wire
async def test_an_answer_with_a_call_can_go_into_the_next_prompt(
    aimock: Server, wire: DialectName
) -> None:
    asked = await aimock.ask(wire, [THINK_THEN_CALL], tools=[TIDE])
    (call,) = asked.tool_calls
    result: Message = {"role": "tool", "tool_call_id": call.id, "content": "2.4 m"}
    answer = await aimock.ask(wire, [THINK_THEN_CALL, asked.message, result], tools=[TIDE])
    assert answer.text == "High, at 2.4 m."
    assert ("call of tide", {"port": "Oban"}) in facts(understood(aimock, answer)["messages"])


async def test_thinking_goes_back_with_its_signature(aimock: Server) -> None:
    options: CallOptions = {
        "tools": [TIDE],
        "max_tokens": 4000,
        "extra": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
    }
    asked = (await aimock.ask("anthropic", [THINK_THEN_CALL], **options)).message
    result: Message = {"role": "tool", "tool_call_id": "call_1", "content": "2.4 m"}
    answer = await aimock.ask("anthropic", [THINK_THEN_CALL, asked, result], **options)
    assert answer.text == "High, at 2.4 m."
    stripped = {name: value for name, value in asked.items() if name != "opaque"}
    with pytest.raises(InvalidRequest, match="thinking"):  # it is noticed where it is missing
        await aimock.ask("anthropic", [THINK_THEN_CALL, stripped, result], **options)


# ---- failures -----------------------------------------------------------------------------------


@on_every_wire
@pytest.mark.parametrize(
    ("prompt", "error"),
    [
        ("Be busy.", RateLimited),
        ("Be broke.", QuotaExhausted),
        ("Be full.", ContextLengthExceeded),
        ("Be down.", ServerError),
        ("Be overloaded.", Overloaded),
        ("Be garbled.", ProtocolViolation),
        ("Be gone.", ConnectFailed),
    ],
)
async def test_a_failure_is_what_it_says(
    aimock: Server, wire: DialectName, prompt: str, error: type[AttemptError]
) -> None:
    with pytest.raises(AttemptError) as caught:
        await aimock.ask(wire, prompt)
    assert type(caught.value) is error


@on_every_wire
async def test_a_busy_server_says_for_how_long(aimock: Server, wire: DialectName) -> None:
    with pytest.raises(RateLimited) as caught:
        await aimock.ask(wire, "Be busy.")
    assert caught.value.retry_after_s == 7


@on_every_wire
async def test_an_answer_that_breaks_off_is_cut(aimock: Server, wire: DialectName) -> None:
    with pytest.raises(Truncated) as caught:
        await aimock.ask(wire, "Be cut.")
    assert caught.value.partial is not None
    assert "The tide is high, and the boats are out.".startswith(caught.value.partial.text)
    assert caught.value.partial.text
