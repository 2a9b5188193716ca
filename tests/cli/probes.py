"""What the tests of the probe share: figures by hand, and loads in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from polygateway import HedgePolicy, RetryPolicy, StreamPolicy, open_gateway
from polygateway.cli.probing.load import Load, Plan
from polygateway.cli.probing.result import result
from polygateway.cli.probing.sample import Sample
from polygateway.stats import Stall, StreamFigures
from polygateway.testing import ScriptedProvider, run_virtual, serve_memory
from tests.records import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polygateway import Config
    from polygateway.cli.probing.result import Result

FLOWING = StreamFigures(
    chunk_count=11,
    ttft_ms=400.0,
    ttft_text_ms=400.0,
    generation_ms=1000.0,
    stall_ms=0.0,
    stall_gap_count=0,
    stall_count=0,
    active_generation_ms=1000.0,
    backpressure_ms=0.0,
    max_gap_ms=100.0,
    tail_ms=0.0,
    open_gap_ms=None,
    total_ms=1400.0,
    output_tokens=11,
    tokens_source="usage",
    tpot_ms=100.0,
    tokens_per_s=10.0,
    rate_basis="active",
    rate_reason=None,
    stalls=(),
)
"""Eleven tokens, one every 100 ms, the first after 400 ms."""

SILENT = attrs.evolve(NOTHING, total_ms=1400.0)
"""No content at all."""

STALL = Stall(
    attempt=0,
    after_chunk=5,
    offset_ms=900.0,
    duration_ms=3000.0,
    characters_before=24,
    next_kind="text",
    keepalives=0,
    open=False,
    cause="server_silence",
)

STALLED = attrs.evolve(
    FLOWING,
    generation_ms=4000.0,
    stall_ms=3000.0,
    stall_gap_count=1,
    stall_count=1,
    max_gap_ms=3000.0,
    total_ms=4400.0,
    rate_basis="wall_lower_bound",
    tokens_per_s=2.5,
    stalls=(STALL,),
)
"""The same with a stall of 3 s."""

MADE = Sample(index=0, due_s=0.0, late_ms=0.0, queued_ms=0.0, elapsed_ms=1400.0, figures=FLOWING)
"""A request with a whole answer."""

QUICKLY = Plan(prompt="Hi.", options={}, requests=4, warmup=0, slots=1, rate=None)


def each_by_itself(config: Config) -> Config:
    """Give the configuration by which a probe measures the targets of *config*."""
    return attrs.evolve(
        config,
        models={name: (name,) for name in config.targets},
        hedge=HedgePolicy(enabled=False),
        retry=RetryPolicy(max_retries=0),
    )


def measured(
    provider: ScriptedProvider,
    plan: Plan,
    *,
    stream: StreamPolicy = StreamPolicy(),  # noqa: B008 - it is frozen
    cpu_time: Callable[[], float] = lambda: 0.0,
) -> Result:
    """Carry out *plan* in virtual time, and give what came of it."""

    async def main() -> Result:
        async with serve_memory({"eu": provider}) as network:
            config = each_by_itself(network.config(stream=stream))
            async with open_gateway(config, connect=network.connect) as gateway:
                load = Load(gateway, "eu", plan, cpu_time)
                await load.run()
        return result(load, config)

    return run_virtual(main)


def started(provider: ScriptedProvider) -> Mapping[int, float]:
    """Tell when each of the requests that a provider got had been read."""
    return {exchange.index: exchange.started_at for exchange in provider.log}
