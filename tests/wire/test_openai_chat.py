from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from polygateway.errors import Overloaded, ProtocolViolation, ServerError
from polygateway.messages import Chunk, ToolCallDelta
from polygateway.policies import Limits, Target
from polygateway.usage import Usage
from polygateway.wire.dialect import Fault, Phase
from polygateway.wire.openai_chat import FINISH_ERRORS, FINISH_REASONS, ChatDecoder, OpenAIChat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polygateway.messages import JSON
    from polygateway.stats import CallStats

    Cut = Callable[[bytes], Iterator[Sequence[bytes]]]

SSE = "text/event-stream"
TARGET = Target(dialect="openai-chat", base_url="http://[::1]", model="m")


def decoder(content_type: str = SSE, limits: Limits | None = None) -> ChatDecoder:
    return OpenAIChat().decoder(
        attempt=2, target=TARGET, content_type=content_type, limits=limits or Limits()
    )


def event(value: JSON) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def delta_of(fields: JSON, finish: str | None = None, index: int = 0) -> bytes:
    choice: dict[str, JSON] = {"index": index, "delta": fields, "finish_reason": finish}
    return event({"id": "a1", "model": "lyra-3", "choices": [choice]})


def delta(finish: str | None = None, index: int = 0, **fields: JSON) -> bytes:
    return delta_of(fields, finish, index)


DONE = b"data: [DONE]\n\n"


def shown(chunks: list[Chunk]) -> list[str]:
    return [f"{chunk.kind}:{chunk.delta}" for chunk in chunks]


def test_a_text_comes_as_it_is_cut_and_the_reply_ends_with_its_marker() -> None:
    reply = decoder()
    assert reply.feed(delta(role="assistant", content="")) == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 0, 1)
    assert reply.feed(delta(content="The ") + delta(content="tide")) == [
        Chunk("text", "The ", 2),
        Chunk("text", "tide", 2),
    ]
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 2, 1)
    assert reply.feed(delta("stop")) == []
    assert (reply.phase, reply.keepalives) == (Phase.FINISHING, 2)
    assert reply.feed(event({"choices": [], "usage": {"prompt_tokens": 1}})) == []
    assert (reply.phase, reply.keepalives) == (Phase.FINISHING, 3)
    assert reply.feed(DONE + delta(content="IGNORED") + b"data: {broken\n\n") == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.ENDED, 2, 3)
    assert reply.feed(delta(content="IGNORED")) == reply.close() == []
    assert (reply.phase, reply.fault, reply.answer.text("text")) == (Phase.ENDED, None, "The tide")
    assert (reply.answer.id, reply.answer.model) == ("a1", "lyra-3")
    assert reply.answer.usage == Usage(input_tokens=1)


DELTAS: list[tuple[dict[str, JSON], list[str]]] = [
    ({"content": "a"}, ["text:a"]),
    ({"content": "a", "refusal": "b"}, ["text:a", "refusal:b"]),
    ({"content": "a", "reasoning": "b"}, ["reasoning:b", "text:a"]),
    ({"reasoning": "a", "reasoning_content": "a"}, ["reasoning:a"]),
    ({"reasoning": "a", "reasoning_content": None}, ["reasoning:a"]),
    (
        {"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a"}]},
        ["reasoning:a"],
    ),
    (
        {"reasoning_details": [{"text": "a"}, {"summary": "b"}, {"data": "c"}, {"text": None}]},
        ["reasoning:ab"],
    ),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, ["text:ab"]),
    (
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "a"}, {}]},
                {"type": "thinking", "thinking": "b"},
                {"type": "text", "text": "c"},
                {"type": "reference", "reference_ids": [1]},
            ]
        },
        ["reasoning:ab", "text:c"],
    ),
    (
        {
            "content": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]},
                {"type": "thinking", "text": "b"},
                {"type": "reasoning"},
                {"type": "refusal", "refusal": "c"},
                {"text": "d"},
            ]
        },
        ["reasoning:ab", "text:d", "refusal:c"],
    ),
    ({"content": [{"type": "refusal", "refusal": "a"}], "refusal": "a"}, ["refusal:a"]),
    ({"content": []}, []),
    ({"content": [{"type": "text", "text": ""}]}, []),
    ({"content": 5, "refusal": {}, "reasoning": ["x"], "tool_calls": {}}, []),
    ({"content": "", "refusal": "", "reasoning": "", "tool_calls": []}, []),
    ({"content": None, "tool_calls": None, "function_call": None, "role": None}, []),
    ({"annotations": [{}], "audio": {"data": "x", "transcript": "y"}, "images": [{}]}, []),
    ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}, []),
    ({"thinking_blocks": [{"type": "thinking", "thinking": "x"}]}, []),
]


@pytest.mark.parametrize(("fields", "chunks"), DELTAS)
def test_an_event_gives_one_chunk_for_each_kind_of_content_in_it(
    fields: dict[str, JSON], chunks: list[str]
) -> None:
    reply = decoder()
    assert shown(reply.feed(delta_of(fields))) == chunks
    assert (reply.content_events, reply.keepalives) == ((1, 0) if chunks else (0, 1))


def test_what_stands_beside_the_delta_is_no_content() -> None:
    reply = decoder()
    choice: JSON = {"delta": {}, "logprobs": {"content": [{"token": "a"}]}, "matched_stop": "b"}
    assert reply.feed(event({"choices": [choice], "search_results": [{}], "timings": {}})) == []
    assert (reply.content_events, reply.keepalives) == (0, 1)


def message_of(content: str, finish: str | None = None, **fields: JSON) -> bytes:
    choice: dict[str, JSON] = {"message": {"content": content}, "finish_reason": finish, **fields}
    return event({"choices": [choice]})


def test_a_message_in_place_of_a_delta_counts_and_one_that_repeats_the_deltas_does_not() -> None:
    alone = decoder()
    assert shown(alone.feed(message_of("ab") + message_of("", "stop"))) == ["text:ab"]
    # Perplexity's full stream mode: in every chunk what has come up to now.
    beside = decoder()
    stream = message_of("a", delta={"content": "a"}) + message_of("ab", delta={"content": "b"})
    assert shown(beside.feed(stream + message_of("ab", "stop", delta={}))) == ["text:a", "text:b"]
    # Its concise mode, and gateways that add a whole reply at the end.
    assert beside.feed(message_of("ab", "stop")) == []
    assert (beside.phase, beside.content_events) == (Phase.FINISHING, 2)


def thought(content: str) -> bytes:
    return delta(content=content, extra_content={"google": {"thought": True}})


@pytest.mark.parametrize(
    ("stream", "chunks"),
    [
        (
            thought("<thought>a") + thought("b") + delta(content="</thought>c"),
            ["reasoning:a", "reasoning:b", "text:c"],
        ),
        (
            thought("<thought>a</thought>b") + delta(content="c"),
            ["reasoning:a", "text:b", "text:c"],
        ),
        (thought("a") + delta() + delta(content="</thought>"), ["reasoning:a"]),
        (thought("a") + delta(content="b"), ["reasoning:a", "text:b"]),
        # Only Gemini marks its thoughts; what a model writes is text.
        (delta(content="<thought>a") + delta(content="</thought>b"), None),
        (delta(content="</thought>b", extra_content={"google": {"thought": False}}), None),
        (delta(content="</thought>b", extra_content={"google": {"thought": "yes"}}), None),
    ],
)
def test_what_gemini_marks_as_a_thought_is_reasoning(
    stream: bytes, chunks: list[str] | None
) -> None:
    reply = decoder()
    found = reply.feed(stream)
    if chunks is None:
        assert {chunk.kind for chunk in found} == {"text"}
        assert "</thought>b" in reply.answer.text("text")
    else:
        assert shown(found) == chunks


def call(index: int | None = None, **fields: JSON) -> dict[str, JSON]:
    return {**({} if index is None else {"index": index}), **fields}


def test_every_call_of_a_delta_gives_a_chunk_and_the_event_counts_once() -> None:
    reply = decoder()
    calls = [
        call(0, id="a", function={"name": "f", "arguments": "{"}),
        call(1, id="b", function={"name": "g"}),
        call(2, id="c"),
        call(3),
    ]
    assert reply.feed(delta(tool_calls=calls)) == [
        Chunk("tool_call", "{", 2, ToolCallDelta(0, "a", "f")),
        Chunk("tool_call", "", 2, ToolCallDelta(1, "b", "g")),
    ]
    assert reply.content_events == 1
    assert reply.feed(delta(tool_calls=[call(0, function={"arguments": "}"})])) == [
        Chunk("tool_call", "}", 2, ToolCallDelta(0, "a", "f"))
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"function": {"name": "f", "arguments": {"a": "é"}}}, ("f", '{"a": "é"}')),
        ({"function": {"name": "f", "arguments": None}}, ("f", "")),
        ({"function": {"name": "f", "arguments": 7}}, ("f", "")),
        ({"function": {"name": "f"}, "index": -1, "id": 7}, ("f", "")),
        ({"function": {"name": "f"}, "index": True, "id": ""}, ("f", "")),
    ],
)
def test_oddly_typed_calls_are_read_as_far_as_they_go(
    fields: dict[str, JSON], expected: tuple[str, str], stats: CallStats
) -> None:
    reply = decoder()
    reply.feed(delta("tool_calls", tool_calls=[fields]) + DONE)
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=True
    )
    (found,) = completion.tool_calls
    assert (found.id, found.name, found.arguments, found.complete) == (None, *expected, True)


def test_the_older_form_of_a_call_counts_only_where_the_newer_is_not() -> None:
    old: JSON = {"name": "f", "arguments": "{}"}
    new: JSON = [call(0, id="a", function={"name": "f", "arguments": "{}"})]
    both = decoder().feed(delta(function_call=old, tool_calls=new))
    assert both == [Chunk("tool_call", "{}", 2, ToolCallDelta(0, "a", "f"))]
    only_old = decoder().feed(delta(function_call=old, tool_calls=None))
    assert only_old == [Chunk("tool_call", "{}", 2, ToolCallDelta(0, None, "f"))]


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    reply = decoder()
    for call_id, name in (("a", "f"), ("b", "g"), ("a", ""), ("", "")):
        reply.feed(delta(tool_calls=[call(id=call_id, function={"name": name, "arguments": "1"})]))
    reply.feed(delta("tool_calls"))
    assert reply.feed(delta(tool_calls=[call(id="a", function={"arguments": "2"})])) == [
        Chunk("tool_call", "2", 2, ToolCallDelta(0, "a", "f"))
    ]
    assert reply.feed(delta(tool_calls=[call(function={"arguments": "3"})])) == [
        Chunk("tool_call", "3", 2, ToolCallDelta(1, "b", "g"))
    ]


def made(*deltas: bytes, stats: CallStats) -> list[tuple[str | None, str, str]]:
    reply = decoder()
    for data in deltas:
        reply.feed(data)
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=True
    )
    return [(each.id, each.name, each.arguments) for each in completion.tool_calls]


def piece(index: int | None, id: str | None, name: str | None, arguments: str | None) -> bytes:
    return delta(tool_calls=[call(index, id=id, function={"name": name, "arguments": arguments})])


TWO = [("a", "f", '{"x": 1}'), ("b", "f", '{"x": 2}')]

# Every call at index 0, in all the ways that servers do it.
ONE_INDEX: dict[str, list[bytes]] = {
    "Ollama (ollama#15457): each call whole": [
        piece(0, "a", "f", '{"x": 1}'),
        piece(0, "b", "f", '{"x": 2}'),
    ],
    "two in one chunk": [
        delta(
            tool_calls=[
                call(0, id="a", function={"name": "f", "arguments": '{"x": 1}'}),
                call(0, id="b", function={"name": "f", "arguments": '{"x": 2}'}),
            ]
        )
    ],
    "vLLM (lmdeploy#3412): the id in the first piece": [
        piece(0, "a", "f", ""),
        piece(0, "", None, '{"x": 1}'),
        piece(0, "b", "f", ""),
        piece(0, "", None, '{"x"'),
        piece(0, "", None, ": 2}"),
    ],
    "SGLang (lmdeploy#3412): the id and the name in every piece": [
        piece(0, "a", "f", '{"x"'),
        piece(0, "a", "f", ": 1}"),
        piece(0, "b", "f", ""),
        piece(0, "b", "f", '{"x": 2'),
        piece(0, "b", "f", "}"),
        piece(0, "b", "f", ""),
    ],
    "pieces of a call whose id is known (agno#8880)": [
        piece(0, "a", "f", '{"x": {}}'),
        piece(0, "b", "f", ""),
        piece(0, "b", None, '{"x": 2}'),
        piece(0, "a", None, ""),
    ],
    "the second begins at another's index and goes on at its own (agno#8879)": [
        piece(0, "a", "f", '{"x": 1}'),
        piece(0, "b", "f", ""),
        piece(1, None, None, '{"x": 2'),
        piece(1, "b", None, "}"),
    ],
}


@pytest.mark.parametrize("way", ONE_INDEX)
def test_calls_that_share_an_index_are_told_apart(way: str, stats: CallStats) -> None:
    found = made(*ONE_INDEX[way], stats=stats)
    assert [found_call[:2] for found_call in found] == [("a", "f"), ("b", "f")]
    assert found[1] == TWO[1]


@pytest.mark.parametrize(
    "deltas",
    [
        # The id changes (poolsideai/pool#9), also with a name each time.
        [piece(0, "a", "f", ""), piece(0, "b", None, '{"x": '), piece(0, "b", None, "1}")],
        [piece(0, "a", "f", '{"x"'), piece(0, "b", "f", ": "), piece(0, "c", "f", "1}")],
        # A piece that only repeats, when all has come.
        [piece(0, "a", "f", '{"x": 1}'), piece(0, "a", "f", ""), piece(0, None, "f", "")],
        [piece(0, None, "f", '{"x": 1}'), piece(0, "a", "f", "")],
        # The bracket that ends a piece is not the last.
        [piece(0, "a", "f", '{"x": '), piece(0, None, "f", "1"), piece(0, None, None, "}")],
        # A chunk may hold an index twice (openai-python#3201).
        [
            delta(
                tool_calls=[
                    call(0, id="a", function={"name": "f", "arguments": '{"x"'}),
                    call(0, function={"arguments": ": 1}"}),
                ]
            )
        ],
        # The index in the first piece only, then the id, then neither.
        [piece(0, "a", "f", '{"x"'), piece(None, "a", None, ": "), piece(None, None, None, "1}")],
    ],
)
def test_pieces_of_one_call_stay_together(deltas: list[bytes], stats: CallStats) -> None:
    assert made(*deltas, stats=stats) == [("a", "f", '{"x": 1}')]


def test_one_call_may_come_without_its_list(stats: CallStats) -> None:
    function: JSON = {"name": "f", "arguments": "{}"}
    deltas = [delta(tool_calls={}), delta(tool_calls=call(0, id="a", function=function))]
    assert made(*deltas, stats=stats) == [("a", "f", "{}")]


def test_calls_at_one_index_without_ids_are_told_apart_by_what_they_hold(stats: CallStats) -> None:
    deltas = [piece(0, None, "f", '{"x": 1} '), piece(0, None, "f", '{"x": 2}')]
    assert made(*deltas, stats=stats) == [(None, "f", '{"x": 1} '), (None, "f", '{"x": 2}')]


def test_calls_at_their_own_indexes_may_share_an_id(stats: CallStats) -> None:
    deltas = [piece(0, "f", "f", "{}"), piece(1, "f", "f", "{"), piece(1, "f", None, "}")]
    assert made(*deltas, stats=stats) == [("f", "f", "{}"), ("f", "f", "{}")]


def test_the_older_form_is_one_call_though_its_name_is_repeated() -> None:
    reply = decoder()
    for _ in range(2):
        (chunk,) = reply.feed(delta(function_call={"name": "f", "arguments": "{"}))
        assert chunk.tool_call == ToolCallDelta(0, None, "f")


# ---- the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "phase", "finish"),
    [
        ([delta(content="a")], Phase.OPEN, None),
        ([delta(content="a"), delta("")], Phase.OPEN, None),
        ([delta("null", content="a")], Phase.OPEN, None),
        ([delta("null", content="a"), DONE], Phase.ENDED, None),
        ([delta(content="a"), delta("stop")], Phase.FINISHING, "stop"),
        ([delta("stop", content="a")], Phase.FINISHING, "stop"),
        ([delta("stop")], Phase.FINISHING, "stop"),
        ([delta("stop"), delta("length")], Phase.FINISHING, "stop"),
        ([delta("stop"), delta(), delta(role="assistant", content="")], Phase.FINISHING, "stop"),
        ([delta("stop"), delta(content="a")], Phase.OPEN, None),
        ([delta("stop"), delta(refusal="a")], Phase.OPEN, None),
        ([delta("stop"), delta("length", content="a")], Phase.FINISHING, "length"),
        ([delta("stop"), delta(tool_calls=[call(0, id="a")])], Phase.FINISHING, "stop"),
        ([delta("stop"), delta(function_call={"name": "f"})], Phase.OPEN, None),
        # Every choice that appeared must finish, the first gives the reason.
        ([delta("stop", content="a"), delta(index=1)], Phase.OPEN, "stop"),
        ([delta("stop"), delta(index=1, content="a")], Phase.OPEN, "stop"),
        ([delta("stop"), delta("length", index=1)], Phase.FINISHING, "stop"),
        ([delta("length", index=1), delta("stop")], Phase.FINISHING, "stop"),
        ([delta("a", index=1), delta("b"), delta(index=1, content="x")], Phase.OPEN, "b"),
        ([delta(index=1, content="a"), DONE], Phase.ENDED, None),
        ([delta("stop"), delta(index=1), DONE], Phase.ENDED, "stop"),
    ],
)
def test_a_reply_is_as_far_as_its_finish_reasons_say(
    stream: list[bytes], phase: Phase, finish: str | None
) -> None:
    reply = decoder()
    for data in stream:
        reply.feed(data)
    assert (reply.phase, reply.answer.raw_finish_reason) == (phase, finish)
    reply.close()
    assert reply.phase is (Phase.OPEN if phase is Phase.OPEN else Phase.ENDED)
    assert reply.fault is None


@pytest.mark.parametrize(
    ("stream", "keepalives"),
    [
        (b"", 0),
        (b": a\n\n: b\n\n", 2),
        (delta(role="assistant"), 1),
        (event({"usage": {"prompt_tokens": 1}}), 1),
        (delta(index=1), 1),
        (delta("null"), 1),
    ],
)
def test_a_reply_without_content_and_finish_reason_is_no_answer(
    stream: bytes, keepalives: int
) -> None:
    closed, marked = decoder(), decoder()
    closed.feed(stream)
    assert closed.close() == []
    assert closed.phase is Phase.FAILED
    assert closed.fault is not None
    assert closed.fault.error is ProtocolViolation
    text = f"the reply ended without content, after {keepalives} keep-alives"
    assert closed.fault.message == text
    assert marked.feed(stream + DONE) == []
    assert marked.fault is not None
    assert marked.fault.error is ProtocolViolation
    assert marked.fault.message == "[DONE] came before any content or finish reason"


def test_a_reply_without_content_needs_the_finish_reason_of_every_choice() -> None:
    reply = decoder()
    reply.feed(delta("stop") + delta(index=1))
    reply.close()
    assert reply.phase is Phase.FAILED  # nothing came: this is no answer that was cut


@pytest.mark.parametrize(
    ("tail", "text", "phase"),
    [
        (b"data: [DONE]", "a", Phase.ENDED),
        (delta("stop", content="b").rstrip(), "ab", Phase.ENDED),
        (delta(content="b").rstrip(), "ab", Phase.OPEN),
        (b'data: {"choices":[{"delta":{"con', "a", Phase.OPEN),
        (b"data: 12", "a", Phase.OPEN),
        (b"data: [DON", "a", Phase.OPEN),
        (b'error: {"message": "x"', "a", Phase.OPEN),
        (b"<html>504</html>\n", "a", Phase.OPEN),
        (b'error: {"message": "x"}', "a", Phase.FAILED),
    ],
)
def test_a_tail_counts_only_if_its_data_is_whole(tail: bytes, text: str, phase: Phase) -> None:
    reply = decoder()
    chunks = reply.feed(delta(content="a") + tail)
    chunks += reply.close()
    assert "".join(chunk.text for chunk in chunks) == reply.answer.text("text") == text
    assert reply.phase is phase


def test_a_tail_is_quoted_when_nothing_else_came() -> None:
    reply = decoder()
    reply.feed(b"data: upstream failed")
    reply.close()
    assert reply.fault is not None
    assert reply.fault.message.endswith("after 0 keep-alives: 'upstream failed'")


# ---- errors -------------------------------------------------------------------------------------


def test_what_precedes_an_error_is_given_also_out_of_the_same_event() -> None:
    reply = decoder()
    value: JSON = {
        "choices": [{"delta": {"content": "b"}, "finish_reason": "error"}],
        "error": {"code": 502, "message": "Upstream disconnected"},
    }
    assert shown(reply.feed(delta(content="a") + event(value) + delta(content="c") + DONE)) == [
        "text:a",
        "text:b",
    ]
    assert reply.phase is Phase.FAILED
    assert reply.content_events == 2
    assert reply.fault is not None
    assert (reply.fault.error, reply.fault.message) == (ServerError, "Upstream disconnected")
    assert (reply.fault.code, reply.answer.raw_finish_reason) == ("502", "error")
    assert reply.close() == []
    assert reply.phase is Phase.FAILED


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (event({"error": "engine dead"}), "engine dead"),
        (event({"error": {"code": 500}}), '{"error": {"code": 500}}'),
        (event({"choices": [{"error": {"a": 1}}]}), '{"choices": [{"error": {"a": 1}}]}'),
        (event({"choices": [{"index": 0, "error": {"message": "m"}}]}), "m"),
        (event({"choices": [{"index": 1, "error": "m"}]}), "m"),
        (event({"x_groq": {"id": "r", "error": "m"}}), "m"),
        (b'event: error\ndata: {"message":"m","code":504}\n\n', "m"),
        (b'event: error\ndata: {"error":{"message":"m"}}\n\n', "m"),
        (b"event: error\ndata: gone\n\n", "gone"),
        (b"event: error\ndata: {}\n\n", "{}"),
        (b"event: error\ndata: null\n\n", "null"),
        (b'error: {"message":"gone"}\n\n', "gone"),
        (b'error: {"code":500}\n\n', '{"code":500}'),
    ],
)
def test_an_error_is_told_in_the_provider_s_words(
    stream: bytes, message: str, cut_every_way: Cut
) -> None:
    for reads in cut_every_way(stream):
        reply = decoder()
        assert [chunk for data in reads for chunk in reply.feed(data)] == []
        assert reply.fault is not None
        assert (reply.fault.error, reply.fault.message) == (ServerError, message)


@pytest.mark.parametrize("word", FINISH_ERRORS)
@pytest.mark.parametrize("index", [0, 1])
def test_some_finish_reasons_are_errors_of_the_provider(word: str, index: int) -> None:
    reply = decoder()
    reply.feed(delta(content="a") + delta("stop") + delta(word, index=index) + DONE)
    assert reply.fault is not None
    expected = Overloaded if word == "insufficient_system_resource" else ServerError
    assert (reply.phase, reply.fault.error) == (Phase.FAILED, expected)
    assert (reply.fault.code, repr(word) in reply.fault.message) == (word, True)


@pytest.mark.parametrize(
    ("choice", "code"),
    [
        ({"finish_reason": "error", "native_finish_reason": "MALFORMED"}, "error"),
        ({"finish_reason": "function_call_filter: MALFORMED"}, "function_call_filter"),
    ],
)
def test_what_else_is_said_about_an_end_that_is_an_error_is_told(
    choice: dict[str, JSON], code: str
) -> None:
    reply = decoder()
    reply.feed(event({"choices": [choice]}) + DONE)
    message = f"the provider ended the answer with the reason {code!r}: MALFORMED"
    assert reply.fault == Fault(error=ServerError, message=message, code=code)
    assert reply.answer.raw_finish_reason == choice["finish_reason"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *FINISH_REASONS.items(),
        ("repetition", "other"),  # vLLM's v1/engine
        ("load", "other"),  # Ollama, when it was asked for nothing
        ("Stop", "other"),
        # Gemini's compatible endpoint.
        ("content_filter: PROHIBITED_CONTENT", "content_filter"),
        ("other: x", "other"),
    ],
)
def test_finish_reasons_have_one_meaning(word: str, meant: str) -> None:
    reply = decoder()
    reply.feed(delta(word) + DONE)
    assert (reply.answer.raw_finish_reason, reply.answer.finish_reason) == (word, meant)
    assert reply.fault is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"data: {broken\n\n", "not JSON ("),
        (b"event: message\ndata: still here\n\n", "not JSON ("),
        (b"data: [1]\n\n", "JSON, but no object: '[1]'"),
        (b'data: "x"\n\n', "JSON, but no object: '\"x\"'"),
        (
            b"data: \xff\n\n",
            f"not UTF-8: invalid start byte at byte {len(delta(content='a')) + 6} ",
        ),
        (b"data: " + b"[" * 100_000 + b"\n\n", "not JSON ("),
    ],
)
def test_damage_is_a_violation_that_loses_nothing_before_it(data: bytes, text: str) -> None:
    reply = decoder()
    assert shown(reply.feed(delta(content="a") + data + delta(content="b") + DONE)) == ["text:a"]
    assert reply.fault is not None
    assert reply.fault.error is ProtocolViolation
    assert reply.fault.message.startswith(text)
    assert reply.feed(DONE) == reply.close() == []
    assert reply.phase is Phase.FAILED


@pytest.mark.parametrize(
    "data",
    [
        b": comment\n\n",
        b"data: : wrapped\n\n",
        b"data: {}\n\n",
        b"data: null\n\n",
        b"data:  \n\n",
        b'data: {"type":"ping"}\n\n',
        b'event: ping\ndata: {"type":"ping"}\n\n',
        b"event: heartbeat\ndata: still here\n\n",
        b"event: heartbeat\ndata: 17\n\n",
        b'data: {"choices":null}\n\n',
        b'data: {"choices":[1,null]}\n\n',
        b'data: {"choices":[{"index":0,"delta":null}]}\n\n',
    ],
)
def test_keep_alives_are_counted_and_change_nothing(data: bytes) -> None:
    reply = decoder()
    reply.feed(delta("stop", content="a"))
    assert reply.feed(data) == reply.feed(data) == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.FINISHING, 1, 2)


# ---- limits -------------------------------------------------------------------------------------


def test_an_answer_over_its_limit_is_a_violation_and_what_fitted_is_kept() -> None:
    reply = decoder(limits=Limits(max_answer_bytes=4))
    chunks = reply.feed(delta(content="ab") + delta(reasoning="cd", content="e") + DONE)
    assert shown(chunks) == ["text:ab", "reasoning:cd"]
    assert (reply.answer.text("text"), reply.answer.text("reasoning")) == ("ab", "cd")
    assert (reply.phase, reply.content_events) == (Phase.FAILED, 2)
    assert reply.fault is not None
    assert reply.fault.error is ProtocolViolation
    assert reply.fault.message == "the answer has over 4 bytes (limits.max_answer_bytes)"


def test_calls_before_the_one_over_the_limit_are_given() -> None:
    reply = decoder(limits=Limits(max_answer_bytes=512 + 4))
    calls = [call(i, function={"name": "f", "arguments": "12"}) for i in range(2)]
    assert shown(reply.feed(delta(tool_calls=calls))) == ["tool_call:12"]
    assert reply.phase is Phase.FAILED


def test_a_reply_with_one_choice_is_a_stream() -> None:
    reply = decoder()
    assert reply.form == "stream"  # before anything came, as far as can be told
    for data in (delta(role="assistant"), delta(content="a"), delta("stop"), event({}), DONE):
        reply.feed(data)
        assert reply.form == "stream"


@pytest.mark.parametrize(
    "second",
    [delta(index=1, content="b"), delta(index=1, role="assistant"), delta("stop", index=1)],
    ids=["content", "its role", "its end"],
)
def test_a_reply_in_which_a_second_choice_appears_holds_several_from_then_on(
    second: bytes,
) -> None:
    reply, forms = decoder(), list[str]()
    for data in (delta(content="a"), second, delta(content="c"), DONE):
        reply.feed(data)
        forms.append(reply.form)
    assert forms == ["stream", "choices", "choices", "choices"]


def test_the_only_choice_may_have_any_index() -> None:
    reply = decoder()
    reply.feed(delta(index=3, content="a") + delta("stop", index=3) + DONE)
    assert (reply.form, reply.phase) == ("stream", Phase.ENDED)


def test_choices_that_nobody_asked_for_cannot_fill_the_memory() -> None:
    reply = decoder(limits=Limits(max_answer_bytes=10_000))
    for index in range(1, 1000):
        reply.feed(delta(index=index, content="x"))
    assert reply.phase is Phase.FAILED
    assert reply.content_events <= 20


def test_an_event_over_its_limit_is_a_violation_also_before_it_ends() -> None:
    reply = decoder(limits=Limits(max_event_bytes=200))
    assert shown(reply.feed(delta(content="a") + b"data: " + b"x" * 195)) == ["text:a"]
    assert reply.fault is not None
    assert "over 200 bytes (limits.max_event_bytes)" in reply.fault.message


# ---- documents ----------------------------------------------------------------------------------


def document(**message: JSON) -> bytes:
    return json.dumps({"id": "a1", "choices": [{"index": 0, "message": message}]}).encode()


@pytest.mark.parametrize("content_type", ["application/json", SSE, ""])
def test_a_whole_reply_is_one_event_and_its_own_end(content_type: str, cut_every_way: Cut) -> None:
    calls: JSON = [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]
    body = document(content="a", reasoning_content="b", tool_calls=calls)
    for reads in cut_every_way(b" \n" + body):
        reply = decoder(content_type)
        assert [chunk for data in reads for chunk in reply.feed(data)] == []
        assert reply.phase is Phase.OPEN
        assert shown(reply.close()) == ["reasoning:b", "text:a", "tool_call:{}"]
        assert (reply.phase, reply.content_events) == (Phase.ENDED, 1)
        assert reply.answer.raw_finish_reason is None


def test_a_whole_reply_is_a_document_however_many_choices_it_has() -> None:
    for choices in (1, 2):
        reply = decoder("application/json")
        choice: JSON = {"message": {"content": "a"}, "finish_reason": "stop"}
        body = json.dumps({"choices": [choice] * choices}).encode()
        reply.feed(body[:1])
        assert reply.form == "document"
        reply.feed(body[1:])
        reply.close()
        assert (reply.form, reply.phase) == ("document", Phase.ENDED)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"status":"ok"}', 'without content, after 1 keep-alives: \'{"status":"ok"}\''),
        (b'{"choices":[]}', "without content, after 1 keep-alives: '{\"choices\":[]}'"),
        (document(content=""), "without content, after 1 keep-alives: '{"),
        (b'{"choices":[{"mess', "not JSON ("),
        (b"[]", "JSON, but no object: '[]'"),
        (b"[DONE]", "[DONE] came before"),
        (b"<html>blocked</html>", "but text/html: '<html>blocked</html>'"),
        (b'{"a":"\xff"}', "not UTF-8: invalid start byte at byte 6"),
    ],
)
def test_a_document_that_is_no_answer_is_quoted(body: bytes, text: str, cut_every_way: Cut) -> None:
    for reads in cut_every_way(body):
        reply = decoder("text/html")
        assert [chunk for data in reads for chunk in reply.feed(data)] == reply.close() == []
        assert reply.phase is Phase.FAILED
        assert reply.fault is not None
        assert reply.fault.error is ProtocolViolation
        assert text in reply.fault.message


# ---- usage --------------------------------------------------------------------------------------


def spent(completion: int | None, reasoning: int | None, total: int | None) -> dict[str, JSON]:
    return {
        "prompt_tokens": 10120,
        "completion_tokens": completion,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": total,
    }


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}, (11, 4, None, None)),
        ({"completion_tokens_details": {"reasoning_tokens": 5}}, (None, None, 5, None)),
        (
            {"prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 3},
            (None, None, None, 0),
        ),
        ({"prompt_tokens_details": None, "prompt_cache_hit_tokens": 8}, (None, None, None, 8)),
        ({"cached_tokens": 6}, (None, None, None, 6)),
        ({"prompt_tokens": None, "completion_tokens": "4"}, (None, None, None, None)),
        ({"prompt_tokens": -1, "completion_tokens": True}, (None, None, None, None)),
        ({"input_tokens": 11, "output_tokens": 4}, (11, 4, None, None)),  # mlx-vlm, pi#2326
        ({"prompt_tokens": 0, "input_tokens": 11}, (0, None, None, None)),
        (spent(1499, 2809, 10120 + 1499 + 2809), (10120, 4308, 2809, None)),  # sub2api#5771
        (spent(1994, 1269, 10120 + 1994), (10120, 1994, 1269, None)),  # openai-python#2641
        (spent(1994, 1269, None), (10120, 1994, 1269, None)),
        (spent(1994, None, 10120 + 1994), (10120, 1994, None, None)),
        (spent(None, 7, 10120 + 7), (10120, None, 7, None)),
        ([1], (None, None, None, None)),
        ("x", (None, None, None, None)),
    ],
)
@pytest.mark.parametrize("place", ["top", "choice", "x_groq"])
def test_token_counts_are_read_by_all_their_names_and_never_invented(
    usage: JSON, expected: tuple[int | None, ...], place: str
) -> None:
    places: dict[str, JSON] = {
        "top": {"usage": usage},
        "choice": {"choices": [{"usage": usage}]},
        "x_groq": {"x_groq": {"usage": usage}},
    }
    reply = decoder()
    reply.feed(event({"usage": None}) + event(places[place]) + event({"usage": None}))
    assert reply.answer.usage == Usage(
        input_tokens=expected[0],
        output_tokens=expected[1],
        reasoning_tokens=expected[2],
        cached_input_tokens=expected[3],
    )


# ---- anything -----------------------------------------------------------------------------------

NAMES = [
    *("choices", "delta", "message", "content", "index", "finish_reason", "tool_calls", "function"),
    *("arguments", "name", "id", "error", "reasoning", "usage", "prompt_tokens", "thinking"),
    *("text", "refusal", "function_call", "x_groq", "code", "object", "type", "signature"),
    *("reasoning_details", "thinking_blocks", "extra_content", "google", "thought", "summary"),
]


def array(items: list[str]) -> str:
    return f"[{','.join(items)}]"


def object_(items: dict[str, str]) -> str:
    return f"{{{','.join(f'{json.dumps(name)}:{value}' for name, value in items.items())}}}"


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.dictionaries(st.sampled_from(NAMES), values, max_size=4).map(object_)


# JSON texts, mostly of the names that the wire knows, in places where it does not have them.
anything = st.recursive(
    st.sampled_from(["null", "true", "0", "1", "-1", '""', '"a"', '"stop"', r'"\ud83c"']),
    lambda inner: st.lists(inner, max_size=2).map(array) | objects(inner),
    max_leaves=12,
)
choices = st.fixed_dictionaries(
    {
        "index": st.sampled_from(["0", "1"]) | anything,
        "delta": objects(anything),
        "finish_reason": st.sampled_from(["null", '""', '"stop"', '"error"']),
    }
).map(object_)
values = anything | st.lists(choices, max_size=2).map(array).map('{{"choices":{}}}'.format)
events = values.map("data: {}\n\n".format).map(str.encode) | st.sampled_from(
    [DONE, b": c\n\n", b"event: error\ndata: x\n\n", b"data: \xff\n\n", b"data: {"]
)


@settings(deadline=None)
@given(st.lists(events, max_size=6), st.lists(st.integers(1, 60), max_size=12))
def test_nothing_that_a_provider_sends_raises_and_no_cut_changes_what_it_means(
    stream: list[bytes], sizes: list[int]
) -> None:
    body = b"".join(stream)
    once, cut = decoder(), decoder()
    chunks = once.feed(body)
    chunks += once.close()
    pieces, at = list[Chunk](), 0
    for size in sizes:
        pieces += cut.feed(body[at : at + size])
        at += size
    pieces += cut.feed(body[at:])
    pieces += cut.close()
    assert pieces == chunks
    assert (cut.phase, cut.fault, cut.content_events, cut.keepalives) == (
        once.phase,
        once.fault,
        once.content_events,
        once.keepalives,
    )
    assert cut.opaque_parts() == once.opaque_parts()
    assert (once.fault is not None) == (once.phase is Phase.FAILED)
    assert once.answer.text("text") == "".join(chunk.text for chunk in chunks)
    assert once.phase is not Phase.FINISHING
    assert not chunks or once.content_events > 0
