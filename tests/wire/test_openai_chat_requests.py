from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from polygateway.errors import ConfigurationError
from polygateway.messages import ChatRequest
from polygateway.policies import Target
from polygateway.secret import Secret
from polygateway.wire.conversation import Assistant, Result
from polygateway.wire.openai_chat import OpenAIChat
from polygateway.wire.request_reader import Reader

if TYPE_CHECKING:
    from polygateway.messages import JSON, Message

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
        "authorization": Secret("Bearer s3cret"),
    }
    assert list(wire.left_out) == []
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


def test_what_the_application_may_not_set_is_refused() -> None:
    # Who makes a ChatRequest by other ways than a call's has not been checked.
    request = ChatRequest(messages=PROMPT)
    object.__setattr__(request, "extra", {"n": 2})
    with pytest.raises(ConfigurationError, match="extra may not set 'n'"):
        OpenAIChat().check(request)


def test_what_can_be_said_is_not_refused() -> None:
    OpenAIChat().check(ChatRequest(messages=PROMPT, temperature=1.0, extra={"user": "u"}))


# ---- where it goes ------------------------------------------------------------------------------


def target_at(base_url: str, version: str | None = None, model: str = "lyra-3") -> Target:
    return Target(dialect="openai-chat", base_url=base_url, model=model, api_version=version)


@pytest.mark.parametrize(
    ("base_url", "version", "field"),
    [
        ("https://api.openai.com/v1", None, "max_completion_tokens"),
        ("https://eu.api.openai.com/v1/", None, "max_completion_tokens"),
        ("https://API.OpenAI.com/v1", None, "max_completion_tokens"),
        ("https://tides.openai.azure.com/openai/v1", None, "max_completion_tokens"),
        ("https://tides.cognitiveservices.azure.com/openai/v1", None, "max_completion_tokens"),
        ("https://tides.services.ai.azure.com/openai/v1", None, "max_completion_tokens"),
        ("https://gateway.invalid", "2024-10-21", "max_completion_tokens"),
        ("https://api.openai.com.invalid/v1", None, "max_tokens"),
        ("https://openai.azure.com.invalid", None, "max_tokens"),
        ("https://eu.invalid/api.openai.com", None, "max_tokens"),
        ("http://127.0.0.1:8080/v1", None, "max_tokens"),
        ("http://[::1]", None, "max_tokens"),
    ],
)
def test_the_longest_answer_has_the_name_that_is_known_there(
    base_url: str, version: str | None, field: str
) -> None:
    request = ChatRequest(messages=PROMPT, max_tokens=7)
    body = body_of(request, target_at(base_url, version))
    assert isinstance(body, dict)
    assert {name: value for name, value in body.items() if name.startswith("max_")} == {field: 7}


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("base_url", ["https://api.openai.com/v1", "https://eu.invalid"])
def test_a_target_may_name_the_longest_answer_itself(
    base_url: str, field: Literal["max_tokens", "max_completion_tokens"]
) -> None:
    target = attrs.evolve(target_at(base_url), max_tokens_field=field)
    body = body_of(ChatRequest(messages=PROMPT, max_tokens=7), target)
    assert isinstance(body, dict)
    assert {name: value for name, value in body.items() if name.startswith("max_")} == {field: 7}


# openai-python, src/openai/lib/azure.py: what it makes of an azure_endpoint or a base_url.
@pytest.mark.parametrize(
    ("base_url", "version", "path"),
    [
        ("https://r.openai.azure.com", "2024-10-21", "/openai/deployments/lyra-3"),
        ("https://r.openai.azure.com/", "2024-10-21", "/openai/deployments/lyra-3"),
        ("https://r.openai.azure.com/openai/", "2024-10-21", "/deployments/lyra-3"),
        ("https://r.openai.azure.com/openai/deployments/x", "2024-10-21", ""),
        ("https://gateway.invalid/openai/deployments/x/", "2024-10-21", ""),
        ("https://gateway.invalid/tides", "2024-10-21", "/openai/deployments/lyra-3"),
        ("https://r.openai.azure.com/openai/v1", "2025-04-01-preview", ""),
        ("https://r.openai.azure.com/openai/v1/", "preview", ""),
        ("https://r.openai.azure.com", "preview", "/openai/v1"),
        ("https://r.openai.azure.com/openai", "latest", "/v1"),
        ("https://r.services.ai.azure.com/models", "2024-05-01-preview", ""),
    ],
)
def test_azure_s_path_is_completed_as_far_as_the_base_url_lacks_it(
    base_url: str, version: str, path: str
) -> None:
    wire = OpenAIChat().encode(
        ChatRequest(messages=PROMPT), target_at(base_url, version), Secret("k")
    )
    assert wire.path == f"{path}/chat/completions?api-version={version}"
    assert wire.headers["api-key"] == Secret("k")
    assert "authorization" not in wire.headers


def test_a_deployment_s_name_cannot_leave_its_place_in_the_path() -> None:
    target = target_at("https://r.openai.azure.com", "2024-10-21", "a/../b?c#d é%20")
    wire = OpenAIChat().encode(ChatRequest(messages=PROMPT), target, None)
    assert wire.path == (
        "/openai/deployments/a%2F..%2Fb%3Fc%23d%20%C3%A9%2520/chat/completions"
        "?api-version=2024-10-21"
    )
    assert "api-key" not in wire.headers


# ---- ids ----------------------------------------------------------------------------------------


def calls(*ids: str | None) -> dict[str, JSON]:
    function: JSON = {"name": "f", "arguments": "{}"}
    made: list[JSON] = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: JSON = None) -> dict[str, JSON]:
    return {"role": "tool", "tool_call_id": call_id, "content": "1"}


def ids_sent(messages: list[dict[str, JSON]]) -> list[object]:
    wire = OpenAIChat().encode(ChatRequest(messages=messages), TARGET, None)
    found: list[object] = []
    for message in json.loads(wire.body)["messages"]:
        found += [call["id"] for call in message.get("tool_calls") or ()]
        found += [message["tool_call_id"]] if message["role"] == "tool" else []
    return found


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, JSON]]:
    """Draw rounds of calls and results, some with ids of their own and some without."""
    conversation, number = list(PROMPT), 0
    for made in draw(st.lists(st.lists(st.booleans(), max_size=3), max_size=4)):
        ids = [f"id_{number + i}" if has_own else None for i, has_own in enumerate(made)]
        number += len(ids)
        conversation.append(calls(*ids))
        answered = draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]
        conversation += [result(draw(st.sampled_from([each, None, ""]))) for each in answered]
    return conversation


@settings(deadline=None)
@given(conversations())
def test_ids_that_are_not_there_are_those_that_every_dialect_gives(
    conversation: list[dict[str, JSON]],
) -> None:
    read = Reader("openai-chat").conversation(ChatRequest(messages=conversation))
    expected: list[str] = []
    for turn in read.turns:
        if isinstance(turn, Assistant):
            expected += [call.id for call in turn.calls]
        elif isinstance(turn, Result):
            expected.append(turn.call_id)
    assert ids_sent(conversation) == expected


def test_a_result_answers_the_first_open_call_of_the_last_answer() -> None:
    conversation = [calls("a", None), result("a"), calls("a", None), result(), result("x")]
    assert ids_sent(conversation) == ["a", "call_0_1", "a", "a", "call_2_1", "a", "x"]
    assert ids_sent([*conversation, result(), result()])[-2:] == ["call_2_1", None]


def test_a_result_that_names_its_function_answers_a_call_of_it() -> None:
    made: list[JSON] = [{"function": {"name": name}} for name in ("f", "g", "g")]
    asked: dict[str, JSON] = {"role": "assistant", "tool_calls": [*made, {"function": None}]}
    named = [{**result(), "name": name} for name in ("g", "g", "f", "h")]
    assert ids_sent([asked, *named])[4:] == ["call_0_1", "call_0_2", "call_0_0", None]


def test_messages_with_nothing_to_complete_are_sent_as_they_are() -> None:
    messages: list[dict[str, JSON]] = [
        {"content": [{"type": "text", "text": "a", "cache_control": {"x": 1}}], "role": "user"},
        {"tool_calls": [{"function": {"name": "f"}, "id": "a"}], "role": "assistant", "x": None},
        {"content": "1", "tool_call_id": "a", "role": "tool"},
        {"role": "assistant", "tool_calls": []},
        {"role": "assistant", "tool_calls": None, "function_call": {"name": "f"}},
        {"role": "assistant", "tool_calls": ["odd", {"id": 7, "function": None}]},
        {"role": "tool", "tool_call_id": None, "content": "2"},
        {"role": "function", "name": "f", "content": "2"},
    ]
    wire = OpenAIChat().encode(ChatRequest(messages=messages), TARGET, None)
    assert json.dumps(messages, separators=(",", ":")).encode() in wire.body


# ---- an answer that has been begun --------------------------------------------------------------


def messages_at(base_url: str, *messages: Message) -> object:
    target = Target(dialect="openai-chat", base_url=base_url, model="m", prefill=True)
    body = body_of(ChatRequest(messages=messages, prefix="The ti"), target)
    assert isinstance(body, dict)
    return body["messages"]


@pytest.mark.parametrize(
    ("base_url", "marks"),
    [
        ("https://api.mistral.ai/v1", {"prefix": True}),
        ("https://codestral.mistral.ai/v1", {"prefix": True}),
        ("https://API.DeepSeek.com/beta", {"prefix": True}),
        ("https://api.moonshot.ai/v1", {"partial": True}),
        ("https://api.moonshot.cn/v1", {"partial": True}),
        ("https://dashscope.aliyuncs.com/compatible-mode/v1", {"partial": True}),
        ("https://dashscope-us.aliyuncs.com/compatible-mode/v1", {"partial": True}),
        ("https://openrouter.ai/api/v1", {}),
        ("http://127.0.0.1:8000/v1", {}),
        # Not theirs: an unknown field would be refused.
        ("https://mistral.ai.example.invalid/v1", {}),
        ("https://example.invalid/api.deepseek.com/v1", {}),
    ],
)
def test_who_wants_to_be_told_that_an_answer_is_begun_is(
    base_url: str, marks: dict[str, bool]
) -> None:
    begun = {"role": "assistant", "content": "The ti", **marks}
    assert messages_at(base_url, *PROMPT) == [*PROMPT, begun]


CALLED: Message = {
    "role": "assistant",
    "content": "Hm.",
    "tool_calls": [{"id": "c", "function": {}}],
}


@pytest.mark.parametrize(
    "last",
    [
        {"role": "user", "content": "Hm."},
        {"role": "assistant", "content": [{"type": "text", "text": "Hm."}]},
        {"role": "assistant", "content": None, "refusal": "No."},
        CALLED,
    ],
)
def test_a_begun_answer_is_a_message_of_its_own(last: Message) -> None:
    begun = {"role": "assistant", "content": "The ti"}
    assert messages_at("http://[::1]/v1", *PROMPT, last) == [*PROMPT, last, begun]


def test_but_it_goes_behind_what_the_messages_themselves_begin_of_it() -> None:
    begun: Message = {"role": "assistant", "content": "Hm. ", "name": "lyra"}
    whole = {"role": "assistant", "content": "Hm. The ti", "name": "lyra", "prefix": True}
    assert messages_at("https://api.mistral.ai/v1", *PROMPT, begun) == [*PROMPT, whole]
    assert begun["content"] == "Hm. "
