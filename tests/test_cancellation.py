"""Cancelled at any checkpoint, a call leaves no task, no connection, no slot and no warning."""

from __future__ import annotations

import gc
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from polygateway import Gateway, GatewayError, Limits, RetryPolicy, open_gateway
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    finish,
    hang,
    headers,
    run_virtual,
    serve_memory,
    silence,
    status,
)
from tests.striking import run_struck

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias

    from polygateway.testing import Step

    Call: TypeAlias = Callable[[Gateway], Awaitable[None]]
    Scripts: TypeAlias = Mapping[str, Sequence[Sequence[Step]]]


async def _complete(gw: Gateway) -> None:
    await gw.complete("x", model="m", deadline_s=100)


async def _stream(gw: Gateway) -> None:
    async with gw.stream("x", model="m", deadline_s=100) as stream:
        async for _ in stream:
            await trio.sleep(0.1)


async def _twice(gw: Gateway) -> None:
    # The second call meets a connection to be reused.
    for _ in range(2):
        await gw.complete("x", model="m")


SCENARIOS: dict[str, Scripts] = {
    "plain": {"eu": [answer("Once ", "upon", every_s=1)]},
    "duel won by the hedge": {
        "eu": [(chunk("Once "), hang())],
        "us": [answer("upon ", "a time", every_s=1)],
    },
    "duel won by the primary": {
        "eu": [(chunk("Once "), silence(6), *answer("upon"))],
        "us": [(silence(9), *answer("late"))],
    },
    "late first content": {
        "eu": [(headers(), hang())],
        "us": [(headers(), hang())],
        "ap": [answer("upon ", "a time", every_s=1)],
    },
    "retries": {
        "eu": [status(500)],
        "us": [(chunk("Once "), cut())],
        "ap": [(chunk("Once."), finish(), hang())],
    },
}


async def _whatever_comes_of_it(call: Call, gw: Gateway) -> None:
    with suppress(GatewayError):
        await call(gw)


async def _sweep(call: Call, scripts: Scripts, at: int) -> bool:
    providers = {
        name: ScriptedProvider(*each, connect_s=0.01 * position)
        for position, (name, each) in enumerate(scripts.items())
    }
    async with serve_memory(providers) as network:
        config = network.config(
            limits=Limits(max_connections_per_target=2), retry=RetryPolicy(backoff_base_s=0.2)
        )
        async with open_gateway(config, connect=network.connect) as gw:
            struck = await run_struck(partial(_whatever_comes_of_it, call, gw), at)
            await wait_all_tasks_blocked()
            assert not gw._calls
            for route in gw._routes.values():
                assert route.connections.free_slots == 2
                assert not route.connections._leases
            for provider in providers.values():
                assert all(exchange.ended is not None for exchange in provider.log)
        assert network.open_connections == 0
    return struck


@pytest.mark.parametrize("call", [_complete, _stream, _twice])
@pytest.mark.parametrize("scripts", SCENARIOS.values(), ids=SCENARIOS)
def test_cancelled_at_any_checkpoint_nothing_is_left(call: Call, scripts: Scripts) -> None:
    at = 1
    while run_virtual(_sweep, call, scripts, at):
        at += 1
    gc.collect()
    # The scenario ran to its end once, uncancelled, and took more than a handful of steps.
    assert at > 10
