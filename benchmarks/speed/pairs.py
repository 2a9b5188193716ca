"""Measures polygateway against itself: two gateways in one process, which take turns.

``python -m benchmarks.speed.pairs PORT KIND MANNER SIZE`` prints the figures as a line of
JSON: microseconds of CPU for each chunk, of the plain gateway and of the other one, the difference
and the ratio. With one chunk in an answer that is for each call.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import trio

from .clients.gateway import OFF, Ask, Fired, Polygateway, complete, stream
from .measuring import Answer, warm
from .serving import Upstream
from .system import cores, pin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .clients import Call
    from .measuring import Figures

_CHUNKS, _CALLS = 40_000, 100
"""About how many chunks each reads, in how many calls at most."""

ASKS: Mapping[str, Ask] = {"stream": stream, "complete": complete}
KINDS: Mapping[str, Callable[[Ask, int], tuple[Polygateway, Polygateway, int]]] = {
    "armed": lambda ask, size: (Polygateway(ask, OFF), Polygateway(ask), size),
    "fired": lambda ask, size: (Polygateway(ask), Fired(ask), size),
    "targets": lambda ask, size: (Polygateway(ask, targets=1), Polygateway(ask, targets=size), 1),
}
"""The two, and the chunks of an answer, for each way to ask and each size."""


async def compare(base_url: str, plain: Polygateway, other: Polygateway, chunks: int) -> Figures:
    """Let both read answers of so many chunks, in turns."""
    model, calls = f"burst-{chunks}", min(_CALLS, max(2, _CHUNKS // chunks))
    await warm(plain, base_url)
    await warm(other, base_url)
    async with plain.open(base_url, model) as first, other.open(base_url, model) as second:
        for call in (first, second):  # which connects
            await Answer().fetch(call, model)
        gc.collect()
        spent = {first: 0.0, second: 0.0}
        for number in range(calls):
            for call in (first, second) if number % 2 else (second, first):
                spent[call] += await _cost(call, model)
    plain_us, other_us = (cpu_s / calls / chunks * 1e6 for cpu_s in spent.values())
    return {
        "plain_us": plain_us,
        "other_us": other_us,
        "more_us": other_us - plain_us,
        "ratio": other_us / plain_us,
    }


async def _cost(call: Call, model: str) -> float:
    answer, before = Answer(), time.process_time()
    await answer.fetch(call, model)
    return time.process_time() - before


def main() -> None:
    """Measure, and print the figures."""
    port, kind, manner, size = sys.argv[1:]
    pin(cores()[0])
    pair = KINDS[kind](ASKS[manner], int(size))
    print(json.dumps(trio.run(partial(compare, Upstream(int(port)).base_url, *pair))))


if __name__ == "__main__":
    main()
