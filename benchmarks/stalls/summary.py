"""What many calls come to, and how two systems compare."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ..speed.statistics import quantile
from .fates import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .measuring import Batch

Key: TypeAlias = tuple[str, str]
"""A scenario, and a system."""

_RESAMPLES = 400


@attrs.frozen(kw_only=True, slots=False)
class Summary:
    """What the calls of one system in one scenario came to."""

    times: Sequence[float]
    """How long each took, in the seconds of its scenario and in the same order for all systems. One
    that ended with an error took for ever.
    """

    errors: Mapping[str, int]
    """How many calls ended with which error."""

    wrong: int
    """How many gave something else than the right answer."""

    extra: int
    """Requests beyond one a call."""

    core: float
    """Share of a processor core that the system took."""

    @cached_property
    def _ordered(self) -> Sequence[float]:
        return sorted(self.times)

    def quantile(self, share: float) -> float:
        """Give what that share of the calls takes at most."""
        return quantile(self._ordered, share)

    def part(self, count: int) -> float:
        """Give a number of calls or requests as a share of the calls."""
        return count / len(self.times)


def summarise(batches: Iterable[Batch]) -> Mapping[Key, Summary]:
    """Sum up the batches of each system in each scenario."""
    groups: dict[Key, list[Batch]] = defaultdict(list)
    for batch in batches:
        groups[batch.scenario, batch.system].append(batch)
    return {key: _summary(group) for key, group in groups.items()}


def _summary(batches: Sequence[Batch]) -> Summary:
    outcomes = [batch.outcome for batch in batches]
    times = [time for batch in batches for time in _times(batch)]
    return Summary(
        times=times,
        errors=Counter(name for outcome in outcomes for name in outcome.errors.values()),
        wrong=sum(len(outcome.wrong) for outcome in outcomes),
        extra=sum(batch.requests for batch in batches) - len(times),
        core=sum(outcome.cpu_s for outcome in outcomes) / sum(each.wall_s for each in outcomes),
    )


def _times(batch: Batch) -> Iterable[float]:
    faster = SCENARIOS[batch.scenario].faster
    for number, took_s in enumerate(batch.outcome.took_s):
        yield math.inf if number in batch.outcome.errors else took_s * faster


@attrs.frozen
class Ratio:
    """How a quantile compares with another system's."""

    value: float
    least: float
    most: float
    """Nineteen in twenty resamples of the calls are between the two."""


def compare(ours: Summary, other: Summary, share: float) -> Ratio:
    """Compare a quantile. The calls of both are resampled together, for they met the same fates."""
    pairs, chance = list(zip(ours.times, other.times, strict=True)), random.Random(1)
    ratios = sorted(_ratio(chance.choices(pairs, k=len(pairs)), share) for _ in range(_RESAMPLES))
    return Ratio(_ratio(pairs, share), quantile(ratios, 0.025), quantile(ratios, 0.975))


def _ratio(pairs: Sequence[tuple[float, float]], share: float) -> float:
    ours, other = (quantile(sorted(times), share) for times in zip(*pairs, strict=True))
    return ours if math.isinf(ours) else ours / other
