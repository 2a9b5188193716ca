"""What should become of a call, by a plain list of attempts.

The model looks through all that has happened for each question, where the planner keeps state. It
knows of all content at once, the planner of what a race tells it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import attrs

from polygateway.core.plan import Cancel, Commit, Fail, Launch
from polygateway.policies import Winner
from polygateway.stats import AttemptKind, HedgeReason, RefusalReason
from tests.core.driver import GRACE, SECOND, Until

if TYPE_CHECKING:
    from polygateway.core.plan import Decision

# The defaults of the retry policy, in seconds.
BASE, MOST = Fraction(1, 2), Fraction(8)
WAIT, LONGEST = 2, 60

NEVER = 10**18


@attrs.frozen
class Rules:
    """The rules of a call. Times are nanoseconds."""

    targets: range
    until: Until
    winner: Winner
    after: int
    stall_after: int
    max_attempts: int
    same_target: bool
    max_retries: int
    deadline: int


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


NOT_FAILED = Kind("not failed")


@attrs.define
class Tokens:
    """What a purse should hold, and what went in and out."""

    ratio: Fraction
    burst: Fraction
    level: Fraction
    calls: int = 0
    taken: int = 0

    def put(self) -> None:
        """Take note of a call."""
        self.calls += 1
        self.level = min(self.burst, self.level + self.ratio)

    def take(self, *, over: Fraction = Fraction(0)) -> bool:
        """Take a token if there is one, and more than *over* is left."""
        if self.level < 1 or self.level <= over:
            return False
        self.level -= 1
        self.taken += 1
        return True


@attrs.frozen
class Option:
    """A target, and when it may be tried."""

    target: int
    due: int


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
    content: list[int] = attrs.field(factory=list[int])
    finished: int | None = None
    """When its finish reason came; ``None`` if none did, or content after it."""

    became: Literal["running", "empty", "failed", "lost", "won"] = "running"
    failed: int = 0
    why: Kind = NOT_FAILED


class Model:
    """What should become of a call."""

    def __init__(self, rules: Rules, tokens: Tokens) -> None:
        self.rules = rules
        self.tokens = tokens
        self.attempts: list[Attempt] = []
        self.log: list[tuple[int, Decision]] = []
        self.refused: list[Refusal] = []
        self.empty: list[Attempt] = []
        """Those that ended without content, in that order."""

        self.asked_in_vain: list[tuple[int, bool]] = []
        """When a hedge was refused, and whether it was one for a stall."""

        self.failures: list[Attempt] = []
        """Those that failed, in that order."""

        self.pending: Option | None = None
        self.over = False
        self.failed_over = False
        self.now = 0
        self._launch(0, "primary")

    def live(self) -> list[Attempt]:
        return [] if self.over else [each for each in self.attempts if each.became == "running"]

    def _decide(self, decision: Decision) -> None:
        self.log.append((self.now, decision))

    def _launch(self, target: int, kind: AttemptKind, reason: HedgeReason | None = None) -> None:
        self.attempts.append(Attempt(len(self.attempts), target, kind, self.now))
        self._decide(Launch(target, kind, reason))

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
        if self.rules.until == "content":
            self._commit(attempt)
        elif not whole and (not duel or self.rules.winner == "first-delivered"):
            for loser in others:
                loser.became = "lost"
                self._decide(Cancel(loser.index, "lost a duel" if duel else "lost the race"))

    def finish(self, attempt: Attempt) -> None:
        attempt.finished = self.now

    def end(self, attempt: Attempt) -> None:
        if attempt.content:
            self._commit(attempt)
            return
        attempt.became = "empty"
        self.empty.append(attempt)
        if not self.live():
            self._commit(self.empty[0])

    def fail(self, attempt: Attempt, why: Kind, share: Fraction) -> None:
        attempt.became, attempt.failed, attempt.why = "failed", self.now, why
        self.failures.append(attempt)
        if self.live():
            return
        if self.empty:
            self._commit(self.empty[0])
            return
        found = self._retry(attempt, why, share)
        if isinstance(found, Option):
            self.pending = found
            self.pass_time(self.now)
        else:
            self.over = True
            self._decide(Fail(attempt.index, found))

    def _commit(self, winner: Attempt) -> None:
        for rival in (*self.live(), *self.empty):
            rival.became = "lost"
        winner.became = "won"
        self.over = True
        self._decide(Commit(winner.index))

    # Hedges

    def _due(self) -> int | None:
        if self.pending is not None:
            return max(self.now, self.pending.due)
        if not self.live():
            return None
        reason = self._reason()
        again = [each.at for each in self.refused if each.hedge == reason]
        gone = [each for each in (*self.failures, *self.empty) if each.kind == "hedge"]
        return max(
            self.now,
            *(self._silent_at(each) for each in self.live()),
            *(at + self._silence(reason) for at in again),
            *(each.launched + self.rules.after for each in gone),
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
        reason, target = self._reason(), self._next_target()
        why = self._refusal(reason, target)
        if why is not None:
            self.refused.append(Refusal(self.now, reason, why))
        elif target is not None:
            self._launch(target, "hedge", reason)

    def _refusal(self, reason: HedgeReason, target: int | None) -> RefusalReason | None:
        if len(self.attempts) >= self.rules.max_attempts:
            return "max_attempts"
        used = any(each.target == target for each in self.attempts)
        if target is None or (used and not self.rules.same_target):
            return "no_target"
        rest = self.tokens.burst / 2 if reason == "ttft" else Fraction(0)
        return None if self.tokens.take(over=rest) else "budget"

    def _next_target(self) -> int | None:
        """Give one that is not used; else one that did not fail, idle ones first, then by age."""
        used = [each.target for each in self.attempts]
        unused = [target for target in self.rules.targets if target not in used]
        if unused:
            return unused[0]
        blamed = {each.target for each in self.failures}
        busy = {each.target for each in self.live()}
        latest_first = dict.fromkeys(target for target in reversed(used) if target not in blamed)
        return min(reversed(latest_first), key=lambda target: target in busy, default=None)

    # Retries

    def _retry(self, failed: Attempt, why: Kind, share: Fraction) -> Option | RefusalReason | None:
        """Give the retry, or the reason why there is none."""
        if not why.elsewhere:
            return None
        if self._kinds("retry") >= self.rules.max_retries:
            return "max_retries"
        options = self._options(failed, why, share)
        if not options:
            return "no_target"
        in_time = [each for each in options if each.due < self.rules.deadline]
        if not in_time:
            return "deadline"
        for each in in_time:
            if self._pay(each.target):
                return each
        return "budget"

    def _options(self, failed: Attempt, why: Kind, share: Fraction) -> list[Option]:
        again = self._ready(failed.target, share)
        first_here = len(self._failures_of(failed.target)) == 1
        soon = why.asks <= WAIT if why.asks is not None else why.fluke
        options = [again] if why.again and soon and first_here else []
        target = self._next_target()
        if target is not None:
            return [*options, Option(target, self.now)]
        return options + [self._ready(each, share) for each in self._last_resorts()]

    def _last_resorts(self) -> list[int]:
        """Give what failed and may be tried again: the latest first, but silent ones last."""
        last = {each.target: (order, each) for order, each in enumerate(self.failures)}
        ranked = [
            (each.why.silent, -order, target)
            for target, (order, each) in last.items()
            if each.why.again and (each.why.asks or 0) <= LONGEST
        ]
        return [target for _, _, target in sorted(ranked)]

    def _failures_of(self, target: int) -> list[Attempt]:
        return [each for each in self.failures if each.target == target]

    def _ready(self, target: int, share: Fraction) -> Option:
        failures = self._failures_of(target)
        d = min(MOST, BASE * 2 ** (len(failures) - 1))
        wait = max(d / 2 + d / 2 * share, Fraction(failures[-1].why.asks or 0))
        return Option(target, failures[-1].failed + int(wait * SECOND))

    def _pay(self, target: int) -> bool:
        used = any(each.target == target for each in self.attempts)
        if used or self.failed_over:
            return self.tokens.take()
        self.failed_over = True
        self.tokens.level = max(-self.tokens.burst, self.tokens.level - 1)
        return True


def _excused(attempt: Attempt) -> int:
    """Give until when an attempt is not silent because its finish reason came."""
    return 0 if attempt.finished is None else attempt.finished + GRACE
