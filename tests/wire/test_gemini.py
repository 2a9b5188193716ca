from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, strategies as st

from polygateway.errors import (
    AuthenticationFailed,
    ContentFiltered,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    ServerError,
)
from polygateway.messages import Chunk, ToolCallDelta
from polygateway.policies import Limits, Target
from polygateway.usage import Usage
from polygateway.wire.dialect import Phase
from polygateway.wire.gemini import FINISH_ERRORS, FINISH_REASONS, Gemini, GeminiDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from polygateway.messages import JSON, Completion
    from polygateway.stats import CallStats

    Cut = Callable[[bytes], Iterator[Sequence[bytes]]]

SSE = "text/event-stream"
TARGET = Target(dialect="gemini", base_url="http://[::1]", model="tern-3")

Part = dict[str, "JSON"]


def decoder(content_type: str = SSE, limits: Limits | None = None) -> GeminiDecoder:
    return Gemini().decoder(
        attempt=2, target=TARGET, content_type=content_type, limits=limits or Limits()
    )


def event(value: JSON) -> bytes:
    return f"data: {json.dumps(value)}\r\n\r\n".encode()


def chunk(
    parts: Sequence[Mapping[str, JSON]] | None = None,
    finish: str | None = None,
    index: int | None = None,
) -> dict[str, JSON]:
    """Give a chunk of a reply as the API writes it: what is empty is left out."""
    candidate: dict[str, JSON] = {}
    if parts is not None:
        candidate["content"] = {"parts": parts, "role": "model"}
    if finish is not None:
        candidate["finishReason"] = finish
    if index is not None:
        candidate["index"] = index
    return {"candidates": [candidate], "modelVersion": "tern-3-001", "responseId": "r1"}


def said(*parts: Mapping[str, JSON], finish: str | None = None, index: int | None = None) -> bytes:
    return event(chunk(list(parts), finish, index))


def text(piece: str, **beside: JSON) -> Part:
    return {"text": piece, **beside}


def thought(piece: str, **beside: JSON) -> Part:
    return {"text": piece, "thought": True, **beside}


def call(**fields: JSON) -> Part:
    return {"functionCall": fields}


def end(finish: str = "STOP", index: int | None = None) -> bytes:
    return event(chunk(None, finish, index))


def shown(chunks: list[Chunk]) -> list[str]:
    return [f"{each.kind}:{each.delta}" for each in chunks]


def completed(reply: GeminiDecoder, stats: CallStats) -> Completion:
    reply.close()
    assert reply.phase is Phase.ENDED
    return reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=True
    )


def test_a_text_comes_as_it_is_cut_and_its_end_is_told_by_the_finish_reason() -> None:
    reply = decoder()
    assert reply.feed(event(chunk([]))) == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 0, 1)
    assert reply.feed(said(text("The ")) + said(text("tide"))) == [
        Chunk("text", "The ", 2),
        Chunk("text", "tide", 2),
    ]
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 2, 1)
    assert reply.feed(said(text("."), finish="STOP")) == [Chunk("text", ".", 2)]
    assert (reply.phase, reply.content_events) == (Phase.FINISHING, 3)
    assert reply.feed(event({"usageMetadata": {"promptTokenCount": 1}})) == []
    assert (reply.phase, reply.keepalives) == (Phase.FINISHING, 2)
    assert reply.close() == []
    assert (reply.phase, reply.fault, reply.form) == (Phase.ENDED, None, "stream")
    assert (reply.answer.text("text"), reply.answer.usage) == ("The tide.", Usage(input_tokens=1))
    assert (reply.answer.id, reply.answer.model) == ("r1", "tern-3-001")
    assert (reply.answer.finish_reason, reply.answer.raw_finish_reason) == ("stop", "STOP")


def test_an_array_is_read_element_by_element_and_ends_with_its_bracket() -> None:
    reply = decoder("application/json; charset=UTF-8")
    first, second = json.dumps(chunk([text("The ")])), json.dumps(chunk([text("tide.")], "STOP"))
    assert shown(reply.feed(f"[{first}".encode())) == ["text:The "]
    assert reply.phase is Phase.OPEN
    assert shown(reply.feed(f"\r\n,\r\n{second}".encode())) == ["text:tide."]
    assert (reply.phase, reply.form) == (Phase.FINISHING, "stream")
    assert reply.feed(b"\n]\n{broken") == []
    assert (reply.phase, reply.fault, reply.content_events) == (Phase.ENDED, None, 2)


NOTHING = "] came before any content or finish reason"
ARRAYS: list[tuple[list[JSON], Phase, str | None]] = [
    ([chunk([text("a")])], Phase.ENDED, None),
    ([], Phase.FAILED, NOTHING),
    ([{"usageMetadata": {}}], Phase.FAILED, NOTHING),
    ([{"error": {"message": "m"}}, chunk([text("a")])], Phase.FAILED, "m"),
]


@pytest.mark.parametrize(("body", "phase", "fault"), ARRAYS)
def test_the_end_of_an_array_ends_what_there_is(
    body: list[JSON], phase: Phase, fault: str | None
) -> None:
    reply = decoder("")
    reply.feed(json.dumps(body).encode())
    assert reply.phase is phase
    assert (reply.fault.message if reply.fault else None) == fault


def test_a_single_object_is_a_reply_of_one_chunk() -> None:
    reply = decoder("application/json")
    assert shown(reply.feed(json.dumps(chunk([text("a")], "STOP"), indent=2).encode())) == [
        "text:a"
    ]
    assert (reply.phase, reply.form) == (Phase.FINISHING, "stream")
    cut = decoder("application/json")
    cut.feed(json.dumps(chunk([text("a")])).encode())
    cut.close()
    assert cut.phase is Phase.OPEN


# ---- parts --------------------------------------------------------------------------------------

PARTS: list[tuple[list[Part], list[str]]] = [
    ([text("a"), text("b")], ["text:a", "text:b"]),
    ([thought("a"), text("b"), thought("c")], ["reasoning:a", "text:b", "reasoning:c"]),
    ([text("a", thought=False), text("b", thought=None)], ["text:a", "text:b"]),
    ([text("a", thoughtSignature="c2ln")], ["text:a"]),
    ([text("a", functionCall=None, inlineData=None)], ["text:a"]),
    ([text("a", videoMetadata={"fps": 1})], ["text:a"]),
    ([call(name="f", args={"a": "é"})], ['tool_call:{"a": "é"}']),
    ([call(name="f")], ["tool_call:"]),
    ([call(name="f", args=None), call(name="g", args=[1])], ["tool_call:", "tool_call:"]),
    ([text(""), thought(""), {}, {"thoughtSignature": "c2ln"}], []),
    ([{"text": None}, {"text": 7}, {"thought": True}], []),
    ([{"inlineData": {"mimeType": "image/png", "data": "iVBO"}}], []),
    ([{"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}], []),
    ([call(), {"functionCall": 7}, {"functionCall": {"name": ""}}], []),
]


@pytest.mark.parametrize(("parts", "chunks"), PARTS)
def test_an_event_gives_a_chunk_for_each_part_with_content(
    parts: list[Part], chunks: list[str]
) -> None:
    reply = decoder()
    assert shown(reply.feed(said(*parts))) == chunks
    assert (reply.content_events, reply.keepalives) == ((1, 0) if chunks else (0, 1))
    assert reply.fault is None


KEEP_ALIVES: list[JSON] = [
    {},
    {"candidates": []},
    {"candidates": None},
    {"candidates": [None, 7]},
    {"candidates": [{}]},
    {"candidates": [{"content": None, "index": None, "finishReason": None}]},
    {"candidates": [{"content": {"role": "model"}}]},
    {"candidates": [{"content": {"parts": {"text": "a"}}}]},
    {"candidates": [{"content": {"parts": ["a"]}, "finishReason": 1}]},
    {"candidates": [{"finishReason": ""}]},
    {"candidates": [{"finishReason": "FINISH_REASON_UNSPECIFIED"}]},
    {"usageMetadata": [], "modelVersion": 7, "responseId": {}, "promptFeedback": "x"},
    {"promptFeedback": {"safetyRatings": []}},
    {"promptFeedback": {"blockReason": "BLOCKED_REASON_UNSPECIFIED"}},
    {"candidates": [{}], "promptFeedback": {"blockReason": "SAFETY"}},
]


@pytest.mark.parametrize("value", KEEP_ALIVES)
def test_what_brings_nothing_is_a_keep_alive_and_changes_nothing(value: JSON) -> None:
    reply = decoder()
    reply.feed(said(text("a"), finish="STOP"))
    assert reply.feed(event(value)) == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.FINISHING, 1, 1)
    assert (reply.answer.id, reply.answer.model) == ("r1", "tern-3-001")


def test_characters_that_are_cut_in_two_are_joined_and_counted_as_the_text_has_them(
    stats: CallStats,
) -> None:
    reply = decoder()
    chunks = reply.feed(
        said(text("a\ud83c"), text("\udf0ab"), text("c", thoughtSignature="c2ln"))
        + said(text("d\ud83c"), finish="STOP")
    )
    assert shown(chunks) == ["text:a", "text:🌊b", "text:c", "text:d"]
    opaque = cast("dict[str, JSON]", completed(reply, stats).message["opaque"])
    assert opaque["parts"] == [{"text": 3}, {"text": 1, "thoughtSignature": "c2ln"}, {"text": 1}]


# ---- calls --------------------------------------------------------------------------------------


def test_calls_are_told_apart_whether_they_have_ids_or_not(stats: CallStats) -> None:
    reply = decoder()
    assert reply.feed(
        said(
            call(name="f", args={"a": 1}),
            call(name="f", args={"a": 1}),
            call(id="x", name="g", args={}),
        )
    ) == [
        Chunk("tool_call", '{"a": 1}', 2, ToolCallDelta(0, None, "f")),
        Chunk("tool_call", '{"a": 1}', 2, ToolCallDelta(1, None, "f")),
        Chunk("tool_call", "{}", 2, ToolCallDelta(2, "x", "g")),
    ]
    assert reply.content_events == 1
    reply.feed(said(call(id="x", name="g"), finish="STOP"))
    completion = completed(reply, stats)
    assert [
        (each.id, each.name, each.arguments, each.complete) for each in completion.tool_calls
    ] == [
        (None, "f", '{"a": 1}', True),
        (None, "f", '{"a": 1}', True),
        ("x", "g", "{}", True),
        ("x", "g", "", True),
    ]
    assert (completion.finish_reason, completion.raw_finish_reason) == ("tool_calls", "STOP")


def piece(path: str, value: JSON = None, *, more: bool = False) -> dict[str, JSON]:
    """Give a piece of arguments as Vertex AI writes it."""
    kind = "nullValue" if value is None else "numberValue"
    if isinstance(value, (str, bool)):
        kind = "stringValue" if isinstance(value, str) else "boolValue"
    said: dict[str, JSON] = {"jsonPath": path, kind: "NULL_VALUE" if value is None else value}
    return {**said, "willContinue": True} if more else said


def pieces(*args: JSON, more: bool = True, **fields: JSON) -> Part:
    return call(**fields, partialArgs=args, **({"willContinue": True} if more else {}))


def test_arguments_in_pieces_are_written_as_they_come(stats: CallStats) -> None:
    reply = decoder()
    stream: list[tuple[Part, list[str]]] = [
        (call(name="light", id="x", willContinue=True), [""]),
        (pieces(piece("$.place", "Bost", more=True)), ['{"place":"Bost']),
        (pieces(piece("$.place", 'on, "M"'), piece("$.level", 50)), ['on, \\"M\\"","level":50']),
        (call(willContinue=True), []),
        (pieces(piece("$.on", value=True), piece("$.off")), [',"on":true,"off":null']),
        (pieces(piece("$.stops[0].é", 0.5)), [',"stops":[{"é":0.5']),
        (pieces(piece("$.stops[0].b", "")), [',"b":"']),
        (pieces(piece("$.stops[1]", "c")), ['"},"c']),
        (pieces(piece("$['a.b'][\"c d\"]", 1)), ['"],"a.b":{"c d":1']),
        (call(), ["}}"]),
        (call(), []),
    ]
    for part, deltas in stream:
        given = reply.feed(said(part))
        assert given == [
            Chunk("tool_call", delta, 2, ToolCallDelta(0, "x", "light")) for delta in deltas
        ]
    assert (reply.content_events, reply.keepalives) == (9, 2)
    reply.feed(end())
    (found,) = completed(reply, stats).tool_calls
    assert found.complete
    assert json.loads(found.arguments) == {
        "place": 'Boston, "M"',
        "level": 50,
        "on": True,
        "off": None,
        "stops": [{"é": 0.5, "b": ""}, "c"],
        "a.b": {"c d": 1},
    }


@pytest.mark.parametrize(
    ("parts", "calls"),
    [
        # Ended by an empty call, by the last piece, by the next call, or by the answer's end.
        ([call(name="f", willContinue=True), pieces(piece("$.a", 1)), call()], ['{"a":1}']),
        ([call(name="f", willContinue=True), pieces(piece("$.a", 1), more=False)], ['{"a":1}']),
        ([pieces(piece("$.a", "b"), name="f", more=False)], ['{"a":"b"}']),
        ([call(name="f"), pieces(piece("$.a", 1), more=False)], ['{"a":1}']),
        (
            [pieces(piece("$.a", 1), name="f", more=False), call(name="g", args={})],
            ['{"a":1}', "{}"],
        ),
        ([call(name="f", willContinue=True), call()], [""]),
        ([call(name="f", args={}, willContinue=True), call(), call(name="g")], ["", ""]),
        # The name may be repeated while more is to come; afterwards it is another call.
        (
            [
                pieces(piece("$.a", "b"), name="f"),
                pieces(piece("$.a", "c"), name="f"),
                call(),
                pieces(piece("$.a", "d"), name="f", more=False),
            ],
            ['{"a":"bc"}', '{"a":"d"}'],
        ),
        (
            [
                pieces({"jsonPath": "$.a", "willContinue": True}, piece("$.a", "b"), name="f"),
                call(),
            ],
            ['{"a":"b"}'],
        ),
        (
            [pieces(piece(r"$['it\'s \u00e9\\']['\x']", 1), name="f"), call()],
            [r'{"it' + "'" + r's é\\":{"\\x":1}}'],
        ),
    ],
)
def test_a_call_ends_where_nothing_more_of_it_must_come(
    parts: list[Part], calls: list[str], stats: CallStats
) -> None:
    for stream in ([said(*parts, finish="STOP")], [*map(said, parts), end()]):
        reply = decoder()
        chunks = [each for data in stream for each in reply.feed(data)]
        completion = completed(reply, stats)
        assert [each.arguments for each in completion.tool_calls] == calls
        assert all(each.complete for each in completion.tool_calls)
        assert "".join(each.delta for each in chunks) == "".join(calls)


@pytest.mark.parametrize(
    "parts",
    [
        [pieces(piece("$.a", "b", more=True), name="f")],
        [pieces(piece("$.a", 1), name="f")],
        [pieces(piece("$.a", 1), name="f"), call(name="g")],
    ],
)
def test_arguments_of_which_more_must_come_are_not_closed(
    parts: list[Part], stats: CallStats
) -> None:
    reply = decoder()
    reply.feed(said(*parts, finish="MAX_TOKENS"))
    completion = completed(reply, stats)
    assert completion.tool_calls[0].complete is False
    assert completion.finish_reason == "length"


def test_the_end_of_arguments_is_content_that_makes_a_finish_reason_void() -> None:
    reply = decoder()
    reply.feed(said(pieces(piece("$.a", 1), name="f"), finish="STOP"))
    assert reply.phase is Phase.FINISHING
    assert shown(reply.feed(said(call()))) == ["tool_call:}"]
    assert (reply.phase, reply.answer.raw_finish_reason) == (Phase.OPEN, None)
    reply.feed(end())
    assert (reply.phase, reply.answer.finish_reason) == (Phase.FINISHING, "tool_calls")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([call(args={"a": 1})], "arguments without the name of a function"),
        ([pieces(piece("$.a", 1))], "arguments without the name of a function"),
        ([call(name="f", args={"a": 1}), call(partialArgs=[{}])], "arguments without the name"),
        (
            [call(name="f", willContinue=True), call(args={"a": 1})],
            "a call with arguments in pieces and as a whole",
        ),
        *[
            (
                [pieces(*map(piece, paths, range(9)), name="f")],
                f"a piece of arguments for {last}, which nothing can follow there",
            )
            for paths, last in [
                (["$.a", "$.a"], "'a'"),
                (["$.a.b", "$.c", "$.a.d"], "'a'"),
                (["$.a", "$.a.b"], "'a'"),
                (["$.a.b", "$.a"], "'a'"),
                (["$.a.b", "$.a[0]"], "0"),
                (["$.a[0]", "$.a.b"], "'b'"),
                (["$.a[1]"], "1"),
                (["$.a[0]", "$.a[0]"], "0"),
                (["$.a[0]", "$.a[2]"], "2"),
            ]
        ],
        *[
            ([pieces(piece(path, 1), name="f")], "a piece of arguments with the path ")
            for path in ("", "$", "a", "a.b", "$a", "$.", "$..a", "$.a[", "$.a[x]", "$.a[-1]",
                "$.a[9999999999]", "$.a['b]", "$.a[*]", "$.a b[", "$" + ".a" * 101)
        ],
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_placed_are_a_violation(parts: list[Part], message: str) -> None:
    reply = decoder()
    reply.feed(said(text("a")))
    reply.feed(said(*parts))
    assert reply.fault is not None
    assert reply.fault.error is ProtocolViolation
    assert reply.fault.message.startswith(message)
    assert reply.answer.text("text") == "a"


LEAVES = (
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=5)
) | st.floats(allow_nan=False, allow_infinity=False)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def taken_apart(value: JSON, path: str) -> Iterator[dict[str, JSON]]:
    """Give the pieces in which *value* can come, each character of a string by itself."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from taken_apart(inner, f"{path}[{json.dumps(name)}]")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from taken_apart(inner, f"{path}[{index}]")
    elif isinstance(value, str):
        for character in (*value, ""):
            yield piece(path, character, more=bool(character))
    else:
        yield piece(path, value)


@given(st.dictionaries(st.text(max_size=3), TREES, max_size=3))
def test_any_arguments_in_pieces_are_what_they_were(
    stats: CallStats, args: dict[str, JSON]
) -> None:
    reply = decoder()
    reply.feed(said(call(name="f", willContinue=True)))
    for each in taken_apart(args, "$"):
        reply.feed(said(pieces(each)))
    reply.feed(said(call(), finish="STOP"))
    (found,) = completed(reply, stats).tool_calls
    assert json.loads(found.arguments or "{}") == args


# ---- the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "phase", "finish"),
    [
        ([said(text("a"))], Phase.OPEN, None),
        ([said(text("a")), end()], Phase.FINISHING, "STOP"),
        ([end()], Phase.FINISHING, "STOP"),
        ([end("FINISH_REASON_UNSPECIFIED"), said(text("a"))], Phase.OPEN, None),
        ([end(), end("MAX_TOKENS")], Phase.FINISHING, "STOP"),
        ([end(), said(), said(text("", thoughtSignature="c2ln"))], Phase.FINISHING, "STOP"),
        ([end(), said({"inlineData": {"data": "x"}})], Phase.FINISHING, "STOP"),
        # Early, or all the time: content makes it void.
        ([end(), said(text("a"))], Phase.OPEN, None),
        ([end(), said(thought("a"))], Phase.OPEN, None),
        ([end(), said(call(name="f"))], Phase.OPEN, None),
        ([end(), said(text("a"), finish="MAX_TOKENS")], Phase.FINISHING, "MAX_TOKENS"),
        ([said(text("a"), finish="STOP")] * 3, Phase.FINISHING, "STOP"),
        # Every candidate that appeared must finish, the first gives the reason.
        ([said(text("a")), end(), said(index=1)], Phase.OPEN, "STOP"),
        ([end(), end("MAX_TOKENS", index=1)], Phase.FINISHING, "STOP"),
        ([end("MAX_TOKENS", index=1), end()], Phase.FINISHING, "STOP"),
        ([end("MAX_TOKENS", index=1)], Phase.FINISHING, None),
        ([end(), end(index=1), said(text("a"), index=1)], Phase.OPEN, "STOP"),
        ([end(), end(index=1), said(call(name="f"), index=1)], Phase.OPEN, "STOP"),
        ([end(), end(index=1), said(text(""), {}, index=1)], Phase.FINISHING, "STOP"),
        ([said(text("a"), index=1), end()], Phase.OPEN, "STOP"),
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


def test_the_answer_is_the_first_candidate_s_and_the_others_are_counted() -> None:
    reply = decoder()
    assert reply.form == "stream"
    assert reply.feed(said(text("b"), call(name="f", args={"a": 1}), index=1)) == []
    assert shown(reply.feed(said(text("a"), index=0))) == ["text:a"]
    assert (reply.form, reply.content_events) == ("choices", 2)
    size = reply.answer.size
    reply.feed(said(text("bcd"), thought("é"), index=1))
    assert (reply.content_events, reply.answer.size) == (3, size + 4)
    reply.feed(said(index=2))
    assert reply.answer.size > size + 4 + 100
    assert (reply.answer.text("text"), reply.answer.calls(ended=True)) == ("a", ())


@pytest.mark.parametrize(
    ("word", "meant"),
    [*FINISH_REASONS.items(), ("OTHER", "other"), ("LANGUAGE", "other"), ("NO_IMAGE", "other")],
)
def test_finish_reasons_have_one_meaning(word: str, meant: str) -> None:
    reply = decoder()
    reply.feed(end(word))
    assert (reply.answer.raw_finish_reason, reply.answer.finish_reason) == (word, meant)
    assert (reply.phase, reply.fault) == (Phase.FINISHING, None)


@pytest.mark.parametrize("word", FINISH_ERRORS)
@pytest.mark.parametrize("index", [None, 1])
def test_some_finish_reasons_are_errors_in_the_provider_s_words(
    word: str, index: int | None
) -> None:
    reply = decoder()
    ending: dict[str, JSON] = {"finishReason": word, "finishMessage": "Malformed: print(x)"}
    candidates: JSON = [{**ending, "index": index}]
    usage: JSON = {"promptTokenCount": 3}
    reply.feed(said(text("a")) + event({"candidates": candidates, "usageMetadata": usage}) + end())
    errors = {
        "MISSING_THOUGHT_SIGNATURE": InvalidRequest,
        "PUP_LIMITED_DISABLED": AuthenticationFailed,
    }
    assert reply.fault is not None
    assert (reply.phase, reply.fault.error) == (Phase.FAILED, errors.get(word, ServerError))
    assert (reply.fault.code, reply.answer.usage.input_tokens) == (word, 3)
    assert reply.fault.message == (
        f"the provider ended the answer with the reason {word!r}: Malformed: print(x)"
    )


@pytest.mark.parametrize(
    ("feedback", "message"),
    [
        ({"blockReason": "SAFETY"}, "'SAFETY'"),
        ({"blockReason": "OTHER", "blockReasonMessage": "It is."}, "'OTHER': It is."),
        ({"blockReason": "x" * 999}, f"'{'x' * 199}…'"),
    ],
)
@pytest.mark.parametrize("before", [b"", said(text("a")), said(text("a"), finish="STOP")])
def test_a_prompt_that_is_blocked_is_an_error_also_behind_content(
    feedback: JSON, message: str, before: bytes
) -> None:
    reply = decoder()
    reply.feed(before)
    usage: JSON = {"promptTokenCount": 3}
    reply.feed(event({"promptFeedback": feedback, "usageMetadata": usage, "candidates": []}))
    assert reply.fault is not None
    assert reply.fault.error is ContentFiltered
    assert reply.fault.message == f"the provider blocked the prompt for the reason {message}"
    assert reply.answer.usage.input_tokens == 3


def test_an_error_in_the_stream_loses_nothing_before_it() -> None:
    reply = decoder()
    value = chunk([text("b")])
    value["error"] = {"code": 503, "message": "Try again later.", "status": "UNAVAILABLE"}
    assert shown(reply.feed(said(text("a")) + event(value) + said(text("c")))) == [
        "text:a",
        "text:b",
    ]
    assert reply.fault is not None
    assert (reply.fault.error, reply.fault.message) == (Overloaded, "Try again later.")


# ---- usage --------------------------------------------------------------------------------------


USAGES: list[tuple[list[dict[str, JSON]], Usage]] = [
    ([{}], Usage()),
    ([{"promptTokenCount": 3, "totalTokenCount": 3}], Usage(input_tokens=3)),
    (
        [
            {"promptTokenCount": 3, "candidatesTokenCount": 1, "thoughtsTokenCount": 5},
            {"promptTokenCount": 3, "candidatesTokenCount": 4, "cachedContentTokenCount": 2},
            {"promptTokenCount": None, "candidatesTokenCount": None},
        ],
        Usage(input_tokens=3, output_tokens=9, reasoning_tokens=5, cached_input_tokens=2),
    ),
    ([{"thoughtsTokenCount": 5}], Usage(output_tokens=5, reasoning_tokens=5)),
    ([{"candidatesTokenCount": 0}], Usage(output_tokens=0)),
    ([{"candidatesTokenCount": -1, "promptTokenCount": 1.5}], Usage()),
    (
        [{"candidatesTokenCount": 2**63 - 1, "thoughtsTokenCount": 1}],
        Usage(reasoning_tokens=1),
    ),
]


@pytest.mark.parametrize(("usages", "counted"), USAGES)
def test_the_last_figure_of_each_kind_stands(usages: list[dict[str, JSON]], counted: Usage) -> None:
    reply = decoder()
    for usage in usages:
        reply.feed(event({**chunk([]), "usageMetadata": usage}))
    assert reply.answer.usage == counted


# ---- what goes back -----------------------------------------------------------------------------


def opaque_of(stream: Sequence[bytes], stats: CallStats) -> JSON:
    reply = decoder()
    for data in (*stream, end()):
        reply.feed(data)
    opaque = completed(reply, stats).message.get("opaque")
    if opaque is None:
        return None
    known = cast("dict[str, JSON]", opaque)
    assert (known["dialect"], known["base_url"], known["model"]) == (
        "gemini",
        "http://[::1]",
        "tern-3",
    )
    return known["parts"]


SIGNED: Part = {"thoughtSignature": "c2ln"}
IMAGE: Part = {"inlineData": {"mimeType": "image/png", "data": "iVBO"}}


@pytest.mark.parametrize(
    ("stream", "parts"),
    [
        # Nothing that the message does not say by itself.
        ([said(text("a")), said(thought("b"), call(name="f"))], None),
        ([said(text("a", thoughtSignature="")), said(text("b", thoughtSignature=None))], None),
        ([said(text("a", thoughtSignature="é"))], None),
        # Texts: those without a signature as one, each of the others by itself.
        (
            [said(text("ab")), said(thought("x")), said(text("c")), said(text("", **SIGNED))],
            [{"text": 3}, {"text": 0, **SIGNED}],
        ),
        (
            [said(text("a", **SIGNED), text("b"), text("c", **SIGNED), text("d"), text("e"))],
            [{"text": 1, **SIGNED}, {"text": 1}, {"text": 1, **SIGNED}, {"text": 2}],
        ),
        ([said(text("a"), SIGNED)], [{"text": 1}, {"text": 0, **SIGNED}]),
        (
            [said(thought("x"), thought("y", **SIGNED), text("a"))],
            [{"text": "y", "thought": True, **SIGNED}, {"text": 1}],
        ),
        # Calls, also among texts; an id of the API's own is worth knowing as well.
        (
            [said(text("a"), {**call(name="f"), **SIGNED}, call(name="g"), text("b"))],
            [{"text": 1}, {"functionCall": 0, **SIGNED}, {"functionCall": 1}, {"text": 1}],
        ),
        ([said(call(name="f", id="x"))], [{"functionCall": 0}]),
        (
            [
                said({**call(name="f", willContinue=True)}),
                said(text("a")),
                said({**pieces(piece("$.a", 1)), **SIGNED}),
                said({**call(), "thoughtSignature": "b3RoZXI="}),
            ],
            [{"functionCall": 0, **SIGNED}, {"text": 1}],
        ),
        # Everything else as it came, but not what was only thought.
        ([said(IMAGE, text("a"))], [IMAGE, {"text": 1}]),
        ([said({**IMAGE, "text": ""}, {**IMAGE, "thought": True})], [{**IMAGE, "text": ""}]),
        (
            [said({**IMAGE, "thought": True, **SIGNED})],
            [{**IMAGE, "thought": True, **SIGNED}],
        ),
        (
            [said({"toolCall": {"id": "1\ud83c"}}, {"toolResponse": {"x": [1, None]}})],
            [{"toolCall": {"id": "1\ufffd"}}, {"toolResponse": {"x": [1, None]}}],
        ),
    ],
)
def test_a_message_keeps_the_parts_that_it_cannot_say(
    stream: list[bytes], parts: JSON, stats: CallStats
) -> None:
    assert opaque_of(stream, stats) == parts


def test_what_is_kept_counts_as_what_is_said_does() -> None:
    limits = Limits(max_answer_bytes=1200)
    for part in (
        text("", thoughtSignature="s" * 1201),
        {**call(name="f"), "thoughtSignature": "s" * 1201},
        {"inlineData": {"data": "d" * 1201}},
    ):
        reply = decoder(limits=limits)
        reply.feed(said(part))
        assert reply.fault is not None
        assert reply.fault.message == "the answer has over 1200 bytes (limits.max_answer_bytes)"


@pytest.mark.parametrize(
    "part",
    [
        text("", thoughtSignature="s"),
        {"inlineData": {"data": "d"}},
        call(name="f"),
        thought("", thoughtSignature="s"),
    ],
)
def test_parts_have_a_weight_however_small(part: Part) -> None:
    reply = decoder(limits=Limits(max_answer_bytes=100_000))
    reply.feed(said(*[part] * 1000))
    assert reply.fault is not None
    assert reply.fault.error is ProtocolViolation


def test_pieces_of_arguments_have_a_weight_however_small() -> None:
    reply = decoder(limits=Limits(max_answer_bytes=100_000))
    reply.feed(said(pieces(*(piece(f"$.a[{i}]", 1) for i in range(1000)), name="f")))
    assert reply.fault is not None
    assert "limits.max_answer_bytes" in reply.fault.message


def test_a_text_has_no_weight_but_its_own() -> None:
    reply = decoder(limits=Limits(max_answer_bytes=3))
    assert shown(reply.feed(said(text("a")) + said(text("bc")))) == ["text:a", "text:bc"]
    reply.feed(said(text("d")))
    assert reply.phase is Phase.FAILED


# ---- splits -------------------------------------------------------------------------------------

GOLDEN: list[JSON] = [
    chunk([]),
    chunk([thought("Tide — 🌊")]),
    chunk([text('The "tide"\n')]),
    chunk([text("turns}]. "), {**call(name="at", args={"p": "Brest\u2028é"}), **SIGNED}]),
    chunk([pieces(piece("$.a", 'b"c', more=True), name="f")]),
    chunk([pieces(piece("$.a", "d")), call()]),
    chunk([text("", **SIGNED)], "STOP"),
    {"usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 4}},
]
ARRAY = "[" + ",\r\n".join(json.dumps(each, ensure_ascii=False) for each in GOLDEN) + "\n]"


@pytest.mark.parametrize(
    "body",
    [
        b"".join(event(each) for each in GOLDEN),
        "".join(f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in GOLDEN).encode(),
        ARRAY.encode(),
        json.dumps(GOLDEN, indent=2).encode(),
    ],
)
def test_no_split_changes_what_a_reply_means(
    body: bytes, stats: CallStats, cut_every_way: Cut
) -> None:
    whole = decoder("")
    expected = whole.feed(body) + whole.close()
    completion = completed(whole, stats)
    assert completion.text == 'The "tide"\nturns}]. '
    assert [each.arguments for each in completion.tool_calls] == [
        '{"p": "Brest\u2028é"}',
        '{"a":"b\\"cd"}',
    ]
    for reads in cut_every_way(body):
        reply = decoder("")
        chunks = [each for data in reads for each in reply.feed(data)] + reply.close()
        assert (chunks, completed(reply, stats)) == (expected, completion)
        assert reply.content_events == whole.content_events


@pytest.mark.parametrize(
    "body", [b"".join(event(each) for each in GOLDEN[:-2]), ARRAY.encode()[:-200]]
)
def test_no_cut_before_the_finish_reason_is_a_whole_answer(body: bytes) -> None:
    for at in range(len(body)):
        reply = decoder("")
        reply.feed(body[:at])
        reply.close()
        assert reply.phase in {Phase.OPEN, Phase.FAILED}


NAMES = st.sampled_from(
    [
        *("candidates", "content", "parts", "text", "thought", "thoughtSignature"),
        *("functionCall", "name", "args", "partialArgs", "jsonPath", "stringValue"),
        *("willContinue", "finishReason", "index", "usageMetadata", "thoughtsTokenCount"),
        *("promptFeedback", "blockReason", "error", "message", "code", "inlineData"),
    ]
)
ANY: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)


@st.composite
def chunks_of_anything(draw: st.DrawFn) -> JSON:
    finish = draw(st.sampled_from(["STOP", "", None, "MAX_TOKENS"]))
    parts = draw(st.lists(ANY, max_size=3))
    return {"candidates": [{"content": {"parts": parts}, "finishReason": finish}]}


@given(st.lists(ANY | chunks_of_anything(), max_size=5))
def test_no_json_whatever_makes_the_decoder_raise(stats: CallStats, values: list[JSON]) -> None:
    reply = decoder("")
    body = "\n".join(json.dumps(value) for value in [cast("JSON", {}), *values])
    chunks = reply.feed(body.encode()) + reply.close()
    ended = reply.phase is Phase.ENDED
    completion = reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=ended
    )
    assert "".join(each.text for each in chunks) == completion.text
    arguments = "".join(each.delta for each in chunks if each.kind == "tool_call")
    assert arguments == "".join(each.arguments for each in completion.tool_calls)
