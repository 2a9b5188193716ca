"""An HTTP proxy, as CONNECT makes one, whose every byte the test decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import trio

from polygateway.config.proxies import Proxy
from polygateway.secret import Secret
from tests.net.wires import OK, requested, wire

if TYPE_CHECKING:
    import ssl

    from tests.net.wires import ClientEnd

ServeStream: TypeAlias = Callable[[trio.abc.Stream], Awaitable[None]]
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"

LOGIN = "dXNlcjpjYW5hcnktN2YzYQ=="
"""``user:canary-7f3a`` in base64."""

PROXY = Proxy("proxy.corp", 3128)
PROXY_WITH_LOGIN = Proxy("proxy.corp", 3128, Secret(LOGIN, prefix="Basic "))


async def head_of(stream: trio.abc.Stream) -> bytes:
    """Read a head; what came before the client closed otherwise."""
    received = b""
    while not received.endswith(b"\r\n\r\n") and (data := await stream.receive_some()):
        received += data
    return received


class Tunnels:
    """A proxy, and what lies behind it."""

    def __init__(
        self, nursery: trio.Nursery, then: ServeStream, *pieces: bytes, connect_s: float = 0
    ) -> None:
        """Prepare one.

        Args:
            nursery: for its connections.
            then: plays the target when the tunnel is open.
            pieces: what CONNECT is answered with, piece by piece.
            connect_s: how long a connection to the proxy takes.
        """
        self._nursery = nursery
        self._then = then
        self._pieces = pieces or (ESTABLISHED,)
        self._connect_s = connect_s
        self.asked: list[tuple[str, int, ssl.SSLContext | None]] = []
        """What :meth:`connect` was asked for."""

        self.heads: list[bytes] = []
        """What the proxy was sent."""

        self.clients: list[ClientEnd] = []

    @property
    def open(self) -> int:
        """How many connections are open, on our side."""
        return sum(not client.closed for client in self.clients)

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        """Open a connection to the proxy, whatever is asked for."""
        self.asked.append((host, port, tls))
        await trio.sleep(self._connect_s)
        client, server = wire()
        self.clients.append(client)
        self._nursery.start_soon(self.serve, server)
        return client

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Play the proxy, and then the target, on a connection."""
        with suppress(trio.BrokenResourceError):  # A client that went away is no proxy's failure.
            self.heads.append(await head_of(stream))
            for piece in self._pieces:
                await stream.send_all(piece)
            await self._then(stream)


async def answering(stream: trio.abc.Stream) -> None:
    """Answer every request at once, as a target does."""
    while await requested(stream):
        await stream.send_all(OK)


def answering_over(context: ssl.SSLContext) -> ServeStream:
    """Do the same over TLS."""

    async def serve(stream: trio.abc.Stream) -> None:
        await answering(trio.SSLStream(stream, context, server_side=True))

    return serve


async def hanging_up(stream: trio.abc.Stream) -> None:
    """Close at once."""
    await stream.aclose()


async def silent(stream: trio.abc.Stream) -> None:
    """Say nothing more."""
    await trio.sleep_forever()
