"""Check a series that was played, and count what happened in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.listening import check as check_events

from .bounds import check_bounds
from .counting import counted
from .failing import check_closed, check_failing
from .playing import play
from .purses import check_purse
from .resting import check_rests
from .sides import sides_of
from .totals import check_totals
from .verdicts import check_verdicts
from .voices import check_voices

if TYPE_CHECKING:
    from collections import Counter

    from .series import Series


def run(series: Series, *, real_limit_s: float = 60) -> Counter[str]:
    """Play *series*, check it, and give how often each thing happened.

    Args:
        series: what to play.
        real_limit_s: what it may take on the real clock.

    Raises:
        Broken: something did not hold.
        Exception: whatever else should not have happened.
    """
    played = play(series, real_limit_s=real_limit_s)
    calls = list(sides_of(played))
    for sides in calls:
        check_voices(sides)
        check_bounds(sides)
        check_failing(sides)
    check_closed(played)
    check_events(played.notes)
    check_verdicts(calls, played.told)
    check_purse(played)
    check_rests(played, calls)
    check_totals(played)
    return counted(played, calls)
