from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from polygateway.errors import ConfigurationError
from polygateway.messages import ChatRequest
from polygateway.policies import Target
from polygateway.secret import Secret
from polygateway.wire.openai_chat import OpenAIChat

if TYPE_CHECKING:
    from polygateway.messages import JSON

TARGET = Target(
    dialect="openai-chat",
    base_url="https://example.invalid/v1",
    model="lyra-3",
    api_key_env="KEY",
)
PROMPT: list[dict[str, JSON]] = [{"role": "user", "content": "Ahoi é🌊"}]


def body_of(request: ChatRequest, target: Target = TARGET) -> JSON:
    body: JSON = json.loads(OpenAIChat().encode(request, target, None).body)
    return body


def test_a_plain_request_byte_for_byte() -> None:
    wire = OpenAIChat().encode(ChatRequest(messages=PROMPT), TARGET, Secret("s3cret"))
    assert wire.path == "/chat/completions"
    assert wire.headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "authorization": "Bearer s3cret",
    }
    assert (
        wire.body
        == (
            '{"model":"lyra-3","messages":[{"role":"user","content":"Ahoi é🌊"}],"stream":true,'
            '"stream_options":{"include_usage":true}}'
        ).encode()
    )


def test_a_full_request_byte_for_byte() -> None:
    request = ChatRequest(
        messages=PROMPT,
        temperature=0.0,
        top_p=0.5,
        max_tokens=10,
        stop=("a", "b"),
        seed=0,
        tools=({"type": "function", "function": {"name": "f"}},),
        tool_choice="auto",
        response_format={"type": "json_object"},
        reasoning_effort="low",
        extra={"user": "u"},
    )
    assert (
        OpenAIChat().encode(request, TARGET, None).body
        == (
            '{"model":"lyra-3","messages":[{"role":"user","content":"Ahoi é🌊"}],"temperature":0.0,'
            '"top_p":0.5,"max_tokens":10,"stop":["a","b"],"seed":0,'
            '"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto",'
            '"response_format":{"type":"json_object"},"reasoning_effort":"low","stream":true,'
            '"stream_options":{"include_usage":true},"user":"u"}'
        ).encode()
    )


def test_usage_is_not_asked_for_where_the_server_refuses_the_question() -> None:
    target = Target(dialect="openai-chat", base_url="http://[::1]", model="m", stream_usage=False)
    assert body_of(ChatRequest(messages=PROMPT), target) == {
        "model": "m",
        "messages": PROMPT,
        "stream": True,
    }


def test_the_request_s_extra_is_over_the_target_s_and_both_over_the_rest() -> None:
    target = Target(
        dialect="openai-chat",
        base_url="https://example.invalid",
        model="m",
        extra={"temperature": 1, "a": "target", "b": "target"},
    )
    request = ChatRequest(
        messages=PROMPT,
        temperature=0.5,
        extra={"b": "request", "stream_options": None},
    )
    assert body_of(request, target) == {
        "model": "m",
        "messages": PROMPT,
        "stream": True,
        "stream_options": None,
        "temperature": 1,
        "a": "target",
        "b": "request",
    }


def test_the_user_s_headers_are_over_ours_whatever_their_case() -> None:
    target = Target(
        dialect="openai-chat",
        base_url="https://example.invalid",
        model="m",
        headers={"Authorization": "Basic x", "X-Team": "search"},
    )
    request = ChatRequest(messages=PROMPT, headers={"x-team": "sales", "ACCEPT": "*/*"})
    assert OpenAIChat().encode(request, target, Secret("k")).headers == {
        "content-type": "application/json",
        "accept": "*/*",
        "authorization": "Basic x",
        "x-team": "sales",
    }


def test_without_a_key_none_is_sent() -> None:
    wire = OpenAIChat().encode(ChatRequest(messages=PROMPT), TARGET, None)
    assert "authorization" not in wire.headers


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (
            ChatRequest(messages=[*PROMPT, {"role": "user", "content": "\ud800"}]),
            "messages[1].content holds a lone surrogate (U+D800)",
        ),
        (
            ChatRequest(messages=PROMPT, tools=[{"function": {"x": float("nan")}}]),
            "tools[0].function.x is nan",
        ),
    ],
)
def test_what_cannot_be_said_is_refused_before_it_is_sent(request_: ChatRequest, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIChat().check(request_)
    assert str(caught.value).startswith(text)


def test_what_can_be_said_is_not_refused() -> None:
    OpenAIChat().check(ChatRequest(messages=PROMPT, temperature=1.0, extra={"user": "u"}))
