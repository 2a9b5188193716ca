"""What providers send whose streams stall, made up. Times are nanoseconds."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from polygateway import FirstContentTimeout, StallTimeout
from polygateway.core.units import ns

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from polygateway import AttemptError, StreamPolicy

Span: TypeAlias = tuple[int, int]
"""Begin and end of a stretch in which content flows."""

# While content flows, a piece comes so often.
_PIECE_NS = ns(0.05)

_TOO_LATE: AttemptError = FirstContentTimeout("no content in time", target="t", attempt=0)
_STALLED: AttemptError = StallTimeout("no more content in time", target="t", attempt=0)


@attrs.frozen(kw_only=True)
class Outage:
    """Times in which most streams of some targets stall."""

    targets: Collection[int]
    every_s: float
    begins_s: float
    lasts_s: float
    stall_share: float = 0.8

    def since_s(self, at_s: float) -> float:
        """Give for how long it has lasted; below 0 or over ``lasts_s`` if there is none."""
        return at_s % self.every_s - self.begins_s


@attrs.frozen(kw_only=True)
class Workload:
    """How calls come and how providers answer. Durations of which a median is given are lognormal.

    The defaults are what polygateway is built for.
    """

    calls_per_s: float = 2.0
    """On average: calls come at random."""

    first_median_s: float = 1.6
    first_sigma: float = 0.6
    generation_s: tuple[float, float] = (3.0, 20.0)
    """How long an answer flows, evenly distributed. It belongs to the call, whoever answers it."""

    pause_share: float = 0.25
    pause_median_s: float = 0.8
    pause_sigma: float = 0.6
    stall_share: float = 0.05
    stall_median_s: float = 55.0
    stall_sigma: float = 0.8
    slowness: Sequence[float] = (1.0, 1.0, 1.0)
    """How often as long as usual each target takes to its first content, and to generate."""

    outage: Outage | None = None

    def stall_share_of(self, target: int, at_s: float) -> float:
        """Give what share of the streams stalls that a target begins at a time."""
        outage = self.outage
        if outage is None or target not in outage.targets:
            return self.stall_share
        return (
            outage.stall_share if 0 <= outage.since_s(at_s) < outage.lasts_s else self.stall_share
        )

    def spans(
        self, target: int, launched: int, length: int, chance: random.Random
    ) -> Sequence[Span]:
        """Draw when the content of an attempt flows.

        Args:
            target: who answers.
            launched: when it is asked.
            length: how long the content flows at usual speed.
            chance: random numbers, always as many, so that another share leaves all else alike.
        """
        slowness = self.slowness[target]
        first = _lognormal(chance, self.first_median_s, self.first_sigma)
        pause = _lognormal(chance, self.pause_median_s, self.pause_sigma)
        stall = _lognormal(chance, self.stall_median_s, self.stall_sigma)
        pause_at, stall_at = chance.random(), chance.random()
        breaks: list[tuple[float, float]] = []
        if chance.random() < self.pause_share:
            breaks.append((pause_at, pause))
        if chance.random() < self.stall_share_of(target, launched / 1e9):
            breaks.append((stall_at, stall))
        return _flowing(launched + ns(slowness * first), round(slowness * length), sorted(breaks))


def _lognormal(chance: random.Random, median_s: float, sigma: float) -> float:
    return median_s * math.exp(sigma * chance.gauss(0, 1))


def _flowing(begin: int, length: int, breaks: Sequence[tuple[float, float]]) -> Sequence[Span]:
    spans: list[Span] = []
    done = 0
    for place, lasts_s in [*breaks, (1.0, 0.0)]:
        reached = round(place * length)
        spans.append((begin, begin + reached - done))
        begin, done = spans[-1][1] + ns(lasts_s), reached
    return spans


class Answer:
    """What an attempt sends if nobody ends it, as far as the watchdogs let it come."""

    def __init__(self, spans: Sequence[Span], launched: int, policy: StreamPolicy) -> None:
        self.failure: AttemptError | None = None
        """What it ends with; ``None``: properly."""

        self.over: int = spans[-1][1]
        """When it ends."""

        self._spans = spans
        patience, failure, waiting_since = policy.ttft_timeout_s, _TOO_LATE, launched
        for index, (begin, end) in enumerate(spans):
            if begin - waiting_since > ns(patience):
                self.failure, self.over = failure, waiting_since + ns(patience)
                self._spans = spans[:index]
                break
            patience, failure, waiting_since = policy.stall_timeout_s, _STALLED, end
        self._begins = [begin for begin, _ in self._spans]

    @property
    def first(self) -> int | None:
        """When its first content comes; ``None``: none does."""
        return self._begins[0] if self._begins else None

    def last(self, at: int) -> int | None:
        """Give when content had come last; ``None``: none had."""
        index = bisect_right(self._begins, at) - 1
        if index < 0:
            return None
        begin, end = self._spans[index]
        return end if at >= end else at - (at - begin) % _PIECE_NS

    def following(self, at: int) -> int | None:
        """Give when content comes next; ``None``: none does."""
        index = bisect_right(self._begins, at)
        if index and at < self._spans[index - 1][1]:
            begin, end = self._spans[index - 1]
            return min(at - (at - begin) % _PIECE_NS + _PIECE_NS, end)
        return self._begins[index] if index < len(self._begins) else None

    def flowed(self, at: int) -> int:
        """Give for how long content had flowed."""
        return sum(min(end, at) - begin for begin, end in self._spans if begin < at)

    def silences(self, at: int) -> Iterator[tuple[int, bool]]:
        """Give the silences after content, and whether they last; but none at a proper end."""
        for (_, end), (begin, _) in zip(self._spans, self._spans[1:], strict=False):
            if end < at:
                yield min(begin, at) - end, begin > at
        if self.failure is not None and self._spans and self._spans[-1][1] < at:
            yield at - self._spans[-1][1], True
