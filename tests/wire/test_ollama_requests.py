from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import attrs
import pytest

from polygateway.errors import ConfigurationError
from polygateway.messages import ChatRequest
from polygateway.policies import Limits, Target
from polygateway.secret import Secret
from polygateway.wire.ollama import Ollama

if TYPE_CHECKING:
    from polygateway.messages import JSON, Message
    from polygateway.stats import CallStats
    from polygateway.wire.dialect import WireRequest

TARGET = Target(dialect="ollama", base_url="http://[::1]:11434", model="tern-2")
PROMPT: list[dict[str, JSON]] = [{"role": "user", "content": "Ahoi é🌊"}]
TOOL: dict[str, JSON] = {"type": "function", "function": {"name": "tide_at"}}


def encode(request: ChatRequest, target: Target = TARGET) -> WireRequest:
    Ollama().check(request)
    return Ollama().encode(request, target, None)


def body_of(request: ChatRequest) -> dict[str, JSON]:
    return cast("dict[str, JSON]", json.loads(encode(request).body))


def test_a_plain_request_byte_for_byte() -> None:
    wire = Ollama().encode(ChatRequest(messages=PROMPT), TARGET, Secret("s3cret"))
    assert wire.path == "/api/chat"
    assert wire.headers == {
        "content-type": "application/json",
        "accept": "application/x-ndjson",
        "authorization": Secret("Bearer s3cret"),
    }
    assert (
        wire.body
        == (
            '{"model":"tern-2","messages":[{"role":"user","content":"Ahoi é🌊"}],"stream":true}'
        ).encode()
    )


def test_without_a_key_none_is_sent() -> None:
    assert "authorization" not in encode(ChatRequest(messages=PROMPT)).headers


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("http://[::1]:11434", "/api/chat"),
        ("http://[::1]:11434/", "/api/chat"),
        ("https://ollama.com/api", "/chat"),
        ("https://ollama.com/api/", "/chat"),
        ("https://eu.invalid/team/api", "/chat"),
        ("https://eu.invalid/team", "/api/chat"),
        ("http://api", "/api/chat"),  # a host of that name
    ],
)
def test_the_base_url_may_have_the_api_or_not(base_url: str, path: str) -> None:
    target = attrs.evolve(TARGET, base_url=base_url)
    assert encode(ChatRequest(messages=PROMPT), target).path == path


@pytest.mark.parametrize(
    ("effort", "think"), [("none", False), ("low", "low"), ("high", "high"), ("max", "max")]
)
def test_how_much_to_think_is_said_in_the_model_s_words(effort: str, think: JSON) -> None:
    assert body_of(ChatRequest(messages=PROMPT, reasoning_effort=effort))["think"] == think


def test_a_plain_answer_is_the_default_and_need_not_be_said() -> None:
    request = ChatRequest(messages=PROMPT, response_format={"type": "text"})
    assert body_of(request).keys() == {"model", "messages", "stream"}


def asked(*parts: dict[str, JSON]) -> ChatRequest:
    return ChatRequest(messages=[{"role": "user", "content": parts}])


def picture(url: str, detail: str = "auto") -> dict[str, JSON]:
    return {"type": "image_url", "image_url": {"url": url, "detail": detail}}


PNG = "data:image/png;base64,iVBORw0KGgo="


def test_a_picture_needs_no_text() -> None:
    message: JSON = {"role": "user", "content": "", "images": ["iVBORw0KGgo="]}
    assert body_of(asked(picture(PNG)))["messages"] == [message]


def test_a_result_of_a_call_that_nobody_knows_keeps_its_id_and_the_name_it_came_with() -> None:
    result: dict[str, JSON] = {"role": "tool", "content": "4 m", "tool_call_id": "call_7"}
    assert body_of(ChatRequest(messages=[result]))["messages"] == [result]
    assert body_of(ChatRequest(messages=[{**result, "name": "tide_at"}]))["messages"] == [
        {**result, "tool_name": "tide_at"}
    ]


def calling(arguments: str, **more: JSON) -> Message:
    function: JSON = {"name": "tide_at", "arguments": arguments}
    return {"role": "assistant", "content": "See:", "tool_calls": [{"function": function, **more}]}


SCHEMA: dict[str, JSON] = {"name": "tide", "schema": {"type": "object"}}

UNSAYABLE = [
    (
        asked({"type": "text", "text": "?"}, picture("https://eu.invalid/a.png")),
        (
            "messages[0]['content'][1]: the address of a picture cannot be said in the dialect"
            " ollama: send the picture itself, as data:<type>;base64,<data>"
        ),
    ),
    (
        asked(picture(PNG, "low")),
        "messages[0]['content'][0]['image_url']['detail'] cannot be said in the dialect ollama",
    ),
    (
        ChatRequest(messages=PROMPT, tools=[TOOL], tool_choice="required"),
        "tool_choice cannot be said in the dialect ollama: only 'auto' and 'none' can be had",
    ),
    (
        ChatRequest(
            messages=PROMPT,
            tools=[TOOL],
            tool_choice={"type": "function", "function": {"name": "tide_at"}},
        ),
        "tool_choice cannot be said in the dialect ollama: only 'auto' and 'none' can be had",
    ),
    (
        ChatRequest(
            messages=PROMPT,
            tools=[{"type": "function", "function": {"name": "f", "strict": True}}],
        ),
        "tools[0]['function']['strict'] cannot be said in the dialect ollama",
    ),
    (
        ChatRequest(
            messages=PROMPT,
            response_format={
                "type": "json_schema",
                "json_schema": {**SCHEMA, "description": "Heights."},
            },
        ),
        (
            "response_format['json_schema']['description'] cannot be said in the dialect ollama:"
            " put it into the schema"
        ),
    ),
    (
        ChatRequest(messages=[*PROMPT, calling("{")]),
        (
            "messages[1]['tool_calls'][0]['function']['arguments'] must be a JSON object,"
            " for the dialect ollama"
        ),
    ),
    (
        ChatRequest(messages=[*PROMPT, calling('{"a":NaN}')]),
        "messages[1].tool_calls[0].function.arguments.a is nan, which JSON cannot say",
    ),
    (
        ChatRequest(messages=[{"role": "user", "content": "\ud800"}]),
        "messages[0].content holds a lone surrogate (U+D800), which UTF-8 cannot carry",
    ),
]


@pytest.mark.parametrize(("request_", "text"), UNSAYABLE)
def test_what_cannot_be_said_is_refused_before_it_is_sent(request_: ChatRequest, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Ollama().check(request_)
    assert str(caught.value) == text


def test_the_prompt_and_the_target_say_what_extra_may_not() -> None:
    assert set(Ollama().own_fields) == {"messages", "model", "stream"}
    Ollama().check(ChatRequest(messages=PROMPT, extra={"keep_alive": "10m"}))


# ---- what only this wire understands ------------------------------------------------------------


@pytest.fixture
def answer(stats: CallStats) -> dict[str, JSON]:
    """Give the message of an answer that thought, said and called."""
    reply = Ollama().decoder(attempt=0, target=TARGET, content_type="", limits=Limits())
    call: JSON = {"id": "call_9", "function": {"name": "tide_at", "arguments": {"port": "Brest"}}}
    message: JSON = {"thinking": "Moon.", "content": "See:", "tool_calls": [call]}
    reply.feed(json.dumps({"message": message, "done": True}).encode())
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=True
    )
    return cast("dict[str, JSON]", json.loads(json.dumps(completion.message)))


def sent_back(message: Message) -> tuple[dict[str, JSON], list[str]]:
    wire = encode(ChatRequest(messages=[*PROMPT, message]))
    return cast("dict[str, JSON]", json.loads(wire.body)["messages"][1]), list(wire.left_out)


def test_an_answer_goes_back_as_it_came(answer: dict[str, JSON]) -> None:
    call: JSON = {"id": "call_9", "function": {"name": "tide_at", "arguments": {"port": "Brest"}}}
    message: JSON = {
        "role": "assistant",
        "content": "See:",
        "thinking": "Moon.",
        "tool_calls": [call],
    }
    assert sent_back(answer) == (message, [])


def test_the_text_of_an_answer_may_come_back_in_parts(answer: dict[str, JSON]) -> None:
    parts: JSON = [{"type": "text", "text": "See:"}]
    assert sent_back({**answer, "content": parts}) == sent_back(answer)


EDITS: list[tuple[dict[str, JSON], dict[str, JSON]]] = [
    ({"content": "Look:"}, {}),
    ({"tool_calls": []}, {}),
    ({"tool_calls": calling('{"port": "Cork"}')["tool_calls"]}, {}),
    ({}, {"thinking": None}),
    ({}, {"of": None}),
]


@pytest.mark.parametrize(("changed", "kept"), EDITS)
def test_thoughts_that_do_not_fit_the_message_are_left_out_and_recorded(
    changed: dict[str, JSON], kept: dict[str, JSON], answer: dict[str, JSON]
) -> None:
    opaque = cast("dict[str, JSON]", answer["opaque"])
    message, left_out = sent_back({**answer, **changed, "opaque": {**opaque, **kept}})
    assert "thinking" not in message
    assert left_out == ["ollama"]
