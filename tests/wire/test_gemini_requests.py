from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import attrs
import pytest

from polygateway.errors import ConfigurationError
from polygateway.messages import ChatRequest
from polygateway.policies import Limits, Target
from polygateway.secret import Secret
from polygateway.wire.gemini import Gemini

if TYPE_CHECKING:
    from polygateway.messages import JSON, Message
    from polygateway.stats import CallStats
    from polygateway.wire.dialect import WireRequest

TARGET = Target(dialect="gemini", base_url="https://llm.invalid", model="tern-3")
PROMPT: list[Message] = [{"role": "user", "content": "Ahoi é🌊"}]
TOOL: dict[str, JSON] = {"type": "function", "function": {"name": "tide_at"}}
UNSIGNED = "skip_thought_signature_validator"


def encode(request: ChatRequest, target: Target = TARGET) -> WireRequest:
    Gemini().check(request)
    return Gemini().encode(request, target, None)


def body_of(request: ChatRequest, target: Target = TARGET) -> dict[str, JSON]:
    return cast("dict[str, JSON]", json.loads(encode(request, target).body))


def generation(request: ChatRequest, target: Target = TARGET) -> JSON:
    return body_of(request, target)["generationConfig"]


def test_a_plain_request_byte_for_byte() -> None:
    wire = Gemini().encode(ChatRequest(messages=PROMPT), TARGET, Secret("s3cret"))
    assert wire.path == "/v1beta/models/tern-3:streamGenerateContent?alt=sse"
    assert wire.headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "x-goog-api-key": Secret("s3cret"),
    }
    assert wire.body == '{"contents":[{"role":"user","parts":[{"text":"Ahoi é🌊"}]}]}'.encode()
    assert wire.left_out == ()


def test_without_a_key_none_is_sent() -> None:
    assert "x-goog-api-key" not in encode(ChatRequest(messages=PROMPT)).headers


@pytest.mark.parametrize(
    ("base_url", "api_version", "model", "path"),
    [
        ("https://llm.invalid", None, "tern-3", "/v1beta/models/tern-3"),
        ("https://llm.invalid/", "v1", "tern-3", "/v1/models/tern-3"),
        ("https://llm.invalid/gemini", None, "models/tern-3", "/v1beta/models/tern-3"),
        ("https://llm.invalid", None, "tunedModels/a-1", "/v1beta/tunedModels/a-1"),
        ("https://llm.invalid/v1beta", None, "tern-3", "/models/tern-3"),
        ("https://llm.invalid/v1/", None, "tern-3", "/models/tern-3"),
        ("https://llm.invalid/v1alpha2", None, "tern-3", "/models/tern-3"),
        ("https://llm.invalid/v1/publishers/google", None, "tern-3", "/models/tern-3"),
        ("https://llm.invalid/v1", None, "projects/p/x/tern-3", "/projects/p/x/tern-3"),
        ("https://llm.invalid/v1x-vintage", None, "tern-3", "/v1beta/models/tern-3"),
        ("https://v1.invalid", None, "tern-3", "/v1beta/models/tern-3"),
        ("https://llm.invalid", None, "a/b?c#d é:x", "/v1beta/models/a/b%3Fc%23d%20%C3%A9%3Ax"),
    ],
)
def test_the_path_has_the_version_and_the_resource_once(
    base_url: str, api_version: str | None, model: str, path: str
) -> None:
    target = attrs.evolve(TARGET, base_url=base_url, api_version=api_version, model=model)
    wire = encode(ChatRequest(messages=PROMPT), target)
    assert wire.path == f"{path}:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("tern-3", "none", {"thinkingLevel": "MINIMAL"}),
        ("tern-3", "minimal", {"thinkingLevel": "MINIMAL", "includeThoughts": True}),
        ("tern-3", "low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        ("tern-3", "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}),
        ("tern-3-pro", "minimal", {"thinkingLevel": "LOW", "includeThoughts": True}),
        ("tern-proto", "minimal", {"thinkingLevel": "MINIMAL", "includeThoughts": True}),
        ("tern-3-pro", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.1-tern", "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-25-tern", "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("models/gemini-2.5-tern", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro-tern", "minimal", {"thinkingBudget": 1024, "includeThoughts": True}),
        ("gemini-2.0-tern", "low", {"thinkingBudget": 1024, "includeThoughts": True}),
        ("gemini-2.5-tern", "high", {"thinkingBudget": 24576, "includeThoughts": True}),
    ],
)
def test_how_much_to_think_is_said_in_the_way_that_the_model_knows(
    model: str, effort: str, thinking: JSON
) -> None:
    request = ChatRequest(messages=PROMPT, reasoning_effort=effort)
    target = attrs.evolve(TARGET, model=model)
    assert generation(request, target) == {"thinkingConfig": thinking}


def test_only_what_is_said_is_sent() -> None:
    request = ChatRequest(
        messages=PROMPT, temperature=0.0, seed=0, response_format={"type": "text"}
    )
    assert generation(request) == {"temperature": 0.0, "seed": 0}


@pytest.mark.parametrize("seed", [-(2**31), 2**31 - 1])
def test_a_seed_may_have_32_bits(seed: int) -> None:
    assert generation(ChatRequest(messages=PROMPT, seed=seed)) == {"seed": seed}


@pytest.mark.parametrize(
    ("choice", "strict", "config"),
    [
        (None, None, None),
        (None, False, None),
        (None, True, {"mode": "VALIDATED"}),
        ("auto", None, {"mode": "AUTO"}),
        ("auto", True, {"mode": "VALIDATED"}),
        ("none", True, {"mode": "NONE"}),
        ("required", True, {"mode": "ANY"}),
        ({"type": "function", "function": {"name": "tide_at"}}, True, {
            "mode": "ANY", "allowedFunctionNames": ["tide_at"],
        }),
    ],
)  # fmt: skip
def test_the_choice_of_a_tool_and_strictness_are_one_mode(
    choice: str | dict[str, JSON] | None, strict: bool | None, config: JSON
) -> None:
    tool: dict[str, JSON] = {"function": {"name": "tide_at", "strict": strict}}
    body = body_of(ChatRequest(messages=PROMPT, tools=[tool, TOOL], tool_choice=choice))
    assert body.get("toolConfig") == (None if config is None else {"functionCallingConfig": config})


# ---- messages -----------------------------------------------------------------------------------


def contents_of(*messages: Message, target: Target = TARGET) -> list[dict[str, JSON]]:
    body = body_of(ChatRequest(messages=[*PROMPT, *messages]), target)
    return cast("list[dict[str, JSON]]", body["contents"])[1:]


def called(*names: str, **ids: str) -> dict[str, JSON]:
    calls: list[JSON] = [{"function": {"name": name, "arguments": "{}"}} for name in names]
    calls += [{"id": own, "function": {"name": name}} for name, own in ids.items()]
    return {"role": "assistant", "tool_calls": calls}


def response(name: str, output: str) -> JSON:
    return {"functionResponse": {"name": name, "response": {"output": output}}}


def test_results_stand_together_in_the_order_of_their_calls() -> None:
    contents = contents_of(
        called("f", "f", "g"),
        {"role": "tool", "tool_call_id": "call_1_1", "content": "2"},
        {"role": "tool", "tool_call_id": "call_1_2", "content": "3"},
        {"role": "tool", "content": "1"},
        called("f"),
        {"role": "tool", "tool_call_id": "elsewhere", "name": "h", "content": "5"},
        {"role": "tool", "content": "4"},
    )
    assert [content["role"] for content in contents] == ["model", "user"] * 2
    assert contents[1]["parts"] == [response("f", "1"), response("f", "2"), response("g", "3")]
    assert contents[3]["parts"] == [response("f", "4"), response("h", "5")]


@pytest.mark.parametrize(
    ("model", "is_signed"), [("tern-3", True), ("gemini-3-tern", True), ("gemini-2.5-tern", False)]
)
def test_the_first_call_without_a_signature_gets_a_word_where_the_model_wants_one(
    model: str, is_signed: bool
) -> None:
    target = attrs.evolve(TARGET, model=model)
    (content, *_) = contents_of(called("f", "g"), target=target)
    beside: dict[str, JSON] = {"thoughtSignature": UNSIGNED} if is_signed else {}
    assert content["parts"] == [
        {"functionCall": {"name": "f", "args": {}}, **beside},
        {"functionCall": {"name": "g", "args": {}}},
    ]


# ---- parts that go back -------------------------------------------------------------------------

PARTS: list[JSON] = [
    {"text": "Hm.", "thought": True},
    {"text": "Why?", "thought": True, "thoughtSignature": "czA="},
    {"text": "Let me "},
    {"text": "see", "thoughtSignature": "czE="},
    {"functionCall": {"id": "x1", "name": "f", "args": {"é": [1, {"a": None}]}},
     "thoughtSignature": "czI="},
    {"functionCall": {"name": "g", "args": {}}},
    {"inlineData": {"mimeType": "image/png", "data": "iVBO"}, "thoughtSignature": "czM="},
    {"text": "."},
    {"text": "", "thoughtSignature": "czQ="},
]  # fmt: skip


def answered(stats: CallStats, *parts: JSON, target: Target = TARGET) -> dict[str, JSON]:
    """Give the message that an answer of *parts* becomes, as plain JSON."""
    reply = Gemini().decoder(attempt=0, target=target, content_type="", limits=Limits())
    for part in parts:
        value: JSON = {"candidates": [{"content": {"parts": [part]}}]}
        reply.feed(f"{json.dumps(value)}\n".encode())
    reply.feed(b'{"candidates":[{"finishReason":"STOP"}]}')
    reply.close()
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=True
    )
    return cast("dict[str, JSON]", json.loads(json.dumps(completion.message)))


def test_an_answer_goes_back_part_by_part_as_it_came(stats: CallStats) -> None:
    message = answered(stats, *PARTS)
    wire = encode(
        ChatRequest(
            messages=[
                *PROMPT,
                message,
                {"role": "tool", "tool_call_id": "call_1_1", "content": "2"},
                {"role": "tool", "tool_call_id": "x1", "content": "1"},
            ]
        )
    )
    _, model, results = json.loads(wire.body)["contents"]
    assert model == {"role": "model", "parts": PARTS[1:]}
    assert [each["functionResponse"].get("id") for each in results["parts"]] == ["x1", None]
    assert wire.left_out == ()


def test_stretches_of_text_go_back_as_one(stats: CallStats) -> None:
    message = answered(
        stats, {"text": "a"}, {"text": "b🌊"}, {"text": "", "thoughtSignature": "s"}, {"text": "c"}
    )
    (content,) = contents_of(message)
    assert content["parts"] == [
        {"text": "ab🌊"},
        {"text": "", "thoughtSignature": "s"},
        {"text": "c"},
    ]


CALL: JSON = {"id": "x1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}

EDITS: list[dict[str, JSON]] = [
    {"content": "Let me go."},
    {"content": "Let me see"},
    {"content": None},
    {"content": [{"type": "text", "text": "Let me see."}, {"type": "text", "text": "x"}]},
    {"content": [
        {"type": "text", "text": "Let me see."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
    ]},
    {"refusal": "x"},
    {"tool_calls": []},
    {"tool_calls": [CALL]},
]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_parts_of_an_answer_that_was_edited_are_left_out(
    edit: dict[str, JSON], stats: CallStats
) -> None:
    message = {**answered(stats, *PARTS), **edit}
    wire = encode(ChatRequest(messages=[*PROMPT, message]))
    assert wire.left_out == ("gemini",)
    assert b"czI=" not in wire.body
    assert b"x1" not in wire.body


def test_a_text_that_is_only_written_otherwise_is_not_edited(stats: CallStats) -> None:
    message = answered(stats, *PARTS)
    message["content"] = [{"type": "text", "text": "Let me "}, {"type": "text", "text": "see."}]
    (content,) = contents_of(message)
    assert content["parts"] == PARTS[1:]


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(TARGET, model="tern-4"),
        attrs.evolve(TARGET, base_url="https://other.invalid"),
    ],
)
def test_parts_go_back_only_to_where_they_came_from(other: Target, stats: CallStats) -> None:
    message = answered(stats, *PARTS)
    same = attrs.evolve(TARGET, base_url="https://llm.invalid/", headers={"x": "y"})
    request = ChatRequest(messages=[*PROMPT, message])
    assert encode(request, same).left_out == ()
    wire = encode(request, other)
    assert wire.left_out == ("gemini",)
    _, model = json.loads(wire.body)["contents"]
    assert model["parts"] == [
        {"text": "Let me see."},
        {
            "functionCall": {"name": "f", "args": {"é": [1, {"a": None}]}},
            "thoughtSignature": UNSIGNED,
        },
        {"functionCall": {"name": "g", "args": {}}},
    ]


@pytest.mark.parametrize(
    "parts",
    [
        None,
        [],
        "x",
        [{"text": 2}, {"functionCall": 0}],
        [{"text": 1}],
        [{"text": 1}, {"functionCall": 0}, {"functionCall": 0}],
        [{"text": 1}, {"functionCall": 1}, {"functionCall": 1}],
    ],
)
def test_parts_that_are_not_those_that_were_kept_are_left_out(
    parts: JSON, stats: CallStats
) -> None:
    message = answered(stats, {"text": "a"}, {"functionCall": {"name": "f", "id": "x"}})
    opaque = cast("dict[str, JSON]", message["opaque"])
    assert opaque["parts"] == [{"text": 1}, {"functionCall": 0}]
    wire = encode(
        ChatRequest(messages=[*PROMPT, {**message, "opaque": {**opaque, "parts": parts}}])
    )
    assert wire.left_out == ("gemini",)


def test_every_dialect_that_is_left_out_is_told_once(stats: CallStats) -> None:
    edited = {**answered(stats, *PARTS), "content": "x"}
    foreign: Message = {"role": "assistant", "content": "a", "opaque": {"dialect": "ollama"}}
    wire = encode(ChatRequest(messages=[*PROMPT, foreign, edited, foreign, edited]))
    assert wire.left_out == ("ollama", "gemini")


# ---- refusals -----------------------------------------------------------------------------------


def user(*parts: JSON) -> Message:
    return {"role": "user", "content": parts}


def picture(detail: str | None = None) -> JSON:
    return {"type": "image_url", "image_url": {"url": "https://cdn.invalid/a", "detail": detail}}


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (
            ChatRequest(messages=[*PROMPT, {"role": "system", "content": "x"}]),
            (
                "messages[1]: a system message behind others cannot be said in the dialect gemini:"
                " put it first"
            ),
        ),
        (
            ChatRequest(messages=[{"role": "system", "content": [picture()]}, *PROMPT]),
            "messages[0]['content'][0]: an image in a system message cannot be said",
        ),
        (
            ChatRequest(messages=[{"role": "system", "content": "x"}]),
            "messages: a prompt without a user's words cannot be said",
        ),
        (
            ChatRequest(messages=[*PROMPT, {"role": "tool", "tool_call_id": "x", "content": "1"}]),
            "messages[1]['name']: the result of a function without a name cannot be said",
        ),
        (
            ChatRequest(
                messages=[
                    *PROMPT,
                    {
                        "role": "assistant",
                        "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}],
                    },
                ]
            ),
            "messages[1]['tool_calls'][0]['function']['arguments'] must be a JSON object",
        ),
        (
            ChatRequest(messages=[user(picture("low"), picture("high"))]),
            "messages: images with and without a detail, or different ones cannot be said",
        ),
        (
            ChatRequest(messages=[user(picture("low")), user(picture())]),
            "messages: images with and without a detail, or different ones cannot be said",
        ),
        (
            ChatRequest(messages=[user(picture("original"))]),
            "messages[0]['content'][0]['image_url']['detail'] = 'original' cannot be said",
        ),
        (ChatRequest(messages=PROMPT, seed=2**31), "seed = 2147483648 cannot be said"),
        (ChatRequest(messages=PROMPT, seed=-(2**31) - 1), "seed = -2147483649 cannot be said"),
        (
            ChatRequest(messages=PROMPT, reasoning_effort="max"),
            (
                "reasoning_effort = 'max' cannot be said in the dialect gemini:"
                " it has none, minimal, low, medium, high"
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
            "response_format['json_schema']['description'] cannot be said",
        ),
        (
            ChatRequest(messages=PROMPT, tools=[{"function": {"name": "\ud800"}}]),
            "tools[0].functionDeclarations[0].name holds a lone surrogate (U+D800)",
        ),
        *[
            (
                ChatRequest(messages=PROMPT, extra={name: []}),
                f"extra may not set {name!r}, which polygateway decides",
            )
            for name in ("contents", "systemInstruction", "system_instruction")
        ],
    ],
)
def test_what_cannot_be_said_is_refused_by_its_place(request_: ChatRequest, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Gemini().check(request_)
    assert str(caught.value).startswith(text)
