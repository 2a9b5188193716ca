"""The main job over real sockets, in real time: a handful of calls on the loopback interface.

No duration decides here: the order of events does, as both ends have seen it.
"""

from __future__ import annotations

import logging
import pickle
import random
import traceback
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from polygateway import (
    ConfigurationError,
    ConnectFailed,
    Gateway,
    GatewayError,
    HedgePolicy,
    Limits,
    RetryPolicy,
    StallTimeout,
    StreamBroken,
    Truncated,
    open_gateway,
)
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    empty,
    hang,
    headers,
    keepalives,
    ping,
    reset,
    serve_tcp,
    silence,
    status,
)
from tests.frames import is_ours
from tests.net.names import meaning
from tests.net.tunnels import LOGIN, Tunnels
from tests.net.wires import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
    from pathlib import Path

    from polygateway.testing import Request, Step

PASSWORD = "canary-7f3a"  # noqa: S105 - of LOGIN, to be looked for
FRESH = answer("The ", "tide ", "turns.", every_s=0.01)
QUICK = HedgePolicy(after_s=0.2, stall_after_s=0.2)


@pytest.mark.parametrize(
    "script",
    [
        [chunk("Once "), silence(30), *FRESH],
        [chunk("Once "), *keepalives(30), *FRESH],
        [chunk("Once "), *keepalives(30, step=ping()), *FRESH],
        [chunk("Once "), *keepalives(30, step=empty()), *FRESH],
        [headers(), hang()],
        [hang()],
    ],
    ids=["silence", "comments", "pings", "empty deltas", "headers only", "nothing"],
)
async def test_a_stalled_primary_is_replaced_and_its_connection_closed(
    script: Sequence[Step],
) -> None:
    eu, us = ScriptedProvider(script), ScriptedProvider(FRESH)
    with trio.fail_after(20):
        async with (
            serve_tcp({"eu": eu, "us": us}) as served,
            open_gateway(served.config(hedge=QUICK)) as gw,
        ):
            reply = await gw.complete("x", model="m")
            await eu.log[0].wait_ended()
    assert reply.text == "The tide turns."
    assert reply.target == "us"
    assert eu.log[0].ended == "client closed"
    assert us.log[0].ended == "done"
    assert reply.stats.attempts[0].cancel_to_closed_ms is not None


async def test_a_stream_over_sockets_is_delivered_whole_and_its_connection_reused() -> None:
    eu = ScriptedProvider(answer("Once ", "upon ", "a time.", every_s=0.01))
    with trio.fail_after(20):
        async with serve_tcp({"eu": eu}) as served, open_gateway(served.config()) as gw:
            for _ in range(2):
                async with gw.stream("x", model="m") as stream:
                    text = "".join([each.text async for each in stream])
                assert text == "Once upon a time."
    assert [each.connection for each in eu.log] == [0, 0]


@pytest.mark.parametrize("ending", [cut(), reset()], ids=["FIN", "RST"])
async def test_a_connection_that_ends_early_is_never_a_success(ending: Step) -> None:
    eu = ScriptedProvider([chunk("Once "), silence(0.3), ending])
    with trio.fail_after(20):
        async with (
            serve_tcp({"eu": eu}) as served,
            open_gateway(served.config(retry=RetryPolicy(max_retries=0))) as gw,
        ):
            with pytest.raises(Truncated):
                await gw.complete("x", model="m")
            async with gw.stream("x", model="m") as stream:
                await anext(stream)
                with pytest.raises(StreamBroken):
                    await anext(stream)


async def test_a_connection_that_went_stale_is_replaced_in_silence() -> None:
    eu = ScriptedProvider(FRESH, drops_reused=True)
    with trio.fail_after(20):
        async with serve_tcp({"eu": eu}) as served, open_gateway(served.config()) as gw:
            for _ in range(2):
                reply = await gw.complete("x", model="m")
                assert len(reply.stats.attempts) == 1
    assert [each.ended for each in eu.log] == ["done", "dropped", "done"]


async def test_a_storm_over_sockets_leaves_every_slot_and_no_server_writing() -> None:
    rng = random.Random(20)
    calm = False

    def script(_: Request) -> Sequence[Step]:
        fate = 1.0 if calm else rng.random()
        if fate < 0.2:
            return [chunk("Once "), hang()]
        if fate < 0.3:
            return status(500)
        return answer("Once ", "upon", every_s=0.001)

    async def caller(gw: Gateway) -> None:
        for _ in range(12):
            with suppress(GatewayError), trio.move_on_after(rng.choice([0, 0.001, 0.005, 0.03])):
                await gw.complete("x", model="m")

    providers = {"eu": ScriptedProvider(script), "us": ScriptedProvider(script)}
    limits = Limits(max_connections_per_target=4, admission_timeout_s=1)
    policies = HedgePolicy(after_s=0.01, stall_after_s=0.01)
    with trio.fail_after(60):
        async with (
            serve_tcp(providers) as served,
            open_gateway(served.config(limits=limits, hedge=policies)) as gw,
        ):
            async with trio.open_nursery() as nursery:
                for _ in range(16):
                    nursery.start_soon(caller, gw)
            for exchange in [*providers["eu"].log, *providers["us"].log]:
                await exchange.wait_ended()
            assert all(each.connections.free_slots == 4 for each in gw._routes.values())
            calm = True
            for _ in range(8):
                assert (await gw.complete("x", model="m")).text == "Once upon"


async def _flood(stream: trio.SocketStream) -> None:
    """Answer with a chunk, then with keep-alives as fast as they can be written."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    first = b'data: {"choices":[{"index":0,"delta":{"content":"Once "}}]}\n\n'
    with suppress(trio.BrokenResourceError):
        await stream.receive_some()
        await stream.send_all(head + first)
        while True:
            await stream.send_all(b": keep-alive\n\n" * 2000)


async def test_keep_alives_that_never_pause_do_not_postpone_the_watchdog() -> None:
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, _flood, 0, host="127.0.0.1"))
            port = listeners[0].socket.getsockname()[1]
            config = {
                "targets": {
                    "eu": {
                        "dialect": "openai-chat",
                        "base_url": f"http://127.0.0.1:{port}/v1",
                        "model": "x",
                    }
                },
                "models": {"m": ["eu"]},
                "hedge": {"enabled": False},
                "stream": {"stall_timeout_s": 0.3},
                "retry": {"max_retries": 0},
            }
            async with open_gateway(config) as gw:
                with pytest.raises(StallTimeout):
                    await gw.complete("x", model="m")
            nursery.cancel_scope.cancel()


async def test_idle_connections_that_the_server_closed_are_closed_here_too() -> None:
    eu = ScriptedProvider(answer("Once.", every_s=0.05), keep_alive_s=0.2)
    with trio.fail_after(30):
        async with serve_tcp({"eu": eu}) as served, open_gateway(served.config()) as gw:
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(partial(gw.complete, "x", model="m"))
            # One call at a time uses one connection, the last one used; meanwhile the rest goes.
            while gw._routes["eu"].connections.open > 1:
                await gw.complete("x", model="m")


# ---------------------------------------------------------------- through a proxy


class Behind:
    """A provider that speaks TLS as ``eu.invalid``, and a proxy that alone can reach it."""

    def __init__(self, nursery: trio.Nursery, folder: Path, *answer: bytes) -> None:
        authority = Authority()
        self._ca_file = folder / "ca.pem"
        self._ca_file.write_bytes(authority.pem)
        self._context = authority.serving("eu.invalid")
        self.provider = ScriptedProvider(FRESH)
        self.tunnels = Tunnels(nursery, self._serve, *answer)
        self._nursery = nursery
        self.port = 0

    async def start(self) -> None:
        """Have the proxy listen."""
        serve = partial(trio.serve_tcp, self.tunnels.serve, 0, host="127.0.0.1")
        listeners = await self._nursery.start(serve)
        self.port = listeners[0].socket.getsockname()[1]

    async def _serve(self, stream: trio.abc.Stream) -> None:
        tls = trio.SSLStream(stream, self._context, server_side=True, https_compatible=True)
        await self.provider.serve(tls)

    def config(self, **target: str) -> Mapping[str, object]:
        return {
            "targets": {
                "eu": {
                    "dialect": "openai-chat",
                    "base_url": "https://eu.invalid/v1",
                    "model": "x",
                    "ca_file": str(self._ca_file),
                    **target,
                }
            },
            "models": {"m": ["eu"]},
            "retry": {"max_retries": 0},
        }


@asynccontextmanager
async def behind(folder: Path, *answer: bytes) -> AsyncGenerator[Behind]:
    async with trio.open_nursery() as nursery:
        world = Behind(nursery, folder, *answer)
        await world.start()
        yield world
        nursery.cancel_scope.cancel()


@pytest.fixture
def environment() -> Iterator[pytest.MonkeyPatch]:
    """Give a way to set variables, after those about proxies are gone."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
            patch.delenv(variable, raising=False)
        yield patch


async def test_a_call_goes_through_the_proxy_that_the_environment_names(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with behind(tmp_path) as world:
        names = meaning()  # the proxy looks names up, and not this machine
        environment.setenv("HTTPS_PROXY", f"http://user:{PASSWORD}@127.0.0.1:{world.port}")
        async with open_gateway(world.config()) as gw:
            for _ in range(2):
                assert (await gw.complete("x", model="m")).text == "The tide turns."
    (head,) = world.tunnels.heads
    assert head.startswith(b"CONNECT eu.invalid:443 HTTP/1.1\r\n")
    assert LOGIN.encode() in head
    assert [
        dict(each.request.headers).get("proxy-authorization") for each in world.provider.log
    ] == [
        None,
        None,
    ]
    assert names.asked == []


async def test_a_target_s_own_proxy_comes_before_that_of_the_environment(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with behind(tmp_path) as world:
        environment.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
        config = world.config(proxy=f"http://127.0.0.1:{world.port}")
        async with open_gateway(config) as gw:
            assert (await gw.complete("x", model="m")).text == "The tide turns."


@pytest.mark.parametrize("how", ["NO_PROXY", "direct"])
async def test_a_target_that_is_left_out_is_looked_up_and_reached_directly(
    environment: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    async with behind(tmp_path) as world:
        names = meaning()
        environment.setenv("HTTPS_PROXY", f"http://127.0.0.1:{world.port}")
        if how == "NO_PROXY":
            environment.setenv("NO_PROXY", ".invalid")
        config = world.config() if how == "NO_PROXY" else world.config(proxy="direct")
        async with open_gateway(config) as gw:
            with pytest.raises(ConnectFailed, match="Name or service not known"):
                await gw.complete("x", model="m")
    assert names.asked == ["eu.invalid"]
    assert world.tunnels.heads == []


async def test_a_proxy_that_refuses_is_a_failed_connection_and_no_answer_of_the_target_s(
    environment: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f"HTTP/1.1 407 Who is {LOGIN}\r\nx-echo: Basic {LOGIN}\r\n\r\n".encode()
    async with behind(tmp_path, echo) as world:
        environment.setenv("HTTPS_PROXY", f"http://user:{PASSWORD}@127.0.0.1:{world.port}")
        async with open_gateway(world.config()) as gw:
            with pytest.raises(ConnectFailed) as caught:
                await gw.complete("x", model="m")
            logging.getLogger("application").error("the call failed", exc_info=caught.value)
            shown = [repr(gw), repr(vars(gw)), repr(gw.stats())]
    error = caught.value
    assert str(error).startswith(
        f"target 'eu' gave no answer: the proxy 127.0.0.1:{world.port} opened no way to"
        " eu.invalid:443: it answered 407, for it does not take the login in HTTPS_PROXY"
    )
    assert (error.status, error.kind, error.retryable) == (None, "transient", True)
    told: traceback.TracebackException | None
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    while told is not None:
        shown += [str(each.locals) for each in told.stack if is_ours(each.filename)]
        told = told.__cause__ or told.__context__
    shown += [str(error), repr(error), repr(vars(error)), pickle.dumps(error).decode("latin-1")]
    shown.append(caplog.text)
    assert LOGIN.encode() in world.tunnels.heads[0]
    assert not [text for text in shown if PASSWORD in text or LOGIN[:12] in text]


async def test_a_proxy_of_another_kind_is_refused_before_anything_is_sent(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with behind(tmp_path) as world:
        environment.setenv("HTTPS_PROXY", f"socks5://user:{PASSWORD}@127.0.0.1:{world.port}")
        with pytest.raises(ConfigurationError, match="HTTPS_PROXY must be like") as caught:
            async with open_gateway(world.config()):
                pass
    assert PASSWORD not in str(caught.value)
