"""Which target comes next, by what this call has seen of each."""

# Theory of operation
# ===================
#
# Rule 1: a target that the call has not used comes before every other one, in the model's order.
# Rule 2: with none left, one that did not fail: without a live attempt first, then the one used
#         longest ago. A stall belongs to a request more often than to its target, and a new request
#         lands elsewhere in a provider's fleet.
# Rule 3: the target that just failed is worth waiting for before anything else is tried, if it
#         failed for the first time, and said that it will take us again soon or looks like a fluke.
# Rule 4: with nothing fresh left, a target that failed but answered is tried again after its wait,
#         the latest first; one that was silent comes last.
# Rule 5: of a target's backoff and of what it asked for, the longer wait wins.

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .backoff import backoff_ns
from .failures import Verdict
from .units import ns

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..policies import RetryPolicy


@attrs.frozen
class Option:
    """A target, and the time from which it may be tried."""

    target: int
    due: int


@attrs.define
class _History:
    """What this call has seen of one target."""

    used: int | None = None
    """When it was launched last; ``None`` if never."""

    failures: int = 0
    failed: int = 0
    """When it failed last."""

    order: int = 0
    """How many failures the call had had then: two can fall into one instant."""

    verdict: Verdict | None = None
    """What its last failure means; ``None`` if it has not failed."""


class Targets:
    """The targets of one call, by their position in the model's list."""

    def __init__(self, count: int, retry: RetryPolicy) -> None:
        self._histories = [_History() for _ in range(count)]
        self._retry = retry

    def launched(self, target: int, now: int) -> None:
        """Note that an attempt at *target* starts."""
        self._histories[target].used = now

    def failed(self, target: int, verdict: Verdict, now: int) -> None:
        """Note that an attempt at *target* failed by itself."""
        history = self._histories[target]
        history.failures += 1
        history.order = sum(each.failures for each in self._histories)
        history.failed = now
        history.verdict = verdict

    def untried(self, target: int) -> bool:
        """Tell whether the call has not used *target*."""
        return self._histories[target].used is None

    def fresh(self, busy: Collection[int], *, reuse: bool = True) -> int | None:
        """Give the target for an attempt that starts at once (rules 1 and 2); ``None`` for none.

        Args:
            busy: the targets with a live attempt.
            reuse: whether a target may be used that the call has used before.
        """
        used: list[tuple[bool, int, int]] = []
        for target, history in enumerate(self._histories):
            if history.used is None:
                return target
            if history.verdict is None:
                used.append((target in busy, history.used, target))
        return min(used)[-1] if used and reuse else None

    def retries(self, failed: int, verdict: Verdict, now: int, share: float) -> list[Option]:
        """Give what can be tried now that nothing lives and *failed* was the last to fail.

        Args:
            failed: the target that failed last.
            verdict: what its failure means.
            now: the time.
            share: uniform random number from 0 to 1, for the backoff.

        Returns:
            The options, the best first.
        """
        fresh = self.fresh(())
        if fresh is None:
            return [self._when_ready(target, share) for target in self._failed_before()]
        elsewhere = Option(fresh, now)
        if not self._worth_waiting_for(failed, verdict):
            return [elsewhere]
        return [self._when_ready(failed, share), elsewhere]

    def _worth_waiting_for(self, target: int, verdict: Verdict) -> bool:
        # Only once: whoever refuses again after it said that it would take us is not believed.
        if not verdict.again or self._histories[target].failures > 1:
            return False
        if verdict.retry_after_ns is not None:
            longest = min(self._retry.wait_for_target_s, self._retry.retry_after_max_s)
            return verdict.retry_after_ns <= ns(longest)
        return verdict.fluke

    def _failed_before(self) -> list[int]:
        longest = ns(self._retry.retry_after_max_s)
        failed = [
            (history.verdict.silent, -history.order, target)
            for target, history in enumerate(self._histories)
            if history.verdict is not None
            and history.verdict.again
            and (history.verdict.retry_after_ns or 0) <= longest
        ]
        return [target for _, _, target in sorted(failed)]

    def _when_ready(self, target: int, share: float) -> Option:
        history = self._histories[target]
        backoff = backoff_ns(
            history.failures,
            base_ns=ns(self._retry.backoff_base_s),
            most_ns=ns(self._retry.backoff_max_s),
            share=share,
        )
        asked = history.verdict.retry_after_ns if history.verdict is not None else None
        return Option(target, history.failed + max(backoff, asked or 0))
