from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from polygateway.policies import Limits, Target
from polygateway.wire import DIALECTS
from polygateway.wire.halves import Halves

WAVE = "🌊"
HIGH, LOW = "\ud83c", "\udf0a"  # as JavaScript has it


@pytest.mark.parametrize(
    ("pieces", "given"),
    [
        (["a", "é", WAVE], ["a", "é", WAVE]),
        ([HIGH, LOW], ["", WAVE]),
        ([f"a{HIGH}", f"{LOW}b"], ["a", f"{WAVE}b"]),
        ([f"{HIGH}{LOW}"], [WAVE]),
        ([HIGH, f"{LOW}{HIGH}", LOW], ["", WAVE, WAVE]),
        # The other half does not come.
        ([HIGH, "a"], ["", "\ufffda"]),
        ([HIGH, HIGH, LOW], ["", "\ufffd", WAVE]),
        ([LOW, "a"], ["\ufffd", "a"]),
        ([f"a{HIGH}b{LOW}c"], ["a\ufffdb\ufffdc"]),
        (["a", HIGH], ["a", ""]),
    ],
)
def test_the_halves_of_a_character_are_joined(pieces: list[str], given: list[str]) -> None:
    halves = Halves()
    assert [halves.take("text", piece) for piece in pieces] == given


def test_the_halves_of_two_texts_are_not_mixed() -> None:
    halves = Halves()
    assert halves.take("text", HIGH) == ""
    assert halves.take("reasoning", LOW) == "\ufffd"
    assert halves.take("text", LOW) == WAVE


units = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(
    lambda text: text.encode("utf-16-le")
)


@given(units, st.lists(st.integers(1, 5), min_size=1))
def test_a_text_cut_at_any_of_its_units_is_whole_again(text: bytes, sizes: list[int]) -> None:
    halves, given, at = Halves(), "", 0
    while at < len(text):
        size = 2 * sizes[at % len(sizes)]
        piece = text[at : at + size].decode("utf-16-le", "surrogatepass")
        given += halves.take("text", piece)
        at += size
    assert given == text.decode("utf-16-le")


@given(st.lists(st.text(st.characters(), min_size=1), max_size=5))
def test_whatever_comes_can_be_encoded(pieces: list[str]) -> None:
    halves = Halves()
    assert "".join(halves.take("text", piece) for piece in pieces).encode() is not None


def test_nothing_that_an_application_is_given_has_half_a_character() -> None:
    target = Target(dialect="openai-chat", base_url="http://eu.invalid/v1", model="lyra-3")
    decoder = DIALECTS["openai-chat"].decoder(
        attempt=0, target=target, content_type="text/event-stream", limits=Limits()
    )
    call = {"index": 0, "id": "c", "function": {"name": "n", "arguments": f'{{"a":"{HIGH}'}}
    rest = {"index": 0, "function": {"arguments": f'{LOW}"}}'}}
    deltas = [
        *({"content": f"a{HIGH}"}, {"content": LOW}),
        *({"reasoning_content": HIGH}, {"reasoning_content": "b"}),
        *({"tool_calls": [call]}, {"tool_calls": [rest]}),
        {"content": HIGH},
    ]
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    chunks = decoder.feed(body.encode())
    texts = {
        kind: "".join(chunk.delta for chunk in chunks if chunk.kind == kind)
        for kind in ("text", "reasoning", "tool_call")
    }
    assert texts == {"text": f"a{WAVE}", "reasoning": "\ufffdb", "tool_call": f'{{"a":"{WAVE}"}}'}
    assert decoder.content_events == len(deltas)
