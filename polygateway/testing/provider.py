"""A provider that carries out scripts, and keeps a log of what it truly did."""

from __future__ import annotations

import itertools
import math
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs
import trio

from ._http import Request, ServerConnection
from .script import Closing, Head, Script, Send, Silence, Step, checked

if TYPE_CHECKING:
    from collections.abc import Sequence

# Memory streams and sockets close at once; TLS may wait for a peer that does not read.
_CLOSING_S = 1.0

Ended = Literal["done", "client closed", "cut", "reset", "dropped", "stopped"]
ScriptFor: TypeAlias = Callable[[Request], Script]


@attrs.define(kw_only=True, eq=False)
class Exchange:
    """One request and what became of it. Times are those of trio's clock."""

    index: int
    """Position in the provider's log, from 0."""

    connection: int
    """Which of the provider's connections it came on, from 0 in order of opening."""

    request: Request

    started_at: float
    """When the request had been read whole."""

    sent: list[tuple[float, Head | Send]] = attrs.field(factory=list[tuple[float, Head | Send]])
    """What was written, and when each write began. A write that failed is not listed."""

    ended: Ended | None = None
    """``done``: the script was carried out and the response ended properly. ``client closed``: the
    client left before. ``cut``, ``reset``: as the script said. ``dropped``: see ``drops_reused``
    of the provider. ``stopped``: the server was cancelled. ``None`` while it runs.
    """

    ended_at: float | None = None
    """When it ended; of ``client closed``, when the provider saw the close."""

    _over: trio.Event = attrs.field(factory=trio.Event, init=False, repr=False)

    def end(self, how: Ended) -> None:
        """Record the end, unless there was one before."""
        if self.ended is None:
            self.ended, self.ended_at = how, trio.current_time()
            self._over.set()

    async def wait_ended(self) -> None:
        """Wait until it has ended: over sockets the provider sees a close a moment later."""
        await self._over.wait()


class ScriptedProvider:
    """An HTTP/1.1 server that answers each request by the next script; the last one repeats.

    Every write is one step, at the time that the script says. The provider sees at once when the
    client closes the connection, also while it is silent, and writes nothing after that.

    Args:
        scripts: one for each request; a callable is given the request and returns the script.
        connect_s: time before a connection opens or is refused; infinite: never.
        refuses: whether connections are refused.
        keep_alive_s: how long an idle connection stays open; 0 closes it after its first reply.
        drops_reused: whether a connection is closed, without a reply, when its second request comes
            in: what a client meets whose request crosses with the server's close. Such a request
            is in the log but takes no script.

    Raises:
        TypeError: something in a script is no step.
        ValueError: there is no script, or one that cannot be carried out.
    """

    def __init__(
        self,
        *scripts: Script | ScriptFor,
        connect_s: float = 0.0,
        refuses: bool = False,
        keep_alive_s: float = math.inf,
        drops_reused: bool = False,
    ) -> None:
        if not scripts:
            raise ValueError("a scripted provider needs at least one script")
        self._scripts: Sequence[tuple[Step, ...] | ScriptFor] = [
            script if callable(script) else checked(script) for script in scripts
        ]
        self._connections = itertools.count()
        self._answered = 0
        self.connect_s = connect_s
        self.refuses = refuses
        self.keep_alive_s = keep_alive_s
        self.drops_reused = drops_reused
        self.log: list[Exchange] = []
        """Every request, in the order in which they came."""

    async def serve(
        self, stream: trio.abc.Stream, *, reset: Callable[[], None] | None = None
    ) -> None:
        """Serve one connection until one side closes it, then close it.

        If cancelled, what runs is logged as ``stopped`` and the stream is closed.

        Args:
            stream: the server's end.
            reset: called before *stream* is closed, to make the client see a broken connection;
                needed for scripts with ``reset()`` unless *stream* is a socket.

        Raises:
            h11.RemoteProtocolError: the client does not speak HTTP/1.1.
            TypeError: a script says ``reset()`` and there is no way to do it.
        """
        try:
            exchange = await self._exchanges(ServerConnection(stream), next(self._connections))
            if exchange is not None and exchange.ended == "reset":
                (reset or _socket_reset(stream))()
        finally:
            # Shielded: a cancellation here would replace the error that is on its way.
            with trio.move_on_after(_CLOSING_S, shield=True):
                await stream.aclose()

    async def _exchanges(self, http: ServerConnection, connection: int) -> Exchange | None:
        """Serve request after request, and give the last one."""
        exchange = None
        while (request := await self._next_request(http, fresh=exchange is None)) is not None:
            drop = self.drops_reused and exchange is not None
            exchange = self._record(request, connection)
            if drop:
                exchange.end("dropped")
            else:
                await _carry_out(self._next_script(request), http, exchange)
            if not http.renew():
                break
        return exchange

    async def _next_request(self, http: ServerConnection, *, fresh: bool) -> Request | None:
        with trio.move_on_after(math.inf if fresh else self.keep_alive_s):
            return await http.next_request()
        return None

    def _record(self, request: Request, connection: int) -> Exchange:
        exchange = Exchange(
            index=len(self.log),
            connection=connection,
            request=request,
            started_at=trio.current_time(),
        )
        self.log.append(exchange)
        return exchange

    def _next_script(self, request: Request) -> tuple[Step, ...]:
        script = self._scripts[min(self._answered, len(self._scripts) - 1)]
        self._answered += 1
        return checked(script(request)) if callable(script) else script


async def _carry_out(script: Sequence[Step], http: ServerConnection, exchange: Exchange) -> None:
    """Play *script* to its end, or to the moment when the client closes the connection."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, http, exchange, nursery.cancel_scope)
            await _play(script, http, exchange)
            nursery.cancel_scope.cancel()
    finally:
        exchange.end("stopped")


async def _watch(http: ServerConnection, exchange: Exchange, scope: trio.CancelScope) -> None:
    """Wait for the client's close. A request that it sends too early is kept for its turn."""
    while await http.receive():
        pass
    exchange.end("client closed")
    scope.cancel()


async def _play(script: Sequence[Step], http: ServerConnection, exchange: Exchange) -> None:
    try:
        for step in script:
            await _do(step, http, exchange)
        if exchange.ended is None:
            await http.finish()
            exchange.end("done")
    except trio.BrokenResourceError:
        exchange.end("client closed")


async def _do(step: Step, http: ServerConnection, exchange: Exchange) -> None:
    match step:
        case Silence():
            await trio.sleep(step.seconds)
        case Closing():
            exchange.end(step.how)
        case Head() | Send():
            started = trio.current_time()
            await http.write(step)
            exchange.sent.append((started, step))


def _socket_reset(stream: trio.abc.Stream) -> Callable[[], None]:
    """Give what makes the closing of *stream* a TCP reset."""
    if not isinstance(stream, trio.SocketStream):
        raise TypeError(f"cannot reset a {type(stream).__name__}: pass reset= to serve()")
    # To linger for no time at all is how POSIX systems spell RST.
    linger = struct.pack("ii", 1, 0)
    return lambda: stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
