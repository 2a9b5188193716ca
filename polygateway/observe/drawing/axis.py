"""The axis of time that all lanes of a picture share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .words import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MS = 1_000_000
_SECOND = 1000 * _MS
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE

_IN_SECONDS = (1, 2, 5)
_IN_MINUTES = tuple(count * _SECOND for count in (10, 20, 30, 60, 120, 300, 600, 1200, 1800))


@attrs.frozen
class Axis:
    """Puts time on a line."""

    extent_ns: int
    """Time that the line is long; over 0."""

    left: float
    right: float

    def at(self, time_ns: int) -> float:
        """Give the place of a time. What lies beyond an end is put there."""
        inside = min(max(time_ns, 0), self.extent_ns)
        return self.left + inside / self.extent_ns * (self.right - self.left)

    def marks(self, most: int) -> Sequence[tuple[int, str]]:
        """Give at most so many times with their labels, evenly spaced by a round number."""
        step = next(step for step in _steps(self.extent_ns) if self.extent_ns // step < most)
        times = range(0, self.extent_ns + 1, step)
        return [(time, self._label(time)) for time in times]

    def _label(self, time_ns: int) -> str:
        """Write a time in the unit of the whole axis."""
        if not time_ns:
            return "0"
        if self.extent_ns < _SECOND:
            return f"{time_ns / _MS:.6g} ms"
        if self.extent_ns < 2 * _MINUTE:
            return f"{time_ns / _SECOND:.6g} s"
        return clock(time_ns // _SECOND)


def _steps(extent_ns: int) -> Iterator[int]:
    """Give the distances that people count in, from small to large, without end."""
    if extent_ns >= 2 * _MINUTE:
        yield from _IN_MINUTES
    power = _HOUR if extent_ns >= 2 * _MINUTE else 1
    while True:
        yield from (count * power for count in _IN_SECONDS)
        power *= 10
