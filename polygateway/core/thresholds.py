"""When an attempt counts as silent, for each target of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .units import ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..policies import HedgePolicy
    from .latency import Latency
    from .targets import Candidate

_UNTIL_LEARNED_NS = ns(5.0)

# What a first content takes of which too few have been seen: the median of the calls that this
# project began with.
_USUAL_FIRST_NS = ns(1.6)


class Thresholds:
    """The thresholds of one call. What it has asked for once stays for the whole call."""

    def __init__(self, hedge: HedgePolicy, candidates: Sequence[Candidate], now: int) -> None:
        """Prepare to tell what holds at *now*.

        Args:
            hedge: the thresholds, or that they are learned.
            candidates: what is known of the targets, in the order in which the call tries them.
            now: the time.
        """
        self._hedge = hedge
        self._candidates = candidates
        self._now = now
        self._after: dict[int, int] = {}

    def after_ns(self, target: int) -> int:
        """Give how long an attempt at *target* may take to its first content.

        To be asked for when the first attempt at it starts: what that teaches comes later.
        """
        if target not in self._after:
            self._after[target] = self._after_ns(self._candidates[target].latency)
        return self._after[target]

    def _after_ns(self, latency: Latency) -> int:
        if self._hedge.after_s != "auto":
            return ns(self._hedge.after_s)
        return _or_else(latency.after_ns(self._now), _UNTIL_LEARNED_NS)

    def stall_after_ns(self, target: int, progress_ns: int) -> int:
        """Give how long the content of an attempt at *target* may stop.

        Args:
            target: its position.
            progress_ns: how long it took to generate what a new start would lose.
        """
        if self._hedge.stall_after_s != "auto":
            return ns(self._hedge.stall_after_s)
        rival = self._candidates[0 if target or len(self._candidates) == 1 else 1]
        first = _or_else(rival.latency.median_first_ns(self._now), _USUAL_FIRST_NS)
        latency = self._candidates[target].latency
        learned = latency.stall_after_ns(first + progress_ns, self._now)
        return _or_else(learned, _UNTIL_LEARNED_NS)


def _or_else(learned: int | None, otherwise: int) -> int:
    return otherwise if learned is None else learned
