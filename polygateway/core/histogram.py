"""A distribution over a sliding window of time, in memory that does not grow with it."""

# Theory of operation
# ===================
#
# Rule 1: a value is counted in the bucket that holds it. Bounds grow by 2^(1/32), so a bucket
#         tells its values to within 1.09 %. The bounds of one doubling are the floats just below
#         the true ones, and a value is compared with them: no logarithm, hence no rounding, and an
#         exact power of two is in the bucket that ends there.
# Rule 2: the window is a ring of slices of time. A value goes into the slice of its instant; a
#         snapshot is the sum of the slices that are not too old. So a value is seen for ten slices,
#         that in which it came included, and then goes with its slice.
# Rule 3: nothing happens when time passes: a slice is made when a value comes, and pushes out the
#         oldest one of ten, which is too old by then. A gap of any length costs nothing.
# Rule 4: time that goes back is taken for the latest time seen. Nothing is lost by it.

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections import deque

import attrs

from ..aggregates import BUCKET_FLOORS, BUCKETS_PER_DOUBLING, SLICE_S, WINDOW_S, Distribution
from .units import ns

_SLICE_NS = ns(SLICE_S)
_SLICES = WINDOW_S // SLICE_S


def bucket_of(value: float) -> int:
    """Give the index of the bucket that holds *value*, which is over 0 and finite.

    The least bucket holds everything up to the least normal float, 2^-1022.
    """
    fraction, exponent = math.frexp(max(value, sys.float_info.min))
    step = bisect_left(BUCKET_FLOORS, 2 * fraction) - 1
    return (exponent - 1) * BUCKETS_PER_DOUBLING + step


@attrs.define
class _Slice:
    """What came in a slice of time; at least one value."""

    number: int
    zero_count: int = 0
    buckets: dict[int, int] = attrs.field(factory=dict[int, int])
    sum: float = 0.0
    min: float = math.inf
    max: float = 0.0

    def add(self, value: float) -> None:
        if value:
            index = bucket_of(value)
            self.buckets[index] = self.buckets.get(index, 0) + 1
        else:
            self.zero_count += 1
        self.sum += value
        self.min = min(self.min, value)
        self.max = max(self.max, value)

    def distribution(self) -> Distribution:
        return Distribution(
            zero_count=self.zero_count,
            buckets=self.buckets,
            sum=self.sum,
            min=self.min,
            max=self.max,
        )


class Histogram:
    """The distribution of the values of the last five minutes.

    Times are nanoseconds of a clock that does not go back.
    """

    def __init__(self) -> None:
        self._slices: deque[_Slice] = deque(maxlen=_SLICES)

    def record(self, value: float, now_ns: int) -> None:
        """Count *value*, which came at *now_ns*.

        Raises:
            ValueError: it is below 0, infinite or no number.
        """
        if not 0 <= value < math.inf:
            raise ValueError(f"a histogram counts finite values from 0 up, not {value!r}")
        number = now_ns // _SLICE_NS
        if not self._slices or number > self._slices[-1].number:
            self._slices.append(_Slice(number))
        self._slices[-1].add(value)

    def snapshot(self, now_ns: int) -> Distribution:
        """Give the distribution as it is at *now_ns*. It does not change afterwards."""
        oldest = now_ns // _SLICE_NS - _SLICES + 1
        recent = (each.distribution() for each in self._slices if each.number >= oldest)
        return sum(recent, Distribution())
