"""What a provider sends that means no good, or goes on for ever, on every wire.

``test_hostile_streams.py`` tries it, ``test_watchdogs.py`` its keep-alives.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from polygateway import (
    FirstContentTimeout,
    GatewayError,
    ProtocolViolation,
    ServerError,
    StallTimeout,
)
from polygateway.policies import DialectName

if TYPE_CHECKING:
    from polygateway.messages import JSON

Bytes: TypeAlias = Iterator[bytes]

KIB = 1024
SSE = "text/event-stream"


# ---------------------------------------------------------------- the wires


@attrs.frozen(kw_only=True)
class Wire:
    """How one dialect says the few things that matter here."""

    dialect: DialectName
    content_type: str
    text: Callable[[str], bytes]
    """An event with a piece of text."""

    call: Callable[[int, str], bytes]
    """An event, or two, with a piece of the arguments of the n-th tool call: inside a string."""

    keepalives: Mapping[str, bytes]
    """Events without content, by name."""

    beginning: bytes = b""
    """Before the first event."""

    @property
    def head(self) -> bytes:
        """The head of a stream that ends with its connection."""
        return head(f"content-type: {self.content_type}") + self.beginning


def head(*lines: str, status: str = "200 OK") -> bytes:
    """Give the head of a response."""
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


def sse(value: JSON, *, name: str = "") -> bytes:
    """Give a value as an event."""
    event = f"event: {name}\n" if name else ""
    return f"{event}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def _typed(**fields: JSON) -> bytes:
    return sse(fields, name=str(fields["type"]))


def _chat(**delta: JSON) -> bytes:
    return sse({"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def _chat_call(n: int, piece: str) -> bytes:
    function: JSON = {"name": "look_up", "arguments": piece}
    return _chat(tool_calls=[{"index": n, "id": f"call_{n}", "function": function}])


def _responses_text(piece: str) -> bytes:
    return _typed(type="response.output_text.delta", output_index=0, content_index=0, delta=piece)


def _responses_call(n: int, piece: str) -> bytes:
    call: JSON = {"type": "function_call", "id": f"fc_{n}", "call_id": f"c_{n}", "name": "look_up"}
    added = _typed(type="response.output_item.added", output_index=n, item=call)
    delta = "response.function_call_arguments.delta"
    return added + _typed(type=delta, output_index=n, item_id=f"fc_{n}", delta=piece)


def _anthropic_text(piece: str) -> bytes:
    delta: JSON = {"type": "text_delta", "text": piece}
    return _typed(type="content_block_delta", index=0, delta=delta)


def _anthropic_call(n: int, piece: str) -> bytes:
    block: JSON = {"type": "tool_use", "id": f"toolu_{n}", "name": "look_up", "input": {}}
    delta: JSON = {"type": "input_json_delta", "partial_json": piece}
    return _typed(type="content_block_start", index=n, content_block=block) + _typed(
        type="content_block_delta", index=n, delta=delta
    )


def _gemini(*parts: JSON) -> JSON:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}}]}


def _gemini_call(n: int, piece: str) -> JSON:
    return _gemini({"functionCall": {"name": f"look_up_{n}", "args": {"a": piece}}})


def _element(value: JSON) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b",\n"


def _line(**message: JSON) -> bytes:
    value: JSON = {"message": {"role": "assistant", **message}, "done": False}
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _ollama_call(n: int, piece: str) -> bytes:
    function: JSON = {"name": f"look_up_{n}", "arguments": {"a": piece}}
    return _line(content="", tool_calls=[{"function": function}])


_GEMINI_SILENCE: Mapping[str, JSON] = {
    "empty text": _gemini({"text": ""}),
    "no parts": _gemini(),
    "no candidates": {"candidates": []},
    "usage": {"usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}},
    "empty object": {},
}
_COMMENTS: Mapping[str, bytes] = {
    "comment": b": keep-alive\n\n",
    "bare comment": b":\n",
    "blank line": b"\n",
    "event without data": b"id: 1\nretry: 10\n\n",
    "unknown event": b"event: heartbeat\ndata: {}\n\n",
}

WIRES: Mapping[str, Wire] = {
    "openai-chat": Wire(
        dialect="openai-chat",
        content_type=SSE,
        text=lambda piece: _chat(content=piece),
        call=_chat_call,
        keepalives={
            **_COMMENTS,
            "role": _chat(role="assistant", content=""),
            "empty delta": _chat(content=""),
            "null delta": _chat(content=None),
            "no choices": sse({"choices": []}),
            "usage": sse({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 0}}),
            "wrapped comment": b"data: : keep-alive\n\n",
        },
    ),
    "openai-responses": Wire(
        dialect="openai-responses",
        content_type=SSE,
        text=_responses_text,
        call=_responses_call,
        keepalives={
            **_COMMENTS,
            "created": _typed(type="response.created", response={"id": "r1"}),
            "in progress": _typed(type="response.in_progress", response={"id": "r1"}),
            "part added": _typed(
                type="response.content_part.added",
                output_index=0,
                content_index=0,
                part={"type": "output_text", "text": ""},
            ),
            "empty delta": _responses_text(""),
            "unknown type": _typed(type="response.thing.happened", sequence_number=7),
        },
    ),
    "anthropic": Wire(
        dialect="anthropic",
        content_type=SSE,
        text=_anthropic_text,
        call=_anthropic_call,
        keepalives={
            **_COMMENTS,
            "ping": _typed(type="ping"),
            "empty delta": _anthropic_text(""),
            "message start": _typed(type="message_start", message={"id": "m1", "usage": {}}),
            "signature": _typed(
                type="content_block_delta",
                index=0,
                delta={"type": "signature_delta", "signature": ""},
            ),
            "usage": _typed(type="message_delta", delta={}, usage={"output_tokens": 7}),
            "unknown type": _typed(type="thing_happened"),
        },
    ),
    "gemini": Wire(
        dialect="gemini",
        content_type=SSE,
        text=lambda piece: sse(_gemini({"text": piece})),
        call=lambda n, piece: sse(_gemini_call(n, piece)),
        keepalives={**_COMMENTS, **{name: sse(each) for name, each in _GEMINI_SILENCE.items()}},
    ),
    "gemini without alt=sse": Wire(
        dialect="gemini",
        content_type="application/json",
        beginning=b"[",
        text=lambda piece: _element(_gemini({"text": piece})),
        call=lambda n, piece: _element(_gemini_call(n, piece)),
        keepalives={
            "white space": b" \r\n\t",
            **{name: _element(each) for name, each in _GEMINI_SILENCE.items()},
        },
    ),
    "ollama": Wire(
        dialect="ollama",
        content_type="application/x-ndjson",
        text=lambda piece: _line(content=piece),
        call=_ollama_call,
        keepalives={
            "blank line": b"\n",
            "empty content": _line(content=""),
            "no message": b'{"model": "lyra-3"}\n',
            "empty object": b"{}\n",
        },
    ),
}
"""By name."""


# ---------------------------------------------------------------- the attacks

Bound: TypeAlias = Literal["max_event_bytes", "max_body_bytes", "max_answer_bytes", "head", "time"]


@attrs.frozen(kw_only=True)
class Attack:
    """A response that goes on for ever, or is damaged."""

    dialect: DialectName
    sent: Callable[[], Bytes] = attrs.field(repr=False)
    """The whole of it."""

    bound: Bound
    """What it meets: one of the limits, the bound on heads, or a timeout."""

    error: type[GatewayError] = ProtocolViolation
    says: str
    """What the error's text matches."""


def endless(start: bytes, again: bytes) -> Callable[[], Bytes]:
    """Send something for ever, at least 16 KiB at once."""
    block = again * (16 * KIB // len(again) + 1)
    return lambda: itertools.chain([start], itertools.repeat(block))


def numbered(start: bytes, make: Callable[[int], bytes]) -> Callable[[], Bytes]:
    """Send something for ever that is never the same."""

    def sent() -> Bytes:
        yield start
        for n in itertools.count(0, 100):
            yield b"".join(map(make, range(n, n + 100)))

    return sent


def compressed(coding: str, again: bytes, *, content_type: str = SSE) -> Callable[[], Bytes]:
    """Send something for ever, compressed as well as can be."""

    def sent() -> Bytes:
        yield head(f"content-type: {content_type}", f"content-encoding: {coding}")
        press = zlib.compressobj(9, wbits={"gzip": 31, "deflate": 15}[coding])
        block = again * (1024 * KIB // len(again))
        while True:
            yield press.compress(block) + press.flush(zlib.Z_SYNC_FLUSH)

    return sent


def once(*pieces: bytes) -> Callable[[], Bytes]:
    """Send this and nothing more."""
    return lambda: iter(pieces)


def _on(wire: Wire) -> Iterator[tuple[str, Attack]]:
    """Give what can be done on every wire."""
    before, after = wire.text("@").split(b"@")
    start = wire.head + (b"data: " if wire.content_type == SSE else b"")
    long = "x" * 4000
    bracketed = b'{"a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n\n"
    tried: Sequence[tuple[str, Bound, str, Callable[[], Bytes]]] = (
        ("an event", "max_event_bytes", "max_event_bytes", endless(wire.head + before, b"x")),
        ("a name", "max_event_bytes", "max_event_bytes", endless(start + b'{"', b"x")),
        ("nesting", "max_event_bytes", "max_event_bytes", endless(start, b'{"a":')),
        ("NULs", "max_event_bytes", "max_event_bytes|neither", endless(wire.head, b"\0")),
        ("text", "max_answer_bytes", "max_answer_bytes", endless(wire.head, wire.text(long))),
        ("a call", "max_answer_bytes", "max_answer_bytes", endless(wire.head, wire.call(0, long))),
        (
            *("calls", "max_answer_bytes", "max_answer_bytes"),
            numbered(wire.head, lambda n: wire.call(n, "")),
        ),
        ("depth", "max_event_bytes", "not JSON|nested", once(start, bracketed)),
        ("no UTF-8", "max_event_bytes", "not UTF-8", once(wire.head, before, b"\xff", after)),
    )
    for name, bound, says, sent in tried:
        yield name, Attack(dialect=wire.dialect, bound=bound, says=says, sent=sent)


def _floods(wire: Wire) -> Iterator[tuple[str, Attack]]:
    """Give keep-alives that are never waited for, before and behind content."""
    content = wire.text("Ebb.")
    body: Bound = "max_body_bytes"
    late, silent = (FirstContentTimeout, "ttft_timeout_s"), (StallTimeout, "stall_timeout_s")
    for name, event in wire.keepalives.items():
        for where, start, (error, says) in (("", b"", late), (", later", content, silent)):
            sent = endless(wire.head + start, event)
            attack = Attack(dialect=wire.dialect, bound="time", error=error, says=says, sent=sent)
            if event.isspace() and not (wire.beginning or start):
                # What it will be is not known yet: it is held, and ends at the limit of documents.
                attack = attrs.evolve(attack, bound=body, error=ProtocolViolation, says=body)
            yield f"{name}{where}", attack


CHUNKED = head(f"content-type: {SSE}", "transfer-encoding: chunked")
_INTERIM = b"HTTP/1.1 102 Wait\r\nx: " + b"y" * 200 + b"\r\n\r\n"
_START = b"HTTP/1.1 200 OK\r\n"
_DOCUMENT = head("content-type: application/json") + b'{"choices": [{"message": {"content": "'
_TEXT = WIRES["openai-chat"].text("x" * 4000)

_HEADS: Mapping[str, tuple[str, Callable[[], Bytes]]] = {
    "a status line": ("100 KiB", endless(b"HTTP/1.1 200 ", b"O")),
    "a header": ("100 KiB", endless(_START + b"x: ", b"y")),
    "headers": ("100 KiB", endless(_START, b"x: y\r\n")),
    "continued header": ("100 KiB", endless(_START + b"x: y\r\n", b" y\r\n")),
    "interim responses": ("1024 KiB", endless(_INTERIM, _INTERIM)),
    "a chunk's size": ("100 KiB|chunk", endless(CHUNKED, b"0")),
    "a chunk extension": ("100 KiB", endless(CHUNKED + b"1;", b"e")),
    "trailers": ("100 KiB", endless(CHUNKED + b"0\r\n", b"x: y\r\n")),
}
_BODIES: Mapping[str, tuple[Bound, str, Callable[[], Bytes]]] = {
    "a document": ("max_body_bytes", "max_body_bytes", endless(_DOCUMENT, b"x")),
    "white space": ("max_body_bytes", "max_body_bytes", endless(head(), b" \r\n\t")),
    "a page": ("head", "neither", endless(head("content-type: text/html"), b"<p>Ebb.")),
    "gzip, an event": ("max_event_bytes", "max_event_bytes", compressed("gzip", b"x")),
    "gzip, text": ("max_answer_bytes", "max_answer_bytes", compressed("gzip", _TEXT)),
    "deflate, text": ("max_answer_bytes", "max_answer_bytes", compressed("deflate", _TEXT)),
    "gzip, white space": (
        *("max_body_bytes", "max_body_bytes"),
        compressed("gzip", b" ", content_type="application/json"),
    ),
    "gzip, a document": (
        *("max_body_bytes", "max_body_bytes"),
        compressed("gzip", b'{"', content_type="application/json"),
    ),
}


def _bomb(coding: str) -> Attack:
    sent = compressed(coding, b": keep-alive\n\n")
    error, says = FirstContentTimeout, "ttft_timeout_s"
    return Attack(dialect="openai-chat", bound="time", error=error, says=says, sent=sent)


def _refusals() -> Iterator[tuple[str, Attack]]:
    for name, status, error, says in (
        ("an error's body", "500 Oops", ServerError, "answered 500"),
        ("a redirect's body", "307 Elsewhere", ProtocolViolation, "redirects are not followed"),
    ):
        start = head("location: http://elsewhere.invalid/", status=status)
        yield (
            name,
            Attack(
                dialect="openai-chat",
                bound="head",
                error=error,
                says=says,
                sent=endless(start, b"x"),
            ),
        )


def _attacks() -> Iterator[tuple[str, Attack]]:
    for wire_name, wire in WIRES.items():
        for name, attack in _on(wire):
            yield f"{wire_name}: {name}", attack
    for name, (says, sent) in _HEADS.items():
        yield name, Attack(dialect="openai-chat", bound="head", says=says, sent=sent)
    for name, (bound, says, sent) in _BODIES.items():
        yield name, Attack(dialect="openai-chat", bound=bound, says=says, sent=sent)
    yield from _refusals()


ATTACKS: Mapping[str, Attack] = dict(_attacks())
"""By name: what ends by a bound on bytes."""

FLOODS: Mapping[str, Attack] = {
    **{
        f"{wire_name}: {name}": attack
        for wire_name, wire in WIRES.items()
        for name, attack in _floods(wire)
    },
    "gzip, comments": _bomb("gzip"),
    "deflate, comments": _bomb("deflate"),
}
"""By name: what ends by a timeout."""
