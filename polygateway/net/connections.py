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
#         say was not asked for (a stray 408, or the end). So is one that was idle for too long, or
#         has lived for too long; this is looked at when one is taken or comes back, so where
#         nothing is called, nothing is closed.

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING

import attrs
import trio

from ..core.units import ns
from .clock import now_ns, trio_deadline
from .dial import dial
from .http import HTTPConnection
from .stream import Overdue, TimedStream

if TYPE_CHECKING:
    from ..policies import Limits
    from .dial import Connect, Endpoint


class NoSlot(Exception):
    """No connection slot became free in time."""


@attrs.frozen
class _Idle:
    """A connection that waits for its next exchange."""

    connection: HTTPConnection
    until_ns: int
    """From when on it is not used again."""

    def is_usable(self) -> bool:
        """Tell whether it may be used now."""
        return now_ns() < self.until_ns and not self.connection.timed.has_unread_bytes()


class Connections:
    """The connections of one target."""

    def __init__(self, endpoint: Endpoint, limits: Limits, connect: Connect) -> None:
        self.endpoint = endpoint
        self._connect = connect
        self._slots = trio.Semaphore(limits.max_connections_per_target)
        self._idle_ns = ns(limits.idle_timeout_s)
        self._lifetime_ns = ns(limits.connection_lifetime_s)
        self._idle: deque[_Idle] = deque()  # the one that was idle longest first
        self._leases: dict[Lease, None] = {}  # a set would close them in another order each time

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
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            await self._wait_for_slot(deadline_ns)
        return self._lease()

    async def _wait_for_slot(self, deadline_ns: int) -> None:
        with trio.CancelScope(deadline=trio_deadline(deadline_ns)):
            await self._slots.acquire()
            return
        raise NoSlot

    def _lease(self) -> Lease:
        lease = Lease(self)
        self._leases[lease] = None
        return lease

    def take_idle(self) -> HTTPConnection | None:
        """Give a connection that can be reused; ``None`` if there is none."""
        while self._idle:
            idle = self._idle.pop()
            if idle.is_usable():
                return idle.connection
            idle.connection.close()
        return None

    async def open_fresh(self, deadline_ns: int) -> HTTPConnection:
        """Open a new connection.

        If cancelled, nothing stays open.

        Raises:
            Overdue: it took longer than to the deadline.
            ConnectionLost: the host or its proxy could not be reached, or TLS failed.
        """
        with trio.CancelScope(deadline=trio_deadline(deadline_ns)):
            stream = await dial(self.endpoint, self._connect)
            return HTTPConnection(self.endpoint.origin, TimedStream(stream))
        raise Overdue

    def give_back(self, lease: Lease, connection: HTTPConnection | None) -> None:
        """Take a slot back, and a connection that can be reused."""
        del self._leases[lease]
        self._slots.release()
        if connection is not None:
            self._keep(connection)

    def _keep(self, connection: HTTPConnection) -> None:
        now = now_ns()
        until = min(now + self._idle_ns, connection.opened_ns + self._lifetime_ns)
        if until <= now:
            connection.close()
            return
        # The last one used comes first, so those at the other end would never be looked at.
        while self._idle and not self._idle[0].is_usable():
            self._idle.popleft().connection.close()
        self._idle.append(_Idle(connection, until))

    def close(self) -> None:
        """Close every connection, those in use too: whoever reads from one learns of it."""
        with ExitStack() as closing:
            while self._idle:
                closing.callback(self._idle.pop().connection.close)
            for lease in list(self._leases):
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
            ConnectionLost: the host or its proxy could not be reached, or TLS failed.
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
