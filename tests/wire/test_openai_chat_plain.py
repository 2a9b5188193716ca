"""Events that bring text only are told apart early. Nobody can tell by what comes of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import example, given, strategies as st

from polygateway import Limits
from polygateway.wire.faults import error_in
from polygateway.wire.openai_chat import ChatDecoder
from polygateway.wire.openai_chat_plain import _Choice, _Delta, _Event, plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polygateway.messages import JSON
    from polygateway.wire.sse import Event

Names: TypeAlias = "Mapping[str, JSON]"


class Thorough(ChatDecoder):
    """Takes every event as if it could bring anything."""

    def plain_text(self, event: Event) -> str:
        return ""


def decoder(kind: type[ChatDecoder]) -> ChatDecoder:
    return kind(attempt=0, content_type="", limits=Limits(), base_url="http://h/v1")


def state(decoder: ChatDecoder) -> Sequence[object]:
    answer = decoder.answer
    texts = [answer.text(kind) for kind in ("text", "reasoning", "refusal")]
    parts = decoder.opaque_parts()
    seen = decoder.phase, decoder.fault, decoder.content_events, decoder.keepalives, decoder.form
    told = answer.id, answer.model, answer.usage, answer.raw_finish_reason, answer.size
    return [*seen, *told, *texts, answer.calls(ended=False), parts]


def alike(*events: str) -> None:
    """Feed both, an event a read, and compare them after each."""
    quick, thorough = decoder(ChatDecoder), decoder(Thorough)
    for event in events:
        data = f"data: {event}\n\n".encode()
        assert quick.feed(data) == thorough.feed(data)
        assert state(quick) == state(thorough)


def event(delta: Names, choice: Names | None = None, top: Names | None = None) -> str:
    whole = {"index": 0, "delta": delta, "finish_reason": None} | dict(choice or {})
    return json.dumps({"id": "c1", "model": "m1", "choices": [whole]} | dict(top or {}))


FIRST = event({"role": "assistant", "content": "Tide"})
PLAIN = event({"content": " turns"}, top={"object": "chat.completion.chunk", "usage": None})


# ---------------------------------------------------------------- what is plain


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        event({"content": " turns"}),
        event({"content": " turns", "role": "assistant", "refusal": None}),
        event({"content": " turns", "reasoning": "", "refusal": ""}),
        event({"content": " turns"}, {"finish_reason": "", "logprobs": {"content": [{}]}}),
        event({"content": " turns"}, top={"provider": "X", "created": 1, "obfuscation": "abc"}),
        event({"content": " turns"}, top={"system_fingerprint": "\ud83c\udf0a"}),
    ],
)
def test_text_beside_fields_that_nobody_reads_is_plain(text: str) -> None:
    assert plain_text(text) == " turns"


@pytest.mark.parametrize(
    "text",
    [
        event({}),
        event({"content": ""}),
        event({"content": None}),
        event({"content": ["x"]}),
        event({"content": "x", "refusal": "y"}),
        event({"content": "x", "tool_calls": []}),
        event({"content": "x", "function_call": {"name": "f"}}),
        event({"content": "x", "reasoning_details": [{"text": "y"}]}),
        event({"content": "x", "thinking_blocks": [{"thinking": "y"}]}),
        event({"content": "x", "reasoning_content": ""}),
        event({"content": "x", "reasoning": "y"}),
        event({"content": "x", "extra_content": {"google": {"thought": True}}}),
        event({"content": "x"}, {"index": 1}),
        event({"content": "x"}, {"finish_reason": "stop"}),
        event({"content": "x"}, {"error": {"message": "m"}}),
        event({"content": "x"}, {"usage": {"prompt_tokens": 1}}),
        event({"content": "x"}, top={"x_groq": {"usage": {"prompt_tokens": 1}}}),
        event({"content": "x"}, top={"usage": {"prompt_tokens": 1}}),
        event({"content": "x"}, top={"error": "m"}),
        event({"content": "x"}, top={"object": "error"}),
        event({"content": "x"}, top={"type": "error"}),
        event({"content": "x"}, top={"choices": []}),
        event({"content": "\ud83c"}),
        PLAIN[:-1],
        PLAIN.replace("null", "NaN"),
        PLAIN.replace("null", "[" * 5000 + "]" * 5000),
        "[DONE]",
        "7",
    ],
)
def test_what_may_mean_more_is_not_plain(text: str) -> None:
    assert plain_text(text) == ""


class Asked(dict[str, "JSON"]):
    """An object that knows which names it was asked for."""

    def __init__(self, value: Names) -> None:
        super().__init__(value)
        self.names: set[str] = set()

    def get(self, name: str, default: JSON = None, /) -> JSON:  # type: ignore[override]
        self.names.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)


def test_whatever_the_decoder_asks_a_plain_event_for_is_a_field_of_its_shape() -> None:
    delta = Asked({"content": "x"})
    choice = Asked({"index": 0, "delta": delta})
    top = Asked({"id": "c1", "model": "m1", "choices": [choice]})
    thorough = decoder(Thorough)
    thorough.take_object(top, [])
    assert not error_in(top)
    assert delta.names <= set(_Delta.__struct_fields__)
    assert choice.names <= set(_Choice.__struct_fields__)
    assert top.names <= {"id", "model", *_Event.__struct_fields__}


# ---------------------------------------------------------------- and comes to the same

CALL: JSON = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
POOL: tuple[JSON, ...] = (
    None,
    *("", "x", "ü", "\ud83c", "error", "null", "stop", 0, 1, 0.0, -1, True, False),
    *([], ["x"], [{"text": "x"}]),
    {},
    *({"message": "m"}, {"code": 1}, {"usage": {}}),
    {"prompt_tokens": 3, "completion_tokens": 4},
    {"google": {"thought": True}},
    [CALL],
    {"content": "y"},
)
DELTA = (
    *("content", "refusal", "reasoning_content", "reasoning", "reasoning_details"),
    *("thinking_blocks", "tool_calls", "function_call", "extra_content", "role", "other"),
)
CHOICE = (
    *("index", "delta", "message", "finish_reason", "native_finish_reason"),
    *("usage", "error", "logprobs", "other"),
)
TOP = (
    *("id", "model", "object", "type", "error", "code", "message"),
    *("usage", "x_groq", "choices", "created", "other"),
)


def some_of(names: Sequence[str]) -> st.SearchStrategy[Names]:
    return st.dictionaries(st.sampled_from(names), st.sampled_from(POOL), max_size=2)


def with_content(delta: Names) -> Names:
    return {"content": "a tide"} | dict(delta)


EVENTS = st.builds(
    event,
    some_of(DELTA).map(with_content) | some_of(DELTA),
    some_of(CHOICE) | st.none(),
    some_of(TOP) | st.none(),
)


@given(st.lists(EVENTS, max_size=6))
@example([event({"content": "x"}, {"index": 1}), PLAIN, PLAIN])
@example([event({}, {"finish_reason": "stop"}), PLAIN])
@example([event({"content": "<thought>x", "extra_content": {"google": {"thought": True}}}), PLAIN])
@example([event({"content": "\ud83c"}), PLAIN])
@example(["[DONE]", PLAIN])
def test_it_does_not_matter_whether_an_event_is_told_apart(events: list[str]) -> None:
    alike(FIRST, *events, PLAIN)


@given(st.integers(0, len(PLAIN)), st.text(st.characters(exclude_characters="\r\n"), max_size=3))
def test_nor_does_it_in_an_event_that_is_damaged(at: int, damage: str) -> None:
    alike(FIRST, PLAIN[:at] + damage + PLAIN[at + 1 :], PLAIN)


@pytest.mark.parametrize("first", [event({"content": "x"}, top={"id": None}), event({}), "{}"])
def test_nor_does_it_before_the_answer_is_known(first: str) -> None:
    alike(first, PLAIN, FIRST, PLAIN)


def test_text_under_the_name_of_an_error_is_an_error() -> None:
    quick = decoder(ChatDecoder)
    quick.feed(f"data: {FIRST}\n\n".encode())
    assert quick.feed(f"event: error\ndata: {PLAIN}\n\n".encode()) == []
    assert quick.fault is not None
