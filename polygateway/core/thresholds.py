"""When an attempt counts as silent, for each target of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .units import ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..policies import HedgePolicy
    from .latency import Latency

_UNTIL_LEARNED_NS = ns(5.0)

# What a first content takes of which too few have been seen: the median of the calls that this
# project began with.
_USUAL_FIRST_NS = ns(1.6)


class Thresholds:
    """The thresholds of one call. Those of first contents are what was known when it began."""

    def __init__(self, hedge: HedgePolicy, latencies: Sequence[Latency], now: int) -> None:
        """Take what holds at *now*.

        Args:
            hedge: the thresholds, or that they are learned.
            latencies: what the targets usually take, in the order in which the call tries them.
            now: the time.
        """
        self._hedge = hedge
        self._latencies = latencies
        self._now = now
        self._after = [self._after_ns(latency) for latency in latencies]

    def _after_ns(self, latency: Latency) -> int:
        if self._hedge.after_s != "auto":
            return ns(self._hedge.after_s)
        return _or_else(latency.after_ns(self._now), _UNTIL_LEARNED_NS)

    def after_ns(self, target: int) -> int:
        """Give how long an attempt at *target* may take to its first content."""
        return self._after[target]

    def stall_after_ns(self, target: int, progress_ns: int) -> int:
        """Give how long the content of an attempt at *target* may stop.

        Args:
            target: its position.
            progress_ns: how long it took to generate what a new start would lose.
        """
        if self._hedge.stall_after_s != "auto":
            return ns(self._hedge.stall_after_s)
        rival = self._latencies[0 if target or len(self._latencies) == 1 else 1]
        first = _or_else(rival.median_first_ns(self._now), _USUAL_FIRST_NS)
        learned = self._latencies[target].stall_after_ns(first + progress_ns, self._now)
        return _or_else(learned, _UNTIL_LEARNED_NS)


def _or_else(learned: int | None, otherwise: int) -> int:
    return otherwise if learned is None else learned
