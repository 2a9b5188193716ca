"""What few samples can say: percentiles and shares, each with how sure it is."""

# Theory of operation
# ===================
#
# Rule 1: a percentile is a sample, by nearest rank: the p-th of n samples is the one of rank
#         ceil(n * p / 100), counted from the best. Nothing is interpolated, so every number that is
#         shown has happened.
# Rule 2: where that rank is n, the percentile would be the worst sample under another name, and is
#         refused. So the 50th needs 2 samples, the 90th 10, the 95th 20, the 99th 100.
# Rule 3: the interval around a percentile is made of two other samples. How many of n independent
#         samples lie below the true percentile is binomial, whatever their distribution, so ranks
#         can be named between which it lies in 95 of 100 cases. With few samples one of the ends
#         does not exist.
# Rule 4: a sample may be a bound: we gave up waiting at that value. A percentile is exact if there
#         is no bound up to its rank, else a bound itself; the worse end of an interval likewise.

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import attrs

LEVEL = 0.95
"""Of every interval: in how many cases it holds the true value."""

PERCENTS = (50, 90, 95, 99)
"""The percentiles that are told."""

_TAIL = (1 - LEVEL) / 2
_Z = NormalDist().inv_cdf(1 - _TAIL)


@attrs.frozen
class Observed:
    """A measured value."""

    value: float
    at_least: bool = False
    """Whether it was given up at that value, so that the true one is at least this."""


@attrs.frozen
class Percentile:
    """A percentile of samples, and the interval in which the true one is."""

    value: Observed
    low: float | None
    """The interval's lower end; ``None`` with too few samples."""

    high: float | None
    """Its upper end; ``None`` with too few samples, or where it is only a bound."""


@attrs.frozen
class Distribution:
    """Samples of one figure."""

    samples: Sequence[Observed]
    """In the order from the best to the worst."""

    more_is_better: bool = False

    @classmethod
    def rising(cls, samples: Sequence[Observed]) -> Distribution:
        """Make one of a figure of which less is better."""
        return cls(sorted(samples, key=lambda each: (each.value, each.at_least)))

    @classmethod
    def falling(cls, values: Sequence[float]) -> Distribution:
        """Make one of a figure of which more is better."""
        ordered = [Observed(value) for value in sorted(values, reverse=True)]
        return cls(ordered, more_is_better=True)

    @property
    def worst(self) -> Observed | None:
        """The worst sample; ``None`` if there is none."""
        return self._at(len(self.samples)) if self.samples else None

    def percentile(self, percent: int) -> Percentile | None:
        """Give a percentile; ``None`` if :func:`fewest` says that the samples are too few."""
        count = len(self.samples)
        if count < fewest(percent):
            return None
        better, worse = interval_ranks(count, percent)
        # What is at least a bound is at least anything below the bound.
        ends = (
            self.samples[better - 1].value if better else None,
            self._exact(worse) if worse else None,
        )
        low, high = reversed(ends) if self.more_is_better else ends
        return Percentile(self._at(nearest_rank(count, percent)), low, high)

    def _exact(self, rank: int) -> float | None:
        found = self._at(rank)
        return None if found.at_least else found.value

    def _at(self, rank: int) -> Observed:
        """Give the sample of *rank*: a bound if anything up to there is one."""
        bounded = any(each.at_least for each in self.samples[:rank])
        return Observed(self.samples[rank - 1].value, bounded)


def nearest_rank(count: int, percent: int) -> int:
    """Give the least rank, from 1, up to which at least *percent* of *count* samples lie."""
    return -(-count * percent // 100)


def fewest(percent: int) -> int:
    """Give how many samples it takes for a percentile to be another than the worst one."""
    return -(-100 // (100 - percent))


@cache
def interval_ranks(count: int, percent: int) -> tuple[int | None, int | None]:
    """Give the ranks between which the true percentile lies, each missed in 1 of 40 cases.

    ``None`` for an end that so few samples do not have.
    """
    lower = _lower_rank(count, percent)
    mirrored = _lower_rank(count, 100 - percent)  # the upper tail is the lower one of the rest
    return lower or None, count + 1 - mirrored if mirrored else None


def _lower_rank(count: int, percent: int) -> int:
    """Give the greatest rank that is above the true percentile in 1 of 40 cases at most; or 0."""
    below = 0.0
    for rank in range(count):
        below += _binomial(count, rank, percent / 100)
        if below > _TAIL:
            return rank
    return count


def _binomial(count: int, hits: int, share: float) -> float:
    """Give the probability of so many hits. By logarithms, because powers would underflow."""
    ways = math.lgamma(count + 1) - math.lgamma(hits + 1) - math.lgamma(count - hits + 1)
    return math.exp(ways + hits * math.log(share) + (count - hits) * math.log1p(-share))


@attrs.frozen
class Share:
    """How many of how many."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """From 0 to 1; ``None`` of none."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's score interval, which is right for shares near 0 and 1 too; ``None`` of none."""
        if not self.of:
            return None
        share, spread = self.count / self.of, _Z**2 / self.of
        middle = share + spread / 2
        width = math.sqrt(spread * (share * (1 - share) + spread / 4))
        low, high = ((middle + way * width) / (1 + spread) for way in (-1, 1))
        # At its ends the formula gives 0 and 1, but for rounding.
        return (low if self.count else 0.0, high if self.count < self.of else 1.0)
