"""What is measured: which systems in which scenarios, and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from .systems import SYSTEMS


@attrs.frozen(kw_only=True)
class Plan:
    """What is measured."""

    systems: Mapping[str, Sequence[str]]
    """By scenario."""

    seeds: Sequence[int]
    calls: int
    """Of each system in each scenario with each seed."""


# What the goals need, and in a few minutes. What hangs on one call in a hundred among answers that
# are as different as those of `usual` would be luck.
SHORT = Plan(
    systems={
        "A": ("first-complete", "continue", "openai-watchdog", "litellm"),
        "B": ("first-complete", "continue", "openai-read", "litellm"),
        "C": ("first-complete", "openai-watchdog"),
        "D": ("first-complete", "continue", "openai-watchdog"),
    },
    seeds=[1],
    calls=200,
)

_ALIKE = tuple(name for name in SYSTEMS if not name.startswith("default-"))

FULL = Plan(
    systems={
        **dict.fromkeys("ABCD", _ALIKE),
        "usual": tuple(name for name in SYSTEMS if name not in _ALIKE),
    },
    seeds=range(1, 11),
    calls=200,
)
