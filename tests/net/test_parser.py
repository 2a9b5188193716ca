"""The parser and h11's own see the same in whatever comes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import h11
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from hypothesis import example, given, strategies as st

from polygateway.net.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADS = {
    "chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    "exact": b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n",
    "until closed": b"HTTP/1.1 200 OK\r\n\r\n",
}
LIMIT = 60


def asked(kind: type[h11.Connection]) -> h11.Connection:
    connection = kind(our_role=h11.CLIENT, max_incomplete_event_size=LIMIT)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "h")]))
    connection.send(h11.EndOfMessage())
    return connection


def seen(connection: h11.Connection, reads: Sequence[bytes]) -> list[object]:
    """Give what the reads bring: bytes of the body, other events, errors, and the states then."""
    found: list[object] = []
    for data in reads:
        connection.receive_data(data)
        body = b""
        while True:
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError as error:
                return [*found, body, str(error), error.error_status_hint, *states(connection)]
            if isinstance(event, h11.Data):
                body += event.data
                continue
            found += [body, event, *states(connection)]
            if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                break
    return found


def states(connection: h11.Connection) -> tuple[object, ...]:
    return connection.our_state, connection.their_state, connection.trailing_data


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


EXTENSIONS = st.sampled_from((b"", b"", b";a=b", b" "))
CHUNKS = st.builds(chunk, st.binary(min_size=1, max_size=40), EXTENSIONS)
TAILS = st.sampled_from(
    (
        b"",
        b"0\r\n\r\n",
        b"0\r\na: b\r\n\r\n",
        b"0\r\n\r\nHTTP/1.1 200",
        b"x\r\n",
        b"5\r\nab",
        b"-5\r\nabcde\r\n",
        b"000000000000000000001\r\n",
        b"0000000001\r\na\r\n",
    )
)


def joined(chunks: list[bytes], tail: bytes) -> bytes:
    return b"".join([*chunks, tail])


BODIES = st.builds(joined, st.lists(CHUNKS), TAILS)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """Cut *data* at *places*, and end with the end of the connection."""
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    pieces = [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    return [*filter(None, pieces), b""]


@given(
    st.sampled_from(sorted(HEADS)), BODIES | st.binary(max_size=80), st.lists(st.integers(0, 300))
)
@example("chunked", chunk(b"tide") + b"0\r\n\r\n", [])
@example("chunked", chunk(b"tide") + b"0\r\n\r\n", range(300))
@example("chunked", chunk(b"tide") + b"wrong\r\n" + chunk(b"ebb"), [])
@example("chunked", chunk(b"tide")[:-2] + b"xx", [])
@example("chunked", chunk(b"tide") + chunk(b"ebb")[:-2] + b"xx" + chunk(b"flow"), [])
@example("chunked", chunk(b"tide") + chunk(b"flow"), [51])
@example("chunked", chunk(b"tide" + chunk(b"ebb") + b"flow"), [len(HEADS["chunked"]) + 8])
@example("chunked", b"0\r\n" + chunk(b"tide"), [len(HEADS["chunked"]) + 3])
@example("chunked", b"1F\r\n" + b"x" * 31 + b"\r\n", [])
@example("chunked", b"5" * 2 * LIMIT, [])
@example("exact", b"a dozen, yes", [47, 50])
@example("exact", b"a dozen, and more than that", [])
@example("until closed", b"whatever", [30, 31])
def test_whatever_comes_is_seen_as_h11_sees_it(
    framing: str, body: bytes, places: Sequence[int]
) -> None:
    reads = cut(HEADS[framing] + body, places)
    assert seen(asked(Parser), reads) == seen(asked(h11.Connection), reads)


def test_whole_chunks_of_one_read_come_together() -> None:
    connection = asked(Parser)
    chunks = [chunk(b"tide"), chunk(b"ebb"), chunk(b"flow", b";a=b"), chunk(b"spring")]
    connection.receive_data(HEADS["chunked"] + b"".join(chunks))
    assert isinstance(connection.next_event(), h11.Response)
    events = [connection.next_event() for _ in range(4)]
    assert [getattr(event, "data", event) for event in events] == [
        b"tideebb",
        b"flow",
        b"spring",
        h11.NEED_DATA,
    ]


def test_a_connection_can_be_used_again_as_with_h11() -> None:
    reads = [HEADS["chunked"] + chunk(b"tide") + b"0\r\n\r\n"]
    for kind in (Parser, h11.Connection):
        connection = asked(kind)
        seen(connection, reads)
        connection.start_next_cycle()
        assert connection.their_state is h11.IDLE


def test_the_private_methods_are_as_they_were() -> None:
    kind = h11.Connection
    parameters = {
        each.__name__: list(inspect.signature(each).parameters)
        for each in (kind._process_event, kind._process_error)
    }
    assert parameters == {
        "_process_event": ["self", "role", "event"],
        "_process_error": ["self", "role"],
    }


def test_the_reader_of_a_body_takes_the_buffer() -> None:
    connection = asked(h11.Connection)
    connection.receive_data(HEADS["chunked"] + chunk(b"tide"))
    connection.next_event()
    reader, buffer = connection._reader, connection._receive_buffer
    assert isinstance(reader, ChunkedReader)
    event = reader(buffer)
    assert isinstance(event, h11.Data)
    assert bytes(event.data) == b"tide"
    assert (reader._bytes_to_discard, bytes(buffer)) == (b"\r\n", b"\r\n")
    assert (reader._bytes_in_chunk, reader._reading_trailer) == (0, False)


def test_the_buffer_gives_what_is_asked_for() -> None:
    buffer = ReceiveBuffer()
    buffer += b"tides"
    assert buffer.maybe_extract_at_most(4) == bytearray(b"tide")
    assert bytes(buffer) == b"s"
