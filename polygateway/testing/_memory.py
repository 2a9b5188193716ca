"""One connection in memory, which can break as a connection over TCP does."""

from __future__ import annotations

import trio
from trio.testing import (
    MemoryReceiveStream,
    MemorySendStream,
    memory_stream_pair,
    memory_stream_pump,
)


class ClientReceiveStream(trio.abc.ReceiveStream):
    """The receiving half of a client's end."""

    def __init__(self, inner: MemoryReceiveStream) -> None:
        self._inner = inner
        self._broken = False
        self.closed = False

    def break_off(self) -> None:
        """Make reading fail where the stream would end."""
        self._broken = True

    async def receive_some(self, max_bytes: int | None = None) -> bytearray:
        """Wait for bytes; none at the end of the stream. If cancelled, nothing is lost.

        Raises:
            trio.BrokenResourceError: all was read, and the connection is broken.
        """
        data = await self._inner.receive_some(max_bytes)
        if self._broken and not data:
            raise trio.BrokenResourceError("connection reset by the scripted provider")
        return data

    def close(self) -> None:
        """Close it without waiting."""
        self.closed = True
        self._inner.close()

    async def aclose(self) -> None:
        """Close it."""
        self.close()
        await trio.lowlevel.checkpoint()


ClientStream = trio.StapledStream[MemorySendStream, ClientReceiveStream]
ServerStream = trio.StapledStream[MemorySendStream, MemoryReceiveStream]


class MemoryConnection:
    """Both ends of a connection, and whether the client has closed its own."""

    def __init__(self) -> None:
        client, server = memory_stream_pair()
        self._receiving = ClientReceiveStream(client.receive_stream)
        self._sending_closed = False
        client.send_stream.close_hook = self._close_sending
        self.client: ClientStream = trio.StapledStream(client.send_stream, self._receiving)
        self.server: ServerStream = server

    @property
    def closed(self) -> bool:
        """Whether the client has closed both halves."""
        return self._sending_closed and self._receiving.closed

    def break_off(self) -> None:
        """Let the client find a broken connection instead of its end, when the server closes."""
        self._receiving.break_off()

    def _close_sending(self) -> None:
        self._sending_closed = True
        memory_stream_pump(self.client.send_stream, self.server.receive_stream)
