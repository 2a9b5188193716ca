"""The way through a proxy, in memory."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

import pytest
import trio

from polygateway.net.connections import Connections
from polygateway.net.dial import Endpoint
from polygateway.net.exchange import ConnectOverdue, Exchange
from polygateway.net.http import ConnectionLost
from polygateway.testing import run_virtual
from tests.frames import is_ours
from tests.net.tunnels import (
    ESTABLISHED,
    LOGIN,
    PROXY,
    PROXY_WITH_LOGIN,
    Tunnels,
    answering,
    answering_over,
    hanging_up,
    silent,
)
from tests.net.wires import OK, POST, Authority, ClientEnd, Strike, with_slots, within

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterator

    from polygateway.config.proxies import Proxy
    from polygateway.net.dial import Connect
    from tests.net.tunnels import ServeStream

HOST = "h.invalid"
AUTHORITY = Authority()
SERVING = AUTHORITY.serving(HOST)
TRUSTING = AUTHORITY.trusting()


def run(main: Callable[[trio.Nursery], Awaitable[None]]) -> None:
    """Run *main* in virtual time, with a nursery for the proxy."""

    async def outer() -> None:
        async with trio.open_nursery() as nursery:
            await main(nursery)
            nursery.cancel_scope.cancel()

    run_virtual(outer)


def connections(
    connect: Connect, tls: ssl.SSLContext | None = TRUSTING, proxy: Proxy = PROXY
) -> Connections:
    where = Endpoint("https" if tls else "http", HOST, 443 if tls else 80, tls, proxy)
    return Connections(where, with_slots(1), connect)


async def whole(through: Connections) -> bytes:
    """Have an exchange to its end."""
    exchange = Exchange(through, lambda asked, arrived, found: None)
    try:
        await exchange.open(POST, within())
        body = b""
        while not exchange.ended:
            body += await exchange.read()
        await exchange.finish()
    finally:
        exchange.close()
    return body


async def refused(through: Connections) -> ConnectionLost:
    """Have an exchange that cannot begin."""
    with pytest.raises(ConnectionLost) as caught:
        await whole(through)
    assert (through.open, through.free_slots) == (0, 1)
    return caught.value


# ---------------------------------------------------------------- the way there


def test_the_proxy_is_asked_for_the_target_and_tls_goes_through_it_to_the_target() -> None:
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, answering_over(SERVING))
        through = connections(tunnels.connect)
        for _ in range(3):
            assert await whole(through) == b"ok"
        # Once: the tunnel is reused like any connection.
        assert tunnels.asked == [("proxy.corp", 3128, None)]
        assert tunnels.heads == [b"CONNECT h.invalid:443 HTTP/1.1\r\nhost: h.invalid:443\r\n\r\n"]
        through.close()
        assert tunnels.open == 0

    run(main)


def test_a_target_without_tls_is_reached_by_a_tunnel_too() -> None:
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, answering)
        assert await whole(connections(tunnels.connect, None)) == b"ok"
        assert tunnels.heads == [b"CONNECT h.invalid:80 HTTP/1.1\r\nhost: h.invalid:80\r\n\r\n"]

    run(main)


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, answering)
        where = Endpoint("http", "2001:db8::1", 8080, None, PROXY)
        assert await whole(Connections(where, with_slots(1), tunnels.connect)) == b"ok"
        assert tunnels.heads[0].startswith(b"CONNECT [2001:db8::1]:8080 HTTP/1.1\r\n")

    run(main)


def test_the_login_goes_to_the_proxy_and_no_further() -> None:
    received = bytearray()

    async def listening(stream: trio.abc.Stream) -> None:
        while data := await stream.receive_some():
            received.extend(data)
            await stream.send_all(OK)

    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, listening)
        assert await whole(connections(tunnels.connect, None, PROXY_WITH_LOGIN)) == b"ok"
        assert tunnels.heads == [
            b"CONNECT h.invalid:80 HTTP/1.1\r\nhost: h.invalid:80\r\n"
            b"proxy-authorization: Basic " + LOGIN.encode() + b"\r\n\r\n"
        ]
        assert received.startswith(b"POST /v1 HTTP/1.1\r\n")
        assert b"roxy" not in received

    run(main)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nproxy-agent: squid\r\n\r\n"],
        [b"HTTP/1.0 200 Connection established\r\n\r\n"],
        [bytes([byte]) for byte in ESTABLISHED],
        # RFC 9110, section 9.3.6: any 2xx opens the tunnel; lengths in its head mean nothing.
        [b"HTTP/1.1 204 No Content\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"],
        # Section 15.2: a client must be able to take interim responses before the final one.
        [b"HTTP/1.1 100 Continue\r\n\r\n", ESTABLISHED],
        [b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + ESTABLISHED],
        [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 15_000 + b"\r\n\r\n"],
    ],
    ids=lambda pieces: f"{len(pieces)} pieces: {pieces[0][:40]!r}",
)
def test_whatever_answer_means_yes_opens_the_tunnel(pieces: list[bytes]) -> None:
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, answering, *pieces)
        assert await whole(connections(tunnels.connect, None)) == b"ok"

    run(main)


# ---------------------------------------------------------------- when there is none

NO_WAY = "the proxy proxy.corp:3128 opened no way to h.invalid:443: it "


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "answered 403"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nno!", "answered 502"),
        (b"HTTP/1.1 302 Found\r\nlocation: https://login.corp\r\n\r\n", "answered 302"),
        # What the target means by these is none of the proxy's business.
        (b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\n\r\n", "answered 429"),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "answered 401"),
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "answered 407, for it wants a login, which only HTTPS_PROXY can hold",
        ),
        (ESTABLISHED + b"220 hello", "sent 9 bytes before it was asked for any"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "does not answer in HTTP/1.1"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "does not answer in HTTP/1.1"),  # an alert of TLS
        (b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", "does not answer in HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n", "hung up"),
        (b"", "hung up"),
        # Bounds: of a head, and of interim responses together.
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 17_000, "does not answer in HTTP/1.1"),
        (b"HTTP/1.1 102 Processing\r\n\r\n" * 1000, "does not answer in HTTP/1.1"),
    ],
)
def test_any_other_answer_ends_the_connection_with_what_it_was(answer: bytes, text: str) -> None:
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, hanging_up, answer)
        assert str(await refused(connections(tunnels.connect))) == f"{NO_WAY}{text}"
        assert tunnels.open == 0

    run(main)


def test_a_login_that_the_proxy_does_not_take_is_named_by_its_variable() -> None:
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, silent, b"HTTP/1.1 407 No\r\n\r\n")
        error = await refused(connections(tunnels.connect, proxy=PROXY_WITH_LOGIN))
        assert str(error).endswith("answered 407, for it does not take the login in HTTPS_PROXY")

    run(main)


def test_what_a_proxy_sends_without_end_is_not_read_without_end() -> None:
    sent = 0

    async def flood(stream: trio.abc.Stream) -> None:
        nonlocal sent
        while True:
            await stream.send_all(b"HTTP/1.1 102 Processing\r\n\r\n")
            sent += 27

    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, flood, b"HTTP/1.1 102 Processing\r\n\r\n")
        assert "does not answer" in str(await refused(connections(tunnels.connect)))
        assert sent < 64 * 1024

    run(main)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (OSError("no address"), "no address"),
    ],
)
def test_a_proxy_that_cannot_be_reached_is_named(error: OSError, text: str) -> None:
    async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise error

    async def main(nursery: trio.Nursery) -> None:
        lost = await refused(connections(connect))
        assert str(lost).startswith("the proxy proxy.corp:3128 cannot be reached: ")
        assert str(lost).endswith(text)

    run(main)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_breaks_on_the_way_is_lost_on_that_way(when: str) -> None:
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, hanging_up, ESTABLISHED if when == "after" else b"HTTP")

        async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
            stream = await tunnels.connect(host, port, tls)
            tunnels.clients[0].broken = trio.BrokenResourceError("reset by the peer")
            return stream

        error = await refused(connections(connect))
        assert str(error).startswith("through the proxy proxy.corp:3128: ")
        assert tunnels.open == 0

    run(main)


def test_a_certificate_that_is_not_trusted_is_told_with_the_proxy_that_may_have_made_it() -> None:
    # Proxies that inspect TLS show a certificate of their own.
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, answering_over(Authority().serving(HOST)))
        error = await refused(connections(tunnels.connect))
        assert str(error).startswith("through the proxy proxy.corp:3128: its certificate is not")
        assert tunnels.open == 0

    run(main)


def test_the_certificate_must_be_the_targets_and_not_the_proxys() -> None:
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, answering_over(AUTHORITY.serving("proxy.corp")))
        error = await refused(connections(tunnels.connect))
        assert "not valid for 'h.invalid'" in str(error)

    run(main)


# ---------------------------------------------------------------- time, and leaving


@pytest.mark.parametrize("pieces", [[b"HTTP/1.1 200"], [ESTABLISHED]], ids=["CONNECT", "TLS"])
def test_proxy_and_tls_have_the_time_of_one_connection(pieces: list[bytes]) -> None:
    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, silent, *pieces, connect_s=4)
        through = connections(tunnels.connect)
        exchange = Exchange(through, lambda asked, arrived, found: None)
        with pytest.raises(ConnectOverdue):
            await exchange.open(POST, within(connect_s=10))
        assert trio.current_time() == 10
        assert tunnels.open == 0
        exchange.close()
        assert (through.open, through.free_slots) == (0, 1)

    run(main)


@pytest.mark.parametrize("then", [answering_over(SERVING), silent], ids=["in time", "never"])
def test_cancelled_at_whatever_step_nothing_stays_open(then: ServeStream) -> None:
    async def struck(at: int, nursery: trio.Nursery) -> bool:
        tunnels = Tunnels(nursery, then, *(bytes([byte]) for byte in ESTABLISHED))
        through = connections(tunnels.connect, proxy=PROXY_WITH_LOGIN)
        strike = Strike(at)
        with trio.move_on_after(60):
            await strike.run(whole, through)
        assert through.free_slots == 1
        if strike.struck:
            # What is open was given back whole.
            assert tunnels.open == through.open <= 1
            if then is silent:
                assert tunnels.open == 0
        through.close()
        assert tunnels.open == 0
        return strike.struck

    async def main(nursery: trio.Nursery) -> None:
        at = 1
        while await struck(at, nursery):
            at += 1
        assert at > 10  # the sweep came through the answer's head at least

    run(main)


# ---------------------------------------------------------------- the login is not shown


def betrayed(text: str) -> bool:
    return LOGIN in text or LOGIN[:12] in text or "canary" in text


def shown(error: BaseException) -> Iterator[str]:
    """Give every text by which an error of ours could be shown, variables included."""
    yield from (str(error), repr(error), repr(vars(error)))
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    for frame in told.stack:
        if is_ours(frame.filename):
            yield f"{frame.filename}:{frame.lineno} {frame.locals}"
    for other in (error.__cause__, error.__context__):
        if other is not None:
            yield from shown(other)


ECHO = f"proxy-authorization: Basic {LOGIN}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("pieces", "then"),
    [
        ([b"HTTP/1.1 407 No " + LOGIN.encode() + b"\r\n" + ECHO], silent),
        ([b"HTTP/1.1 502 No\r\ncontent-length: 9\r\n" + ECHO + LOGIN.encode()], silent),
        ([b"HTTP/1.1 200 OK\r\n" + ECHO + LOGIN.encode()], silent),
        ([b"HTTP/1.1 102 Processing\r\n" + ECHO], silent),
        ([b"HTTP/1.1 102 Processing\r\n" + ECHO], hanging_up),
        ([ECHO], silent),
        ([b"HTTP/1.1 200 OK\r\n" + LOGIN.encode() + b"\r\n\r\n"], silent),
        ([b"HTTP/1.1 200 OK\r\n" + ECHO[:-2]], silent),
        ([b"HTTP/1.1 200 OK\r\n" + ECHO[:-2]], hanging_up),
        ([ESTABLISHED, LOGIN.encode()], silent),
        ([ESTABLISHED], hanging_up),
        ([b""], hanging_up),
    ],
)
@pytest.mark.parametrize("ending", ["error", "broken", "cancelled"])
def test_whatever_a_proxy_does_its_login_is_not_shown(
    pieces: list[bytes], then: ServeStream, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []

    async def main(nursery: trio.Nursery) -> None:
        tunnels = Tunnels(nursery, then, *pieces)

        async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
            stream = await tunnels.connect(host, port, tls)
            if ending == "broken":
                tunnels.clients[0].broken = trio.BrokenResourceError("reset")
            return stream

        through = connections(connect, proxy=PROXY_WITH_LOGIN)
        exchange = Exchange(through, lambda asked, arrived, found: None)
        try:
            with trio.fail_after(5 if ending == "cancelled" else 100):
                await exchange.open(POST, within(connect_s=10))
        except (ConnectionLost, ConnectOverdue, trio.TooSlowError) as error:
            logging.getLogger("application").exception("the call failed")
            texts.extend(shown(error))
        exchange.close()
        texts.extend(map(repr, (through.endpoint, vars(through), exchange, vars(exchange))))
        assert tunnels.heads[0].endswith(LOGIN.encode() + b"\r\n\r\n"), "it was never sent"

    run(main)
    assert texts[1:]
    assert not [text for text in [*texts, caplog.text] if betrayed(text)]


def test_a_login_that_could_not_be_sent_is_not_shown() -> None:
    class Broken(ClientEnd):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            assert LOGIN.encode() in bytes(data)
            raise trio.BrokenResourceError("reset")

    async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        return Broken(trio.testing.memory_stream_pair()[0])

    async def main(nursery: trio.Nursery) -> None:
        error = await refused(connections(connect, proxy=PROXY_WITH_LOGIN))
        assert not any(map(betrayed, shown(error)))

    run(main)


def test_what_looks_for_the_login_finds_it() -> None:
    with pytest.raises(ValueError, match="canary") as caught:
        raise ValueError("user:canary-7f3a")
    assert any(map(betrayed, shown(caught.value)))
