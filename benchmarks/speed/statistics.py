"""Medians, their spread, and quantiles."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence


@attrs.frozen
class Spread:
    """The median of some figures, the least of them and the most."""

    median: float
    least: float
    most: float


def spread(figures: Sequence[float]) -> Spread:
    """Sum up *figures*, of which there is at least one."""
    return Spread(median(figures), min(figures), max(figures))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Give what that share of *ordered* is at most; it is sorted, and not empty."""
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def shown(value: float) -> str:
    """Write *value* with about three digits."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"
