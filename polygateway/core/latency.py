"""What a target's first content and its silences usually take."""

# Theory of operation
# ===================
#
# Rule 1: a sample is a duration, and whether it was cut off: an attempt that lost or was given up
#         would have taken longer, nobody knows how much. Without such samples, or with them taken
#         for whole ones, a target looks faster than it is.
# Rule 2: so what share has ended by a time is estimated as Kaplan and Meier do (1958), computed in
#         Efron's way (1967): all samples weigh the same, and one that was cut off leaves its weight
#         to all longer ones, in equal parts. Of equal samples, those cut off are the longer ones.
# Rule 3: the last 300 samples count, if they are at most an hour old. So many fix the share beyond
#         the 95th percentile to 5 % +- 1.3 %; at a call a second they are five minutes.
# Rule 4: something is known as soon as there are enough samples, and until fewer than half as many
#         are left. So what comes just about often enough is not known and forgotten by turns.
# Rule 5: what the samples say is worked out when somebody asks and over a sixteenth of them have
#         changed. So it costs little a sample, and most questions nothing.
#
# Times are integer nanoseconds of one monotonic clock.

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from operator import itemgetter, neg
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from .units import ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

LEARNED_NS = ns(2)
"""How long a silence must last to be a sample, and the least that is ever waited in one. What
becomes of a silence after so long is all that is asked; shorter ones have no part in that.
"""

_LONGEST_STALL_AFTER_NS = ns(10)
_LEAST_AFTER_NS = ns(0.5)
_MOST_AFTER_NS = ns(30)

# A first content that is rare need not be late. In a lognormal one of sigma 0.6, the slowest
# twentieth begins at 2.7 medians, and half of it has come within 0.6 more: sooner than a hedge's.
_LATE_MEDIANS = 3

_MOST_SAMPLES = 300
_WINDOW_NS = ns(3600)
_RENEWAL = 16

# Of sixty samples, three are beyond the 95th percentile.
_ENOUGH_CONTENTS = 60

# That all of five lie on one side of the median happens once in sixteen times.
_ENOUGH_FOR_A_MEDIAN = 5

# All that is asked of silences is on which side of one half a share is. Twenty tell a quarter or
# three quarters from the other side in 98.6 % of cases; and the nearer to one half a share is, the
# less does it matter.
_ENOUGH_SILENCES = 20

# Shares are integers, and what is left is rounded down. So 5 % left are seen when 5 % are left; in
# floats they would be missed now and then by the last bit.
_ALL = 10**18
_TWENTIETH = _ALL // 20
_HALF = _ALL // 2

_Samples: TypeAlias = "Sequence[tuple[int, bool]]"
"""How long each took, and whether it was cut off then, the shortest first."""

_lasted: Callable[[tuple[int, bool]], int] = itemgetter(0)
_is_censored: Callable[[tuple[int, bool]], bool] = itemgetter(1)


class _Curve(NamedTuple):
    """How much has ended by when."""

    lasted: Sequence[int]
    """What the samples took that were not cut off, the shortest first."""

    left: Sequence[int]
    """What share takes longer than that sample, in parts of ``_ALL``."""

    def when_left(self, share: int) -> int | None:
        """Give the time after which at most *share* is left; ``None`` if that was never seen."""
        index = bisect_left(self.left, -share, key=neg)
        return self.lasted[index] if index < len(self.left) else None

    def median_remaining(self, waited: int) -> float:
        """Give how much longer half of those last that are left after *waited*.

        Endless if that was never seen, because too many were cut off. At most 0 if none is left.
        """
        index = bisect_right(self.lasted, waited)
        half = (self.left[index - 1] if index else _ALL) // 2
        lasted = self.when_left(half)
        return math.inf if lasted is None else lasted - waited


def _curve(samples: _Samples) -> _Curve:
    """Estimate how much has ended by when."""
    longer = len(samples)
    weight = _ALL // longer
    if not any(map(_is_censored, samples)):  # as mostly: then all keep the same weight
        return _Curve(list(map(_lasted, samples)), range(weight * (longer - 1), -1, -weight))
    ended: list[int] = []
    left: list[int] = []
    for lasted, censored in samples:
        longer -= 1
        if not censored:
            ended.append(lasted)
            left.append(weight * longer)
        elif longer:
            weight += weight // longer
    return _Curve(ended, left)


class _Contents(NamedTuple):
    """What first contents take."""

    median: int
    percentile_95: int

    @classmethod
    def of(cls, samples: _Samples) -> _Contents:
        """Sum up samples.

        A share that was never seen to come counts as come with the longest sample: all that is
        known is that it takes longer. When it was a loser that was cut off, later hedges will let
        others run longer, until the share is seen.
        """
        curve, (longest, _) = _curve(samples), samples[-1]
        median, percentile_95 = curve.when_left(_HALF), curve.when_left(_TWENTIETH)
        return cls(
            longest if median is None else median,
            longest if percentile_95 is None else percentile_95,
        )


class _Silences(NamedTuple):
    """What is to be expected of silences, the longer they last.

    Only times after which more is to be expected than after every earlier one.
    """

    waited: list[int]
    remaining: list[float]
    """The median of what remains."""

    @classmethod
    def of(cls, samples: _Samples) -> _Silences:
        """Sum up samples. The median grows at the end of a silence only, else it shrinks."""
        curve, silences = _curve(samples), cls([], [])
        most = bisect_right(curve.lasted, _LONGEST_STALL_AFTER_NS)
        for waited in (LEARNED_NS, *curve.lasted[:most]):
            remaining = curve.median_remaining(waited)
            if not silences.remaining or remaining > silences.remaining[-1]:
                silences.waited.append(waited)
                silences.remaining.append(remaining)
        return silences

    def until_remaining(self, cost: int) -> int:
        """Give after how long so much remains, or more."""
        index = bisect_left(self.remaining, cost)
        return self.waited[index] if index < len(self.waited) else _LONGEST_STALL_AFTER_NS


class _Window(Generic[T]):
    """The samples that count, and what they say."""

    def __init__(self, summarise: Callable[[_Samples], T], *, enough: int) -> None:
        self._summarise = summarise
        self._enough = enough
        self._is_known = False
        self._samples: deque[tuple[int, tuple[int, bool]]] = deque(maxlen=_MOST_SAMPLES)
        """When each came, and the sample, the oldest first."""

        self._changes = 0
        self._summary: T | None = None

    def add(self, lasted: int, now: int, *, censored: bool) -> None:
        """Take a sample."""
        self._samples.append((now, (lasted, censored)))
        self._changes += 1

    def count(self, now: int) -> int:
        """Give how many samples count; the old ones are dropped."""
        while self._samples and now - self._samples[0][0] > _WINDOW_NS:
            self._samples.popleft()
            self._changes += 1
        return len(self._samples)

    def known(self, now: int) -> T | None:
        """Give what the samples say; ``None`` until there are enough."""
        enough = self._enough // 2 if self._is_known else self._enough
        self._is_known = self.count(now) >= enough
        return self.summary() if self._is_known else None

    def summary(self) -> T:
        """Give what the samples say, however few, but there must be one."""
        if self._summary is None or _RENEWAL * self._changes > len(self._samples):
            self._summary = self._summarise(sorted([sample for _, sample in self._samples]))
            self._changes = 0
        return self._summary


class Latency:
    """What is learned of one target."""

    def __init__(self) -> None:
        self._contents = _Window(_Contents.of, enough=_ENOUGH_CONTENTS)
        self._silences = _Window(_Silences.of, enough=_ENOUGH_SILENCES)

    def first_content(self, took_ns: int, now: int, *, censored: bool = False) -> None:
        """Take what an attempt's first content took, from its launch.

        Args:
            took_ns: so long; or, if *censored*, so long it had run without any when it was ended.
            now: the time.
            censored: whether it lost or was given up before it had any. An attempt that its caller
                cancelled is no sample.
        """
        self._contents.add(took_ns, now, censored=censored)

    def silence(self, lasted_ns: int, now: int, *, censored: bool = False) -> None:
        """Take how long an attempt's content had stopped; less than :data:`LEARNED_NS` is ignored.

        Args:
            lasted_ns: until content came again; or, if *censored*, until the attempt was ended.
            now: the time.
            censored: whether the attempt lost or was given up in it.
        """
        if lasted_ns >= LEARNED_NS:
            self._silences.add(lasted_ns, now, censored=censored)

    def after_ns(self, now: int) -> int | None:
        """Give when a first content is late, from 0.5 to 30 s.

        That is when 95 % have come, but no sooner than three times the median. ``None`` until there
        are 60 samples.
        """
        contents = self._contents.known(now)
        if contents is None:
            return None
        late = max(contents.percentile_95, _LATE_MEDIANS * contents.median)
        return min(max(late, _LEAST_AFTER_NS), _MOST_AFTER_NS)

    def median_first_ns(self, now: int) -> int | None:
        """Give what half of the first contents take at most; ``None`` until there are 5 samples."""
        if self._contents.count(now) < _ENOUGH_FOR_A_MEDIAN:
            return None
        return self._contents.summary().median

    def stall_after_ns(self, cost_ns: int, now: int) -> int | None:
        """Give after how long a silence is worth a new start, from 2 to 10 s.

        That is when half of the silences which have lasted so long go on for *cost_ns* or more.
        ``None`` until there are 20 samples.

        Args:
            cost_ns: what the new start would cost: the wait for its first content, and the time to
                generate what would be lost.
            now: the time.
        """
        silences = self._silences.known(now)
        return None if silences is None else silences.until_remaining(cost_ns)
