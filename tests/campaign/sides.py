"""One call of a series, seen from all sides: the application, the record, and the providers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from polygateway.core.units import ns
from polygateway.instrument import CallEnded, CallStarted, Event

from .laws import require
from .providing import Asked
from .series import Policies
from .using import Seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polygateway import AttemptStats

    from .playing import Played


@attrs.frozen(eq=False)
class Sides:
    """All that is known of one call that began."""

    number: int
    seen: Seen
    policies: Policies
    events: Sequence[Event]
    """What an instrument was told of it, in order."""

    ended: CallEnded
    requests: Mapping[int, Asked]
    """What each attempt asked for at the other end, by its index; without those that did not come
    so far.
    """

    @property
    def began_ns(self) -> int:
        """When the application called."""
        return self.events[0].at_ns

    @property
    def attempts(self) -> Sequence[AttemptStats]:
        """The record of its attempts."""
        return self.ended.stats.attempts

    def start_ns(self, attempt: AttemptStats) -> int:
        """Give when an attempt started."""
        return self.began_ns + round(attempt.started_ms * 1e6)

    def end_ns(self, attempt: AttemptStats) -> int:
        """Give when an attempt ended."""
        return self.start_ns(attempt) + round(attempt.total_ms * 1e6)


def sides_of(played: Played) -> Iterator[Sides]:
    """Give every call of a series that began, in the order of the series."""
    events: defaultdict[int, list[Event]] = defaultdict(list)
    for event in played.notes.events:
        events[event.call].append(event)
    asked: defaultdict[int, list[Asked]] = defaultdict(list)
    for each in played.cast.asked:
        asked[each.call].append(each)
    for number, seen in enumerate(played.seen):
        call = played.notes.call_of.get(number)
        if call is not None:
            yield _sides(played, number, seen, events[call], asked[number])


def _sides(
    played: Played, number: int, seen: Seen, events: Sequence[Event], asked: Sequence[Asked]
) -> Sides:
    first, last = events[0], events[-1]
    require("a call that began also ends", isinstance(last, CallEnded), last)
    assert isinstance(first, CallStarted)
    assert isinstance(last, CallEnded)
    requests = _matched(first.at_ns, last.stats.attempts, asked)
    policies = played.series.policies_of(seen.call)
    return Sides(number, seen, policies, events, last, requests)


def _matched(
    began_ns: int, attempts: Sequence[AttemptStats], asked: Sequence[Asked]
) -> Mapping[int, Asked]:
    """Find out which attempt made which request: the clock is virtual, so the times are equal."""
    requests: dict[int, Asked] = {}
    for each in sorted(asked, key=lambda each: each.was_lost):
        came = ns(each.exchange.started_at)
        made = (
            attempt.index
            for attempt in attempts
            if attempt.index not in requests
            and attempt.target == each.target
            and attempt.sent_ms is not None
            and began_ns + round((attempt.started_ms + attempt.sent_ms) * 1e6) == came
        )
        index = next(made, None)
        require("every request is an attempt's", index is not None or each.was_lost, came)
        if index is not None:
            requests[index] = each
    return requests
