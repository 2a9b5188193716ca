"""The planner: what has happened to a call goes in, what to do about it comes out."""

# Theory of operation
# ===================
#
# One planner decides for one call. It starts attempts, names the one that is committed, and says
# which error the call ends with. It does nothing itself: it is told what happened and when, and
# gives decisions, which whoever runs the race carries out before anything else happens.
#
# Rule 1: winning takes content. What decides is the first content (`stream`), or the proper end
#         of an answer with content (`complete`). An answer without content is kept, and wins only
#         when no other attempt lives any more.
# Rule 2: a failure ends nothing that another live attempt can still win.
# Rule 3: of the live attempts, the front is the one with the latest content; with no content
#         anywhere, the oldest. While nobody has content, the first content cancels all others.
# Rule 4: a hedge is due when every live attempt is silent: without content for `after` since its
#         launch, or without further content for `stall_after`; an attempt may be excused for a
#         while, because its finish reason came. A hedge that failed, or ended empty, counts as not
#         silent until `after` from its launch: a refusal is not the reason for the next hedge.
# Rule 5: a hedge that is due may be refused: by max_attempts, for lack of a target, by the purse.
#         It is asked for again after another such silence; a refused hedge of one reason does not
#         put off one of the other.
# Rule 6: a hedge launched beside a front with content opens a duel. Under "first-delivered" the
#         first content after the launch decides it, and it may come from the front. Under
#         "first-complete" nobody is cancelled. A duel is not the commit: the next one may follow.
#         An attempt whose finish reason came has won it, unless it brings content after all.
# Rule 7: a retry is due when no attempt lives, and the last failure leaves something to be tried.
#         At most one is pending, and nothing else runs meanwhile.
#
# Times are integer nanoseconds of one monotonic clock.

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from ..stats import AttemptKind, HedgeReason, RefusalReason
from .failures import judge
from .targets import Option, Targets
from .units import ns

if TYPE_CHECKING:
    from ..policies import HedgePolicy, RetryPolicy
    from .budget import Purse
    from .failures import Failure, Verdict


@attrs.frozen
class Launch:
    """Start an attempt; its index is the number of attempts before it."""

    target: int
    """Position in the model's list of targets."""

    kind: AttemptKind
    reason: HedgeReason | None = None


@attrs.frozen
class Cancel:
    """Take an attempt out of the race."""

    attempt: int
    reason: Literal["lost the race", "lost a duel"]


@attrs.frozen
class Commit:
    """Make an attempt the winner; every other one has lost."""

    attempt: int


@attrs.frozen
class Fail:
    """End the call with the error of that attempt, the last that failed by itself."""

    attempt: int
    not_tried: RefusalReason | None
    """Why nothing was tried after it; ``None`` where nothing was to be tried."""


@attrs.frozen
class Refuse:
    """Start no hedge, although one is due."""

    reason: HedgeReason
    """Why it is due."""

    why: RefusalReason


Decision: TypeAlias = Launch | Cancel | Commit | Fail | Refuse


@attrs.define
class _Live:
    """A running attempt, as far as the planner knows it."""

    index: int
    target: int
    kind: AttemptKind
    launched: int
    last: int | None = None
    """Stamp of its last known content; ``None`` before the first."""

    excused: int = 0
    """It does not count as silent before this time."""


class Planner:
    """Decides for one call."""

    def __init__(
        self,
        *,
        targets: int,
        until: Literal["content", "end"],
        hedge: HedgePolicy,
        retry: RetryPolicy,
        purse: Purse,
        deadline_ns: int | None = None,
    ) -> None:
        """Plan a call.

        Args:
            targets: how many targets the model has.
            until: what decides the race: first ``content``, or the proper ``end``.
            hedge: when to start a second attempt.
            retry: what to do when none is left.
            purse: what hedges and retries are paid from.
            deadline_ns: end of the call; ``None`` for none.
        """
        self._until = until
        self._hedge = hedge
        self._after = ns(hedge.after_s)
        self._stall_after = ns(hedge.stall_after_s)
        self._max_retries = retry.max_retries
        self._targets = Targets(targets, retry)
        self._purse = purse
        self._deadline = deadline_ns
        self._live: dict[int, _Live] = {}
        self._launched = 0
        self._retries = 0
        self._failed_over = False
        self._pending: Option | None = None
        self._empty: int | None = None
        self._hedge_excuse = 0
        """Until when a hedge that is over without content counts as not silent."""

        self._ask_again: dict[HedgeReason, int] = {}
        """When a hedge that was refused is asked for again, by its reason."""

    # What happened

    def start(self, now: int) -> list[Decision]:
        """Begin the call with its primary attempt."""
        return [self._launch(0, "primary", now)]

    def heard(self, attempt: int, last: int | None) -> None:
        """Learn when an undisputed attempt had its last content, which it need not report.

        Args:
            attempt: its index.
            last: the stamp; ``None`` if it has no content.
        """
        self._live[attempt].last = last

    def excuse(self, attempt: int, until: int) -> None:
        """Learn that an attempt does not count as silent before a time: it is about to end."""
        self._live[attempt].excused = until

    def content(self, attempt: int, at: int) -> list[Decision]:
        """Take note that an attempt brought content at the stamp *at*.

        Must be told of each attempt's first content, and of all content that is disputed.
        """
        live = self._live.get(attempt)
        if live is None:
            return []
        decisive = self.disputed(attempt) and not self._is_whole(besides=live, at=at)
        duel = self._anybody_has_content()
        live.last = at
        if not decisive:
            return []
        if self._until == "content":
            return [self._commit(attempt)]
        return self._cancel_others(attempt, "lost a duel" if duel else "lost the race")

    def ended(self, attempt: int, *, empty: bool) -> list[Decision]:
        """Take note that an attempt came to its proper end; *empty* if it had no content."""
        if attempt not in self._live:
            return []
        if empty:
            self._excuse_hedge(self._live.pop(attempt))
            if self._empty is None:
                self._empty = attempt
            return [] if self._live else [self._commit(self._empty)]
        return [self._commit(attempt)]

    def failed(self, attempt: int, failure: Failure, now: int, share: float) -> list[Decision]:
        """Take note that an attempt failed by itself.

        Args:
            attempt: its index.
            failure: what it ended with.
            now: the time.
            share: uniform random number from 0 to 1, for the backoff.
        """
        live = self._live.pop(attempt, None)
        if live is None:
            return []
        verdict = judge(failure)
        self._targets.failed(live.target, verdict, now)
        self._excuse_hedge(live)
        if self._live:
            return []
        if self._empty is not None:
            return [self._commit(self._empty)]
        refusal = self._plan_retry(live.target, verdict, now, share)
        if self._pending is None:
            return [Fail(attempt, refusal)]
        return self.tick(now)

    def _excuse_hedge(self, live: _Live) -> None:
        """Let a hedge that is over without content count as not silent for a while."""
        if live.kind == "hedge":
            self._hedge_excuse = max(self._hedge_excuse, live.launched + self._after)

    def tick(self, now: int) -> list[Decision]:
        """Do what is due at *now*."""
        if self._pending is not None and now >= self._pending.due:
            target = self._pending.target
            self._pending = None
            return [self._launch(target, "retry", now)]
        due = self._hedge_due()
        if due is not None and now >= due:
            return self._start_hedge(now)
        return []

    # What to wait for

    def live(self) -> list[int]:
        """Give the attempts that may still win by what they bring."""
        return list(self._live)

    def front(self) -> int | None:
        """Give the attempt with the latest content, else the oldest; ``None`` if none lives."""
        live = self._live.values()
        return max(live, key=lambda each: (each.last or 0, -each.index)).index if live else None

    def wake_ns(self) -> int | None:
        """Give the time of the next :meth:`tick`; ``None`` if nothing will be due by itself."""
        return self._hedge_due() if self._pending is None else self._pending.due

    def disputed(self, attempt: int) -> bool:
        """Tell whether content of that attempt decides something, so that it must be reported."""
        if self._until == "content":
            return True
        if len(self._live) < 2 or attempt not in self._live:
            return False
        return self._hedge.winner == "first-delivered" or not self._anybody_has_content()

    # Racing

    def _launch(
        self, target: int, kind: AttemptKind, now: int, reason: HedgeReason | None = None
    ) -> Launch:
        self._live[self._launched] = _Live(self._launched, target, kind, now)
        self._launched += 1
        self._targets.launched(target, now)
        return Launch(target, kind, reason)

    def _commit(self, attempt: int) -> Commit:
        self._live.clear()
        return Commit(attempt)

    def _cancel_others(
        self, attempt: int, reason: Literal["lost the race", "lost a duel"]
    ) -> list[Decision]:
        losers = [index for index in self._live if index != attempt]
        for loser in losers:
            del self._live[loser]
        return [Cancel(loser, reason) for loser in losers]

    def _is_whole(self, *, besides: _Live, at: int) -> bool:
        """Tell whether another attempt has all its content and is about to end."""
        return any(
            live.excused > at and live.last is not None
            for live in self._live.values()
            if live is not besides
        )

    def _anybody_has_content(self) -> bool:
        return any(live.last is not None for live in self._live.values())

    # Hedging

    def _hedge_due(self) -> int | None:
        if not self._hedge.enabled or not self._live:
            return None
        again = self._ask_again.get(self._hedge_reason(), 0)
        return max(again, self._hedge_excuse, *map(self._silent_at, self._live.values()))

    def _hedge_reason(self) -> HedgeReason:
        return "stall" if self._anybody_has_content() else "ttft"

    def _silent_at(self, live: _Live) -> int:
        if live.last is None:
            return max(live.excused, live.launched + self._after)
        return max(live.excused, live.last + self._stall_after)

    def _start_hedge(self, now: int) -> list[Decision]:
        reason = self._hedge_reason()
        busy = {live.target for live in self._live.values()}
        target = self._targets.fresh(busy, reuse=self._hedge.same_target)
        if self._launched >= self._hedge.max_attempts:
            return self._refuse_hedge("max_attempts", reason, now)
        if target is None:
            return self._refuse_hedge("no_target", reason, now)
        if not self._purse.take(above_half=reason == "ttft"):
            return self._refuse_hedge("budget", reason, now)
        return [self._launch(target, "hedge", now, reason)]

    def _refuse_hedge(self, why: RefusalReason, reason: HedgeReason, now: int) -> list[Decision]:
        self._ask_again[reason] = now + (self._stall_after if reason == "stall" else self._after)
        return [Refuse(reason, why)]

    # Retrying

    def _plan_retry(
        self, target: int, verdict: Verdict, now: int, share: float
    ) -> RefusalReason | None:
        """Set the pending retry, or say why there is none (``None``: nothing was to be tried)."""
        if not verdict.elsewhere:
            return None
        if self._retries >= self._max_retries:
            return "max_retries"
        options = self._targets.retries(target, verdict, now, share)
        if not options:
            return "no_target"
        timely = [option for option in options if self._in_time(option.due)]
        if not timely:
            return "deadline"
        paid = next((option for option in timely if self._pay(option.target)), None)
        if paid is None:
            return "budget"
        self._retries += 1
        self._pending = paid
        return None

    def _in_time(self, due: int) -> bool:
        return self._deadline is None or due < self._deadline

    def _pay(self, target: int) -> bool:
        if self._targets.untried(target) and not self._failed_over:
            self._failed_over = True
            self._purse.charge()
            return True
        return self._purse.take()
