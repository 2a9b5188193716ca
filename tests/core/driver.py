"""Drives a planner with its gate and its purse as a race does, and checks what must always hold.

Times are nanoseconds from the start of the call.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from polygateway.core.budget import Purse
from polygateway.core.decisions import Cancel, Commit, Fail, Launch, Refuse
from polygateway.core.failures import judge
from polygateway.core.gate import AttemptState, Gate
from polygateway.core.plan import Planner
from polygateway.core.targets import Candidate
from polygateway.core.thresholds import Thresholds
from polygateway.errors import AttemptError, GatewayBusy, InvalidRequest, RateLimited
from polygateway.policies import HedgePolicy, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polygateway.core.decisions import Decision, Rescue
    from polygateway.core.failures import Failure
    from polygateway.core.health import Health
    from polygateway.stats import RefusalReason

SECOND = 1_000_000_000
GRACE = SECOND // 2

Until: TypeAlias = Literal["content", "end"]

START = 10**15 + 1
"""The clock's reading when the call starts: nothing may depend on a clock that starts at 0."""


def failure(
    of: type[AttemptError | GatewayBusy],
    *,
    status: int | None = None,
    retry_after_s: float | None = None,
) -> AttemptError | GatewayBusy:
    """Give what an attempt can fail with."""
    return of("it broke", target="t", attempt=0, status=status, retry_after_s=retry_after_s)


def limited(retry_after_s: float | None = None) -> AttemptError | GatewayBusy:
    """Give a rate limit: retryable elsewhere at once, and here after *retry_after_s*."""
    return failure(RateLimited, retry_after_s=retry_after_s)


class Drive:
    """One call. Attempts are told apart by their index, in order of launch.

    What attempts teach about their targets, and about the purse, is passed on.
    """

    def __init__(
        self,
        *,
        targets: int = 2,
        until: Until = "end",
        hedge: HedgePolicy | None = None,
        retry: RetryPolicy | None = None,
        purse: Purse | None = None,
        deadline: int | None = None,
        candidates: Sequence[Candidate] = (),
        hold_back: int = 0,
        rescue: Rescue = "restart",
        start: int = START,
    ) -> None:
        self.until: Until = until
        self.hedge = hedge or HedgePolicy()
        self.retry = retry or RetryPolicy()
        self.purse = purse or Purse(ratio=0.2, burst=10)
        self.gate = Gate()
        self.candidates = candidates or [Candidate() for _ in range(targets)]
        self.targets = len(self.candidates)
        self.rescue: Rescue = rescue
        """What is allowed for a stream that was delivered in part."""

        self.start = start
        self.planner = Planner(
            self.candidates,
            until=until,
            hedge=self.hedge,
            retry=self.retry,
            thresholds=Thresholds(self.hedge, self.candidates, start),
            purse=self.purse,
            hold_back_ns=hold_back,
            deadline_ns=None if deadline is None else start + deadline,
        )
        self.now = 0
        self.log: list[tuple[int, Decision]] = []
        """Every decision but refusals, and when it was taken."""

        self.refused: Counter[RefusalReason] = Counter()
        """How many hedges that were due did not start, by why."""

        self.outcome: Commit | Fail | None = None
        """What the race came to; ``None`` while it runs, or when it was reopened."""

        self.launches: list[Launch] = []
        self.last: dict[int, int] = {}
        """When each attempt brought content last."""

        self._incumbent: int | None = None
        """The attempt whose content is delivered; ``None`` before any is."""

        self._launched: list[int] = []
        self._silent: set[int] = set()
        self._excused: dict[int, int] = {}
        self._ended: list[int] = []
        self._failures: dict[int, AttemptError | GatewayBusy] = {}
        """What attempts failed with, in that order; without those that would not go on."""

        self._carry_out(self.planner.start(start))

    # What happens

    def wait(self, until: int) -> None:
        """Let time pass, and do what is due up to and including *until*."""
        while (wake := self.wake()) is not None and max(wake, self.now) <= until:
            self.tick(max(wake, self.now))
        self.now = max(self.now, until)

    def tick(self, now: int) -> None:
        """Wake the planner, which must have nothing more to do at the same time."""
        self.now = now
        for index, last in self.last.items():
            if index in self.alive():
                self.planner.heard(index, self.start + last)
        self._tell_excuses()
        wake = self.wake()
        if wake is not None and now >= wake:
            for index in self.alive():
                self._notice_silence(index)
        self._carry_out(self.planner.tick(self.start + now))
        wake = self.wake()
        assert wake is None or wake > now

    def content(self, attempt: int, at: int, *, finished: bool = False) -> None:
        """Let an attempt read content, which is reported only if it is first or disputed.

        With *finished* its finish reason came with it, else one that came before is void.
        """
        self._reach(attempt, at)
        news = attempt not in self.last or self.planner.disputed(attempt)
        self.last[attempt] = at
        self._excused[attempt] = at + GRACE if finished else 0
        if news:
            self._tell_excuses()
            self._carry_out(self.planner.content(attempt, self.start + at))

    def finish(self, attempt: int, at: int, *, grace: int = GRACE) -> None:
        """Let an attempt read its finish reason alone, after which it is not silent for a while."""
        self._reach(attempt, at)
        self._excused[attempt] = at + grace

    def end(self, attempt: int, at: int) -> None:
        """Let an attempt come to its proper end."""
        self._reach(attempt, at)
        self._teach_end(attempt)
        self._carry_out(self.planner.ended(attempt, empty=attempt not in self.last))

    def fail(
        self, attempt: int, error: AttemptError | GatewayBusy, at: int, *, share: float = 0.5
    ) -> None:
        """Let an attempt fail by itself."""
        self._reach(attempt, at)
        self._fail(attempt, error, share)

    # What happens to a stream that is delivered

    def delivering(self) -> int | None:
        """Give the attempt whose content is delivered; ``None`` while any race runs."""
        return self._incumbent if isinstance(self.outcome, Commit) else None

    def silent_at(self) -> int | None:
        """Give when what is delivered counts as silent; ``None`` if that starts nothing."""
        index = self._delivered()
        last, excused = self.last[index], self._excused.get(index, 0)
        silent_at = self.planner.silent_at_ns(self.start + last, self.start + excused)
        return None if silent_at is None else silent_at - self.start

    def deliver(self, at: int, *, finished: bool = False) -> None:
        """Let the attempt that is delivered bring more; or wait so long for who wants no more."""
        index = self._delivered()
        self.now = self.last[index] = at
        self._excused[index] = at + GRACE if finished else 0

    def fall_silent(self, at: int) -> None:
        """Let others compete with the attempt that is delivered, from *at* on."""
        self._reopen(at)
        wake = self.wake()
        if wake is not None and wake <= at:
            self.tick(at)

    def break_off(self, error: AttemptError | GatewayBusy, at: int, *, share: float = 0.5) -> None:
        """Let the attempt that is delivered fail, and others take its place."""
        index = self._reopen(at)
        self._fail(index, error, share)

    def give_up(self, at: int, *, share: float = 0.5) -> None:
        """Let the caller cancel the rescue, and ask for more at once."""
        index = self._incumbent
        assert index is not None
        self.wait(at - 1)
        self.now = at
        for rival in self.gate.contenders():
            if rival != index:
                self.gate.cancel(rival)
                self._teach_nothing(rival)
        if index in self._failures:
            self.planner.reopen(self.start + self.last[index], self.rescue)
            error = self._failures[index]
            self._carry_out(self.planner.failed(index, error, self.start + at, share))
            return
        self.gate.commit(index)
        self.outcome = Commit(index)

    def stop(self, at: int, *, whole: bool) -> None:
        """Let what is delivered come to its proper end, or the caller want no more of it."""
        index = self._delivered()
        self.now = at
        if whole:
            self._teach_end(index)
        else:
            self.gate.cancel(index)
            self._teach_nothing(index)
        self._incumbent = None

    def _delivered(self) -> int:
        index = self.delivering()
        assert index is not None
        return index

    def _reopen(self, at: int) -> int:
        index = self._delivered()
        self.now = at
        self.gate.reopen()
        self.outcome = None
        self.planner.reopen(self.start + self.last[index], self.rescue)
        return index

    # What is known

    def wake(self) -> int | None:
        """Give when the planner wants to be woken; ``None`` if no race runs."""
        wake = self.planner.wake_ns()
        return None if wake is None or self.outcome is not None else wake - self.start

    def alive(self) -> list[int]:
        """Give the attempts that may still win by what they bring."""
        if self.outcome is not None:
            return []
        return [index for index in self.gate.contenders() if index not in self._ended]

    def states(self) -> list[AttemptState]:
        """Give what became of each attempt."""
        return self.gate.attempts

    def kinds(self) -> list[str]:
        """Give the kind of each attempt."""
        return [launch.kind for launch in self.launches]

    # What is taught

    def _health(self, attempt: int) -> Health:
        return self.candidates[self.launches[attempt].target].health

    def _notice_silence(self, attempt: int) -> None:
        if attempt not in self._silent:
            self._silent.add(attempt)
            self._health(attempt).fell_silent(self._launched[attempt], self.start + self.now)

    def _teach_end(self, attempt: int) -> None:
        launched, now, silent = (
            self._launched[attempt],
            self.start + self.now,
            attempt in self._silent,
        )
        self._health(attempt).ended(launched, now, was_silent=silent)
        self.purse.succeeded(launched, now)
        self._ended.append(attempt)

    def _teach_failure(self, attempt: int, error: Failure) -> None:
        verdict = judge(error)
        if not verdict.blames:
            self._teach_nothing(attempt)
            return
        launched, now, silent = (
            self._launched[attempt],
            self.start + self.now,
            attempt in self._silent,
        )
        self._health(attempt).failed(launched, now, was_silent=silent)
        self.purse.failed(launched, now)
        if verdict.retry_after_ns is not None:
            self._health(attempt).rest.ask(verdict.retry_after_ns, now)

    def _teach_nothing(self, attempt: int) -> None:
        if attempt not in self._ended:
            silent = attempt in self._silent
            self._health(attempt).cancelled(self._launched[attempt], was_silent=silent)
            self.purse.cancelled(self._launched[attempt])

    # Carrying out

    def _reach(self, attempt: int, at: int) -> None:
        """Come to what happens at *at*: it is taken before what is due at the same time."""
        self.wait(at - 1)
        self.now = at
        assert attempt in self.alive()

    def _tell_excuses(self) -> None:
        for index in self.alive():
            self.planner.excuse(index, self.start + self._excused.get(index, 0))

    def _fail(self, attempt: int, error: Failure, share: float) -> None:
        self.gate.fail(attempt)
        refuses = isinstance(error, InvalidRequest) and error.status != 404
        if not (refuses and self.launches[attempt].goes_on and attempt not in self.last):
            self._failures[attempt] = error
        self._teach_failure(attempt, error)
        self._carry_out(self.planner.failed(attempt, error, self.start + self.now, share))

    def _carry_out(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            assert self.outcome is None, "a decision after the end"
            self._check_and_do(decision)
            if not isinstance(decision, Refuse):
                self.log.append((self.now, decision))
        assert self.planner.live() == self.alive()
        if self.outcome is not None:
            assert self.planner.wake_ns() is None
            assert self.planner.front() is None

    def _check_and_do(self, decision: Decision) -> None:
        match decision:
            case Launch():
                self._launch(decision)
            case Cancel():
                assert decision.attempt in self.alive()
                self._teach_nothing(decision.attempt)
                self.gate.lose(decision.attempt)
            case Commit():
                self._commit(decision)
            case Fail():
                assert not self.gate.contenders()
                assert decision.attempt == list(self._failures)[-1]
                self.gate.end()
                self.outcome = decision
            case Refuse():
                has_content = any(index in self.last for index in self.alive())
                assert decision.reason == ("stall" if has_content else "ttft")
                self.refused[decision.why] += 1
            case _:
                assert_never(decision)

    def _launch(self, launch: Launch) -> None:
        assert 0 <= launch.target < self.targets
        assert (launch.kind == "primary") == (not self.launches)
        assert (launch.kind == "hedge") == bool(self.alive())
        assert (launch.kind == "hedge") == (launch.reason is not None)
        if launch.kind == "hedge":
            assert len(self.launches) < self.hedge.max_attempts
            assert self._may_be_hedged_to(launch.target)
        if self._incumbent is None or self.rescue == "restart":
            assert not launch.goes_on
        elif self.rescue == "continue":
            assert launch.goes_on
        assert self.candidates[launch.target].prefill or not launch.goes_on
        self.launches.append(launch)
        self._launched.append(self.start + self.now)
        self._health(-1).launched(self.start + self.now)
        self.purse.launched(self.start + self.now)
        assert self.kinds().count("retry") <= self.retry.max_retries
        assert self.gate.launch() == len(self.launches) - 1

    def _may_be_hedged_to(self, target: int) -> bool:
        health, now = self.candidates[target].health, self.start + self.now
        return health.admits(now) or health.standing(now) == "degraded"

    def _commit(self, commit: Commit) -> None:
        winner = commit.attempt
        assert winner in self.last or (winner in self._ended and not self.alive())
        for loser in self.gate.commit(winner):
            self._teach_nothing(loser)
        self._incumbent = None if winner in self._ended else winner
        self.outcome = commit
