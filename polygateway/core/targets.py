"""Which target comes next, by what this call has seen of each, and by what is known of it."""

# Theory of operation
# ===================
#
# Rule 1: an attempt that starts at once goes to a target that is healthy or due for a probe, only
#         then to one that is degraded. Of these, one that the call has not used comes first: so it
#         is found out when a target is well again that is never a primary. Of equals a healthy one
#         comes first; then the model's order decides.
# Rule 2: of those that the call has used, one comes first that was not silent the last time. Of
#         those that were, one without a live attempt, then the one used longest ago: a stall
#         belongs to a request more often than to its target, and a new request lands elsewhere in a
#         provider's fleet. One that failed is none of them; but it is better than a silent one, if
#         it answered and is ready again when a hedge is due.
# Rule 3: no hedge goes to a target whose breaker is open, or that asked not to be tried yet.
# Rule 4: the target that just failed is worth waiting for before anything else is tried, if it
#         failed for the first time, and said that it will take us again soon or looks like a fluke.
# Rule 5: with nothing left that is admitted, a target that did not fail is tried in spite of what
#         is known of it: it is the last one left. One that the call has used must be admitted by
#         then.
# Rule 6: after that, a target that failed but answered is tried again after its wait, the latest
#         first, if it is admitted by then.
# Rule 7: but what would take us soon goes before what would not, the sooner the better; and a
#         target that was silent when it failed comes last.
# Rule 8: of a target's backoff and of what it asked for, the longer wait wins.
# Rule 9: where an attempt must go on with an answer, only targets count that can do so. Where it
#         may, it does so wherever it can, and of what would take us soon such a target comes first.
#
# Times are integer nanoseconds of one monotonic clock.

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .backoff import backoff_ns
from .failures import Verdict
from .health import Health
from .latency import Latency
from .units import ns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ..policies import RetryPolicy
    from ..stats import RefusalReason
    from .decisions import Rescue

# How good a choice a target is: the smaller, the better. Healthy, due for a probe, or:
_DEGRADED, _NOT_ADMITTED = 2, 3


@attrs.frozen(kw_only=True)
class Candidate:
    """What is known of a target, whatever call is asking."""

    health: Health = attrs.field(factory=Health)
    latency: Latency = attrs.field(factory=Latency)
    prefill: bool = False
    """Whether its model goes on with an answer that has been begun."""


@attrs.frozen
class Option:
    """A target, and the time from which it may be tried."""

    target: int
    due: int
    goes_on: bool
    """Whether the attempt shall go on with what was delivered."""

    is_sound: bool = True
    """Whether it is tried because of what is known of it, and not in spite of it."""


@attrs.define
class _History:
    """What this call has seen of one target."""

    known: Candidate
    prefill: bool
    used: int | None = None
    """When it was launched last; ``None`` if never."""

    failures: int = 0
    failed: int = 0
    """When it failed last."""

    order: int = 0
    """How many failures the call had had then: two can fall into one instant."""

    verdict: Verdict | None = None
    """What its last failure means; ``None`` if it has not failed."""

    was_silent: bool = False
    """Whether its last attempt was, and has not failed since."""

    def rank(self, now: int) -> int:
        """Tell how good a choice it is for an attempt that starts at *now*."""
        standing = self.known.health.standing(now)
        if standing == "healthy":
            return 0
        if self.known.health.admits(now):
            return 1
        return _DEGRADED if standing == "degraded" else _NOT_ADMITTED

    def is_admitted(self, now: int) -> bool:
        """Tell whether an attempt may start at *now*, by what is known of it."""
        return self.rank(now) != _NOT_ADMITTED

    def timed_out(self) -> bool:
        """Tell whether it was silent when it failed last."""
        return self.verdict is not None and self.verdict.silent


class _Histories(dict[int, _History]):
    """What this call has seen of its targets, each from when it is first asked for.

    Most calls have one attempt, however many targets there are.
    """

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__()
        self.candidates = candidates

    def __missing__(self, target: int) -> _History:
        known = self.candidates[target]
        history = self[target] = _History(known, known.prefill)
        return history


class Targets:
    """The targets of one call, by their position in its line-up."""

    def __init__(self, candidates: Sequence[Candidate], retry: RetryPolicy) -> None:
        self._histories = _Histories(candidates)
        self._retry = retry
        self._longest = ns(retry.retry_after_max_s)
        self.rescue: Rescue = "restart"
        """Whether attempts go on with what was delivered."""

    # What happens

    def launched(self, target: int, now: int) -> None:
        """Note that an attempt at *target* starts."""
        self._histories[target].used = now
        self._histories[target].was_silent = False

    def fell_silent(self, target: int) -> None:
        """Note that an attempt at *target* is silent."""
        self._histories[target].was_silent = True

    def failed(self, target: int, verdict: Verdict, now: int) -> None:
        """Note that an attempt at *target* failed by itself."""
        history = self._histories[target]
        history.failures += 1
        history.order = sum(each.failures for each in self._histories.values())
        history.failed = now
        history.verdict = verdict
        history.was_silent = False

    def refused_prefix(self, target: int) -> None:
        """Note that *target* does not go on with answers after all."""
        self._histories[target].prefill = False

    # What starts at once

    def untried(self, target: int) -> bool:
        """Tell whether the call has not used *target*."""
        return self._histories[target].used is None

    def hedge(self, busy: Collection[int], now: int, *, reuse: bool) -> Option | None:
        """Give the choice for a hedge (rules 1 to 3); ``None`` for none.

        Args:
            busy: the targets with a live attempt.
            now: the time.
            reuse: whether a target may be used that the call has used before.
        """
        choices = self._unfailed(reuse=reuse)
        if reuse:
            choices += self._ready_again(now)
        return self._best(choices, busy, now)

    def why_none(self, now: int, *, reuse: bool = True) -> RefusalReason:
        """Say why there was no choice for a hedge; or for a retry, which may *reuse* targets."""
        standings = {
            history.known.health.standing(now)
            for _, history in self._able()
            if (history.verdict is None or history.verdict.again)
            and (reuse or history.used is None)
        }
        if "open" in standings:
            return "breaker"
        return "rate_limited" if "rate_limited" in standings else "no_target"

    def _best(self, choices: Iterable[int], busy: Collection[int], now: int) -> Option | None:
        admitted = [each for each in choices if self._histories[each].is_admitted(now)]
        best = min(admitted, key=lambda each: self._order(each, busy, now), default=None)
        return None if best is None else self._option(best, now)

    def _order(self, target: int, busy: Collection[int], now: int) -> tuple[int, ...]:
        history = self._histories[target]
        rank, used = history.rank(now), history.used
        fitness = (not self._goes_on(history), rank == _DEGRADED, used is not None, rank)
        past = (history.was_silent, history.verdict is not None, target in busy, used or 0)
        return *fitness, *past, target

    def _unfailed(self, *, reuse: bool = True) -> list[int]:
        return [
            target
            for target, history in self._able()
            if history.verdict is None and (reuse or history.used is None)
        ]

    def _ready_again(self, now: int) -> list[int]:
        """Give the targets that failed but answered, and would take us now."""
        return [
            target
            for target in self._failed_before(now)
            if not self._histories[target].timed_out()
            and self._when_ready(target, now, share=1).due == now
        ]

    def _able(self) -> Iterator[tuple[int, _History]]:
        for target in range(len(self._histories.candidates)):
            history = self._histories[target]
            if self._is_able(history):
                yield target, history

    def _is_able(self, history: _History) -> bool:
        return history.prefill or self.rescue != "continue"

    def _goes_on(self, history: _History) -> bool:
        return history.prefill and self.rescue != "restart"

    def _option(self, target: int, due: int, *, is_sound: bool = True) -> Option:
        return Option(target, due, self._goes_on(self._histories[target]), is_sound)

    # What is tried when nothing lives

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
        again = self._once_more(now, share)
        waits = self._worth_waiting_for(failed, verdict, now)
        first = [option for option in again if waits and option.target == failed]
        soon = max([now + ns(self._retry.wait_for_target_s), *(option.due for option in first)])
        options = dict.fromkeys((*first, *self._elsewhere(now), *again))
        return sorted(options, key=lambda option: self._lateness(option, soon))

    def due(self, option: Option) -> int:
        """Give when *option* may be tried, by what its target has asked for since it was given."""
        until = self._histories[option.target].known.health.rest.until
        return until if option.due < until <= option.due + self._longest else option.due

    def _lateness(self, option: Option, soon: int) -> tuple[bool, int, bool]:
        timed_out = self._histories[option.target].timed_out()
        return timed_out, max(option.due, soon), not option.goes_on

    def _worth_waiting_for(self, target: int, verdict: Verdict, now: int) -> bool:
        # Only once: whoever refuses again after it said that it would take us is not believed.
        history = self._histories[target]
        if history.failures > 1:
            return False
        wait = max(verdict.retry_after_ns or 0, history.known.health.rest.until - now)
        is_said = verdict.retry_after_ns is not None
        return wait <= ns(self._retry.wait_for_target_s) and (verdict.fluke or is_said)

    def _elsewhere(self, now: int) -> list[Option]:
        fresh = self._best(self._unfailed(), (), now)
        return self._last_resorts(now) if fresh is None else [fresh]

    def _last_resorts(self, now: int) -> list[Option]:
        options: list[Option] = []
        for target in self._unfailed():
            history = self._histories[target]
            due = max(now, history.known.health.rest.until)
            if due - now <= self._longest and (history.used is None or history.is_admitted(due)):
                options.append(self._option(target, due, is_sound=False))
        return options

    def _once_more(self, now: int, share: float) -> list[Option]:
        """Give what failed before and is admitted when it is ready, the latest first."""
        options = [self._when_ready(target, now, share) for target in self._failed_before(now)]
        return [each for each in options if self._histories[each.target].is_admitted(each.due)]

    def _failed_before(self, now: int) -> list[int]:
        """Give the targets that failed and do not ask for too long a wait, the latest first."""
        failed = [
            (-history.order, target)
            for target, history in self._able()
            if history.verdict is not None
            and history.verdict.again
            and (history.verdict.retry_after_ns or 0) <= self._longest
            and history.known.health.rest.until - now <= self._longest
        ]
        return [target for _, target in sorted(failed)]

    def _when_ready(self, target: int, now: int, share: float) -> Option:
        history = self._histories[target]
        backoff = backoff_ns(
            history.failures,
            base_ns=ns(self._retry.backoff_base_s),
            most_ns=ns(self._retry.backoff_max_s),
            share=share,
        )
        asked = history.verdict.retry_after_ns if history.verdict is not None else None
        due = history.failed + max(backoff, asked or 0)
        return self._option(target, max(due, history.known.health.rest.until, now))
