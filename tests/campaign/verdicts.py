"""What a gateway learns of its targets: only what they did, and never what we did to them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from polygateway.core.health import Health, Rest
from polygateway.core.units import ns

from .laws import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polygateway import AttemptStats, Gateway

    from .series import Policies
    from .sides import Sides

Verdict: TypeAlias = Literal["ended", "failed", "cancelled"]

_NOT_THE_TARGETS = {"busy", "invalid_request", "context_length", "content_filter"}
"""Kinds of errors that speak of the request, or of our own limits."""

_LEAST_AFTER_S, _LEAST_STALL_AFTER_S = 0.5, 2.0
"""Of silences, where what they must last is learned (docs/explanation/learned-thresholds.md)."""


@attrs.frozen
class Told:
    """What a gateway was told of an attempt."""

    target: str
    launched: int
    """When the attempt started, which tells it from others at the same target."""

    what: Verdict | Literal["launched", "fell silent"]


class HeardHealth(Health):
    """The health of a target, which writes down what it is told."""

    def __init__(self, target: str, told: list[Told], rest: Rest) -> None:
        super().__init__(rest)
        self._target = target
        self._told = told

    def launched(self, now: int) -> None:
        self._told.append(Told(self._target, now, "launched"))
        super().launched(now)

    def fell_silent(self, launched: int, now: int) -> None:
        self._told.append(Told(self._target, launched, "fell silent"))
        super().fell_silent(launched, now)

    def ended(self, launched: int, now: int, *, was_silent: bool) -> None:
        self._told.append(Told(self._target, launched, "ended"))
        super().ended(launched, now, was_silent=was_silent)

    def failed(self, launched: int, now: int, *, was_silent: bool) -> None:
        self._told.append(Told(self._target, launched, "failed"))
        super().failed(launched, now, was_silent=was_silent)

    def cancelled(self, launched: int, *, was_silent: bool) -> None:
        self._told.append(Told(self._target, launched, "cancelled"))
        super().cancelled(launched, was_silent=was_silent)


def listen(gw: Gateway) -> list[Told]:
    """Give the list of what *gw*, which has not been used, will be told of its targets."""
    told: list[Told] = []
    for name, known in gw._candidates.items():
        health = HeardHealth(name, told, known.health.rest)
        gw._candidates[name] = attrs.evolve(known, health=health)
    gw._models = {name: gw._model(name) for name in gw._models}
    return told


def check_verdicts(calls: Sequence[Sides], told: Sequence[Told]) -> None:
    """Check that all of every attempt was told, and nothing else."""
    expected = Counter(each for sides in calls for each in _expected(sides))
    found = Counter(each for each in told if each.what != "fell silent")
    for each in expected.keys() | found.keys():
        same = expected[each] == found[each]
        require("what is told of attempts is so", same, each, expected[each], found[each])
    silences = Counter(each for each in told if each.what == "fell silent")
    could = Counter(each for sides in calls for each in _silences(sides))
    for each, count in silences.items():
        require("what is called silent was silent, once", count <= could[each], each)


def _expected(sides: Sides) -> Iterator[Told]:
    for attempt in sides.attempts:
        launched = sides.start_ns(attempt)
        yield Told(attempt.target, launched, "launched")
        yield Told(attempt.target, launched, _verdict(attempt))


def _verdict(attempt: AttemptStats) -> Verdict:
    if attempt.end_kind == "complete":
        return "ended"
    return "failed" if attempt.outcome == "failed" and blames(attempt) else "cancelled"


def blames(attempt: AttemptStats) -> bool:
    """Tell whether what an attempt failed with speaks against its target."""
    unknown = attempt.error_kind == "invalid_request" and attempt.status == 404
    return unknown or attempt.error_kind not in _NOT_THE_TARGETS


def _silences(sides: Sides) -> Iterator[Told]:
    """Give the attempts that were silent for long enough to be called so."""
    for attempt in sides.attempts:
        request = sides.requests.get(attempt.index)
        # What only repeats the answer that it is to go on with is no content to those who wait.
        repeats = request is not None and bool(request.prefix)
        if _was_silent(attempt, sides.policies, repeats=repeats):
            yield Told(attempt.target, sides.start_ns(attempt), "fell silent")


def _was_silent(attempt: AttemptStats, policies: Policies, *, repeats: bool) -> bool:
    hedge = policies.hedge
    after = _LEAST_AFTER_S if hedge.after_s == "auto" else hedge.after_s
    stall = _LEAST_STALL_AFTER_S if hedge.stall_after_s == "auto" else hedge.stall_after_s
    first = attempt.total_ms if attempt.ttft_ms is None or repeats else attempt.ttft_ms
    longest = max(attempt.max_gap_ms or 0, attempt.tail_ms or 0)
    return ns(first / 1000) >= ns(after) or ns(longest / 1000) >= ns(stall)
