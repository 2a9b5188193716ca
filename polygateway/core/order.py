"""In which order a call tries its targets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..stats import Standing
    from .health import Health

RANKS: Mapping[Standing, int] = {"healthy": 0, "degraded": 1, "rate_limited": 2, "open": 3}
"""The smaller, the better."""


def drawn(weights: Sequence[float], shares: Sequence[float]) -> list[int]:
    """Draw positions one after the other, each by its share of the weight that is left.

    The position with the smallest of exponential variates, at rates equal to the weights, is drawn
    by its weight, and so is each next one among the rest (Efraimidis and Spirakis, 2006).

    Args:
        weights: one for each position, over 0.
        shares: a uniform random number for each, from 0 up to but not including 1.
    """
    waits = [-math.log1p(-share) / weight for weight, share in zip(weights, shares, strict=True)]
    return sorted(range(len(weights)), key=waits.__getitem__)


def lined_up(order: Sequence[int], healths: Sequence[Health], now: int) -> Sequence[int]:
    """Put what is healthy before what is not, for a call that begins.

    First comes the first that is admitted: healthy, or due for a probe. If none is, the one of
    which the best is held, for the last target is always tried. Then come all others, by what is
    held of them.

    Args:
        order: positions in *healths*, the preferred one first.
        healths: what is held of each target.
        now: the time.
    """
    if all(healths[position].standing(now) == "healthy" for position in order):
        return order
    for position in order:
        healths[position].called()
    ranked = sorted(order, key=lambda position: RANKS[healths[position].standing(now)])
    first = next((each for each in order if healths[each].admits(now)), ranked[0])
    return [first, *(each for each in ranked if each != first)]
