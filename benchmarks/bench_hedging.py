"""What armed hedging costs while nothing stalls, against the same gateway with hedging off.

CPU time of interleaved rounds over memory streams, the scripted provider's share included on both
sides; the figure to read is the ratio. ``python benchmarks/bench_hedging.py [--json]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING

from polygateway import Gateway, HedgePolicy, open_gateway
from polygateway.testing import ScriptedProvider, answer, run_virtual, serve_memory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ROUNDS = 9
POLICIES = {"off": HedgePolicy(enabled=False), "armed": HedgePolicy()}


async def _stream(gw: Gateway) -> None:
    async with gw.stream("x", model="m") as stream:
        async for _ in stream:
            pass


async def _complete(gw: Gateway) -> None:
    await gw.complete("x", model="m")


# Name, what is called, how often in a round, chunks of each answer.
CASES: list[tuple[str, Callable[[Gateway], Awaitable[None]], int, int]] = [
    ("stream, a chunk", _stream, 1, 1000),
    ("complete, a chunk", _complete, 1, 1000),
    ("stream, a call", _stream, 100, 1),
    ("complete, a call", _complete, 100, 1),
]


def measure(
    call: Callable[[Gateway], Awaitable[None]], times: int, chunks: int, policy: HedgePolicy
) -> float:
    """Give the CPU microseconds of *times* calls, each for an answer of so many chunks."""

    async def main() -> float:
        providers = {
            name: ScriptedProvider(answer(*("a dozen characters" for _ in range(chunks))))
            for name in ("eu", "us")
        }
        async with (
            serve_memory(providers) as network,
            open_gateway(network.config(hedge=policy), connect=network.connect) as gw,
        ):
            await call(gw)
            start = time.process_time_ns()
            for _ in range(times):
                await call(gw)
            return (time.process_time_ns() - start) / 1000

    return run_virtual(main)


def run() -> list[dict[str, str | float]]:
    """Measure every case and give a row for each."""
    rows: list[dict[str, str | float]] = []
    for name, call, times, chunks in CASES:
        spent: dict[str, list[float]] = {policy: [] for policy in POLICIES}
        for _ in range(ROUNDS):
            for policy, figures in spent.items():
                figures.append(measure(call, times, chunks, POLICIES[policy]) / times / chunks)
        median = {policy: statistics.median(figures) for policy, figures in spent.items()}
        rows.append({"case": name, **median, "ratio": median["armed"] / median["off"]})
    return rows


def main() -> None:
    """Print the rows as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json = parser.parse_args().json
    rows = run()
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    print(f"| {'case':<18} | off, us | armed, us | ratio |\n|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['case']:<18} | {row['off']:7.1f} | {row['armed']:9.1f} | {row['ratio']:5.2f} |"
        )


if __name__ == "__main__":
    main()
