"""Cancelled at any checkpoint of any situation, a call leaves nothing behind."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from trio.testing import wait_all_tasks_blocked

from polygateway import open_gateway
from polygateway.testing import run_virtual, serve_memory
from tests.scenarios import outages, rescues, situations
from tests.scenarios.stage import Stage, check_nothing_is_left
from tests.striking import run_struck

if TYPE_CHECKING:
    from tests.scenarios.stage import How, Make


ALL = [*situations.SITUATIONS, *rescues.SITUATIONS, *outages.SITUATIONS]


async def _play_struck(make: Make, how: How, at: int) -> bool:
    situation = make()
    for position, provider in enumerate(situation.providers.values()):
        provider.connect_s = 0.01 * position
    async with serve_memory(situation.providers) as network:
        async with open_gateway(situation.config(network), connect=network.connect) as gw:
            stage = Stage(gw=gw, how=how, options=situation.options, providers=situation.providers)
            for _ in range(situation.calls_before):
                await stage.ask()
            struck = await run_struck(stage.ask, at)
            await wait_all_tasks_blocked()
            await check_nothing_is_left(gw, situation)
        assert network.open_connections == 0
    return struck


async def _sweep(make: Make, how: How) -> int:
    """Cancel the call at each of its steps in turn, in a world of its own each time."""
    at = 1
    while await _play_struck(make, how, at):
        at += 1
    return at - 1


@pytest.mark.parametrize(("make", "how"), ALL, ids=[f"{make.__name__}-{how}" for make, how in ALL])
def test_cancelled_at_any_checkpoint_a_call_leaves_nothing(make: Make, how: How) -> None:
    steps = run_virtual(_sweep, make, how)
    gc.collect()
    # The call ran to its end once, uncancelled, and took more than a handful of steps.
    assert steps > 10
