"""Everything that can happen to a call with two targets, in every order, up to a depth.

What must hold at each step is checked by the driver: no decision after the end, none about an
attempt that does not live, no more attempts than allowed, no wake-up twice at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest

from polygateway.core.budget import Purse
from polygateway.core.plan import Commit
from polygateway.errors import (
    AuthenticationFailed,
    FirstContentTimeout,
    InvalidRequest,
    ServerError,
)
from polygateway.policies import HedgePolicy, RetryPolicy, Winner
from tests.core.driver import SECOND, Drive, Until, failure, limited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Step: TypeAlias = tuple[str, int]

FAILURES = {
    "breaks": failure(ServerError),
    "is silent": failure(FirstContentTimeout),
    "is limited": limited(1),
    "refuses the key": failure(AuthenticationFailed),
    "refuses the request": failure(InvalidRequest, status=400),
}

TIME: Step = ("time passes", -1)

DEPTH = 5
MOST_ATTEMPTS = 3
MOST_RETRIES = 2


def steps(call: Drive) -> Iterator[Step]:
    """Give what can happen next."""
    for attempt in call.alive():
        yield "content", attempt
        yield "end", attempt
        for name in FAILURES:
            yield name, attempt
    if call.wake() is not None:
        yield TIME


def take(call: Drive, step: Step) -> None:
    """Let one thing happen: before anything else is due, or just then and first."""
    name, attempt = step
    wake = call.wake()
    soon = call.now + SECOND if wake is None else min(call.now + SECOND, wake)
    if step == TIME:
        assert wake is not None
        call.wait(wake)
    elif name == "content":
        call.content(attempt, soon)
    elif name == "end":
        call.end(attempt, soon)
    else:
        call.fail(attempt, FAILURES[name], soon)


def play(make: Callable[[], Drive], past: tuple[Step, ...]) -> Drive:
    call = make()
    for step in past:
        take(call, step)
    return call


def pasts(make: Callable[[], Drive], depth: int) -> Iterator[tuple[Step, ...]]:
    """Give everything that can have happened within so many steps, the short ones first."""
    level: list[tuple[Step, ...]] = [()]
    for _ in range(depth):
        level = [(*past, step) for past in level for step in steps(play(make, past))]
        yield from level


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
        assert speakers == call.gate.running()
    else:
        assert speakers == ([call.outcome.attempt] if isinstance(call.outcome, Commit) else [])


def let_everything_fail(call: Drive) -> None:
    """Bring a call to its end, which must come soon."""
    for _ in range(2 * (MOST_ATTEMPTS + MOST_RETRIES)):
        if call.outcome is not None:
            return
        alive = call.alive()
        take(call, ("breaks", alive[0]) if alive else TIME)
    assert call.outcome is not None


@pytest.mark.parametrize(("burst", "deadline"), [(10, None), (1, 7 * SECOND)])
@pytest.mark.parametrize(
    ("until", "winner"),
    [("content", "first-delivered"), ("end", "first-delivered"), ("end", "first-complete")],
)
def test_no_order_of_events_breaks_a_call(
    until: Until, winner: Winner, burst: int, deadline: int | None
) -> None:
    def make() -> Drive:
        return Drive(
            targets=2,
            until=until,
            hedge=HedgePolicy(winner=winner, max_attempts=MOST_ATTEMPTS, stall_after_s=3),
            retry=RetryPolicy(max_retries=MOST_RETRIES),
            purse=Purse(ratio=0, burst=burst),
            deadline=deadline,
        )

    outcomes: set[str] = set()
    for past in pasts(make, DEPTH):
        call = play(make, past)
        check(call, burst)
        outcomes.add(type(call.outcome).__name__)
        let_everything_fail(call)
    assert outcomes == {"Commit", "Fail", "NoneType"}
