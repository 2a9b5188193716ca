"""A gateway without a network, simulated: the product's own planner, made-up answers.

Nothing is decided here. Which target comes first, when another attempt starts, which one wins and
what is refused is said by ``polygateway.core``: planner, purse, health and learned latencies. This
file does with made-up answers what a race does with connections. Times are nanoseconds.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from typing import TYPE_CHECKING, Literal, assert_never

import attrs

from polygateway import FirstContentTimeout, HedgePolicy, RetryPolicy, StreamPolicy
from polygateway.core.budget import Purse
from polygateway.core.decisions import Cancel, Commit, Fail, Launch, Refuse
from polygateway.core.order import lined_up
from polygateway.core.plan import Planner
from polygateway.core.targets import Candidate
from polygateway.core.thresholds import Thresholds
from polygateway.core.units import ns
from polygateway.stats import HedgeReason, RefusalReason

from .tail_model import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway import AttemptError
    from polygateway.core.decisions import Decision

    from .tail_model import Workload


@attrs.frozen(kw_only=True)
class Setting:
    """How a gateway is used."""

    until: Literal["content", "end"] = "end"
    """``end`` for ``complete()``, ``content`` for ``stream()``."""

    hedge: HedgePolicy = attrs.field(factory=HedgePolicy)
    retry: RetryPolicy = attrs.field(factory=RetryPolicy)
    stream: StreamPolicy = attrs.field(factory=StreamPolicy)


@attrs.define(kw_only=True)
class Record:
    """What became of a call. Flows are what they would be at a target of usual speed."""

    begun: int
    length: int
    """How long its answer flows."""

    took: int = 0
    failed: bool = False
    attempts: int = 0
    hedges: Counter[HedgeReason] = attrs.field(factory=Counter[HedgeReason])
    refused: Counter[RefusalReason] = attrs.field(factory=Counter[RefusalReason])
    failed_over: bool = False
    """Whether a retry went to a target that had not been used."""

    flowed: float = 0
    """How long content flowed, in all its attempts."""


@attrs.define(eq=False)
class _Attempt:
    answer: Answer
    position: int
    launched: int
    slowness: float
    skipped: float
    """How much of the answer had been delivered before."""

    news: int | None
    """When it next has content that must be told; ``None``: not for now."""

    was_silent: bool = False

    def flowed(self, at: int) -> float:
        return self.answer.flowed(at) / self.slowness


class Simulation:
    """A gateway and its calls. The same arguments give the same result."""

    def __init__(self, workload: Workload, setting: Setting, *, calls: int, seed: int) -> None:
        self.workload = workload
        self.setting = setting
        self.seed = seed
        self.candidates: Sequence[Candidate] = [Candidate(prefill=True) for _ in workload.slowness]
        self.purse = Purse(ratio=setting.hedge.budget_ratio, burst=setting.hedge.budget_burst)
        self._calls = calls

    def run(self) -> Sequence[Record]:
        """Simulate all calls, and give what became of them in the order in which they began."""
        chance = random.Random(self.seed)
        events: list[tuple[int, int, _Call]] = []
        records: list[Record] = []
        now = 0
        for number in range(self._calls):
            now += ns(chance.expovariate(self.workload.calls_per_s))
            self._act(events, until=now)
            call = _Call(self, number, now)
            records.append(call.record)
            heapq.heappush(events, (call.due(), number, call))
        self._act(events, until=None)
        return records

    def _act(self, events: list[tuple[int, int, _Call]], *, until: int | None) -> None:
        while events and (until is None or events[0][0] < until):
            now, number, call = events[0]
            call.act(now)
            if call.is_over:
                heapq.heappop(events)
            else:
                heapq.heapreplace(events, (call.due(), number, call))


class _Call:
    def __init__(self, simulation: Simulation, number: int, now: int) -> None:
        setting = simulation.setting
        self.is_over = False
        self._chance = random.Random(simulation.seed << 40 | number)
        length = ns(self._chance.uniform(*simulation.workload.generation_s))
        self.record = Record(begun=now, length=length)
        self._workload = simulation.workload
        self._setting = setting
        self._purse = simulation.purse
        self._attempts: list[_Attempt] = []
        self._running: set[int] = set()
        self._delivering: int | None = None
        self._delivered = 0.0
        """How much of the answer has been delivered when a rescue begins."""

        healths = [each.health for each in simulation.candidates]
        self._order = lined_up(range(len(healths)), healths, now)
        self._candidates = [simulation.candidates[target] for target in self._order]
        self._thresholds = Thresholds(setting.hedge, self._candidates, now)
        self._planner = Planner(
            self._candidates,
            until=setting.until,
            hedge=setting.hedge,
            retry=setting.retry,
            thresholds=self._thresholds,
            purse=self._purse,
        )
        self._purse.put()
        self._carry_out(self._planner.start(now), now)

    # What happens next

    def due(self) -> int:
        """Give when something happens next. The call must not be over."""
        times: list[int | None] = [self._attempts[each].answer.over for each in self._running]
        if self._delivering is None:
            times += [self._attempts[index].news for index in self._planner.live()]
            times.append(self._planner.wake_ns())
        else:
            times.append(self._silent_at)
        return min(time for time in times if time is not None)

    def act(self, now: int) -> None:
        """Do what happens now."""
        if self._delivering is None:
            self._race(now)
        else:
            self._deliver(self._delivering, now)
        self._foresee(now)

    def _foresee(self, now: int) -> None:
        for index in self._planner.live():
            attempt = self._attempts[index]
            first = attempt.answer.first
            if first is not None and first <= now:
                disputed = self._planner.disputed(index)
                attempt.news = attempt.answer.following(now) if disputed else None
        if self._delivering is not None:
            self._silent_at = self._when_silent(self._attempts[self._delivering], now)

    # A race

    def _race(self, now: int) -> None:
        front = self._planner.front()
        for index in sorted(self._planner.live(), key=lambda each: each != front):
            if index in self._planner.live():
                self._report(index, self._attempts[index], now)
        self._tick(now)

    def _report(self, index: int, attempt: _Attempt, now: int) -> None:
        if attempt.news is not None and attempt.news <= now:
            self._carry_out(self._planner.content(index, now), now)
        if index in self._planner.live() and attempt.answer.over <= now:
            if attempt.answer.failure is None:
                self._carry_out(self._planner.ended(index, empty=False), now)
            else:
                self._fail(index, attempt.answer.failure, now)

    def _fail(self, index: int, failure: AttemptError, now: int) -> None:
        self._close(index, now)
        self._carry_out(self._planner.failed(index, failure, now, self._chance.random()), now)

    def _tick(self, now: int) -> None:
        if not self._is_due(now):
            return
        for index in self._planner.live():
            self._planner.heard(index, self._attempts[index].answer.last(now))
        if self._is_due(now):
            for index in self._planner.live():
                self._fell_silent(self._attempts[index], now)
            self._carry_out(self._planner.tick(now), now)

    def _is_due(self, now: int) -> bool:
        wake = self._planner.wake_ns()
        return wake is not None and now >= wake

    # A stream that is delivered

    def _when_silent(self, attempt: _Attempt, now: int) -> int | None:
        last = attempt.answer.last(now)
        if last is None or self._setting.stream.recovery == "raise":
            return None
        return self._planner.silent_at_ns(last, 0)

    def _deliver(self, index: int, now: int) -> None:
        attempt = self._attempts[index]
        if attempt.answer.over > now:
            silent_at = self._when_silent(attempt, now)
            if silent_at is not None and silent_at <= now:
                self._rescue(index, attempt, now)
        elif attempt.answer.failure is None:
            self._finish(now)
        elif self._setting.stream.recovery == "raise":
            self.record.failed = True
            self._finish(now)
        else:
            self._rescue(index, attempt, now)

    def _rescue(self, index: int, attempt: _Attempt, now: int) -> None:
        recovery, last = self._setting.stream.recovery, attempt.answer.last(now)
        if recovery == "raise" or last is None:
            raise AssertionError("nothing to rescue")
        self._delivering = None
        self._delivered = attempt.skipped + attempt.flowed(now)
        self._planner.reopen(last, recovery)
        if attempt.answer.over <= now and attempt.answer.failure is not None:
            self._fail(index, attempt.answer.failure, now)
        else:
            self._tick(now)

    # Decisions

    def _carry_out(self, decisions: Sequence[Decision], now: int) -> None:
        for decision in decisions:
            match decision:
                case Launch():
                    self._launch(decision, now)
                case Cancel():
                    self._close(decision.attempt, now)
                case Commit():
                    self._commit(decision.attempt, now)
                case Fail():
                    self.record.failed = True
                    self._finish(now)
                case Refuse():
                    self.record.refused[decision.why] += 1
                case _:
                    assert_never(decision)

    def _launch(self, launch: Launch, now: int) -> None:
        target = self._order[launch.target]
        skipped = self._delivered if launch.goes_on else 0
        self._count(launch)
        spans = self._workload.spans(target, now, round(self.record.length - skipped), self._chance)
        answer = Answer(spans, now, self._setting.stream)
        slowness = self._workload.slowness[target]
        self._running.add(len(self._attempts))
        self._attempts.append(_Attempt(answer, launch.target, now, slowness, skipped, answer.first))
        self._candidates[launch.target].health.launched(now)
        self._purse.launched(now)

    def _count(self, launch: Launch) -> None:
        self.record.attempts += 1
        if launch.reason is not None:
            self.record.hedges[launch.reason] += 1
        if launch.kind == "retry":
            used = {attempt.position for attempt in self._attempts}
            self.record.failed_over = self.record.failed_over or launch.target not in used

    def _commit(self, winner: int, now: int) -> None:
        for index in self._running - {winner}:
            self._close(index, now)
        if self._setting.until == "end":
            self._finish(now)
        else:
            self._delivering = winner

    def _finish(self, now: int) -> None:
        for index in sorted(self._running):
            self._close(index, now)
        self.record.took = now - self.record.begun
        self.is_over = True

    # What attempts teach

    def _close(self, index: int, now: int) -> None:
        """End an attempt: it is over, or it has lost."""
        self._running.remove(index)
        attempt = self._attempts[index]
        self.record.flowed += attempt.flowed(now)
        is_over, failure = attempt.answer.over <= now, attempt.answer.failure
        self._teach_times(attempt, now, cut_off=not is_over)
        if self._has_been_silent(attempt, now):
            self._fell_silent(attempt, now)
        health, silent = self._candidates[attempt.position].health, attempt.was_silent
        if not is_over:
            health.cancelled(attempt.launched, was_silent=silent)
            self._purse.cancelled(attempt.launched)
        elif failure is None:
            health.ended(attempt.launched, now, was_silent=silent)
            self._purse.succeeded(attempt.launched, now)
        else:
            health.failed(attempt.launched, now, was_silent=silent)
            self._purse.failed(attempt.launched, now)

    def _fell_silent(self, attempt: _Attempt, now: int) -> None:
        if not attempt.was_silent:
            attempt.was_silent = True
            self._candidates[attempt.position].health.fell_silent(attempt.launched, now)

    def _teach_times(self, attempt: _Attempt, now: int, *, cut_off: bool) -> None:
        latency, first = self._candidates[attempt.position].latency, attempt.answer.first
        if first is not None and first <= now:
            latency.first_content(first - attempt.launched, now)
        elif cut_off or isinstance(attempt.answer.failure, FirstContentTimeout):
            latency.first_content(now - attempt.launched, now, censored=True)
        for lasted, lasts in attempt.answer.silences(now):
            latency.silence(lasted, now, censored=lasts)

    def _has_been_silent(self, attempt: _Attempt, now: int) -> bool:
        first, last = attempt.answer.first, attempt.answer.last(now)
        waited = (now if last is None or first is None else first) - attempt.launched
        if waited >= self._thresholds.after_ns(attempt.position):
            return True
        if first is None or last is None:
            return False
        stall_after = self._thresholds.stall_after_ns(attempt.position, last - first)
        return any(lasted >= stall_after for lasted, _ in attempt.answer.silences(now))
