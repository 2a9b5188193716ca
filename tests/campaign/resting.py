"""A provider that says when it will take us again is left alone until then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from polygateway.core.units import ns
from polygateway.instrument import AttemptEnded, AttemptStarted

from .laws import require
from .verdicts import blames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .playing import Played
    from .sides import Sides

_LONGEST_NS = ns(600)


@attrs.define
class _Rest:
    """Until when a target wants to be left alone."""

    asked: int = 0
    until: int = 0


def check_rests(played: Played, calls: Sequence[Sides]) -> None:
    """Check that no hedge went to a target that rested."""
    rests = {name: _Rest() for name in played.series.by_name()}
    by_call = {sides.ended.call: sides for sides in calls}
    for event in played.notes.events:
        match event:
            case AttemptStarted(kind="hedge"):
                rested = rests[event.target].until <= event.at_ns
                require("no hedge goes to a target that rests", rested, event)
            case AttemptEnded():
                _note(rests, by_call, event)
            case _:
                pass


def _note(rests: Mapping[str, _Rest], by_call: Mapping[int, Sides], event: AttemptEnded) -> None:
    attempt, sides = event.stats, by_call[event.call]
    rest, request = rests[attempt.target], sides.requests.get(attempt.index)
    if attempt.end_kind == "complete" and sides.start_ns(attempt) > rest.asked:
        rest.until = 0
    if attempt.outcome != "failed" or not blames(attempt) or request is None:
        return
    reply = request.reply
    if attempt.status == reply.status != 200 and reply.retry_after is not None:
        wait = min(ns(float(reply.retry_after)), _LONGEST_NS)
        rest.until = max(rest.until, event.at_ns + wait)
        rest.asked = event.at_ns
