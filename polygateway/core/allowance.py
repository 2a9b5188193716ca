"""How many of a provider's tokens hedges may waste in an hour."""

from __future__ import annotations

from collections import deque

from .units import ns

_MINUTE_NS = ns(60)
_MINUTES = 60


class Allowance:
    """Adds up what was wasted in the last hour, by whole minutes: those of which any part counts.

    What is wasted is known only when an attempt has ended. So the limit is passed by what those
    cost that run when it is reached, and by no more.
    """

    def __init__(self, most: int) -> None:
        """Begin with nothing wasted.

        Args:
            most: tokens that may be wasted within an hour.
        """
        self._most = most
        self._minutes: deque[tuple[int, int]] = deque(maxlen=_MINUTES + 1)
        """Number of each minute in which any were wasted, and how many, the oldest first."""

    def waste(self, tokens: int, now: int) -> None:
        """Note that so many tokens were wasted."""
        minute, before = now // _MINUTE_NS, 0
        if self._minutes and self._minutes[-1][0] >= minute:
            minute, before = self._minutes.pop()
        self._minutes.append((minute, before + tokens))

    def is_left(self, now: int) -> bool:
        """Tell whether more may be wasted."""
        oldest = now // _MINUTE_NS - _MINUTES
        wasted = sum(tokens for minute, tokens in self._minutes if minute >= oldest)
        return wasted < self._most
