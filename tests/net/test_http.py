from __future__ import annotations

import enum
import gc
import importlib
import inspect
import logging
import sys
import traceback
from functools import partial
from typing import TYPE_CHECKING

import attrs
import h11
import pytest
import trio
from httpcore import AsyncHTTP11Connection, Origin
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

import polygateway.net
from polygateway.net.clock import now_ns
from polygateway.net.head import Head
from polygateway.net.http import HTTPConnection
from polygateway.net.stream import TimedStream
from polygateway.secret import Secret
from polygateway.testing import run_virtual
from tests.net.wires import (
    HEAD,
    HEADERS,
    OK,
    SECOND,
    ClientEnd,
    ServerEnd,
    Strike,
    replied,
    requested,
    wire,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polygateway.net.http import ResponseHead

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
EXACT = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\n\r\n"


@attrs.frozen
class Net:
    """The network part, on top of httpcore or of httpcore2."""

    base: type[AsyncHTTP11Connection]
    make_origin: type[Origin]
    make_connection: type[HTTPConnection]
    make_timed: type[TimedStream]
    lost: type[Exception]
    violation: type[Exception]
    overdue: type[Exception]

    def connection(self, client: trio.abc.Stream) -> HTTPConnection:
        return self.make_connection(self.make_origin(b"http", b"h", 80), self.make_timed(client))


@pytest.fixture(scope="module", params=["httpcore", "httpcore2"])
def net(request: pytest.FixtureRequest) -> Net:
    """Load the modules afresh, with one library or the other under the name of httpcore."""
    library = importlib.import_module(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "httpcore", library)
        for name in ("http", "stream"):
            # Importing sets both anew; leaving the block puts back what was there.
            patch.setattr(polygateway.net, name, sys.modules[f"polygateway.net.{name}"])
            patch.delitem(sys.modules, f"polygateway.net.{name}")
        http = importlib.import_module("polygateway.net.http")
        stream = importlib.import_module("polygateway.net.stream")
    return Net(
        base=library.AsyncHTTP11Connection,
        make_origin=library.Origin,
        make_connection=http.HTTPConnection,
        make_timed=stream.TimedStream,
        lost=http.ConnectionLost,
        violation=http.HTTPViolation,
        overdue=stream.Overdue,
    )


async def posted(connection: HTTPConnection) -> ResponseHead:
    return await connection.post(HEAD, b"{}")


async def body_of(connection: HTTPConnection) -> bytes:
    body = b""
    while not connection.body_ended:
        body += await connection.read_body()
    return body


async def whole_reply(connection: HTTPConnection) -> bytes:
    await posted(connection)
    return await body_of(connection)


async def sent_and_closed(server: ServerEnd, *pieces: bytes) -> None:
    await replied(server, *pieces)
    await server.aclose()


# ---------------------------------------------------------------- the library


def private(connection: HTTPConnection, name: str) -> object:
    """Give what httpcore keeps for itself: no type checker lets it be named."""
    value: object = getattr(connection, name)
    return value


async def test_the_private_names_that_are_used_exist(net: Net) -> None:
    client, _ = wire()
    connection = net.connection(client)
    assert isinstance(connection, net.base)
    for name, parameters in (
        ("_receive_response_headers", ["self", "request"]),
        ("_send_request_headers", ["self", "request"]),
        ("_send_request_body", ["self", "request"]),
        ("_response_closed", ["self"]),
    ):
        method = vars(net.base)[name]
        assert inspect.iscoroutinefunction(method)
        assert list(inspect.signature(method).parameters) == parameters
    # What is put in the place of these must be in the place of something.
    own = vars(net.base(net.make_origin(b"http", b"h", 80), connection.timed))
    assert type(own["_h11_state"]) is h11.Connection
    assert hasattr(own["_state_lock"], "__aenter__")
    assert private(connection, "_network_stream") is connection.timed
    assert private(connection, "_origin") == net.make_origin(b"http", b"h", 80)
    assert connection.MAX_INCOMPLETE_EVENT_SIZE == 100 * 1024


def test_the_states_that_are_relied_on_follow_an_exchange(net: Net) -> None:
    async def main() -> list[str]:
        client, server = wire()
        connection = net.connection(client)
        states: list[str] = []

        def note() -> None:
            state = private(connection, "_state")
            assert isinstance(state, enum.IntEnum)
            states.append(state.name)

        note()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replied, server, OK)
            await posted(connection)
            note()
        await body_of(connection)
        note()
        assert await connection.make_reusable()
        note()
        await connection.aclose()
        note()
        assert client.closed
        return states

    assert run_virtual(main) == ["NEW", "ACTIVE", "ACTIVE", "IDLE", "CLOSED"]


# ---------------------------------------------------------------- the request


def test_the_request_is_sent_as_it_was_given(net: Net) -> None:
    async def main() -> bytes:
        client, server = wire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(posted, net.connection(client))
            request = await requested(server)
            nursery.cancel_scope.cancel()
        return request

    assert run_virtual(main) == b"POST /v1 HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"


KEY = "sk-canary-0123456789"
WITH_KEY = Head.of(
    b"/v1",
    (
        *HEADERS,
        (b"authorization", Secret(KEY).after("Bearer ")),
        (b"cookie", Secret("crumb-0123")),
    ),
)


def test_secrets_are_sent_in_clear(net: Net) -> None:
    async def main() -> bytes:
        client, server = wire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(net.connection(client).post, WITH_KEY, b"{}")
            request = await requested(server)
            nursery.cancel_scope.cancel()
        return request

    assert run_virtual(main) == (
        b"POST /v1 HTTP/1.1\r\nhost: h\r\nauthorization: Bearer sk-canary-0123456789\r\n"
        b"cookie: crumb-0123\r\ncontent-length: 2\r\n\r\n{}"
    )


class Defective(ClientEnd):
    """Fails in a way that nobody expects."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError(f"cannot send {data!r}")


def test_no_variable_of_a_traceback_holds_a_secret_in_clear(net: Net) -> None:
    async def main() -> str:
        inner, _ = memory_stream_pair()
        with pytest.raises(RuntimeError) as caught:
            await net.connection(Defective(inner)).post(WITH_KEY, b"{}")
        told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        return "".join(told.format())

    shown = run_virtual(main)
    assert "bytes with secrets" in shown
    assert "Secret('***')" in shown
    assert "sk-canary" not in shown
    assert "crumb" not in shown


def test_no_variable_of_ours_holds_what_came_when_it_is_refused(net: Net) -> None:
    async def main() -> Iterator[object]:
        client, server = wire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replied, server, b"HTTP/1.1 200 OK\r\ncrumb-0123\r\n\r\n")
            with pytest.raises(net.violation) as caught:
                await posted(net.connection(client))
        return held_on_the_way_of(caught.value)

    assert not [each for each in run_virtual(main) if isinstance(each, bytes) and b"crumb" in each]


def held_on_the_way_of(error: BaseException | None) -> Iterator[object]:
    """Give what our own variables held when *error* and its causes were raised."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if "/polygateway/" in frame.f_code.co_filename:
                yield from frame.f_locals.values()
        error = error.__cause__


ECHO = b"HTTP/1.1 200 OK\r\nx-sent: Bearer sk-canary-0123456789\r\nx-more: a%2fcrumb-0123\r\n"


def test_what_a_response_s_head_echoes_of_secrets_is_masked_and_not_logged(
    net: Net, caplog: pytest.LogCaptureFixture
) -> None:
    heads: list[ResponseHead] = []

    async def main() -> None:
        client, server = wire()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replied, server, ECHO + b"content-length: 2\r\n\r\nok")
            heads.append(await net.connection(client).post(WITH_KEY, b"{}"))

    with caplog.at_level(logging.DEBUG):
        run_virtual(main)
    headers = heads[0].headers
    assert headers["x-sent"] == "Bearer ***"
    assert headers["x-more"] == "a%2f***"
    assert "receive_response_headers.complete" in caplog.text  # the library tells what it does
    assert "sk-canary" not in caplog.text


def test_a_reply_to_a_request_that_could_not_be_sent_is_read(net: Net) -> None:
    # RFC 9112, section 9.3: a server may refuse a request early and close; its reply counts.
    async def main() -> None:
        client, server = wire()
        await server.send_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await server.aclose()
        connection = net.connection(client)
        assert (await posted(connection)).status == 413
        assert await body_of(connection) == b"no"
        assert not await connection.make_reusable()
        assert client.closed

    run_virtual(main)


class SlowToSend(ClientEnd):
    """Takes a second to send whatever it is given."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep(1)
        await super().send_all(data)


def test_a_request_is_sent_when_its_last_byte_was_written(net: Net) -> None:
    async def main() -> None:
        inner, server = memory_stream_pair()
        connection = net.connection(SlowToSend(inner))
        sent: list[int] = []
        for began in (0, 5):
            connection.on_sent = lambda: sent.append(now_ns())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(replied, server, OK)
                nursery.start_soon(whole_reply, connection)
                await trio.sleep(0.75)
                assert sent == []
                await trio.sleep(0.5)
                assert sent.pop() == (began + 1) * SECOND
            assert await connection.make_reusable()
            await trio.sleep_until(5)

    run_virtual(main)


def test_a_request_whose_body_could_not_be_written_was_not_sent(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        await server.send_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
        await server.aclose()
        connection = net.connection(client)
        sent: list[int] = []
        connection.on_sent = lambda: sent.append(now_ns())
        assert (await posted(connection)).status == 413
        assert sent == []

    run_virtual(main)


# ---------------------------------------------------------------- the head


def test_headers_have_small_names_and_one_value_each(net: Net) -> None:
    async def main() -> ResponseHead:
        client, server = wire()
        await server.send_all(
            b"HTTP/1.1 429 Slow Down\r\nX-Request-ID: 7\r\nVia: 1.1 a\r\nvia: 1.1 b\r\n"
            b"x-name: \xfcber\r\nRetry-After: \t3 \r\ncontent-length: 0\r\n\r\n"
        )
        return await posted(net.connection(client))

    head = run_virtual(main)
    assert head.status == 429
    # RFC 9110, section 5.3: values of one name are joined by commas. Section 5.5: bytes beyond
    # ASCII have no meaning of their own; Latin-1 keeps each.
    assert head.headers == {
        "x-request-id": "7",
        "via": "1.1 a, 1.1 b",
        "x-name": "über",
        "retry-after": "3",
        "content-length": "0",
    }


@pytest.mark.parametrize("code", [100, 102, 103])
def test_what_is_said_before_the_response_is_passed_over(net: Net, code: int) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            interim = b"HTTP/1.1 %d Wait\r\nx: y\r\n\r\n" % code
            nursery.start_soon(replied, server, interim, interim + interim, OK)
            assert (await posted(connection)).status == 200
            assert await body_of(connection) == b"ok"

    run_virtual(main)


def test_interim_responses_without_end_do_not_postpone_the_deadline(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        connection.timed.deadline_ns = 10 * SECOND
        async with trio.open_nursery() as nursery:
            interim = b"HTTP/1.1 102 Processing\r\n\r\n"
            nursery.start_soon(partial(replied, server, *[interim] * 100, every_s=0.7))
            with pytest.raises(net.overdue):
                await posted(connection)
            assert trio.current_time() == 10
            nursery.cancel_scope.cancel()
        assert client.closed

    run_virtual(main)


def test_interim_responses_may_not_take_more_than_a_mebibyte(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            interim = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 1000
            nursery.start_soon(partial(replied, server, *[interim] * 100, every_s=0.01))
            with pytest.raises(net.violation, match="over 1024 KiB of interim responses"):
                await posted(connection)
            nursery.cancel_scope.cancel()
        assert connection.timed.received <= 1024 * 1024 + 64 * 1024
        assert client.closed

    run_virtual(main)


def test_a_header_that_comes_again_and_again_takes_no_time(net: Net) -> None:
    async def main() -> ResponseHead:
        client, server = wire()
        again = b"x:y\r\n" * 16_000
        await server.send_all(b"HTTP/1.1 200 OK\r\n" + again + b"content-length: 0\r\n\r\n")
        return await posted(net.connection(client))

    assert run_virtual(main).headers["x"] == ", ".join("y" * 16_000)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 40_000 + b"\r\n",
        b"HTTP/1.1 200 " + b"O" * 1_000_000,
    ],
    ids=["one header", "many headers", "status line without end"],
)
def test_a_head_over_the_limit_is_refused(net: Net, head: bytes) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replied, server, head)
            with pytest.raises(net.violation, match="longer than 100 KiB"):
                await posted(connection)
        assert connection.timed.received <= 164 * 1024
        assert client.closed

    run_virtual(main)


# ---------------------------------------------------------------- the body


FRAMINGS = {
    "content-length": EXACT + b"Once upon",
    "chunked": CHUNKED + b"5\r\nOnce \r\n4\r\nupon\r\n0\r\n\r\n",
    "chunk extensions": CHUNKED + b'5;a=b;c="d"\r\nOnce \r\n4 \r\nupon\r\n0;last\r\n\r\n',
    "trailers": CHUNKED + b"9\r\nOnce upon\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n",
    "leading zeros": CHUNKED + b"0009\r\nOnce upon\r\n000\r\n\r\n",
    "until closed": UNTIL_CLOSED + b"Once upon",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nserver: old\r\n\r\nOnce upon",
    "after 100": b"HTTP/1.1 100 Continue\r\n\r\n" + EXACT + b"Once upon",
}


def test_a_line_end_behind_a_body_is_not_taken_for_that_of_a_chunk(net: Net) -> None:
    # A body that a content-length ends is over, and what follows it was not asked for.
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.send_all, EXACT)
            await posted(connection)
        await server.send_all(b"Once upon\r\n")
        assert await connection.read_body() == b"Once upon"
        assert connection.body_ended
        assert not await connection.make_reusable()

    run_virtual(main)


def cuts(reply: bytes) -> Iterator[Sequence[bytes]]:
    """Give *reply* whole, byte by byte, and cut in two at every fifth place."""
    yield [reply]
    yield [reply[i : i + 1] for i in range(len(reply))]
    for i in range(1, len(reply), 5):
        yield [reply[:i], reply[i:]]


@pytest.mark.parametrize("reply", FRAMINGS.values(), ids=FRAMINGS)
def test_every_framing_is_undone_however_the_bytes_are_cut(net: Net, reply: bytes) -> None:
    async def main(pieces: Sequence[bytes]) -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent_and_closed, server, *pieces)
            assert (await posted(connection)).status == 200
            assert await body_of(connection) == b"Once upon"

    for pieces in cuts(reply):
        run_virtual(main, pieces)


def test_a_read_gives_what_one_read_of_the_socket_brought(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        pieces = (
            CHUNKED + b"3\r\none\r\n4\r\n two\r\n",
            b"6\r\n three\r\n5\r\n fo",
            b"ur\r\n",
            b"0\r\n\r\n",
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replied, server, *pieces)
            await posted(connection)
            got: list[tuple[float, bytes, bool]] = []
            while not connection.body_ended:
                body = await connection.read_body()
                got.append((trio.current_time(), body, connection.body_ended))
        # What came together with the head needs no read of the socket.
        assert got == [
            (1, b"one two", False),
            (2, b" three fo", False),
            (3, b"ur", False),
            (4, b"", True),
        ]

    run_virtual(main)


async def count_turns(turns: list[int]) -> None:
    while True:
        turns.append(1)
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("count", [499, 500, 501, 1000, 10_000])
def test_others_have_their_turn_while_many_chunks_with_extensions_are_taken(
    net: Net, count: int
) -> None:
    async def main() -> tuple[list[int], int]:
        client, server = wire()
        connection = net.connection(client)
        await server.send_all(CHUNKED + b"1;a\r\nx\r\n" * count + b"0\r\n\r\n")
        await posted(connection)
        got: list[int] = []
        turns: list[int] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns, turns)
            while not connection.body_ended:
                got.append(len(await connection.read_body()))
            nursery.cancel_scope.cancel()
        return got, len(turns)

    got, turns = run_virtual(main)
    assert sum(got) == count
    assert max(got) <= 500
    assert turns >= count // 500 - 1


def test_a_read_of_many_chunks_that_is_cancelled_loses_nothing(net: Net) -> None:
    async def main() -> bytes:
        client, server = wire()
        connection = net.connection(client)
        pieces = b"".join(b"3;a\r\n%03d\r\n" % n for n in range(999))
        await server.send_all(CHUNKED + pieces + b"0\r\n\r\n")
        await posted(connection)
        body = await connection.read_body()
        with trio.move_on_after(0) as scope:
            await connection.read_body()
        assert scope.cancelled_caught
        return body + await body_of(connection)

    assert run_virtual(main) == b"".join(b"%03d" % n for n in range(999))


def test_the_last_bytes_and_the_end_come_together(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replied, server, CHUNKED, b"2\r\nok\r\n0\r\n\r\n")
            await posted(connection)
            assert await connection.read_body() == b"ok"
            assert connection.body_ended

    run_virtual(main)


@pytest.mark.parametrize("in_one_read", [True, False])
def test_good_bytes_before_damage_are_given_first(net: Net, in_one_read: bool) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        good, damage = b"5\r\nOnce \r\n", b"zz\r\nupon\r\n0\r\n\r\n"
        pieces = [CHUNKED, good + damage] if in_one_read else [CHUNKED, good, damage]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replied, server, *pieces)
            await posted(connection)
            assert await connection.read_body() == b"Once "
            assert not connection.body_ended
            with pytest.raises(net.violation, match="chunk"):
                await connection.read_body()
            with pytest.raises(net.violation):
                await connection.read_body()

    run_virtual(main)


def test_damage_stays_damage_although_the_peer_closes_then(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent_and_closed, server, CHUNKED + b"5\r\nOnce \r\nzz\r\n")
            await posted(connection)
            assert await connection.read_body() == b"Once "
            await trio.sleep(1)
            with pytest.raises(net.violation):
                await connection.read_body()

    run_virtual(main)


# ---------------------------------------------------------------- ends that come too early


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"HTT"],
        [b"HTTP/1.1 200 OK\r\ncontent-le"],
        [b"HTTP/1.1 100 Continue\r\n\r\n"],
    ],
    ids=["before the response", "in its first bytes", "in the head", "after an interim response"],
)
def test_a_peer_that_closes_before_its_head_is_complete_is_lost(
    net: Net, pieces: list[bytes]
) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent_and_closed, server, *pieces)
            with pytest.raises(net.lost, match="closed by the peer"):
                await posted(connection)
        assert client.closed

    run_virtual(main)


@pytest.mark.parametrize(
    "head",
    [EXACT + b"Once ", CHUNKED + b"5\r\nOnce \r\n", CHUNKED + b"9\r\nOnce "],
    ids=["content-length", "between chunks", "in a chunk"],
)
def test_a_peer_that_closes_in_the_body_is_lost_after_what_it_sent(net: Net, head: bytes) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent_and_closed, server, head)
            await posted(connection)
            assert await connection.read_body() == b"Once "
            with pytest.raises(net.lost, match="closed by the peer"):
                await connection.read_body()
            assert not connection.body_ended

    run_virtual(main)


@pytest.mark.parametrize("in_head", [True, False])
def test_a_connection_that_breaks_is_lost_and_says_why(net: Net, in_head: bool) -> None:
    async def main() -> None:
        client, server = wire()
        client.broken = trio.BrokenResourceError("no route to host")
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent_and_closed, server, *([] if in_head else [EXACT + b"Once "]))
            with pytest.raises(net.lost, match="no route to host"):
                await whole_reply(connection)

    run_virtual(main)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x15\x03\x01\x00\x02\x02\x46",  # what a TLS port answers to plain HTTP: an alert
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
)
def test_garbage_instead_of_a_response_is_a_violation_at_once(net: Net, garbage: bytes) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replied, server, garbage)
            with pytest.raises(net.violation):
                await posted(connection)
        assert client.closed

    run_virtual(main, limit_s=10)


def test_what_is_wrong_with_a_head_is_told_in_few_words(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        async with trio.open_nursery() as nursery:
            head = b"HTTP/1.1 200 OK\r\n" + b"no colon" * 5000 + b"\r\n\r\n"
            nursery.start_soon(replied, server, head)
            with pytest.raises(net.violation, match="illegal header line") as caught:
                await posted(net.connection(client))
        assert len(str(caught.value)) <= 200

    run_virtual(main, limit_s=10)


@pytest.mark.parametrize(
    "garbage",
    [b"SSH-2.0-OpenSSH_9.6\r\n", b"<html>502 Bad Gateway</html>", b"220 mail.invalid ESMTP\r\n"],
)
def test_what_only_turns_out_to_be_garbage_at_its_end_is_a_violation_too(
    net: Net, garbage: bytes
) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent_and_closed, server, garbage)
            with pytest.raises(net.violation):
                await posted(connection)
        assert client.closed

    run_virtual(main, limit_s=10)


# ---------------------------------------------------------------- reuse


def test_a_connection_serves_one_exchange_after_the_other(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        for exchange in range(3):
            assert connection.exchanges == exchange
            async with trio.open_nursery() as nursery:
                nursery.start_soon(replied, server, CHUNKED + b"2\r\nok\r\n", b"0\r\n\r\n")
                assert (await posted(connection)).status == 200
                assert not connection.body_ended
                assert connection.timed.received == len(CHUNKED) + 7
                assert await body_of(connection) == b"ok"
            assert await connection.make_reusable()
        assert not client.closed

    run_virtual(main)


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        UNTIL_CLOSED + b"ok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        # A stray 408 (encode/httpx#145) that came in the same segment as the end: it would be
        # taken for the reply to the next request.
        OK + b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=["connection: close", "until closed", "HTTP/1.0", "bytes behind the end"],
)
def test_after_such_a_response_a_connection_is_not_reused(net: Net, reply: bytes) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sent_and_closed, server, reply)
            await posted(connection)
            assert await body_of(connection) == b"ok"
            assert not await connection.make_reusable()

    run_virtual(main)


def test_in_the_middle_of_a_body_a_connection_is_not_reusable(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replied, server, EXACT + b"Once ")
            await posted(connection)
            await connection.read_body()
            assert not await connection.make_reusable()
            assert client.closed

    run_virtual(main)


# ---------------------------------------------------------------- cancelling


def test_a_cancelled_read_goes_on_in_another_task_and_loses_nothing(net: Net) -> None:
    # httpcore's own response.stream closes the connection here, and then ends as if it were whole.
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        got: list[bytes] = []

        async def read_on() -> None:
            got.append(await body_of(connection))

        async with trio.open_nursery() as nursery:
            pieces = (CHUNKED + b"5\r\nOn", b"ce \r\n", b"4\r\nupon\r\n0\r\n\r\n")
            nursery.start_soon(partial(replied, server, *pieces, every_s=3))
            await posted(connection)
            got.append(await connection.read_body())
            for _ in range(2):
                with trio.move_on_after(1) as scope:
                    await connection.read_body()
                assert scope.cancelled_caught
            nursery.start_soon(read_on)
        assert got == [b"On", b"ce upon"]
        assert await connection.make_reusable()
        assert not client.closed

    run_virtual(main)


def test_after_the_deadline_reading_the_body_may_go_on(net: Net) -> None:
    async def main() -> None:
        client, server = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(replied, server, EXACT, b"Once upon", every_s=5))
            await posted(connection)
            connection.timed.deadline_ns = 7 * SECOND
            with pytest.raises(net.overdue):
                await connection.read_body()
            connection.timed.deadline_ns = None
            assert await body_of(connection) == b"Once upon"

    run_virtual(main)


def test_closing_ends_whatever_waits_and_may_be_repeated(net: Net) -> None:
    async def ends(connection: HTTPConnection) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await posted(connection)

    async def main() -> None:
        client, _ = wire()
        connection = net.connection(client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends, connection)
            await wait_all_tasks_blocked()
            connection.close()
            connection.close()
            assert client.closed

    run_virtual(main)


async def _exchange(connection: HTTPConnection, got: list[bytes]) -> None:
    await posted(connection)
    got.append(b"")
    while not connection.body_ended:
        got.append(await connection.read_body())
    await connection.make_reusable()


async def _cancelled_at(net: Net, at: int) -> bool:
    """Cancel an exchange at its step number *at*; tell whether it took so many."""
    client, server = wire()
    connection = net.connection(client)
    got: list[bytes] = []
    strike = Strike(at)
    async with trio.open_nursery() as servers:
        pieces = (b"HTTP/1.1 100 Continue\r\n\r\n", CHUNKED + b"5\r\nOn", b"ce \r\n0\r\n\r\n")
        servers.start_soon(replied, server, *pieces)
        await strike.run(_exchange, connection, got)
        if got:
            # The head had come: reading goes on.
            got.append(await body_of(connection))
            assert b"".join(got) == b"Once "
            assert not client.closed
        servers.cancel_scope.cancel()
    connection.close()
    return strike.struck


def test_cancelled_at_any_checkpoint_a_read_loses_nothing_and_nothing_warns(net: Net) -> None:
    at = 1
    while run_virtual(_cancelled_at, net, at):
        at += 1
    gc.collect()  # What is left unfinished warns here, and warnings are errors.
    assert at > 10


def test_a_request_cancelled_while_its_reply_is_awaited_closes_the_connection(net: Net) -> None:
    async def main() -> None:
        client, _ = wire()
        with trio.move_on_after(1):
            await posted(net.connection(client))
        assert client.closed
        assert trio.current_time() == 1

    run_virtual(main)
