"""Connections whose other end the test holds: in memory, or between two sockets of this process."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVarTuple

import attrs
import trio
import trustme
from trio.testing import MemoryReceiveStream, MemorySendStream, memory_stream_pair

from polygateway import Limits
from polygateway.net.clock import now_ns
from polygateway.net.exchange import Deadlines, Post
from polygateway.net.head import Head
from polygateway.net.tcp import TCPStream

ServerEnd: TypeAlias = trio.StapledStream[MemorySendStream, MemoryReceiveStream]
Serve: TypeAlias = Callable[["ServerEnd"], Awaitable[None]]

Ts = TypeVarTuple("Ts")

SECOND = 1_000_000_000
HEADERS = ((b"host", "h"),)
HEAD = Head.of(b"/v1", HEADERS)
POST = Post(head=HEAD, body=b"{}")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class ClientEnd(trio.abc.Stream):
    """The end that is given to polygateway. It can break, and tells whether it was closed."""

    def __init__(self, inner: ServerEnd) -> None:
        self._inner = inner
        self.closed = False
        self.broken: trio.BrokenResourceError | None = None
        """Raised by reads when all that was sent before has been read."""

        self.close_error: OSError | None = None
        """Raised by closing, once it is closed."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = bytes(await self._inner.receive_some(max_bytes))
        if not data and self.broken is not None:
            raise self.broken
        return data

    def close(self) -> None:
        self.closed = True
        self._inner.send_stream.close()
        self._inner.receive_stream.close()
        if self.close_error is not None:
            raise self.close_error

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


def wire() -> tuple[ClientEnd, ServerEnd]:
    """Give the two ends of a connection in memory."""
    client, server = memory_stream_pair()
    return ClientEnd(client), server


def sockets() -> tuple[TCPStream, trio.SocketStream]:
    """Give the two ends of a connection between sockets, our own first."""
    here, there = socket.socketpair()
    return TCPStream(here), trio.SocketStream(trio.socket.from_stdlib_socket(there))


async def requested(server: trio.abc.Stream) -> bytes:
    """Read one request, whose body is ``{}``; what came before the client closed otherwise."""
    received = b""
    while not received.endswith(b"{}") and (data := await server.receive_some()):
        received += data
    return received


async def replied(server: ServerEnd, *pieces: bytes, every_s: float = 1) -> None:
    """Wait for a request and answer it with *pieces*, each *every_s* after the one before."""
    await requested(server)
    for piece in pieces:
        await trio.sleep(every_s)
        await server.send_all(piece)


@attrs.define
class Network:
    """Opens connections in memory, and serves each in a task of its own."""

    nursery: trio.Nursery
    serve: Sequence[Serve]
    """What happens on each connection in turn; the last one holds for all that follow."""

    connect_s: float = 0
    """How long a connection takes."""

    clients: list[ClientEnd] = attrs.field(factory=list["ClientEnd"], init=False)

    @property
    def open(self) -> int:
        """How many connections are open, on our side."""
        return sum(not client.closed for client in self.clients)

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        """Open a connection. If cancelled, there is none."""
        await trio.sleep(self.connect_s)
        client, server = wire()
        serve = self.serve[min(len(self.clients), len(self.serve) - 1)]
        self.clients.append(client)
        self.nursery.start_soon(_served, serve, server)
        return client


async def _served(serve: Serve, server: ServerEnd) -> None:
    with suppress(trio.BrokenResourceError):  # A client that went away is no server's failure.
        await serve(server)


def within(admission_s: float = 100, connect_s: float = 100, end_s: float = 1000) -> Deadlines:
    """Give deadlines, those of the steps as durations."""
    return Deadlines(
        admission_ns=round(admission_s * SECOND),
        connect_ns=round(connect_s * SECOND),
        end_ns=now_ns() + round(end_s * SECOND),
    )


def with_slots(number: int) -> Limits:
    """Give limits with so many connections."""
    return Limits(max_connections_per_target=number)


@attrs.frozen
class Certified:
    """Two PEM texts that belong together."""

    certificate: bytes
    key: bytes


class Authority:
    """Issues certificates which those who trust it accept."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self.pem = self._authority.cert_pem.bytes()

    def trusting(self) -> ssl.SSLContext:
        """Give the context of a client that trusts this authority alone."""
        return ssl.create_default_context(cadata=self.pem.decode("ascii"))

    def issue(self, name: str) -> Certified:
        """Give a certificate for *name*, and its key."""
        issued = self._authority.issue_cert(name)
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        return Certified(chain, issued.private_key_pem.bytes())

    def serving(self, *names: str) -> ssl.SSLContext:
        """Give the context of a server whose certificate is for *names*."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate = self._authority.issue_cert(*names)
        with certificate.private_key_and_cert_chain_pem.tempfile() as path:
            context.load_cert_chain(path)
        return context


class Strike(trio.abc.Instrument):
    """Cancels what it runs before a given one of its steps."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._steps = 0
        self._scope = trio.CancelScope()
        self._victim: trio.Nursery | None = None

    @property
    def struck(self) -> bool:
        """Whether there were so many steps."""
        return self._scope.cancel_called

    async def run(self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Run *async_fn* in a task of its own, cancelled at the step."""
        trio.lowlevel.add_instrument(self)
        with self._scope:
            async with trio.open_nursery() as self._victim:
                self._victim.start_soon(async_fn, *args)
        trio.lowlevel.remove_instrument(self)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._victim is not None and task.parent_nursery is self._victim:
            self._steps += 1
            if self._steps == self._at:
                self._scope.cancel()
