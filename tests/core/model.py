"""What should become of a call, by a plain list of attempts.

The model looks through all that has happened for each question, where the planner keeps state. It
knows of all content at once, the planner of what a race tells it. What is held of a target, and
whether most attempts fail, it asks the same classes as the planner does, but others of them, which
it teaches by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import attrs

from polygateway.core.decisions import Cancel, Commit, Fail, Launch, Rescue
from polygateway.core.trials import Trials
from polygateway.policies import Winner
from polygateway.stats import AttemptKind, HedgeReason, RefusalReason
from tests.core.driver import GRACE, SECOND, Until

if TYPE_CHECKING:
    from polygateway.core.decisions import Decision
    from polygateway.core.health import Health

# The defaults of the retry policy, in seconds.
BASE, MOST = Fraction(1, 2), Fraction(8)
WAIT, LONGEST = 2, 60

NEVER = 10**18


@attrs.frozen
class Rules:
    """The rules of a call. Times are nanoseconds."""

    prefill: Sequence[bool]
    """Of each target, whether it goes on with an answer."""

    until: Until
    winner: Winner
    after: int
    stall_after: int
    max_attempts: int
    same_target: bool
    max_retries: int
    deadline: int
    hold_back: int
    rescue: Rescue


@attrs.frozen
class Kind:
    """A kind of failure, by what it leaves to be tried."""

    name: str
    again: bool = True
    elsewhere: bool = True
    fluke: bool = False
    silent: bool = False
    asks: int | None = None
    """Seconds after which the target will take us again."""

    blames: bool = True
    refuses: bool = False
    """Whether a target that was to go on with an answer may have failed because of that."""


NOT_FAILED = Kind("not failed")


@attrs.define
class Tokens:
    """What a purse should hold, and what went in and out."""

    ratio: Fraction
    burst: Fraction
    level: Fraction
    calls: int = 0
    taken: int = 0
    trials: Trials = attrs.field(factory=lambda: Trials(least=10))

    def put(self) -> None:
        """Take note of a call."""
        self.calls += 1
        self.level = min(self.burst, self.level + self.ratio)

    def take(self, *, over: Fraction = Fraction(0)) -> bool:
        """Take a token if there is one, and more than *over* is left."""
        if self.trials.mostly_bad or self.level < 1 or self.level <= over:
            return False
        self.level -= 1
        self.taken += 1
        return True

    def why_not(self) -> RefusalReason:
        """Say why nothing could be taken."""
        return "throttled" if self.trials.mostly_bad else "budget"


@attrs.frozen
class Option:
    """A target, and when it may be tried."""

    target: int
    due: int
    is_sound: bool = True


@attrs.frozen
class Refusal:
    """A hedge that was due and did not start."""

    at: int
    hedge: HedgeReason
    why: RefusalReason


@attrs.define
class Attempt:
    """One try at one target."""

    index: int
    target: int
    kind: AttemptKind
    launched: int
    goes_on: bool
    content: list[int] = attrs.field(factory=list[int])
    finished: int | None = None
    """When its finish reason came; ``None`` if none did, or content after it."""

    became: Literal["running", "empty", "failed", "lost", "cancelled", "won"] = "running"
    failed: int = 0
    why: Kind = NOT_FAILED
    was_silent: bool = False
    is_told: bool = False
    """Whether it is over for those who are told what becomes of attempts."""


class Model:
    """What should become of a call."""

    def __init__(self, rules: Rules, tokens: Tokens, healths: Sequence[Health], epoch: int) -> None:
        self.rules = rules
        self.tokens = tokens
        self.healths = healths
        self.epoch = epoch
        """What a clock shows when the call begins."""

        self.attempts: list[Attempt] = []
        self.log: list[tuple[int, Decision]] = []
        self.refused: list[Refusal] = []
        self.empty: list[Attempt] = []
        """Those of this race that ended without content, in that order."""

        self.failures: list[Attempt] = []
        """Those that failed, in that order."""

        self.silent: set[int] = set()
        """The targets at which something was silent, and nothing was launched or failed since."""

        self.cannot_go_on: set[int] = set()
        """The targets that have refused to."""

        self.excuses: list[int] = []
        """Until when hedges that are over count as not silent."""

        self.pending: Option | None = None
        self.delivered: Attempt | None = None
        """The one whose content is delivered; ``None`` before any is, and after its end."""

        self.over = False
        """Whether no race runs."""

        self.failed_over = False
        self.now = 0
        self._launch(0, "primary")

    def live(self) -> list[Attempt]:
        if self.over:
            return []
        return [each for each in self.attempts if each.became == "running" or self._stays(each)]

    def _stays(self, attempt: Attempt) -> bool:
        return attempt is self.delivered and attempt.became == "won"

    def _decide(self, decision: Decision) -> None:
        self.log.append((self.now, decision))

    def _launch(self, target: int, kind: AttemptKind, reason: HedgeReason | None = None) -> None:
        goes_on = self._way(target) == "continue"
        self.attempts.append(Attempt(len(self.attempts), target, kind, self.now, goes_on))
        self._decide(Launch(target, kind, reason, goes_on))
        self.silent.discard(target)
        self.healths[target].launched(self.epoch + self.now)
        self.tokens.trials.launched(self.epoch + self.now)

    def _kinds(self, kind: AttemptKind) -> int:
        return sum(each.kind == kind for each in self.attempts)

    # What happens

    def pass_time(self, until: int) -> None:
        while (due := self._due()) is not None and due <= until:
            self.now = due
            if self.pending is not None:
                target, self.pending = self.pending.target, None
                self._launch(target, "retry")
            else:
                self._hedge()
        self.now = max(self.now, until)

    def content(self, attempt: Attempt, *, finished: bool) -> None:
        others = [each for each in self.live() if each is not attempt]
        duel = any(each.content for each in self.live())
        whole = any(each.content and self.now < _excused(each) for each in others)
        attempt.content.append(self.now)
        attempt.finished = self.now if finished else None
        if whole:
            return
        held_back = self.rules.hold_back if self.delivered is None else 0
        if self.rules.until == "content" and self.now >= attempt.content[0] + held_back:
            self._commit(attempt)
        elif not duel or self.rules.winner == "first-delivered":
            for loser in others:
                self._tell(loser, good=None)
                loser.became = "lost"
                self._decide(Cancel(loser.index, "lost a duel" if duel else "lost the race"))

    def finish(self, attempt: Attempt) -> None:
        attempt.finished = self.now

    def end(self, attempt: Attempt) -> None:
        self._tell(attempt, good=True)
        if attempt.content:
            self._commit(attempt)
            return
        attempt.became = "empty"
        self.empty.append(attempt)
        self._excuse(attempt)
        if not self.live():
            self._commit(self.empty[0])

    def fail(self, attempt: Attempt, why: Kind, share: Fraction) -> None:
        self._tell(attempt, good=False if why.blames else None)
        if why.blames and why.asks is not None:
            self.healths[attempt.target].rest.ask(why.asks * SECOND, self.epoch + self.now)
        attempt.became, attempt.failed, attempt.why = "failed", self.now, why
        if attempt.goes_on and why.refuses and not attempt.content:
            self.cannot_go_on.add(attempt.target)
            attempt.why = attrs.evolve(why, again=False, elsewhere=True)
        else:
            self.failures.append(attempt)
            self.silent.discard(attempt.target)
        self._excuse(attempt)
        if not self.live():
            self._go_on_after(attempt, share)

    def _go_on_after(self, attempt: Attempt, share: Fraction) -> None:
        if self.empty:
            self._commit(self.empty[0])
            return
        found = self._retry(attempt, share)
        if isinstance(found, Option):
            self.pending = found
            self.pass_time(self.now)
        else:
            self.over, self.delivered = True, None
            self._decide(Fail(self.failures[-1].index, found))

    def _excuse(self, attempt: Attempt) -> None:
        if attempt.kind == "hedge":
            self.excuses.append(attempt.launched + self.rules.after)

    def _commit(self, winner: Attempt) -> None:
        for rival in (*self.live(), *self.empty):
            if rival is not winner:
                self._tell(rival, good=None)
                rival.became = "lost"
        self.delivered = None if winner.is_told else winner
        winner.became = "won"
        self.empty.clear()
        self.over = True
        self._decide(Commit(winner.index))

    # What happens to what is delivered

    def silent_at(self) -> int:
        assert self.delivered is not None
        return self._silent_at(self.delivered)

    def deliver(self, *, finished: bool) -> None:
        assert self.delivered is not None
        self.delivered.content.append(self.now)
        self.delivered.finished = self.now if finished else None

    def reopen(self) -> None:
        self.over = False
        self.pass_time(self.now)

    def break_off(self, why: Kind, share: Fraction) -> None:
        assert self.delivered is not None
        self.over = False
        self.fail(self.delivered, why, share)

    def stop(self, *, whole: bool) -> None:
        assert self.delivered is not None
        self._tell(self.delivered, good=True if whole else None)
        self.delivered.became = "won" if whole else "cancelled"
        self.delivered = None

    def give_up(self, share: Fraction) -> None:
        assert self.delivered is not None
        for rival in self.attempts:
            if rival.became in {"running", "empty"}:
                self._tell(rival, good=None)
                rival.became = "cancelled"
        self.empty.clear()
        self.over = self.delivered.became == "won"
        if not self.over and self.pending is None:
            self._go_on_after(self.failures[-1], share)

    # What it teaches

    def _tell(self, attempt: Attempt, *, good: bool | None) -> None:
        if attempt.is_told:
            return
        attempt.is_told = True
        health, silent = self.healths[attempt.target], attempt.was_silent
        launched, now = self.epoch + attempt.launched, self.epoch + self.now
        if good is None:
            health.cancelled(launched, was_silent=silent)
            self.tokens.trials.forget(launched)
            return
        (health.ended if good else health.failed)(launched, now, was_silent=silent)
        self.tokens.trials.judge(good=good, launched=launched, now=now)

    def _tell_silences(self) -> None:
        for each in self.live():
            self.silent.add(each.target)
            if not each.was_silent:
                each.was_silent = True
                launched = self.epoch + each.launched
                self.healths[each.target].fell_silent(launched, self.epoch + self.now)

    # Where an attempt can go

    def _way(self, target: int) -> Literal["continue", "restart"] | None:
        """Tell what an attempt there does; ``None`` if that is of no use."""
        if self.delivered is None or self.rules.rescue == "restart":
            return "restart"
        if self.rules.prefill[target] and target not in self.cannot_go_on:
            return "continue"
        return None if self.rules.rescue == "continue" else "restart"

    def _useful(self) -> list[int]:
        return [target for target in range(len(self.rules.prefill)) if self._way(target)]

    def _used(self, target: int) -> int | None:
        """Tell when it was used last."""
        return max((each.launched for each in self.attempts if each.target == target), default=None)

    def _sound(self) -> list[int]:
        blamed = {each.target for each in self.failures}
        return [target for target in self._useful() if target not in blamed]

    def _unfitness(self, target: int, at: int) -> int | None:
        """Give what speaks against trying it then; ``None``: too much."""
        health, now = self.healths[target], self.epoch + at
        if health.standing(now) == "healthy":
            return 0
        if health.admits(now):
            return 1
        return 2 if health.standing(now) == "degraded" else None

    def _best(self, targets: Sequence[int]) -> int | None:
        """Give what does not begin anew, is fit, is not used, is well, was not silent, is idle."""
        busy = {each.target for each in self.live()}
        blamed = {each.target for each in self.failures}
        ranked: list[tuple[bool, bool, bool, int, bool, bool, bool, int, int]] = []
        for target in targets:
            unfit, used = self._unfitness(target, self.now), self._used(target)
            if unfit is not None:
                begins, is_used = self._way(target) != "continue", used is not None
                past = (target in self.silent, target in blamed, target in busy, used or 0)
                ranked.append((begins, unfit == 2, is_used, unfit, *past, target))
        return min(ranked)[-1] if ranked else None

    def _ready_again(self) -> list[int]:
        silent = {target for target, each in self._last_failures().items() if each.why.silent}
        ready = [each.target for each in self._failed_before(Fraction(1)) if each.due == self.now]
        return [target for target in ready if target not in silent]

    def _why_not(self, *, reuse: bool) -> RefusalReason:
        hopeless = {target for target, each in self._last_failures().items() if not each.why.again}
        left = [each for each in self._useful() if each not in hopeless]
        standings = {
            self.healths[each].standing(self.epoch + self.now)
            for each in left
            if reuse or self._used(each) is None
        }
        if "open" in standings:
            return "breaker"
        return "rate_limited" if "rate_limited" in standings else "no_target"

    # Hedges

    def _due(self) -> int | None:
        if self.pending is not None:
            return max(self.now, self._pending_due(self.pending))
        if not self.live():
            return None
        reason = self._reason()
        again = [each.at for each in self.refused if each.hedge == reason]
        return max(
            self.now,
            *(self._silent_at(each) for each in self.live()),
            *(at + self._silence(reason) for at in again),
            *self.excuses,
        )

    def _reason(self) -> HedgeReason:
        return "stall" if any(each.content for each in self.live()) else "ttft"

    def _silence(self, reason: HedgeReason) -> int:
        return self.rules.after if reason == "ttft" else self.rules.stall_after

    def _silent_at(self, attempt: Attempt) -> int:
        if attempt.content:
            return max(_excused(attempt), attempt.content[-1] + self.rules.stall_after)
        return max(_excused(attempt), attempt.launched + self.rules.after)

    def _hedge(self) -> None:
        self._tell_silences()
        reason, unused = (
            self._reason(),
            [each for each in self._sound() if self._used(each) is None],
        )
        again = [*self._sound(), *self._ready_again()]
        target = self._best(again if self.rules.same_target else unused)
        why = self._refusal(reason, target)
        if why is not None:
            self.refused.append(Refusal(self.now, reason, why))
        elif target is not None:
            self._launch(target, "hedge", reason)

    def _refusal(self, reason: HedgeReason, target: int | None) -> RefusalReason | None:
        if len(self.attempts) >= self.rules.max_attempts:
            return "max_attempts"
        if target is None:
            return self._why_not(reuse=self.rules.same_target)
        rest = self.tokens.burst / 2 if reason == "ttft" else Fraction(0)
        return None if self.tokens.take(over=rest) else self.tokens.why_not()

    # Retries

    def _retry(self, failed: Attempt, share: Fraction) -> Option | RefusalReason | None:
        """Give the retry, or the reason why there is none."""
        if not failed.why.elsewhere:
            return None
        if self._kinds("retry") >= self.rules.max_retries:
            return "max_retries"
        options = self._options(failed, share)
        if not options:
            return self._why_not(reuse=True)
        in_time = [each for each in options if each.due < self.rules.deadline]
        if not in_time:
            return "deadline"
        for each in in_time:
            if self._pay(each):
                return each
        return self.tokens.why_not()

    def _options(self, failed: Attempt, share: Fraction) -> list[Option]:
        target, again = self._best(self._sound()), self._failed_before(share)
        options = self._last_resorts() if target is None else [Option(target, self.now)]
        options += again
        soon = self.now + WAIT * SECOND
        for each in again:
            if each.target == failed.target and self._is_worth_waiting_for(failed):
                soon = max(soon, each.due)
                options.remove(each)
                options.insert(0, each)
        silent = {target for target, each in self._last_failures().items() if each.why.silent}
        return sorted(
            options,
            key=lambda each: (
                each.target in silent,
                max(each.due, soon),
                self._way(each.target) != "continue",
            ),
        )

    def _is_worth_waiting_for(self, failed: Attempt) -> bool:
        target, why = failed.target, failed.why
        rest = self.healths[target].rest.until - self.epoch - self.now
        is_soon = max(rest, (why.asks or 0) * SECOND) <= WAIT * SECOND
        is_first = len(self._failures_of(target)) == 1
        return is_soon and is_first and (why.fluke or why.asks is not None)

    def _last_resorts(self) -> list[Option]:
        options: list[Option] = []
        for target in self._sound():
            due = max(self.now, self.healths[target].rest.until - self.epoch)
            unused = self._used(target) is None
            if unused or self._unfitness(target, due) is not None:
                options.append(Option(target, due, is_sound=False))
        return [each for each in options if each.due <= self.now + LONGEST * SECOND]

    def _last_failures(self) -> dict[int, Attempt]:
        """Give the last failure of each target, the latest first."""
        last: dict[int, Attempt] = {}
        for each in reversed(self.failures):
            last.setdefault(each.target, each)
        return last

    def _failed_before(self, share: Fraction) -> list[Option]:
        options: list[Option] = []
        for target, each in self._last_failures().items():
            rest = self.healths[target].rest.until - self.epoch - self.now
            bearable = max(rest, (each.why.asks or 0) * SECOND) <= LONGEST * SECOND
            if target in self._useful() and each.why.again and bearable:
                options.append(self._ready(target, share))
        return [each for each in options if self._unfitness(each.target, each.due) is not None]

    def _failures_of(self, target: int) -> list[Attempt]:
        return [each for each in self.failures if each.target == target]

    def _ready(self, target: int, share: Fraction) -> Option:
        failures = self._failures_of(target)
        d = min(MOST, BASE * 2 ** (len(failures) - 1))
        wait = max(d / 2 + d / 2 * share, Fraction(failures[-1].why.asks or 0))
        rest = self.healths[target].rest.until - self.epoch
        return Option(target, max(self.now, rest, failures[-1].failed + int(wait * SECOND)))

    def _pending_due(self, pending: Option) -> int:
        """Give when it starts: later than planned, if its target has asked for more meanwhile."""
        rest = self.healths[pending.target].rest.until - self.epoch
        bearable = rest <= pending.due + LONGEST * SECOND and rest < self.rules.deadline
        return max(pending.due, rest) if bearable else pending.due

    def _pay(self, option: Option) -> bool:
        if self._used(option.target) is not None or self.failed_over or not option.is_sound:
            return self.tokens.take()
        self.failed_over = True
        self.tokens.level = max(-self.tokens.burst, self.tokens.level - 1)
        return True


def _excused(attempt: Attempt) -> int:
    """Give until when an attempt is not silent because its finish reason came."""
    return 0 if attempt.finished is None else attempt.finished + GRACE
