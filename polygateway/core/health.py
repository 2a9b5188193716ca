"""What is held of a target: whether it fails, falls silent, or asked not to be tried."""

# Theory of operation
# ===================
#
# Rule 1: two breakers judge a target, for two things that have little to do with each other. One
#         opens on failures of attempts. The other opens on attempts that fell silent, and needs
#         more of them: then the target is called degraded.
# Rule 2: an attempt is judged good by its proper end. For silences that holds only if it never
#         fell silent; one that did is judged when it does, not when it ends.
# Rule 3: a target that said when it will take us again is left alone until then, and with it every
#         other one that is asked for the same model at the same place with the same key, because
#         that is what providers count by. The longest wait wins.
# Rule 4: whoever sorts targets asks for their standing; whoever would start an attempt, whether it
#         is admitted: a target that is probed is admitted although its standing is bad.
#
# Times are integer nanoseconds of one monotonic clock.

from __future__ import annotations

from typing import TYPE_CHECKING

from .breaker import Breaker
from .units import ns

if TYPE_CHECKING:
    from ..stats import Standing

_LEAST_FAILURES = 5
_LEAST_SILENCES = 10

# With eight stalls in ten streams, one good stream means little; three in a row are one in 125.
_GOOD_STREAMS = 3

# A failure is known soon, and then another target answers. A stall costs its call many seconds and
# a hedge: of the calls that come while a target is degraded, no more than 3 % shall be probes.
_MOST_PASSING = 32

# A provider may ask for any wait, by mistake too. After ten minutes a try costs little.
_LONGEST_REST_NS = ns(600)


class Rest:
    """How long a provider wants to be left alone. Shared by what it counts together."""

    def __init__(self) -> None:
        self.until: int = 0
        """When it will take us again; in the past if it never asked."""

        self._asked = 0

    def ask(self, wait_ns: int, now: int) -> None:
        """Note that it asked for so long a wait."""
        self.until = max(self.until, now + min(wait_ns, _LONGEST_REST_NS))
        self._asked = now

    def disprove(self, launched: int) -> None:
        """Note that an attempt which was launched then was taken."""
        if launched > self._asked:
            self.until = 0


class Health:
    """What is held of one target."""

    def __init__(self, rest: Rest | None = None) -> None:
        """Begin healthy.

        Args:
            rest: that of whatever its provider counts together; ``None`` for one of its own.
        """
        self.rest: Rest = Rest() if rest is None else rest
        self._failures = Breaker(least=_LEAST_FAILURES)
        self._silences = Breaker(
            least=_LEAST_SILENCES, closes_after=_GOOD_STREAMS, most_passing=_MOST_PASSING
        )

    # What is held

    def standing(self, now: int) -> Standing:
        """Give what is held of the target; of several, what weighs most."""
        if self._failures.is_open:
            return "open"
        if now < self.rest.until:
            return "rate_limited"
        return "degraded" if self._silences.is_open else "healthy"

    def admits(self, now: int) -> bool:
        """Tell whether an attempt may start: the target is healthy, or to be probed."""
        return now >= self.rest.until and self._failures.admits(now) and self._silences.admits(now)

    # What happens. Of each attempt that was launched one of the last three is told in the end.

    def called(self) -> None:
        """Note that a call begins that could use the target."""
        self._silences.called()

    def launched(self, now: int) -> None:
        """Note that an attempt starts."""
        self._failures.launched(now)
        self._silences.launched(now)

    def fell_silent(self, launched: int, now: int) -> None:
        """Note that an attempt fell silent for the first time."""
        self._silences.judge(good=False, launched=launched, now=now)

    def ended(self, launched: int, now: int, *, was_silent: bool) -> None:
        """Note that an attempt came to its proper end.

        Args:
            launched: when it started.
            now: the time.
            was_silent: whether it had fallen silent.
        """
        self._failures.judge(good=True, launched=launched, now=now)
        if not was_silent:
            self._silences.judge(good=True, launched=launched, now=now)
        self.rest.disprove(launched)

    def failed(self, launched: int, now: int, *, was_silent: bool) -> None:
        """Note that an attempt failed, and that its target is to blame."""
        self._failures.judge(good=False, launched=launched, now=now)
        self._forget_silences(launched, was_silent=was_silent)

    def cancelled(self, launched: int, *, was_silent: bool) -> None:
        """Note that an attempt is over and says nothing of its target.

        Nobody waited for its end, or it failed by no fault of the target's.
        """
        self._failures.forget(launched)
        self._forget_silences(launched, was_silent=was_silent)

    def _forget_silences(self, launched: int, *, was_silent: bool) -> None:
        if not was_silent:
            self._silences.forget(launched)
