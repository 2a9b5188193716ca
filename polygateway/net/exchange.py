"""One streamed exchange: a slot, a connection, a request, and the bytes of its reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from .clock import now_ns
from .connections import NoSlot
from .head import Head
from .http import ConnectionLost, HTTPViolation
from .inflate import AT_ONCE, Inflater
from .stream import Overdue, nothing_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .connections import Connections, Lease
    from .http import HTTPConnection, ResponseHead

# How long and how much is read behind the end of an answer so that its connection can be reused.
# The body's end usually comes in the same segment; a fresh connection costs two round trips.
_DRAIN_NS = 50_000_000
_DRAIN_BYTES = 64 * 1024

# Content codings that are none. "none" is written by servers whose framework would else compress
# their event streams, Next.js for one.
_PLAIN = ("", "identity", "none")


class ConnectOverdue(Overdue):
    """No connection in time."""


@attrs.frozen(kw_only=True)
class Deadlines:
    """Until when each step of an exchange may take, as durations where the step begins late."""

    admission_ns: int
    """How long a slot is waited for."""

    connect_ns: int
    """How long a connection may take once there is a slot."""

    end_ns: int
    """When the head of the reply must be there, whatever else."""


@attrs.frozen(kw_only=True)
class Post:
    """A request as it is sent."""

    head: Head = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)


class Exchange:
    """Owns a slot and a connection from :meth:`open` to :meth:`finish` or :meth:`close`."""

    def __init__(self, connections: Connections, on_read: Callable[[int, int, bool], None]) -> None:
        """Prepare an exchange.

        Args:
            connections: those of the target.
            on_read: told of each read of the socket; see ``TimedStream.on_read``.
        """
        self._connections = connections
        self._on_read = on_read
        self._lease: Lease | None = None
        self._coding = ""
        self._is_plain = True  # nothing has to be inflated
        self._inflater: Inflater | None = None
        self._pieces: Iterator[bytes] | None = None
        """Those of the last read that have not been given; ``None`` if it is used up."""

        self._closed = False
        self.deadline_ns: int | None = None
        """When :meth:`read` gives up; ``None`` for never. Set it before each read."""

        self.ended: bool = False
        """Whether the body's end came and everything before it was given."""

        self.sent_ns: int | None = None
        """When the last byte of the request was written; ``None`` before."""

        self.had_connection: bool = False
        """Whether there ever was a connection."""

    async def open(self, post: Post, deadlines: Deadlines) -> ResponseHead:
        """Send *post* and wait for the head of the reply.

        A reused connection that dies before it brought a byte was stale: the request is sent once
        more, over a fresh one.

        If cancelled, the exchange must be closed.

        Raises:
            NoSlot: no connection slot in time.
            ConnectOverdue: no connection in time.
            Overdue: no head in time.
            ConnectionLost: no connection, or it ended before the head was complete.
            HTTPViolation: what came is not HTTP/1.1.
        """
        lease = await self._admit(deadlines)
        connection = await self._connect(lease, deadlines, fresh=False)
        stale = connection.exchanges > 0
        try:
            head = await self._post(connection, post, deadlines)
        except ConnectionLost:
            if not stale or connection.timed.received:
                raise
            connection = await self._connect(lease, deadlines, fresh=True)
            head = await self._post(connection, post, deadlines)
        self._coding = head.headers.get("content-encoding", "").strip().lower()
        self._is_plain = self._coding in _PLAIN
        return head

    async def _admit(self, deadlines: Deadlines) -> Lease:
        try:
            lease = await self._connections.admit(
                min(now_ns() + deadlines.admission_ns, deadlines.end_ns)
            )
        except NoSlot:
            if now_ns() >= deadlines.end_ns:
                raise Overdue from None
            raise
        if self._closed:
            # It was closed while the slot was on its way: nobody else will give it back.
            lease.close()
            raise trio.ClosedResourceError
        self._lease = lease
        return lease

    async def _connect(self, lease: Lease, deadlines: Deadlines, *, fresh: bool) -> HTTPConnection:
        try:
            connection = await lease.connect(
                min(now_ns() + deadlines.connect_ns, deadlines.end_ns), fresh=fresh
            )
        except Overdue:
            if now_ns() >= deadlines.end_ns:
                raise
            raise ConnectOverdue from None
        self.had_connection = True
        return connection

    async def _post(
        self, connection: HTTPConnection, post: Post, deadlines: Deadlines
    ) -> ResponseHead:
        self.sent_ns = None
        connection.on_sent = self._note_sent
        connection.timed.on_read = self._on_read
        connection.timed.deadline_ns = deadlines.end_ns
        return await connection.post(post.head, post.body)

    def _note_sent(self) -> None:
        if not self._closed:
            self.sent_ns = now_ns()

    async def read(self) -> bytes:
        """Wait for the next bytes of the body, at most 16 KiB; may give none.

        If cancelled, nothing is lost: reading may go on, in whatever task.

        Raises:
            Overdue: the deadline passed. Reading may go on.
            ConnectionLost: the connection ended before the body did.
            HTTPViolation: the body's framing is damaged.
            CodingError: the body has a coding that is not known, or is damaged.
            trio.ClosedResourceError: it was closed on our side.
        """
        if self._pieces is not None:
            # What one read brought may be much, or inflate to a thousand times its size. Others get
            # their turn between its pieces, and the deadline holds.
            await trio.lowlevel.checkpoint()
            return self._next_piece(self._pieces)
        connection = self._connection()
        connection.timed.deadline_ns = self.deadline_ns
        data = await connection.read_body()
        if self._is_plain and len(data) <= AT_ONCE:
            self.ended = connection.body_ended
            return data
        self._pieces = self._in_pieces(data, last=connection.body_ended)
        return self._next_piece(self._pieces)

    def _in_pieces(self, data: bytes, *, last: bool) -> Iterator[bytes]:
        if self._is_plain:
            return (data[at : at + AT_ONCE] for at in range(0, len(data), AT_ONCE))
        self._inflater = self._inflater or Inflater(self._coding)
        return self._inflater.feed(data, last=last)

    def _next_piece(self, pieces: Iterator[bytes]) -> bytes:
        if self.deadline_ns is not None and now_ns() >= self.deadline_ns:
            raise Overdue
        piece = next(pieces, None)
        if piece is None:
            self._pieces = None
            self.ended = self._connection().body_ended
        return piece or b""

    async def finish(self) -> None:
        """Let the connection be reused if the body ends soon; close it otherwise.

        If cancelled, it is closed. After :meth:`close` this does nothing.
        """
        try:
            if await self._drain() and self._lease is not None:
                self._lease.keep()
        finally:
            self.close()

    async def _drain(self) -> bool:
        try:
            connection = self._connection()
            connection.timed.on_read = nothing_read  # what comes now belongs to no answer
            connection.timed.deadline_ns = now_ns() + _DRAIN_NS
            rest = _DRAIN_BYTES
            while not connection.body_ended and rest > 0:
                rest -= len(await connection.read_body())
        except (Overdue, ConnectionLost, HTTPViolation, trio.ClosedResourceError):
            return False
        return connection.body_ended and await connection.make_reusable()

    def close(self) -> None:
        """Close the connection and give the slot back, at once. Closing again does nothing."""
        self._closed = True
        self._on_read = nothing_read  # whoever is told may hold this
        if self._lease is not None:
            self._lease.close()

    def _connection(self) -> HTTPConnection:
        connection = self._lease.connection if self._lease is not None else None
        if connection is None:
            raise trio.ClosedResourceError("the exchange has no connection")
        return connection
