"""How connections are opened, over the loopback interface and in real time."""

from __future__ import annotations

import errno
import select
import socket
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from polygateway.config.proxies import Proxy
from polygateway.net.connections import Connections
from polygateway.net.dial import Endpoint, connect_tcp, dial
from polygateway.net.exchange import Exchange
from polygateway.net.http import ConnectionLost
from polygateway.net.tcp import TCPStream
from polygateway.secret import Secret
from tests.net.names import meaning
from tests.net.tunnels import LOGIN, Tunnels, answering, answering_over
from tests.net.wires import OK, POST, Authority, requested, with_slots, within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from tests.net.tunnels import ServeStream

HOST = "127.0.0.1"
AUTHORITY = Authority()


@asynccontextmanager
async def listening(serve: ServeStream) -> AsyncGenerator[int]:
    """Serve connections on a port while the block runs."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host=HOST))
        yield int(listeners[0].socket.getsockname()[1])
        nursery.cancel_scope.cancel()


async def whole(connections: Connections) -> bytes:
    exchange = Exchange(connections, lambda asked, arrived, found: None)
    await exchange.open(POST, within())
    body = b""
    while not exchange.ended:
        body += await exchange.read()
    await exchange.finish()
    return body


# ---------------------------------------------------------------- TCP


async def waiting(stream: trio.abc.Stream) -> None:
    await stream.receive_some(1)


# Some are not everywhere: macOS calls TCP_KEEPALIVE what Linux calls TCP_KEEPIDLE.
OPTIONS = [
    ("SOL_SOCKET", "SO_KEEPALIVE", 1),
    ("IPPROTO_TCP", "TCP_KEEPIDLE", 30),
    ("IPPROTO_TCP", "TCP_KEEPALIVE", 30),
    ("IPPROTO_TCP", "TCP_KEEPINTVL", 10),
    ("IPPROTO_TCP", "TCP_KEEPCNT", 3),
    ("IPPROTO_TCP", "TCP_USER_TIMEOUT", 60_000),  # milliseconds (tcp(7))
    ("IPPROTO_TCP", "TCP_NODELAY", 1),
]


@pytest.mark.parametrize(
    ("level", "option", "value"), [each for each in OPTIONS if hasattr(socket, each[1])]
)
async def test_a_peer_that_is_gone_is_noticed_by_the_operating_system(
    level: str, option: str, value: int
) -> None:
    async with listening(waiting) as port:
        stream = await connect_tcp(HOST, port, None)
        async with stream:
            assert isinstance(stream, TCPStream)
            held = stream.connection.getsockopt(getattr(socket, level), getattr(socket, option))
            assert bool(held) if value == 1 else held == value


async def test_a_system_that_knows_no_such_options_connects_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused: list[tuple[object, ...]] = []

    def refuse(_: socket.socket, *option: object) -> None:
        refused.append(option)
        raise OSError(errno.ENOPROTOOPT, "Protocol not available")

    async with listening(answering) as port:
        monkeypatch.setattr(socket.socket, "setsockopt", refuse, raising=False)
        endpoint = Endpoint("http", HOST, port, None)
        connections = Connections(endpoint, with_slots(1), connect_tcp)
        assert await whole(connections) == b"ok"
        connections.close()
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in refused


@pytest.fixture
def deaf_port() -> Generator[int]:
    """Give a port on which nobody answers: those who wait to be accepted fill its queue."""
    with ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.bind((HOST, 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        answered: list[socket.socket] = [listener]
        while answered:
            client = held.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex((HOST, port))
            _, answered, _ = select.select([], [client], [], 0.1)
        yield port


async def test_an_address_is_connected_to_directly_and_a_refusal_is_told() -> None:
    async with listening(answering) as port:
        stream = await connect_tcp(HOST, port, None)
        await stream.aclose()
    with pytest.raises(OSError, match="refused"):
        await connect_tcp(HOST, port, None)
    with pytest.raises(ConnectionLost, match="refused"):
        await dial(Endpoint("http", HOST, port, None), connect_tcp)


async def test_an_address_of_the_newer_family_is_one_too() -> None:
    try:
        listeners = await trio.open_tcp_listeners(0, host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with listeners[0]:
        stream = await connect_tcp("::1", listeners[0].socket.getsockname()[1], None)
        await stream.aclose()


async def test_a_connection_that_is_given_up_leaves_nothing_open(deaf_port: int) -> None:
    with trio.move_on_after(0.05) as scope:
        await connect_tcp(HOST, deaf_port, None)
    assert scope.cancelled_caught


async def test_an_address_that_never_answers_does_not_cost_the_connect_timeout(
    deaf_port: int,
) -> None:
    # RFC 8305: the next address is tried while the first has not answered.
    async with listening(answering) as port:
        meaning(two=[(HOST, deaf_port), (HOST, port)])
        with trio.fail_after(30):
            stream = await dial(Endpoint("http", "two", 80, None), connect_tcp)
        await stream.aclose()


async def test_an_address_that_refuses_is_followed_by_the_next() -> None:
    with socket.socket() as held:
        held.bind((HOST, 0))
        closed = held.getsockname()[1]
        async with listening(answering) as port:
            meaning(two=[(HOST, closed), (HOST, port)])
            stream = await dial(Endpoint("http", "two", 80, None), connect_tcp)
            await stream.aclose()


async def test_a_name_that_nobody_knows_is_told() -> None:
    meaning()
    with pytest.raises(ConnectionLost, match="Name or service not known"):
        await dial(Endpoint("http", "nowhere.invalid", 80, None), connect_tcp)


# ---------------------------------------------------------------- a proxy


@pytest.mark.parametrize("secure", [True, False], ids=["https", "http"])
async def test_a_target_is_reached_through_a_proxy_without_looking_up_its_name(
    secure: bool,
) -> None:
    tls = AUTHORITY.trusting() if secure else None
    behind = answering_over(AUTHORITY.serving("h.invalid")) if secure else answering
    async with trio.open_nursery() as nursery:
        tunnels = Tunnels(nursery, behind)
        async with listening(tunnels.serve) as port:
            names = meaning(proxy=[(HOST, port)])
            proxy = Proxy("proxy", port, Secret(LOGIN, prefix="Basic "))
            endpoint = Endpoint("https" if secure else "http", "h.invalid", 443, tls, proxy)
            connections = Connections(endpoint, with_slots(1), connect_tcp)
            for _ in range(3):
                assert await whole(connections) == b"ok"
            assert connections.open == 1
            connections.close()
    assert len(tunnels.heads) == 1
    assert tunnels.heads[0].endswith(f"proxy-authorization: Basic {LOGIN}\r\n\r\n".encode())
    assert names.asked == ["proxy"]


async def test_a_proxy_that_hung_up_while_the_tunnel_was_idle_is_replaced() -> None:
    async def once(stream: trio.abc.Stream) -> None:
        await requested(stream)
        await stream.send_all(OK)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        tunnels = Tunnels(nursery, once)
        async with listening(tunnels.serve) as port:
            endpoint = Endpoint("http", "h.invalid", 80, None, Proxy(HOST, port))
            connections = Connections(endpoint, with_slots(1), connect_tcp)
            for _ in range(3):
                assert await whole(connections) == b"ok"
            connections.close()
    assert len(tunnels.heads) == 3


async def test_a_proxy_that_does_not_listen_is_named() -> None:
    with socket.socket() as held:
        held.bind((HOST, 0))
        port: int = held.getsockname()[1]
        endpoint = Endpoint("http", "h.invalid", 80, None, Proxy(HOST, port))
        with pytest.raises(
            ConnectionLost, match=f"the proxy {HOST}:{port} cannot be reached: .*refused"
        ):
            await dial(endpoint, connect_tcp)
