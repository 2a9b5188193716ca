"""A circuit breaker: whether a target has been so bad lately that it is only probed."""

# Theory of operation
# ===================
#
# Rule 1: when most attempts turn out bad, as trials.py tells it, the breaker opens.
# Rule 2: while it is open it admits one attempt in each interval of ten seconds: the probe, which
#         is a real call. Nothing runs in the background.
# Rule 3: where calls are few, that would be every call. So a call must have passed it by before
#         each probe as well, and after each bad verdict twice as many, up to a number.
# Rule 4: so many good verdicts in a row close it again. One that is not the last of them makes the
#         next probe due at once.
# Rule 5: with each change all attempts so far are forgotten. One that was launched before tells
#         nothing of the time since, whatever becomes of it.
#
#   state    event                              becomes
#   closed   a bad verdict, most are bad        open
#   open     the last good verdict in a row     closed
#
# Times are integer nanoseconds of one monotonic clock.

from __future__ import annotations

import attrs

from .trials import Trials
from .units import ns

PROBE_NS = ns(10)
"""How far apart probes are, and so how soon a target that has recovered is found."""


@attrs.define
class _Probing:
    """Where an open breaker is with its probes."""

    due: int
    """When the next one may start, once enough calls have passed it by."""

    passing: int
    """How many calls must pass it by between two probes."""

    still_passing: int
    """How many of those have not come yet; below 0 if more have come."""

    good_in_a_row: int = 0

    def launched(self, now: int) -> None:
        self.due, self.still_passing = now + PROBE_NS, self.passing

    def was_good(self, now: int) -> None:
        self.good_in_a_row += 1
        self.due, self.still_passing = now, 0

    def was_bad(self, most_passing: int) -> None:
        self.good_in_a_row = 0
        self.passing = min(2 * self.passing, most_passing)


class Breaker:
    """Keeps attempts away from what is known to be bad, and finds out when it is good again."""

    def __init__(self, *, least: int, closes_after: int = 1, most_passing: int = 0) -> None:
        """Begin closed.

        Args:
            least: how many verdicts it takes to open.
            closes_after: how many good ones in a row it takes to close.
            most_passing: how many calls must pass it by between two probes at most.
        """
        self._least = least
        self._closes_after = closes_after
        self._most_passing = most_passing
        self._trials = Trials(least=least)
        self._probing: _Probing | None = None
        """``None`` while it is closed."""

    @property
    def is_open(self) -> bool:
        """Whether only probes are admitted."""
        return self._probing is not None

    def admits(self, now: int) -> bool:
        """Tell whether an attempt may start: always while it is closed, else if a probe is due."""
        probing = self._probing
        return probing is None or (now >= probing.due and probing.still_passing <= 0)

    def called(self) -> None:
        """Note that a call begins."""
        if self._probing is not None:
            self._probing.still_passing -= 1

    def launched(self, now: int) -> None:
        """Note that an attempt starts: while the breaker is open, that is the probe."""
        self._trials.launched(now)
        if self._probing is not None:
            self._probing.launched(now)

    def judge(self, *, good: bool, launched: int, now: int) -> None:
        """Take the verdict on an attempt; one of which nothing is known is passed over.

        Args:
            good: what it is.
            launched: when that attempt started.
            now: the time.
        """
        if not self._trials.judge(good=good, launched=launched, now=now):
            return
        if self._probing is not None:
            self._judge_probe(self._probing, good=good, now=now)
        elif self._trials.mostly_bad:
            passing = min(1, self._most_passing)
            self._change(_Probing(now + PROBE_NS, passing, passing))

    def _judge_probe(self, probing: _Probing, *, good: bool, now: int) -> None:
        if not good:
            probing.was_bad(self._most_passing)
            return
        probing.was_good(now)
        if probing.good_in_a_row == self._closes_after:
            self._change(None)

    def forget(self, launched: int) -> None:
        """Note that there will be no verdict on an attempt."""
        self._trials.forget(launched)

    def _change(self, probing: _Probing | None) -> None:
        self._probing = probing
        self._trials = Trials(least=self._least)
