"""TLS and TCP over the loopback interface, in real time."""

from __future__ import annotations

import ssl
import traceback
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import trio
from cryptography.hazmat.primitives import serialization
from trio.testing import memory_stream_pair

from polygateway import ConfigurationError, Target
from polygateway.net.connections import Connections, Lease
from polygateway.net.dial import Endpoint, connect_tcp
from polygateway.net.exchange import Exchange
from polygateway.net.http import ConnectionLost
from polygateway.net.tls import Contexts, client_context
from tests.net.wires import OK, POST, Authority, requested, with_slots, within

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
    return Connections(Endpoint("https", host, port, tls), with_slots(1), connect_tcp)


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
        connections = Connections(Endpoint("http", HOST, port, None), with_slots(1), connect_tcp)
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


# ---------------------------------------------------------------- what came along


class Gathering(trio.abc.Stream):
    """Sends what it is given in one piece, when it is told to."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self._inner = inner
        self._gathered: bytearray | None = None

    def gather(self) -> None:
        self._gathered = bytearray()

    async def flush(self) -> None:
        gathered, self._gathered = self._gathered, None
        await self._inner.send_all(gathered or b"")

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._gathered is None:
            await self._inner.send_all(data)
        else:
            self._gathered.extend(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.mark.parametrize("stray", [b"", OK, b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
async def test_what_came_behind_a_response_in_a_record_of_its_own_ends_the_connection(
    stray: bytes,
) -> None:
    # It is in no buffer of HTTP's, and the socket is empty: it would be taken for the reply to the
    # next request.
    context = AUTHORITY.serving(HOST)
    accepted = 0

    async def serve(tcp: trio.SocketStream) -> None:
        nonlocal accepted
        accepted += 1
        transport = Gathering(tcp)
        stream = trio.SSLStream(transport, context, server_side=True)
        async with tcp:
            with suppress(trio.BrokenResourceError):  # clients say no goodbye
                while await requested(stream):
                    transport.gather()
                    await stream.send_all(OK)
                    if stray:
                        await stream.send_all(stray)
                    await transport.flush()

    async with listening(serve) as port:
        connections = connections_to(port, AUTHORITY.trusting())
        with trio.fail_after(20):
            for _ in range(3):
                assert await whole(connections) == b"ok"
        assert accepted == (3 if stray else 1)
        connections.close()


def test_the_private_name_that_tells_of_unread_records_exists() -> None:
    stream = trio.SSLStream(memory_stream_pair()[0], ssl.create_default_context())
    assert isinstance(stream._incoming, ssl.MemoryBIO)
    assert stream._incoming.pending == 0


# ---------------------------------------------------------------- the context


def target(
    ca_file: str | None = None,
    client_cert_file: str | None = None,
    client_key_file: str | None = None,
) -> Target:
    return Target(
        dialect="openai-chat",
        base_url="https://h.invalid",
        model="m",
        ca_file=ca_file,
        client_cert_file=client_cert_file,
        client_key_file=client_key_file,
    )


class Files:
    """PEM files of a client that the authority knows."""

    def __init__(self, folder: Path) -> None:
        client, other = AUTHORITY.issue("client"), AUTHORITY.issue("other")
        self._folder = folder
        self.ca = self._write("ca.pem", AUTHORITY.pem)
        self.cert = self._write("cert.pem", client.certificate)
        self.key = self._write("key.pem", client.key)
        self.both = self._write("both.pem", client.key + client.certificate)
        self.other_key = self._write("other.pem", other.key)
        self.encrypted = self._write("encrypted.pem", encrypted(client.key))
        self.garbage = self._write("garbage.pem", b"canary-7f3a\n")
        self.missing = str(folder / "missing.pem")

    def _write(self, name: str, content: bytes) -> str:
        path = self._folder / name
        path.write_bytes(content)
        return str(path)


def encrypted(key: bytes) -> bytes:
    plain = serialization.load_pem_private_key(key, None)
    return plain.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"passphrase"),
    )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_server_is_verified_whatever_is_configured(files: Files) -> None:
    for context in (
        client_context("eu", target()),
        client_context("eu", target(ca_file=files.ca)),
        client_context("eu", target(client_cert_file=files.both)),
    ):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_targets_share_a_context_if_they_name_the_same_files_or_none(files: Files) -> None:
    contexts = Contexts()
    plain, own = contexts.of("eu", target()), contexts.of("us", target(ca_file=files.ca))
    assert plain is not own
    assert contexts.of("asia", target()) is plain
    assert contexts.of("africa", target(ca_file=files.ca)) is own


def test_nobody_else_is_shown_a_target_s_certificate(files: Files) -> None:
    contexts = Contexts()
    shown = [
        target(),
        target(client_cert_file=files.both),
        target(client_cert_file=files.cert, client_key_file=files.key),
        target(client_cert_file=files.both, client_key_file=files.key),
        target(ca_file=files.ca, client_cert_file=files.both),
    ]
    made = [contexts.of("eu", each) for each in shown]
    assert len(set(map(id, made))) == len(made)


async def test_a_server_that_asks_for_it_is_shown_the_client_s_certificate(files: Files) -> None:
    context = AUTHORITY.serving(HOST)
    context.load_verify_locations(files.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    shown: list[object] = []

    async def serve(tcp: trio.SocketStream) -> None:
        stream = trio.SSLStream(tcp, context, server_side=True)
        async with tcp:
            with suppress(trio.BrokenResourceError):
                while await requested(stream):
                    shown.append(stream.getpeercert()["subjectAltName"])
                    await stream.send_all(OK)

    async with listening(serve) as port:
        for given in (
            {"client_cert_file": files.cert, "client_key_file": files.key},
            {"client_cert_file": files.both},
        ):
            connections = connections_to(
                port, client_context("eu", target(ca_file=files.ca, **given))
            )
            assert await whole(connections) == b"ok"
            connections.close()
        # Without one the server ends the connection; TLS 1.3 learns that after the handshake.
        connections = connections_to(port, client_context("eu", target(ca_file=files.ca)))
        with pytest.raises(ConnectionLost):
            await whole(connections)
        connections.close()
    assert shown == [(("DNS", "client"),)] * 2


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"ca_file": "missing"}, r"targets\.eu\.ca_file: '.*missing\.pem' .*No such file"),
        ({"ca_file": "garbage"}, r"targets\.eu\.ca_file: '.*garbage\.pem' holds no usable cert"),
        ({"ca_file": "key"}, r"targets\.eu\.ca_file: '.*key\.pem' holds no usable certificates"),
        (
            {"client_cert_file": "missing"},
            r"targets\.eu\.client_cert_file: '.*missing\.pem' cannot be read: No such file",
        ),
        (
            {"client_cert_file": "cert", "client_key_file": "missing"},
            r"targets\.eu\.client_key_file: '.*missing\.pem' cannot be read: No such file",
        ),
        (
            {"client_cert_file": "cert"},
            r"targets\.eu\.client_cert_file: '.*cert\.pem' holds no certificate with its private",
        ),
        (
            {"client_cert_file": "key"},
            r"targets\.eu\.client_cert_file: '.*key\.pem' holds no certificate with its private",
        ),
        (
            {"client_cert_file": "garbage", "client_key_file": "key"},
            r"'.*garbage\.pem' with '.*key\.pem' holds no certificate with its private key",
        ),
        (
            {"client_cert_file": "cert", "client_key_file": "other_key"},
            r"'.*cert\.pem' with '.*other\.pem' .* key values mismatch",
        ),
        (
            {"client_cert_file": "cert", "client_key_file": "encrypted"},
            r"'.*cert\.pem' with '.*encrypted\.pem' holds a private key that is encrypted",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_setting(
    files: Files, given: dict[str, str], text: str
) -> None:
    paths = {setting: getattr(files, name) for setting, name in given.items()}
    with pytest.raises(ConfigurationError, match=text) as caught:
        client_context("eu", target(**paths))
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "canary" not in "".join(told.format())
    assert "PRIVATE KEY" not in "".join(told.format())
