from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias, cast

import pytest
from hypothesis import given

from polygateway.errors import ConfigurationError
from polygateway.messages import ChatRequest
from polygateway.policies import Limits, Target
from polygateway.secret import Secret
from polygateway.wire.openai_responses import OpenAIResponses
from tests.wire.any_request import requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polygateway.messages import JSON, Message
    from polygateway.stats import CallStats
    from polygateway.wire.dialect import WireRequest

Fields: TypeAlias = "dict[str, JSON]"

TARGET = Target(
    dialect="openai-responses",
    base_url="https://example.invalid/v1",
    model="lyra-3",
    api_key_env="KEY",
)
ELSEWHERE = Target(dialect="openai-responses", base_url="https://tides.invalid", model="lyra-3")
PROMPT: list[Message] = [{"role": "user", "content": "Ahoi é🌊"}]
ASKED: Fields = {"type": "message", "role": "user", "content": "Ahoi é🌊"}
TOOL: Fields = {"type": "function", "function": {"name": "tide_at"}}


def encode(request: ChatRequest, target: Target = TARGET) -> WireRequest:
    OpenAIResponses().check(request)
    return OpenAIResponses().encode(request, target, None)


def items_of(wire: WireRequest) -> list[Fields]:
    body = cast("Fields", json.loads(wire.body))
    return cast("list[Fields]", body["input"])


def test_a_plain_request_byte_for_byte() -> None:
    wire = OpenAIResponses().encode(ChatRequest(messages=PROMPT), TARGET, Secret("s3cret"))
    assert wire.path == "/responses"
    assert wire.headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "authorization": Secret("Bearer s3cret"),
    }
    assert (
        wire.body
        == (
            '{"model":"lyra-3","input":[{"type":"message","role":"user","content":"Ahoi é🌊"}],'
            '"store":false,"stream":true}'
        ).encode()
    )
    assert wire.left_out == ()


@pytest.mark.parametrize(
    ("base_url", "version", "path"),
    [
        ("https://llm.invalid", None, "/responses"),
        ("https://llm.invalid/openai", None, "/responses"),
        ("https://llm.invalid", "2025-03-01", "/openai/responses?api-version=2025-03-01"),
        ("https://llm.invalid/", "2025-03-01", "/openai/responses?api-version=2025-03-01"),
        ("https://llm.invalid/openai", "2025-03-01", "/responses?api-version=2025-03-01"),
        ("https://llm.invalid/openai/", "2025-03-01", "/responses?api-version=2025-03-01"),
        ("https://llm.invalid", "preview", "/openai/v1/responses?api-version=preview"),
        ("https://llm.invalid/openai", "latest", "/v1/responses?api-version=latest"),
        ("https://llm.invalid/openai/v1", "preview", "/responses?api-version=preview"),
    ],
)
def test_a_base_url_is_completed(base_url: str, version: str | None, path: str) -> None:
    target = Target(dialect="openai-responses", base_url=base_url, model="m", api_version=version)
    wire = OpenAIResponses().encode(ChatRequest(messages=PROMPT), target, Secret("k"))
    assert wire.path == path
    shown = {"authorization": Secret("Bearer k")} if version is None else {"api-key": Secret("k")}
    assert shown.items() <= wire.headers.items()
    assert len({"authorization", "api-key"} & wire.headers.keys()) == 1


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (ChatRequest(messages=PROMPT, stop=("END",)), "stop cannot be said in the dialect openai"),
        (ChatRequest(messages=PROMPT, prefix="Ebb"), "prefix cannot be said in the dialect openai"),
        (ChatRequest(messages=PROMPT, seed=0), "seed cannot be said in the dialect openai-respons"),
        (
            ChatRequest(
                messages=[
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "https://a.invalid/b.png"}}
                        ],
                    }
                ]
            ),
            "messages[0]['content'][0]: an image that the model made cannot be said",
        ),
        (
            ChatRequest(messages=[{"role": "critic", "content": "x"}]),
            "messages[0]: the role 'critic' cannot be said",
        ),
        (
            ChatRequest(messages=[*PROMPT, {"role": "user", "content": "\ud800"}]),
            "input[1].content holds a lone surrogate (U+D800)",
        ),
        (ChatRequest(messages=PROMPT, extra={"input": "x"}), "extra may not set 'input'"),
        (
            ChatRequest(messages=PROMPT, tools=[TOOL], tool_choice="any"),
            "tool_choice must be 'auto'",
        ),
    ],
)
def test_what_cannot_be_said_is_refused_before_it_is_sent(request_: ChatRequest, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIResponses().check(request_)
    assert str(caught.value).startswith(text)


def test_what_a_server_knows_besides_can_be_said_in_extra() -> None:
    with pytest.raises(ConfigurationError, match=r"takes it as extra\['stop'\]$"):
        OpenAIResponses().check(ChatRequest(messages=PROMPT, stop=("END",)))
    body = cast(
        "Fields", json.loads(encode(ChatRequest(messages=PROMPT, extra={"stop": ["END"]})).body)
    )
    assert body["stop"] == ["END"]


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_tool_choice_that_is_a_word_stays_that_word(choice: str) -> None:
    request = ChatRequest(messages=PROMPT, tools=[TOOL], tool_choice=choice)
    assert cast("Fields", json.loads(encode(request).body))["tool_choice"] == choice


@given(requests())
def test_whatever_passes_the_check_can_be_sent(request_: ChatRequest) -> None:
    try:
        OpenAIResponses().check(request_)
    except ConfigurationError:
        return
    assert items_of(OpenAIResponses().encode(request_, TARGET, None)) is not None


# ---- what only the provider understands ---------------------------------------------------------

REASONING: Fields = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2Vh"}
SAID: Fields = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
}
CALLS: Sequence[Fields] = [
    {
        "type": "function_call",
        "id": f"fc_{n}",
        "call_id": f"call_{n}",
        "name": "tide_at",
        "arguments": f'{{"day":{n}}}',
    }
    for n in (1, 2)
]
ANSWERED: Message = {"role": "tool", "tool_call_id": "call_1", "content": "at noon"}


def answer(stats: CallStats, *output: Mapping[str, JSON]) -> Fields:
    """Give the message of an answer with that output, as an application may have stored it."""
    reply = OpenAIResponses().decoder(
        attempt=0, target=TARGET, content_type="text/event-stream", limits=Limits()
    )
    end = {"type": "response.completed", "response": {"status": "completed", "output": output}}
    reply.feed(f"data: {json.dumps(end)}\n\n".encode())
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=True
    )
    return cast("Fields", json.loads(json.dumps(completion.message)))


def sent_back(message: Message, *more: Message, target: Target = TARGET) -> WireRequest:
    return encode(ChatRequest(messages=[*PROMPT, message, *more]), target)


PLAIN: Sequence[Fields] = [
    {"type": "message", "role": "assistant", "content": "I look."},
    {"type": "function_call", "call_id": "call_1", "name": "tide_at", "arguments": '{"day":1}'},
    {"type": "function_call", "call_id": "call_2", "name": "tide_at", "arguments": '{"day":2}'},
]
RESULT: Fields = {"type": "function_call_output", "call_id": "call_1", "output": "at noon"}


def test_an_answer_goes_back_in_the_order_in_which_it_came(stats: CallStats) -> None:
    first, second = CALLS
    message = answer(stats, REASONING, first, SAID, {**REASONING, "id": "rs_2"}, second)
    wire = sent_back(message, ANSWERED)
    said, *calls = PLAIN
    expected = [REASONING, calls[0], said, {**REASONING, "id": "rs_2"}, calls[1]]
    assert items_of(wire) == [ASKED, *expected, RESULT]
    assert wire.left_out == ()


def test_calls_that_ended_in_another_order_than_they_began_go_back(stats: CallStats) -> None:
    reply = OpenAIResponses().decoder(
        attempt=0, target=TARGET, content_type="text/event-stream", limits=Limits()
    )
    first, second = CALLS
    events: list[JSON] = [
        {"type": "response.output_item.added", "output_index": 1, "item": first},
        {"type": "response.output_item.added", "output_index": 2, "item": second},
        {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
        {"type": "response.output_item.done", "output_index": 2, "item": second},
        {"type": "response.output_item.done", "output_index": 1, "item": first},
        {"type": "response.completed", "response": {"status": "completed"}},
    ]
    for event in events:
        reply.feed(f"data: {json.dumps(event)}\n\n".encode())
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=True
    )
    wire = sent_back(completion.message)
    assert items_of(wire) == [ASKED, REASONING, PLAIN[2], PLAIN[1]]
    assert wire.left_out == ()


def changed_call(message: Fields, **fields: JSON) -> Fields:
    calls = cast("list[Fields]", message["tool_calls"])
    function = {**cast("Fields", calls[0]["function"]), **fields}
    return {**message, "tool_calls": [{**calls[0], "function": function}, *calls[1:]]}


def test_of_an_answer_that_was_changed_only_its_message_goes_back(stats: CallStats) -> None:
    message = answer(stats, REASONING, SAID, *CALLS)
    calls = cast("list[Fields]", message["tool_calls"])
    changes: list[Fields] = [
        {**message, "content": "I looked."},
        {**message, "content": None},
        {**message, "refusal": "No."},
        {**message, "tool_calls": calls[:1]},
        {**message, "tool_calls": [{**calls[0], "id": "call_9"}, calls[1]]},
        changed_call(message, name="now"),
        changed_call(message, arguments="{}"),
    ]
    for change in changes:
        wire = sent_back(change)
        assert wire.left_out == ("openai-responses",)
        assert "reasoning" not in [item["type"] for item in items_of(wire)]
        plain = sent_back({name: change[name] for name in change if name != "opaque"})
        assert (items_of(wire), plain.left_out) == (items_of(plain), ())


def test_what_one_host_has_sealed_goes_to_no_other(stats: CallStats) -> None:
    message = answer(stats, REASONING, SAID, *CALLS)
    wire = sent_back(message, target=ELSEWHERE)
    assert (items_of(wire), wire.left_out) == ([ASKED, *PLAIN], ("openai-responses",))
    same_host = Target(dialect="openai-responses", base_url="https://EXAMPLE.invalid", model="m")
    assert items_of(sent_back(message, target=same_host)) == [ASKED, REASONING, *PLAIN]


def test_what_goes_back_is_checked_before_it_is_known_where_it_goes(stats: CallStats) -> None:
    message = answer(stats, REASONING, SAID, *CALLS)
    opaque = cast("Fields", message["opaque"])
    output = cast("list[Fields]", opaque["output"])
    spoilt = {**opaque, "output": [{**output[0], "summary": float("nan")}, *output[1:]]}
    with pytest.raises(ConfigurationError, match=r"input\[1\].summary is nan"):
        OpenAIResponses().check(ChatRequest(messages=[*PROMPT, {**message, "opaque": spoilt}]))


def test_what_anybody_can_read_goes_everywhere(stats: CallStats) -> None:
    open_: Fields = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Moon full."}],
    }
    wire = sent_back(answer(stats, open_, SAID, *CALLS), target=ELSEWHERE)
    assert (items_of(wire), wire.left_out) == ([ASKED, open_, *PLAIN], ())


def test_the_result_of_a_custom_tool_is_not_one_of_a_function(stats: CallStats) -> None:
    custom: Fields = {
        "type": "custom_tool_call",
        "id": "ct_1",
        "call_id": "call_3",
        "name": "sql",
        "input": "SELECT 1",
    }
    message = answer(stats, custom, CALLS[0])
    wire = sent_back(message, ANSWERED, {"role": "tool", "tool_call_id": "call_3", "content": "1"})
    assert items_of(wire)[1:] == [
        {"type": "custom_tool_call", "call_id": "call_3", "name": "sql", "input": "SELECT 1"},
        PLAIN[1],
        RESULT,
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "1"},
    ]


def test_a_result_may_answer_what_the_provider_has_stored() -> None:
    request = ChatRequest(messages=[ANSWERED], extra={"previous_response_id": "resp_1"})
    assert items_of(encode(request)) == [RESULT]


def test_an_answer_without_words_and_calls_is_no_item() -> None:
    wire = sent_back({"role": "assistant", "content": ""})
    assert items_of(wire) == [ASKED]


@pytest.mark.parametrize(
    "output", [None, 5, "x", {}, [], [5], [{"type": "message"}, None], [[]], [{}]]
)
def test_opaque_parts_that_polygateway_did_not_make_are_refused(output: JSON) -> None:
    opaque: JSON = {"dialect": "openai-responses", "output": output}
    with pytest.raises(ConfigurationError, match="must be what a completion's message held there"):
        sent_back({"role": "assistant", "content": "x", "opaque": opaque})


@pytest.mark.parametrize(
    "item",
    [
        {"type": 5},
        {"type": "message", "content": ["x"]},
        {"type": "function_call", "call_id": ["x"], "name": {}},
        {"type": "custom_tool_call", "call_id": 5},
        {"role": "assistant"},
    ],
)
def test_items_that_do_not_say_the_message_are_left_out_whatever_they_are(item: JSON) -> None:
    opaque: JSON = {"dialect": "openai-responses", "output": [item]}
    wire = sent_back({"role": "assistant", "content": "x", "opaque": opaque})
    assert wire.left_out == ("openai-responses",)
    assert items_of(wire)[1] == {"type": "message", "role": "assistant", "content": "x"}
