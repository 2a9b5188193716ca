from __future__ import annotations

import errno
import math
import socket
import ssl
import struct
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import trio

from polygateway import policies
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    hang,
    reset,
    run_virtual,
    serve_memory,
    serve_tcp,
    silence,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from polygateway.testing import Request, Script

REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
LAST_CHUNK = b"0\r\n\r\n"


async def asked(stream: trio.abc.Stream) -> bytes:
    """Send a request, and read to the end of the stream."""
    await stream.send_all(REQUEST)
    received = b""
    while data := await stream.receive_some():
        received += data
    return received


async def opened(base_url: str) -> trio.SocketStream:
    url = urlsplit(base_url)
    assert url.hostname
    assert url.port
    return await trio.open_tcp_stream(url.hostname, url.port)


# ---------------------------------------------------------------- in memory


def test_providers_are_found_by_their_host_names() -> None:
    async def main() -> list[bytes]:
        eu, us = (ScriptedProvider(status(code), keep_alive_s=0) for code in (501, 502))
        async with serve_memory({"eu": eu, "us": us}) as network:
            streams = [await network.connect(f"{name}.invalid", 80, None) for name in ("us", "eu")]
            return [(await asked(stream))[9:12] for stream in streams]

    assert run_virtual(main) == [b"502", b"501"]


def test_the_base_urls_and_the_model_m_list_the_providers_in_order() -> None:
    async def main() -> policies.Config:
        providers = {name: ScriptedProvider(answer("a")) for name in ("us", "eu")}
        async with serve_memory(providers) as network:
            return network.config(retry=policies.RetryPolicy(max_retries=0))

    config = run_virtual(main)
    assert config.models == {"m": ("us", "eu")}
    assert config.targets["eu"].base_url == "http://eu.invalid/v1"
    assert config.targets["eu"].dialect == "openai-chat"
    assert config.retry.max_retries == 0
    assert config.hedge == policies.HedgePolicy()


@pytest.mark.parametrize("host", ["eu.invalid", "unknown.invalid", "eu"])
def test_a_provider_that_refuses_and_one_that_is_not_there_refuse_connections(host: str) -> None:
    async def main() -> None:
        async with serve_memory({"eu": ScriptedProvider(answer("a"), refuses=True)}) as network:
            with pytest.raises(ConnectionRefusedError, match=host) as caught:
                await network.connect(host, 80, None)
            assert caught.value.errno == errno.ECONNREFUSED
            assert network.open_connections == 0

    run_virtual(main)


def test_a_provider_can_begin_to_refuse_and_recover() -> None:
    provider = ScriptedProvider(answer("a"))

    async def main() -> None:
        async with serve_memory({"eu": provider}) as network:
            provider.refuses = True
            with pytest.raises(ConnectionRefusedError):
                await network.connect("eu.invalid", 80, None)
            provider.refuses = False
            await network.connect("eu.invalid", 80, None)

    run_virtual(main)


@pytest.mark.parametrize(("connect_s", "at"), [(0.75, 0.75), (math.inf, 10)])
def test_connecting_takes_its_time_and_can_hang(connect_s: float, at: float) -> None:
    async def main() -> None:
        provider = ScriptedProvider(answer("a"), connect_s=connect_s)
        async with serve_memory({"eu": provider}) as network:
            with trio.move_on_after(10):
                await network.connect("eu.invalid", 80, None)
            assert trio.current_time() == at
            assert network.open_connections == (at < 10)

    run_virtual(main)


def test_connections_are_open_until_the_client_has_closed_both_halves() -> None:
    async def main() -> None:
        async with serve_memory({"eu": ScriptedProvider([hang()])}) as network:
            first, second = [await network.connect("eu.invalid", 80, None) for _ in range(2)]
            assert network.open_connections == 2
            first.send_stream.close()
            assert network.open_connections == 2
            first.receive_stream.close()
            first.receive_stream.close()
            assert network.open_connections == 1
            second.receive_stream.close()
            assert network.open_connections == 1
            await second.aclose()
            assert network.open_connections == 0

    run_virtual(main)


def test_a_connection_that_the_server_ended_is_open_until_the_client_closes_it() -> None:
    async def main() -> None:
        async with serve_memory({"eu": ScriptedProvider([cut()])}) as network:
            stream = await network.connect("eu.invalid", 80, None)
            assert await asked(stream) == b""
            assert network.open_connections == 1
            await stream.aclose()
            assert network.open_connections == 0

    run_virtual(main)


def test_tls_is_not_played_so_that_https_addresses_work() -> None:
    async def main() -> bytes:
        provider = ScriptedProvider(answer("a"), keep_alive_s=0)
        async with serve_memory({"eu": provider}) as network:
            tls = ssl.create_default_context()
            return await asked(await network.connect("eu.invalid", 443, tls))

    assert run_virtual(main).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("name", ["", "EU", "eu west", "eu/x", "eu_1"])
def test_a_name_that_cannot_be_a_hosts_is_refused(name: str) -> None:
    async def main() -> None:
        async with serve_memory({name: ScriptedProvider(answer("a"))}):
            pass

    with pytest.raises(ValueError, match="host name"):
        run_virtual(main)


@pytest.mark.parametrize(
    "error",
    [ValueError("plain"), ExceptionGroup("of one", [ValueError("a")]), KeyboardInterrupt()],
    ids=repr,
)
def test_what_the_block_raises_comes_out_as_it_is(error: BaseException) -> None:
    async def main() -> None:
        async with serve_memory({"eu": ScriptedProvider([hang()])}) as network:
            await (await network.connect("eu.invalid", 80, None)).send_all(REQUEST)
            await trio.sleep(1)
            raise error

    with pytest.raises(type(error)) as caught:
        run_virtual(main)
    assert caught.value is error


def test_what_several_servers_raise_comes_out_as_a_group() -> None:
    def refuse(request: Request) -> Script:
        raise LookupError(request.path)

    async def main() -> None:
        async with serve_memory({"eu": ScriptedProvider(refuse)}) as network:
            streams = [await network.connect("eu.invalid", 80, None) for _ in range(2)]
            async with trio.open_nursery() as nursery:
                for stream in streams:
                    nursery.start_soon(stream.send_all, REQUEST)
            await trio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        run_virtual(main)
    assert [type(error) for error in caught.value.exceptions] == [LookupError] * 2


def test_a_block_that_is_cancelled_from_outside_ends_there() -> None:
    async def main() -> float:
        with trio.move_on_after(3):
            async with serve_memory({"eu": ScriptedProvider([hang()])}) as network:
                await asked(await network.connect("eu.invalid", 80, None))
        return trio.current_time()

    assert run_virtual(main) == 3


# ---------------------------------------------------------------- over TCP, in real time


def over_tcp(
    provider: ScriptedProvider, block: Callable[[str], Coroutine[object, object, None]]
) -> None:
    """Run *block* with the base URL of *provider*; in vain after ten seconds."""

    async def main() -> None:
        with trio.fail_after(10):
            async with serve_tcp({"eu": provider}) as served:
                await block(served.base_urls["eu"])

    trio.run(main)


def test_over_tcp_a_whole_reply_has_its_last_chunk() -> None:
    provider = ScriptedProvider(answer("tide", every_s=0.001), keep_alive_s=0)

    async def block(base_url: str) -> None:
        async with await opened(base_url) as stream:
            received = await asked(stream)
        assert received.startswith(b"HTTP/1.1 200 ")
        assert received.endswith(LAST_CHUNK)

    over_tcp(provider, block)
    assert provider.log[0].ended == "done"
    assert [step for _, step in provider.log[0].sent] == list(answer("tide"))


def test_over_tcp_a_cut_is_the_end_of_the_stream_without_a_last_chunk() -> None:
    provider = ScriptedProvider([chunk("tide"), cut()])

    async def block(base_url: str) -> None:
        async with await opened(base_url) as stream:
            received = await asked(stream)
        assert chunk("tide").data in received
        assert not received.endswith(LAST_CHUNK)

    over_tcp(provider, block)
    assert provider.log[0].ended == "cut"


def test_over_tcp_a_reset_breaks_the_connection() -> None:
    provider = ScriptedProvider([chunk("tide"), reset()])

    async def block(base_url: str) -> None:
        async with await opened(base_url) as stream:
            with pytest.raises(trio.BrokenResourceError) as caught:
                await asked(stream)
        assert isinstance(caught.value.__cause__, ConnectionResetError)

    over_tcp(provider, block)
    assert provider.log[0].ended == "reset"


@pytest.mark.parametrize("script", [[chunk("tide"), hang()], [silence(1000), chunk("tide")]])
@pytest.mark.parametrize("linger", [None, struct.pack("ii", 1, 0)], ids=["fin", "rst"])
def test_over_tcp_the_clients_close_is_seen(script: Script, linger: bytes | None) -> None:
    asked = trio.Event()

    def once_asked(_: Request) -> Script:
        asked.set()
        return script

    async def leave(stream: trio.SocketStream) -> None:
        await stream.send_all(REQUEST)
        await asked.wait()
        if linger:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await stream.aclose()

    async def main(provider: ScriptedProvider) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        client = await trio.testing.open_stream_to_socket_listener(listener)
        # serve() returns because the client leaves, and for no other reason.
        with trio.fail_after(10):
            async with listener, trio.open_nursery() as nursery:
                nursery.start_soon(provider.serve, await listener.accept())
                nursery.start_soon(leave, client)

    provider = ScriptedProvider(once_asked)
    trio.run(main, provider)
    assert [exchange.ended for exchange in provider.log] == ["client closed"]


def test_over_tcp_what_a_callable_raises_comes_out_as_it_is() -> None:
    def refuse(request: Request) -> Script:
        raise LookupError(request.path)

    async def block(base_url: str) -> None:
        async with await opened(base_url) as stream:
            await asked(stream)

    with pytest.raises(LookupError, match="/v1/chat/completions"):
        over_tcp(ScriptedProvider(refuse), block)


def test_over_tcp_a_status_leaves_the_connection_open_for_the_next_request() -> None:
    provider = ScriptedProvider(status(429), status(503), keep_alive_s=1000)

    async def block(base_url: str) -> None:
        async with await opened(base_url) as stream:
            for code in (b"429", b"503"):
                await stream.send_all(REQUEST)
                received = b""
                while b"scripted status " + code not in received:
                    received += await stream.receive_some()
                assert received.startswith(b"HTTP/1.1 " + code)

    over_tcp(provider, block)
    assert [exchange.connection for exchange in provider.log] == [0, 0]


def test_over_tcp_a_provider_can_refuse_connections() -> None:
    async def block(base_url: str) -> None:
        url = urlsplit(base_url)
        with trio.socket.socket() as sock, pytest.raises(ConnectionRefusedError):
            await sock.connect((url.hostname, url.port))

    over_tcp(ScriptedProvider(answer("a"), refuses=True), block)


def test_over_tcp_a_slow_connect_cannot_be_played() -> None:
    async def block(base_url: str) -> None:
        pass

    with pytest.raises(ValueError, match=r"'eu' has connect_s.*serve_memory"):
        over_tcp(ScriptedProvider(answer("a"), connect_s=1), block)


def test_over_tcp_each_provider_has_a_port_of_its_own() -> None:
    async def main() -> policies.Config:
        providers = {name: ScriptedProvider(answer("a")) for name in ("eu", "us")}
        async with serve_tcp(providers) as served:
            return served.config()

    config = trio.run(main)
    urls = [config.targets[name].base_url for name in config.names_of("m")]
    assert len(set(urls)) == 2
    assert all(url.startswith("http://127.0.0.1:") and url.endswith("/v1") for url in urls)


def test_some_providers_go_on_with_answers() -> None:
    async def main() -> policies.Config:
        providers = {name: ScriptedProvider(answer("a")) for name in ("eu", "us")}
        async with serve_memory(providers) as served:
            return served.config(prefill=["us"])

    targets = run_virtual(main).targets
    assert {name: target.prefill for name, target in targets.items()} == {"eu": False, "us": True}
