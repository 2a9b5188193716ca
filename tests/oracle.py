"""The figures of a stream by brute force: every tick of the clock is looked at, one by one.

Slow and plain on purpose, so that it can be read against the definitions.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_DURATIONS_AND_COUNTS = (
    "generation_ns",
    "stall_ns",
    "stall_gap_count",
    "stall_count",
    "active_generation_ns",
    "max_gap_ns",
)


class Read(NamedTuple):
    """One read of a socket. Times are whole ticks."""

    asked: int
    arrived: int
    chunks: int
    """How many content chunks its bytes completed."""


def brute_force(reads: Sequence[Read], threshold: int) -> dict[str, int | None]:
    """Give the figures of *reads*, by the names that they have in the package."""
    count = sum(read.chunks for read in reads)
    if count < 2:
        return {"chunk_count": count, **dict.fromkeys(_DURATIONS_AND_COUNTS)}
    waiting = {tick for read in reads for tick in range(read.asked, read.arrived)}
    stamps = [read.arrived for read in reads if read.chunks]
    gaps = [
        sum(tick in waiting for tick in range(before, after)) for before, after in pairwise(stamps)
    ]
    # One letter for each gap: S is stalled.
    picture = "".join("S" if waited >= threshold else "." for waited in gaps)
    stalled = [waited for waited in gaps if waited >= threshold]
    generation = len(range(stamps[0], stamps[-1]))
    runs = re.findall("S+", picture)
    values = (
        generation,
        sum(stalled),
        len(stalled),
        len(runs),
        generation - sum(stalled),
        max(gaps, default=0),
    )
    return {"chunk_count": count, **dict(zip(_DURATIONS_AND_COUNTS, values, strict=True))}
