from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from polygateway.errors import (
    AttemptError,
    AuthenticationFailed,
    ContextLengthExceeded,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    QuotaExhausted,
    RateLimited,
    ServerError,
)
from polygateway.messages import Chunk, ToolCallDelta
from polygateway.policies import Limits, Target
from polygateway.usage import Usage
from polygateway.wire.dialect import Phase
from polygateway.wire.faults import refused
from polygateway.wire.ollama import Ollama, OllamaDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polygateway.messages import JSON, Completion
    from polygateway.stats import CallStats

    Cut = Callable[[bytes], Iterator[Sequence[bytes]]]

NDJSON = "application/x-ndjson"
TARGET = Target(dialect="ollama", base_url="http://[::1]:11434", model="tern-2")


def decoder(content_type: str = NDJSON, limits: Limits | None = None) -> OllamaDecoder:
    return Ollama().decoder(
        attempt=2, target=TARGET, content_type=content_type, limits=limits or Limits()
    )


def line(**fields: JSON) -> bytes:
    made = {"model": "tern-2", "created_at": "2027-01-01T00:00:00.1Z", "done": False, **fields}
    return json.dumps(made).encode() + b"\n"


def said(**message: JSON) -> bytes:
    return line(message={"role": "assistant", "content": "", **message})


def done(**fields: JSON) -> bytes:
    message: JSON = {"role": "assistant", "content": ""}
    return line(**{"message": message, "done": True, "done_reason": "stop", **fields})


def call(name: str, arguments: JSON, **more: JSON) -> dict[str, JSON]:
    return {"function": {"name": name, "arguments": arguments}, **more}


def whole(reply: OllamaDecoder, stats: CallStats) -> Completion:
    ended = reply.phase is Phase.ENDED
    return reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=ended
    )


def test_a_text_comes_as_it_is_cut_and_the_line_that_says_done_ends_it() -> None:
    reply = decoder()
    assert reply.feed(said()) == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 0, 1)
    assert reply.feed(said(content="The ") + b"\n\r\n" + said(content="tide")) == [
        Chunk("text", "The ", 2),
        Chunk("text", "tide", 2),
    ]
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 2, 1)
    assert reply.feed(done(prompt_eval_count=11, eval_count=4) + said(content="no") + b"{,") == []
    assert (reply.phase, reply.fault, reply.content_events) == (Phase.ENDED, None, 2)
    assert reply.feed(said(content="no")) == reply.close() == []
    answer = reply.answer
    assert (answer.text("text"), answer.finish_reason, answer.raw_finish_reason) == (
        "The tide",
        "stop",
        "stop",
    )
    assert (answer.id, answer.model) == (None, "tern-2")
    assert answer.usage == Usage(input_tokens=11, output_tokens=4)


def test_what_is_thought_said_and_called_in_one_line_is_one_event() -> None:
    reply = decoder()
    calls: list[JSON] = [call("tide_at", {"port": "Brést"}, id="call_9"), call("now", {})]
    assert reply.feed(said(thinking="Moon.", content="See:", tool_calls=calls)) == [
        Chunk("reasoning", "Moon.", 2),
        Chunk("text", "See:", 2),
        Chunk("tool_call", '{"port": "Brést"}', 2, ToolCallDelta(0, "call_9", "tide_at")),
        Chunk("tool_call", "{}", 2, ToolCallDelta(1, None, "now")),
    ]
    assert (reply.content_events, reply.keepalives) == (1, 0)


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_every_call_is_a_call_of_its_own_for_its_index_may_always_be_0(
    index: dict[str, JSON], stats: CallStats
) -> None:
    reply = decoder()
    for port in ("Brest", "Cork"):
        function: JSON = {**index, "name": "tide_at", "arguments": {"port": port}}
        reply.feed(said(tool_calls=[{"function": function}]))
    reply.feed(done())
    calls = whole(reply, stats).tool_calls
    assert [(each.id, each.arguments, each.complete) for each in calls] == [
        (None, '{"port": "Brest"}', True),
        (None, '{"port": "Cork"}', True),
    ]


@pytest.mark.parametrize(
    ("arguments", "text", "is_callable"),
    [
        ({"a": [1, {"b": None}]}, '{"a": [1, {"b": null}]}', True),
        ('{"a": 1}', '{"a": 1}', True),
        ('{"a": ', '{"a": ', False),
        (None, "", True),
        ("", "", True),
        ([1, 2], "[1, 2]", False),
        (7, "7", False),
    ],
)
def test_arguments_that_are_no_object_cannot_be_called(
    arguments: JSON, text: str, is_callable: bool, stats: CallStats
) -> None:
    reply = decoder()
    reply.feed(said(tool_calls=[call("f", arguments)]) + done())
    (made,) = whole(reply, stats).tool_calls
    assert (made.arguments, made.complete) == (text, is_callable)


@pytest.mark.parametrize(
    ("content", "calls", "words", "reason"),
    [
        ("a", [], {"done_reason": "stop"}, "stop"),
        ("a", [], {"done_reason": "length"}, "length"),
        ("a", [call("f", {})], {"done_reason": "stop"}, "tool_calls"),
        ("a", [], {"done_reason": "tide"}, "other"),
        ("a", [], {"done_reason": ""}, None),
        ("a", [], {"done_reason": None}, None),
        ("", [], {"done_reason": None}, None),
    ],
)
def test_an_answer_is_whole_whatever_reason_is_given_for_its_end(
    content: str, calls: JSON, words: dict[str, JSON], reason: str | None
) -> None:
    reply = decoder()
    message: JSON = {"content": content, "tool_calls": calls}
    reply.feed(done(message=message, **words))
    assert (reply.phase, reply.answer.text("text")) == (Phase.ENDED, content)
    assert reply.answer.finish_reason == reason
    assert reply.answer.raw_finish_reason == (words["done_reason"] or None)


@pytest.mark.parametrize("word", ["load", "unload"])
def test_a_server_that_found_nothing_to_answer_has_not_answered(word: str) -> None:
    reply = decoder()
    reply.feed(done(done_reason=word))
    assert reply.phase is Phase.FAILED
    assert reply.fault is not None
    assert (reply.fault.error, reply.fault.code) == (InvalidRequest, word)


@pytest.mark.parametrize("is_done", [False, None, "true", 1])
def test_a_reason_without_done_ends_nothing(is_done: JSON) -> None:
    reply = decoder()
    reply.feed(said(content="a") + done(done=is_done))
    reply.close()
    assert (reply.phase, reply.answer.finish_reason) == (Phase.OPEN, None)


@pytest.mark.parametrize(
    "tail", [b"", b'{"model":"tern-2","mess', b'{"message":{"content":"b"},"done":true']
)
def test_a_stream_that_ends_before_it_says_done_was_cut(tail: bytes) -> None:
    reply = decoder()
    reply.feed(said(content="a") + tail)
    assert reply.close() == []
    assert (reply.phase, reply.answer.text("text")) == (Phase.OPEN, "a")


def test_the_last_line_needs_no_line_feed() -> None:
    reply = decoder()
    reply.feed(said(content="a") + done()[:-1])
    assert reply.phase is Phase.ENDED


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({}, Usage()),
        ({"prompt_eval_count": 0}, Usage(input_tokens=0)),
        ({"prompt_eval_count": None, "eval_count": 3}, Usage(output_tokens=3)),
        ({"prompt_eval_count": -1, "eval_count": 2**63}, Usage()),
        ({"prompt_eval_count": "7", "eval_count": True}, Usage()),
    ],
)
def test_only_what_was_counted_is_reported(counts: dict[str, JSON], usage: Usage) -> None:
    reply = decoder()
    reply.feed(said(content="a") + done(**counts))
    assert reply.answer.usage == usage


def test_the_last_count_stands() -> None:
    reply = decoder()
    reply.feed(line(prompt_eval_count=1, eval_count=1))
    reply.feed(line(eval_count=2) + done(eval_count=3))
    assert reply.answer.usage == Usage(input_tokens=1, output_tokens=3)


ERRORS: list[tuple[JSON, type[AttemptError]]] = [
    ("an error was encountered while running the model", ServerError),
    ("llama runner process has terminated: exit status 2", ServerError),
    ("model requires more system memory (8.1 GiB) than is available (7.3 GiB)", ServerError),
    ("server busy, please try again.  maximum pending requests exceeded", Overloaded),
    ("the input length exceeds the context length", ContextLengthExceeded),
    ("prompt too long; exceeded max context length by 17 tokens", ContextLengthExceeded),
    ({"message": "of an imitation", "code": 503}, Overloaded),
]


@pytest.mark.parametrize("before", [b"", said(), said(content="a")])
@pytest.mark.parametrize(("error", "expected"), ERRORS)
def test_an_error_in_the_stream_is_what_its_words_say(
    error: JSON, expected: type[AttemptError], before: bytes
) -> None:
    reply = decoder()
    chunks = reply.feed(before + json.dumps({"error": error}).encode() + b"\n" + done())
    assert [chunk.text for chunk in chunks] == (["a"] if b'"a"' in before else [])
    assert reply.phase is Phase.FAILED
    assert reply.fault is not None
    assert reply.fault.error is expected
    assert reply.fault.message == (error if isinstance(error, str) else "of an imitation")


def test_an_error_beside_what_looks_like_an_end_is_an_error() -> None:
    reply = decoder()
    reply.feed(done(message={"content": "a"}, error="an error was encountered"))
    assert (reply.phase, reply.answer.text("text")) == (Phase.FAILED, "a")


@pytest.mark.parametrize("error", [None, "", {}, False])
def test_an_empty_error_is_none(error: JSON) -> None:
    reply = decoder()
    reply.feed(done(error=error))
    assert reply.phase is Phase.ENDED


REFUSALS: list[tuple[int, str, type[AttemptError]]] = [
    (400, '"tern-2" does not support tools', InvalidRequest),
    (400, "the input length exceeds the context length", ContextLengthExceeded),
    (400, "prompt too long; exceeded max context length by 3 tokens", ContextLengthExceeded),
    (401, "unauthorized", AuthenticationFailed),
    (402, "this model requires a subscription or usage credits", QuotaExhausted),
    (404, "model 'tern-2' not found", InvalidRequest),
    (429, "too many concurrent requests", RateLimited),
    (499, "request canceled", ServerError),
    (500, "model requires more system memory (8.1 GiB) than is available", ServerError),
    (502, "upstream error", ServerError),
    (503, "server busy, please try again.  maximum pending requests exceeded", Overloaded),
]


@pytest.mark.parametrize(("status", "words", "expected"), REFUSALS)
def test_a_refusal_is_what_its_status_and_words_say(
    status: int, words: str, expected: type[AttemptError]
) -> None:
    fault = refused(status, {}, json.dumps({"error": words}).encode(), now_s=0.0)
    assert (fault.error, fault.message) == (expected, words)


STREAM = (
    said(thinking="Moon ")
    + said(thinking="füll.")
    + said(content="See ")
    + b"\r\n"
    + said(content="🌊:")
    + said(tool_calls=[call("tide_at", {"port": '"}{\\'}, id="call_9")])
    + done(prompt_eval_count=11, eval_count=4)
)


def as_events(lines: bytes) -> bytes:
    return b"".join(b"data: %s\n\n" % each for each in lines.splitlines() if each)


def as_text(lines: bytes) -> bytes:
    """Write the lines over several lines each."""
    values = [json.loads(each) for each in lines.splitlines() if each]
    return "\n".join(json.dumps(value, indent=2, ensure_ascii=False) for value in values).encode()


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(STREAM, NDJSON), (as_events(STREAM), "text/event-stream"), (as_text(STREAM), "text/plain")],
)
def test_no_cut_changes_what_a_stream_says_however_it_is_written(
    body: bytes, content_type: str, cut_every_way: Cut, stats: CallStats
) -> None:
    for reads in cut_every_way(body):
        reply = decoder(content_type)
        chunks = [chunk for data in reads for chunk in reply.feed(data)]
        assert [f"{chunk.kind}:{chunk.delta}" for chunk in chunks] == [
            "reasoning:Moon ",
            "reasoning:füll.",
            "text:See ",
            "text:🌊:",
            'tool_call:{"port": "\\"}{\\\\"}',
        ]
        assert (reply.phase, reply.content_events) == (Phase.ENDED, 5)
        answer = whole(reply, stats)
        assert (answer.reasoning, answer.text, answer.finish_reason) == (
            "Moon füll.",
            "See 🌊:",
            "tool_calls",
        )
        assert [(made.id, made.name, made.complete) for made in answer.tool_calls] == [
            ("call_9", "tide_at", True)
        ]
        assert answer.usage == Usage(input_tokens=11, output_tokens=4, confidence="exact")


def test_the_mark_of_another_wire_ends_nothing() -> None:
    reply = decoder("text/event-stream")
    reply.feed(as_events(said(content="a")) + b"data: [DONE]\n\n")
    reply.close()
    assert reply.phase is Phase.OPEN


def test_a_reply_that_was_not_streamed_is_one_line() -> None:
    reply = decoder("application/json; charset=utf-8")
    body = done(message={"role": "assistant", "content": "Ebb.", "thinking": "Moon."})
    assert [chunk.kind for chunk in reply.feed(body)] == ["reasoning", "text"]
    assert (reply.phase, reply.form) == (Phase.ENDED, "stream")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><body>Sign in</body></html>", "neither a stream of events nor JSON"),
        (b"404 page not found", "neither a stream of events nor JSON"),
        (said() + b"Bad gateway\n", "not JSON"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON"),
        (b'{"a":"\xff"}\n', "not UTF-8: invalid start byte at byte 6 of the stream"),
        (b'{"a":' + b" " * 2000, "a JSON value has over 1000 bytes (limits.max_event_bytes)"),
        (b"", "the reply ended without content, after 0 keep-alives"),
        (said() * 2, "the reply ended without content, after 2 keep-alives"),
        (
            said(content="a" * 300) * 4,
            "the answer has over 1000 bytes (limits.max_answer_bytes)",
        ),
    ],
)
def test_what_is_not_this_wire_or_too_much_of_it_is_a_violation(body: bytes, message: str) -> None:
    most = 1000 if b" " * 2000 in body else 10**6
    reply = decoder(limits=Limits(max_event_bytes=most, max_answer_bytes=1000))
    reply.feed(body)
    reply.close()
    assert reply.fault is not None
    assert (reply.phase, reply.fault.error) == (Phase.FAILED, ProtocolViolation)
    assert reply.fault.message.startswith(message)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def objects_of(*names: str, values: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    return st.dictionaries(st.sampled_from(names), values)


FUNCTIONS = objects_of("name", "arguments", "index", values=ANY_JSON)
CALLS = st.lists(objects_of("id", "function", values=FUNCTIONS | ANY_JSON), max_size=3)
MESSAGES = objects_of("content", "thinking", "tool_calls", values=CALLS | ANY_JSON)
LINES = st.lists(
    objects_of(
        *("model", "message", "done", "done_reason", "error", "eval_count", "prompt_eval_count"),
        values=MESSAGES | ANY_JSON,
    )
    | ANY_JSON,
    max_size=4,
)


@given(LINES)
def test_whatever_json_comes_is_an_answer_or_a_fault(stats: CallStats, lines: list[JSON]) -> None:
    reply = decoder()
    chunks = reply.feed(b"".join(json.dumps(each).encode() + b"\n" for each in lines))
    chunks += reply.close()
    assert (reply.fault is not None) == (reply.phase is Phase.FAILED)
    answer = whole(reply, stats)
    assert "".join(chunk.text for chunk in chunks) == answer.text
    assert bool(chunks) == (reply.content_events > 0)


# ---- what only this wire understands ------------------------------------------------------------


def message_of(lines: bytes, stats: CallStats) -> dict[str, JSON]:
    reply = decoder()
    reply.feed(lines)
    return dict(whole(reply, stats).message)


def test_what_was_thought_before_calls_is_kept_in_the_message(stats: CallStats) -> None:
    message = message_of(STREAM, stats)
    opaque = message.pop("opaque")
    assert isinstance(opaque, dict)
    assert (opaque["dialect"], opaque["thinking"]) == ("ollama", "Moon füll.")
    assert message["content"] == "See 🌊:"


@pytest.mark.parametrize(
    "lines",
    [
        said(thinking="Moon.") + said(content="Ebb.") + done(),  # nobody wants it again
        said(tool_calls=[call("f", {})]) + done(),
        said(thinking="Moon.") + said(tool_calls=[call("f", {})]),  # cut
    ],
)
def test_nothing_is_kept_of_other_answers(lines: bytes, stats: CallStats) -> None:
    assert "opaque" not in message_of(lines, stats)
