from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given, settings, strategies as st

from polygateway.errors import (
    AttemptError,
    ContentFiltered,
    InvalidRequest,
    ProtocolViolation,
    QuotaExhausted,
    RateLimited,
    ServerError,
)
from polygateway.messages import Chunk, ToolCallDelta
from polygateway.policies import Limits, Target
from polygateway.usage import Usage
from polygateway.wire.dialect import Phase
from polygateway.wire.openai_responses import FINISH_REASONS, OpenAIResponses, ResponsesDecoder
from tests.wire.any_request import Values, either, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from polygateway.messages import JSON, Completion
    from polygateway.stats import CallStats

    Cut = Callable[[bytes], Iterator[Sequence[bytes]]]

Fields: TypeAlias = "dict[str, JSON]"

SSE = "text/event-stream"
TARGET = Target(dialect="openai-responses", base_url="https://EU.invalid/v1", model="m")


def decoder(content_type: str = SSE, limits: Limits | None = None) -> ResponsesDecoder:
    return OpenAIResponses().decoder(
        attempt=2, target=TARGET, content_type=content_type, limits=limits or Limits()
    )


# ---- events -------------------------------------------------------------------------------------


def data(value: JSON) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def event(name: str, /, **fields: JSON) -> bytes:
    return data({"type": f"response.{name}", **fields})


def response(status: str = "in_progress", **fields: JSON) -> Fields:
    return {"id": "resp_1", "object": "response", "model": "lyra-3", "status": status, **fields}


def completed(*output: JSON, **fields: JSON) -> bytes:
    return event("completed", response=response("completed", output=list(output), **fields))


def delta(piece: str, place: int | None = 0, **fields: JSON) -> bytes:
    return event("output_text.delta", delta=piece, **at(place), **fields)


def at(place: int | None) -> Fields:
    return {} if place is None else {"output_index": place}


def added(item: JSON, place: int | None = None) -> bytes:
    return event("output_item.added", item=item, **at(place))


def done(item: JSON, place: int | None = None) -> bytes:
    return event("output_item.done", item=item, **at(place))


def message(*texts: str, **fields: JSON) -> Fields:
    content: JSON = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "role": "assistant", "content": content, **fields}


def refusing(text: str) -> Fields:
    return {**message(), "content": [{"type": "refusal", "refusal": text}]}


def reasoning(*summary: str, content: Sequence[str] = (), **fields: JSON) -> Fields:
    return {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summary],
        "content": [{"type": "reasoning_text", "text": text} for text in content],
        **fields,
    }


def call(arguments: str = "", **fields: JSON) -> Fields:
    return {"type": "function_call", "name": "tide_at", "arguments": arguments, **fields}


def arguments(piece: str, place: int | None = None, **fields: JSON) -> bytes:
    return event("function_call_arguments.delta", delta=piece, **at(place), **fields)


def thought(piece: str, part: int = 0, place: int = 0) -> bytes:
    return event(
        "reasoning_summary_text.delta", delta=piece, summary_index=part, output_index=place
    )


def raw_thought(piece: str, part: int = 0, place: int = 0) -> bytes:
    return event("reasoning_text.delta", delta=piece, content_index=part, output_index=place)


# ---- what came of them --------------------------------------------------------------------------


def shown(chunks: list[Chunk]) -> list[str]:
    return [f"{chunk.kind}:{chunk.delta}" for chunk in chunks]


def fed(*events: bytes) -> tuple[ResponsesDecoder, list[str]]:
    reply = decoder()
    chunks = [chunk for each in events for chunk in reply.feed(each)]
    return reply, shown(chunks)


def whole(reply: ResponsesDecoder, stats: CallStats) -> Completion:
    return reply.answer.completion(
        target="eu", request_id=None, headers={}, stats=stats, ended=reply.phase is Phase.ENDED
    )


def calls_of(reply: ResponsesDecoder) -> list[tuple[str | None, str, str]]:
    return [(call.id, call.name, call.arguments) for call in reply.answer.calls(ended=True)]


def test_a_text_comes_as_it_is_cut_and_the_reply_ends_with_the_event_that_says_so() -> None:
    reply = decoder()
    assert reply.feed(event("created", response=response())) == []
    assert reply.feed(added(message(id="msg_1"), 0)) == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 0, 2)
    assert reply.feed(delta("The ") + delta("tide")) == [
        Chunk("text", "The ", 2),
        Chunk("text", "tide", 2),
    ]
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 2, 2)
    assert reply.feed(done(message("The tide", id="msg_1"), 0)) == []
    assert (reply.phase, reply.keepalives) == (Phase.OPEN, 3)
    end = completed(message("The tide", id="msg_1"), usage={"input_tokens": 1})
    assert reply.feed(end + delta("IGNORED") + b"data: {broken\n\n") == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.ENDED, 2, 4)
    assert reply.feed(delta("IGNORED")) == reply.close() == []
    assert (reply.phase, reply.fault, reply.answer.text("text")) == (Phase.ENDED, None, "The tide")
    assert (reply.answer.id, reply.answer.model) == ("resp_1", "lyra-3")
    assert (reply.answer.raw_finish_reason, reply.answer.finish_reason) == ("completed", "stop")
    assert reply.answer.usage == Usage(input_tokens=1)


GOLDEN = b"".join(
    [
        b"event: response.created\n" + event("created", response=response(usage=None)),
        added(reasoning(id="rs_1", encrypted_content="c2Vh"), 0),
        thought("Moon "),
        thought("full."),
        thought("Tide é🌊", 1),
        done(reasoning("Moon full.", "Tide é🌊", id="rs_1", encrypted_content="c2VhbGVk"), 0),
        added(message(id="msg_1", phase="commentary"), 1),
        delta("I l", 1),
        delta("ook.", 1),
        done(message("I look.", id="msg_1", phase="commentary"), 1),
        added(call(id="fc_1", call_id="call_1"), 2),
        arguments('{"port":', 2),
        arguments('"Brest"}', 2),
        done(call('{"port":"Brest"}', id="fc_1", call_id="call_1"), 2),
        completed(usage={"input_tokens": 11, "output_tokens": 4}),
    ]
)


def test_no_cut_changes_what_a_reply_means(cut_every_way: Cut, stats: CallStats) -> None:
    once = decoder()
    chunks = once.feed(GOLDEN)
    assert shown(chunks) == [
        "reasoning:Moon ",
        "reasoning:full.",
        "reasoning:\n\nTide é🌊",
        "text:I l",
        "text:ook.",
        "tool_call:",
        'tool_call:{"port":',
        'tool_call:"Brest"}',
    ]
    assert once.answer.finish_reason == "tool_calls"
    assert (once.content_events, once.phase) == (8, Phase.ENDED)
    for reads in cut_every_way(GOLDEN):
        reply = decoder()
        assert [chunk for each in reads for chunk in reply.feed(each)] == chunks
        assert whole(reply, stats) == whole(once, stats)


# ---- reasoning ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([thought("a"), thought("b")], "ab"),
        ([thought("**a**"), thought("**b**", 1)], "**a**\n\n**b**"),
        ([thought("**a**"), thought("**b**", 0, 2)], "**a**\n\n**b**"),
        ([raw_thought("a"), raw_thought("b", 1), raw_thought("c", 1)], "a\n\nbc"),
        # Who makes paragraphs himself has them.
        ([thought("a\n"), thought("b", 1)], "a\nb"),
        ([thought("a"), thought("\n\nb", 1)], "a\n\nb"),
        ([thought("a"), thought("", 1), thought("b")], "ab"),
        ([done(reasoning("a", "b"), 0), done(reasoning("c"), 1)], "a\n\nb\n\nc"),
        ([completed(reasoning("a", "b"), reasoning("c"))], "a\n\nb\n\nc"),
        # What is missing of a part belongs to that part.
        ([thought("a"), done(reasoning("ab", "c"), 0)], "ab\n\nc"),
        ([thought("a"), completed(reasoning("ab", "c"))], "ab\n\nc"),
        ([thought("a"), completed(reasoning("a", "b"))], "a\n\nb"),
    ],
)
def test_an_empty_line_stands_between_parts_of_reasoning(pieces: list[bytes], text: str) -> None:
    reply, chunks = fed(*pieces)
    assert reply.answer.text("reasoning") == text
    assert "".join(chunk.removeprefix("reasoning:") for chunk in chunks) == text


def test_nothing_stands_between_parts_of_a_text() -> None:
    first, second = delta('{"a":', content_index=0), delta("1}", content_index=1)
    reply, _ = fed(first, second, delta("\n", 1), done(message('{"a":', "1}"), 0))
    assert reply.answer.text("text") == '{"a":1}\n'


@pytest.mark.parametrize(
    "events",
    [
        [raw_thought("Moon "), thought("Moon "), raw_thought("full."), thought("full.")],
        [thought("Moon "), raw_thought("Moon "), thought("full."), raw_thought("full.")],
        [event("reasoning.delta", delta="Moon "), event("reasoning.delta", delta="full.")],
        [event("reasoning_summary.delta", delta={"text": "Moon full."})],
        [thought("Moon "), event("reasoning_summary_text.done", text="Moon full.")],
    ],
)
def test_reasoning_that_is_sent_twice_is_heard_once(events: list[bytes]) -> None:
    both = reasoning("Moon full.", content=["Moon full."])
    reply, _ = fed(*events, done(both, 0), completed(both))
    assert reply.answer.text("reasoning") == "Moon full."


def test_of_a_whole_item_the_reasoning_is_taken_and_its_summary_only_without() -> None:
    for item, text in (
        (reasoning("summary", content=["all of it"]), "all of it"),
        (reasoning("summary", content=[""]), "summary"),
    ):
        assert fed(done(item))[1] == fed(completed(item))[1] == [f"reasoning:{text}"]


def test_a_whole_item_goes_on_with_what_was_begun() -> None:
    both = reasoning("Moon full.", content=["All of it."])
    assert fed(thought("Moon "), done(both, 0))[1] == ["reasoning:Moon ", "reasoning:full."]
    assert fed(raw_thought("All"), done(both, 0))[1] == ["reasoning:All", "reasoning: of it."]
    assert fed(thought("Moon "), completed(both))[1] == ["reasoning:Moon ", "reasoning:full."]


# ---- what came in no delta ----------------------------------------------------------------------

SAID: Mapping[str, JSON] = {"type": "output_text", "text": "Ebb."}
REFUSED: Mapping[str, JSON] = {"type": "refusal", "refusal": "No."}
SUMMARY: Mapping[str, JSON] = {"type": "summary_text", "text": "Moon."}
THOUGHT: Mapping[str, JSON] = {"type": "reasoning_text", "text": "Moon."}


@pytest.mark.parametrize(
    ("only", "chunk"),
    [
        (delta("Ebb."), "text:Ebb."),
        (event("content_part.delta", delta="Ebb."), "text:Ebb."),  # OpenRouter's documentation
        (event("content_part.delta", delta={"text": "Ebb."}), "text:Ebb."),
        (event("output_text.done", text="Ebb."), "text:Ebb."),
        (event("content_part.done", part=SAID), "text:Ebb."),
        (done(message("Ebb.")), "text:Ebb."),
        (completed(message("Ebb.")), "text:Ebb."),
        (completed(output_text="Ebb."), "text:Ebb."),
        (event("refusal.delta", delta="No."), "refusal:No."),
        (event("refusal.done", refusal="No."), "refusal:No."),
        (event("content_part.done", part=REFUSED), "refusal:No."),
        (done(refusing("No.")), "refusal:No."),
        (completed(refusing("No.")), "refusal:No."),
        (thought("Moon."), "reasoning:Moon."),
        (event("reasoning_summary_text.done", text="Moon."), "reasoning:Moon."),
        (event("reasoning_summary_part.done", part=SUMMARY), "reasoning:Moon."),
        (raw_thought("Moon."), "reasoning:Moon."),
        (event("reasoning_text.done", text="Moon."), "reasoning:Moon."),
        (event("reasoning_part.done", part=THOUGHT), "reasoning:Moon."),  # vLLM
        (done(reasoning("Moon.")), "reasoning:Moon."),
        (completed(reasoning("Moon.")), "reasoning:Moon."),
        (event("function_call_arguments.done", name="f", arguments="{}"), "tool_call:{}"),
        (done(call("{}")), "tool_call:{}"),
        (completed(call("{}")), "tool_call:{}"),
    ],
)
def test_what_comes_only_once_is_content_wherever_it_comes(only: bytes, chunk: str) -> None:
    reply, chunks = fed(only)
    assert (chunks, reply.content_events) == ([chunk], 1)


TEXT_EVENTS = [
    delta("Ebb"),
    delta(" tide."),
    event("output_text.done", text="Ebb tide.", output_index=0),
    event("content_part.done", part={"type": "output_text", "text": "Ebb tide."}, output_index=0),
    done(message("Ebb tide.", id="m"), 0),
    completed(message("Ebb tide.", id="m")),
]
CALL_EVENTS = [
    added(call(id="f", call_id="c"), 0),
    arguments('{"a"', 0),
    arguments(":1}", 0),
    event("function_call_arguments.done", arguments='{"a":1}', item_id="f", name="tide_at"),
    done(call('{"a":1}', id="f", call_id="c"), 0),
    completed(call('{"a":1}', id="f", call_id="c")),
]


@given(st.sets(st.integers(2, 5)), st.integers(0, 2))
def test_a_text_is_given_once_whatever_of_it_a_server_sends(wholes: set[int], deltas: int) -> None:
    events = [*TEXT_EVENTS[:deltas], *(TEXT_EVENTS[i] for i in sorted(wholes))]
    reply, _ = fed(*events)
    expected = "Ebb tide." if wholes else "Ebb tide."[: [0, 3, 9][deltas]]
    assert reply.answer.text("text") == expected


@given(st.sets(st.integers(3, 5)), st.integers(0, 3))
def test_a_call_is_given_once_whatever_of_it_a_server_sends(wholes: set[int], pieces: int) -> None:
    events = [*CALL_EVENTS[:pieces], *(CALL_EVENTS[i] for i in sorted(wholes))]
    reply, chunks = fed(*events)
    sent = '{"a":1}' if wholes else '{"a":1}'[: [0, 0, 4, 7][pieces]]
    known = "c" if pieces or wholes & {4, 5} else None
    assert calls_of(reply) == ([(known, "tide_at", sent)] if events else [])
    assert len(chunks) == reply.content_events


@pytest.mark.parametrize(
    ("events", "text"),
    [
        # The whole begins otherwise, or is shorter: what was given stands.
        ([delta("Ebb"), event("output_text.done", text="Flood tide", output_index=0)], "Ebb"),
        ([delta("Ebb tide"), done(message("Ebb"), 0), completed(message("E"))], "Ebb tide"),
        ([delta("Ebb"), completed(message("Flood"), message("Ebb tide"))], "Ebb"),
        # Of several items each is completed by itself.
        ([delta("a"), delta("c", 1), done(message("ab"), 0)], "acb"),
        ([delta("a"), completed(message("a"), message("b"))], "ab"),
        # The sort of event that came first is heard, the other only where it says more.
        ([delta("a"), event("content_part.delta", delta="a", output_index=0)], "a"),
        ([event("content_part.delta", delta="a"), delta("a", None), done(message("ab"))], "ab"),
        ([completed(message("a"), output_text="b")], "a"),
        ([delta("a"), completed(output_text="ab")], "ab"),
        ([event("content_part.done", part={"type": "audio", "text": "a"})], ""),
        ([event("mcp_call_arguments.delta", delta="a"), event("x.done", text="a")], ""),
        ([event("output_item.delta", item=message("a"))], ""),
    ],
)
def test_only_what_is_missing_at_its_end_is_taken_from_a_whole(
    events: list[bytes], text: str
) -> None:
    assert fed(*events)[0].answer.text("text") == text


def test_parts_of_a_message_are_completed_each_by_itself() -> None:
    reply, _ = fed(
        delta("a", content_index=1),
        event("refusal.delta", delta="n", output_index=0, content_index=2),
        event("output_text.done", text="ab", output_index=0, content_index=1),
        event("refusal.done", refusal="no", output_index=0, content_index=2),
    )
    assert (reply.answer.text("text"), reply.answer.text("refusal")) == ("ab", "no")


# ---- which item is meant ------------------------------------------------------------------------


def text_of(*events: bytes) -> str:
    return fed(*events)[0].answer.text("text")


def test_items_without_a_name_are_told_apart_by_their_ends() -> None:
    # As in codex-rs/codex-api/src/sse/responses.rs.
    end = event("completed", response={"id": "resp1"})
    assert text_of(done(message("Hello")), done(message("World")), end) == "HelloWorld"
    assert text_of(done(message("Hello")), done(message("Hello")), end) == "HelloHello"
    assert text_of(delta("Hel", None), done(message("Hello")), delta("World", None)) == "HelloWorld"


@pytest.mark.parametrize(
    "events",
    [
        # Every event with another id: GitHub Copilot.
        [
            added(message(id="1"), 0),
            delta("Ebb ", item_id="2"),
            delta("tide.", item_id="3"),
            event("output_text.done", text="Ebb tide.", item_id="4", output_index=0),
            done(message("Ebb tide.", id="5"), 0),
            completed(message("Ebb tide.", id="6")),
        ],
        # No index: llama.cpp.
        [
            added(message(id="m")),
            delta("Ebb ", None, item_id="m"),
            delta("tide.", None, item_id="m"),
            event("output_text.done", text="Ebb tide.", item_id="m"),
            done(message("Ebb tide.", id="m")),
            completed(message("Ebb tide.", id="m")),
        ],
        # The deltas have no name, the rest has.
        [delta("Ebb ", None), delta("tide.", None), done(message("Ebb tide.", id="m"), 0)],
        [delta("Ebb ", None), delta("tide."), done(message("Ebb tide.", id="m"), 0)],
        [
            delta("Ebb ", None),
            delta("tide.", None, item_id="m"),
            done(message("Ebb tide.", id="m")),
        ],
        [added(message(id="m"), 3), delta("Ebb tide.", None), done(message("Ebb tide.", id="m"))],
        # Another index in the end than before: something before it was left out of the output.
        [delta("Ebb tide.", 1), completed(message("Ebb tide.", id="m"))],
        # Announced twice, ended twice.
        [
            *(added(message(id="m"), 0), added(message(id="m"), 0)),
            delta("Ebb tide.", item_id="m"),
            *(done(message("Ebb tide.", id="m"), 0), done(message("Ebb tide.", id="m"), 0)),
        ],
    ],
)
def test_the_events_of_one_message_find_it_by_whatever_they_have(events: list[bytes]) -> None:
    assert text_of(*events) == "Ebb tide."


CALL_NAMES: Sequence[tuple[Fields, Fields]] = (
    ({"output_index": 0}, {"output_index": 1}),
    ({"item_id": "f0"}, {"item_id": "f1"}),
    # There are servers whose index is always 0.
    ({"item_id": "f0", "output_index": 0}, {"item_id": "f1", "output_index": 0}),
    # The first says nothing about its place.
    ({"item_id": "f0"}, {"item_id": "f1", "output_index": 0}),
)


@pytest.mark.parametrize("names", CALL_NAMES)
@pytest.mark.parametrize("with_ids", [True, False])
def test_the_pieces_of_calls_find_them_in_any_order(
    names: tuple[Fields, Fields], with_ids: bool
) -> None:
    def piece(n: int, text: str) -> bytes:
        return event("function_call_arguments.delta", delta=text, **names[n])

    def item(n: int, text: str) -> Fields:
        item_id = {"id": f"f{n}"} if "item_id" in names[n] else {}
        return {**call(text, call_id=f"c{n}"), **item_id}

    def place(n: int) -> int | None:
        index = names[n].get("output_index")
        return index if isinstance(index, int) else None

    events = [
        *(added(item(0, ""), place(0)), added(item(1, ""), place(1))),
        *(piece(0, '{"a":'), piece(1, '{"b":'), piece(0, "0}"), piece(1, "1}")),
        *(done(item(0, '{"a":0}'), place(0)), done(item(1, '{"b":1}'), place(1))),
    ]
    if with_ids:
        events.append(completed(item(0, '{"a":0}'), item(1, '{"b":1}')))
    reply, _ = fed(*events)
    assert calls_of(reply) == [("c0", "tide_at", '{"a":0}'), ("c1", "tide_at", '{"b":1}')]


def test_the_pieces_of_a_call_may_name_it_by_its_call_id() -> None:
    # Older versions of llama.cpp: the call has no id, and the output none either.
    calls = [call("{}", call_id=f"fc_{n}", name=n) for n in "ab"]
    events = [each for n in "ab" for each in (added(call(call_id=f"fc_{n}", name=n)),)]
    pieces = [arguments("{}", item_id=f"fc_{n}") for n in "ba"]
    reply, _ = fed(*events, *pieces, *map(done, calls), completed(*calls))
    assert calls_of(reply) == [("fc_a", "a", "{}"), ("fc_b", "b", "{}")]


def test_calls_that_are_whole_at_once_are_told_apart_though_their_index_is_not() -> None:
    events = [done(call("{}", id=f"f{n}", call_id=f"c{n}"), 0) for n in range(3)]
    assert calls_of(fed(*events)[0]) == [(f"c{n}", "tide_at", "{}") for n in range(3)]


def test_calls_without_an_id_are_found_again_by_their_order() -> None:
    events = [added(call(name=f"f{n}"), n) for n in range(2)]
    events += [arguments(f"{n}", n) for n in range(2)]
    end = completed(*(call(f"{n}", name=f"f{n}", call_id=f"c{n}") for n in range(3)))
    reply, _ = fed(*events, end)
    assert calls_of(reply) == [("c0", "f0", "0"), ("c1", "f1", "1"), ("c2", "f2", "2")]


def test_a_call_s_first_chunk_has_its_name_and_every_chunk_its_place_and_id() -> None:
    reply = decoder()
    assert reply.feed(added(call(id="fc_1", call_id="call_1", name="f"), 1)) == [
        Chunk("tool_call", "", 2, ToolCallDelta(0, "call_1", "f"))
    ]
    assert reply.feed(arguments("{}", 1)) == [
        Chunk("tool_call", "{}", 2, ToolCallDelta(0, "call_1", "f"))
    ]
    named = event("function_call_arguments.done", arguments="{}", name="f", output_index=1)
    assert reply.feed(named) == []
    assert (reply.content_events, reply.keepalives) == (2, 1)


def test_what_an_announcement_holds_of_the_arguments_is_not_taken_for_it_comes_again() -> None:
    reply, _ = fed(added(call('{"a":1}', call_id="c"), 0), arguments('{"a":1}', 0))
    assert calls_of(reply) == [("c", "tide_at", '{"a":1}')]


def test_arguments_of_a_call_that_was_not_announced_are_given_when_its_name_comes() -> None:
    reply, chunks = fed(
        arguments("{", 0),  # nothing else it could belong to
        event("function_call_arguments.done", arguments="{}", name="f", output_index=0),
        arguments('{"b"', 1),
        event("function_call_arguments.done", arguments='{"b":1}', name="g", output_index=1),
        done(call("{}", name="f", call_id="c0"), 0),
        done(call('{"b":1}', name="g", call_id="c1"), 1),
    )
    assert chunks == ["tool_call:{", "tool_call:}", 'tool_call:{"b":1}']
    assert calls_of(reply) == [("c0", "f", "{}"), ("c1", "g", '{"b":1}')]


def test_a_call_of_a_custom_tool_is_a_call_whose_input_is_text(stats: CallStats) -> None:
    item: Fields = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "name": "sql"}
    reply, chunks = fed(
        added({**item, "input": ""}, 0),
        event("custom_tool_call_input.delta", delta="SELECT ", output_index=0),
        event("custom_tool_call_input.done", input="SELECT 1", output_index=0),
        done({**item, "input": "SELECT 1"}, 0),
        completed({**item, "input": "SELECT 1"}),
    )
    assert chunks == ["tool_call:", "tool_call:SELECT ", "tool_call:1"]
    assert calls_of(reply) == [("call_1", "sql", "SELECT 1")]
    # No function can be called with that.
    assert not whole(reply, stats).tool_calls[0].complete
    assert reply.answer.finish_reason == "tool_calls"


# ---- the end ------------------------------------------------------------------------------------


def ending(name: str, status: str | None, **fields: JSON) -> bytes:
    return event(name, response={} if status is None else response(status, **fields))


CUT_BY: Fields = {"incomplete_details": {"reason": "max_output_tokens"}}


@pytest.mark.parametrize(
    ("end", "word", "meant"),
    [
        (ending("completed", "completed"), "completed", "stop"),
        (ending("completed", "completed", incomplete_details=None), "completed", "stop"),
        (ending("completed", None), "completed", "stop"),
        (ending("completed", "in_progress"), "completed", "stop"),
        (ending("done", "completed"), "completed", "stop"),  # OpenRouter's documentation
        (ending("done", None), "done", "other"),
        (ending("incomplete", "incomplete", **CUT_BY), "max_output_tokens", "length"),
        (ending("incomplete", None), "incomplete", "other"),
        (ending("incomplete", "incomplete"), "incomplete", "other"),
        (
            ending("incomplete", "incomplete", incomplete_details={"reason": "content_filter"}),
            "content_filter",
            "content_filter",
        ),
        # Whatever the event is called.
        (ending("completed", "incomplete"), "incomplete", "other"),  # aimock
        (ending("completed", "completed", **CUT_BY), "max_output_tokens", "length"),
        (data({"type": "response.completed"}), "completed", "stop"),
        (data(response("completed")), "completed", "stop"),
    ],
)
def test_a_reply_ends_with_the_reason_that_its_response_gives(
    end: bytes, word: str, meant: str
) -> None:
    for before in (b"", delta("a")):
        reply, _ = fed(before, end)
        assert (reply.phase, reply.fault) == (Phase.ENDED, None)
        assert (reply.answer.raw_finish_reason, reply.answer.finish_reason) == (word, meant)


@pytest.mark.parametrize("word", FINISH_REASONS)
def test_calls_are_the_reason_where_nothing_else_is(word: str) -> None:
    reply, _ = fed(done(call("{}")), event("completed", response={"status": word}))
    expected = {"completed": "tool_calls"}.get(word, FINISH_REASONS[word])
    assert reply.answer.finish_reason == expected


@pytest.mark.parametrize(
    "before_the_end",
    [
        delta("a"),
        delta("a") + done(message("a"), 0),
        delta("a") + b"data: [DONE]\n\n",
        delta("a") + ending("in_progress", "completed"),
        delta("a") + data(response("in_progress")),
        delta("a") + event("output_item.done", item=None),
        GOLDEN[:-30],
    ],
)
def test_a_reply_without_the_end_is_cut_however_the_transport_ended(before_the_end: bytes) -> None:
    reply, _ = fed(before_the_end)
    assert reply.phase is Phase.OPEN
    reply.close()
    assert (reply.phase, reply.fault, reply.answer.finish_reason) == (Phase.OPEN, None, None)


def test_the_end_needs_no_empty_line_behind_it() -> None:
    reply, chunks = fed(delta("a"), completed(message("ab"), id="r").rstrip())
    assert chunks == ["text:a"]
    assert shown(reply.close()) == ["text:b"]
    assert reply.phase is Phase.ENDED


@pytest.mark.parametrize(
    "stream", [b"", b": a\n\n", b"data: [DONE]\n\n", event("created", response=response())]
)
def test_a_reply_in_which_nothing_came_is_a_violation(stream: bytes) -> None:
    reply, _ = fed(stream)
    assert reply.close() == []
    assert reply.fault is not None
    assert reply.fault.error is ProtocolViolation
    assert reply.fault.message.startswith("the reply ended without content")


# ---- errors -------------------------------------------------------------------------------------


def failed(error: JSON, **fields: JSON) -> bytes:
    return event("failed", response=response("failed", error=error, **fields))


LIMIT: Fields = {"code": "rate_limit_exceeded", "message": "Please try again in 1.5s."}


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        (data({"type": "error", **LIMIT, "param": None}), RateLimited, LIMIT["message"]),
        (data({"type": "error", "error": LIMIT}), RateLimited, LIMIT["message"]),
        (data({"error": LIMIT}), RateLimited, LIMIT["message"]),
        (b"event: error\n" + data(LIMIT), RateLimited, LIMIT["message"]),
        (b"event: error\n" + data({"error": LIMIT}), RateLimited, LIMIT["message"]),
        (failed(LIMIT), RateLimited, LIMIT["message"]),
        (completed(error=LIMIT), RateLimited, LIMIT["message"]),
        (ending("incomplete", "incomplete", error=LIMIT), RateLimited, LIMIT["message"]),
        (event("done", response=response("failed", error=LIMIT)), RateLimited, LIMIT["message"]),
        (
            data({"type": "error", "error": {"type": "insufficient_quota", "message": "m"}}),
            QuotaExhausted,
            "m",
        ),
        (failed({"code": "server_error", "message": "m"}), ServerError, "m"),
        (failed({"code": "bio_policy", "message": "m"}), ContentFiltered, "m"),
        (
            data({"type": "error", "error": {"type": "invalid_request_error", "message": "m"}}),
            InvalidRequest,
            "m",
        ),
        (failed("out of memory"), ServerError, "out of memory"),
        (failed(None), ServerError, "the provider ended the answer with the reason 'failed'"),
        (event("failed"), ServerError, "the provider ended the answer with the reason 'failed'"),
        (
            ending("completed", "cancelled"),
            ServerError,
            "the provider ended the answer with the reason 'cancelled'",
        ),
        (
            ending("cancelled", None),
            ServerError,
            "the provider ended the answer with the reason 'cancelled'",
        ),
    ],
)
def test_an_error_ends_the_reply_whatever_came_before_and_comes_after(
    stream: bytes, error: type[AttemptError], message: str
) -> None:
    reply, chunks = fed(delta("The "), stream, delta("IGNORED"), completed())
    assert chunks == ["text:The "]
    assert reply.phase is Phase.FAILED
    assert reply.fault is not None
    assert (reply.fault.error, reply.fault.message) == (error, message)
    assert reply.answer.raw_finish_reason is None
    assert reply.fault.retry_after_s == (1.5 if error is RateLimited else None)


def test_an_error_without_a_text_is_quoted() -> None:
    reply, _ = fed(failed({"code": "server_error"}))
    assert reply.fault is not None
    assert reply.fault.code == "server_error"
    assert '"code": "server_error"' in reply.fault.message


KEEP_ALIVES: Sequence[Fields] = (
    {},
    {"type": 5},
    {"type": "ping"},
    {"type": "response.future.event", "delta": "a"},
    {"type": "response.output_item.added", "item": {"type": "web_search_call", "id": "ws"}},
    {"type": "response.output_item.added", "item": [1]},
    {"type": "response.output_item.added", "item": {"type": ["message"]}},
    {"type": "response.output_item.done", "item": {"type": ["message"], "content": [{}]}},
    {"type": "response.output_text.delta", "delta": ""},
    {"type": "response.output_text.delta", "delta": None, "output_index": "x"},
    {"type": "response.output_text.delta", "delta": {"text": 5}},
    {"type": "response.function_call_arguments.delta", "delta": 7},
    {"type": "response.output_text.annotation.added", "annotation": {"text": "a"}},
    {"type": "response.code_interpreter_call_code.delta", "delta": "import x"},
    {"type": "response.audio.transcript.delta", "delta": "a"},
    {"type": "response.queued", "response": {"usage": 5, "output": [{"type": "message"}]}},
    {"type": "response.in_progress", "response": "x"},
    {"object": "chat.completion"},
)


@pytest.mark.parametrize("value", KEEP_ALIVES)
def test_keep_alives_are_counted_and_change_nothing(value: JSON) -> None:
    reply, _ = fed(delta("a"))
    assert reply.feed(data(value)) == reply.feed(data(value)) == []
    assert (reply.phase, reply.content_events, reply.keepalives) == (Phase.OPEN, 1, 2)
    assert reply.answer.text("text") == "a"


# ---- usage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 11, "output_tokens": 4, "total_tokens": 15}, (11, 4, None, None)),
        ({"output_tokens_details": {"reasoning_tokens": 5}}, (None, None, 5, None)),
        ({"input_tokens_details": {"cached_tokens": 0}}, (None, None, None, 0)),
        ({"input_tokens": None, "output_tokens": "4"}, (None, None, None, None)),
        ({"input_tokens_details": None, "output_tokens_details": []}, (None, None, None, None)),
        (None, (None, None, None, None)),
        ("x", (None, None, None, None)),
    ],
)
def test_token_counts_are_those_of_the_response_and_never_invented(
    usage: JSON, expected: tuple[int | None, ...]
) -> None:
    for end in (completed(usage=usage), failed(LIMIT, usage=usage)):
        reply, _ = fed(event("in_progress", response=response(usage=None)), end)
        assert reply.answer.usage == Usage(
            input_tokens=expected[0],
            output_tokens=expected[1],
            reasoning_tokens=expected[2],
            cached_input_tokens=expected[3],
        )


# ---- documents ----------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", ["application/json", SSE, ""])
def test_a_whole_response_is_one_event_and_its_own_end(
    content_type: str, cut_every_way: Cut
) -> None:
    output: JSON = [reasoning("b"), message("a"), refusing("c"), call("{}", call_id="c1")]
    usage: JSON = {"input_tokens": 3}
    body = json.dumps(response("completed", output=output, usage=usage, error=None)).encode()
    for reads in cut_every_way(body):
        reply = decoder(content_type)
        assert [chunk for each in reads for chunk in reply.feed(each)] == []
        assert (reply.phase, reply.form) == (Phase.OPEN, "document")
        assert shown(reply.close()) == ["reasoning:b", "text:a", "refusal:c", "tool_call:{}"]
        assert (reply.phase, reply.content_events) == (Phase.ENDED, 1)
        assert reply.answer.finish_reason == "tool_calls"
        assert (reply.answer.id, reply.answer.usage.input_tokens) == ("resp_1", 3)


def document(value: JSON) -> ResponsesDecoder:
    reply = decoder("application/json")
    reply.feed(json.dumps(value).encode())
    reply.close()
    return reply


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (response("completed", output=[]), "completed"),
        (response("incomplete", output=[message("a")], **CUT_BY), "max_output_tokens"),
        ({"object": "response", "output": [message("a")]}, None),
    ],
)
def test_a_whole_response_is_as_whole_as_it_says(value: JSON, reason: str | None) -> None:
    reply = document(value)
    assert (reply.phase, reply.answer.raw_finish_reason) == (Phase.ENDED, reason)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ({}, ProtocolViolation, "no finished response: '{}'"),
        ({"status": "ok"}, ProtocolViolation, "no finished response: "),
        ({"object": "chat.completion", "choices": []}, ProtocolViolation, "no finished response: "),
        (response("in_progress"), ProtocolViolation, "no finished response: "),
        (response("queued", output=[message("a")]), ProtocolViolation, "no finished response: "),
        ({"object": "response"}, ProtocolViolation, "neither a status nor an output: "),
        (response("failed", error=LIMIT), RateLimited, LIMIT["message"]),
        (response("failed", error=None), ServerError, "the provider ended the answer"),
        (response("cancelled", output=[message("a")]), ServerError, "the provider ended"),
        ({"error": LIMIT}, RateLimited, LIMIT["message"]),
    ],
)
def test_a_document_that_is_no_whole_response_is_an_error(
    value: JSON, error: type[AttemptError], text: str
) -> None:
    reply = document(value)
    assert reply.phase is Phase.FAILED
    assert reply.fault is not None
    assert reply.fault.error is error
    assert reply.fault.message.startswith(text)
    assert reply.answer.text("text") == ""


# ---- limits -------------------------------------------------------------------------------------


def test_an_answer_over_its_limit_is_a_violation_and_what_fitted_is_kept() -> None:
    reply = decoder(limits=Limits(max_answer_bytes=4))
    chunks = reply.feed(added(message(id="m" * 9), 0) + delta("ab") + delta("cd") + delta("e"))
    assert shown(chunks) == ["text:ab", "text:cd"]
    assert (reply.phase, reply.content_events) == (Phase.FAILED, 3)
    assert reply.fault is not None
    assert reply.fault.error is ProtocolViolation
    assert reply.fault.message == "the answer has over 4 bytes (limits.max_answer_bytes)"


ONE_OF_MANY: Sequence[Callable[[int], bytes]] = (
    lambda n: delta("x", n),
    lambda n: delta("x", content_index=n),
    lambda n: delta("x", None, item_id=f"m{n}"),
    lambda n: added(message(id=f"m{n}"), n),
    lambda n: done(message(id=f"m{n}"), 0),
    lambda n: done(message()),
    lambda n: added(message(id="m"), n),
    lambda n: event("output_item.added", item=message(id="m", call_id=f"c{n}")),
    lambda n: thought("x", n),
    lambda n: arguments("x", n, call_id=f"c{n}"),
    lambda n: done(call("{}", call_id=f"c{n}"), n),
    lambda n: done({"type": "web_search_call", "id": f"w{n}"}, n),
    lambda n: done(reasoning(encrypted_content="x"), n),
)


@pytest.mark.parametrize("one", ONE_OF_MANY)
def test_items_of_a_byte_each_cannot_fill_the_memory(one: Callable[[int], bytes]) -> None:
    reply = decoder(limits=Limits(max_answer_bytes=50_000))
    for n in range(200):
        reply.feed(one(n))
    assert reply.phase is Phase.FAILED


def test_a_long_name_counts_but_for_the_first() -> None:
    phases: list[Phase] = []
    reply = decoder(limits=Limits(max_answer_bytes=5000))
    for each in "abc":
        reply.feed(delta("x", None, item_id=each * 4000))
        phases.append(reply.phase)
    assert phases == [Phase.OPEN, Phase.OPEN, Phase.FAILED]


def test_what_is_kept_to_go_back_counts() -> None:
    reply = decoder(limits=Limits(max_answer_bytes=2000))
    phases: list[Phase] = []
    for n in range(2):
        reply.feed(done(reasoning(encrypted_content="x" * 800), n))
        phases.append(reply.phase)
    assert phases == [Phase.OPEN, Phase.FAILED]


def test_the_final_response_does_not_count_again_what_is_kept_already() -> None:
    item = reasoning(encrypted_content="x" * 600)
    reply = decoder(limits=Limits(max_answer_bytes=2500))
    reply.feed(done(item, 0) + done(message("a"), 1) + completed(item, message("a")))
    assert reply.phase is Phase.ENDED


# ---- what only the provider understands ---------------------------------------------------------

SEALED = reasoning("Moon.", id="rs_1", encrypted_content="c2VhbGVk", status="completed")
AGAIN = {**SEALED, "id": "rs_2"}
LOOKED: Fields = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def kept(reply: ResponsesDecoder, stats: CallStats) -> JSON:
    return whole(reply, stats).message.get("opaque")


def says(text: str, **fields: JSON) -> Fields:
    return {"type": "message", "role": "assistant", "content": text, **fields}


def asks(given: str, **fields: JSON) -> Fields:
    return {
        "type": "function_call",
        "call_id": "c1",
        "name": "tide_at",
        "arguments": given,
        **fields,
    }


A_CALL = call("{}", id="fc_1", call_id="c1", status="completed")
A_MESSAGE = message("Ebb.", id="msg_1", status="completed")


@pytest.mark.parametrize(
    ("output", "goes_back"),
    [
        ([SEALED, A_CALL], [SEALED, asks("{}")]),
        ([SEALED, A_MESSAGE], [SEALED, says("Ebb.")]),
        ([SEALED, A_MESSAGE, A_CALL], [SEALED, says("Ebb."), asks("{}")]),
        ([SEALED, A_CALL, AGAIN, A_MESSAGE], [SEALED, asks("{}"), AGAIN, says("Ebb.")]),
        ([LOOKED, A_MESSAGE], [LOOKED, says("Ebb.")]),
        ([A_MESSAGE, LOOKED], [says("Ebb."), LOOKED]),
        # vLLM sends messages of nothing before calls.
        ([SEALED, message(), A_CALL], [SEALED, asks("{}")]),
        (
            [message("I look.", phase="commentary"), A_CALL],
            [says("I look.", phase="commentary"), asks("{}")],
        ),
        (
            [message("a", "b", phase="commentary"), message("c", phase="final_answer")],
            [says("ab", phase="commentary"), says("c", phase="final_answer")],
        ),
        ([SEALED, refusing("No.")], [SEALED, says("No.")]),
        (
            [{"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"}],
            [{"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"}],
        ),
        # Reasoning that anybody can read: vLLM, llama.cpp.
        ([reasoning(content=["Moon."]), A_CALL], [reasoning(content=["Moon."]), asks("{}")]),
        # The message says it all.
        ([A_MESSAGE, A_CALL], None),
        ([], None),
        # Reasoning that nothing follows is refused (openai-node#1567) ...
        ([A_MESSAGE, SEALED], None),
        ([LOOKED, A_MESSAGE, SEALED, AGAIN], [LOOKED, says("Ebb.")]),
        ([SEALED], None),
        # ... and so is what refers to something that is not stored (vercel/ai#7543).
        ([reasoning("Moon.", id="rs_1", encrypted_content=None), A_CALL], None),
        ([reasoning("Moon.", id="rs_1"), LOOKED, A_MESSAGE], [LOOKED, says("Ebb.")]),
        # Half a character could not be sent.
        ([{**SEALED, "summary": [{"type": "summary_text", "text": "\ud83c"}]}, A_CALL], None),
        # What has no id cannot be answered.
        ([SEALED, call("{}")], [SEALED, {**asks("{}"), "call_id": ""}]),
    ],
)
def test_the_items_of_an_answer_are_kept_where_its_message_does_not_say_them(
    output: list[JSON], goes_back: list[JSON] | None, stats: CallStats
) -> None:
    pieces = [done(item, i) for i, item in enumerate(output)]
    for events in ([*pieces, completed()], [*pieces, completed(*output)], [completed(*output)]):
        opaque = kept(fed(*events)[0], stats)
        assert (goes_back is None) == (opaque is None)
        if isinstance(opaque, dict):
            assert opaque["output"] == goes_back
            assert opaque["dialect"] == "openai-responses"


def test_what_is_sealed_is_kept_for_the_host_that_sealed_it(stats: CallStats) -> None:
    sealed = kept(fed(completed(SEALED, A_CALL))[0], stats)
    assert isinstance(sealed, dict)
    assert sealed["host"] == "eu.invalid"
    plain = kept(fed(completed(reasoning(content=["Moon."]), A_CALL))[0], stats)
    assert isinstance(plain, dict)
    assert "host" not in plain


def test_a_reference_to_reasoning_is_kept_where_the_provider_stores_it(stats: CallStats) -> None:
    reference = reasoning(id="rs_1")
    reply, _ = fed(
        event("created", response=response(store=True)), done(reference), done(A_CALL), completed()
    )
    opaque = kept(reply, stats)
    assert isinstance(opaque, dict)
    assert opaque["output"] == [reference, asks("{}")]


def test_nothing_is_kept_of_items_that_are_not_the_answer(stats: CallStats) -> None:
    # The text came in pieces; of the items only some came, or other ones.
    for events in (
        [done(SEALED, 0), delta("Ebb.", 1), completed()],
        [done(SEALED, 0), delta("Ebb.", 1), completed(SEALED, message("Flood!"))],
        [done(SEALED, 0), added(call(call_id="c1"), 1), arguments("{}", 1), completed()],
        [done(SEALED, 0), event("refusal.delta", delta="No."), completed()],
    ):
        assert kept(fed(*events)[0], stats) is None


def test_an_item_that_ends_twice_is_kept_once(stats: CallStats) -> None:
    opaque = kept(fed(done(SEALED, 0), done(SEALED, 0), done(A_CALL, 1), completed())[0], stats)
    assert isinstance(opaque, dict)
    assert opaque["output"] == [SEALED, asks("{}")]


def test_the_order_of_the_final_response_is_that_of_the_answer(stats: CallStats) -> None:
    # A server that streams texts only.
    opaque = kept(fed(delta("Ebb."), completed(SEALED, A_MESSAGE))[0], stats)
    assert isinstance(opaque, dict)
    assert opaque["output"] == [SEALED, says("Ebb.")]


def test_nothing_is_kept_of_an_answer_that_was_cut(stats: CallStats) -> None:
    reply, _ = fed(done(SEALED, 0), done(A_CALL, 1))
    assert kept(reply, stats) is None


# ---- anything -----------------------------------------------------------------------------------

NAMES = [
    *("item", "item_id", "id", "call_id", "output_index", "content_index", "summary_index"),
    *("delta", "text", "refusal", "arguments", "input", "name", "part", "content", "summary"),
    *("response", "output", "output_text", "status", "error", "incomplete_details", "usage"),
    *("object", "store", "phase", "encrypted_content", "message", "code", "reason"),
]
TYPES = [
    *("output_item.added", "output_item.done", "content_part.done", "reasoning_summary_part.done"),
    *("output_text.delta", "output_text.done", "content_part.delta", "refusal.delta"),
    *("reasoning_text.delta", "reasoning_summary_text.delta", "reasoning_summary_text.done"),
    *("function_call_arguments.delta", "function_call_arguments.done"),
    *("custom_tool_call_input.delta", "custom_tool_call_input.done"),
    *("created", "completed", "incomplete", "failed", "done"),
]
ITEM_TYPES = ["message", "reasoning", "function_call", "custom_tool_call", "web_search_call"]

ITEM_TYPES_AND_OTHER: Sequence[JSON] = (*ITEM_TYPES, ["message"], {}, None)
PART_TYPES_AND_OTHER: Sequence[JSON] = ("output_text", "refusal", "reasoning_text", [], 1)

words: Values = st.sampled_from(
    [None, True, 0, 1, -1, "", "a", "ab", "completed", "response", "\ud83c"]
)
anything: Values = st.recursive(
    words,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=10,
)
texts: Values = st.lists(table({"text": words, "refusal": words}), max_size=2)
items: Values = table(
    {"type": st.sampled_from(ITEM_TYPES_AND_OTHER)},
    {
        **dict.fromkeys(("id", "call_id", "name", "arguments", "input"), words),
        **dict.fromkeys(("content", "summary"), either(texts, words)),
        **dict.fromkeys(("phase", "encrypted_content"), words),
    },
)
events: Values = table(
    {"type": st.sampled_from([f"response.{name}" for name in TYPES])},
    {
        **dict.fromkeys(("item_id", "call_id", "name", "delta", "text", "arguments"), words),
        **dict.fromkeys(("output_index", "content_index", "summary_index", "input"), words),
        "item": either(items, words),
        "part": table({"type": st.sampled_from(PART_TYPES_AND_OTHER)}, {"text": words}),
        "response": either(
            table(
                {"output": st.lists(items, max_size=3)},
                dict.fromkeys(("status", "error", "store", "usage"), words),
            ),
            anything,
        ),
    },
)
streams = st.lists(
    events.map(data)
    | anything.map(data)
    | st.sampled_from([b": c\n\n", b"data: [DONE]\n\n", b"data: \xff\n\n", b"data: {"]),
    max_size=8,
)


@settings(deadline=None)
@given(streams, st.lists(st.integers(1, 60), max_size=12))
def test_nothing_that_a_provider_sends_raises_and_no_cut_changes_what_it_means(
    stats: CallStats, stream: list[bytes], sizes: list[int]
) -> None:
    body = b"".join(stream)
    once, cut = decoder(), decoder()
    chunks = once.feed(body)
    chunks += once.close()
    pieces, position = list[Chunk](), 0
    for size in sizes:
        pieces += cut.feed(body[position : position + size])
        position += size
    pieces += cut.feed(body[position:])
    pieces += cut.close()
    assert pieces == chunks
    assert whole(cut, stats) == whole(once, stats)
    assert (cut.phase, cut.fault, cut.content_events, cut.keepalives) == (
        once.phase,
        once.fault,
        once.content_events,
        once.keepalives,
    )
    assert (once.fault is not None) == (once.phase is Phase.FAILED)
    assert once.answer.text("text") == "".join(chunk.text for chunk in chunks)
    assert not chunks or once.content_events > 0
