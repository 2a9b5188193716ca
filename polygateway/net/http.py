"""One streamed POST over one HTTP/1.1 connection."""

# httpcore's connection does the HTTP. Its response.stream is not used: that is an async generator,
# in which a read cancelled by a silence deadline closes the connection and makes the next read a
# false clean end, and which warns when it is abandoned. Here the parser underneath is asked: a
# cancelled read loses nothing, the next one may come from another task, and nothing needs to be
# finalised. tests/net/test_http.py pins the private names used here against httpcore and httpcore2.
#
# Keys are not among what httpcore and h11 handle: a mark stands for each until the head is written.
# And httpcore logs the heads of responses, in which some servers echo that of the request, so it is
# told of no header that came.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import attrs
import h11
import httpcore
import trio

from ..wire.malformed import excerpt
from .clock import now_ns
from .parser import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from httpcore._synchronization import AsyncLock

    from ..secret import Secret
    from .head import Head
    from .parser import Event
    from .stream import TimedStream


class ConnectionLost(Exception):
    """The connection ended before the response did."""


class HTTPViolation(Exception):
    """What came is not HTTP/1.1."""


@attrs.frozen
class ResponseHead:
    """Status and headers of a response."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; of a header that came twice, the values joined by a comma."""


# Larger bodies are not copied behind their head: that saves a system call, and costs memory.
_MOST_IN_ONE_WRITE = 64 * 1024


class _NoLock:
    """In the place of httpcore's lock: whoever holds a lease is the only user of its connection."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass


def _nothing_sent() -> None:
    """Ignore it: nobody has asked yet."""


# What httpcore and h11 raise for what the peer does.
_ERRORS = (
    httpcore.ReadError,
    httpcore.WriteError,
    httpcore.RemoteProtocolError,
    h11.RemoteProtocolError,
)

# Interim responses (RFC 9110, section 15.2) have no bound of their own. Real ones are one or two of
# a few hundred bytes.
_MOST_BEFORE_RESPONSE = 1024 * 1024

# How much is taken from one read before others get their turn: 64 KiB can hold ten thousand chunks
# of one byte, and h11 takes about ten microseconds for each that the parser leaves to it.
_EVENTS_AT_ONCE = 500


class HTTPConnection(httpcore.AsyncHTTP11Connection):
    """One connection to one origin. Serves one exchange at a time."""

    _head: Head  # of the current request

    def __init__(self, origin: httpcore.Origin, stream: TimedStream) -> None:
        super().__init__(origin, stream)
        self._h11_state = self._parser = Parser(
            our_role=h11.CLIENT, max_incomplete_event_size=self.MAX_INCOMPLETE_EVENT_SIZE
        )
        self._state_lock = cast("AsyncLock", _NoLock())  # two turns of the loop for each exchange
        self.timed = stream
        self.opened_ns: int = now_ns()
        """When this was made."""

        self.exchanges: int = 0
        """Requests sent."""

        self.on_sent: Callable[[], None] = _nothing_sent
        """Called when the last byte of a request has been written."""

        self.body_ended: bool = False
        """Whether the current response's end came."""

        self._violation: h11.RemoteProtocolError | None = None
        self._is_crowded = False  # whether the last read brought more than was taken of it
        self._is_used_up = False  # whether nothing is left of it
        self._url = _url(origin, b"/")  # of the latest request
        self._body = b""  # of the current request, until it is sent
        self._headers: Sequence[tuple[bytes, bytes]] = ()  # of the current response

    async def post(self, head: Head, body: bytes) -> ResponseHead:
        """Send a request and wait for the head of its response.

        Raises:
            ConnectionLost: the connection ended before the head was complete.
            HTTPViolation: what came is not HTTP/1.1, its head is larger than 100 KiB, or over 1 MiB
                of interim responses came before it.
            Overdue: the stream's deadline passed.
        """
        self.exchanges += 1
        self.body_ended = False
        self.timed.received = 0
        self.timed.secrets = head.secrets
        self._head, self._body = head, body
        request = httpcore.Request("POST", self._url_of(head.path))
        try:
            response = await self.handle_async_request(request)
        except _ERRORS as error:
            raise self._own(error) from error
        return ResponseHead(response.status, _joined(self._headers, head.secrets.values()))

    def _url_of(self, path: bytes) -> httpcore.URL:
        if path != self._url.target:
            self._url = _url(self._origin, path)
        return self._url

    async def read_body(self) -> bytes:
        """Give the body bytes that the next read of the socket brings.

        May give ``b""`` when a read brought none, and less than all if it came in many small
        chunks. Sets :attr:`body_ended` with the last ones; there is nothing to read after that.

        If cancelled, nothing is lost.

        Raises:
            ConnectionLost: the connection ended before the body did.
            HTTPViolation: the body's framing is damaged; what came before it was given.
            Overdue: the stream's deadline passed. Reading may go on.
        """
        if self._is_crowded:
            await trio.lowlevel.checkpoint()
        parts: list[bytes] = []
        try:
            event = self._waiting_event()
            while event is h11.NEED_DATA:
                event = self._event_after(await self.timed.read(self.READ_NUM_BYTES))
        except _ERRORS as error:
            raise self._own(error) from error
        while isinstance(event, h11.Data):
            parts.append(event.data)
            if event.chunk_end and self._parser.is_used_up:
                event = h11.NEED_DATA
                break
            if len(parts) == _EVENTS_AT_ONCE:
                break
            event = self._next_buffered_event()
        self._is_used_up = event is h11.NEED_DATA
        self._is_crowded = not self._is_used_up and isinstance(event, h11.Data)
        self.body_ended = not (self._is_used_up or self._is_crowded)
        return b"".join(parts)

    def _next_buffered_event(self) -> Event:
        """Give what the same read also held; damage behind good bytes waits for the next call."""
        try:
            return self._parser.next_event()
        except h11.RemoteProtocolError as error:
            self._violation = error
            return h11.NEED_DATA

    async def _send_request_headers(self, request: httpcore.Request) -> None:
        """Leave it to the next method: head and body go in one write."""

    async def _send_request_body(self, request: httpcore.Request) -> None:
        body, self._body = self._body, b""
        self._parser.sends(self._head.request)
        pieces = [self._head.before(body), body]
        if len(body) <= _MOST_IN_ONE_WRITE:
            pieces = [b"".join(pieces)]
        try:
            for piece in pieces:
                await self.timed.write(piece)
        except httpcore.WriteError:
            self._parser.send_failed()  # there may be a reply, but no other request
            raise
        self.on_sent()

    async def _receive_response_headers(
        self, request: httpcore.Request
    ) -> tuple[bytes, int, bytes, list[tuple[bytes, bytes]], bytes]:
        event = self._waiting_event()
        while not isinstance(event, h11.Response):
            if self.timed.received > _MOST_BEFORE_RESPONSE:
                limit = _MOST_BEFORE_RESPONSE // 1024
                raise HTTPViolation(f"over {limit} KiB of interim responses came before any other")
            if event is h11.NEED_DATA:
                event = self._event_after(await self.timed.read(self.READ_NUM_BYTES))
            else:
                event = self._waiting_event()
        self._headers = event.headers
        return b"HTTP/" + event.http_version, event.status_code, b"", [], b""

    def _waiting_event(self) -> Event:
        if self._violation is not None:
            raise self._violation
        return h11.NEED_DATA if self._is_used_up else self._parser.next_event()

    def _event_after(self, data: bytes) -> Event:
        """Take what a read brought."""
        self._parser.receive_data(data)
        del data  # tracebacks show variables
        self._is_used_up = False
        if self.timed.ended and self._parser.their_state is h11.SEND_RESPONSE:
            raise h11.RemoteProtocolError("closed before its response")
        return self._parser.next_event()

    def _own(self, error: Exception) -> ConnectionLost | HTTPViolation:
        """Turn one of :data:`_ERRORS` into one of the two that matter here."""
        if isinstance(error, httpcore.NetworkError):
            return ConnectionLost(str(error))
        if self.timed.ended and self._may_be_http():
            return ConnectionLost("closed by the peer")
        return HTTPViolation(self._what(error))

    def _what(self, error: Exception) -> str:
        """Say what is wrong. Where its one limit is exceeded, h11 gives a status but no number."""
        if self.timed.ended:
            return "what came is no HTTP response, and then the connection ended"
        cause = error.__cause__ or error
        if isinstance(cause, h11.RemoteProtocolError) and cause.error_status_hint == 431:
            limit = self.MAX_INCOMPLETE_EVENT_SIZE // 1024
            return f"a head, or a line of its framing, is longer than {limit} KiB"
        return excerpt(str(error))

    def _may_be_http(self) -> bool:
        """Tell whether what has not been parsed could be the beginning of a response."""
        rest, _ = self._parser.trailing_data
        return (
            self._parser.their_state is not h11.SEND_RESPONSE or rest[:5] == b"HTTP/"[: len(rest)]
        )

    async def make_reusable(self) -> bool:
        """Get ready for the next exchange; tell whether that is possible.

        It is not if the peer has closed, or if more came behind the response: that would be taken
        for the reply to the next request.
        """
        rest, closed = self._parser.trailing_data
        self.on_sent = _nothing_sent
        await self._response_closed()
        return self.is_idle() and not rest and not closed

    def close(self) -> None:
        """Close the connection at once. Closing again does nothing."""
        self.timed.close()


def _url(origin: httpcore.Origin, path: bytes) -> httpcore.URL:
    return httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=path)


def _joined(headers: Sequence[tuple[bytes, bytes]], secrets: Collection[Secret]) -> dict[str, str]:
    """Give headers by their names in lower case, without the *secrets* that they echo."""
    values: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in headers:
        values[name.decode("ascii")].append(value.decode("latin-1"))
    joined = {name: ", ".join(each) for name, each in values.items()}
    for secret in secrets:
        joined = {name: secret.scrub(value) for name, value in joined.items()}
    return joined
