"""What is tried when no attempt is left: where, when, how often, and at whose cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway.core.budget import Purse
from polygateway.core.decisions import Fail, Launch
from polygateway.errors import (
    AuthenticationFailed,
    ConnectFailed,
    ConnectTimeout,
    ContentFiltered,
    ContextLengthExceeded,
    FirstContentTimeout,
    GatewayBusy,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    QuotaExhausted,
    RateLimited,
    ServerError,
    StallTimeout,
    Truncated,
)
from polygateway.policies import HedgePolicy, RetryPolicy
from tests.core.driver import SECOND, Drive, Until, failure, limited

if TYPE_CHECKING:
    from polygateway.core.failures import Failure
    from polygateway.stats import RefusalReason

UNTIL: list[Until] = ["content", "end"]

UNHEDGED = HedgePolicy(enabled=False)
MANY = RetryPolicy(max_retries=9)

SERVER_ERROR = failure(ServerError)
SILENT = failure(FirstContentTimeout)
REFUSED_KEY = failure(AuthenticationFailed)


def call_of(
    *,
    targets: int = 2,
    until: Until = "end",
    retry: RetryPolicy = MANY,
    purse: Purse | None = None,
    deadline_s: float | None = None,
) -> Drive:
    """Give a call that is not hedged."""
    return Drive(
        targets=targets,
        until=until,
        hedge=UNHEDGED,
        retry=retry,
        purse=purse or Purse(ratio=0, burst=100),
        deadline=None if deadline_s is None else round(deadline_s * SECOND),
    )


def fail_in_turn(call: Drive, *failures: Failure, share: float = 0.5) -> list[tuple[float, int]]:
    """Let each attempt fail 1 s after its launch; give the delay and the target of each retry."""
    retries: list[tuple[float, int]] = []
    for each in failures:
        failed_at = call.log[-1][0] + SECOND
        call.fail(len(call.launches) - 1, each, failed_at, share=share)
        wake = call.wake()
        if wake is not None:
            call.wait(wake)
        at, decision = call.log[-1]
        if isinstance(decision, Launch):
            assert decision.kind == "retry"
            retries.append(((at - failed_at) / SECOND, decision.target))
    return retries


def empty_purse() -> Purse:
    purse = Purse(ratio=0, burst=2)
    for _ in range(2):
        assert purse.take()
    return purse


# Where and when, after one failure of the primary. The middle of the first backoff is 0.375 s.

HERE, THERE = 0, 1


@pytest.mark.parametrize("until", UNTIL)
@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (SERVER_ERROR, (0.375, HERE)),
        (failure(ConnectFailed), (0.375, HERE)),
        (failure(ConnectTimeout), (0, THERE)),
        (failure(FirstContentTimeout), (0, THERE)),
        (failure(StallTimeout), (0, THERE)),
        (failure(Overloaded), (0, THERE)),
        (failure(Truncated), (0, THERE)),
        (failure(ProtocolViolation), (0, THERE)),
        (failure(GatewayBusy), (0, THERE)),
        (failure(RateLimited), (0, THERE)),
        (failure(AuthenticationFailed), (0, THERE)),
        (failure(QuotaExhausted), (0, THERE)),
        (failure(ContextLengthExceeded), (0, THERE)),
        (failure(InvalidRequest, status=404), (0, THERE)),
        # A wait of up to wait_for_target_s is worth it, unless the backoff is longer.
        (limited(0), (0.375, HERE)),
        (limited(0.1), (0.375, HERE)),
        (limited(1), (1, HERE)),
        (limited(2), (2, HERE)),
        (limited(2.001), (0, THERE)),
        (failure(Overloaded, retry_after_s=1.5), (1.5, HERE)),
        (failure(ServerError, retry_after_s=1.5), (1.5, HERE)),
        (failure(ServerError, retry_after_s=30), (0, THERE)),
        # Waiting does not bring a new key.
        (failure(QuotaExhausted, retry_after_s=1), (0, THERE)),
    ],
)
def test_the_first_retry_with_another_target_left(
    until: Until, error: Failure, retry: tuple[float, int]
) -> None:
    assert fail_in_turn(call_of(until=until), error) == [retry]


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (SERVER_ERROR, 0.375),
        (failure(ConnectTimeout), 0.375),
        (failure(StallTimeout), 0.375),
        (failure(Truncated), 0.375),
        (failure(GatewayBusy), 0.375),
        (limited(), 0.375),
        (limited(0.1), 0.375),
        (limited(30), 30),
        (limited(60), 60),
    ],
)
def test_the_first_retry_of_a_model_with_a_single_target(error: Failure, delay: float) -> None:
    assert fail_in_turn(call_of(targets=1), error) == [(delay, HERE)]


@pytest.mark.parametrize(
    ("error", "not_tried"),
    [
        (failure(AuthenticationFailed), "no_target"),
        (failure(QuotaExhausted), "no_target"),
        (failure(ContextLengthExceeded), "no_target"),
        (failure(InvalidRequest, status=404), "no_target"),
        (limited(60.001), "rate_limited"),  # over retry_after_max_s
        (failure(InvalidRequest, status=400), None),
        (failure(ContentFiltered), None),
    ],
)
def test_what_ends_a_call_to_a_single_target(
    error: Failure, not_tried: RefusalReason | None
) -> None:
    call = call_of(targets=1)
    fail_in_turn(call, error)
    assert call.outcome == Fail(0, not_tried)


@pytest.mark.parametrize("until", UNTIL)
@pytest.mark.parametrize("of", [InvalidRequest, ContentFiltered])
def test_a_request_that_is_at_fault_itself_ends_the_call_though_targets_are_left(
    until: Until, of: type[InvalidRequest | ContentFiltered]
) -> None:
    call = call_of(targets=5, until=until)
    call.fail(0, failure(of, status=400), SECOND)
    assert call.log[1:] == [(SECOND, Fail(0, None))]


# Where and when, after several failures


def test_a_target_gets_one_second_try_for_a_fluke_and_then_the_next_one() -> None:
    failures = [SERVER_ERROR] * 4
    retries = fail_in_turn(call_of(targets=3), *failures)
    assert retries == [(0.375, 0), (0, 1), (0.375, 1), (0, 2)]


def test_a_fluke_after_another_failure_of_the_same_target_is_none() -> None:
    assert fail_in_turn(call_of(), limited(1), SERVER_ERROR) == [(1, HERE), (0, THERE)]


@pytest.mark.parametrize(
    ("share", "waits"),
    [
        (0.0, [1, 2, 4, 4]),
        (0.5, [1.5, 3, 6, 6]),
        (1.0, [2, 4, 8, 8]),
    ],
)
def test_the_backoff_of_a_target_doubles_with_each_of_its_failures(
    share: float, waits: list[float]
) -> None:
    policy = RetryPolicy(max_retries=9, backoff_base_s=2)
    retries = fail_in_turn(call_of(targets=1, retry=policy), *[SERVER_ERROR] * 4, share=share)
    assert retries == [(wait, HERE) for wait in waits]


def test_each_target_has_its_own_backoff() -> None:
    failures = [SERVER_ERROR, SERVER_ERROR, SERVER_ERROR, SERVER_ERROR]
    retries = fail_in_turn(call_of(targets=2), *failures, share=1.0)
    assert retries == [(0.5, 0), (0, 1), (0.5, 1), (1, 1)]


def test_of_backoff_and_request_the_longer_wait_wins() -> None:
    # From the third failure on the backoff, 2 s at most, is longer than what was asked for.
    retries = fail_in_turn(call_of(targets=1), *[limited(1.25)] * 3, share=1.0)
    assert retries == [(1.25, HERE), (1.25, HERE), (2, HERE)]


def test_a_target_that_takes_us_again_soon_is_waited_for_once_while_another_is_left() -> None:
    # Whoever refuses again after it said that it would take us must not keep the call from others.
    assert fail_in_turn(call_of(), *[limited(2)] * 2) == [(2, HERE), (0, THERE)]
    assert fail_in_turn(call_of(targets=1), *[limited(2)] * 3) == [(2, HERE)] * 3


def test_with_all_targets_used_the_one_that_failed_last_is_tried_again() -> None:
    assert fail_in_turn(call_of(targets=3), *[limited()] * 3) == [(0, 1), (0, 2), (0.375, 2)]


def test_a_silent_target_is_not_tried_again_while_another_is_left() -> None:
    retries = fail_in_turn(call_of(), SILENT, *[limited()] * 4)
    assert [target for _, target in retries] == [THERE] * 5


def test_not_even_when_the_other_one_failed_before_it() -> None:
    # The wait counts from when that one failed: 1 s ago, so it is over.
    assert fail_in_turn(call_of(), limited(), SILENT) == [(0, THERE), (0, HERE)]


def test_what_another_target_asked_for_counts_from_when_it_failed() -> None:
    assert fail_in_turn(call_of(), limited(30), SILENT) == [(0, THERE), (29, HERE)]


def test_with_silent_targets_only_the_same_one_is_tried_again_after_its_backoff() -> None:
    assert fail_in_turn(call_of(), *[SILENT] * 3) == [(0, THERE), (0.375, THERE), (0.75, THERE)]


def test_a_silent_target_is_better_than_one_that_refuses_our_key() -> None:
    retries = fail_in_turn(call_of(), SILENT, REFUSED_KEY)
    assert retries == [(0, THERE), (0, HERE)]


def test_what_a_target_said_last_counts() -> None:
    call = call_of()
    retries = fail_in_turn(call, SERVER_ERROR, REFUSED_KEY, REFUSED_KEY)
    assert retries == [(0.375, HERE), (0, THERE)]
    assert call.outcome == Fail(2, "no_target")


def test_a_target_that_wants_too_long_a_wait_is_passed_over_though_it_failed_last() -> None:
    assert fail_in_turn(call_of(), limited(10), limited(61)) == [(0, THERE), (9, HERE)]


def test_of_two_that_failed_in_one_moment_the_last_is_waited_for_if_it_is_worth_it() -> None:
    call = Drive(hedge=HedgePolicy(max_attempts=2))
    call.fail(0, limited(30), 6 * SECOND)
    call.fail(1, limited(1), 6 * SECOND)
    call.wait(7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Launch(1, "retry"))]


def test_where_no_wait_is_allowed_a_target_that_asked_for_none_is_tried_again() -> None:
    policy = RetryPolicy(retry_after_max_s=0)
    assert fail_in_turn(call_of(targets=1, retry=policy), limited()) == [(0.375, HERE)]
    call = call_of(targets=1, retry=policy)
    fail_in_turn(call, limited(3))
    assert call.outcome == Fail(0, "rate_limited")


def test_a_target_that_lost_a_race_may_be_tried_again_at_once() -> None:
    call = Drive(hedge=HedgePolicy(max_attempts=2))
    call.content(1, 6 * SECOND)  # and so the primary is cancelled
    call.fail(1, failure(Truncated), 7 * SECOND)
    assert call.log[-1] == (7 * SECOND, Launch(0, "retry"))


def test_a_target_that_a_hedge_has_not_used_comes_first() -> None:
    call = Drive(targets=3, hedge=HedgePolicy(max_attempts=2))
    call.fail(1, limited(), 6 * SECOND)
    call.fail(0, limited(), 7 * SECOND)
    assert call.log[-1] == (7 * SECOND, Launch(2, "retry"))


def test_after_the_failure_of_a_hedge_and_of_its_front_the_call_starts_from_scratch() -> None:
    call = Drive(targets=2, hedge=HedgePolicy(after_s=5, max_attempts=5))
    call.fail(1, limited(), 6 * SECOND)
    call.fail(0, SERVER_ERROR, 7 * SECOND)
    retried = 7 * SECOND + 375_000_000
    call.wait(retried + 5 * SECOND)
    assert call.log[2:] == [
        (retried, Launch(0, "retry")),
        (retried + 5 * SECOND, Launch(1, "hedge", "ttft")),
    ]


def test_a_retry_is_hedged_like_any_attempt() -> None:
    call = Drive(targets=3)
    call.fail(0, limited(), SECOND)
    call.wait(6 * SECOND)
    assert call.log[1:] == [
        (SECOND, Launch(1, "retry")),
        (6 * SECOND, Launch(2, "hedge", "ttft")),
    ]


def test_nothing_is_hedged_while_a_retry_is_pending() -> None:
    call = Drive(targets=1, retry=RetryPolicy(retry_after_max_s=100))
    call.fail(0, limited(90), SECOND)
    assert call.wake() == 91 * SECOND
    call.tick(50 * SECOND)
    call.wait(91 * SECOND)
    assert call.log[1:] == [(91 * SECOND, Launch(0, "retry"))]
    assert call.refused == {}


# How often


@pytest.mark.parametrize("max_retries", [0, 1, 2, 5])
def test_retries_of_both_kinds_count_up_to_max_retries(max_retries: int) -> None:
    call = call_of(retry=RetryPolicy(max_retries=max_retries))
    fail_in_turn(call, *[SERVER_ERROR] * (max_retries + 1))
    assert call.kinds() == ["primary"] + ["retry"] * max_retries
    assert call.outcome == Fail(max_retries, "max_retries")


def test_hedges_are_no_retries() -> None:
    call = Drive(targets=5, retry=RetryPolicy(max_retries=1))
    call.wait(10 * SECOND)
    for index in (2, 1, 0):
        call.fail(index, limited(), (13 - index) * SECOND)
    assert call.kinds() == ["primary", "hedge", "hedge", "retry"]


# Deadlines


@pytest.mark.parametrize("deadline_s", [1.3751, 2, 100])
def test_a_retry_that_starts_before_the_deadline_is_waited_for(deadline_s: float) -> None:
    call = call_of(targets=1, deadline_s=deadline_s)
    assert fail_in_turn(call, SERVER_ERROR) == [(0.375, HERE)]


@pytest.mark.parametrize("deadline_s", [1.0, 1.3, 1.375])
def test_a_retry_that_would_start_at_the_deadline_is_not_tried(deadline_s: float) -> None:
    purse = Purse(ratio=0, burst=10)
    call = call_of(targets=1, deadline_s=deadline_s, purse=purse)
    call.fail(0, SERVER_ERROR, SECOND)
    assert call.log[1:] == [(SECOND, Fail(0, "deadline"))]
    assert purse.level == 10


def test_a_wait_beyond_the_deadline_is_a_reason_to_go_elsewhere() -> None:
    assert fail_in_turn(call_of(deadline_s=2), limited(1.5)) == [(0, THERE)]
    assert fail_in_turn(call_of(deadline_s=1.2), SERVER_ERROR) == [(0, THERE)]


def test_with_nothing_fresh_left_what_is_in_time_is_tried() -> None:
    call = call_of(deadline_s=10)
    assert fail_in_turn(call, limited(3), limited(30)) == [(0, THERE), (2, HERE)]


# At whose cost


def test_the_first_failover_is_not_refused_but_charged() -> None:
    purse = empty_purse()
    call = call_of(purse=purse)
    assert fail_in_turn(call, limited()) == [(0, THERE)]
    assert purse.level == -1


def test_the_second_failover_of_a_call_is_paid_like_any_retry() -> None:
    call = call_of(targets=3, purse=empty_purse())
    assert fail_in_turn(call, limited(), limited()) == [(0, THERE)]
    assert call.outcome == Fail(1, "budget")


def test_each_call_has_a_failover_of_its_own_down_to_minus_the_burst() -> None:
    purse = Purse(ratio=0, burst=2)
    for _ in range(9):
        assert fail_in_turn(call_of(purse=purse), limited()) == [(0, THERE)]
    assert purse.level == -2


def test_a_second_try_of_the_same_target_needs_a_token() -> None:
    purse = Purse(ratio=0, burst=1)
    assert fail_in_turn(call_of(targets=1, purse=purse), SERVER_ERROR) == [(0.375, HERE)]
    assert purse.level == 0
    call = call_of(targets=1, purse=purse)
    call.fail(0, SERVER_ERROR, SECOND)
    assert call.log[1:] == [(SECOND, Fail(0, "budget"))]


@pytest.mark.parametrize("error", [SERVER_ERROR, limited(1)])
def test_where_a_second_try_cannot_be_paid_the_failover_still_is_free(error: Failure) -> None:
    purse = empty_purse()
    call = call_of(targets=3, purse=purse)
    assert fail_in_turn(call, error, error) == [(0, THERE)]
    assert purse.level == -1
    assert call.outcome == Fail(1, "budget")


def test_a_failover_to_a_target_that_the_call_has_used_needs_a_token() -> None:
    call = Drive(targets=2, hedge=HedgePolicy(max_attempts=2), purse=Purse(ratio=0, burst=1))
    call.content(1, 6 * SECOND)
    call.fail(1, failure(Truncated), 7 * SECOND)
    assert call.log[-1] == (7 * SECOND, Fail(1, "budget"))


def test_a_second_try_that_was_paid_leaves_the_failover_free() -> None:
    purse = Purse(ratio=0, burst=1)
    call = call_of(purse=purse)
    assert fail_in_turn(call, SERVER_ERROR, SERVER_ERROR) == [(0.375, HERE), (0, THERE)]
    assert purse.level == -1


def test_a_purse_at_half_pays_for_retries() -> None:
    purse = Purse(ratio=0, burst=2)
    assert purse.take()
    assert fail_in_turn(call_of(targets=1, purse=purse), SERVER_ERROR) == [(0.375, HERE)]


def test_what_is_refused_costs_nothing() -> None:
    purse = Purse(ratio=0, burst=10)
    for error in (failure(InvalidRequest, status=400), REFUSED_KEY):
        fail_in_turn(call_of(targets=1, purse=purse), error)
    fail_in_turn(call_of(retry=RetryPolicy(max_retries=0), purse=purse), SERVER_ERROR)
    assert purse.level == 10


def test_of_two_failures_in_one_moment_the_last_one_counts_as_last() -> None:
    call = Drive(hedge=HedgePolicy(max_attempts=2))
    call.fail(0, limited(30), 6 * SECOND)
    call.fail(1, limited(), 6 * SECOND)
    assert call.wake() == 6 * SECOND + 375_000_000  # the second target's backoff


def test_a_wait_over_the_longest_one_is_not_slept_however_short_it_is() -> None:
    policy = RetryPolicy(wait_for_target_s=2, retry_after_max_s=1)
    call = Drive(retry=policy)
    call.fail(0, limited(1.5), SECOND)
    assert call.log[-1] == (SECOND, Launch(1, "retry"))
    call = Drive(targets=1, retry=policy)
    call.fail(0, limited(1.5), SECOND)
    assert call.log[-1] == (SECOND, Fail(0, "rate_limited"))
