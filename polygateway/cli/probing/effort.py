"""How the load generator itself fared: whether what was measured was the measuring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .load import Load
    from .summary import Summary

_BUSY = 0.7
"""Of one core, for trio runs on one. At a server that is busy for so much of the time there are
more than two customers at once (M/M/1: 0.7 / 0.3), so most of them wait.
"""

_LATE_MS = 10.0
"""What a time to first content may be off by."""

_LATE_SHARE = 0.01
"""Of the starts: fewer are too few to move what is told up to the 99th percentile."""

_BACKPRESSURE = 0.05
"""Of the time of generation, and so much an answer that a time to first content would be off."""


@attrs.frozen(kw_only=True)
class Effort:
    """What this process had to do with the figures."""

    requests: int
    elapsed_s: float
    cpu_s: float
    """Processor time used meanwhile."""

    late: int
    """Requests whose turn in our event loop came 10 ms or more after they were due."""

    latest_ms: float
    slots: int
    queued: int
    """Requests that waited 10 ms or more for a slot."""

    longest_queue_ms: float
    backpressure_share: float
    backpressure_ms: float
    """See :class:`Summary`. 0 without any."""

    @property
    def cpu_share(self) -> float | None:
        """Of one core; ``None`` if no time passed."""
        return self.cpu_s / self.elapsed_s if self.elapsed_s else None

    @property
    def delayed(self) -> bool:
        """Whether what counts from the due time is another time than what counts from the call."""
        return bool(self.late or self.queued)

    def findings(self) -> Sequence[str]:
        """Say in what way this process was the bottleneck; nothing if it was not."""
        return list(self._findings())

    def _findings(self) -> Iterator[str]:
        if (self.cpu_share or 0.0) >= _BUSY:
            yield f"the probe used {self.cpu_share:.0%} of a core"
        if self.backpressure_share >= _BACKPRESSURE and self.backpressure_ms >= _LATE_MS:
            yield (
                f"the probe was late to read by {self.backpressure_ms:.0f} ms an answer,"
                f" {self.backpressure_share:.1%} of the time of generation"
            )
        if self.late > _LATE_SHARE * self.requests:
            yield (
                f"{self.late} of {self.requests} requests began {_LATE_MS:g} ms or more after they"
                f" were due, the latest by {self.latest_ms:.0f} ms"
            )
        if self.queued:
            yield (
                f"{self.queued} of {self.requests} requests waited for one of {self.slots} slots,"
                f" the longest for {self.longest_queue_ms / 1000:.2f} s"
            )


def effort(load: Load, summary: Summary) -> Effort:
    """Tell how the generator of *load* fared."""
    late = [sample.late_ms for sample in load.samples]
    queued = [sample.queued_ms for sample in load.samples]
    return Effort(
        requests=len(load.samples),
        elapsed_s=load.elapsed_s,
        cpu_s=load.cpu_s,
        late=sum(1 for ms in late if ms >= _LATE_MS),
        latest_ms=max(late, default=0.0),
        slots=load.plan.slots,
        queued=sum(1 for ms in queued if ms >= _LATE_MS),
        longest_queue_ms=max(queued, default=0.0),
        backpressure_share=summary.backpressure_share or 0.0,
        backpressure_ms=summary.backpressure_ms or 0.0,
    )
