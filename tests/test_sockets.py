"""The main job over real sockets, in real time: a handful of calls on the loopback interface.

No duration decides here: the order of events does, as both ends have seen it.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from polygateway import (
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway.testing import Request, Step

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
