from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import httpcore
import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from polygateway.net.clock import now_ns
from polygateway.net.stream import Overdue, TimedStream
from polygateway.net.tcp import TCPStream
from polygateway.secret import Secret
from polygateway.testing import run_virtual
from tests.net.wires import SECOND, Authority, ClientEnd, sockets, wire

Stamps = list[tuple[float, float]]
Pair: TypeAlias = Callable[[], tuple[trio.abc.Stream, trio.SocketStream]]


def stamped(stream: TimedStream) -> Stamps:
    """Collect the stamps of the reads from *stream*, in seconds."""
    stamps: Stamps = []
    stream.on_read = lambda asked, arrived, found: stamps.append((asked / SECOND, arrived / SECOND))
    return stamps


async def reading_raises(
    timed: TimedStream, error: type[Exception], text: str | None = None
) -> None:
    with pytest.raises(error, match=text):
        await timed.read(100)


async def sending(server: trio.abc.Stream, *pieces: bytes, every_s: float) -> None:
    for piece in pieces:
        await trio.sleep(every_s)
        await server.send_all(piece)


# ---------------------------------------------------------------- in virtual time


def test_each_read_leaves_the_times_at_which_it_was_begun_and_returned() -> None:
    async def main() -> None:
        client, server = wire()
        timed = TimedStream(client)
        stamps = stamped(timed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(sending, server, b"one", b"two", every_s=1.5))
            assert await timed.read(100) == b"one"
            await trio.sleep(0.25)
            assert await timed.read(2) == b"tw"
            assert await timed.read(2) == b"o"
        assert stamps == [(0, 1.5), (1.75, 3), (3, 3)]
        assert timed.received == 6

    run_virtual(main)


def test_the_end_of_the_stream_is_an_empty_read() -> None:
    async def main() -> None:
        client, server = wire()
        timed = TimedStream(client)
        await server.send_all(b"x")
        await server.aclose()
        assert await timed.read(100) == b"x"
        assert not timed.ended
        assert await timed.read(100) == b""
        assert timed.ended

    run_virtual(main)


def test_bytes_that_arrive_do_not_postpone_the_deadline() -> None:
    # encode/httpx#3782: a read timeout that starts anew with each read never ends a stream that
    # sends keep-alives.
    async def main() -> None:
        client, server = wire()
        timed = TimedStream(client)
        timed.deadline_ns = 10 * SECOND
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(sending, server, *[b":\n"] * 100, every_s=3))
            for _ in range(3):
                assert await timed.read(100) == b":\n"
            with pytest.raises(Overdue):
                await timed.read(100)
            assert trio.current_time() == 10
            nursery.cancel_scope.cancel()

    run_virtual(main)


def test_after_the_deadline_reading_may_go_on_and_nothing_is_lost() -> None:
    async def main() -> None:
        client, server = wire()
        timed = TimedStream(client)
        stamps = stamped(timed)
        timed.deadline_ns = 2 * SECOND
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(sending, server, b"late", every_s=5))
            with pytest.raises(Overdue):
                await timed.read(100)
            timed.deadline_ns = None
            assert await timed.read(100) == b"late"
        assert stamps == [(0, 2), (2, 5)]

    run_virtual(main)


def test_a_cancelled_read_leaves_its_stamps_and_takes_nothing() -> None:
    async def main() -> None:
        client, server = wire()
        timed = TimedStream(client)
        stamps = stamped(timed)
        with trio.move_on_after(0.5):
            await timed.read(100)
        await server.send_all(b"all of it")
        with trio.CancelScope() as scope:
            scope.cancel()
            await timed.read(100)
        assert timed.received == 0
        assert await timed.read(100) == b"all of it"
        assert stamps == [(0, 0.5), (0.5, 0.5), (0.5, 0.5)]

    run_virtual(main)


def test_a_passed_deadline_is_met_although_bytes_wait_in_memory() -> None:
    async def main() -> None:
        client, server = wire()
        timed = TimedStream(client)
        await server.send_all(b"x")
        await trio.sleep(1)
        timed.deadline_ns = SECOND
        with pytest.raises(Overdue):
            await timed.read(100)
        timed.deadline_ns = SECOND + 1
        assert await timed.read(100) == b"x"

    run_virtual(main)


def test_writing_meets_the_same_deadline() -> None:
    async def main() -> None:
        # Of these, a write is done when the other end has read it.
        client, _ = lockstep_stream_pair()
        timed = TimedStream(client)
        timed.deadline_ns = 4 * SECOND
        with pytest.raises(Overdue):
            await timed.write(b"x")
        assert trio.current_time() == 4

    run_virtual(main)


def test_nothing_is_written_where_there_is_nothing_to_write() -> None:
    async def main() -> None:
        client, server = wire()
        await server.receive_stream.aclose()
        await TimedStream(client).write(b"")
        with pytest.raises(httpcore.WriteError, match="closed"):
            await TimedStream(client).write(b"x")

    run_virtual(main)


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (ssl.SSLError(1, "[SSL: BAD_RECORD] bad record (_ssl.c:1)"), "SSL: .*bad record"),
        (None, "connection broken"),
    ],
)
def test_a_broken_connection_says_what_broke_it(cause: Exception | None, text: str) -> None:
    async def main() -> None:
        client, server = wire()
        client.broken = trio.BrokenResourceError()
        client.broken.__cause__ = cause
        await server.aclose()
        with pytest.raises(httpcore.ReadError, match=text):
            await TimedStream(client).read(100)

    run_virtual(main)


def findings(stream: TimedStream) -> list[bool]:
    """Collect whether the reads from *stream* found anything."""
    found: list[bool] = []
    stream.on_read = lambda asked, arrived, anything: found.append(anything)
    return found


def test_bytes_the_end_and_a_broken_connection_are_something_that_a_read_found() -> None:
    async def main() -> None:
        client, server = wire()
        timed = TimedStream(client)
        found = findings(timed)
        await server.send_all(b"x")
        assert await timed.read(100) == b"x"
        await server.aclose()
        assert await timed.read(100) == b""
        client.broken = trio.BrokenResourceError()
        await reading_raises(timed, httpcore.ReadError, "broken")
        assert found == [True, True, True]

    run_virtual(main)


def test_a_read_that_was_cut_off_found_nothing() -> None:
    async def main() -> None:
        client, _ = wire()
        timed = TimedStream(client)
        found = findings(timed)
        timed.deadline_ns = SECOND
        await reading_raises(timed, Overdue)
        timed.deadline_ns = None
        with trio.move_on_after(1):
            await timed.read(100)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reading_raises, timed, trio.ClosedResourceError)
            await wait_all_tasks_blocked()
            timed.close()
        await reading_raises(timed, trio.ClosedResourceError)
        assert found == [False, False, False, False]

    run_virtual(main)


def test_a_read_that_closing_cuts_off_is_told_once_and_by_whoever_closes() -> None:
    async def main() -> None:
        client, _ = wire()
        timed = TimedStream(client)
        stamps = stamped(timed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reading_raises, timed, trio.ClosedResourceError)
            await trio.sleep(3)
            timed.close()
            assert stamps == [(0, 3)]  # although its task has had no turn since
            timed.close()
        assert stamps == [(0, 3)]

    run_virtual(main)


def test_closing_between_two_reads_is_the_end_of_none() -> None:
    async def main() -> None:
        client, server = wire()
        timed = TimedStream(client)
        stamps = stamped(timed)
        await server.send_all(b"x")
        await timed.read(100)
        await trio.sleep(1)
        timed.close()
        assert stamps == [(0, 0)]

    run_virtual(main)


# ---------------------------------------------------------------- sockets


def trio_sockets() -> tuple[trio.SocketStream, trio.SocketStream]:
    """Give the two ends of a connection, both of trio's make: what a ``connect`` may give."""
    here, there = trio.socket.socketpair()
    return trio.SocketStream(here), trio.SocketStream(there)


each_make = pytest.mark.parametrize("pair", [sockets, trio_sockets])


@each_make
async def test_a_socket_is_read_with_and_without_a_wait(pair: Pair) -> None:
    client, server = pair()
    timed = TimedStream(client)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timed.write, b"ping")
        assert await server.receive_some() == b"ping"
    await server.send_all(b"waiting")
    assert await timed.read(4) == b"wait"
    assert await timed.read(100) == b"ing"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timed.read, 100)
        await wait_all_tasks_blocked()
        await server.send_all(b"awaited")
    assert timed.received == 14
    await server.aclose()
    assert await timed.read(100) == b""
    timed.close()


@each_make
def test_a_passed_deadline_is_met_although_bytes_wait_in_a_socket(pair: Pair) -> None:
    # Else a peer that never stops sending would never meet it.
    async def main() -> None:
        client, server = pair()
        async with client, server:
            timed = TimedStream(client)
            stamps = stamped(timed)
            await server.send_all(b"x")
            timed.deadline_ns = now_ns()
            with pytest.raises(Overdue):
                await timed.read(100)
            timed.deadline_ns += 1
            assert await timed.read(100) == b"x"
            assert stamps == [(0, 0), (0, 0)]

    run_virtual(main)


@each_make
async def test_a_cancelled_read_takes_nothing_out_of_a_socket(pair: Pair) -> None:
    client, server = pair()
    async with client, server:
        timed = TimedStream(client)
        await server.send_all(b"x")
        with trio.CancelScope() as scope:
            scope.cancel()
            await timed.read(100)
        assert scope.cancelled_caught
        assert await timed.read(100) == b"x"


@each_make
async def test_a_large_request_arrives_once_and_in_order(pair: Pair) -> None:
    client, server = pair()
    sent = b"key: <0>\r\n" + bytes(range(254)) * 10_000
    received = bytearray()

    async def receive() -> None:
        async for data in server:
            received.extend(data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        timed = TimedStream(client)
        timed.secrets = {b"<0>": Secret("sk-canary")}
        await timed.write(sent)
        timed.close()
    assert bytes(received) == sent.replace(b"<0>", b"sk-canary")
    await server.aclose()


@each_make
async def test_nothing_is_written_after_the_deadline_or_a_cancellation(pair: Pair) -> None:
    client, server = pair()
    timed = TimedStream(client)
    with trio.CancelScope() as scope:
        scope.cancel()
        await timed.write(b"x")
    assert scope.cancelled_caught
    timed.deadline_ns = now_ns()
    with pytest.raises(Overdue):
        await timed.write(b"x")
    timed.close()
    assert await server.receive_some() == b""
    await server.aclose()


async def loopback() -> tuple[TCPStream, trio.SocketStream]:
    """Give the two ends of a TCP connection."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        host, port = listener.socket.getsockname()
        client = TCPStream.taken_from(await trio.open_tcp_stream(host, port))
        return client, await listener.accept()


def reset(stream: trio.SocketStream) -> None:
    """Close with a reset (RFC 9293, section 3.5.3) instead of an end."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


async def test_a_reset_is_a_broken_connection_whether_it_is_awaited_or_has_come() -> None:
    client, server = await loopback()
    timed = TimedStream(client)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reading_raises, timed, httpcore.ReadError, "reset")
        await wait_all_tasks_blocked()
        reset(server)
    timed.close()

    client, server = await loopback()
    timed = TimedStream(client)
    reset(server)
    while not timed.has_unread_bytes():
        await trio.lowlevel.checkpoint()
    await reading_raises(timed, httpcore.ReadError, "reset")
    timed.close()


@each_make
async def test_reading_what_was_closed_on_our_side_says_so(pair: Pair) -> None:
    # The close may come while the task is between two reads, or between its request and a read.
    client, server = pair()
    async with server:
        timed = TimedStream(client)
        await server.send_all(b"x")
        timed.close()
        with pytest.raises(trio.ClosedResourceError):
            await timed.read(100)
        with pytest.raises(trio.ClosedResourceError):
            await timed.write(b"x")
        assert not timed.has_unread_bytes()


@each_make
async def test_closing_ends_a_read_that_waits_in_another_task(pair: Pair) -> None:
    client, server = pair()
    async with server, trio.open_nursery() as nursery:
        timed = TimedStream(client)
        nursery.start_soon(reading_raises, timed, trio.ClosedResourceError, "closed")
        await wait_all_tasks_blocked()
        timed.close()


@each_make
async def test_unread_bytes_and_the_end_are_seen_on_a_socket_without_reading(pair: Pair) -> None:
    client, server = pair()
    async with client:
        timed = TimedStream(client)
        assert not timed.has_unread_bytes()
        await server.send_all(b"x")
        assert timed.has_unread_bytes()
        assert await timed.read(100) == b"x"
        assert not timed.has_unread_bytes()
        await server.aclose()
        assert timed.has_unread_bytes()


def test_of_other_streams_nobody_knows_whether_bytes_wait() -> None:
    async def main() -> None:
        client, server = wire()
        await server.send_all(b"x")
        assert not TimedStream(client).has_unread_bytes()

    run_virtual(main)


# ---------------------------------------------------------------- TLS


async def secured() -> tuple[trio.SSLStream[TCPStream], trio.SSLStream[trio.SocketStream]]:
    """Give the two ends of a TLS connection between sockets, after the handshake."""
    authority = Authority()
    of_client, of_server = authority.trusting(), authority.serving("h.invalid")
    here, there = sockets()
    client = trio.SSLStream(here, of_client, server_hostname="h.invalid", https_compatible=True)
    server = trio.SSLStream(there, of_server, server_side=True, https_compatible=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        nursery.start_soon(server.do_handshake)
    return client, server


async def drained(timed: TimedStream) -> None:
    """Take in what TLS itself sent after the handshake: session tickets."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timed.read, 100)
            await wait_all_tasks_blocked()
            scope.cancel()


async def test_over_tls_a_cancelled_or_overdue_read_takes_nothing() -> None:
    client, server = await secured()
    timed = TimedStream(client)
    await server.send_all(b"x")
    with trio.CancelScope() as scope:
        scope.cancel()
        await timed.read(100)
    assert scope.cancelled_caught
    timed.deadline_ns = now_ns()
    with pytest.raises(Overdue):
        await timed.read(100)
    timed.deadline_ns = None
    assert await timed.read(100) == b"x"
    timed.close()
    server.transport_stream.socket.close()


async def test_over_tls_unread_bytes_and_the_end_are_seen_on_the_socket() -> None:
    client, server = await secured()
    timed = TimedStream(client)
    await drained(timed)
    assert not timed.has_unread_bytes()
    await server.send_all(b"x")
    assert timed.has_unread_bytes()
    assert await timed.read(100) == b"x"
    assert not timed.has_unread_bytes()
    server.transport_stream.socket.close()
    assert timed.has_unread_bytes()
    assert await timed.read(100) == b""
    timed.close()


async def test_over_tls_damage_is_named() -> None:
    client, server = await secured()
    timed = TimedStream(client)
    # A record of application data, 5 bytes long, that no key of this connection has made.
    await server.transport_stream.send_all(b"\x17\x03\x03\x00\x05abcde")
    with pytest.raises(httpcore.ReadError, match=r"SSL: .* record"):
        await timed.read(100)
    timed.close()
    server.transport_stream.socket.close()


# ---------------------------------------------------------------- closing


async def test_a_socket_is_closed_at_once() -> None:
    client, server = sockets()
    timed = TimedStream(client)
    timed.close()
    assert client.connection.fileno() == -1
    timed.close()
    assert await server.receive_some() == b""
    await server.aclose()


async def test_under_tls_the_socket_is_closed_without_a_goodbye() -> None:
    client, server = await secured()
    timed = TimedStream(client)
    timed.close()
    timed.close()
    assert client.transport_stream.connection.fileno() == -1
    with pytest.raises(trio.ClosedResourceError):
        await timed.read(100)
    assert await server.receive_some() == b""
    server.transport_stream.socket.close()


async def test_of_two_streams_stapled_together_both_are_closed() -> None:
    (sending, at_peer), (receiving, from_peer) = sockets(), sockets()
    timed = TimedStream(trio.StapledStream(sending, receiving))
    timed.close()
    assert sending.connection.fileno() == receiving.connection.fileno() == -1
    await at_peer.aclose()
    await from_peer.aclose()


def test_both_are_closed_although_closing_the_first_fails() -> None:
    async def main() -> None:
        (client, _), (other, _) = wire(), wire()
        client.close_error = OSError("no way")
        with pytest.raises(OSError, match="no way"):
            TimedStream(trio.StapledStream(client, other)).close()
        assert other.closed

    run_virtual(main)


def test_a_stream_of_another_make_is_closed_by_its_own_close() -> None:
    async def main() -> None:
        client, _ = wire()
        await TimedStream(client).aclose()
        assert client.closed

    run_virtual(main)


class _Other(trio.abc.Stream):
    """A stream that has nothing but what trio demands, and closes in one of several ways."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.closed = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep_forever()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.sleep_forever()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.sleep(1)
        return b""

    async def aclose(self) -> None:
        if self.how == "says goodbye first":
            try:
                await trio.sleep(1)
            finally:
                self.closed += 1
            return
        self.closed += 1
        if self.how == "then has a checkpoint":
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("how", ["at once", "then has a checkpoint", "says goodbye first"])
@pytest.mark.parametrize("stapled", [False, True])
def test_a_stream_without_a_close_of_its_own_is_closed_without_waiting(
    stapled: bool, how: str
) -> None:
    async def main() -> None:
        stream = _Other(how)
        timed = TimedStream(trio.StapledStream(stream, stream) if stapled else stream)
        with trio.testing.assert_no_checkpoints():
            timed.close()
        assert stream.closed == (2 if stapled else 1)
        await trio.sleep(1)  # the task and its scopes are as they were

    run_virtual(main)


# ---------------------------------------------------------------- secrets


class Recorder(ClientEnd):
    """Keeps what it was given to send, as it was given."""

    def __init__(self) -> None:
        super().__init__(memory_stream_pair()[0])
        self.given: list[bytes | bytearray | memoryview] = []

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.given.append(data)


def test_a_secret_takes_the_place_of_its_mark_in_the_next_write_only() -> None:
    async def main() -> None:
        recorder = Recorder()
        timed = TimedStream(recorder)
        timed.secrets = {b"<0>": Secret("sk-canary"), b"<1>": Secret("crumb")}
        await timed.write(b"")
        await timed.write(b"a: <0>, b: <1>, c: <0>")
        await timed.write(b"<0>")
        assert recorder.given == [b"a: sk-canary, b: crumb, c: sk-canary", b"<0>"]

    run_virtual(main)


def test_what_is_sent_with_secrets_is_never_shown() -> None:
    async def main() -> None:
        recorder = Recorder()
        timed = TimedStream(recorder)
        timed.secrets = {b"<0>": Secret("sk-canary")}
        await timed.write(b"a: <0>")
        (sent,) = recorder.given
        assert isinstance(sent, bytes)
        assert f"{sent!r} {sent!s} {[sent]}".count("<12 bytes with secrets>") == 3

    run_virtual(main)
