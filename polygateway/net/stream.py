"""A network stream whose reads have one absolute deadline and leave their stamps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeGuard, runtime_checkable

import httpcore
import trio

from ..core.units import ns
from .clock import trio_deadline
from .marks import in_clear
from .tcp import TCPStream

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from ..secret import Secret


class Overdue(Exception):
    """The deadline passed before the network did what was waited for."""


@runtime_checkable
class _Closable(Protocol):
    """A stream that can be closed without waiting."""

    def close(self) -> None: ...


def closer(stream: trio.abc.AsyncResource) -> Callable[[], None]:
    """Give what closes *stream* at once, without waiting for anything.

    A loser's socket must be closed in the same step in which it lost, and by whoever decided it.
    TLS says no goodbye: HTTP has an end of its own.
    """
    if isinstance(stream, TCPStream):
        return stream.close
    if isinstance(stream, trio.SocketStream):
        return stream.socket.close
    if _is_tls(stream):
        return closer(stream.transport_stream)
    if _is_stapled(stream):
        return partial(_close_both, closer(stream.send_stream), closer(stream.receive_stream))
    if isinstance(stream, _Closable):
        return stream.close
    return partial(_close_without_waiting, stream)


def _close_without_waiting(stream: trio.abc.AsyncResource) -> None:
    """Run the stream's ``aclose()`` to where it would wait, and no further.

    trio demands of ``aclose()`` that it closes even when it is cancelled, so by then it has closed,
    or does so in the ``finally`` that leaving it there runs.
    """
    closing = stream.aclose().__await__()
    try:
        next(closing)
    except StopIteration:
        return
    closing.close()


def _close_both(close_sending: Callable[[], None], close_receiving: Callable[[], None]) -> None:
    try:
        close_sending()
    finally:
        close_receiving()


def _is_tls(stream: object) -> TypeGuard[trio.SSLStream[trio.abc.Stream]]:
    return isinstance(stream, trio.SSLStream)


def _is_stapled(
    stream: object,
) -> TypeGuard[trio.StapledStream[trio.abc.SendStream, trio.abc.ReceiveStream]]:
    return isinstance(stream, trio.StapledStream)


def nothing_read(asked_ns: int, arrived_ns: int, found: bool) -> None:  # noqa: FBT001
    """Ignore a read: nobody has asked for its stamps."""


class TimedStream(httpcore.AsyncNetworkStream):
    """What httpcore reads from and writes to.

    The deadline is a time, not a duration, and is set from outside: bytes that arrive do not
    postpone it. A read that is cancelled has taken nothing from the stream.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._close = closer(stream)
        self._time = trio.lowlevel.current_clock().current_time  # two stamps for each read
        self._tcp = stream if isinstance(stream, TCPStream) else None
        self.deadline_ns: int | None = None
        """When reads and writes give up; ``None`` for never."""

        self.on_read: Callable[[int, int, bool], None] = nothing_read
        """Told when each read was begun and when it returned, in nanoseconds, and whether it found
        bytes or the end: a read that was cut off by its deadline, a cancellation or
        :meth:`close` did not. Told in the task that reads, or that closes.
        """

        self.secrets: Mapping[bytes, Secret] = {}
        """What stands for secrets in the next write, and is replaced by them on its way out."""

        self._asked_ns: int | None = None
        """When the read was begun that is under way; ``None`` between two."""

        self.received: int = 0
        """Bytes received since the current exchange began."""

        self.ended: bool = False
        """Whether the peer has closed its side."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Give the next bytes, at least one; ``b""`` at the end.

        Raises:
            Overdue: the deadline passed.
            httpcore.ReadError: the connection broke.
            trio.ClosedResourceError: it was closed on our side.
        """
        asked = self._asked_ns = ns(self._time())
        found = False
        try:
            if self._tcp is None:
                data = await self._receive(max_bytes)
            else:
                data = await self._receive_tcp(self._tcp, asked, max_bytes)
            found = True
        except trio.BrokenResourceError as error:
            found = True
            raise httpcore.ReadError(_reason(error)) from error
        finally:
            self._stamp(found=found)
        self.received += len(data)
        self.ended = not data
        return data

    def _stamp(self, *, found: bool) -> None:
        asked, self._asked_ns = self._asked_ns, None
        if asked is not None:
            self.on_read(asked, ns(self._time()), found)

    async def _receive(self, max_bytes: int) -> bytes:
        with trio.CancelScope(deadline=trio_deadline(self.deadline_ns)):
            return bytes(await self._stream.receive_some(max_bytes))
        raise Overdue

    async def _receive_tcp(self, tcp: TCPStream, asked_ns: int, max_bytes: int) -> bytes:
        """Read without a scope if bytes wait, for then nothing will."""
        await trio.lowlevel.checkpoint_if_cancelled()
        # Also where bytes wait, or a peer that never stops sending would never meet it.
        if self.deadline_ns is not None and asked_ns >= self.deadline_ns:
            raise Overdue
        if (data := tcp.receive_nowait(max_bytes)) is not None:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return data
        with trio.CancelScope(deadline=trio_deadline(self.deadline_ns)):
            while True:
                await trio.lowlevel.wait_readable(tcp.connection)
                if (data := tcp.receive_nowait(max_bytes)) is not None:
                    return data
        raise Overdue

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send *buffer*.

        Raises:
            Overdue: the deadline passed.
            httpcore.WriteError: the connection broke; the reply may still be readable.
        """
        if not buffer:
            return
        secrets, self.secrets = self.secrets, {}
        try:
            await self._send(in_clear(buffer, secrets))
        except trio.BrokenResourceError as error:
            raise httpcore.WriteError(_reason(error)) from error

    async def _send(self, data: bytes) -> None:
        sent = 0
        if self._tcp is not None:
            await trio.lowlevel.checkpoint_if_cancelled()
            if self.deadline_ns is not None and ns(self._time()) >= self.deadline_ns:
                raise Overdue
            sent = self._tcp.send_nowait(data)
            if sent == len(data):
                return
        with trio.CancelScope(deadline=trio_deadline(self.deadline_ns)):
            await self._stream.send_all(memoryview(data)[sent:] if sent else data)
            return
        raise Overdue

    def close(self) -> None:
        """Close the connection at once. Closing again does nothing."""
        # A read that this cuts off ends now, not when its task has its turn.
        self._stamp(found=False)
        self._close()

    async def aclose(self) -> None:
        """Close the connection at once: nothing is waited for, so nothing can be cancelled."""
        self.close()

    def has_unread_bytes(self) -> bool:
        """Tell whether the peer sent something, or closed, while nobody was reading.

        Known for sockets, and of TLS what came along with the last bytes that were read; other
        streams say no, and a stale one is found by its first use.
        """
        stream: trio.abc.AsyncResource = self._stream
        if _is_tls(stream):
            if _holds_records(stream):
                return True
            stream = stream.transport_stream
        if isinstance(stream, TCPStream):
            return stream.is_readable()
        return isinstance(stream, trio.SocketStream) and _is_readable(stream.socket)


def _holds_records(stream: trio.SSLStream[trio.abc.Stream]) -> bool:
    """Tell whether *stream* has taken records from its transport that nobody has read.

    TLS decrypts one record at a time, so a response that nobody asked for can wait in the next one
    while the socket is empty. trio shows what is decrypted only; tests/net/test_tls.py pins the
    private name.
    """
    incoming: ssl.MemoryBIO = stream._incoming  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return incoming.pending > 0


def _is_readable(socket: trio.socket.SocketType) -> bool:
    """Tell whether a read would not park. Of a socket that was closed on our side nobody knows."""
    return socket.fileno() >= 0 and socket.is_readable()


def _reason(error: trio.BrokenResourceError) -> str:
    """Say what broke: trio wraps the errors of sockets and of TLS."""
    return str(error.__cause__ or error) or "connection broken"
