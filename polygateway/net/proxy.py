"""The way through an HTTP proxy: a tunnel that it opens for CONNECT (RFC 9110, section 9.3.6)."""

# What a proxy says is never taken for what the target says. Of its words only the status is told:
# the others may quote the login. For the same reason no variable holds them while something can be
# raised.

from __future__ import annotations

from typing import TYPE_CHECKING

import h11

from .http import ConnectionLost
from .marks import in_clear, marked

if TYPE_CHECKING:
    import trio

    from ..config.proxies import Proxy
    from ..secret import Secret

# Interim responses included. The heads of real answers are a few hundred bytes.
_MOST_BYTES = 16 * 1024

_WITH_LOGIN = "for it does not take the login in HTTPS_PROXY"
_WITHOUT_LOGIN = "for it wants a login, which only HTTPS_PROXY can hold"

_NO_HTTP = 0
"""Stands for the status of an answer that is none."""


async def open_tunnel(stream: trio.abc.Stream, proxy: Proxy, authority: str) -> None:
    """Have the proxy at the other end of *stream* connect it to *authority*, a host and port.

    Reads nothing of what comes through the tunnel. When it is cancelled or raises, the stream can
    only be closed.

    Raises:
        ConnectionLost: the proxy refuses, or does not answer as HTTP wants it.
        trio.BrokenResourceError: the connection to the proxy broke.
    """
    http = h11.Connection(h11.CLIENT)
    await _ask(stream, http, proxy, authority)
    if flaw := _flaw(await _status(stream, http), http, proxy):
        raise ConnectionLost(f"the proxy {proxy} opened no way to {authority}: it {flaw}")


async def _ask(stream: trio.abc.Stream, http: h11.Connection, proxy: Proxy, authority: str) -> None:
    headers: list[tuple[bytes, str | Secret]] = [(b"host", authority)]
    if proxy.authorization is not None:
        headers.append((b"proxy-authorization", proxy.authorization))
    marks, sent = marked(headers)
    head = http.send(h11.Request(method="CONNECT", target=authority, headers=sent))
    await stream.send_all(in_clear(head or b"", marks))
    http.send(h11.EndOfMessage())


async def _status(stream: trio.abc.Stream, http: h11.Connection) -> int:
    """Wait for the head of the answer, and give its status."""
    received = 0
    while (status := _parsed(http)) is None:
        if received >= _MOST_BYTES:
            return _NO_HTTP
        received += await _read(stream, http)
    return status


async def _read(stream: trio.abc.Stream, http: h11.Connection) -> int:
    """Take what comes next; give how much it was."""
    data = bytes(await stream.receive_some(_MOST_BYTES))
    http.receive_data(data)
    return len(data)


def _parsed(http: h11.Connection) -> int | None:
    """Give the status of the answer; ``None`` while its head has not come whole."""
    try:
        while not isinstance(event := http.next_event(), h11.Response):
            if event is h11.NEED_DATA:
                return None
    except h11.RemoteProtocolError:  # whose text quotes what came
        return _NO_HTTP
    return event.status_code


def _flaw(status: int, http: h11.Connection, proxy: Proxy) -> str | None:
    """Say why the answer opened no tunnel; ``None`` if it did."""
    rest, ended = http.trailing_data
    if status == _NO_HTTP:
        return "hung up" if ended else "does not answer in HTTP/1.1"
    if status == 407:
        return f"answered 407, {_WITH_LOGIN if proxy.authorization else _WITHOUT_LOGIN}"
    if not 200 <= status < 300:
        return f"answered {status}"
    return f"sent {len(rest)} bytes before it was asked for any" if rest else None
