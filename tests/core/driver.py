"""Drives a planner with its gate and its purse as a race does, and checks what must always hold.

Times are nanoseconds from the start of the call.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from polygateway.core.budget import Purse
from polygateway.core.gate import AttemptState, Gate
from polygateway.core.plan import Cancel, Commit, Fail, Launch, Planner, Refuse
from polygateway.errors import AttemptError, GatewayBusy, RateLimited
from polygateway.policies import HedgePolicy, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polygateway.core.plan import Decision
    from polygateway.stats import RefusalReason

SECOND = 1_000_000_000
GRACE = SECOND // 2

Until: TypeAlias = Literal["content", "end"]

# The clock's reading when the call starts: nothing may depend on a clock that starts at 0.
_START = 10**15 + 1


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
    """One call. Attempts are told apart by their index, in order of launch."""

    def __init__(
        self,
        *,
        targets: int = 2,
        until: Until = "end",
        hedge: HedgePolicy | None = None,
        retry: RetryPolicy | None = None,
        purse: Purse | None = None,
        deadline: int | None = None,
    ) -> None:
        self.targets = targets
        self.until: Until = until
        self.hedge = hedge or HedgePolicy()
        self.retry = retry or RetryPolicy()
        self.purse = purse or Purse(ratio=0.2, burst=10)
        self.gate = Gate()
        self.planner = Planner(
            targets=targets,
            until=until,
            hedge=self.hedge,
            retry=self.retry,
            purse=self.purse,
            deadline_ns=None if deadline is None else _START + deadline,
        )
        self.now = 0
        self.log: list[tuple[int, Decision]] = []
        """Every decision but refusals, and when it was taken."""

        self.refused: Counter[RefusalReason] = Counter()
        """How many hedges that were due did not start, by why."""

        self.outcome: Commit | Fail | None = None
        self.launches: list[Launch] = []
        self.last: dict[int, int] = {}
        """When each attempt brought content last."""

        self._excused: dict[int, int] = {}
        self._empty: list[int] = []
        self._failed: list[int] = []
        self._carry_out(self.planner.start(_START))

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
                self.planner.heard(index, _START + last)
        self._tell_excuses()
        self._carry_out(self.planner.tick(_START + now))
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
            self._carry_out(self.planner.content(attempt, _START + at))

    def finish(self, attempt: int, at: int, *, grace: int = GRACE) -> None:
        """Let an attempt read its finish reason alone, after which it is not silent for a while."""
        self._reach(attempt, at)
        self._excused[attempt] = at + grace

    def end(self, attempt: int, at: int) -> None:
        """Let an attempt come to its proper end."""
        self._reach(attempt, at)
        empty = attempt not in self.last
        if empty:
            self._empty.append(attempt)
        self._carry_out(self.planner.ended(attempt, empty=empty))

    def fail(
        self, attempt: int, error: AttemptError | GatewayBusy, at: int, *, share: float = 0.5
    ) -> None:
        """Let an attempt fail by itself."""
        self._reach(attempt, at)
        self.gate.fail(attempt)
        self._failed.append(attempt)
        self._carry_out(self.planner.failed(attempt, error, _START + at, share))

    # What is known

    def wake(self) -> int | None:
        """Give when the planner wants to be woken."""
        wake = self.planner.wake_ns()
        return None if wake is None else wake - _START

    def alive(self) -> list[int]:
        """Give the attempts that may still win by what they bring."""
        if self.outcome is not None:
            return []
        return [index for index in self.gate.running() if index not in self._empty]

    def states(self) -> list[AttemptState]:
        """Give what became of each attempt."""
        return self.gate.attempts

    def kinds(self) -> list[str]:
        """Give the kind of each attempt."""
        return [launch.kind for launch in self.launches]

    # Carrying out

    def _reach(self, attempt: int, at: int) -> None:
        """Come to what happens at *at*: it is taken before what is due at the same time."""
        self.wait(at - 1)
        self.now = at
        assert attempt in self.alive()

    def _tell_excuses(self) -> None:
        for index in self.alive():
            self.planner.excuse(index, _START + self._excused.get(index, 0))

    def _carry_out(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            assert self.outcome is None, "a decision after the end"
            self._check_and_do(decision)
            if not isinstance(decision, Refuse):
                self.log.append((self.now, decision))
        assert self.planner.live() == self.alive()
        if self.outcome is not None:
            assert self.wake() is None
            assert self.planner.front() is None

    def _check_and_do(self, decision: Decision) -> None:
        match decision:
            case Launch():
                self._launch(decision)
            case Cancel():
                assert decision.attempt in self.alive()
                self.gate.lose(decision.attempt)
            case Commit():
                has_content = decision.attempt in self.last
                assert has_content or (decision.attempt in self._empty and not self.alive())
                self.gate.commit(decision.attempt)
                self.outcome = decision
            case Fail():
                assert not self.gate.running()
                assert decision.attempt == self._failed[-1]
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
        self.launches.append(launch)
        assert self.kinds().count("retry") <= self.retry.max_retries
        assert self.gate.launch() == len(self.launches) - 1
