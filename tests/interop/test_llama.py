"""llama.cpp's server understands our requests on three wires, and we understand its answers.

Its model babbles, so what it says is not judged. But the server tells under ``/slots`` what prompt
it has made of the last request, with what parameters it ran, and what came out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import pytest

from polygateway import AuthenticationFailed, ContextLengthExceeded, InvalidRequest
from polygateway.messages import JSON
from tests.interop.prompts import CONVERSATION, PORT, QUESTION, TIDE
from tests.interop.servers import KEY_ENV, gateway, table, tables
from tests.interop.tiny_model import CONTEXT

if TYPE_CHECKING:
    from polygateway.messages import Completion, Message
    from polygateway.policies import DialectName
    from tests.interop.servers import Server

WIRES: Sequence[DialectName] = ("openai-chat", "openai-responses", "anthropic")

on_every_wire = pytest.mark.parametrize("wire", WIRES)


@attrs.frozen
class Slot:
    """What the server knows of its last request."""

    prompt: str
    """What the model was given."""

    generated: str
    """What it answered."""

    parameters: Mapping[str, JSON]


def slot(llama: Server) -> Slot:
    (only,) = tables(llama.get("/slots"))
    return Slot(str(only["prompt"]), str(only["generated"]), table(only["params"]))


def tokens(text: str) -> int:
    """Count the tokens of *text* as the model's vocabulary has them."""
    return len(re.sub(r"<\|im_(start|end)\|>|</?think>|</?tool_call>|th", ".", text))


def said(answer: Completion) -> str:
    """Give an answer as the model has written it: always with reasoning, by its template."""
    return f"{answer.reasoning}</think>{answer.text}"


@on_every_wire
async def test_an_answer_is_what_the_model_has_generated(llama: Server, wire: DialectName) -> None:
    answer = await llama.ask(wire, [QUESTION], max_tokens=2000)
    assert said(answer) == slot(llama).generated
    assert answer.finish_reason == "stop"


@on_every_wire
async def test_its_pieces_are_the_answer(llama: Server, wire: DialectName) -> None:
    async with (
        gateway(llama.target(wire)) as gw,
        gw.stream([QUESTION], model="m", max_tokens=2000) as stream,
    ):
        chunks = [chunk async for chunk in stream]
    for kind, whole in (
        ("reasoning", stream.completion.reasoning),
        ("text", stream.completion.text),
    ):
        assert "".join(chunk.delta for chunk in chunks if chunk.kind == kind) == whole
    assert len(chunks) > 3


@on_every_wire
async def test_its_tokens_are_those_that_the_server_counted(
    llama: Server, wire: DialectName
) -> None:
    await llama.ask(wire, [QUESTION], max_tokens=5)
    usage = (await llama.ask(wire, [QUESTION], max_tokens=5)).usage
    count = tokens(slot(llama).prompt)
    assert (usage.input_tokens, usage.output_tokens, usage.confidence) == (count, 5, "exact")
    assert usage.cached_input_tokens == count - 1  # the same prompt was there before


@pytest.mark.parametrize(
    ("wire", "reason"),
    # On Responses the server says "completed" whatever ended the answer.
    [("openai-chat", "length"), ("anthropic", "length"), ("openai-responses", "stop")],
)
async def test_the_longest_answer_is_kept_to(llama: Server, wire: DialectName, reason: str) -> None:
    answer = await llama.ask(wire, [QUESTION], max_tokens=5)
    assert tokens(slot(llama).generated) == 5
    assert answer.finish_reason == reason


PROMPT = """\
<|im_start|>system
Be brief.

Tools:
%s<|im_end|>
<|im_start|>user
Is it high?<|im_end|>
<|im_start|>assistant
I look.
<tool_call>{"name": "tide", "arguments": {"port": "Oban"}}</tool_call><|im_end|>
<|im_start|>user
<tool_response>2.4 m</tool_response><|im_end|>
<|im_start|>assistant
It is.<|im_end|>
<|im_start|>user
How is the tide at Kiel?<|im_end|>
<|im_start|>assistant
<think>
"""


@on_every_wire
async def test_a_conversation_is_the_same_prompt_on_every_wire(
    llama: Server, wire: DialectName
) -> None:
    await llama.ask(wire, CONVERSATION, tools=[TIDE], max_tokens=5)
    assert slot(llama).prompt == PROMPT % json.dumps(TIDE)


@on_every_wire
async def test_sampling_is_as_it_was_asked_for(llama: Server, wire: DialectName) -> None:
    await llama.ask(wire, [QUESTION], max_tokens=7, temperature=0.25, top_p=0.5)
    asked = {"max_tokens": 7, "temperature": 0.25, "top_p": 0.5, "stream": True}
    parameters = slot(llama).parameters
    assert {name: parameters[name] for name in asked} == asked


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic"])
async def test_it_stops_at_a_stop_word(llama: Server, wire: DialectName) -> None:
    answer = await llama.ask(wire, [QUESTION], max_tokens=2000, stop=["e", "a"])
    assert slot(llama).parameters["stop"] == ["e", "a"]
    assert not {"e", "a"} & set(answer.reasoning + answer.text)
    assert answer.finish_reason == "stop"


async def test_the_same_seed_gives_the_same_answer(llama: Server) -> None:
    answers = [
        said(await llama.ask("openai-chat", [QUESTION], max_tokens=50, seed=seed))
        for seed in (1, 2, 1)
    ]
    assert answers[0] == answers[2] != answers[1]


# On the other wires the server does not look at the form.
async def test_an_answer_has_the_form_that_was_asked_for(llama: Server) -> None:
    form: Mapping[str, JSON] = {
        "type": "json_schema",
        "json_schema": {"name": "port", "schema": PORT},
    }
    answer = await llama.ask("openai-chat", [QUESTION], max_tokens=2000, response_format=form)
    assert json.loads(answer.text) in ({"port": "Oban"}, {"port": "Kiel"})


@on_every_wire
async def test_a_tool_that_must_be_called_is_called(llama: Server, wire: DialectName) -> None:
    answer = await llama.ask(
        wire, [QUESTION], tools=[TIDE], tool_choice="required", max_tokens=2000
    )
    assert answer.tool_calls
    assert answer.finish_reason == "tool_calls"
    for call in answer.tool_calls:
        assert call.name == "tide"
        assert call.complete
        assert json.loads(call.arguments) in ({"port": "Oban"}, {"port": "Kiel"})


@on_every_wire
async def test_the_answer_can_go_into_the_next_prompt(llama: Server, wire: DialectName) -> None:
    answer = await llama.ask(
        wire, [QUESTION], tools=[TIDE], tool_choice="required", max_tokens=2000
    )
    results: list[Message] = [
        {"role": "tool", "tool_call_id": call.id, "content": f"{index} m"}
        for index, call in enumerate(answer.tool_calls)
    ]
    await llama.ask(wire, [QUESTION, answer.message, *results], tools=[TIDE], max_tokens=5)
    prompt = slot(llama).prompt
    for index, call in enumerate(answer.tool_calls):
        written = json.dumps({"name": "tide", "arguments": json.loads(call.arguments)})
        assert f"<tool_call>{written}</tool_call>" in prompt
        assert f"<tool_response>{index} m</tool_response>" in prompt
    assert answer.text in prompt


# ---- what it refuses ----------------------------------------------------------------------------


@on_every_wire
async def test_a_prompt_that_is_too_long_is_called_so(llama: Server, wire: DialectName) -> None:
    with pytest.raises(ContextLengthExceeded, match=str(CONTEXT)) as caught:
        await llama.ask(wire, "?" * CONTEXT, max_tokens=5)
    assert caught.value.status == 400


@on_every_wire
async def test_a_wrong_key_is_refused(
    llama: Server, wire: DialectName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_ENV, "sk-wrong-9876543210")
    with pytest.raises(AuthenticationFailed) as caught:
        await llama.ask(wire, [QUESTION], max_tokens=5)
    assert caught.value.status == 401
    assert "9876543210" not in str(caught.value)


@on_every_wire
async def test_an_address_that_does_not_exist_is_an_invalid_request(
    llama: Server, wire: DialectName
) -> None:
    target = llama.target(wire)
    async with gateway(attrs.evolve(target, base_url=f"{target.base_url}/nowhere")) as gw:
        with pytest.raises(InvalidRequest) as caught:
            await gw.complete([QUESTION], model="m", max_tokens=5)
    assert caught.value.status == 404


@on_every_wire
async def test_a_schema_that_is_none_is_an_invalid_request(
    llama: Server, wire: DialectName
) -> None:
    function: JSON = {"name": "tide", "parameters": {"type": "flood"}}
    tools: Sequence[Mapping[str, JSON]] = [{"type": "function", "function": function}]
    with pytest.raises(InvalidRequest) as caught:
        await llama.ask(wire, [QUESTION], tools=tools, tool_choice="required", max_tokens=5)
    assert caught.value.status == 400
