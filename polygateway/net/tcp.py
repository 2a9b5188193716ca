"""A TCP connection that can be read without waiting.

trio's own stream is not used: it has no such read, and costs some ten microseconds at each, which
is as much as all else that is done for a chunk. The socket below it is not trio's either, for that
one does not show whether bytes wait.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from typing import Self

_RECEIVED_AT_ONCE = 64 * 1024

# What the operating system says of a socket that was closed on our side (the second: Windows).
_CLOSED = {errno.EBADF, errno.ENOTSOCK}


class TCPStream(trio.abc.Stream):
    """A stream over a socket. One task at a time may read, and one may write."""

    def __init__(self, connection: socket.socket) -> None:
        self._trios = trio.socket.from_stdlib_socket(connection)  # which waits for nothing now
        self.connection: socket.socket = connection
        """The socket. Nobody else may read from it, write to it or close it."""

    @classmethod
    def taken_from(cls, stream: trio.SocketStream) -> Self:
        """Take the connection out of a stream of trio's, which is of no use afterwards."""
        there = stream.socket
        return cls(socket.socket(there.family, there.type, there.proto, there.detach()))

    # ---- without waiting ------------------------------------------------------------------------

    def receive_nowait(self, max_bytes: int) -> bytes | None:
        """Give what has come, ``b""`` at the end; ``None`` if nothing has.

        Raises:
            trio.BrokenResourceError: the connection broke.
            trio.ClosedResourceError: it was closed on our side.
        """
        try:
            return self.connection.recv(max_bytes)
        except BlockingIOError:
            return None
        except OSError as error:
            raise _what(error) from error

    def send_nowait(self, data: bytes | bytearray | memoryview) -> int:
        """Send what can be sent at once of *data*, and give how many bytes that are.

        Raises:
            trio.BrokenResourceError: the connection broke.
            trio.ClosedResourceError: it was closed on our side.
        """
        try:
            return self.connection.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise _what(error) from error

    def is_readable(self) -> bool:
        """Tell whether bytes wait, or the end. Of what was closed on our side nobody knows."""
        # Not by peeking: that takes away the error of a connection that broke.
        return self.connection.fileno() >= 0 and self._trios.is_readable()

    def close(self) -> None:
        """Close it at once; whoever waits for it learns of that. Closing again does nothing."""
        if self.connection.fileno() >= 0:
            trio.lowlevel.notify_closing(self.connection)
        self.connection.close()

    # ---- waiting --------------------------------------------------------------------------------

    async def connect(self, address: str, port: int) -> None:
        """Connect to an address, which is no name. If cancelled, the connection is closed.

        Raises:
            OSError: that is not possible; the text says why.
        """
        await self._trios.connect((address, port))

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Give the next bytes, at least one; ``b""`` at the end.

        If cancelled, nothing is taken from the connection.

        Raises:
            trio.BrokenResourceError: the connection broke.
            trio.BusyResourceError: another task waits for bytes.
            trio.ClosedResourceError: it was closed on our side.
            ValueError: *max_bytes* is less than 1.
        """
        if max_bytes is not None and max_bytes < 1:
            raise ValueError(f"max_bytes is {max_bytes}; at least 1 is wanted")
        await trio.lowlevel.checkpoint_if_cancelled()
        most = _RECEIVED_AT_ONCE if max_bytes is None else max_bytes
        if (data := self.receive_nowait(most)) is not None:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return data
        while data is None:
            await trio.lowlevel.wait_readable(self.connection)
            data = self.receive_nowait(most)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send *data*. If cancelled, any part of it may have been sent."""
        await trio.lowlevel.checkpoint()
        rest = memoryview(data)
        while rest := rest[self.send_nowait(rest) :]:
            await trio.lowlevel.wait_writable(self.connection)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room for something."""
        if self.connection.fileno() < 0:
            raise trio.ClosedResourceError("this connection was closed")
        await trio.lowlevel.wait_writable(self.connection)

    async def aclose(self) -> None:
        """Close it at once."""
        self.close()
        await trio.lowlevel.checkpoint()


def _what(error: OSError) -> trio.BrokenResourceError | trio.ClosedResourceError:
    if error.errno in _CLOSED:
        return trio.ClosedResourceError("this connection was closed")
    return trio.BrokenResourceError(f"socket connection broken: {error}")
