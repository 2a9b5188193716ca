"""The commit gate: at most one attempt ever speaks to the caller."""

# Theory of operation
# ===================
#
# There are two machines: one for the race, one for each attempt in it.
#
# Rule 1: every transition is in one of the two tables below. What is not in the table cannot
#         happen: the event raises IllegalTransition and changes nothing.
# Rule 2: no edge leads back for an attempt: one that lost, failed or was cancelled is never heard
#         again. Two model outputs cannot be spliced, so once the caller may have seen one of them
#         the others are worthless.
# Rule 3: a commit is one step: the winner wins and every other attempt that runs, or has won
#         before, loses in it.
# Rule 4: an attempt may speak while it runs in an open race, or when it has won. Nothing else
#         speaks, whatever it had read before it lost.
# Rule 5: a race is reopened only to rescue a stream that was delivered in part. The attempt that
#         won stays in it, unless it failed; if another one wins, the caller is told at which place.
# Rule 6: methods are synchronous. Between two checkpoints nothing else runs, so a call of a method
#         is the linearisation point of the race and needs no lock.
# Rule 7: what became of an attempt is what this file says, not which exception it happened to see.

from __future__ import annotations

import enum
from typing import TypeVar

S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)


class RaceState(enum.Enum):
    """Where a race is."""

    RACING = "racing"
    COMMITTED = "committed"
    ENDED = "ended"


class RaceEvent(enum.Enum):
    """What can happen to a race."""

    COMMIT = "commit"
    REOPEN = "reopen"
    END = "end"


class AttemptState(enum.Enum):
    """What has become of an attempt."""

    RUNNING = "running"
    WON = "won"
    LOST = "lost"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptEvent(enum.Enum):
    """What can happen to an attempt."""

    WIN = "win"
    LOSE = "lose"
    FAIL = "fail"
    CANCEL = "cancel"


RACE_TRANSITIONS: dict[tuple[RaceState, RaceEvent], RaceState] = {
    (RaceState.RACING, RaceEvent.COMMIT): RaceState.COMMITTED,
    (RaceState.RACING, RaceEvent.END): RaceState.ENDED,
    (RaceState.COMMITTED, RaceEvent.REOPEN): RaceState.RACING,
    (RaceState.COMMITTED, RaceEvent.END): RaceState.ENDED,
}

ATTEMPT_TRANSITIONS: dict[tuple[AttemptState, AttemptEvent], AttemptState] = {
    (AttemptState.RUNNING, AttemptEvent.WIN): AttemptState.WON,
    (AttemptState.RUNNING, AttemptEvent.LOSE): AttemptState.LOST,
    (AttemptState.RUNNING, AttemptEvent.FAIL): AttemptState.FAILED,
    (AttemptState.RUNNING, AttemptEvent.CANCEL): AttemptState.CANCELLED,
    # A winner may still break, or be left by its caller, before its proper end; and in a race that
    # was reopened it wins again, or loses to whoever speaks before it does.
    (AttemptState.WON, AttemptEvent.WIN): AttemptState.WON,
    (AttemptState.WON, AttemptEvent.LOSE): AttemptState.LOST,
    (AttemptState.WON, AttemptEvent.FAIL): AttemptState.FAILED,
    (AttemptState.WON, AttemptEvent.CANCEL): AttemptState.CANCELLED,
}


class IllegalTransition(Exception):
    """An event that the tables do not know: a defect of whoever sent it."""


class Gate:
    """Decides whose content may pass, and keeps what became of each attempt."""

    def __init__(self) -> None:
        self.race: RaceState = RaceState.RACING
        self.attempts: list[AttemptState] = []
        """State of each attempt, by index."""

    def launch(self) -> int:
        """Let another attempt into the open race and give its index."""
        if self.race is not RaceState.RACING:
            raise IllegalTransition(f"no launch: the race is {self.race.value}")
        self.attempts.append(AttemptState.RUNNING)
        return len(self.attempts) - 1

    def may_speak(self, attempt: int) -> bool:
        """Tell whether content of that attempt may pass."""
        state = self.attempts[attempt]
        if self.race is RaceState.RACING and state is AttemptState.RUNNING:
            return True
        return self.race is not RaceState.ENDED and state is AttemptState.WON

    def commit(self, winner: int) -> list[int]:
        """Make *winner* the one that speaks; give the attempts that thereby lost."""
        race = _next(RACE_TRANSITIONS, self.race, RaceEvent.COMMIT)
        won = _next(ATTEMPT_TRANSITIONS, self.attempts[winner], AttemptEvent.WIN)
        self.race = race
        self.attempts[winner] = won
        losers = [each for each in self.contenders() if each != winner]
        for loser in losers:
            self.lose(loser)
        return losers

    def reopen(self) -> None:
        """Let attempts compete again, the one that won among them."""
        self.race = _next(RACE_TRANSITIONS, self.race, RaceEvent.REOPEN)

    def lose(self, attempt: int) -> None:
        """Take an attempt out of the race because another one is better."""
        self._fire(attempt, AttemptEvent.LOSE)

    def fail(self, attempt: int) -> None:
        """Note that an attempt ended by its own fault."""
        self._fire(attempt, AttemptEvent.FAIL)

    def cancel(self, attempt: int) -> None:
        """Note that an attempt was ended from outside: caller, deadline or shutdown."""
        self._fire(attempt, AttemptEvent.CANCEL)

    def end(self) -> None:
        """Close the race; nobody speaks any more."""
        self.race = _next(RACE_TRANSITIONS, self.race, RaceEvent.END)

    def contenders(self) -> list[int]:
        """Give the attempts that run, or have won and have not ended otherwise."""
        alive = (AttemptState.RUNNING, AttemptState.WON)
        return [i for i, state in enumerate(self.attempts) if state in alive]

    def _fire(self, attempt: int, event: AttemptEvent) -> None:
        self.attempts[attempt] = _next(ATTEMPT_TRANSITIONS, self.attempts[attempt], event)


def _next(table: dict[tuple[S, E], S], state: S, event: E) -> S:
    try:
        return table[state, event]
    except KeyError:
        raise IllegalTransition(f"{event.value} while {state.value}") from None
