"""Who may open a connection to a target, which one may be reused, and what must be closed."""

# Theory of operation
# ===================
#
# Rule 1: a slot is a permit of a semaphore, which trio hands out first come, first served. Whoever
#         holds a lease owns its slot and its connection, and gives both back by close() or keep(),
#         which wait for nothing.
# Rule 2: a connection is reused before one is opened, so that never more are open than there are
#         slots. The one used last comes first: the peer is the least likely to have closed it.
# Rule 3: nothing is assigned to another task, and there is no background task: no cancellation, at
#         whatever point, can leave a slot without an owner.
# Rule 4: an idle connection that has something to read is closed before it is used: what it has to
#         say was not asked for (a stray 408, or the end).

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TypeAlias, TypeGuard

import attrs
import httpcore
import trio

from .clock import trio_deadline
from .http import ConnectionLost, HTTPConnection
from .stream import Overdue, TimedStream, closer

Connect: TypeAlias = Callable[[str, int, ssl.SSLContext | None], Awaitable[trio.abc.Stream]]
"""Opens a stream to (host, port), with TLS if there is a context."""


class NoSlot(Exception):
    """No connection slot became free in time."""


async def connect_tcp(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Open a TCP connection, with TLS if *tls* is given.

    If cancelled, nothing stays open.

    Raises:
        OSError: no address of *host* could be reached.
        trio.BrokenResourceError: the TLS handshake failed.
    """
    tcp = await trio.open_tcp_stream(host, port)
    if tls is None:
        return tcp
    with ExitStack() as unless_done:
        unless_done.callback(closer(tcp))
        stream = trio.SSLStream(tcp, tls, server_hostname=host, https_compatible=True)
        await stream.do_handshake()
        unless_done.pop_all()
    return stream


@attrs.frozen
class Endpoint:
    """Where the connections of one target go."""

    scheme: str
    host: str
    port: int
    tls: ssl.SSLContext | None = attrs.field(eq=False, repr=False)

    @property
    def origin(self) -> httpcore.Origin:
        """The same in httpcore's words."""
        return httpcore.Origin(self.scheme.encode(), self.host.encode(), self.port)


class Connections:
    """The connections of one target."""

    def __init__(self, endpoint: Endpoint, *, slots: int, connect: Connect) -> None:
        self.endpoint = endpoint
        self._connect = connect
        self._slots = trio.Semaphore(slots)
        self._idle: deque[HTTPConnection] = deque()
        self._leases: set[Lease] = set()

    @property
    def open(self) -> int:
        """Connections that are open, in use or idle."""
        return len(self._idle) + sum(lease.connection is not None for lease in self._leases)

    @property
    def free_slots(self) -> int:
        """Slots that nobody holds."""
        return self._slots.value

    async def admit(self, deadline_ns: int) -> Lease:
        """Wait for a slot, first come, first served.

        If cancelled, no slot is taken.

        Raises:
            NoSlot: none became free before the deadline.
        """
        with trio.CancelScope(deadline=trio_deadline(deadline_ns)):
            await self._slots.acquire()
            return self._lease()
        raise NoSlot

    def _lease(self) -> Lease:
        lease = Lease(self)
        self._leases.add(lease)
        return lease

    def take_idle(self) -> HTTPConnection | None:
        """Give a connection that can be reused; ``None`` if there is none."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.timed.has_unread_bytes():
                return connection
            connection.close()
        return None

    async def open_fresh(self, deadline_ns: int) -> HTTPConnection:
        """Open a new connection.

        If cancelled, nothing stays open.

        Raises:
            Overdue: it took longer than to the deadline.
            ConnectionLost: the host could not be reached, or TLS failed.
        """
        where = self.endpoint
        try:
            with trio.CancelScope(deadline=trio_deadline(deadline_ns)):
                stream = await self._connect(where.host, where.port, where.tls)
                return HTTPConnection(where.origin, TimedStream(stream))
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            raise ConnectionLost(_why(error)) from error
        raise Overdue

    def give_back(self, lease: Lease, connection: HTTPConnection | None) -> None:
        """Take a slot back, and a connection that can be reused."""
        self._leases.remove(lease)
        self._slots.release()
        if connection is not None:
            self._idle.append(connection)
            self._close_stale()

    def _close_stale(self) -> None:
        """Close those that the peer has closed, beginning with the one that was idle longest.

        The last one used comes first, so those at the other end would never be looked at.
        """
        while self._idle and self._idle[0].timed.has_unread_bytes():
            self._idle.popleft().close()

    def close(self) -> None:
        """Close every connection, those in use too: whoever reads from one learns of it."""
        with ExitStack() as closing:
            while self._idle:
                closing.callback(self._idle.pop().close)
            for lease in self._leases:
                closing.callback(lease.close)


@attrs.define(eq=False)
class Lease:
    """A slot, and the connection in it."""

    _home: Connections
    connection: HTTPConnection | None = attrs.field(default=None, init=False)
    _ended: bool = attrs.field(default=False, init=False)

    async def connect(self, deadline_ns: int, *, fresh: bool = False) -> HTTPConnection:
        """Put a connection into the slot: an idle one, or with *fresh* in any case a new one.

        Raises:
            Overdue: it took longer than to the deadline.
            ConnectionLost: the host could not be reached, or TLS failed.
            trio.ClosedResourceError: the lease was closed meanwhile.
        """
        self._drop()
        connection = None if fresh else self._home.take_idle()
        if connection is None:
            connection = await self._home.open_fresh(deadline_ns)
        if self._ended:
            connection.close()
            raise trio.ClosedResourceError
        self.connection = connection
        return connection

    def _drop(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def keep(self) -> None:
        """Give the slot back and let the connection, which is between two exchanges, be reused."""
        self._end(self.connection)

    def close(self) -> None:
        """Close the connection and give the slot back, at once. Closing again does nothing."""
        try:
            self._drop()
        finally:
            self._end(None)

    def _end(self, connection: HTTPConnection | None) -> None:
        if not self._ended:
            self._ended = True
            self.connection = None
            self._home.give_back(self, connection)


def _why(error: Exception) -> str:
    """Say why there is no connection: trio wraps and groups the errors of sockets and of TLS."""
    cause = error.__cause__
    if _is_group(cause):
        return "; ".join(sorted({str(each) for each in cause.exceptions}))
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message} (the target's ca_file)"
    return str(cause or error) or type(error).__name__


def _is_group(error: BaseException | None) -> TypeGuard[ExceptionGroup[Exception]]:
    return isinstance(error, ExceptionGroup)
