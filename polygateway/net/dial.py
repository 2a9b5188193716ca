"""How a connection is opened: TCP, a proxy's tunnel, TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeAlias, TypeGuard

import attrs
import httpcore
import trio

from ..config.proxies import Proxy, authority
from .http import ConnectionLost
from .proxy import open_tunnel
from .stream import closer
from .tcp import TCPStream

Connect: TypeAlias = Callable[[str, int, ssl.SSLContext | None], Awaitable[trio.abc.Stream]]
"""Opens a stream to (host, port), with TLS if there is a context."""

# Between two tokens an answer may be silent for minutes, and an idle connection waits for the next
# call. Firewalls and address translators forget such a flow, some after four minutes (Azure's load
# balancer) or 350 s (AWS's NAT gateway and network load balancer), and say nothing: without probes
# both ends would wait for ever. Probes from 30 s on keep the flow known. They find a peer that is
# gone in 60 s, half of the default `stream.stall_timeout_s`.
_IDLE_S, _INTERVAL_S, _PROBES = 30, 10, 3

# What is sent and never acknowledged is covered by no probe. Linux would send it again for a
# quarter of an hour. Where this is set it decides about the probes too, so it is the same time.
_UNHEARD_MS = (_IDLE_S + _INTERVAL_S * _PROBES) * 1000

# Not every platform has every one. TCP_KEEPALIVE is what macOS calls TCP_KEEPIDLE.
_TCP_OPTIONS = {
    "TCP_KEEPIDLE": _IDLE_S,
    "TCP_KEEPALIVE": _IDLE_S,
    "TCP_KEEPINTVL": _INTERVAL_S,
    "TCP_KEEPCNT": _PROBES,
    "TCP_USER_TIMEOUT": _UNHEARD_MS,
}
_OPTIONS = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _TCP_OPTIONS.items()
        if hasattr(socket, name)
    ),
]


@attrs.frozen
class Endpoint:
    """Where the connections of one target go, and by which way."""

    scheme: str
    host: str
    port: int
    tls: ssl.SSLContext | None = attrs.field(eq=False, repr=False)
    proxy: Proxy | None = None

    @property
    def origin(self) -> httpcore.Origin:
        """The same in httpcore's words."""
        return httpcore.Origin(self.scheme.encode(), self.host.encode(), self.port)

    @property
    def authority(self) -> str:
        """Host and port as URLs write them."""
        return authority(self.host, self.port)


async def dial(where: Endpoint, connect: Connect) -> trio.abc.Stream:
    """Open a stream to *where*, by way of its proxy if it has one.

    The proxy's address is what *connect* is asked for then, without TLS: the tunnel and the TLS to
    the target are made over what it gives.

    If cancelled, nothing stays open.

    Raises:
        ConnectionLost: the host or its proxy could not be reached, the proxy refused, or TLS
            failed.
    """
    proxy = where.proxy
    if proxy is None:
        with _reasons():
            return await connect(where.host, where.port, where.tls)
    with _reasons(f"the proxy {proxy} cannot be reached: "):
        stream = await connect(proxy.host, proxy.port, None)
    with _reasons(f"through the proxy {proxy}: "), _closed_on_failure(stream):
        await open_tunnel(stream, proxy, where.authority)
        return stream if where.tls is None else await _over_tls(stream, where.host, where.tls)


async def connect_tcp(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Open a TCP connection, with TLS if *tls* is given.

    Of a name's addresses the one that answers first is taken (RFC 8305, "happy eyeballs").

    If cancelled, nothing stays open.

    Raises:
        OSError: no address of *host* could be reached.
        trio.BrokenResourceError: the TLS handshake failed.
    """
    tcp = await _connected(host, port)
    with _closed_on_failure(tcp):
        _probe(tcp)
        return tcp if tls is None else await _over_tls(tcp, host, tls)


async def _connected(host: str, port: int) -> TCPStream:
    family = _family_of(host)
    if family is None:
        return TCPStream.taken_from(await trio.open_tcp_stream(host, port))
    # An address has no others to be raced with, which is most of what opening costs.
    tcp = TCPStream(socket.socket(family))
    with _closed_on_failure(tcp):
        await tcp.connect(host, port)
    return tcp


def _family_of(host: str) -> socket.AddressFamily | None:
    """Give the family of the address that *host* is; ``None`` for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            socket.inet_pton(family, host)
            return family
    return None


def _probe(tcp: TCPStream) -> None:
    """Have the operating system notice a peer that is gone, and keep the flow known on its way."""
    for option in _OPTIONS:
        with suppress(OSError):  # as trio does: some kernels know an option and refuse it
            tcp.connection.setsockopt(*option)


async def _over_tls(
    stream: trio.abc.Stream, host: str, context: ssl.SSLContext
) -> trio.SSLStream[trio.abc.Stream]:
    tls = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    try:
        await tls.do_handshake()
    except trio.BrokenResourceError as error:
        _forget_frames(error)
        raise
    return tls


def _forget_frames(error: BaseException | None) -> None:
    """Take away the frames of trio's TLS: they hold what came, and a proxy may quote its login."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__


@contextmanager
def _closed_on_failure(stream: trio.abc.Stream) -> Generator[None]:
    """Close *stream* at once if the block raises or is cancelled."""
    with ExitStack() as on_failure:
        on_failure.callback(closer(stream))
        yield
        on_failure.pop_all()


@contextmanager
def _reasons(place: str = "") -> Generator[None]:
    """Say why there is no connection, and where on the way."""
    try:
        yield
    except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
        raise ConnectionLost(f"{place}{_why(error)}") from error


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
