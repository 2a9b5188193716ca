"""The purse: what hedges and retries of one model may cost, so that an outage is not made worse."""

# Theory of operation
# ===================
#
# A token bucket that is filled by calls, not by time: extra requests stay a share of real ones.
#
# Rule 1: each call puts in `ratio` tokens, up to `burst`; the purse is full at the start.
# Rule 2: a hedge or a retry takes one token, and is refused when there is none.
# Rule 3: a hedge for a late first content stops at half: it gains least, and must not use up what
#         the rescue of a stalled stream will need.
# Rule 4: the first failover of a call to an untried target is never refused, for a healthy target
#         stands ready. It is charged all the same, down to -burst.
#
# So hedges and retries beyond those failovers are at most ratio * calls + burst, always.
#
# Rule 5: while most attempts fail, as trials.py tells it, nothing is taken either, whatever the
#         purse holds. (The idea is that of gRPC's retry throttling, proposal A6.)
#
# Tokens are counted in integer millionths: sums of 0.1 are not exact in floats.

from __future__ import annotations

from typing import TYPE_CHECKING

from .trials import Trials

if TYPE_CHECKING:
    from .allowance import Allowance

_TOKEN = 1_000_000

_LEAST_VERDICTS = 10


class Purse:
    """The tokens of one model, shared by all its calls."""

    def __init__(self, *, ratio: float, burst: float, allowance: Allowance | None = None) -> None:
        """Begin with a full purse.

        Args:
            ratio: tokens that each call puts in.
            burst: what it holds at most.
            allowance: what hedges may waste; ``None`` for any amount.
        """
        self.allowance: Allowance | None = allowance
        self._fill = round(ratio * _TOKEN)
        self._burst = round(burst * _TOKEN)
        self._level = self._burst
        self._trials = Trials(least=_LEAST_VERDICTS)

    @property
    def level(self) -> float:
        """Tokens left; below 0 after failovers that could not be refused."""
        return self._level / _TOKEN

    def may_waste(self, now: int) -> bool:
        """Tell whether hedges may waste any more of the provider's tokens."""
        return self.allowance is None or self.allowance.is_left(now)

    def put(self) -> None:
        """Put in what one call brings."""
        self._level = min(self._burst, self._level + self._fill)

    def take(self, *, above_half: bool = False) -> bool:
        """Take a token if there is one; with *above_half*, only while more than half is left."""
        enough = self._level >= _TOKEN and (not above_half or 2 * self._level > self._burst)
        if self.is_throttled or not enough:
            return False
        self._level -= _TOKEN
        return True

    def charge(self) -> None:
        """Take a token in any case, down to ``-burst``."""
        self._level = max(-self._burst, self._level - _TOKEN)

    # Throttling. Of each attempt that was launched one of the last three is told in the end.

    @property
    def is_throttled(self) -> bool:
        """Whether most attempts fail, so that nothing can be taken."""
        return self._trials.mostly_bad

    def launched(self, now: int) -> None:
        """Note that an attempt starts."""
        self._trials.launched(now)

    def succeeded(self, launched: int, now: int) -> None:
        """Note that an attempt came to its proper end."""
        self._trials.judge(good=True, launched=launched, now=now)

    def failed(self, launched: int, now: int) -> None:
        """Note that an attempt failed, and that its target is to blame."""
        self._trials.judge(good=False, launched=launched, now=now)

    def cancelled(self, launched: int) -> None:
        """Note that an attempt is over and says nothing of its target."""
        self._trials.forget(launched)
