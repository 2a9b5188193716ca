"""One call: what was asked, its attempts, what became of each, and the figures of it all."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import attrs

from .attempt import Attempt, Watched
from .continuation import Continuation
from .core.failures import is_refusal
from .core.gate import AttemptState, Gate, RaceState
from .core.units import ns
from .errors import DeadlineExceeded, GatewayClosed, GatewayError, InternalError
from .lessons import Lessons
from .narrator import Narrator
from .net.clock import now_ns, trio_deadline
from .net.lateness import LoopWatch
from .record import attempt_record, call_record
from .reporting import Audience
from .stats import Seam

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    import trio

    from .core.decisions import Launch, Refuse
    from .core.failures import Failure
    from .instrument import CallOutcome
    from .messages import Completion
    from .order import Order
    from .stats import AttemptStats, CallStats, Outcome, RefusalReason, SeamKind
    from .wire.dialect import WireRequest

    G = TypeVar("G", bound=GatewayError)

_OUTCOMES: Mapping[AttemptState, Outcome | None] = {
    AttemptState.RUNNING: None,
    AttemptState.WON: "won",
    AttemptState.LOST: "lost",
    AttemptState.FAILED: "failed",
    AttemptState.CANCELLED: "cancelled",
}


@attrs.frozen(kw_only=True)
class Observers:
    """Who wants to know how a gateway's calls fare."""

    loop: LoopWatch
    accounts: Audience
    """The gateway's own accounts. They are told of the ends of calls only."""

    audience: Audience


class Call:
    """Owns the attempts of a call. Times are nanoseconds of the one clock."""

    def __init__(self, order: Order, encoded: WireRequest, observers: Observers) -> None:
        """Begin a call.

        Args:
            order: what was asked for.
            encoded: the request as the primary is sent it.
            observers: who wants to know how it fares.
        """
        self.order: Order = order
        self.started_ns: int = now_ns()
        self.committed_ns: int | None = None
        """When the gate chose; ``None`` before."""

        self.ended_ns: int | None = None
        """When the call ended, however; ``None`` while it runs."""

        self.gate: Gate = Gate()
        self.attempts: list[Attempt] = []
        """By index, like the gate's."""

        self.failures: list[Failure] = []
        """What attempts failed with, in order; each has the one before it as its cause."""

        self.refused: Counter[RefusalReason] = Counter()
        """How many hedges that were due did not start, by why."""

        self.error: GatewayError | None = None
        """What the application is told; ``None`` unless the call failed."""

        self.shut_down: bool = False
        """Whether the gateway was left while the call ran."""

        limit = order.deadline_s
        self.deadline_ns: int | None = None if limit is None else self.started_ns + ns(limit)
        self.scope: trio.CancelScope | None = None
        """Around the latest race; ``None`` before the first."""

        self.delivered: str = ""
        """The text that the caller has, as far as it belongs to the answer, when a rescue begins.
        """

        self._encoded: WireRequest | None = encoded  # until the first attempt is made
        self._observers = observers
        self._narrator = Narrator(observers.audience, model=order.model, stream=order.streamed)
        self._watched = Watched(
            loop=observers.loop,
            traces=self._narrator.wants_traces,
            on_stall=self._narrator.stalled if self._narrator.hears_stalls else None,
        )
        self._lessons = Lessons(order.lineup.candidates, order.thresholds, order.purse)
        self._winner: Attempt | None = None
        """The attempt that was committed last; ``None`` before."""

        self._kept: set[int] = set()
        """The attempts whose content is part of what the caller got."""

        self._seams: list[Seam] = []

        self._subject: Attempt | None = None
        """The attempt that the error is about; ``None`` if there is none."""

        self._recorded: set[int] = set()
        """Attempts of whose end was told."""

        self._final: CallStats | None = None
        """Its figures; ``None`` until it is settled."""

        self._narrator.call_started(self.started_ns, order.lineup.routes)

    # Attempts

    def govern(self, scope: trio.CancelScope) -> None:
        """Have the deadline and whoever abandons the call cancel *scope*, around a race."""
        self.scope = scope
        if self.deadline_ns is not None:
            scope.deadline = trio_deadline(self.deadline_ns)

    def launch(self, launch: Launch) -> Attempt:
        """Make the next attempt."""
        order = self.order
        continuation = self._continuation() if launch.goes_on else None
        prefix = "" if continuation is None else continuation.prefix
        attempt = Attempt(
            order.lineup.routes[launch.target],
            self._encoder(launch.target, prefix),
            launch,
            index=self.gate.launch(),
            continuation=continuation,
            policy=order.stream,
            limits=order.limits,
            watched=self._watched,
        )
        self.attempts.append(attempt)
        self._lessons.begun(attempt)
        self._narrator.attempt_started(attempt)
        return attempt

    def _encoder(self, target: int, prefix: str) -> Callable[[], WireRequest]:
        """Give what encodes the request; the first attempt's is encoded, and is not kept here."""
        encoded, self._encoded = self._encoded, None
        if encoded is not None:
            return lambda: encoded
        request = self.order.request
        asked = attrs.evolve(request, prefix=prefix) if prefix else request
        return partial(self.order.lineup.routes[target].encode, asked)

    def _continuation(self) -> Continuation:
        may_begin_anew = self.order.stream.recovery == "continue-or-restart"
        return Continuation(self.delivered, may_begin_anew=may_begin_anew)

    def fell_silent(self, attempt: Attempt) -> None:
        """Note that *attempt* has been silent for so long that a hedge is due."""
        self._lessons.fell_silent(attempt)

    def refuse(self, refusal: Refuse) -> None:
        """Note that a hedge was due and did not start."""
        self.refused[refusal.why] += 1
        self._narrator.hedge_refused(refusal)

    def commit(self, winner: int) -> None:
        """Let *winner* speak from now on, and end every other attempt."""
        losers = self.gate.commit(winner)
        before, self._winner = self._winner, self.attempts[winner]
        now = now_ns()
        if self.committed_ns is None:
            self.committed_ns = now
            self._kept.add(winner)
        with ExitStack() as closing:
            for loser in losers:
                closing.callback(self._cancel, self.attempts[loser], "lost the race")
        if self._winner is not before:
            self._narrator.committed(self._winner, now)

    def reopen(self) -> None:
        """Let others compete with the attempt that was committed, or take its place."""
        if self.gate.race is RaceState.COMMITTED:
            self.gate.reopen()

    def stand_down(self, incumbent: Attempt) -> None:
        """Let *incumbent* go on alone, unless it failed; what competes with it is ended.

        Raises:
            InternalError: a connection could not be closed; all others were.
        """
        rivals = [index for index in self.gate.contenders() if index != incumbent.index]
        for index in rivals:
            self.gate.cancel(index)
        if self.gate.may_speak(incumbent.index):
            self.gate.commit(incumbent.index)
        with _Closing() as closing:
            for index in rivals:
                closing.callback(self._cancel, self.attempts[index], "caller")

    def join(self, kind: SeamKind, before: Attempt, after: Attempt) -> None:
        """Note that the caller was told of a seam.

        Args:
            kind: what becomes of what was delivered before it.
            before: the attempt that was delivered before it.
            after: the attempt that is delivered from now on.
        """
        if kind == "restart":
            self._kept.clear()
        self._kept.add(after.index)
        now = now_ns()
        seam = Seam(
            kind=kind,
            before=before.index,
            after=after.index,
            at_ms=(now - self.started_ns) / 1e6,
            characters=len(self.delivered),
        )
        self._seams.append(seam)
        self._narrator.seam(seam, now)

    def lose(self, attempt: int, reason: str) -> None:
        """Take an attempt out of the open race."""
        self.gate.lose(attempt)
        self._cancel(self.attempts[attempt], reason)

    def _cancel(self, attempt: Attempt, reason: str) -> None:
        try:
            attempt.cancel(reason)
        finally:
            self._record(attempt)

    def fail(self, attempt: Attempt, failure: Failure) -> None:
        """Note that *attempt* ended by its own fault."""
        self.gate.fail(attempt.index)
        # To go on with an answer was our idea: a target that does not do so is not what the call
        # failed with.
        silent = not attempt.timeline.chunk_count
        if not (attempt.continuation is not None and silent and is_refusal(failure)):
            failure.__cause__ = self.failures[-1] if self.failures else None
            self.failures.append(failure)
        self._record(attempt)

    def abandon(self, reason: str) -> None:
        """End the call: every attempt that is still under way is cancelled from outside.

        Raises:
            InternalError: a connection could not be closed; all others were.
        """
        if self.scope is not None and self.ended_ns is None:
            self.scope.cancel(reason=reason)
        self.end()
        with _Closing() as closing:
            for attempt in self.attempts:
                closing.callback(self._abandon, attempt, reason)

    def _abandon(self, attempt: Attempt, reason: str) -> None:
        state = self.gate.attempts[attempt.index]
        if state is AttemptState.RUNNING or (state is AttemptState.WON and not attempt.whole):
            self.gate.cancel(attempt.index)
            self._cancel(attempt, reason)
        else:
            attempt.close()

    def shut(self) -> None:
        """End the call because the gateway is left: whoever waits in it learns of it."""
        self.shut_down = True
        self.abandon("shutdown")

    def end(self) -> int:
        """Note that the call has ended, and give when. Only the first time counts."""
        if self.ended_ns is None:
            self.ended_ns = now_ns()
            self.gate.end()
        return self.ended_ns

    def settle(self) -> None:
        """End the call and put it on record, once all that is to be known of it is. Only once."""
        ended = self.end()
        if self._final is not None or not self.attempts:  # interrupted before the first one
            return
        front = self._front()
        for attempt in self.attempts:
            self._record(attempt)
        self._final = self.stats(front)
        self._lessons.spent(self.attempts, self._final)
        event = self._narrator.call_ended(
            front, self._final, at_ns=ended, outcome=self._outcome(), error=self.error
        )
        self._observers.accounts.tell(event)

    def _record(self, attempt: Attempt) -> None:
        """Tell of an attempt's end, once."""
        if attempt.index not in self._recorded:
            self._recorded.add(attempt.index)
            self._lessons.ended(attempt)
            if self._narrator.is_heard:
                self._narrator.attempt_ended(attempt, self._attempt_stats(attempt))

    def _outcome(self) -> CallOutcome:
        if self.error is not None:
            return "failed"
        is_whole = self._winner is not None and self._winner.whole
        return "complete" if is_whole else "cancelled"

    # Figures

    def attempt_stats(self) -> tuple[AttemptStats, ...]:
        """Give the record of every attempt up to now."""
        return tuple(map(self._attempt_stats, self.attempts))

    def stats(self, front: Attempt) -> CallStats:
        """Give the figures of the call up to now, its stream being *front*'s."""
        return self._final or call_record(
            self.attempt_stats(),
            front,
            called_ns=self.started_ns,
            committed_ns=self.committed_ns,
            ended_ns=self.ended_ns,
            refused=self.refused,
            seams=self._seams,
            holdout=self.order.holdout,
        )

    def _attempt_stats(self, attempt: Attempt) -> AttemptStats:
        return attempt_record(
            attempt,
            called_ns=self.started_ns,
            outcome=_OUTCOMES[self.gate.attempts[attempt.index]],
            winner=self._winner,
            kept=attempt.index in self._kept,
        )

    def _front(self) -> Attempt:
        """Give the attempt whose figures are the call's.

        The winner; if nobody won, the one that the error is about, else the latest to speak.
        """
        latest = max(self.attempts, key=lambda each: each.timeline.last_ns or 0)
        return self._winner or self._subject or latest

    def completion(self, attempt: Attempt) -> Completion:
        """Give what *attempt*, whose reply has begun, has received up to now."""
        decoder, head, continuation = attempt.decoder, attempt.head, attempt.continuation
        if decoder is None or head is None:
            raise InternalError(f"{attempt} has no reply (please report it)")
        return decoder.answer.completion(
            target=attempt.route.name,
            request_id=attempt.request_id,
            headers=head.headers,
            stats=self.stats(attempt),
            ended=attempt.whole,
            before="" if continuation is None else continuation.before,
            withheld=0 if continuation is None else continuation.withheld,
        )

    # Failing

    def interrupted(self, front: Attempt | None) -> DeadlineExceeded | GatewayClosed:
        """Say what ended the call from outside while *front* was ahead."""
        error: DeadlineExceeded | GatewayClosed
        model = self.order.model
        count = f"{len(self.attempts)} attempt{'s' if len(self.attempts) != 1 else ''}"
        if self.shut_down:
            error = GatewayClosed(f"the gateway was left while the call to {model!r} ran ({count})")
        else:
            error = DeadlineExceeded(
                f"the call to {model!r} took longer than {self.order.deadline_s:g} s"
                f" (deadline_s; {count})"
            )
        error.__cause__ = self.failures[-1] if self.failures else None
        return self.describe(error, front)

    def describe(self, error: G, attempt: Attempt | None) -> G:
        """Put the record of every attempt into *error*, and what *attempt* had received."""
        self.error, self._subject = error, attempt
        error.attempts = self.attempt_stats()
        if attempt is not None and attempt.timeline.chunk_count:
            error.partial = self.completion(attempt)
        return error


class _Closing(ExitStack):
    """Closes all that is put on it, and only then tells what could not be closed."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return super().__exit__(kind, error, traceback)
        except Exception as trouble:
            raise InternalError.because(trouble) from trouble
