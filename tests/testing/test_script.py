from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, cast

import pytest

from polygateway.testing import (
    Send,
    Silence,
    answer,
    chunk,
    comment,
    cut,
    done,
    empty,
    error_frame,
    finish,
    hang,
    headers,
    keepalives,
    page,
    ping,
    raw,
    reasoning,
    refusal,
    reset,
    role,
    silence,
    status,
    together,
    tool_call,
    usage,
)
from polygateway.testing.script import checked

if TYPE_CHECKING:
    from polygateway.messages import JSON
    from polygateway.testing import Script, Step


def event(step: Step) -> dict[str, JSON]:
    """Decode the one event of *step*: a data field, JSON, an empty line."""
    assert isinstance(step, Send)
    assert step.data.startswith(b"data: ")
    assert step.data.endswith(b"\n\n")
    assert step.data.count(b"\n") == 2
    return cast("dict[str, JSON]", json.loads(step.data[6:]))


def delta(step: Step) -> JSON:
    choices = cast("list[dict[str, JSON]]", event(step)["choices"])
    assert len(choices) == 1
    assert choices[0]["index"] == 0
    return choices[0]["delta"]


def duration(script: Script) -> float:
    return math.fsum(step.seconds for step in script if isinstance(step, Silence))


def test_the_pieces_of_an_answer_are_deltas_of_openais_chat_stream() -> None:
    assert delta(chunk("潮")) == {"content": "潮"}
    assert delta(reasoning("so")) == {"reasoning_content": "so"}
    assert delta(refusal("no")) == {"refusal": "no"}
    assert delta(role()) == {"role": "assistant", "content": ""}
    assert delta(empty()) == {"content": ""}
    assert "潮".encode() in chunk("潮").data
    assert event(chunk("a"))["object"] == "chat.completion.chunk"


def test_a_tool_call_names_itself_once_and_then_sends_pieces_of_its_arguments() -> None:
    assert delta(tool_call(id="call_1", name="tide")) == {
        "tool_calls": [
            {
                "index": 0,
                "id": "call_1",
                "type": "function",
                "function": {"name": "tide", "arguments": ""},
            }
        ]
    }
    assert delta(tool_call('{"at":', index=1)) == {
        "tool_calls": [{"index": 1, "function": {"arguments": '{"at":'}}]
    }


def test_finish_usage_and_error_are_events_of_their_own() -> None:
    choices = cast("list[dict[str, JSON]]", event(finish("length"))["choices"])
    assert (choices[0]["delta"], choices[0]["finish_reason"]) == ({}, "length")
    assert event(usage(7, 5))["choices"] == []
    assert event(usage(7, 5))["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "total_tokens": 12,
    }
    assert event(error_frame("busy", type="overloaded_error", code=529)) == {
        "error": {"message": "busy", "type": "overloaded_error", "code": 529}
    }


def test_keepalives_and_the_end_marker_are_what_providers_send() -> None:
    assert comment("OPENROUTER PROCESSING").data == b": OPENROUTER PROCESSING\n\n"
    assert ping().data == b'event: ping\ndata: {"type": "ping"}\n\n'
    assert done().data == b"data: [DONE]\n\n"
    assert raw(b"\x00").data == b"\x00"


@pytest.mark.parametrize(
    "step", [chunk("a"), reasoning("a"), refusal("a"), tool_call("{"), tool_call(name="f")]
)
def test_text_reasoning_refusal_and_tool_calls_are_one_content_chunk_each(step: Send) -> None:
    assert step.content == 1


EVENTS = (chunk(""), reasoning(""), role(), empty(), comment(), ping(), finish(), usage(1, 1))
OTHERS = (done(), error_frame("x"), raw(b"x"), tool_call(id="call_1"))


@pytest.mark.parametrize("step", [*EVENTS, *OTHERS])
def test_nothing_else_is_content(step: Send) -> None:
    assert step.content == 0


def test_together_is_one_write_with_the_bytes_and_counts_of_its_parts() -> None:
    both = together(chunk("a"), comment(), chunk("b"))
    assert both.data == chunk("a").data + comment().data + chunk("b").data
    assert (both.content, both.text) == (2, "ab")


def test_an_answer_has_role_pieces_finish_usage_and_end_marker() -> None:
    tide = answer("The ", "tide ", "turns.", every_s=0.02)
    writes = [step for step in tide if isinstance(step, Send)]
    pieces = [chunk("The "), chunk("tide "), chunk("turns.")]
    assert writes == [role(), *pieces, finish(), usage(7, 3), done()]
    assert [step for step in tide if isinstance(step, Silence)] == [silence(0.02)] * 3
    assert tide.index(silence(0.02)) < tide.index(chunk("The "))


def test_an_answer_without_waits_has_no_silences() -> None:
    assert answer("a") == (role(), chunk("a"), finish(), usage(7, 1), done())


@pytest.mark.parametrize(
    ("seconds", "every_s", "count"),
    [
        (1, 0.25, 3),  # at 0.25, 0.5 and 0.75; the end belongs to what follows
        (1, 0.3, 3),
        (0.25, 0.25, 0),
        (0, 0.25, 0),
        (1.1, 0.1, 10),  # in floats 1.1 / 0.1 is more than 11
        (2.002, 1.001, 1),  # in floats 1.001 * 1e9 is less than 1,001,000,000
        (55, 0.05, 1099),
    ],
)
def test_keepalives_fill_a_silence_and_end_before_it(
    seconds: float, every_s: float, count: int
) -> None:
    steps = keepalives(seconds, every_s=every_s, step=ping())
    assert steps.count(ping()) == count
    assert duration(steps) == pytest.approx(seconds, abs=1e-9)
    assert isinstance(steps[-1], Silence)
    assert duration(steps[:2]) == pytest.approx(min(seconds, every_s))


def test_keepalives_need_a_time_between_them() -> None:
    with pytest.raises(ValueError, match="every_s"):
        keepalives(1, every_s=0)


def test_a_status_is_a_whole_json_error_with_its_length() -> None:
    head, body = status(429, headers={"Retry-After": "2"})
    assert head.status == 429
    assert head.headers == {
        "content-type": "application/json",
        "content-length": str(len(body.data)),
        "retry-after": "2",
    }
    assert json.loads(body.data)["error"]["message"] == "scripted status 429"


def test_a_status_sends_a_mapping_as_json_and_text_and_bytes_as_they_are() -> None:
    assert json.loads(status(400, {"error": "é"})[1].data) == {"error": "é"}
    assert status(502, "Bad gateway")[1].data == b"Bad gateway"
    assert status(502, b"\xff")[0].headers["content-length"] == "1"


def test_a_page_is_html_with_status_200() -> None:
    head, body = page("<html>é</html>")
    assert head.status == 200
    assert head.headers["content-type"] == "text/html; charset=utf-8"
    assert body.data == "<html>é</html>".encode()


def test_headers_are_those_of_an_event_stream_unless_replaced() -> None:
    assert headers().headers["content-type"] == "text/event-stream"
    assert headers({"X-Request-Id": "r1"}).headers["x-request-id"] == "r1"
    assert headers({"Content-Type": "text/plain"}).headers["content-type"] == "text/plain"
    assert headers(status=206).status == 206


@pytest.mark.parametrize("seconds", [-0.1, math.nan, -math.inf])
def test_a_silence_cannot_be_negative(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds must be at least 0"):
        silence(seconds)


@pytest.mark.parametrize("end", [cut(), reset(), hang()])
def test_nothing_can_follow_an_end(end: Step) -> None:
    assert checked([chunk("a"), end]) == (chunk("a"), end)
    with pytest.raises(ValueError, match="must be the last step"):
        checked([end, chunk("a")])


def test_the_head_comes_before_everything_else_that_is_sent() -> None:
    assert len(checked([silence(1), headers(), silence(1), chunk("a")])) == 4
    with pytest.raises(ValueError, match="headers"):
        checked([chunk("a"), headers()])


def test_steps_that_were_not_unpacked_are_named() -> None:
    with pytest.raises(TypeError, match=r"is no step.*\*keepalives"):
        checked([chunk("a"), keepalives(1)])
