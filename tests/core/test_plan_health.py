"""What is held of targets, and what is left to spend, steers hedges and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway.core.allowance import Allowance
from polygateway.core.budget import Purse
from polygateway.core.decisions import Fail, Launch
from polygateway.core.targets import Candidate
from polygateway.errors import AuthenticationFailed, ServerError, Truncated
from polygateway.policies import HedgePolicy, RetryPolicy
from tests.core.driver import SECOND, START, Drive, Until, failure, limited
from tests.core.standings import State, end_well, fail, fall_silent, health_of

if TYPE_CHECKING:
    from polygateway.core.health import Health
    from polygateway.stats import RefusalReason

UNTIL: list[Until] = ["content", "end"]

REFUSED_KEY = failure(AuthenticationFailed)


def call_to(
    *targets: State | Health,
    until: Until = "end",
    hedge: HedgePolicy | None = None,
    retry: RetryPolicy | None = None,
    purse: Purse | None = None,
    deadline: int | None = None,
) -> Drive:
    """Give a call to targets in such states. The silence of 5 s is that of hedges."""
    healths = [health_of(each) if isinstance(each, str) else each for each in targets]
    return Drive(
        candidates=[Candidate(health=health) for health in healths],
        until=until,
        hedge=hedge or HedgePolicy(after_s=5, stall_after_s=5),
        retry=retry,
        purse=purse,
        deadline=deadline,
    )


def launches(call: Drive) -> list[tuple[float, int, str]]:
    """Give when, where and as what each attempt after the first was started."""
    return [
        (at / SECOND, each.target, each.kind)
        for at, each in call.log[1:]
        if isinstance(each, Launch)
    ]


def throttled() -> Purse:
    """Give a full purse of a model most of whose attempts fail."""
    purse = Purse(ratio=0, burst=10)
    for _ in range(10):
        purse.launched(START - SECOND)
        purse.failed(START - SECOND, START - SECOND)
    assert purse.is_throttled
    return purse


# Hedges


@pytest.mark.parametrize("until", UNTIL)
@pytest.mark.parametrize(
    ("others", "target"),
    [
        (["healthy", "due"], 1),
        (["due", "healthy"], 2),
        (["open", "healthy"], 2),
        (["resting", "healthy"], 2),
        (["degraded", "healthy"], 2),
        (["open", "due"], 2),
        (["degraded", "due"], 2),
        (["open", "resting"], 0),
        (["degraded", "degraded"], 0),
    ],
)
def test_a_hedge_goes_where_it_has_the_best_chances(
    until: Until, others: list[State], target: int
) -> None:
    call = call_to("healthy", *others, until=until)
    call.wait(5 * SECOND)
    assert launches(call) == [(5, target, "hedge")]


def test_a_degraded_target_gets_a_hedge_when_nothing_better_is_left() -> None:
    call = call_to("healthy", "degraded", hedge=HedgePolicy(after_s=5, same_target=False))
    call.wait(5 * SECOND)
    assert launches(call) == [(5, 1, "hedge")]


@pytest.mark.parametrize("until", UNTIL)
@pytest.mark.parametrize(("state", "why"), [("open", "breaker"), ("resting", "rate_limited")])
def test_no_hedge_goes_to_what_is_failing_or_asked_not_to_be_tried(
    until: Until, state: State, why: RefusalReason
) -> None:
    policy = HedgePolicy(after_s=5, same_target=False)
    call = call_to("healthy", state, until=until, hedge=policy)
    call.wait(5 * SECOND)
    assert launches(call) == []
    assert call.refused == {why: 1}


def test_it_gets_one_as_soon_as_that_is_over() -> None:
    policy = HedgePolicy(after_s=5, same_target=False)
    call = call_to("healthy", "open", hedge=policy)
    call.wait(60 * SECOND)
    assert launches(call) == [(10, 1, "hedge")]  # asked for again at 10 s, when a probe is due
    call = call_to("healthy", "resting", hedge=policy)
    call.wait(99 * SECOND)
    assert launches(call) == [(60, 1, "hedge")]
    assert call.refused["rate_limited"] == 11


def test_of_targets_that_are_due_only_one_call_sends_a_probe() -> None:
    shared = health_of("due")
    policy = HedgePolicy(after_s=5, same_target=False)
    calls = [call_to("healthy", shared, hedge=policy) for _ in range(3)]
    for call in calls:
        call.wait(5 * SECOND)
    assert [launches(call) for call in calls] == [[(5, 1, "hedge")], [], []]
    assert calls[1].refused == {"breaker": 1}


def test_a_target_that_is_silent_is_hedged_again_unless_it_is_known_to_be_failing() -> None:
    shared = health_of("healthy")
    call = call_to(shared)
    fail(shared, START + 4 * SECOND)  # by other calls
    call.wait(5 * SECOND)
    assert call.refused == {"breaker": 1}


def test_a_target_that_fell_silent_too_often_is_the_last_to_get_a_hedge() -> None:
    policy = HedgePolicy(after_s=5, max_attempts=2)
    shared = health_of("healthy")
    for _ in range(10):
        call = call_to("healthy", shared, hedge=policy)
        call.wait(5 * SECOND)
        assert launches(call) == [(5, 1, "hedge")]
        call.wait(10 * SECOND)  # and is silent
    assert shared.standing(START) == "degraded"
    call = call_to("healthy", shared, hedge=policy)
    call.wait(5 * SECOND)
    assert launches(call) == [(5, 0, "hedge")]


def test_a_silence_is_told_once_however_often_it_is_noticed() -> None:
    health = health_of("healthy")
    call = call_to(health, hedge=HedgePolicy(after_s=5, max_attempts=1))
    call.wait(100 * SECOND)
    assert call.refused == {"max_attempts": 20}
    assert health.standing(START + call.now) == "healthy"
    fall_silent(health, START + call.now, 8)
    assert health.standing(START + call.now) == "healthy", "nine are not enough"


def test_our_own_cancellations_speak_against_nobody() -> None:
    healths = [health_of("healthy"), health_of("healthy")]
    for _ in range(20):
        call = call_to(*healths)
        call.wait(5 * SECOND)
        call.content(0, 6 * SECOND)
        assert call.states()[1].value == "lost"
    assert healths[1].standing(START) == "healthy"


# A target that failed in the call but answered, when all others are silent


def test_a_hedge_goes_to_a_target_that_answered_before_it_goes_to_a_silent_one_again() -> None:
    call = call_to("healthy", "healthy")
    call.fail(0, limited(), SECOND)
    call.wait(6 * SECOND)
    assert launches(call) == [(1, 1, "retry"), (6, 0, "hedge")]


def test_but_not_before_it_goes_to_one_that_is_untried() -> None:
    call = call_to("healthy", "healthy", "healthy")
    call.fail(0, limited(), SECOND)
    call.wait(6 * SECOND)
    assert launches(call) == [(1, 1, "retry"), (6, 2, "hedge")]


@pytest.mark.parametrize(
    "state_of_the_first", ["not its fault", "asked for 30 s", "hopeless", "open"]
)
def test_nor_if_it_will_not_do(state_of_the_first: str) -> None:
    health = health_of("healthy")
    call = call_to(health, "healthy")
    match state_of_the_first:
        case "asked for 30 s":
            call.fail(0, limited(30), SECOND)
        case "hopeless":
            call.fail(0, REFUSED_KEY, SECOND)
        case _:
            call.fail(0, limited(), SECOND)
    if state_of_the_first == "open":
        fail(health, START + 2 * SECOND)
    call.wait(6 * SECOND)
    hedged = 0 if state_of_the_first == "not its fault" else 1
    assert launches(call) == [(1, 1, "retry"), (6, hedged, "hedge")]


def test_a_single_target_that_failed_once_is_hedged_too() -> None:
    call = call_to("healthy")
    call.fail(0, failure(ServerError), SECOND)
    call.wait(7 * SECOND)
    assert launches(call) == [(1.375, 0, "retry"), (6.375, 0, "hedge")]


# Retries


@pytest.mark.parametrize("state", ["open", "resting", "degraded"])
def test_a_failover_goes_to_a_healthy_target(state: State) -> None:
    call = call_to("healthy", state, "healthy")
    call.fail(0, REFUSED_KEY, SECOND)
    assert launches(call) == [(1, 2, "retry")]


@pytest.mark.parametrize("state", ["healthy", "due", "degraded", "degraded, due"])
def test_the_first_failover_to_a_target_that_may_be_tried_is_never_refused(state: State) -> None:
    for purse in (Purse(ratio=0, burst=0), throttled()):
        call = call_to("healthy", state, purse=purse)
        call.fail(0, REFUSED_KEY, SECOND)
        assert launches(call) == [(1, 1, "retry")]


@pytest.mark.parametrize(("state", "at"), [("open", 1), ("resting", 60)])
def test_the_last_target_left_is_always_tried_if_it_can_be_paid_for(
    state: State, at: float
) -> None:
    purse = Purse(ratio=0, burst=1)
    call = call_to("healthy", state, purse=purse)
    call.fail(0, REFUSED_KEY, SECOND)
    call.wait(99 * SECOND)
    assert launches(call) == [(at, 1, "retry")]
    assert purse.level == 0


@pytest.mark.parametrize("state", ["open", "resting"])
@pytest.mark.parametrize(
    ("purse", "why"), [(Purse(ratio=0, burst=0), "budget"), (throttled(), "throttled")]
)
def test_and_else_it_is_said_why_not(state: State, purse: Purse, why: RefusalReason) -> None:
    call = call_to("healthy", state, purse=purse)
    call.fail(0, REFUSED_KEY, SECOND)
    assert call.outcome == Fail(0, why)


def test_a_free_failover_is_left_for_a_healthy_target_when_a_last_resort_was_paid_for() -> None:
    shared = health_of("open")
    purse = Purse(ratio=0, burst=1)
    call = call_to("healthy", shared, shared, purse=purse)
    call.fail(0, REFUSED_KEY, SECOND)
    end_well(shared, START + SECOND)
    call.fail(1, REFUSED_KEY, 2 * SECOND)
    assert launches(call) == [(1, 1, "retry"), (2, 2, "retry")]
    assert purse.level == -1


def test_a_target_whose_breaker_opened_in_the_call_is_not_tried_again() -> None:
    unhedged = HedgePolicy(enabled=False)
    call = call_to("healthy", hedge=unhedged, retry=RetryPolicy(max_retries=9))
    for index in range(5):
        call.wait(call.wake() or 0)
        call.fail(index, failure(ServerError), call.now + 1)
    assert call.outcome == Fail(4, "breaker")


def test_a_target_that_rests_for_too_long_is_not_waited_for() -> None:
    call = call_to("healthy", "resting", retry=RetryPolicy(retry_after_max_s=30))
    call.fail(0, REFUSED_KEY, SECOND)
    assert call.outcome == Fail(0, "rate_limited")


def test_nor_is_one_that_rests_until_after_the_deadline() -> None:
    call = call_to("healthy", "resting", deadline=60 * SECOND)
    call.fail(0, REFUSED_KEY, SECOND)
    assert call.outcome == Fail(0, "deadline")


def test_a_fluke_is_not_slept_away_because_the_other_target_rests() -> None:
    call = call_to("healthy", "resting")
    call.fail(0, failure(ServerError), SECOND)
    call.wait(2 * SECOND)
    assert launches(call) == [(1.375, 0, "retry")]


def test_what_one_target_was_asked_for_is_obeyed_by_every_call() -> None:
    shared = health_of("healthy")
    told, late = call_to(shared), call_to(shared)
    told.fail(0, limited(20), SECOND)
    late.fail(0, failure(ServerError), 2 * SECOND)
    for call in (told, late):
        call.wait(21 * SECOND)
        assert launches(call) == [(21, 0, "retry")]


# A retry that is pending while others are told to wait longer


def waiting_call(
    health: Health, *, retry: RetryPolicy | None = None, deadline: int | None = None
) -> Drive:
    """Give a call whose retry is due at 2 s."""
    call = call_to(health, retry=retry, deadline=deadline)
    call.fail(0, limited(1), SECOND)
    assert call.wake() == 2 * SECOND
    return call


def test_a_pending_retry_obeys_a_longer_wait_that_another_call_is_told() -> None:
    health = health_of("healthy")
    call = waiting_call(health)
    health.rest.ask(20 * SECOND, START + SECOND)
    assert call.wake() == 21 * SECOND
    call.wait(21 * SECOND)
    assert launches(call) == [(21, 0, "retry")]


def test_but_no_wait_that_no_call_would_wait_for() -> None:
    health = health_of("healthy")
    call = waiting_call(health, retry=RetryPolicy(retry_after_max_s=10))
    health.rest.ask(20 * SECOND, START + SECOND)
    call.wait(2 * SECOND)
    assert launches(call) == [(2, 0, "retry")]


@pytest.mark.parametrize(("deadline", "at"), [(21, 2), (22, 21)])
def test_and_none_beyond_its_own_deadline(deadline: int, at: int) -> None:
    health = health_of("healthy")
    call = waiting_call(health, deadline=deadline * SECOND)
    health.rest.ask(20 * SECOND, START + SECOND)
    call.wait(21 * SECOND)
    assert launches(call) == [(at, 0, "retry")]


# What is left to spend


def test_while_most_attempts_fail_nothing_is_hedged_or_tried_again() -> None:
    call = call_to("healthy", "healthy", purse=throttled())
    call.wait(5 * SECOND)
    assert call.refused == {"throttled": 1}
    call = call_to("healthy", purse=throttled())
    call.fail(0, failure(Truncated), SECOND)
    assert call.outcome == Fail(0, "throttled")


@pytest.mark.parametrize("until", UNTIL)
def test_hedges_stop_when_they_have_wasted_what_they_may(until: Until) -> None:
    allowance = Allowance(1000)
    purse = Purse(ratio=0, burst=10, allowance=allowance)
    allowance.waste(999, START)
    call = call_to("healthy", "healthy", until=until, purse=purse)
    call.wait(5 * SECOND)
    assert launches(call) == [(5, 1, "hedge")]
    allowance.waste(1, START)
    call = call_to("healthy", "healthy", until=until, purse=purse)
    call.wait(5 * SECOND)
    assert launches(call) == []
    assert call.refused == {"token_budget": 1}
    assert purse.level == 9, "what is refused costs nothing"


def test_retries_are_not_bound_by_what_hedges_may_waste() -> None:
    allowance = Allowance(0)
    purse = Purse(ratio=0, burst=10, allowance=allowance)
    call = call_to("healthy", purse=purse)
    call.fail(0, failure(ServerError), SECOND)
    call.wait(2 * SECOND)
    assert launches(call) == [(1.375, 0, "retry")]


@pytest.mark.parametrize(
    ("policy", "targets", "why"),
    [
        (HedgePolicy(after_s=5, max_attempts=1), ["open"], "max_attempts"),
        (HedgePolicy(after_s=5, same_target=False), ["open"], "no_target"),
        (HedgePolicy(after_s=5, same_target=False), ["healthy", "open"], "breaker"),
        (HedgePolicy(after_s=5), ["healthy", "healthy"], "token_budget"),
    ],
)
def test_of_several_reasons_the_one_that_lasts_longest_is_told(
    policy: HedgePolicy, targets: list[State], why: RefusalReason
) -> None:
    purse = Purse(ratio=0, burst=0, allowance=Allowance(0))
    call = call_to(*targets, hedge=policy, purse=purse)
    call.wait(5 * SECOND)
    assert call.refused == {why: 1}
