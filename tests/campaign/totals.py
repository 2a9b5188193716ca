"""What a gateway says of itself must be the sum of what it said of its calls."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from polygateway.instrument import CallEnded

from .laws import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from polygateway import AttemptStats
    from polygateway.stats import AttemptKind, Outcome

    from .playing import Played


def check_totals(played: Played) -> None:
    """Check the counts of the model and of each target."""
    told = played.notes.events[: played.events_before_stats]
    ended = [event for event in told if isinstance(event, CallEnded)]
    model = played.stats.models["m"]
    attempts = [attempt for event in ended for attempt in event.stats.attempts]
    require("the model's calls are counted", model.calls == len(ended), model.calls, len(ended))
    _compare(model.attempts, attempts)
    refused = Counter[str]()
    for event in ended:
        refused.update(event.stats.hedges_refused)
    found = {why: count for why, count in model.hedges_refused.items() if count}
    require("refusals are counted", found == dict(refused), found, refused)
    for name, target in played.stats.targets.items():
        _compare(target.attempts, [each for each in attempts if each.target == name])


def _compare(
    found: Mapping[AttemptKind, Mapping[Outcome, int]], attempts: Iterable[AttemptStats]
) -> None:
    expected = Counter((attempt.kind, attempt.outcome) for attempt in attempts)
    counted = {
        (kind, outcome): count
        for kind, outcomes in found.items()
        for outcome, count in outcomes.items()
        if count
    }
    require("attempts are counted", counted == expected, counted, expected)
