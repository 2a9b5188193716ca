"""What must hold of everything that decodes, whatever bytes it is given and in whatever reads.

An input is two bytes that say how the rest is read, and the rest: see :func:`reading`.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs

from polygateway.errors import AttemptError, ConfigurationError
from polygateway.messages import ChatRequest, Chunk, Completion
from polygateway.policies import DialectName, Limits, Target
from polygateway.wire import DIALECTS
from polygateway.wire.body import Body
from polygateway.wire.dialect import Fault, Phase
from polygateway.wire.faults import refused
from polygateway.wire.json_stream import JSONStream
from polygateway.wire.malformed import Malformed
from polygateway.wire.sse import BOM, Event, SSEDecoder
from tests.records import CALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polygateway.wire.dialect import Decoder

Property: TypeAlias = Callable[[bytes], None]

HEAD = 2
"""How many bytes of an input are not body."""

ROOMY = Limits(max_event_bytes=1 << 20, max_body_bytes=1 << 20, max_answer_bytes=1 << 20)
NARROW = Limits(max_event_bytes=400, max_body_bytes=800, max_answer_bytes=1500)

CONTENT_TYPES = ("text/event-stream", "application/json", "", "text/html; charset=utf-8")


@attrs.frozen
class Reading:
    """How an input is read."""

    body: bytes
    reads: Sequence[bytes]
    limits: Limits
    content_type: str


def reading(data: bytes) -> Reading:
    """Take an input apart.

    The first byte seeds the sizes of the reads, up to 16 bytes each, or up to 2 if it is odd. Of
    the second, bit 0 says whether the limits are narrow, and bits 1 and 2 give the content type.
    """
    seed, options, body = data[0], data[1], data[HEAD:]
    sizes, most = random.Random(seed), 2 if seed % 2 else 16
    reads, at = list[bytes](), 0
    while at < len(body):
        size = sizes.randint(1, most)
        reads.append(body[at : at + size])
        at += size
    return Reading(body, reads, NARROW if options & 1 else ROOMY, CONTENT_TYPES[options >> 1 & 3])


# ---- decoders of bodies -------------------------------------------------------------------------


@attrs.frozen
class Cut:
    """What came of a body that was cut into events."""

    events: Sequence[Event]
    tail: Event | None
    keepalives: int
    damage: str


def cut(decoder: SSEDecoder | JSONStream | Body, reads: Sequence[bytes]) -> Cut:
    events: list[Event] = []
    tail, damage = None, ""
    try:
        for read in reads:
            events.extend(decoder.feed(read))
        tail = decoder.close()
    except Malformed as error:
        damage = str(error)
    return Cut(events, tail, decoder.keepalives, damage)


def check_cutting(make: Callable[[Reading], SSEDecoder | JSONStream | Body], data: bytes) -> None:
    how = reading(data)
    whole = cut(make(how), [how.body])
    assert cut(make(how), how.reads) == whole
    assert len(whole.damage) < 1000
    most = max(how.limits.max_event_bytes, how.limits.max_body_bytes)
    assert all(len(event.data.encode()) <= most for event in whole.events)


def _values(how: Reading) -> JSONStream:
    return JSONStream(how.limits.max_event_bytes)


def check_values(data: bytes) -> None:
    # A mark that a read cuts is the body's affair.
    check_cutting(_values, data[:HEAD] + data[HEAD:].removeprefix(BOM))


def _events(how: Reading) -> SSEDecoder:
    return SSEDecoder(how.limits.max_event_bytes)


def _body(how: Reading, *, streams_json: bool) -> Body:
    return Body(how.content_type, how.limits, streams_json=streams_json)


# ---- decoders of answers ------------------------------------------------------------------------


@attrs.frozen
class Seen:
    """What came of a reply."""

    phase: Phase
    fault: Fault | None
    chunks: Sequence[Chunk]
    content_events: int
    keepalives: int
    form: str
    completion: Completion


def decode(dialect: DialectName, how: Reading, reads: Sequence[bytes]) -> Seen:
    """Decode a reply, and check at every read what must hold while it comes."""
    target = Target(dialect=dialect, base_url="http://eu.invalid", model="m")
    decoder = DIALECTS[dialect].decoder(
        attempt=0, target=target, content_type=how.content_type, limits=how.limits
    )
    chunks: list[Chunk] = []
    for read in [*reads, None]:
        before, events, count = decoder.phase, decoder.content_events, decoder.keepalives
        new = decoder.close() if read is None else decoder.feed(read)
        chunks += new
        if before.is_final:
            assert not new
            assert decoder.phase is before
        assert decoder.content_events >= events
        assert decoder.keepalives >= count
    _check_end(decoder)
    ended = decoder.phase in {Phase.ENDED, Phase.FINISHING}
    completion = decoder.answer.completion(
        target="eu", request_id=None, headers={}, stats=CALL, ended=ended
    )
    return Seen(
        decoder.phase,
        decoder.fault,
        chunks,
        decoder.content_events,
        decoder.keepalives,
        decoder.form,
        completion,
    )


def _check_end(decoder: Decoder) -> None:
    assert decoder.phase is not Phase.FINISHING  # the transport has ended
    assert (decoder.phase is Phase.FAILED) == (decoder.fault is not None)
    if decoder.fault is not None:
        check_fault(decoder.fault)


def check_fault(fault: Fault) -> None:
    assert issubclass(fault.error, AttemptError)
    assert 0 < len(fault.message) < 1000
    assert fault.retry_after_s is None or 0 <= fault.retry_after_s < math.inf


def check_dialect(dialect: DialectName, data: bytes) -> None:
    how = reading(data)
    whole = decode(dialect, how, [how.body])
    assert decode(dialect, how, how.reads) == whole
    check_pieces(whole)
    check_completion(dialect, whole.completion)


def check_pieces(seen: Seen) -> None:
    """Make sure that the pieces of an answer are the answer."""
    answer = seen.completion
    for kind, text in (
        ("text", answer.text),
        ("reasoning", answer.reasoning),
        ("refusal", answer.refusal),
    ):
        assert "".join(chunk.delta for chunk in seen.chunks if chunk.kind == kind) == text
    arguments = [StringIO() for _ in answer.tool_calls]
    for chunk in seen.chunks:
        if chunk.tool_call is not None:
            arguments[chunk.tool_call.index].write(chunk.delta)
    assert [each.getvalue() for each in arguments] == [call.arguments for call in answer.tool_calls]
    assert not seen.chunks or seen.content_events


def check_completion(dialect: DialectName, answer: Completion) -> None:
    """Make sure that an answer can go into the next prompt, or that the caller is told why not."""
    for call in answer.tool_calls:
        assert not call.complete or isinstance(json.loads(call.arguments or "{}"), dict)
    figures = attrs.asdict(answer.usage, filter=lambda _, value: isinstance(value, int))
    assert all(0 <= figure < 2**64 for figure in figures.values())
    target = Target(dialect=dialect, base_url="http://eu.invalid", model="m")
    try:
        request = ChatRequest(messages=[{"role": "user", "content": "?"}, answer.message])
        DIALECTS[dialect].check(request)
        DIALECTS[dialect].encode(request, target, None)
    except ConfigurationError:
        pass


# ---- what is held -------------------------------------------------------------------------------


def check_memory(dialect: DialectName, data: bytes) -> None:
    """Make sure that a decoder holds no more than its limits allow, and a little beside that."""
    how = attrs.evolve(reading(data), limits=NARROW)
    target = Target(dialect=dialect, base_url="http://eu.invalid", model="m")
    decoder = DIALECTS[dialect].decoder(
        attempt=0, target=target, content_type=how.content_type, limits=NARROW
    )
    # Again and again, so that limits are reached by short inputs.
    for _ in range(1 + 12_000 // (len(how.body) or 1)):
        decoder.feed(how.body)
        if decoder.phase.is_final:
            break
    assert held(decoder) <= 4096 + 2 * len(how.body)


def held(value: object) -> int:
    """Add up the texts and bytes that *value* holds, and 8 for each other thing."""
    seen, total, todo = set[int](), 0, [value]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type | Limits):
            continue
        seen.add(id(each))
        total += _size(each)
        todo.extend(_parts(each))
    return total


def _size(value: object) -> int:
    if isinstance(value, StringIO):
        return len(value.getvalue())
    return len(value) if isinstance(value, str | bytes | bytearray) else 8


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from cast("dict[object, object]", value).keys()
        yield from cast("dict[object, object]", value).values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from cast("Sequence[object]", value)
    elif type(value).__module__.startswith("polygateway.wire"):
        yield from getattr(value, "__dict__", {}).values()
        for kind in type(value).__mro__:
            for name in getattr(kind, "__slots__", ()):
                yield getattr(value, name, None)


# ---- refusals -----------------------------------------------------------------------------------


def check_refusal(data: bytes) -> None:
    """Make sure that a reply of any status, with any body and header, becomes a fault."""
    body = data[HEAD:]
    line, _, rest = body.partition(b"\n")
    headers = {"retry-after": line.decode("latin-1"), "content-type": "application/json"}
    status = (201, 307, 400, 401, 402, 403, 404, 408, 413, 429, 499, 500, 503, 524, 529, 999)
    for given, text in ((headers, rest), ({}, body)):
        check_fault(refused(status[data[0] % 16], given, text, now_s=1_800_000_000.0))


PROPERTIES: Mapping[str, Property] = {
    "sse": partial(check_cutting, _events),
    "values": check_values,
    "body": partial(check_cutting, partial(_body, streams_json=False)),
    "body-of-values": partial(check_cutting, partial(_body, streams_json=True)),
    "refusal": check_refusal,
    **{dialect: partial(check_dialect, dialect) for dialect in DIALECTS},
}
"""By the name of the target."""


def check(target: str, data: bytes) -> None:
    """Check everything that must hold of *target* for an input; short ones say nothing.

    Raises:
        AssertionError: something does not hold.
    """
    if len(data) < HEAD:
        return
    PROPERTIES[target](data)
    if target in DIALECTS:
        check_memory(cast("DialectName", target), data)
