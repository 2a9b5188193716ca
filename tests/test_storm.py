"""A storm of cancellations under contention for slots: no slot lost, no socket left."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from polygateway import Gateway, GatewayError, HedgePolicy, Limits, RetryPolicy, open_gateway
from polygateway.testing import (
    MemoryNetwork,
    ScriptedProvider,
    answer,
    chunk,
    cut,
    hang,
    run_virtual,
    serve_memory,
    silence,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway.testing import Request, Step

SLOTS = 4


class Weather:
    """Providers whose answers are a matter of luck until it is calm."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.calm = False

    def script(self, _: Request) -> Sequence[Step]:
        fate = 1.0 if self.calm else self.rng.random()
        if fate < 0.1:
            return [chunk("Once "), hang()]
        if fate < 0.15:
            return [chunk("Once "), cut()]
        if fate < 0.2:
            return status(500)
        return [silence(self.rng.choice([0, 0.002, 0.02])), *answer("Once ", "upon", every_s=0.004)]


async def _one_call(gw: Gateway, rng: random.Random) -> None:
    limit = rng.choice([0, 0.0005, 0.001, 0.004, 0.01, 0.03, 0.3])
    with suppress(GatewayError), trio.move_on_after(limit):
        if rng.random() < 0.5:
            await gw.complete("x", model="m")
        else:
            async with gw.stream("x", model="m") as stream:
                async for _ in stream:
                    await trio.lowlevel.checkpoint()


async def _storm(calls: int, concurrency: int) -> None:
    weather = Weather(f"{calls} calls, {concurrency} at once")
    providers = {name: ScriptedProvider(weather.script, connect_s=0.001) for name in ("eu", "us")}
    async with serve_memory(providers) as network:
        config = network.config(
            limits=Limits(max_connections_per_target=SLOTS, admission_timeout_s=0.05),
            hedge=HedgePolicy(after_s=0.01, stall_after_s=0.01, budget_ratio=1),
            retry=RetryPolicy(backoff_base_s=0.001),
        )
        async with open_gateway(config, connect=network.connect) as gw:

            async def caller() -> None:
                for _ in range(calls // concurrency):
                    await _one_call(gw, weather.rng)

            async with trio.open_nursery() as nursery:
                for _ in range(concurrency):
                    nursery.start_soon(caller)
            await wait_all_tasks_blocked()
            _check_nothing_is_held(gw, network, providers)
            weather.calm = True
            for _ in range(3 * SLOTS):
                assert (await gw.complete("x", model="m")).text == "Once upon"
        assert network.open_connections == 0


def _check_nothing_is_held(
    gw: Gateway, network: MemoryNetwork, providers: dict[str, ScriptedProvider]
) -> None:
    """Check that every slot is free, and that no server writes to anyone."""
    for provider in providers.values():
        assert all(exchange.ended is not None for exchange in provider.log)
    for route in gw._routes.values():
        assert route.connections.free_slots == SLOTS
        assert route.connections.open <= SLOTS
    assert network.open_connections <= SLOTS * len(providers)


@pytest.mark.parametrize(
    ("calls", "concurrency"),
    [
        (800, 8),
        (2000, 64),
        pytest.param(8000, 8, marks=pytest.mark.long),
        pytest.param(20_000, 64, marks=pytest.mark.long),
    ],
)
def test_a_storm_of_cancellations_loses_no_slot(calls: int, concurrency: int) -> None:
    run_virtual(_storm, calls, concurrency, real_limit_s=600)
