"""Simulated targets, and what is learned of them.

``python -m tests.core.learning`` prints the tables of docs/explanation/learned-thresholds.md.
"""

from __future__ import annotations

import sys
from collections import deque
from heapq import heappop, heappush
from math import exp, inf, log
from random import Random
from statistics import NormalDist, mean, median
from typing import Literal, NamedTuple, Protocol, TypeAlias

from polygateway.core.latency import Latency
from polygateway.core.units import ns

SEEDS = (1, 2, 3)
CALLS = 20_000
ANSWERS = 6_000
LEARNING = 1000
"""The first calls, of which nothing is measured."""

BETWEEN_NS = ns(1)
"""From one call to the next."""

UNTIL_LEARNED_NS = ns(5)
WATCHDOG_NS = ns(60)
FIRST_S = 1.6
"""Median of the first content, in seconds."""


class LogNormal(NamedTuple):
    """How a duration varies, in seconds."""

    median: float
    sigma: float

    def draw(self, random: Random) -> float:
        return random.lognormvariate(log(self.median), self.sigma)

    def beyond(self, seconds: float) -> float:
        """Give what share lasts longer."""
        return NormalDist(log(self.median), self.sigma).cdf(2 * log(self.median) - log(seconds))


class Pareto(NamedTuple):
    """The same, with a heavier tail."""

    least: float
    alpha: float

    def draw(self, random: Random) -> float:
        return self.least * random.paretovariate(self.alpha)

    def beyond(self, seconds: float) -> float:
        return exp(-self.alpha * max(0.0, log(seconds / self.least)))


FIRST = LogNormal(FIRST_S, 0.6)

# ---------------------------------------------------------------- first contents

Fed: TypeAlias = Literal["censored", "survivors", "whole"]
"""What is learned of losers: that they took longer, nothing, or what they had taken as if whole."""


class Target(NamedTuple):
    """A target whose first content usually takes what FIRST says, and longer in a part of calls."""

    tail: LogNormal | Pareto
    tail_share: float = 0.15

    def draw(self, random: Random) -> int:
        return ns((self.tail if random.random() < self.tail_share else FIRST).draw(random))

    def beyond(self, seconds: float) -> float:
        slow = self.tail_share * self.tail.beyond(seconds)
        return slow + (1 - self.tail_share) * FIRST.beyond(seconds)

    def percentile_95(self) -> float:
        """Give the true one, in seconds, to a millisecond."""
        low, high = 0.001, 1000.0
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (middle, high) if self.beyond(middle) > 0.05 else (low, middle)
        return low


TAILS = {
    "none": Target(FIRST),
    "lognormal, median 8 s, sigma 1": Target(LogNormal(8, 1)),
    "lognormal, median 12 s, sigma 0.5": Target(LogNormal(12, 0.5)),
    "Pareto from 4 s, exponent 1.5": Target(Pareto(4, 1.5)),
}


class Hedged(NamedTuple):
    """What came of hedging at the learned threshold."""

    share: float
    """Of the calls."""

    after_s: float
    """Median of the threshold."""


def hedged(target: Target, seed: int, fed: Fed = "censored", *, calls: int = CALLS) -> Hedged:
    """Call a target again and again, each late call hedged at another target like it."""
    random, latency = Random(seed), Latency()
    running = list[tuple[int, int, bool]]()
    thresholds, hedges = list[int](), 0
    for call in range(calls):
        now = call * BETWEEN_NS
        while running and running[0][0] <= now:
            ended, took, lost = heappop(running)
            if not (lost and fed == "survivors"):
                latency.first_content(took, ended, censored=lost and fed == "censored")
        after = latency.after_ns(now) or UNTIL_LEARNED_NS
        takes, rival = target.draw(random), target.draw(random)
        took = min(takes, after + rival, WATCHDOG_NS)
        heappush(running, (now + took, took, took < takes))
        if call >= LEARNING:
            hedges += takes > after
            thresholds.append(after)
    return Hedged(hedges / (calls - LEARNING), median(thresholds) / 1e9)


# ---------------------------------------------------------------- silences


class Habit(NamedTuple):
    """What stops the content of an answer."""

    share: float
    """Of the answers in which it does."""

    lasts: LogNormal


STALL = LogNormal(55, 0.8)
PAUSE = LogNormal(0.8, 0.6)

REGIMES = {
    "the usual": (Habit(0.05, STALL), Habit(0.25, PAUSE)),
    "an outage": (Habit(0.5, STALL), Habit(0.25, PAUSE)),
    "few stalls, uneven pauses": (Habit(0.005, STALL), Habit(0.25, LogNormal(0.8, 1.0))),
    "pauses to think": (Habit(0.01, STALL), Habit(1.0, LogNormal(3, 0.5))),
    "a batch each 2.4 s": (Habit(0.05, STALL), Habit(1.0, LogNormal(2.4, 0.15))),
}


class Silence(NamedTuple):
    """One silence. In seconds."""

    lasts: float
    cost: float
    """What a new start costs: the usual first content, and the time to generate what is lost."""

    rival: float
    """What the other target's first content takes this time."""

    def lost(self, wait: float) -> float:
        """Give the time lost: the silence itself, or the wait and the new start."""
        return self.lasts if self.lasts < wait else wait + self.cost


def answer(habits: tuple[Habit, ...], random: Random) -> list[Silence]:
    """Give the silences of an answer, which is generated in 3 to 20 s."""
    found = list[Silence]()
    for habit in habits:
        if random.random() < habit.share:
            progress = random.random() * random.uniform(3, 20)
            found.append(Silence(habit.lasts.draw(random), FIRST_S + progress, FIRST.draw(random)))
    return found


class Rule(Protocol):
    """How long silences are waited for."""

    def waits(self, found: list[Silence], now: int) -> list[float]:
        """Give how long each silence of the next answer is waited for, in seconds."""
        ...


class Fixed:
    """Waits for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def waits(self, found: list[Silence], now: int) -> list[float]:
        return [self._seconds for _ in found]


class LongestGaps:
    """Waits for the 95th percentile of the longest silences of the last 300 answers."""

    def __init__(self) -> None:
        self._longest = deque[float](maxlen=300)
        self._percentile = UNTIL_LEARNED_NS / 1e9

    def waits(self, found: list[Silence], now: int) -> list[float]:
        waits = [self._percentile for _ in found]
        self._longest.append(max((silence.lasts for silence in found), default=0.0))
        if now % (20 * BETWEEN_NS) == 0:  # each time would be slow
            self._percentile = sorted(self._longest)[len(self._longest) * 19 // 20]
        return waits


class Hindsight:
    """Knows how long each silence will last, and loses the least that can be lost."""

    def waits(self, found: list[Silence], now: int) -> list[float]:
        return [0.0 if silence.lasts > silence.cost else inf for silence in found]


class Learned:
    """Waits for as long as is learned, and learns what the hedges leave of the silences."""

    def __init__(self) -> None:
        self._latency = Latency()
        self._running = list[tuple[int, int, bool]]()

    def waits(self, found: list[Silence], now: int) -> list[float]:
        while self._running and self._running[0][0] <= now:
            ended, lasted, lost = heappop(self._running)
            self._latency.silence(lasted, ended, censored=lost)
        return [self._wait(silence, now) for silence in found]

    def _wait(self, silence: Silence, now: int) -> float:
        wait = (self._latency.stall_after_ns(ns(silence.cost), now) or UNTIL_LEARNED_NS) / 1e9
        lost = silence.lasts > wait + silence.rival
        lasted = ns(wait + silence.rival if lost else silence.lasts)
        heappush(self._running, (now + lasted, lasted, lost))
        return wait


RULES = ("learned", "2 s", "5 s", "10 s", "longest gap", "hindsight")


class Came(NamedTuple):
    """What comes of a rule."""

    lost_s: float
    """Time lost to silences, an answer."""

    wait_s: float
    """Median of what was waited for at most."""


def compared(seed: int, *regimes: tuple[Habit, ...]) -> dict[str, Came]:
    """Give what comes of each rule in the last of the regimes, which follow on one another."""
    random, now = Random(seed), 0
    made: tuple[Rule, ...] = (
        *(Learned(), Fixed(2), Fixed(5), Fixed(10)),
        *(LongestGaps(), Hindsight()),
    )
    rules = dict(zip(RULES, made, strict=True))
    lost, waits = dict[str, float](), dict[str, list[float]]()
    for regime in regimes:
        lost, waits = dict.fromkeys(rules, 0.0), {name: list[float]() for name in rules}
        for call in range(ANSWERS):
            now += BETWEEN_NS
            found = answer(regime, random)
            for name, rule in rules.items():
                waited = rule.waits(found, now)
                if call >= LEARNING:
                    waits[name] += waited
                    lost[name] += sum(map(Silence.lost, found, waited))
    answers = ANSWERS - LEARNING
    return {name: Came(lost[name] / answers, median(waits[name])) for name in rules}


# What a stream looks like between its silences: a piece each 40 ms or so.
PIECES = 230
ORDINARY = LogNormal(0.04, 0.8)


def all_gaps(habits: tuple[Habit, ...], seed: int, answers: int = 500) -> tuple[float, float]:
    """Give the 99th percentile of all gaps, in seconds, and how many of an answer exceed it."""
    random, gaps = Random(seed), list[float]()
    for _ in range(answers):
        gaps += [ORDINARY.draw(random) for _ in range(PIECES)]
        gaps += [silence.lasts for silence in answer(habits, random)]
    percentile = sorted(gaps)[len(gaps) * 99 // 100]
    return percentile, sum(gap > percentile for gap in gaps) / answers


# ---------------------------------------------------------------- the tables of the page


class Contents(NamedTuple):
    """What comes of hedging late first contents of a target."""

    percentile_95: float
    """The true one, in seconds."""

    censored: tuple[Hedged, ...]
    """For each seed."""

    survivors: Hedged
    whole: Hedged

    def row(self) -> list[str]:
        return [
            f"{self.percentile_95:.1f} s",
            f"{mean(each.after_s for each in self.censored):.1f} s",
            f"{mean(each.share for each in self.censored):.1%}",
            f"{self.survivors.share:.1%}",
            f"{self.whole.share:.1%}",
        ]


def contents(target: Target) -> Contents:
    """Hedge late first contents of a target in all the ways."""
    seed = SEEDS[0]
    return Contents(
        target.percentile_95(),
        tuple(hedged(target, seed) for seed in SEEDS),
        hedged(target, seed, "survivors"),
        hedged(target, seed, "whole"),
    )


def all_compared(*regimes: tuple[Habit, ...]) -> dict[str, Came]:
    """Give what comes of each rule in the last of the regimes, on average over the seeds."""
    came = [compared(seed, *regimes) for seed in SEEDS]
    return {
        rule: Came(
            mean(each[rule].lost_s for each in came), mean(each[rule].wait_s for each in came)
        )
        for rule in RULES
    }


def regime_row(came: dict[str, Came]) -> list[str]:
    return [f"{came['learned'].wait_s:.1f} s", *(f"{came[rule].lost_s:.2f}" for rule in RULES)]


STALLING = (0.01, 0.05, 0.1, 0.5)


def statistics_row(share: float) -> list[str]:
    """Give what the statistics say when so many answers stall."""
    habits = (Habit(share, STALL), Habit(0.25, PAUSE))
    percentile, exceed = all_gaps(habits, SEEDS[0])
    came = compared(SEEDS[0], habits)
    return [
        f"{percentile:.2f} s",
        f"{exceed:.1f}",
        f"{came['longest gap'].wait_s:.1f} s",
        f"{came['learned'].wait_s:.1f} s",
    ]


def main() -> None:
    """Print the tables."""
    tables = (
        {name: contents(target).row() for name, target in TAILS.items()},
        {f"{share:.0%}": statistics_row(share) for share in STALLING},
        {name: regime_row(all_compared(regime)) for name, regime in REGIMES.items()},
    )
    for table in tables:
        for name, row in table.items():
            sys.stdout.write(f"| {' | '.join([name, *row])} |\n")
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
