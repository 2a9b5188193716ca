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
# Tokens are counted in integer millionths: sums of 0.1 are not exact in floats.

from __future__ import annotations

_TOKEN = 1_000_000


class Purse:
    """The tokens of one model, shared by all its calls."""

    def __init__(self, *, ratio: float, burst: float) -> None:
        self._fill = round(ratio * _TOKEN)
        self._burst = round(burst * _TOKEN)
        self._level = self._burst

    @property
    def level(self) -> float:
        """Tokens left; below 0 after failovers that could not be refused."""
        return self._level / _TOKEN

    def put(self) -> None:
        """Put in what one call brings."""
        self._level = min(self._burst, self._level + self._fill)

    def take(self, *, above_half: bool = False) -> bool:
        """Take a token if there is one; with *above_half*, only while more than half is left."""
        if self._level < _TOKEN or (above_half and 2 * self._level <= self._burst):
            return False
        self._level -= _TOKEN
        return True

    def charge(self) -> None:
        """Take a token in any case, down to ``-burst``."""
        self._level = max(-self._burst, self._level - _TOKEN)
