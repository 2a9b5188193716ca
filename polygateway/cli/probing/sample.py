"""One request: when it was due, when it began, and what came of it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from ...errors import (
    ConnectFailed,
    DeadlineExceeded,
    GatewayError,
    ProtocolViolation,
    RateLimited,
    StreamBroken,
)
from ...stats import StreamFigures
from .estimate import Observed

if TYPE_CHECKING:
    from collections.abc import Iterable

Outcome: TypeAlias = Literal["whole", "truncated", "failed", "unfinished"]
"""``whole``: the answer came to its proper end. ``truncated``: content came, that end did not.
``failed``: no content came. ``unfinished``: the probe was stopped while it ran.
"""

HOPELESS = 3
"""So many requests that fail alike, before any other end, say what all others would."""


@attrs.frozen(kw_only=True)
class Sample:
    """One request, seen by the one who made it. ``_s`` counts from the begin of the measurement."""

    index: int
    """Position in order of launch, from 0."""

    due_s: float
    """When it should have begun; without a rate, when it did."""

    late_ms: float
    """From then until it was this request's turn in our event loop."""

    queued_ms: float
    """From then until it had a slot."""

    elapsed_ms: float
    """From then to its end."""

    figures: StreamFigures | None
    """The time of its answer, from its call on. ``None`` if nothing is known."""

    finish_reason: str | None = None
    error: GatewayError | None = None
    """What it ended with; ``None`` unless it was truncated or failed."""

    finished: bool = True
    """Whether it came to an end by itself."""

    @property
    def outcome(self) -> Outcome:
        """What became of it."""
        if not self.finished:
            return "unfinished"
        if self.error is None:
            return "whole"
        return "truncated" if self.has_content else "failed"

    @property
    def has_content(self) -> bool:
        """Whether any content came."""
        return self.figures is not None and self.figures.chunk_count > 0

    @property
    def delay_ms(self) -> float:
        """From when it should have begun to its call."""
        return self.late_ms + self.queued_ms

    @property
    def cause(self) -> BaseException | None:
        """What went wrong, without the shell that says that the answer had begun."""
        return self.error.__cause__ if isinstance(self.error, StreamBroken) else self.error

    @property
    def says(self) -> str:
        """What the cause says; not that nothing was tried after it, for that was so ordered."""
        return " ".join(map(str, self.cause.args)) if self.cause is not None else ""

    @property
    def gave_up(self) -> bool:
        """Whether we stopped waiting: the error tree makes all time limits a TimeoutError."""
        return isinstance(self.cause, TimeoutError)

    # What it observed; ``None`` where it observed nothing of the kind

    def ttft_ms(self) -> Observed | None:
        """Give the time to first content. A refusal is none, however quick."""
        if self.figures is None:
            return None
        if self.figures.ttft_ms is not None:
            return Observed(self.figures.ttft_ms)
        return self._until_given_up()

    def total_ms(self) -> Observed | None:
        """Give the time to the whole answer."""
        if self.figures is not None and self.outcome == "whole":
            return Observed(self.figures.total_ms)
        return self._until_given_up()

    def silence_ms(self) -> Observed | None:
        """Give the longest silence after first content, the one in which it ended included."""
        if self.figures is None:
            return None
        closed, still_open = self.figures.max_gap_ms, self.figures.open_gap_ms
        if still_open is not None and still_open >= (closed or 0.0):
            return Observed(still_open, self.gave_up)
        return None if closed is None else Observed(closed)

    def from_due(self, observed: Observed | None) -> Observed | None:
        """Give a time that counts from the call as one that counts from the intended start."""
        if observed is None:
            return None
        return Observed(observed.value + self.delay_ms, observed.at_least)

    def _until_given_up(self) -> Observed | None:
        return Observed(self.elapsed_ms, at_least=True) if self.gave_up else None


def is_hopeless(samples: Iterable[Sample]) -> bool:
    """Tell whether a target need not be asked any more.

    Args:
        samples: all that have come to an end, the earliest end first.
    """
    first = list(islice(samples, HOPELESS))
    return (
        len(first) == HOPELESS
        and all(_will_not_pass(sample.error) for sample in first)
        and len({type(sample.error) for sample in first}) == 1
    )


def _will_not_pass(error: GatewayError | None) -> bool:
    """Tell whether the next request is likely to fail in the same way, or not to be welcome."""
    if error is None or isinstance(error, DeadlineExceeded):
        return False
    return not error.retryable or isinstance(error, ConnectFailed | ProtocolViolation | RateLimited)
