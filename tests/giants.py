"""Answers that are as large as they may be, or made to cost more than they weigh.

``benchmarks/check_hostile.py`` measures what they take.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from tests.hostile import WIRES, Attack, Wire, head, numbered, sse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tests.hostile import Bound, Bytes

KIB = 1024
MIB = 1024 * KIB
EVENT = 8 * MIB - 2 * KIB
BODY = ANSWER = 16 * MIB - 64 * KIB

ENDS: Mapping[str, bytes] = {
    "openai-chat": sse({"choices": [{"index": 0, "finish_reason": "stop"}]}),
    "openai-responses": sse({"type": "response.completed", "response": {"status": "completed"}}),
    "anthropic": sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    "gemini": sse({"candidates": [{"finishReason": "STOP"}]}),
    "gemini without alt=sse": b'{"candidates": [{"finishReason": "STOP"}]}]',
    "ollama": b'{"done": true}\n',
}


def _sent(make: Callable[[], Iterable[bytes]]) -> Callable[[], Bytes]:
    """Make it only where it is sent: what is measured is the memory of another process."""
    return lambda: iter(make())


def _on(name: str, wire: Wire) -> Iterator[tuple[str, Bound, str, Callable[[], Iterable[bytes]]]]:
    before, after = wire.text("@").split(b'"@"')
    end = ENDS[name]

    def one(text: bytes, fill: bytes, close: bytes) -> Callable[[], Iterable[bytes]]:
        return lambda: [wire.head, before, text, fill * (EVENT // len(fill)), close, after, end]

    def many(text: str) -> Callable[[], Iterable[bytes]]:
        count = ANSWER // len(text)
        return lambda: [wire.head, *itertools.repeat(wire.text(text), count), end]

    yield "one large event", "max_event_bytes", "complete", one(b'"', b"x", b'"')
    yield "one event of escapes", "max_event_bytes", "complete", one(b'"', b"\\u0001", b'"')
    yield "an event of arrays", "max_event_bytes", "24 MiB", one(b"[", b"[],", b"0]")
    yield "an event of objects", "max_event_bytes", "24 MiB", one(b"[", b'{"":0},', b"0]")
    yield "an event of numbers", "max_event_bytes", "24 MiB", one(b"[", b"999,", b"0]")
    yield "large text", "max_answer_bytes", "complete", many("x" * 4000)
    yield "text and emoji", "max_answer_bytes", "max_answer_bytes", many("x" * 3999 + "\U0001f30a")


def _document(fill: bytes) -> Callable[[], Iterable[bytes]]:
    value = fill * (BODY // len(fill))
    opening, closing = (b'"', b'"') if fill == b"x" else (b"[", b"0]")
    return lambda: [
        head("content-type: application/json", "connection: close"),
        b'{"choices": [{"finish_reason": "stop", "message": {"content": ',
        opening + value + closing,
        b"}}]}",
    ]


def _choices() -> Callable[[], Bytes]:
    return numbered(
        WIRES["openai-chat"].head,
        lambda n: sse({"choices": [{"index": n, "delta": {"content": "x"}}]}),
    )


def _giants() -> Iterator[tuple[str, Attack]]:
    for name, wire in WIRES.items():
        for what, bound, says, make in _on(name, wire):
            attack = Attack(dialect=wire.dialect, bound=bound, says=says, sent=_sent(make))
            yield f"{name}: {what}", attack
    for what, says, fill in (
        ("a large document", "complete", b"x"),
        ("a document of arrays", "24 MiB", b"[],"),
        ("a document of objects", "24 MiB", b'{"":0},'),
    ):
        sent, bound = _sent(_document(fill)), "max_body_bytes"
        yield what, Attack(dialect="openai-chat", bound=bound, says=says, sent=sent)
    bound = "max_answer_bytes"
    yield "choices", Attack(dialect="openai-chat", bound=bound, says=bound, sent=_choices())


GIANTS: Mapping[str, Attack] = dict(_giants())
"""By name."""
