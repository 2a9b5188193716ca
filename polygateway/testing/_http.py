"""The server's side of one HTTP/1.1 connection, over any trio stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import attrs
import h11
import trio

from .script import Head, Send, headers

if TYPE_CHECKING:
    from ..messages import JSON


@attrs.frozen(kw_only=True)
class Request:
    """A request as the provider received it."""

    method: str
    path: str
    """With the query, if there is one."""

    headers: Mapping[str, str]
    """Names in lower case."""

    content: bytes
    """The body as it was sent."""

    @property
    def body(self) -> Mapping[str, JSON]:
        """The decoded body.

        Raises:
            ValueError: it is not a JSON object.
        """
        decoded: object = json.loads(self.content)
        if not isinstance(decoded, dict):
            # Not a TypeError: json.loads() reports text that is no JSON as a ValueError too.
            raise ValueError(f"no JSON object: {self.content[:100]!r}")  # noqa: TRY004
        return cast("Mapping[str, JSON]", decoded)


class ServerConnection:
    """Reads requests and writes the pieces of responses. Its owner closes the stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._h11 = h11.Connection(h11.SERVER)

    async def next_request(self) -> Request | None:
        """Wait for a whole request; None if the client closes the connection before.

        Raises:
            h11.RemoteProtocolError: the client does not speak HTTP/1.1.
        """
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None
        content = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            content += event.data
        return None if event is None else _request(head, bytes(content))

    async def receive(self) -> bool:
        """Wait for bytes from the client; False when it has closed the connection.

        If cancelled, nothing is lost.
        """
        try:
            data = bytes(await self._stream.receive_some())
        except trio.BrokenResourceError:
            return False
        if data:
            self._h11.receive_data(data)
        return bool(data)

    async def write(self, step: Head | Send) -> None:
        """Send *step* in one write, with a stream's head before it if none was sent.

        Raises:
            trio.BrokenResourceError: the client has closed the connection.
        """
        data = b""
        if self._h11.our_state is h11.SEND_RESPONSE:
            data = self._encoded_head(step if isinstance(step, Head) else headers())
        if isinstance(step, Send):
            data += self._h11.send(h11.Data(data=step.data)) or b""
        await self._stream.send_all(data)

    async def finish(self) -> None:
        """Send the proper end of the response.

        Raises:
            trio.BrokenResourceError: the client has closed the connection.
        """
        if self._h11.our_state is h11.SEND_RESPONSE:
            await self.write(headers())
        # A body with a declared length has no end of its own, and nothing is sent.
        if data := self._h11.send(h11.EndOfMessage()):
            await self._stream.send_all(data)

    def renew(self) -> bool:
        """Make ready for the next request; False if the connection cannot be used again."""
        if set(self._h11.states.values()) != {h11.DONE}:
            return False
        self._h11.start_next_cycle()
        return True

    async def _next_event(self) -> h11.Event | None:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            if not await self.receive():
                return None
        # PAUSED is the other sentinel; it comes only before renew().
        return cast("h11.Event", event)

    def _encoded_head(self, head: Head) -> bytes:
        response = h11.Response(status_code=head.status, headers=list(head.headers.items()))
        return self._h11.send(response) or b""


def _request(head: h11.Request, content: bytes) -> Request:
    return Request(
        method=head.method.decode(),
        path=head.target.decode(),
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
        content=content,
    )
