"""TLS and TCP over the loopback interface, in real time."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from polygateway.net.connections import Connections, Endpoint, Lease, connect_tcp
from polygateway.net.exchange import Exchange
from polygateway.net.http import ConnectionLost
from tests.net.wires import OK, POST, Authority, requested, within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

HOST = "127.0.0.1"
AUTHORITY = Authority()


@asynccontextmanager
async def listening(
    serve: Callable[[trio.SocketStream], Awaitable[None]],
) -> AsyncGenerator[int]:
    """Serve connections on a port while the block runs."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host=HOST)
        await nursery.start(trio.serve_listeners, serve, listeners)
        yield int(listeners[0].socket.getsockname()[1])
        nursery.cancel_scope.cancel()


class Provider:
    """Answers requests over TLS, under a certificate for *names*."""

    def __init__(self, *names: str) -> None:
        self._context = AUTHORITY.serving(*names)
        self.accepted = 0
        self.gone = trio.Event()
        """Set when a client has closed its connection."""

        self.said_goodbye = False
        """Whether it closed as TLS wants it, by a close_notify."""

    async def serve(self, tcp: trio.SocketStream) -> None:
        self.accepted += 1
        stream = trio.SSLStream(tcp, self._context, server_side=True)
        async with tcp:
            try:
                while await requested(stream):
                    await stream.send_all(OK)
                self.said_goodbye = True
            except trio.BrokenResourceError:
                self.said_goodbye = False
            self.gone.set()


def connections_to(port: int, tls: ssl.SSLContext, host: str = HOST) -> Connections:
    return Connections(Endpoint("https", host, port, tls), slots=1, connect=connect_tcp)


async def whole(connections: Connections) -> bytes:
    exchange = Exchange(connections, lambda asked, arrived, found: None)
    await exchange.open(POST, within())
    body = b""
    while not exchange.ended:
        body += await exchange.read()
    await exchange.finish()
    return body


async def leased(connections: Connections) -> Lease:
    return await connections.admit(within().end_ns)


async def test_a_provider_with_a_certificate_of_a_trusted_authority_is_talked_to() -> None:
    provider = Provider(HOST)
    async with listening(provider.serve) as port:
        connections = connections_to(port, AUTHORITY.trusting())
        for _ in range(3):
            assert await whole(connections) == b"ok"
        # What TLS sends on its own after the handshake does not make a connection stale.
        assert provider.accepted == 1
        connections.close()


async def test_without_a_context_the_same_goes_over_plain_tcp() -> None:
    async def serve(tcp: trio.SocketStream) -> None:
        async with tcp:
            while await requested(tcp):
                await tcp.send_all(OK)

    async with listening(serve) as port:
        connections = Connections(Endpoint("http", HOST, port, None), slots=1, connect=connect_tcp)
        for _ in range(2):
            assert await whole(connections) == b"ok"
        assert connections.open == 1
        connections.close()


async def test_authorities_come_from_a_file(tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(AUTHORITY.pem)
    async with listening(Provider(HOST).serve) as port:
        connections = connections_to(port, ssl.create_default_context(cafile=str(ca_file)))
        assert await whole(connections) == b"ok"
        connections.close()


@pytest.mark.parametrize(
    ("name", "tls", "text"),
    [
        ("example.invalid", AUTHORITY.trusting(), f"certificate is not valid for '{HOST}'"),
        (HOST, ssl.create_default_context(), r"not trusted: .* \(the target's ca_file\)"),
        (HOST, Authority().trusting(), r"not trusted: .* \(the target's ca_file\)"),
    ],
    ids=["another host's", "not of the system's authorities", "of an unknown authority"],
)
async def test_a_certificate_that_proves_nothing_ends_the_connection_with_the_reason(
    name: str, tls: ssl.SSLContext, text: str
) -> None:
    provider = Provider(name)
    async with listening(provider.serve) as port:
        connections = connections_to(port, tls)
        lease = await leased(connections)
        with pytest.raises(ConnectionLost, match=text):
            await lease.connect(within().end_ns)
        await provider.gone.wait()
        lease.close()
        assert (connections.open, connections.free_slots) == (0, 1)


async def test_a_server_that_speaks_no_tls_is_named_as_such() -> None:
    async def serve(tcp: trio.SocketStream) -> None:
        await tcp.receive_some()
        await tcp.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await tcp.aclose()

    async with listening(serve) as port:
        lease = await leased(connections_to(port, AUTHORITY.trusting()))
        with pytest.raises(ConnectionLost, match="SSL"):
            await lease.connect(within().end_ns)


async def test_a_server_that_hangs_up_in_the_handshake_is_lost() -> None:
    async def serve(tcp: trio.SocketStream) -> None:
        await tcp.receive_some()
        await tcp.aclose()

    async with listening(serve) as port:
        lease = await leased(connections_to(port, AUTHORITY.trusting()))
        with pytest.raises(ConnectionLost, match="EOF"):
            await lease.connect(within().end_ns)


async def test_a_handshake_that_is_cancelled_leaves_no_connection() -> None:
    begun, gone = trio.Event(), trio.Event()

    async def serve(tcp: trio.SocketStream) -> None:
        async with tcp:
            assert await tcp.receive_some()
            begun.set()
            assert not await tcp.receive_some()
            gone.set()

    async with listening(serve) as port:
        connections = connections_to(port, AUTHORITY.trusting())
        lease = await leased(connections)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lease.connect, within().end_ns)
            await begun.wait()
            nursery.cancel_scope.cancel()
        await gone.wait()
        lease.close()
        assert (connections.open, connections.free_slots) == (0, 1)


async def test_a_body_may_end_with_the_connection_and_no_goodbye() -> None:
    # Most HTTP servers never send TLS's close_notify; what tells a whole answer from a cut one is
    # its terminal fact.
    context = AUTHORITY.serving(HOST)

    async def serve(tcp: trio.SocketStream) -> None:
        async with tcp:
            stream = trio.SSLStream(tcp, context, server_side=True)
            await requested(stream)
            await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\nok")

    async with listening(serve) as port:
        connections = connections_to(port, AUTHORITY.trusting())
        assert await whole(connections) == b"ok"
        assert (connections.open, connections.free_slots) == (0, 1)


async def test_a_losers_connection_is_closed_at_once_and_without_a_goodbye() -> None:
    provider = Provider(HOST)
    async with listening(provider.serve) as port:
        connections = connections_to(port, AUTHORITY.trusting())
        lease = await leased(connections)
        connection = await lease.connect(within().end_ns)
        with trio.testing.assert_no_checkpoints():
            lease.close()
        assert connections.open == 0
        await provider.gone.wait()
        assert not provider.said_goodbye
        with pytest.raises(trio.ClosedResourceError):
            await connection.timed.read(100)
