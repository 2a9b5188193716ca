from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from polygateway.errors import AttemptError, Overloaded, ProtocolViolation, RateLimited, ServerError
from polygateway.messages import Chunk, ToolCallDelta
from polygateway.policies import Limits, Target
from polygateway.usage import Usage
from polygateway.wire.anthropic import FINISH_REASONS, Anthropic, AnthropicDecoder
from polygateway.wire.dialect import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from polygateway.messages import JSON, Completion
    from polygateway.stats import CallStats

    Cut = Callable[[bytes], Iterator[Sequence[bytes]]]

SSE = "text/event-stream"
TARGET = Target(dialect="anthropic", base_url="http://[::1]/", model="m")
SOURCE = {"dialect": "anthropic", "base_url": "http://[::1]", "model": "m"}


def decoder(content_type: str = SSE, limits: Limits | None = None) -> AnthropicDecoder:
    return Anthropic().decoder(
        attempt=2, target=TARGET, content_type=content_type, limits=limits or Limits()
    )


def event(type: str, **fields: JSON) -> bytes:
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields})}\n\n".encode()


def start(**fields: JSON) -> bytes:
    message: dict[str, JSON] = {"id": "msg_1", "model": "harbor-1", "content": [], **fields}
    return event("message_start", message=message)


def block(index: int | None, **fields: JSON) -> bytes:
    return event("content_block_start", index=index, content_block=fields)


def delta(index: int | None, type: str, **fields: JSON) -> bytes:
    return event("content_block_delta", index=index, delta={"type": type, **fields})


def text(index: int | None, piece: str) -> bytes:
    return delta(index, "text_delta", text=piece)


def thinking(index: int | None, piece: str) -> bytes:
    return delta(index, "thinking_delta", thinking=piece)


def input_json(index: int | None, piece: str) -> bytes:
    return delta(index, "input_json_delta", partial_json=piece)


def signature(index: int, value: JSON) -> bytes:
    return delta(index, "signature_delta", signature=value)


def call(index: int | None, id: str = "toolu_1", name: str = "tide_at", **fields: JSON) -> bytes:
    fields.setdefault("input", {})
    return block(index, type="tool_use", id=id, name=name, **fields)


def over(index: int) -> bytes:
    return event("content_block_stop", index=index)


def finish(reason: JSON = "end_turn", usage: JSON = None) -> bytes:
    return event("message_delta", delta={"stop_reason": reason}, usage=usage)


STOP = event("message_stop")
PING = event("ping")


def shown(chunks: list[Chunk]) -> list[str]:
    return [f"{chunk.kind}:{chunk.delta}" for chunk in chunks]


def completed(
    stats: CallStats, *stream: bytes, ended: bool = True, content_type: str = SSE
) -> Completion:
    reply = decoder(content_type)
    reply.feed(b"".join(stream))
    reply.close()
    assert reply.phase is (Phase.ENDED if ended else Phase.OPEN)
    return reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=ended
    )


def kept(stats: CallStats, *stream: bytes) -> JSON:
    """Give the blocks that the message of a whole answer keeps; ``None`` if it keeps none."""
    opaque = completed(stats, *stream, finish(), STOP).message.get("opaque")
    if opaque is None:
        return None
    assert isinstance(opaque, dict)
    content: JSON = opaque.pop("content")
    assert opaque == SOURCE
    return content


# ---- content ------------------------------------------------------------------------------------


def test_a_text_comes_as_it_is_cut_and_the_reply_ends_with_its_marker() -> None:
    reply = decoder()
    assert reply.feed(start() + block(0, type="text", text="") + PING) == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 0, 3)
    assert reply.feed(text(0, "The ") + text(0, "tide")) == [
        Chunk("text", "The ", 2),
        Chunk("text", "tide", 2),
    ]
    assert reply.feed(over(0)) == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 2, 4)
    assert reply.feed(finish(usage={"output_tokens": 4})) == []
    assert reply.phase is Phase.FINISHING
    assert reply.feed(STOP + text(0, "IGNORED")) == []
    assert (reply.phase, reply.fault, reply.answer.text("text")) == (Phase.ENDED, None, "The tide")
    assert (reply.answer.id, reply.answer.model) == ("msg_1", "harbor-1")
    assert reply.answer.usage == Usage(output_tokens=4)


CALL = ToolCallDelta(0, "toolu_1", "tide_at")

CONTENT: list[tuple[list[bytes], list[str]]] = [
    ([text(0, "a")], ["text:a"]),
    ([block(0, type="text", text="a"), text(0, "b")], ["text:a", "text:b"]),
    ([block(0, type="thinking", thinking="a"), thinking(0, "b")], ["reasoning:a", "reasoning:b"]),
    ([thinking(0, "a"), text(1, "b")], ["reasoning:a", "text:b"]),
    ([block(0, type="text"), text(None, "a")], ["text:a"]),
    ([call(0)], ["tool_call:"]),
    ([call(0), text(0, "a"), input_json(0, "{}")], ["tool_call:", "text:a", "tool_call:{}"]),
    ([input_json(0, "{}")], ["tool_call:{}"]),
    ([start(content=[{"type": "text", "text": "a"}])], ["text:a"]),
    ([delta(0, "text_delta", text=None)], []),
    ([delta(0, "text_delta", text=["a"])], []),
    ([text(0, ""), thinking(0, ""), input_json(0, "")], []),
    ([signature(0, "c2ln"), signature(0, None)], []),
    ([delta(0, "citations_delta", citation={"cited_text": "a"})], []),
    ([delta(0, "glow_delta", glow="a"), delta(0, "", text="a")], []),
    ([block(0, type="redacted_thinking", data="ZGF0YQ==")], []),
    ([block(0, type="server_tool_use", id="s", name="web_search"), input_json(0, "{}")], []),
    ([block(0, type="web_search_tool_result", content=[{"title": "a"}])], []),
    ([block(0, type="mystery", text="a", mystery="a"), event("sparkle", text="a")], []),
    ([event("content_block_start", index=0), event("content_block_delta", delta=[1])], []),
    ([event("message_start"), event("message_delta"), PING], []),
]


@pytest.mark.parametrize(("stream", "chunks"), CONTENT)
def test_content_is_text_thinking_and_the_application_s_calls(
    stream: list[bytes], chunks: list[str]
) -> None:
    reply = decoder()
    assert shown(reply.feed(b"".join(stream))) == chunks
    assert reply.content_events == len(chunks)
    assert reply.keepalives == len(stream) - len(chunks)
    assert reply.fault is None


def test_a_call_begins_with_its_name_and_its_input_comes_in_pieces(stats: CallStats) -> None:
    stream = [call(0), input_json(0, ""), input_json(0, '{"port":'), input_json(0, ' "Brest"}')]
    assert decoder().feed(b"".join(stream)) == [
        Chunk("tool_call", "", 2, CALL),
        Chunk("tool_call", '{"port":', 2, CALL),
        Chunk("tool_call", ' "Brest"}', 2, CALL),
    ]
    (made,) = completed(stats, *stream, over(0), finish("tool_use"), STOP).tool_calls
    assert (made.id, made.name, made.arguments, made.complete) == (
        *("toolu_1", "tide_at", '{"port": "Brest"}'),
        True,
    )


INPUT: JSON = {"port": "Brest"}
WRITTEN = '{"port": "Brest"}'


@pytest.mark.parametrize("given", [INPUT, WRITTEN])
@pytest.mark.parametrize(
    "stream",
    [
        [over(0), finish("tool_use"), STOP],
        [finish("tool_use"), STOP],
        [STOP],
        [call(1, "toolu_2", "now"), STOP],
        [block(1, type="text", text="."), finish("tool_use"), STOP],
        [input_json(0, ""), over(0), STOP],
        [over(0), input_json(0, WRITTEN), STOP],
    ],
)
def test_an_input_that_comes_whole_with_its_call_is_taken_once(
    given: JSON, stream: list[bytes], stats: CallStats
) -> None:
    whole = completed(stats, call(0, input=given), *stream)
    made = whole.tool_calls[0]
    assert (made.name, made.arguments, made.complete) == ("tide_at", WRITTEN, True)
    assert whole.finish_reason in {"tool_calls", None}


def test_pieces_of_an_input_are_believed_more_than_what_came_with_the_call(
    stats: CallStats,
) -> None:
    stream = [call(0, input={"port": ""}), input_json(0, WRITTEN), over(0), finish(), STOP]
    assert completed(stats, *stream).tool_calls[0].arguments == WRITTEN


def test_calls_are_told_apart_by_their_index_whatever_their_order(stats: CallStats) -> None:
    stream = [
        *(call(1, "a", "f"), call(2, "b", "g")),
        *(input_json(1, '{"x":'), input_json(2, '{"y":'), input_json(1, "1}"), input_json(2, "2}")),
    ]
    calls = completed(stats, *stream, finish("tool_use"), STOP).tool_calls
    assert [(made.id, made.arguments) for made in calls] == [("a", '{"x":1}'), ("b", '{"y":2}')]


def test_calls_without_an_index_or_with_the_same_one_follow_each_other(stats: CallStats) -> None:
    for index in (None, 0):
        stream = [
            *(call(index, "a", "f"), input_json(index, '{"x":1}')),
            *(call(index, "b", "g"), input_json(index, '{"y":2}')),
        ]
        calls = completed(stats, *stream, finish("tool_use"), STOP).tool_calls
        assert [(made.id, made.arguments) for made in calls] == [
            ("a", '{"x":1}'),
            ("b", '{"y":2}'),
        ]


def test_a_call_that_the_limit_cut_is_not_callable(stats: CallStats) -> None:
    whole = completed(stats, call(0), input_json(0, '{"port": "Br'), finish("max_tokens"), STOP)
    (made,) = whole.tool_calls
    assert (made.arguments, made.complete, whole.finish_reason) == ('{"port": "Br', False, "length")


# ---- the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "phase", "reason"),
    [
        ([start(), text(0, "a")], Phase.OPEN, None),
        ([text(0, "a"), over(0)], Phase.OPEN, None),
        ([text(0, "a"), finish(None)], Phase.OPEN, None),
        ([text(0, "a"), finish("")], Phase.OPEN, None),
        ([text(0, "a"), finish(7)], Phase.OPEN, None),
        ([text(0, "a"), finish()], Phase.ENDED, "end_turn"),
        ([finish()], Phase.ENDED, "end_turn"),
        ([text(0, "a"), STOP], Phase.ENDED, None),
        ([text(0, "a"), finish(), PING, finish("max_tokens")], Phase.ENDED, "end_turn"),
        ([finish(), text(0, "a")], Phase.OPEN, None),
        ([finish(), signature(0, "c2ln")], Phase.ENDED, "end_turn"),
        ([text(0, "a"), STOP, b"data: [DONE]\n\n"], Phase.ENDED, None),
        ([text(0, "a"), b"data: [DONE]\n\n"], Phase.OPEN, None),
        ([start(stop_reason="end_turn"), text(0, "a")], Phase.OPEN, None),
    ],
)
def test_a_reply_is_whole_with_its_stop_reason_or_its_marker(
    stream: list[bytes], phase: Phase, reason: str | None
) -> None:
    reply = decoder()
    reply.feed(b"".join(stream))
    reply.close()
    assert (reply.phase, reply.answer.raw_finish_reason) == (phase, reason)
    assert reply.fault is None


@pytest.mark.parametrize("stream", [b"", start(), PING + PING, block(0, type="text", text="")])
def test_a_reply_without_content_and_stop_reason_is_no_answer(stream: bytes) -> None:
    closed, marked = decoder(), decoder()
    closed.feed(stream)
    closed.close()
    marked.feed(stream + STOP)
    for reply in (closed, marked):
        assert reply.phase is Phase.FAILED
        assert reply.fault is not None
        assert reply.fault.error is ProtocolViolation


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "other"),
        ("compaction", "other"),
        ("a word of next year", "other"),
    ],
)
def test_stop_reasons_have_one_meaning(word: str, meant: str) -> None:
    reply = decoder()
    reply.feed(finish(word) + STOP)
    assert (reply.answer.raw_finish_reason, reply.answer.finish_reason) == (word, meant)
    assert FINISH_REASONS.get(word, "other") == meant
    assert reply.phase is Phase.ENDED


MESSAGE: dict[str, JSON] = {
    "type": "message",
    "id": "msg_1",
    "model": "harbor-1",
    "content": [
        {"type": "thinking", "thinking": "Moon full.", "signature": "c2ln"},
        {"type": "text", "text": "Ebb."},
        {"type": "tool_use", "id": "toolu_1", "name": "tide_at", "input": INPUT},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 11, "output_tokens": 4},
}


@pytest.mark.parametrize("as_event", [False, True])
def test_a_whole_message_may_take_the_place_of_a_stream(
    as_event: bool, stats: CallStats, cut_every_way: Cut
) -> None:
    body = json.dumps(MESSAGE).encode()
    if as_event:
        body = b"data: " + body + b"\n\n"
    for reads in cut_every_way(body):
        whole = completed(stats, *reads, content_type=SSE if as_event else "application/json")
        assert (whole.reasoning, whole.text, whole.id) == ("Moon full.", "Ebb.", "msg_1")
        assert [made.arguments for made in whole.tool_calls] == [WRITTEN]
        assert (whole.finish_reason, whole.usage.input_tokens) == ("tool_calls", 11)
        assert whole.message["opaque"] == {**SOURCE, "content": MESSAGE["content"]}


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "error", "code"),
    [
        (
            event("error", error={"type": "overloaded_error", "message": "m"}),
            Overloaded,
            "overloaded_error",
        ),
        (
            b'event: error\ndata: {"error": {"type": "overloaded_error", "message": "m"}}\n\n',
            Overloaded,
            "overloaded_error",
        ),
        (
            b'data: {"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}\n\n',
            RateLimited,
            "rate_limit_error",
        ),
        (event("error", error={"type": "api_error", "message": "m"}), ServerError, "api_error"),
        (b'data: {"error": {"type": "api_error", "message": "m"}}\n\n', ServerError, "api_error"),
        (event("error", message="m"), ServerError, None),
    ],
)
def test_an_error_may_come_at_any_time_under_the_status_200(
    stream: bytes, error: type[AttemptError], code: str | None
) -> None:
    for before in ([], [start()], [start(), text(0, "a")], [text(0, "a"), finish()]):
        reply = decoder()
        reply.feed(b"".join(before) + stream + STOP)
        assert reply.phase is Phase.FAILED
        assert reply.fault is not None
        assert (reply.fault.error, reply.fault.message) == (error, "m")
        if code is not None:
            assert reply.fault.code == code


def test_an_answer_has_a_limit_and_what_it_keeps_counts_too() -> None:
    large = "x" * 1000
    streams = [
        [text(0, large), text(0, large)],
        [signature(0, large), signature(0, large)],
        [block(0, type="redacted_thinking", data=large), block(1, type="fallback", to=large)],
        [block(0, type="server_tool_use"), input_json(0, large), input_json(0, large)],
        [delta(0, "citations_delta", citation={"cited_text": large})] * 2,
        [call(0, input={"x": large}), input_json(0, large), input_json(0, large)],
        [block(index, type="text", text="") for index in range(5)],
        [call(index, input={}) for index in range(5)],
    ]
    for stream in streams:
        reply = decoder(limits=Limits(max_answer_bytes=1800))
        reply.feed(stream[0])
        assert not reply.phase.is_final
        reply.feed(b"".join(stream[1:]))
        assert reply.fault is not None
        assert reply.fault.message == "the answer has over 1800 bytes (limits.max_answer_bytes)"


def test_one_block_of_text_may_have_all_of_the_limit() -> None:
    reply = decoder(limits=Limits(max_answer_bytes=1800))
    reply.feed(start() + block(0, type="text", text="") + text(0, "x" * 1800) + STOP)
    assert reply.phase is Phase.ENDED


# ---- usage --------------------------------------------------------------------------------------

READ = "cache_read_input_tokens"
MADE = "cache_creation_input_tokens"


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ({"input_tokens": 11, "output_tokens": 1}, {"output_tokens": 4}, (11, 4, None, None)),
        ({"input_tokens": 11, READ: 5, MADE: 2}, {"output_tokens": 4}, (18, 4, None, 5)),
        ({"input_tokens": 11, READ: 5, MADE: 2}, {"input_tokens": 3}, (10, None, None, 5)),
        ({"input_tokens": 11, READ: 5}, {READ: 6, MADE: 1}, (18, None, None, 6)),
        ({"input_tokens": 11, READ: None, MADE: None}, None, (11, None, None, None)),
        ({"input_tokens": 11}, {"input_tokens": None, "output_tokens": None}, (11,)),
        ({READ: 5, MADE: 2}, {"output_tokens": 4}, (None, 4, None, 5)),
        (None, {"input_tokens": 0, READ: 0, "output_tokens": 0}, (0, 0, None, 0)),
        ({}, {}, ()),
        ("x", [1], ()),
        ({"input_tokens": -1, "output_tokens": "4", READ: True, MADE: 1.5}, None, ()),
        (
            {"output_tokens_details": {"thinking_tokens": 1}},
            {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 3}},
            (None, 9, 3, None),
        ),
        ({"output_tokens_details": {"thinking_tokens": 1}}, {"output_tokens": 9}, (None, 9, 1)),
    ],
)
def test_the_last_figure_of_each_kind_counts_and_the_input_includes_the_cache(
    first: JSON, last: JSON, expected: tuple[int | None, ...]
) -> None:
    reply = decoder()
    reply.feed(start(usage=first) + text(0, "a") + finish(usage=last) + finish() + STOP)
    given, output, reasoning, cached = (*expected, None, None, None, None)[:4]
    assert reply.answer.usage == Usage(
        input_tokens=given,
        output_tokens=output,
        reasoning_tokens=reasoning,
        cached_input_tokens=cached,
    )


def test_input_is_not_added_up_again_with_every_event() -> None:
    reply = decoder()
    usage: JSON = {"input_tokens": 11, READ: 5, MADE: 2, "output_tokens": 1}
    reply.feed(start(usage=usage) + finish(None, usage) + finish("end_turn", usage))
    assert reply.answer.usage == Usage(input_tokens=18, output_tokens=1, cached_input_tokens=5)


# ---- what goes back -----------------------------------------------------------------------------

DIRECT: JSON = {"type": "direct"}


def test_an_answer_of_text_and_calls_keeps_nothing_besides(stats: CallStats) -> None:
    stream = [
        block(0, type="text", text="", citations=None),
        *(text(0, "Looking."), over(0)),
        *(call(1, caller=DIRECT), input_json(1, WRITTEN), over(1)),
        *(block(2, type="thinking", thinking="", signature=""), over(2)),
        event("content_block_start", index=3),
    ]
    whole = completed(stats, *stream, finish("tool_use"), STOP)
    assert whole.message == {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [
            {
                "id": "toolu_1",
                "type": "function",
                "function": {"name": "tide_at", "arguments": WRITTEN},
            }
        ],
    }


def test_thinking_is_kept_with_its_signature_between_what_it_stood_between(
    stats: CallStats,
) -> None:
    stream = [
        block(0, type="thinking", thinking="Mo", signature=""),
        *(thinking(0, "on "), thinking(0, "full."), signature(0, "c2ln"), over(0)),
        *(block(1, type="redacted_thinking", data="ZGF0YQ=="), over(1)),
        *(block(2, type="text", text=""), text(2, "Ebb "), text(2, "🌊."), over(2)),
        *(block(3, type="thinking", thinking=""), signature(3, "c2lnMg=="), over(3)),
        *(call(4), input_json(4, '{"port": "Brest"}'), over(4)),
        *(call(5, "toolu_2", "now"), over(5)),
    ]
    assert kept(stats, *stream) == [
        {"type": "thinking", "thinking": "Moon full.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "text", "text": "Ebb 🌊."},
        {"type": "thinking", "thinking": "", "signature": "c2lnMg=="},
        {"type": "tool_use", "id": "toolu_1", "name": "tide_at", "input": {"port": "Brest"}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ]


def test_what_the_server_s_own_tools_did_is_kept_as_it_came(stats: CallStats) -> None:
    found: JSON = {"type": "web_search_result", "encrypted_content": "ZW5j", "page_age": None}
    cited: list[JSON] = [{"cited_text": "Ebb", "encrypted_index": str(i)} for i in range(3)]
    stream = [
        block(0, type="server_tool_use", id="srv_1", name="web_search", input={}),
        *(input_json(0, ""), input_json(0, '{"query": '), input_json(0, '"tides"}'), over(0)),
        block(1, type="web_search_tool_result", tool_use_id="srv_1", content=[found]),
        block(2, type="mcp_tool_use", id="mcp_1", name="x", input={"a": 1}, server_name="s"),
        block(3, type="text", text="", citations=cited[:1]),
        *(text(3, "Ebb."), delta(3, "citations_delta", citation=cited[1])),
        delta(3, "citations_delta", citation=cited[2]),
        delta(3, "citations_delta", citation=None),
        block(4, type="compaction", content=None),
        delta(4, "compaction_delta", content="So far.", encrypted_content="ZW5j"),
        call(5, caller={"type": "code_execution_20260120", "tool_id": "srv_2"}),
        block(6, type="mystery", citations=[1, {}], null=None),
    ]
    assert kept(stats, *stream) == [
        {
            "type": "server_tool_use",
            "id": "srv_1",
            "name": "web_search",
            "input": {"query": "tides"},
        },
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [found]},
        {
            "type": "mcp_tool_use",
            "id": "mcp_1",
            "name": "x",
            "input": {"a": 1},
            "server_name": "s",
        },
        {"type": "text", "text": "Ebb.", "citations": cited},
        {"type": "compaction", "content": "So far.", "encrypted_content": "ZW5j"},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "tide_at",
            "input": {},
            "caller": {"type": "code_execution_20260120", "tool_id": "srv_2"},
        },
        {"type": "mystery", "citations": [1, {}], "null": None},
    ]


def test_pieces_of_texts_that_were_mixed_become_blocks_of_their_own(stats: CallStats) -> None:
    stream = [
        *(block(0, type="thinking"), signature(0, "c2ln"), block(1, type="text", text="a")),
        *(block(2, type="text", text="b"), text(1, "c"), text(1, "d"), text(2, "e")),
    ]
    assert kept(stats, *stream) == [
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
        *({"type": "text", "text": piece} for piece in ("a", "b", "cd", "e")),
    ]


def test_the_last_signature_counts(stats: CallStats) -> None:
    stream = [thinking(0, "a"), signature(0, "x"), signature(0, "y"), text(1, "b")]
    assert kept(stats, *stream) == [
        {"type": "thinking", "thinking": "a", "signature": "y"},
        {"type": "text", "text": "b"},
    ]


def test_thinking_that_nobody_signed_is_kept_with_an_empty_signature(stats: CallStats) -> None:
    assert kept(stats, thinking(0, "a"), text(1, "b")) == [
        {"type": "thinking", "thinking": "a", "signature": ""},
        {"type": "text", "text": "b"},
    ]


@pytest.mark.parametrize(
    "stream",
    [
        [call(1), input_json(1, '{"port": "Br')],
        [call(1), input_json(1, "[1]")],
        [block(1, type="server_tool_use"), input_json(1, "{")],
        [block(1, type="redacted_thinking", data="\ud83c")],
        [call(1), input_json(1, '{"port": "\\ud83c"}')],
    ],
)
def test_blocks_that_no_request_could_have_are_not_kept(
    stream: list[bytes], stats: CallStats
) -> None:
    assert kept(stats, thinking(0, "a"), signature(0, "c2ln"), *stream) is None


def test_a_cut_answer_keeps_nothing_besides(stats: CallStats) -> None:
    stream = [thinking(0, "a"), signature(0, "c2ln"), text(1, "b")]
    assert "opaque" not in completed(stats, *stream, ended=False).message


def test_a_character_cut_in_two_stays_in_its_block(stats: CallStats) -> None:
    stream = [
        *(thinking(0, "a\ud83c"), thinking(0, "\udf0ab"), signature(0, "x")),
        *(text(1, "c\ud83c"), text(1, "\udf0ad")),
    ]
    assert kept(stats, *stream) == [
        {"type": "thinking", "thinking": "a\U0001f30ab", "signature": "x"},
        {"type": "text", "text": "c\U0001f30ad"},
    ]


# ---- any split, anything ------------------------------------------------------------------------

CITED: JSON = {"type": "char_location", "cited_text": "ébbe", "document_index": 0}

GOLDEN = b"".join(
    [
        start(usage={"input_tokens": 11, READ: 5, "output_tokens": 1}),
        block(0, type="thinking", thinking="", signature=""),
        *(PING, thinking(0, "Mönd "), signature(0, "c2ln"), over(0)),
        *(block(1, type="text", text=""), delta(1, "citations_delta", citation=CITED)),
        *(text(1, "Ebbe "), text(1, "🌊"), over(1)),
        *(call(2), input_json(2, '{"port":"Brest"}'), over(2)),
        *(call(3, "toolu_2", "now", input={"zone": "UTC"}), over(3)),
        *(finish("tool_use", {"output_tokens": 4}), STOP),
    ]
)


def test_no_cut_changes_what_a_stream_means(stats: CallStats, cut_every_way: Cut) -> None:
    for body in (GOLDEN, GOLDEN.replace(b"\n", b"\r\n"), GOLDEN.replace(b": ", b":")):
        whole = completed(stats, body)
        for reads in cut_every_way(body):
            assert completed(stats, *reads) == whole
        assert (whole.text, whole.reasoning, len(whole.tool_calls)) == ("Ebbe 🌊", "Mönd ", 2)
        assert whole.usage.input_tokens == 16
        assert "opaque" in whole.message


@pytest.mark.parametrize("name", [b"", b"event: ping\n", b"event: text_delta\n"])
def test_the_type_in_the_data_says_what_an_event_is(name: bytes, stats: CallStats) -> None:
    reply = decoder()
    body = re.sub(rb"event: \w+\n", name, GOLDEN)
    assert shown(reply.feed(body)) == [
        *("reasoning:Mönd ", "text:Ebbe ", "text:🌊"),
        *("tool_call:", 'tool_call:{"port":"Brest"}', "tool_call:", 'tool_call:{"zone": "UTC"}'),
    ]
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.ENDED, 6, 12)
    assert completed(stats, body) == completed(stats, GOLDEN)
    assert completed(stats, body).message["opaque"] == {
        **SOURCE,
        "content": [
            {"type": "thinking", "thinking": "Mönd ", "signature": "c2ln"},
            {"type": "text", "text": "Ebbe 🌊", "citations": [CITED]},
            {"type": "tool_use", "id": "toolu_1", "name": "tide_at", "input": {"port": "Brest"}},
            {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {"zone": "UTC"}},
        ],
    }


TYPES = [
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
    *("message_delta", "message_stop", "message", "ping", "error"),
]
INNER_TYPES = [
    *("text", "thinking", "tool_use", "server_tool_use", "redacted_thinking", "compaction"),
    *("text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta"),
    "compaction_delta",
]
NAMES = [
    *("type", "text", "thinking", "partial_json", "signature", "citation", "citations", "input"),
    *("id", "name", "content", "stop_reason", "usage", "input_tokens", "caller", "error"),
]

words = st.sampled_from(["null", "true", "0", "1", "-1", '""', '"a"', '"{}"', r'"\ud83c"', "1e999"])
types = st.sampled_from(INNER_TYPES).map(json.dumps)


def array(items: list[str]) -> str:
    return f"[{','.join(items)}]"


def object_(items: Mapping[str, str]) -> str:
    return f"{{{','.join(f'{json.dumps(name)}:{value}' for name, value in items.items())}}}"


def typed(type: str, others: Mapping[str, str]) -> str:
    return object_({"type": type, **others})


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    others = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)
    return st.builds(typed, types | words, others)


anything = st.recursive(
    words | types,
    lambda inner: st.lists(inner, max_size=2).map(array) | objects(inner),
    max_leaves=10,
)
events = st.fixed_dictionaries(
    {
        "type": st.sampled_from(TYPES).map(json.dumps) | words,
        "index": st.sampled_from("01") | words,
    },
    optional={
        "delta": objects(anything),
        "content_block": objects(anything),
        "message": objects(anything),
        "usage": objects(anything),
        "stop_reason": words,
        "content": st.lists(objects(anything), max_size=2).map(array) | anything,
    },
).map(lambda fields: f"data: {object_(fields)}\n\n".encode())
streams = st.lists(events | st.sampled_from([STOP, PING, b": c\n\n", b"data: {"]), max_size=8)


@settings(deadline=None)
@given(streams, st.lists(st.integers(1, 60), max_size=12))
def test_nothing_that_a_provider_sends_raises_and_no_cut_changes_what_it_means(
    stats: CallStats, stream: list[bytes], sizes: list[int]
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
    assert (once.fault is not None) == (once.phase is Phase.FAILED)
    assert once.answer.text("text") == "".join(chunk.text for chunk in chunks)
    whole = once.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=once.phase is Phase.ENDED
    )
    assert whole.message["role"] == "assistant"
