"""When an answer is whole: the tables that users read, the tables in the code, and the decoders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from polygateway.policies import Limits, Target
from polygateway.wire import DIALECTS
from polygateway.wire.completeness import COMPLETENESS, Fact, Verdict
from polygateway.wire.dialect import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway.policies import DialectName
    from polygateway.wire.dialect import Decoder

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "completeness.md"

ROW = re.compile(r"\| (yes|no) \| (yes|no) \| (yes|no) \| (\w+) \|")

CHAT = 'data: {"choices": [%s]}\n\n'
ANTHROPIC = 'data: {"type": "%s", %s}\n\n'
GEMINI = '{"candidates": [%s]}'

# What brings each fact on each wire. What brings two of them stands under both.
EVENTS: Mapping[DialectName, Mapping[Fact, str]] = {
    "openai-chat": {
        Fact.CONTENT: CHAT % '{"delta": {"content": "Ebb."}}',
        Fact.FINISH: CHAT % '{"finish_reason": "stop"}',
        Fact.END: "data: [DONE]\n\n",
    },
    "openai-responses": {
        Fact.CONTENT: ANTHROPIC % ("response.output_text.delta", '"delta": "Ebb."'),
        Fact.FINISH | Fact.END: ANTHROPIC
        % ("response.completed", '"response": {"status": "completed", "output": []}'),
    },
    "anthropic": {
        Fact.CONTENT: ANTHROPIC
        % ("content_block_delta", '"delta": {"type": "text_delta", "text": "Ebb."}'),
        Fact.FINISH: ANTHROPIC % ("message_delta", '"delta": {"stop_reason": "end_turn"}'),
        Fact.END: ANTHROPIC % ("message_stop", '"x": 1'),
    },
    "gemini": {
        Fact.CONTENT: GEMINI % '{"content": {"parts": [{"text": "Ebb."}]}}',
        Fact.FINISH: GEMINI % '{"finishReason": "STOP"}',
        Fact.END: "]",
    },
    "ollama": {
        Fact.CONTENT: '{"message": {"content": "Ebb."}, "done": false}\n',
        Fact.FINISH | Fact.END: '{"done": true, "done_reason": "stop"}\n',
        Fact.END: '{"done": true}\n',
    },
}


def documented() -> list[tuple[DialectName, Fact, Verdict]]:
    """Give the rows of the tables on the page."""
    rows: list[tuple[DialectName, Fact, Verdict]] = []
    for name in DIALECTS:
        section = PAGE.read_text("utf-8").split(f"\n## {name}\n")[1].split("\n## ")[0]
        for found in ROW.finditer(section):
            facts = Fact(0)
            for fact, said in zip(Fact, found.groups(), strict=False):
                facts |= fact if said == "yes" else Fact(0)
            rows.append((name, facts, Verdict(found[4])))
    return rows


ROWS = documented()


def decoder(dialect: DialectName) -> Decoder:
    return DIALECTS[dialect].decoder(
        attempt=0,
        target=Target(dialect=dialect, base_url="http://eu.invalid", model="m"),
        content_type="",
        limits=Limits(),
    )


def stream(dialect: DialectName, facts: Fact) -> bytes:
    """Write a stream that brings *facts* and no others."""
    events, tail = EVENTS[dialect], facts & ~Fact.CONTENT
    parts = [facts & Fact.CONTENT, *([tail] if tail in events else tail)]
    text = "[" if dialect == "gemini" else ""
    return (text + "".join(events[part] for part in parts if part)).encode()


OUTCOMES = {
    Phase.ENDED: Verdict.COMPLETE,
    Phase.OPEN: Verdict.TRUNCATED,
    Phase.FAILED: Verdict.NOTHING,
}


def test_the_page_has_a_table_for_every_dialect() -> None:
    assert {name for name, _, _ in ROWS} == set(DIALECTS) == set(COMPLETENESS)
    assert len(ROWS) == 3 * 8 + 4 + 6
    assert len({(name, facts) for name, facts, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("name", "facts", "verdict"), ROWS)
def test_the_page_says_what_the_code_says(name: str, facts: Fact, verdict: Verdict) -> None:
    assert COMPLETENESS[name][facts] is verdict


@pytest.mark.parametrize(("name", "facts", "verdict"), ROWS)
def test_the_end_of_the_transport_gives_what_the_page_says(
    name: DialectName, facts: Fact, verdict: Verdict
) -> None:
    reply = decoder(name)
    reply.feed(stream(name, facts))
    reply.close()
    assert OUTCOMES[reply.phase] is verdict


@pytest.mark.parametrize(("name", "facts", "verdict"), ROWS)
def test_before_the_transport_ends_only_the_wire_s_own_end_ends_an_answer(
    name: DialectName, facts: Fact, verdict: Verdict
) -> None:
    reply = decoder(name)
    reply.feed(stream(name, facts))
    if Fact.END in facts:
        assert reply.phase is (Phase.ENDED if verdict is Verdict.COMPLETE else Phase.FAILED)
    else:
        assert reply.phase is (Phase.FINISHING if Fact.FINISH in facts else Phase.OPEN)
