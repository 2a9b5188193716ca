"""How the last attempts turned out, and whether most of them were bad."""

# Theory of operation
# ===================
#
# Rule 1: one thing is asked of each attempt, for example whether it fails. The verdict is good or
#         bad. Of an attempt that is cancelled nobody will know, so it counts as nothing.
# Rule 2: the last 20 verdicts count, if they are at most five minutes old. A share of the last
#         ones, and not of a stretch of time, finds an outage as soon at ten calls a second as at
#         one in ten seconds.
# Rule 3: most are bad from a bad verdict on by which at least half of the verdicts are bad, and at
#         least half of its peers: itself and the 19 launched before it. A peer that runs is not
#         bad, for it has survived for longer than this one. (What was launched at one instant is
#         taken for one peer, and each of them counts.)
# Rule 4: most are bad no longer as soon as a good verdict, or time, leaves less than half of the
#         verdicts bad, or too few of them.
#
# Why both: verdicts come at different ages. A failure is often known in a tenth of a second, an end
# in a quarter of a minute. When a hundred calls begin at once, the first verdicts are all bad, be
# they ever so few; the peers tell. But a time limit may tell a minute late what a target was like,
# and then the verdicts tell what was seen since.
#
# Times are integer nanoseconds of one monotonic clock.

from __future__ import annotations

from collections import deque

import attrs

from .units import ns

MOST_VERDICTS = 20
"""How many verdicts count, and how many peers an attempt has, itself included."""

WINDOW_NS = ns(300)
"""How old a verdict may be."""


@attrs.define(eq=False)
class _Cohort:
    """The attempts that were launched at one instant: mostly one, in virtual time many."""

    before: tuple[_Cohort, ...]
    """The last ones before it. Given up when none of it runs, or they would all keep each other."""

    running: int = 0
    good: int = 0
    bad: int = 0
    judged: int = 0
    """When the last verdict came."""

    def counts(self, now: int) -> bool:
        return self.running > 0 or now - self.judged <= WINDOW_NS

    def peers_are_bad(self, now: int) -> bool:
        peers = [peer for peer in (*self.before, self) if peer.counts(now)]
        return sum(peer.bad - peer.good - peer.running for peer in peers) >= 0


class Trials:
    """The last attempts at something."""

    def __init__(self, *, least: int) -> None:
        """Begin with none.

        Args:
            least: how many verdicts it takes to say anything.
        """
        self.mostly_bad: bool = False
        """Whether most of them turned out bad."""

        self._least = least
        self._launched: deque[_Cohort] = deque(maxlen=MOST_VERDICTS - 1)
        self._running: dict[int, _Cohort] = {}
        """Those of which any runs, by the time of their launch."""

        self._verdicts: deque[tuple[int, bool]] = deque(maxlen=MOST_VERDICTS)
        """When the last ones came, and what they were."""

    def launched(self, now: int) -> None:
        """Note that an attempt starts."""
        self.mostly_bad = self.mostly_bad and self._are_bad(now)
        if now not in self._running:
            self._running[now] = _Cohort(tuple(self._launched))
            self._launched.append(self._running[now])
        self._running[now].running += 1

    def judge(self, *, good: bool, launched: int, now: int) -> bool:
        """Take the verdict on an attempt.

        Args:
            good: what it is.
            launched: when that attempt started.
            now: the time.

        Returns:
            Whether a verdict on such an attempt was awaited; else it is passed over.
        """
        cohort = self._running.get(launched)
        if cohort is None:
            return False
        cohort.good += good
        cohort.bad += not good
        cohort.judged = now
        cohort.running -= 1
        self._verdicts.append((now, good))
        turned = not good and cohort.peers_are_bad(now)
        self.mostly_bad = (self.mostly_bad or turned) and self._are_bad(now)
        self._give_up(launched, cohort)
        return True

    def forget(self, launched: int) -> None:
        """Note that there will be no verdict on an attempt."""
        cohort = self._running.get(launched)
        if cohort is not None:
            cohort.running -= 1
            self._give_up(launched, cohort)

    def _give_up(self, launched: int, cohort: _Cohort) -> None:
        if not cohort.running:
            del self._running[launched]
            cohort.before = ()

    def _are_bad(self, now: int) -> bool:
        recent = [good for at, good in self._verdicts if now - at <= WINDOW_NS]
        return len(recent) >= self._least and 2 * recent.count(False) >= len(recent)
