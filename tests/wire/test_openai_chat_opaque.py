"""What only the provider understands: from its answer into the next request, and nowhere else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from polygateway.errors import ConfigurationError, ProtocolViolation
from polygateway.messages import ChatRequest
from polygateway.policies import Limits, Target
from polygateway.wire.dialect import Phase
from polygateway.wire.openai_chat import ChatDecoder, OpenAIChat

if TYPE_CHECKING:
    from polygateway.messages import JSON, Message
    from polygateway.stats import CallStats

HERE = "https://eu.invalid/v1"

ASK: Message = {"role": "user", "content": "How is the tide?"}
CALL: Message = {"index": 0, "id": "c1", "function": {"name": "tide_at", "arguments": "{}"}}
WITH_CALL: Message = {"tool_calls": [CALL]}
SENT_CALL: Message = {
    "id": "c1",
    "type": "function",
    "function": {"name": "tide_at", "arguments": "{}"},
}


def target(base_url: str = HERE) -> Target:
    return Target(dialect="openai-chat", base_url=base_url, model="lyra-3")


def decoder(limits: Limits | None = None) -> ChatDecoder:
    return OpenAIChat().decoder(
        attempt=0, target=target(), content_type="", limits=limits or Limits()
    )


def stream(*deltas: Message, index: int = 0) -> bytes:
    choices = ({"choices": [{"index": index, "delta": delta}]} for delta in deltas)
    return "".join(f"data: {json.dumps(choice)}\n\n" for choice in choices).encode()


def answered(*deltas: Message, stats: CallStats, ended: bool = True) -> Message:
    reply = decoder()
    reply.feed(stream(*deltas))
    assert reply.fault is None
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=ended
    )
    # As an application keeps it that writes its conversations down.
    message: Message = json.loads(json.dumps(completion.message))
    return message


def sent_back(message: Message, base_url: str = HERE) -> dict[str, JSON]:
    """Give *message* as it goes out, once somebody has answered its call."""
    result: Message = {"role": "tool", "tool_call_id": "c1", "content": "3.1 m"}
    request = ChatRequest(messages=[ASK, message, result])
    OpenAIChat().check(request)
    wire = OpenAIChat().encode(request, target(base_url), None)
    sent: list[dict[str, JSON]] = json.loads(wire.body)["messages"]
    assert (sent[0], sent[2]) == (ASK, result)
    assert ("opaque" in message) == (bool(wire.left_out) or sent[1].keys() != message.keys())
    return sent[1]


def plain(**more: JSON) -> dict[str, JSON]:
    return {"role": "assistant", "content": None, "tool_calls": [SENT_CALL], **more}


def texts(*pieces: str, **fields: JSON) -> list[Message]:
    return [
        {"reasoning_details": [{"type": "reasoning.text", "text": piece, **fields}]}
        for piece in pieces
    ]


SIGNATURE: Message = {
    "reasoning_details": [{"type": "reasoning.text", "signature": "c2ln", "index": 0}]
}

KEPT: dict[str, tuple[list[Message], dict[str, JSON]]] = {
    "DeepSeek": (
        [{"reasoning_content": "a"}, {"reasoning_content": "b", "content": None}],
        {"reasoning_content": "ab"},
    ),
    "DeepSeek, which wants it back also where it is empty": (
        [{"reasoning_content": ""}, {"reasoning_content": None}],
        {"reasoning_content": ""},
    ),
    "vLLM": ([{"reasoning": ""}, {"reasoning": "a"}], {"reasoning": "a"}),
    "the name that the text came by": (
        [
            {"reasoning_content": ""},
            {"reasoning_content": ["x"], "reasoning": "a"},
            {"reasoning_content": "b"},
        ],
        {"reasoning": "ab"},
    ),
    "both names": ([{"reasoning_content": "a", "reasoning": "a"}], {"reasoning_content": "a"}),
    "no more than a block has": (
        texts("a", "b", index=0, x=1, id=[1], format=None, signature=""),
        {"reasoning_details": [{"type": "reasoning.text", "text": "ab", "index": 0}]},
    ),
    "nothing is nothing": ([{"reasoning": "", "reasoning_details": [], "content": "a"}], {}),
    "OpenRouter: fragments of one block (agno#8794)": (
        [{"reasoning": "a", **texts("a", index=0, format="f")[0]}, *texts("b", index=0), SIGNATURE],
        {
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "text": "ab",
                    "index": 0,
                    "format": "f",
                    "signature": "c2ln",
                }
            ]
        },
    ),
    "OpenRouter: blocks by index and type, and what comes whole": (
        [
            *texts("a", index=0, id=None),
            {
                "reasoning_details": [
                    {"type": "reasoning.summary", "summary": "b", "index": 0, "id": "s"},
                    {"type": "reasoning.encrypted", "data": "x", "index": 0},
                    {"type": "reasoning.encrypted", "data": "y", "index": 0, "more": [1, {}]},
                ]
            },
            *texts("c", index=1),
            *texts("d", index=0, id="t"),
            {"reasoning_details": [{"type": "reasoning.summary", "summary": "e", "index": 0}]},
        ],
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "ad", "index": 0, "id": "t"},
                {"type": "reasoning.summary", "summary": "be", "index": 0, "id": "s"},
                {"type": "reasoning.encrypted", "data": "x", "index": 0},
                {"type": "reasoning.encrypted", "data": "y", "index": 0, "more": [1, {}]},
                {"type": "reasoning.text", "text": "c", "index": 1},
            ]
        },
    ),
    "without an index: until a signature, or something else": (
        [
            *texts("a", "b"),
            *texts("c", signature="s"),
            *texts("d"),
            {"reasoning_details": [{"type": "other"}]},
            *texts("e"),
            *texts("f", index=3),
            *texts("g"),
        ],
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "abc", "signature": "s"},
                {"type": "reasoning.text", "text": "d"},
                {"type": "other"},
                {"type": "reasoning.text", "text": "e"},
                {"type": "reasoning.text", "text": "f", "index": 3},
                {"type": "reasoning.text", "text": "g"},
            ]
        },
    ),
    "without an index: what one event holds are blocks of their own": (
        [
            {
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "a"},
                    {"type": "reasoning.text", "text": "b"},
                ]
            },
            *texts("c"),
        ],
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "a"},
                {"type": "reasoning.text", "text": "bc"},
            ]
        },
    ),
    "LiteLLM: the signature with the whole text once more (open-webui#29860)": (
        [
            {"reasoning_content": "a", "thinking_blocks": [{"type": "thinking", "thinking": "a"}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "b", "signature": ""}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "ab", "signature": "s"}]},
            {"thinking_blocks": [{"type": "redacted_thinking", "data": "x"}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "t"}]},
        ],
        {
            "thinking_blocks": [
                {"type": "thinking", "thinking": "ab", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "thinking", "thinking": "", "signature": "t"},
            ]
        },
    ),
    "what is no block is none": (
        [{"reasoning_details": "x", "thinking_blocks": [1, None]}, {"reasoning_details": {"a": 1}}],
        {},
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_reasoning_goes_back_with_the_calls_that_came_of_it(case: str, stats: CallStats) -> None:
    deltas, expected = KEPT[case]
    message = answered(*deltas, WITH_CALL, stats=stats)
    content = message["content"]
    assert sent_back(message) == plain(content=content, **expected)
    # Without calls nobody wants it back.
    assert "opaque" not in answered(*deltas, stats=stats)
    # Of a part of an answer nothing can go back.
    assert "opaque" not in answered(*deltas, WITH_CALL, stats=stats, ended=False)


SIGNED: JSON = {"google": {"thought_signature": "c2ln"}}

CALLS: dict[str, tuple[list[Message], Message]] = {
    "Gemini": ([{"tool_calls": [{**CALL, "extra_content": SIGNED}]}], {"extra_content": SIGNED}),
    "in a piece of its own": (
        [
            WITH_CALL,
            {"tool_calls": [{"index": 0, "extra_content": SIGNED}]},
            {"tool_calls": [{"index": 0, "extra_content": {"google": "another"}}]},
        ],
        {"extra_content": SIGNED},
    ),
    "before there is a call": ([{"tool_calls": [{"extra_content": SIGNED}]}, WITH_CALL], {}),
    "LiteLLM": (
        [{"tool_calls": [{**CALL, "provider_specific_fields": {"a": "b"}, "x": 1}]}],
        {"provider_specific_fields": {"a": "b"}},
    ),
    "nothing is nothing": ([{"tool_calls": [{**CALL, "extra_content": None}]}], {}),
}


@pytest.mark.parametrize("case", CALLS)
def test_what_a_call_holds_goes_back_with_it(case: str, stats: CallStats) -> None:
    deltas, expected = CALLS[case]
    sent = sent_back(answered(*deltas, stats=stats))
    assert sent == plain(tool_calls=[{**SENT_CALL, **expected}])


def test_calls_are_known_by_their_ids_or_else_by_their_places(stats: CallStats) -> None:
    calls: list[JSON] = [
        {"index": i, "id": call_id, "function": {"name": f"f{i}"}, "extra_content": {"of": i}}
        for i, call_id in enumerate(["a", "", "c"])
    ]
    message = answered({"tool_calls": calls}, stats=stats)
    made = message["tool_calls"]
    assert isinstance(made, list)
    # The application has thrown the first away, and added something odd.
    kept = [{"type": "function", "function": {"name": "new"}}, made[1], made[2], "odd"]
    result: Message = {"role": "tool", "content": "1"}
    request = ChatRequest(messages=[{**message, "tool_calls": kept}, result, result, result])
    wire = OpenAIChat().encode(request, target(), None)
    sent = json.loads(wire.body)["messages"]
    assert [each.get("extra_content") for each in sent[0]["tool_calls"][:3]] == [
        {"of": 0},
        {"of": 1},
        {"of": 2},
    ]
    assert [each["id"] for each in sent[0]["tool_calls"][:3]] == ["call_0_0", "call_0_1", "c"]
    assert sent[0]["tool_calls"][3] == "odd"
    assert [each["tool_call_id"] for each in sent[1:]] == ["call_0_0", "call_0_1", "c"]


@pytest.mark.parametrize(
    ("base_url", "goes_back"),
    [
        (HERE, True),
        (f"{HERE}/", True),
        ("https://eu.invalid/v2", False),
        ("https://us.invalid/v1", False),
    ],
)
def test_it_goes_back_only_where_it_came_from(
    base_url: str, goes_back: bool, stats: CallStats
) -> None:
    message = answered({"reasoning_content": "a"}, WITH_CALL, stats=stats)
    request = ChatRequest(messages=[ASK, message, message])
    wire = OpenAIChat().encode(request, target(base_url), None)
    assert json.loads(wire.body)["messages"][1] == plain(
        **({"reasoning_content": "a"} if goes_back else {})
    )
    assert list(wire.left_out) == ([] if goes_back else ["openai-chat"])


def test_nothing_kept_is_nothing_left_out() -> None:
    message: Message = {"role": "assistant", "content": "a", "opaque": None}
    wire = OpenAIChat().encode(ChatRequest(messages=[ASK, message]), target(), None)
    assert json.loads(wire.body)["messages"][1] == {"role": "assistant", "content": "a"}
    assert list(wire.left_out) == []


def test_what_others_understand_is_left_out_and_named_once() -> None:
    messages: list[Message] = [
        {"role": "assistant", "content": "a", "opaque": {"dialect": dialect, "x": 1}}
        for dialect in ("gemini", "anthropic", "gemini")
    ]
    wire = OpenAIChat().encode(ChatRequest(messages=[ASK, *messages]), target(), None)
    assert json.loads(wire.body)["messages"][1:] == [{"role": "assistant", "content": "a"}] * 3
    assert list(wire.left_out) == ["gemini", "anthropic"]


def test_what_the_application_says_itself_stands(stats: CallStats) -> None:
    message = answered({"reasoning_content": "a"}, WITH_CALL, stats=stats)
    assert sent_back({**message, "reasoning_content": "b"}) == plain(reasoning_content="b")


@pytest.mark.parametrize("value", [1, "x", [], {}, {"dialect": "x"}, {"dialect": None}])
def test_what_polygateway_did_not_put_there_is_refused(value: JSON) -> None:
    request = ChatRequest(messages=[ASK, {"role": "assistant", "content": "a", "opaque": value}])
    with pytest.raises(ConfigurationError, match=r"^messages\[1\]\['opaque'\] must be what"):
        OpenAIChat().check(request)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"message": None, "tool_calls": None},
        {"message": [1], "tool_calls": {"a": 1}},
        {"message": {}, "tool_calls": [1, {}, {"id": "c1"}, {"id": "c1", "fields": 1}]},
    ],
)
def test_what_is_damaged_adds_nothing(parts: Message) -> None:
    opaque: Message = {"dialect": "openai-chat", "base_url": HERE, **parts}
    assert sent_back(plain(opaque=opaque)) == plain()
    without_calls: Message = {"role": "assistant", "content": "a", "opaque": opaque}
    assert sent_back(without_calls) == {"role": "assistant", "content": "a"}


# ---- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece",
    [
        texts("x" * 300, index=0)[0],
        texts("", id="x" * 300, index=7)[0],
        {"reasoning_details": [{"type": "other", "data": "x" * 300}]},
        {"reasoning_details": [{"type": "other"}]},
        {"reasoning_details": [{"type": "reasoning.text"}, {"type": "reasoning.text"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "x" * 300}]},
        {"tool_calls": [{**CALL, "extra_content": "x" * 2000}]},
    ],
    ids=["text", "field", "whole", "many", "many fragments", "thinking", "of a call"],
)
def test_what_is_kept_counts_as_the_answer_s(piece: Message) -> None:
    reply = decoder(Limits(max_answer_bytes=2000))
    reply.feed(stream({"content": "a"}))
    for number in range(100):
        reply.feed(stream(json.loads(json.dumps(piece).replace("7", str(number)))))
    assert reply.phase is Phase.FAILED
    assert reply.fault is not None
    assert reply.fault.error is ProtocolViolation
    assert "limits.max_answer_bytes" in reply.fault.message


def test_nothing_is_kept_of_another_choice(stats: CallStats) -> None:
    reply = decoder()
    reply.feed(stream({"reasoning_content": "b"}, texts("c")[0], WITH_CALL, index=1))
    reply.feed(stream(WITH_CALL))
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=True
    )
    assert completion.message == plain()


@settings(deadline=None)
@given(
    st.lists(st.text(max_size=4), min_size=1, max_size=6),
    st.sampled_from([{"index": 0}, {}]),
    st.booleans(),
)
def test_however_a_block_is_cut_it_goes_back_whole(
    stats: CallStats, pieces: list[str], index: Message, apart: bool
) -> None:
    text = "".join(pieces)
    last = "" if apart else pieces.pop()
    deltas = [*texts(*pieces, **index), *texts(last, signature="s", **index)]
    sent = sent_back(answered(*deltas, WITH_CALL, stats=stats))
    expected = {"type": "reasoning.text", "text": text, "signature": "s", **index}
    assert sent["reasoning_details"] == [expected]
