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
#         At most one is pending, and nothing else runs meanwhile. It obeys a longer wait that its
#         target asks for until then, unless the call would not have waited for so long.
# Rule 8: a stream that is held back is decided by content that comes so long after its attempt's
#         first one; until then it is raced like a whole answer.
# Rule 9: a stream that was delivered in part can be rescued: the planner is reopened, with the
#         committed attempt as the one that lives. What holds of any race holds then, but the first
#         content decides. What is started may have to go on with what was delivered; a target that
#         refuses to has not failed. A rescue may be given up by the caller and begun once more.
#
# Times are integer nanoseconds of one monotonic clock.

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from ..stats import AttemptKind, HedgeReason
from .decisions import Cancel, Commit, Fail, Launch, Refuse
from .failures import Verdict, is_refusal, judge
from .targets import Option, Targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..policies import HedgePolicy, RetryPolicy
    from ..stats import RefusalReason
    from .budget import Purse
    from .decisions import Decision, Rescue
    from .failures import Failure
    from .targets import Candidate
    from .thresholds import Thresholds


@attrs.define
class _Live:
    """A running attempt, as far as the planner knows it."""

    index: int
    target: int
    kind: AttemptKind
    launched: int
    goes_on: bool
    first: int | None = None
    """Stamp of its first content; ``None`` before it."""

    last: int | None = None
    """Stamp of its last known content; ``None`` before the first."""

    excused: int = 0
    """It does not count as silent before this time."""


class Planner:
    """Decides for one call."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        until: Literal["content", "end"],
        hedge: HedgePolicy,
        retry: RetryPolicy,
        thresholds: Thresholds,
        purse: Purse,
        hold_back_ns: int = 0,
        deadline_ns: int | None = None,
    ) -> None:
        """Plan a call.

        Args:
            candidates: what is known of the call's targets, in the order in which it tries them.
            until: what decides the race: ``content``, or the proper ``end``.
            hedge: whether and how often to start a second attempt.
            retry: what to do when none is left.
            thresholds: when an attempt counts as silent.
            purse: what hedges and retries are paid from.
            hold_back_ns: how long after an attempt's first content the deciding one must come.
            deadline_ns: end of the call; ``None`` for none.
        """
        self._until = until
        self._hedge = hedge
        self._thresholds = thresholds
        self._max_retries = retry.max_retries
        self._targets = Targets(candidates, retry)
        self._purse = purse
        self._hold_back = hold_back_ns
        self._deadline = deadline_ns
        self._live: dict[int, _Live] = {}
        self._committed: _Live | None = None
        self._launched = 0
        self._retries = 0
        self._failed_over = False
        self._pending: Option | None = None
        self._empty: int | None = None
        self._failed: dict[int, tuple[int, Verdict]] = {}
        """Target and verdict of each attempt that failed, in that order."""

        self._hedge_excuse = 0
        """Until when a hedge that is over without content counts as not silent."""

        self._ask_again: dict[HedgeReason, int] = {}
        """When a hedge that was refused is asked for again, by its reason."""

    # What happened

    def start(self, now: int) -> list[Decision]:
        """Begin the call with its primary attempt."""
        return [self._launch(Option(0, now, goes_on=False), "primary", now)]

    def heard(self, attempt: int, last: int | None) -> None:
        """Learn when an undisputed attempt had its last content, which it need not report.

        Args:
            attempt: its index.
            last: the stamp; ``None`` if it has no content.
        """
        self._live[attempt].last = last

    def reopen(self, last: int, rescue: Rescue) -> None:
        """Let the committed attempt, whose content was delivered, be raced once more.

        When the race before was given up, a retry that was pending stays so, and if the attempt has
        failed that must be told again.

        Args:
            last: stamp of its last content, later by the time in which nobody asked for more.
            rescue: what may be started beside or after it.
        """
        incumbent = self._committed
        if incumbent is None:
            raise ValueError("nothing was committed")
        incumbent.last = last
        self._live = {incumbent.index: incumbent} if self._pending is None else {}
        self._empty = None
        self._targets.rescue = rescue
        self._hold_back = 0

    def silent_at_ns(self, last: int, excused: int) -> int | None:
        """Tell when the committed attempt will be silent; ``None`` if that starts nothing.

        Args:
            last: stamp of its last content, later by the time in which nobody asked for more.
            excused: until when its silence means nothing.
        """
        committed = self._committed
        if committed is None or not self._hedge.enabled:
            return None
        committed.last, committed.excused = last, excused
        return self._silent_at(committed)

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
        rivalled, duel = self._is_rivalled(attempt), self._anybody_has_content()
        beaten = self._is_whole(besides=live, at=at)
        live.first = at if live.first is None else live.first
        live.last = at
        if beaten:
            return []
        if self._until == "content" and at - live.first >= self._hold_back:
            return [self._commit(attempt)]
        if rivalled:
            return self._cancel_others(attempt, "lost a duel" if duel else "lost the race")
        return []

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
        last_failed = self._judged(live, failure, now)
        self._excuse_hedge(live)
        if self._live:
            return []
        if self._empty is not None:
            return [self._commit(self._empty)]
        refusal = self._plan_retry(*last_failed, now, share)
        if self._pending is None:
            return [Fail([*self._failed][-1], refusal)]
        return self.tick(now)

    def _judged(self, live: _Live, failure: Failure, now: int) -> tuple[int, Verdict]:
        """Give the target that failed last, and what may be tried after that."""
        if live.index in self._failed:  # it is told again: the rescue after it was given up
            return [*self._failed.values()][-1]
        verdict = judge(failure)
        if live.goes_on and live.first is None and is_refusal(failure):
            # Another attempt has asked the same, without the beginning of an answer.
            self._targets.refused_prefix(live.target)
            return live.target, Verdict(again=False, elsewhere=True)
        self._targets.failed(live.target, verdict, now)
        self._failed[live.index] = live.target, verdict
        return live.target, verdict

    def _excuse_hedge(self, live: _Live) -> None:
        """Let a hedge that is over without content count as not silent for a while."""
        if live.kind == "hedge":
            until = live.launched + self._thresholds.after_ns(live.target)
            self._hedge_excuse = max(self._hedge_excuse, until)

    def tick(self, now: int) -> list[Decision]:
        """Do what is due at *now*."""
        if self._pending is not None and now >= self._retry_due(self._pending):
            option, self._pending = self._pending, None
            return [self._launch(option, "retry", now)]
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
        return self._hedge_due() if self._pending is None else self._retry_due(self._pending)

    def disputed(self, attempt: int) -> bool:
        """Tell whether content of that attempt may decide something, so that it is reported."""
        return self._until == "content" or self._is_rivalled(attempt)

    def _is_rivalled(self, attempt: int) -> bool:
        """Tell whether content of that attempt takes the others out of the race."""
        if len(self._live) < 2 or attempt not in self._live:
            return False
        return self._hedge.winner == "first-delivered" or not self._anybody_has_content()

    # Racing

    def _launch(
        self, option: Option, kind: AttemptKind, now: int, reason: HedgeReason | None = None
    ) -> Launch:
        target, goes_on = option.target, option.goes_on
        self._live[self._launched] = _Live(self._launched, target, kind, now, goes_on)
        self._launched += 1
        self._targets.launched(target, now)
        return Launch(target, kind, reason, goes_on)

    def _commit(self, attempt: int) -> Commit:
        self._committed = self._live.get(attempt)
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
        since = live.launched if live.last is None else live.last
        return max(live.excused, since + self._silence(live))

    def _silence(self, live: _Live) -> int:
        """Give how long an attempt may bring no content."""
        if live.first is None or live.last is None:
            return self._thresholds.after_ns(live.target)
        return self._thresholds.stall_after_ns(live.target, live.last - live.first)

    def _silence_of_front(self) -> int:
        front = self.front()
        return 0 if front is None else self._silence(self._live[front])

    def _start_hedge(self, now: int) -> list[Decision]:
        for live in self._live.values():
            self._targets.fell_silent(live.target)
        reason = self._hedge_reason()
        found = self._plan_hedge(reason, now)
        if isinstance(found, Option):
            return [self._launch(found, "hedge", now, reason)]
        self._ask_again[reason] = now + self._silence_of_front()
        return [Refuse(reason, found)]

    def _plan_hedge(self, reason: HedgeReason, now: int) -> Option | RefusalReason:
        """Say where a hedge starts, and then it is paid for, or why none does."""
        if self._launched >= self._hedge.max_attempts:
            return "max_attempts"
        busy, reuse = {live.target for live in self._live.values()}, self._hedge.same_target
        option = self._targets.hedge(busy, now, reuse=reuse)
        if option is None:
            return self._targets.why_none(now, reuse=reuse)
        if not self._purse.may_waste(now):
            return "token_budget"
        return option if self._purse.take(above_half=reason == "ttft") else self._why_unpaid()

    def _why_unpaid(self) -> RefusalReason:
        return "throttled" if self._purse.is_throttled else "budget"

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
            return self._targets.why_none(now)
        timely = [option for option in options if self._in_time(option.due)]
        if not timely:
            return "deadline"
        paid = next((option for option in timely if self._pay(option)), None)
        if paid is None:
            return self._why_unpaid()
        self._retries += 1
        self._pending = paid
        return None

    def _retry_due(self, pending: Option) -> int:
        later = self._targets.due(pending)
        return later if self._in_time(later) else pending.due

    def _in_time(self, due: int) -> bool:
        return self._deadline is None or due < self._deadline

    def _pay(self, option: Option) -> bool:
        if option.is_sound and self._targets.untried(option.target) and not self._failed_over:
            self._failed_over = True
            self._purse.charge()
            return True
        return self._purse.take()
