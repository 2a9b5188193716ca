"""All that a probe found out about one target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ...policies import StreamPolicy, Target
from .effort import Effort, effort
from .load import Load
from .summary import Summary, summarize

if TYPE_CHECKING:
    from ...policies import Config


@attrs.frozen(kw_only=True)
class Result:
    """What a load came to."""

    load: Load
    target: Target
    stream: StreamPolicy
    """What counted as a stall, and when an answer was given up."""

    summary: Summary
    effort: Effort

    @property
    def has_content(self) -> bool:
        """Whether there is anything to be told of."""
        return any(sample.has_content for sample in self.load.samples)

    @property
    def verdict(self) -> str | None:
        """Say in one line why no answer came whole; ``None`` if one did, or nothing has ended."""
        asked = self._fruitless()
        if not asked.failures:
            return None
        first, *others = asked.failures
        times = f" ({first.count} times)" if others else ""
        return (
            f"no whole answer to {_requests(asked.whole.of)}: {first.error}{times}: {first.example}"
            f"{self._called_off(asked)}"
        )

    def _fruitless(self) -> Summary:
        """Give all requests, the warm-up included unless it had better luck; else none."""
        if self.summary.whole.count:
            return summarize([])
        every = summarize([*self.load.warmups, *self.load.samples])
        return self.summary if every.whole.count else every

    def _called_off(self, asked: Summary) -> str:
        if not self.load.hopeless:
            return ""
        rest = self.load.plan.warmup + self.load.plan.requests - asked.whole.of
        return f" ({rest} more called off)"


def _requests(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'}"


def result(load: Load, config: Config) -> Result:
    """Say what *load*, by *config*, has come to up to now."""
    summary = summarize(load.samples)
    return Result(
        load=load,
        target=config.targets[load.target],
        stream=config.stream,
        summary=summary,
        effort=effort(load, summary),
    )
