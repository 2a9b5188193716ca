"""What must hold, each with its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from .summary import Ratio, compare
from .systems import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .summary import Key, Summary

OURS = ("first-complete", "complete", "continue")
_READ_TIMEOUTS = ("openai", "openai-read", "litellm")
_WATCHDOGS = ("openai-watchdog", "langchain")
_PEERS = (*_READ_TIMEOUTS, *_WATCHDOGS)
_DEFAULTS = ("default-openai", "default-langchain", "default-litellm")


@attrs.frozen
class Rule:
    """What is asked of some of our systems in a scenario, besides that nothing goes wrong.

    Each figure is compared with the best of the peers that were measured.
    """

    scenario: str
    ours: Sequence[str]
    peers: Sequence[str]
    quantiles: Mapping[float, float]
    """How many times a peer's each may be."""

    requests: float | None = None
    """How many times a peer's the additional requests may be; ``None`` for any number."""


# Where a silence ends just after a rival's first words, whoever goes by the first words has given
# up the front by then. So C is asked of the setting that goes by the end.
RULES = (
    Rule("A", OURS, _PEERS, {0.99: 1.05}, requests=1),
    Rule("B", OURS, _READ_TIMEOUTS, {0.99: 0.4}),
    Rule("C", OURS[:1], _WATCHDOGS, {0.95: 0.75, 0.99: 0.8}),
    Rule("D", OURS, _WATCHDOGS, {0.95: 0.75, 0.99: 0.8}, requests=0.8),
    Rule("usual", ("default-complete",), _DEFAULTS, {0.99: 0.3}),
)


@attrs.frozen
class Judged:
    """A figure that must be at most so much."""

    scenario: str
    system: str
    what: str
    value: float
    most: float
    ratio: Ratio | None = None
    """Of quantiles: how sure the value is."""

    @property
    def is_met(self) -> bool:
        """Whether it is."""
        return self.value <= self.most

    def __str__(self) -> str:
        verdict = "met   " if self.is_met else "MISSED"
        sure = "" if self.ratio is None else f" ({self.ratio.least:.2f} to {self.ratio.most:.2f})"
        figure = f"{self.value:.2f}{sure}, at most {self.most:g}"
        return f"{verdict} {self.scenario}: {_title(self.system)}: {self.what}: {figure}"


def judge(found: Mapping[Key, Summary]) -> Sequence[Judged]:
    """Judge what was measured."""
    return [
        judged
        for rule in RULES
        for system in rule.ours
        if (rule.scenario, system) in found
        for judged in _judge(rule, system, found)
    ]


def _judge(rule: Rule, system: str, found: Mapping[Key, Summary]) -> Iterator[Judged]:
    scenario, ours = rule.scenario, found[rule.scenario, system]
    for share, most in rule.quantiles.items():
        best = _best(rule, share, found)
        ratio = compare(ours, found[scenario, best], share)
        what = f"p{share * 100:g}, to that of the {_title(best)}"
        yield Judged(scenario, system, what, ratio.value, most, ratio)
    if rule.requests is not None:
        best = _best(rule, 0.99, found)
        value = round(ours.extra / max(1, found[scenario, best].extra), 2)
        what = f"additional requests, to those of the {_title(best)}"
        yield Judged(scenario, system, what, value, rule.requests)
    lost = sum(ours.errors.values()) + ours.wrong
    yield Judged(scenario, system, "calls without the right answer", lost, 0)


def _best(rule: Rule, share: float, found: Mapping[Key, Summary]) -> str:
    measured = [name for name in rule.peers if (rule.scenario, name) in found]
    return min(measured, key=lambda name: found[rule.scenario, name].quantile(share))


def _title(system: str) -> str:
    return SYSTEMS[system].title.replace("`", "")
