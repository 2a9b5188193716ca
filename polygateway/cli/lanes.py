"""Lanes: each attempt over time, from the log of the provider that it went to."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from itertools import chain, repeat
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ..stats import AttemptStats
from ..testing import Exchange, ScriptedProvider, Send

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Providers: TypeAlias = Mapping[str, ScriptedProvider]
"""By name, the primary first."""


class Mark(enum.Enum):
    """What a slot of time was like."""

    NOTHING = enum.auto()
    """The attempt had not begun."""

    SILENCE = enum.auto()
    KEEPALIVE = enum.auto()
    """Keep-alives, and no text."""

    TEXT = enum.auto()


@attrs.frozen
class Lane:
    """One attempt. Times are those of trio's clock."""

    target: str
    exchange: Exchange
    attempt: AttemptStats | None
    """What the gateway says of it; ``None`` until the call is over."""

    def marks(self, *, origin: float, now: float, slot_s: float) -> list[Mark]:
        """Draw it slot by slot from *origin* to its end, or to now."""

        def slot(at: float) -> int:
            return int((at - origin) / slot_s)

        started, end = slot(self.exchange.started_at), slot(self._until(now))
        drawn = [Mark.NOTHING] * started + [Mark.SILENCE] * (end - started + 1)
        for at, mark in self._sent():
            if drawn[slot(at)] is not Mark.TEXT:
                drawn[slot(at)] = mark
        if self.exchange.ended_at is None and drawn[-1] is Mark.SILENCE:
            drawn.pop()  # a slot that is not over yet
        return drawn

    @property
    def closed(self) -> bool:
        """Whether the gateway has closed it before its end."""
        return self.exchange.ended == "client closed"

    def silence_s(self, now: float) -> float:
        """Tell for how long no text has come."""
        texts = [at for at, mark in self._sent() if mark is Mark.TEXT]
        return self._until(now) - (texts[-1] if texts else self.exchange.started_at)

    def closing_ms(self, called: float) -> float | None:
        """Tell how long after the decision against it its provider saw the close.

        ``None`` unless it lost, to another one.

        Args:
            called: when the call began.
        """
        if self.attempt is None or self.attempt.outcome != "lost" or self.exchange.ended_at is None:
            return None
        decided = called + (self.attempt.started_ms + self.attempt.total_ms) / 1000
        return (self.exchange.ended_at - decided) * 1000

    def _until(self, now: float) -> float:
        ended = self.exchange.ended_at
        return now if ended is None else ended

    def _sent(self) -> Iterator[tuple[float, Mark]]:
        for at, step in self.exchange.sent:
            if isinstance(step, Send) and step.content:
                yield at, Mark.TEXT
            elif isinstance(step, Send) and step.data.startswith(b":"):
                yield at, Mark.KEEPALIVE


def lanes(providers: Providers, attempts: Sequence[AttemptStats] = ()) -> list[Lane]:
    """Give the lanes of a call, the earliest first.

    Args:
        providers: those that were asked in this call alone.
        attempts: what the gateway says, once the call is over.
    """
    found = [
        Lane(name, exchange, attempt)
        for name, provider in providers.items()
        for exchange, attempt in zip(provider.log, _of(name, attempts), strict=False)
    ]
    return sorted(found, key=lambda lane: lane.exchange.started_at)


def _of(target: str, attempts: Sequence[AttemptStats]) -> Iterator[AttemptStats | None]:
    """Give the attempts at *target*, and then ``None`` without end."""
    return chain((each for each in attempts if each.target == target), repeat(None))
