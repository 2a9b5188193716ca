"""Measures one client in one way, in a process of its own.

``python -m benchmarks.speed.worker PORT KIND CLIENT SIZE`` prints the figures as a line of JSON.
CPU time is this process's, of all its threads.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING

from .clients import load
from .measuring import Answer, Meter, warm
from .scripts import chunks_in
from .serving import Upstream
from .statistics import quantile
from .system import allow_sockets, cores, pin, resident_kib

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from .clients import Client
    from .measuring import Figures

STREAM = "paced-50-20ms"
"""What each of many streams is; undisturbed it takes a second."""

SPREAD_S = 1.0
"""Over how long streams are started that are not started at once."""

_WEIGHED = 20
"""At the end of about how many streams the memory is looked at."""

_CHUNKS, _CALLS = 5000, 200
"""About how many chunks are read, in how many calls at most."""


async def measure_chunks(client: Client, upstream: Upstream, size: int) -> Figures:
    """Read answers of *size* chunks that come at once, one after the other."""
    await warm(client, upstream.base_url)
    model, calls = f"burst-{size}", min(_CALLS, max(1, _CHUNKS // size))
    async with client.open(upstream.base_url, model) as call:
        if calls > 1:  # the first one connects
            await Answer().fetch(call, model)
        meter = Meter(upstream)
        for _ in range(calls):
            await Answer().fetch(call, model)
        return meter.read(calls * size)


async def measure_paced(client: Client, upstream: Upstream, size: int) -> Figures:
    """Read one answer of *size* chunks, each 0.8 ms after the one before it."""
    await warm(client, upstream.base_url)
    model, answer = f"paced-{size}-0.8ms", Answer()
    async with client.open(upstream.base_url, model) as call:
        meter = Meter(upstream)
        await answer.fetch(call, model, timed=True)
        return meter.read(size) | _delays([answer])


async def measure_streams(
    client: Client, upstream: Upstream, size: int, *, over_s: float = 0.0
) -> Figures:
    """Read *size* answers at the same time, each of 50 chunks, 20 ms apart.

    Args:
        client: what is measured.
        upstream: the provider.
        size: number of streams.
        over_s: how long it takes until all are started.
    """
    await warm(client, upstream.base_url)
    answers, held = [Answer() for _ in range(size)], [resident_kib()]

    async def one(number: int) -> None:
        if over_s:
            await client.loop.sleep(over_s * number / size)
        await answers[number].fetch(call, STREAM, timed=True)
        if number % max(1, size // _WEIGHED) == 0:  # most others still run when the first one ends
            held.append(resident_kib())

    async with client.open(upstream.base_url, STREAM) as call:
        meter = Meter(upstream)
        await client.loop.together([partial(one, number) for number in range(size)])
        figures = meter.read(size * chunks_in(STREAM))
    return figures | _delays(answers) | {"kib_a_stream": (max(held) - held[0]) / size}


def _delays(answers: Sequence[Answer]) -> Figures:
    delays = sorted(delay for answer in answers for delay in answer.delays_ms)
    if not delays:  # of those that give the whole answer at once
        return {}
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1}
    return {name: quantile(delays, share) for name, share in shares.items()}


KINDS: Mapping[str, Callable[[Client, Upstream, int], Awaitable[Figures]]] = {
    "chunks": measure_chunks,
    "paced": measure_paced,
    "streams": measure_streams,
    "spread": partial(measure_streams, over_s=SPREAD_S),
}


def main() -> None:
    """Measure, and print the figures."""
    port, kind, name, size = sys.argv[1:]
    pin(cores()[0])
    allow_sockets()
    client, upstream = load(name), Upstream(int(port))
    figures = client.loop.run(partial(KINDS[kind], client, upstream, int(size)))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
