"""One streamed POST over one HTTP/1.1 connection."""

# httpcore's connection does the HTTP. Its response.stream is not used: that is an async generator,
# in which a read cancelled by a silence deadline closes the connection and makes the next read a
# false clean end, and which warns when it is abandoned. Its coroutine `_receive_event` underneath
# has none of this: a cancelled read loses nothing, the next one may come from another task, and
# nothing needs to be finalised. tests/net/test_http.py pins the private names used here against
# httpcore and httpcore2.

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
import h11
import httpcore

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

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


class _Body:
    """A request body that is sent at once.

    Not bytes: httpcore would wrap them in an async generator, which warns when a cancelled call
    leaves it unfinished.
    """

    def __init__(self, data: bytes, on_sent: Callable[[], None]) -> None:
        self._rest = [data]
        self._on_sent = on_sent

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            self._on_sent()  # whoever asks for more has written what there was
            raise StopAsyncIteration
        return self._rest.pop()


def _nothing_sent() -> None:
    """Ignore it: nobody has asked yet."""


class HTTPConnection(httpcore.AsyncHTTP11Connection):
    """One connection to one origin. Serves one exchange at a time."""

    def __init__(self, origin: httpcore.Origin, stream: TimedStream) -> None:
        super().__init__(origin, stream)
        self.timed = stream
        self.exchanges: int = 0
        """Requests sent."""

        self.on_sent: Callable[[], None] = _nothing_sent
        """Called when the last byte of a request has been written."""

        self.body_ended: bool = False
        """Whether the current response's end came."""

        self._violation: h11.RemoteProtocolError | None = None

    async def post(
        self, path: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> ResponseHead:
        """Send a request and wait for the head of its response.

        Raises:
            ConnectionLost: the connection ended before the head was complete.
            HTTPViolation: what came is not HTTP/1.1, or its head is larger than 100 KiB.
            Overdue: the stream's deadline passed.
        """
        self.exchanges += 1
        self.body_ended = False
        self.timed.received = 0
        url = httpcore.URL(
            scheme=self._origin.scheme,
            host=self._origin.host,
            port=self._origin.port,
            target=path,
        )
        content = _Body(body, self.on_sent)
        request = httpcore.Request("POST", url, headers=list(headers), content=content)
        with self._own_errors():
            response = await self.handle_async_request(request)
        return ResponseHead(response.status, _joined(response.headers))

    async def read_body(self) -> bytes:
        """Give the body bytes that the next read of the socket brings.

        May give ``b""`` when a read brought none. Sets :attr:`body_ended` with the last ones; there
        is nothing to read after that.

        Raises:
            ConnectionLost: the connection ended before the body did.
            HTTPViolation: the body's framing is damaged; what came before it was given.
            Overdue: the stream's deadline passed. Reading may go on.
        """
        parts: list[bytes] = []
        event: object
        with self._own_errors():
            event = await self._receive_event()
        while isinstance(event, h11.Data):
            parts.append(event.data)
            event = self._next_buffered_event()
        self.body_ended = event is not h11.NEED_DATA
        return b"".join(parts)

    def _next_buffered_event(self) -> object:
        """Give what the same read also held; damage behind good bytes waits for the next call."""
        try:
            return self._h11_state.next_event()
        except h11.RemoteProtocolError as error:
            self._violation = error
            return h11.NEED_DATA

    async def _receive_event(self, timeout: float | None = None) -> h11.Event | type[h11.PAUSED]:
        if self._violation is not None:
            raise self._violation
        return await super()._receive_event(timeout)

    @contextmanager
    def _own_errors(self) -> Generator[None]:
        """Turn the errors of httpcore and h11 into the two that matter here."""
        try:
            yield
        except (httpcore.ReadError, httpcore.WriteError) as error:
            raise ConnectionLost(str(error)) from error
        except (httpcore.RemoteProtocolError, h11.RemoteProtocolError) as error:
            if self.timed.ended and self._may_be_http():
                raise ConnectionLost("closed by the peer") from error
            raise HTTPViolation(self._what(error)) from error

    def _what(self, error: Exception) -> str:
        """Say what is wrong. Where its one limit is exceeded, h11 gives a status but no number."""
        if self.timed.ended:
            return "what came is no HTTP response, and then the connection ended"
        cause = error.__cause__ or error
        if isinstance(cause, h11.RemoteProtocolError) and cause.error_status_hint == 431:
            limit = self.MAX_INCOMPLETE_EVENT_SIZE // 1024
            return f"a head, or a line of its framing, is longer than {limit} KiB"
        return str(error)

    def _may_be_http(self) -> bool:
        """Tell whether what has not been parsed could be the beginning of a response."""
        rest, _ = self._h11_state.trailing_data
        return (
            self._h11_state.their_state is not h11.SEND_RESPONSE
            or rest[:5] == b"HTTP/"[: len(rest)]
        )

    async def make_reusable(self) -> bool:
        """Get ready for the next exchange; tell whether that is possible.

        It is not if the peer has closed, or if more came behind the response: that would be taken
        for the reply to the next request.
        """
        rest, closed = self._h11_state.trailing_data
        self.on_sent = _nothing_sent
        await self._response_closed()
        return self.is_idle() and not rest and not closed

    def close(self) -> None:
        """Close the connection at once. Closing again does nothing."""
        self.timed.close()


def _joined(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("ascii").lower()
        value = raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
