"""Everything that can happen to a call with two targets, in every order, up to a depth.

What must hold at each step is checked by the driver: no decision after the end, none about an
attempt that does not live, no more attempts than allowed, no wake-up twice at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs
import pytest

from polygateway.core.budget import Purse
from polygateway.core.decisions import Commit, Rescue
from polygateway.core.targets import Candidate
from polygateway.errors import (
    AuthenticationFailed,
    FirstContentTimeout,
    InvalidRequest,
    ServerError,
)
from polygateway.policies import HedgePolicy, RetryPolicy, Winner
from tests.core.driver import SECOND, Drive, Until, failure, limited

if TYPE_CHECKING:
    from collections.abc import Iterator

Step: TypeAlias = tuple[str, int]
"""What happens, and to which attempt; below 0 to none in particular."""

FAILURES = {
    "breaks": failure(ServerError),
    "is silent": failure(FirstContentTimeout),
    "is limited": limited(1),
    "refuses the key": failure(AuthenticationFailed),
    "refuses the request": failure(InvalidRequest, status=400),
}

TIME: Step = ("time passes", -1)
GIVEN_UP: Step = ("is given up", -1)

MOST_ATTEMPTS = 3
MOST_RETRIES = 2


@attrs.frozen(kw_only=True)
class Setting:
    """A call, and how much of it is explored."""

    until: Until
    winner: Winner = "first-delivered"
    burst: int = 10
    deadline: int | None = None
    hold_back: int = 0
    rescue: Rescue | None = None
    """What may be started when it was delivered in part, as it is when the exploration begins."""

    depth: int = 5

    def call(self) -> Drive:
        call = Drive(
            candidates=[Candidate(prefill=True), Candidate()],
            until=self.until,
            hedge=HedgePolicy(winner=self.winner, max_attempts=MOST_ATTEMPTS, stall_after_s=3),
            retry=RetryPolicy(max_retries=MOST_RETRIES),
            purse=Purse(ratio=0, burst=self.burst),
            deadline=self.deadline,
            hold_back=self.hold_back,
            rescue=self.rescue or "restart",
        )
        if self.rescue is not None:
            call.content(0, SECOND)
        return call

    def steps(self, call: Drive) -> Iterator[Step]:
        """Give what can happen next."""
        delivering = call.delivering()
        if delivering is not None and self.rescue is not None:
            yield "falls silent", delivering
            for name in FAILURES:
                yield name, delivering
        for attempt in call.alive():
            yield "content", attempt
            yield "end", attempt
            for name in FAILURES:
                yield name, attempt
        if call.wake() is not None:
            yield TIME
            if self.rescue is not None:
                yield GIVEN_UP

    def play(self, past: tuple[Step, ...]) -> Drive:
        call = self.call()
        for step in past:
            take(call, step)
        return call

    def calls(self, past: tuple[Step, ...] = ()) -> Iterator[Drive]:
        """Give a call for everything that can have happened within so many steps."""
        call = self.play(past)
        steps = list(self.steps(call)) if len(past) < self.depth else []
        yield call
        for step in steps:
            yield from self.calls((*past, step))


SETTINGS = [
    Setting(until="content"),
    Setting(until="content", burst=1, deadline=7 * SECOND),
    Setting(until="content", hold_back=SECOND, depth=4),
    Setting(until="content", hold_back=2 * SECOND, winner="first-complete", depth=4),
    Setting(until="end"),
    Setting(until="end", burst=1, deadline=7 * SECOND),
    Setting(until="end", winner="first-complete"),
    Setting(until="end", winner="first-complete", burst=1, deadline=7 * SECOND),
    Setting(until="content", rescue="restart", depth=4),
    Setting(until="content", rescue="continue", depth=4),
    Setting(until="content", rescue="continue-or-restart", burst=1, deadline=9 * SECOND, depth=4),
]


def take(call: Drive, step: Step) -> None:
    """Let one thing happen: before anything else is due, or just then and first."""
    name, attempt = step
    wake = call.wake()
    soon = call.now + SECOND if wake is None else min(call.now + SECOND, wake)
    if step == TIME:
        assert wake is not None
        call.wait(wake)
    elif step == GIVEN_UP:
        call.give_up(soon)
    elif name == "falls silent":
        call.fall_silent(max(call.now, call.silent_at() or 0))
    elif name == "content":
        call.content(attempt, soon)
    elif name == "end":
        call.end(attempt, soon)
    elif call.delivering() is None:
        call.fail(attempt, FAILURES[name], soon)
    else:
        call.break_off(FAILURES[name], soon)


def check(call: Drive, burst: int) -> None:
    hedges, retries = call.kinds().count("hedge"), call.kinds().count("retry")
    assert len(call.launches) == 1 + hedges + retries
    assert retries <= MOST_RETRIES
    assert hedges <= MOST_ATTEMPTS - 1
    pending = call.outcome is None and not call.alive()
    assert call.purse.level == burst - hedges - retries - pending, "not paid, or paid twice"
    speakers = [index for index in range(len(call.launches)) if call.gate.may_speak(index)]
    if call.outcome is None:
        assert call.wake() is not None, "nothing will ever happen again by itself"
        assert speakers == call.gate.contenders()
    else:
        assert speakers == ([call.outcome.attempt] if isinstance(call.outcome, Commit) else [])


def let_everything_fail(call: Drive) -> None:
    """Bring a call to its end, which must come soon."""
    for _ in range(3 * (MOST_ATTEMPTS + MOST_RETRIES)):
        breaking = call.alive() or [each for each in [call.delivering()] if each is not None]
        if not breaking and call.outcome is not None:
            return
        take(call, ("breaks", breaking[0]) if breaking else TIME)
    pytest.fail("it does not end")


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_order_of_events_breaks_a_call(setting: Setting) -> None:
    outcomes: set[str] = set()
    for call in setting.calls():
        check(call, setting.burst)
        outcomes.add(type(call.outcome).__name__)
        let_everything_fail(call)
    assert outcomes == {"Commit", "Fail", "NoneType"}
