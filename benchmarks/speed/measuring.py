"""What a measure is made of: CPU time, wall time, and whole answers."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, TypeAlias

from .scripts import chunks_in
from .wires import CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .clients import Call, Client
    from .serving import Upstream

Figures: TypeAlias = "dict[str, float]"

_WARM, _WARM_CALLS = "burst-50", 20


class Meter:
    """Takes CPU time and wall time, and what the provider did in them."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._before = upstream.status()
        gc.collect()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self, items: int) -> Figures:
        """Give what was taken since this was made; microseconds of CPU for each of *items*."""
        cpu_s = time.process_time() - self._cpu
        wall_s = time.perf_counter() - self._wall
        before, after = self._before, self._upstream.status()
        late_ms = after["late_ms"] - before["late_ms"]
        return {
            "cpu_us": cpu_s / items * 1e6,
            "wall_us": wall_s / items * 1e6,
            "wall_s": wall_s,
            "core": cpu_s / wall_s,
            "provider_core": (after["cpu_s"] - before["cpu_s"]) / wall_s,
            "provider_late_ms": late_ms / max(1, after["writes"] - before["writes"]),
        }


class Answer:
    """What came of a call: the texts, and when."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._came_ns: list[int] = []

    async def fetch(self, call: Call, model: str, *, timed: bool = False) -> None:
        """Make the call.

        Raises:
            AssertionError: not all of the answer came.
        """
        count = await call(self._take if timed else self.texts.append)
        characters = sum(map(len, self.texts))
        if (count, characters) != (chunks_in(model), chunks_in(model) * CHARACTERS):
            raise AssertionError(f"{count} chunks of {model} came, {characters} characters")

    def _take(self, text: str) -> None:
        self._came_ns.append(time.monotonic_ns())
        self.texts.append(text)

    @property
    def delays_ms(self) -> Sequence[float]:
        """From when each content was written, the first left out, to when it was there."""
        came = zip(self._came_ns, self.texts, strict=True)
        return [(came_ns - int(text[:CHARACTERS])) / 1e6 for came_ns, text in came][1:]


async def warm(client: Client, base_url: str) -> None:
    """Let everything be imported that is imported late, and every usual path be gone."""
    async with client.open(base_url, _WARM) as call:
        for _ in range(_WARM_CALLS):
            await Answer().fetch(call, _WARM)
