"""What the provider of the benchmarks writes, and when, by the name of the model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import h11
import pytest

from benchmarks.speed.scripts import END, NEVER, Step, answers, chunks_in
from benchmarks.speed.wires import COMMENT, WIRES, AnthropicWire, OpenAIWire, framed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.speed.wires import Wire

OPENAI = OpenAIWire.path
DIGITS = "0123456789" * 2
each_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def steps_of(model: str, path: str = OPENAI) -> Sequence[Step]:
    (steps,) = answers(model, path)
    return steps


def body_of(steps: Sequence[Step], stamp: bytes = b"7" * 20) -> bytes:
    """Give the body that the steps write, without HTTP's chunks."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for step in steps:
        rest = b"" if step.rest is None else stamp + step.rest
        client.receive_data(step.data + rest)
    body = b""
    while not isinstance(event := client.next_event(), h11.EndOfMessage):
        body += bytes(event.data) if isinstance(event, h11.Data) else b""
    return body


def contents_in(body: bytes) -> Sequence[str]:
    """Give the texts of OpenAI's wire."""
    events = [event.removeprefix(b"data: ") for event in body.split(b"\n\n")]
    choices = [json.loads(each)["choices"][0] for each in events if each.startswith(b"{")]
    return [text for each in choices if (text := each["delta"].get("content"))]


@each_wire
@pytest.mark.parametrize("size", [250, 400, 1000])
def test_an_event_with_a_text_of_20_characters_has_the_size_that_was_asked_for(
    wire: Wire, size: int
) -> None:
    event = wire.content(DIGITS, size)
    assert len(event) == size
    assert event.endswith(b"\n\n")
    assert DIGITS.encode() in event


@each_wire
def test_an_event_too_small_for_its_wire_is_refused(wire: Wire) -> None:
    with pytest.raises(ValueError, match="an event of 60 bytes is too small by"):
        wire.around(60)


@each_wire
def test_the_data_of_every_event_is_json_or_the_end_mark(wire: Wire) -> None:
    for event in (*wire.begin(), wire.content('"quoted"\n'), *wire.end(3)):
        data = event[event.index(b"data: ") + 6 : -2]
        assert data == b"[DONE]" or isinstance(json.loads(data), dict)


def test_anthropics_events_are_named_as_their_data_is() -> None:
    wire = AnthropicWire()
    for event in (*wire.begin(), wire.content("x"), *wire.end(3)):
        name, data = event.removesuffix(b"\n\n").split(b"\n")
        assert name == b"event: " + json.loads(data[6:])["type"].encode()


def test_a_burst_numbers_its_contents() -> None:
    texts = contents_in(body_of(steps_of("burst-100")))
    assert texts == [f"{number:020d}" for number in range(100)]


def test_a_burst_is_written_64_events_at_a_time() -> None:
    steps = steps_of("burst-200")
    assert [step.pause_ns for step in steps] == [0] * len(steps)
    # The role, 200 contents, the finish reason, the end mark, and the end of the body.
    assert [step.data.count(b"\r\n\r\n") for step in steps[:-1]] == [0] * 3
    assert [step.data.count(b"data: ") for step in steps] == [64, 64, 64, 11]


def test_a_small_answer_is_one_write() -> None:
    assert len(steps_of("burst-1")) == 1


def test_a_paced_content_is_the_time_at_which_it_is_written() -> None:
    steps = steps_of("paced-3-20ms")
    assert [step.pause_ns for step in steps] == [0, 20_000_000, 20_000_000, 20_000_000]
    assert contents_in(body_of(steps, stamp=DIGITS.encode())) == [DIGITS] * 3


def test_what_needs_no_pause_comes_with_what_is_before_it() -> None:
    steps = steps_of("paced-1-5ms")
    assert steps[-1].rest is not None
    assert steps[-1].rest.endswith(END.data)


def test_keep_alives_are_comments() -> None:
    steps = steps_of("keepalives-2-50ms,burst-1")
    assert [step.pause_ns for step in steps] == [0, 50_000_000, 50_000_000]
    assert body_of(steps).count(COMMENT) == 2


def test_a_stall_delays_what_follows() -> None:
    steps = steps_of("burst-2,stall-1500ms,burst-1")
    assert [step.pause_ns for step in steps] == [0, 1_500_000_000]
    assert len(contents_in(body_of(steps))) == 3


def test_a_silent_answer_says_its_role_and_nothing_more() -> None:
    first, second = steps_of("silent")
    assert contents_in(first.data) == []
    assert second.pause_ns == NEVER


def test_each_request_of_a_call_may_get_another_answer() -> None:
    silent, whole = answers("silent|burst-5", OPENAI)
    assert silent == steps_of("silent")
    assert whole == steps_of("burst-5")


@pytest.mark.parametrize(
    ("model", "chunks"),
    [
        ("burst-20000-300", 20_000),
        ("paced-50-20ms", 50),
        ("burst-2,stall-10ms,paced-3-0.8ms,keepalives-9-1ms", 5),
        ("silent|burst-7", 7),
    ],
)
def test_a_model_tells_how_many_chunks_its_last_answer_has(model: str, chunks: int) -> None:
    assert chunks_in(model) == chunks


@pytest.mark.parametrize("model", ["", "gpt-4o", "burst", "paced-5", "burst-many"])
def test_an_unknown_model_is_refused(model: str) -> None:
    with pytest.raises(ValueError, match=r"knows no step|invalid literal"):
        answers(model, OPENAI)


def test_an_event_is_framed_as_a_chunk_of_http() -> None:
    assert framed(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
