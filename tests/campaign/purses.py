"""What hedges and retries may cost: the purse and the hourly allowance, by our own arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from polygateway.instrument import AttemptEnded, AttemptStarted, CallEnded, CallStarted

from .laws import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway import AttemptStats
    from polygateway.instrument import Event

    from .playing import Played

_HOUR_NS = 3_600_000_000_000
_MINUTE_NS = 60_000_000_000
_ENDS = (CallStarted, CallEnded)


class _Level:
    """What a purse holds."""

    def __init__(self, ratio: float, burst: float) -> None:
        self._ratio, self._burst = Fraction(ratio), Fraction(burst)
        self.tokens = self._burst

    def put(self) -> None:
        self.tokens = min(self._burst, self.tokens + self._ratio)

    def take(self) -> None:
        self.tokens = max(-self._burst, self.tokens - 1)


class _Account:
    """The purse of a model as its calls are told of, one after the other.

    A retry is paid for when it is decided: somewhere between the end before it and its start.
    A purse that pays early holds as much as one that pays late, or more: of what calls put in less
    is lost at the brim. So the true level lies between the two.
    """

    def __init__(self, ratio: float, burst: float) -> None:
        self._burst = burst
        self._early, self._late = _Level(ratio, burst), _Level(ratio, burst)
        self._used: dict[int, set[str]] = {}
        """Targets that each call has used."""

        self._failed_over: set[int] = set()
        self._best: dict[int, Fraction] = {}
        """The most that there can have been since each call could pay for its next retry."""

    @property
    def most(self) -> Fraction:
        """What there can be: those that will retry may not have paid yet."""
        return self._early.tokens + len(self._best)

    def called(self) -> None:
        """Take note of a call."""
        self._early.put()
        self._late.put()
        self._best = {call: max(best, self.most) for call, best in self._best.items()}

    def will_retry(self, call: int) -> None:
        """Take note of the end of an attempt after which *call* tries again."""
        self._best[call] = self.most
        self._early.take()

    def started(self, event: AttemptStarted) -> None:
        """Check that an attempt was paid for."""
        used = self._used.setdefault(event.call, set())
        if event.kind == "hedge":
            above = event.reason == "stall" or 2 * self.most > self._burst
            require("a hedge is paid for", self.most >= 1 and above, event)
            self._early.take()
        elif event.kind == "retry" and self._best.pop(event.call) < 1:
            # Only the first failover to a target that stands ready is never refused.
            is_first = event.target not in used and event.call not in self._failed_over
            require("a retry is paid for", is_first, event)
            self._failed_over.add(event.call)
        if event.kind != "primary":
            self._late.take()
        used.add(event.target)

    def forgo(self, tokens: int) -> None:
        """Take note that so many may have been paid for nothing."""
        for _ in range(tokens):
            self._late.take()

    def check(self, level: float) -> None:
        """Check what the purse says of itself."""
        least, most = float(self._late.tokens), float(self._early.tokens)
        require("the purse is right", least - 1e-3 <= level <= most + 1e-3, level, least, most)


def check_purse(played: Played) -> None:
    """Check every hedge and retry of a series, and what the purse holds at last."""
    hedge = played.series.policies.hedge
    account = _Account(hedge.budget_ratio, hedge.budget_burst)
    wasted = _Wasted(hedge.budget_tokens_per_hour)
    events = played.notes.events[: played.events_before_stats]
    before_retries = _before_retries(events)
    for place, event in enumerate(events):
        match event:
            case CallStarted():
                account.called()
            case AttemptStarted():
                account.started(event)
                if event.kind == "hedge":
                    wasted.check(event.at_ns)
            case AttemptEnded() if place in before_retries:
                account.will_retry(event.call)
            case CallEnded():
                wasted.add(event)
                account.forgo(_undecided(event))
            case _:
                pass
    # Those that have not ended may have paid for what they have not started yet.
    started, ended = (sum(isinstance(each, kind) for each in events) for kind in _ENDS)
    account.forgo(started - ended)
    account.check(played.stats.models["m"].budget_level)


def _before_retries(events: Sequence[Event]) -> set[int]:
    """Give the places of the ends of attempts after each of which the same call tried again."""
    last: dict[int, int] = {}
    places: set[int] = set()
    for place, event in enumerate(events):
        if isinstance(event, AttemptEnded):
            last[event.call] = place
        elif isinstance(event, AttemptStarted) and event.kind == "retry":
            places.add(last[event.call])
    return places


def _undecided(event: CallEnded) -> int:
    """Give how many retries may have been paid for and never started, because the call ended."""
    failed = any(attempt.outcome == "failed" for attempt in event.stats.attempts)
    interrupted = event.outcome == "cancelled" or (
        event.error is not None and event.error.kind in {"deadline", "closed"}
    )
    return int(failed and interrupted)


class _Wasted:
    """What hedges have wasted, as far as it is certain."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._wasted: list[tuple[int, int]] = []

    def add(self, event: CallEnded) -> None:
        """Take note of a call that has ended."""
        for attempt in event.stats.attempts:
            self._wasted.append((event.at_ns, _certain(attempt)))

    def check(self, now: int) -> None:
        """Check that a hedge may start."""
        if self._most is None:
            return
        # Minutes are counted whole, so the oldest one may be forgotten already.
        recent = sum(tokens for at, tokens in self._wasted if now - at <= _HOUR_NS - _MINUTE_NS)
        require("hedges keep to their allowance", recent < self._most, recent, self._most)


def _certain(attempt: AttemptStats) -> int:
    waste = attempt.wasted
    if waste is None or (attempt.outcome != "lost" and attempt.kind != "hedge"):
        return 0
    if waste.confidence == "unknown":
        return waste.characters // 4
    return (waste.input_tokens or 0) + (waste.output_tokens or 0)
