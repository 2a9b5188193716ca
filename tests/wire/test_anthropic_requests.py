from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import attrs
import pytest
from hypothesis import given

from polygateway.errors import ConfigurationError
from polygateway.messages import ChatRequest
from polygateway.policies import Limits, Target
from polygateway.secret import Secret
from polygateway.wire.anthropic import Anthropic
from tests.wire.any_request import requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway.messages import JSON, Message
    from polygateway.stats import CallStats
    from polygateway.wire.dialect import WireRequest

TARGET = Target(dialect="anthropic", base_url="https://llm.invalid", model="harbor-3")
PROMPT: list[Message] = [{"role": "user", "content": "Ahoi é🌊"}]
TOOL: dict[str, JSON] = {"type": "function", "function": {"name": "tide_at"}}


def encode(request: ChatRequest, target: Target = TARGET) -> WireRequest:
    Anthropic().check(request)
    return Anthropic().encode(request, target, None)


def body_of(request: ChatRequest) -> dict[str, JSON]:
    return cast("dict[str, JSON]", json.loads(encode(request).body))


def test_a_plain_request_byte_for_byte() -> None:
    target = attrs.evolve(TARGET, base_url="https://api.anthropic.com")
    wire = Anthropic().encode(ChatRequest(messages=PROMPT), target, Secret("s3cret"))
    assert wire.path == "/v1/messages"
    assert wire.headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
        "x-api-key": Secret("s3cret"),
    }
    assert (
        wire.body
        == (
            '{"model":"harbor-3","max_tokens":32000,'
            '"messages":[{"role":"user","content":"Ahoi é🌊"}],"stream":true}'
        ).encode()
    )
    assert wire.left_out == ()


@pytest.mark.parametrize(
    ("base_url", "is_anthropic"),
    [
        ("https://api.anthropic.com", True),
        ("https://api.anthropic.com/v1", True),
        ("https://anthropic.com", True),
        ("https://notanthropic.com", False),
        ("https://api.anthropic.com.invalid", False),
        ("https://llm.invalid/anthropic.com", False),
        ("http://[::1]:8080", False),
    ],
)
def test_elsewhere_than_at_anthropic_a_key_is_sent_in_either_way(
    base_url: str, is_anthropic: bool
) -> None:
    target = attrs.evolve(TARGET, base_url=base_url)
    headers = Anthropic().encode(ChatRequest(messages=PROMPT), target, Secret("s3cret")).headers
    bearer = None if is_anthropic else Secret("Bearer s3cret")
    assert (headers["x-api-key"], headers.get("authorization")) == (Secret("s3cret"), bearer)


def test_without_a_key_none_is_sent() -> None:
    assert not {"x-api-key", "authorization"} & set(encode(ChatRequest(messages=PROMPT)).headers)


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("https://llm.invalid", "/v1/messages"),
        ("https://llm.invalid/", "/v1/messages"),
        ("https://llm.invalid/anthropic", "/v1/messages"),
        ("https://llm.invalid/v1", "/messages"),
        ("https://llm.invalid/anthropic/v1/", "/messages"),
        ("https://llm.invalid/api-v1x", "/v1/messages"),
        ("https://v1", "/v1/messages"),
    ],
)
def test_the_path_has_the_version_once(base_url: str, path: str) -> None:
    target = attrs.evolve(TARGET, base_url=base_url)
    assert encode(ChatRequest(messages=PROMPT), target).path == path


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        (
            {"type": "function", "function": {"name": "tide_at"}},
            {"type": "tool", "name": "tide_at"},
        ),
    ],
)
def test_the_choice_of_a_tool_has_other_words(
    choice: str | dict[str, JSON] | None, said: JSON
) -> None:
    request = ChatRequest(messages=PROMPT, tools=[TOOL], tool_choice=choice)
    assert body_of(request).get("tool_choice") == said


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        (None, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "object", "$defs": {}}, {"type": "object", "$defs": {}}),
    ],
)
def test_the_schema_of_a_tool_has_a_type(parameters: JSON, schema: JSON) -> None:
    tool: dict[str, JSON] = {"function": {"name": "tide_at", "parameters": parameters}}
    body = body_of(ChatRequest(messages=PROMPT, tools=[tool]))
    assert body["tools"] == [{"name": "tide_at", "input_schema": schema}]


@pytest.mark.parametrize("effort", ["low", "xhigh", "a word of next year"])
def test_how_much_to_think_is_the_provider_s_own_word(effort: str) -> None:
    body = body_of(ChatRequest(messages=PROMPT, reasoning_effort=effort))
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": effort}


def test_a_schema_stands_even_where_the_model_shall_not_think() -> None:
    form: dict[str, JSON] = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    request = ChatRequest(messages=PROMPT, reasoning_effort="none", response_format=form)
    body = body_of(request)
    assert body["thinking"] == {"type": "disabled"}
    assert body["output_config"] == {
        "format": {"type": "json_schema", "schema": {"type": "object"}}
    }


def test_a_budget_can_be_had_where_a_model_knows_no_effort() -> None:
    thinking: JSON = {"type": "enabled", "budget_tokens": 2048}
    body = body_of(ChatRequest(messages=PROMPT, extra={"thinking": thinking}))
    assert (body["thinking"], "output_config" in body) == (thinking, False)


def test_the_longest_answer_can_be_said_for_a_target() -> None:
    target = attrs.evolve(TARGET, extra={"max_tokens": 64000})
    body = json.loads(encode(ChatRequest(messages=PROMPT), target).body)
    assert body["max_tokens"] == 64000


def test_only_what_is_said_is_sent() -> None:
    request = ChatRequest(messages=PROMPT, temperature=0.0, response_format={"type": "text"})
    body = body_of(request)
    assert set(body) == {"model", "max_tokens", "messages", "temperature", "stream"}
    assert body["temperature"] == 0.0


# ---- messages -----------------------------------------------------------------------------------


def user(*parts: JSON) -> Message:
    return {"role": "user", "content": parts}


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def said(text: str, **fields: JSON) -> dict[str, JSON]:
    return {"role": "assistant", "content": text, **fields}


def messages_of(*messages: Message) -> list[dict[str, JSON]]:
    body = body_of(ChatRequest(messages=[*PROMPT, *messages]))
    return cast("list[dict[str, JSON]]", body["messages"])


def spoken(*messages: Message) -> list[tuple[JSON, JSON]]:
    return [(message["role"], message["content"]) for message in messages_of(*messages)][1:]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([system("A.")], [("system", "A.")]),
        ([system(" "), said("b")], [("assistant", "b")]),
        ([said("b"), system("A.")], [("assistant", "b"), ("system", "A.")]),
        (
            [said("b"), system("A."), *PROMPT, said("c")],
            [("assistant", "b"), ("user", "Ahoi é🌊"), ("system", "A."), ("assistant", "c")],
        ),
        (
            [said("b"), *PROMPT, said(" "), system("A."), said("c")],
            [("assistant", "b"), ("user", "Ahoi é🌊"), ("system", "A."), ("assistant", "c")],
        ),
    ],
)
def test_a_later_system_message_stands_behind_the_user_s_words(
    messages: Sequence[Message], expected: list[tuple[JSON, JSON]]
) -> None:
    assert spoken(*messages) == expected


def test_a_system_message_does_not_part_what_the_user_says() -> None:
    for silent in ([], [said("")]):
        messages = messages_of(system("A."), *silent, user({"type": "text", "text": "b"}))
        assert [message["role"] for message in messages] == ["user", "system"]
        assert messages[0]["content"] == [
            {"type": "text", "text": "Ahoi é🌊"},
            {"type": "text", "text": "b"},
        ]


def test_system_messages_before_all_words_are_the_first_ones() -> None:
    request = ChatRequest(messages=[system("A."), said(" "), system("B."), *PROMPT])
    assert body_of(request)["system"] == [
        {"type": "text", "text": "A."},
        {"type": "text", "text": "B."},
    ]


def test_results_come_first_and_keep_their_order() -> None:
    calls: list[JSON] = [{"id": own, "function": {"name": "f"}} for own in ("a", "b")]
    asked, *answered = spoken(
        said("", tool_calls=calls),
        user({"type": "text", "text": "c"}),
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        user({"type": "text", "text": "d"}),
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": " "}]},
    )
    assert asked[0] == "assistant"
    assert answered == [
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                {"type": "tool_result", "tool_use_id": "a"},
                {"type": "text", "text": "c"},
                {"type": "text", "text": "d"},
            ],
        )
    ]


def test_ids_stay_different_when_their_characters_are_replaced() -> None:
    ids = ["a.b", "a:b", "a_b", "é", "toolu_01-Z"]
    calls: list[JSON] = [{"id": own, "function": {"name": "f"}} for own in ids]
    results = [{"role": "tool", "tool_call_id": own, "content": "x"} for own in ids]
    (_, asked), (_, answered) = spoken(said("", tool_calls=calls), *results)
    sent = [block["id"] for block in cast("list[dict[str, JSON]]", asked)]
    assert sent == ["a_2e_b", "a_3a_b", "a_b", "_e9_", "toolu_01-Z"]
    assert [block["tool_use_id"] for block in cast("list[dict[str, JSON]]", answered)] == sent


# ---- blocks that go back ------------------------------------------------------------------------

BLOCKS: list[JSON] = [
    {"type": "thinking", "thinking": "Moon full.", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    {"type": "text", "text": "Let me "},
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "é"}},
    {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
    {"type": "text", "text": "see.", "citations": [{"cited_text": "Ebb"}]},
    {"type": "thinking", "thinking": "", "signature": "c2lnMg=="},
    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"é": [1, {"a": None}]}},
    {"type": "tool_use", "id": "toolu.2", "name": "g", "input": {}},
]


def answered(stats: CallStats, *blocks: JSON, target: Target = TARGET) -> dict[str, JSON]:
    """Give the message that an answer of *blocks* becomes, as an application may have stored it."""
    reply = Anthropic().decoder(
        attempt=0, target=target, content_type="application/json", limits=Limits()
    )
    message: JSON = {"type": "message", "content": blocks, "stop_reason": "end_turn"}
    reply.feed(json.dumps(message).encode())
    reply.close()
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=True
    )
    return cast("dict[str, JSON]", json.loads(json.dumps(completion.message)))


def sent_back(message: Message, target: Target = TARGET) -> tuple[JSON, Sequence[str]]:
    """Give the content of the message as it is sent, and what is left out."""
    wire = encode(ChatRequest(messages=[*PROMPT, message, *PROMPT]), target)
    messages = json.loads(wire.body)["messages"]
    return messages[1]["content"] if len(messages) == 3 else None, wire.left_out


def test_an_answer_goes_back_block_by_block_as_it_came(stats: CallStats) -> None:
    allowed = {**cast("dict[str, JSON]", BLOCKS[-1]), "id": "toolu_2e_2"}
    content, left_out = sent_back(answered(stats, *BLOCKS))
    assert content == [*BLOCKS[:-1], allowed]
    assert left_out == ()


def test_an_answer_that_keeps_nothing_besides_goes_back_as_what_it_says(stats: CallStats) -> None:
    message = answered(stats, *BLOCKS[2:3], *BLOCKS[7:8])
    assert "opaque" not in message
    assert sent_back(message) == ([*BLOCKS[2:3], *BLOCKS[7:8]], ())


CALL: JSON = {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
EDITS: list[dict[str, JSON]] = [
    {"content": "Let me go."},
    {"content": None},
    {"content": [{"type": "text", "text": "Let me see.", "cache_control": {"type": "ephemeral"}}]},
    {"refusal": "x"},
    {"tool_calls": []},
    {"tool_calls": [CALL]},
]


@pytest.mark.parametrize("edit", EDITS)
def test_blocks_of_an_answer_that_was_edited_are_left_out(
    edit: dict[str, JSON], stats: CallStats
) -> None:
    message = {**answered(stats, *BLOCKS), **edit}
    wire = encode(ChatRequest(messages=[*PROMPT, message]))
    assert wire.left_out == ("anthropic",)
    assert b"c2ln" not in wire.body
    assert b"srv_1" not in wire.body


def test_what_is_only_written_otherwise_is_not_edited(stats: CallStats) -> None:
    message = answered(stats, *BLOCKS[:-1])
    message["content"] = [{"type": "text", "text": "Let me see"}, {"type": "text", "text": "."}]
    arguments = '{ "\\u00e9": [1, {"a": null}] }'
    message["tool_calls"] = [{"id": "toolu_1", "function": {"name": "f", "arguments": arguments}}]
    assert sent_back(message) == (BLOCKS[:-1], ())


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(TARGET, model="harbor-4"),
        attrs.evolve(TARGET, base_url="https://other.invalid"),
    ],
)
def test_blocks_go_back_only_to_where_they_came_from(other: Target, stats: CallStats) -> None:
    message = answered(stats, *BLOCKS[:-1])
    same = attrs.evolve(TARGET, base_url="https://llm.invalid/", headers={"x": "y"})
    assert sent_back(message, same) == (BLOCKS[:-1], ())
    said = [{"type": "text", "text": "Let me see."}, BLOCKS[7]]
    assert sent_back(message, other) == (said, ("anthropic",))


@pytest.mark.parametrize(
    ("blocks", "sent", "is_cut"),
    [
        ([BLOCKS[0], {"type": "text", "text": " \n"}, BLOCKS[2]], [BLOCKS[0], BLOCKS[2]], False),
        ([BLOCKS[2], BLOCKS[0], BLOCKS[1]], "Let me ", True),
        ([BLOCKS[0], {"type": "text", "text": " "}], None, True),
        ([BLOCKS[0]], None, True),
    ],
)
def test_blank_text_and_thinking_that_nothing_follows_cannot_go_back(
    blocks: list[JSON], sent: JSON, is_cut: bool, stats: CallStats
) -> None:
    left_out = ("anthropic",) if is_cut else ()
    assert sent_back(answered(stats, *blocks)) == (sent, left_out)


def test_every_dialect_that_is_left_out_is_told_once(stats: CallStats) -> None:
    edited = {**answered(stats, *BLOCKS[:3]), "content": "x"}
    foreign: Message = {"role": "assistant", "content": "a", "opaque": {"dialect": "ollama"}}
    wire = encode(ChatRequest(messages=[*PROMPT, foreign, edited, foreign, edited]))
    assert wire.left_out == ("ollama", "anthropic")


# ---- refusals -----------------------------------------------------------------------------------


def picture(detail: str | None = None) -> JSON:
    return {"type": "image_url", "image_url": {"url": "https://cdn.invalid/a", "detail": detail}}


def with_call(arguments: str) -> ChatRequest:
    call: JSON = {"id": "a", "function": {"name": "f", "arguments": arguments}}
    return ChatRequest(messages=[*PROMPT, said("", tool_calls=[call])])


def with_opaque(content: JSON) -> ChatRequest:
    opaque: JSON = {"dialect": "anthropic", "content": content}
    return ChatRequest(messages=[*PROMPT, said("a", opaque=opaque)])


DAMAGED: list[JSON] = [None, [], "x", {}, [1], [{"type": "text", "text": "a"}, 1]]
OF_NOBODY = "messages[1]['opaque']['content'] must be what a completion's message held there"
DEEP = "[" * 100_000
NO_OBJECT = (
    "messages[1]['tool_calls'][0]['function']['arguments']: what is no JSON object cannot be said"
    " in the dialect anthropic: leave the call out"
)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (
            ChatRequest(messages=[system("x"), said(" ")]),
            "messages: a prompt without a user's words cannot be said in the dialect anthropic",
        ),
        (
            ChatRequest(messages=[{"role": "system", "content": [picture()]}, *PROMPT]),
            "messages[0]['content'][0]: an image that is not the user's or a tool's cannot be said",
        ),
        (
            ChatRequest(messages=[*PROMPT, {"role": "assistant", "content": [picture()]}]),
            "messages[1]['content'][0]: an image that is not the user's or a tool's cannot be said",
        ),
        (
            ChatRequest(messages=[user(picture("low"))]),
            "messages[0]['content'][0]['image_url']['detail'] cannot be said",
        ),
        *[(with_call(arguments), NO_OBJECT) for arguments in ('{"port": "Br', "[1]", "null", DEEP)],
        (with_call('{"a": 1e999}'), "messages[1].content[0].input.a is inf, which JSON cannot say"),
        *[(with_opaque(content), OF_NOBODY) for content in DAMAGED],
        (ChatRequest(messages=PROMPT, seed=0), "seed cannot be said in the dialect anthropic"),
        (
            ChatRequest(messages=PROMPT, response_format={"type": "json_object"}),
            (
                "response_format: the type 'json_object' cannot be said in the dialect anthropic:"
                " give a json_schema"
            ),
        ),
        (
            ChatRequest(
                messages=PROMPT,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {"a": 1}, "description": "d"},
                },
            ),
            (
                "response_format['json_schema']['description'] cannot be said in the dialect"
                " anthropic: give it in the schema"
            ),
        ),
        (
            ChatRequest(messages=PROMPT, tools=[{"function": {"name": "\ud800"}}]),
            "tools[0].name holds a lone surrogate (U+D800)",
        ),
        (
            ChatRequest(messages=PROMPT, extra={"system": "x"}),
            "extra may not set 'system', which polygateway decides",
        ),
    ],
)
def test_what_cannot_be_said_is_refused_by_its_place(request_: ChatRequest, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Anthropic().check(request_)
    assert str(caught.value).startswith(text)


@given(requests())
def test_a_request_is_refused_or_can_be_sent(request_: ChatRequest) -> None:
    try:
        Anthropic().check(request_)
    except ConfigurationError:
        return
    body = json.loads(Anthropic().encode(request_, TARGET, None).body)
    assert body["messages"]
