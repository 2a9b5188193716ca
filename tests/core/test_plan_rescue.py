"""What is tried for a stream that was delivered in part and breaks, or falls silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway.core.budget import Purse
from polygateway.core.decisions import Commit, Fail, Launch, Rescue
from polygateway.core.gate import AttemptState
from polygateway.core.targets import Candidate
from polygateway.errors import (
    AuthenticationFailed,
    ContentFiltered,
    InvalidRequest,
    ServerError,
    StallTimeout,
    Truncated,
)
from polygateway.policies import HedgePolicy, RetryPolicy, Winner
from tests.core.driver import GRACE, SECOND, START, Drive, failure, limited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway.core.failures import Failure
    from polygateway.stats import RefusalReason

RUNNING, WON, LOST, FAILED, CANCELLED = AttemptState

RESCUES: list[Rescue] = ["restart", "continue", "continue-or-restart"]

CUT = failure(Truncated)
SERVER_ERROR = failure(ServerError)
REFUSED_PREFIX = failure(InvalidRequest, status=400)


def delivering(
    *,
    rescue: Rescue = "restart",
    prefill: Sequence[bool] = (True, True),
    hedge: HedgePolicy | None = None,
    retry: RetryPolicy | None = None,
    purse: Purse | None = None,
    deadline: int | None = None,
    hold_back: int = 0,
) -> Drive:
    """Give a stream that is delivered since 1 s, and whose silences count after 5 s."""
    call = Drive(
        until="content",
        candidates=[Candidate(prefill=flag) for flag in prefill],
        hedge=hedge or HedgePolicy(after_s=5, stall_after_s=5),
        retry=retry,
        purse=purse,
        deadline=deadline,
        hold_back=hold_back,
        rescue=rescue,
    )
    call.content(0, SECOND)
    if hold_back:
        call.content(0, SECOND + hold_back)
    assert call.delivering() == 0
    call.log.clear()
    return call


def rivalled(
    rescue: Rescue = "restart", *, prefill: Sequence[bool] = (True, True), max_attempts: int = 3
) -> Drive:
    """Give a stream that is silent since 1 s, and an attempt beside it that was started at 6 s."""
    policy = HedgePolicy(after_s=5, stall_after_s=5, max_attempts=max_attempts)
    call = delivering(rescue=rescue, prefill=prefill, hedge=policy)
    call.fall_silent(6 * SECOND)
    assert call.kinds() == ["primary", "hedge"]
    call.log.clear()
    return call


def launches(call: Drive) -> list[tuple[float, Launch]]:
    return [(at / SECOND, each) for at, each in call.log if isinstance(each, Launch)]


# When it begins


def test_a_stream_is_silent_stall_after_s_after_the_last_that_was_delivered() -> None:
    call = delivering()
    assert call.silent_at() == 6 * SECOND
    call.deliver(4 * SECOND)
    assert call.silent_at() == 9 * SECOND


def test_the_time_in_which_nobody_asked_for_more_is_no_silence() -> None:
    call = delivering()
    call.planner.reopen(START + 30 * SECOND, "restart")
    assert call.planner.wake_ns() == START + 35 * SECOND


def test_not_while_it_is_about_to_end() -> None:
    call = delivering()
    call.deliver(4 * SECOND)
    assert call.planner.silent_at_ns(START + 4 * SECOND, START + 20 * SECOND) == START + 20 * SECOND


def test_where_nothing_is_hedged_a_silence_starts_nothing() -> None:
    call = delivering(hedge=HedgePolicy(enabled=False))
    assert call.silent_at() is None


def test_before_a_commit_nothing_is_rescued() -> None:
    call = Drive(until="content")
    assert call.planner.silent_at_ns(START, START) is None
    with pytest.raises(ValueError, match="nothing was committed"):
        call.planner.reopen(START, "restart")


@pytest.mark.parametrize("rescue", RESCUES)
def test_a_silence_starts_a_hedge_beside_what_is_delivered(rescue: Rescue) -> None:
    call = delivering(rescue=rescue)
    call.fall_silent(6 * SECOND)
    goes_on = rescue != "restart"
    assert call.log == [(6 * SECOND, Launch(1, "hedge", "stall", goes_on))]
    assert call.states() == [WON, RUNNING]


def test_a_break_starts_a_retry_for_nothing_else_runs() -> None:
    call = delivering()
    call.break_off(CUT, 2 * SECOND)
    assert call.log == [(2 * SECOND, Launch(1, "retry"))]


def test_a_silence_that_is_noticed_early_is_waited_for() -> None:
    call = delivering()
    call.deliver(4 * SECOND)
    call.fall_silent(9 * SECOND - 1)
    assert call.log == []
    assert call.wake() == 9 * SECOND
    call.wait(9 * SECOND)
    assert launches(call) == [(9, Launch(1, "hedge", "stall"))]


# Beside a stream that is silent


@pytest.mark.parametrize("winner", ["first-delivered", "first-complete"])
def test_the_first_content_decides_under_both_rules_for_a_winner(winner: Winner) -> None:
    for first in (0, 1):
        policy = HedgePolicy(after_s=5, stall_after_s=5, winner=winner)
        call = delivering(hedge=policy)
        call.fall_silent(6 * SECOND)
        assert call.planner.disputed(first)
        call.content(first, 7 * SECOND)
        assert call.log[1:] == [(7 * SECOND, Commit(first))]
        assert call.states() == [WON if index == first else LOST for index in range(2)]


def test_nothing_is_held_back_any_more() -> None:
    call = delivering(hold_back=3 * SECOND)
    call.fall_silent(9 * SECOND)
    call.content(1, 10 * SECOND)
    assert call.log[1:] == [(10 * SECOND, Commit(1))]


def test_a_stream_that_properly_ends_first_wins() -> None:
    call = rivalled()
    call.end(0, 7 * SECOND)
    assert call.log == [(7 * SECOND, Commit(0))]
    assert call.states() == [WON, LOST]


def test_a_stream_whose_finish_reason_came_is_not_given_up_for_a_rival() -> None:
    call = rivalled()
    call.finish(0, 7 * SECOND)
    call.content(1, 7 * SECOND + 1)
    call.end(0, 7 * SECOND + GRACE)
    assert call.log == [(7 * SECOND + GRACE, Commit(0))]


def test_a_rival_that_ends_without_content_wins_nothing_while_the_stream_lives() -> None:
    call = rivalled()
    call.end(1, 7 * SECOND)
    assert call.log == []
    call.content(0, 8 * SECOND)
    assert call.log == [(8 * SECOND, Commit(0))]


def test_but_it_is_an_answer_when_the_stream_breaks() -> None:
    call = rivalled("continue")
    call.end(1, 7 * SECOND)
    call.fail(0, failure(StallTimeout), 8 * SECOND)
    assert call.log == [(8 * SECOND, Commit(1))]


def test_when_the_stream_breaks_the_rival_goes_on() -> None:
    call = rivalled()
    call.fail(0, CUT, 7 * SECOND)
    assert call.log == []
    call.content(1, 8 * SECOND)
    assert call.log == [(8 * SECOND, Commit(1))]
    assert call.states() == [FAILED, WON]


def test_when_the_rival_fails_the_stream_is_read_on_and_another_follows_in_its_time() -> None:
    call = rivalled(prefill=(True, True, True))
    call.fail(1, SERVER_ERROR, 7 * SECOND)
    call.wait(99 * SECOND)
    assert launches(call) == [(11, Launch(2, "hedge", "stall"))]


def test_with_both_gone_the_last_failure_says_what_is_tried() -> None:
    call = rivalled(prefill=(True, True, True))
    call.fail(0, CUT, 7 * SECOND)
    call.fail(1, SERVER_ERROR, 8 * SECOND)
    call.wait(9 * SECOND)
    assert launches(call) == [(8.375, Launch(1, "retry"))]


def test_a_hedge_that_is_refused_is_asked_for_again_after_another_silence() -> None:
    call = delivering(purse=Purse(ratio=0, burst=0))
    call.fall_silent(6 * SECOND)
    call.wait(16 * SECOND)
    assert call.log == []
    assert call.refused == {"budget": 3}
    call.content(0, 17 * SECOND)
    assert call.log == [(17 * SECOND, Commit(0))]


def test_all_attempts_of_the_call_count_for_its_hedges() -> None:
    call = rivalled(prefill=(True, True, True), max_attempts=2)
    call.wait(11 * SECOND)
    assert call.log == []
    assert call.refused == {"max_attempts": 1}


def test_every_attempt_must_be_silent_before_the_next_one_starts() -> None:
    call = rivalled(prefill=(True, True, True))
    call.wait(20 * SECOND)
    assert launches(call) == [(11, Launch(2, "hedge", "stall"))]


def test_what_is_started_is_paid_for_by_its_kind() -> None:
    # Under half of a purse no hedge for a late first content is paid for, but one for a stall is.
    purse = Purse(ratio=0, burst=10)
    for _ in range(6):
        assert purse.take()
    call = delivering(purse=purse, prefill=(True, True, True))
    call.fall_silent(6 * SECOND)
    assert purse.level == 3
    call.fail(0, CUT, 7 * SECOND)  # what is left has no content
    call.wait(11 * SECOND)
    assert call.refused == {"budget": 1}
    assert purse.level == 3


# After its end


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (CUT, (0, 1)),
        (failure(StallTimeout), (0, 1)),
        (SERVER_ERROR, (0.375, 0)),
        (limited(1), (1, 0)),
        (limited(30), (0, 1)),
        (failure(AuthenticationFailed), (0, 1)),
    ],
)
def test_a_break_is_a_failure_like_any_other(error: Failure, retry: tuple[float, int]) -> None:
    call = delivering()
    call.break_off(error, 2 * SECOND)
    call.wait(60 * SECOND)
    wait, target = retry
    assert launches(call)[0] == (2 + wait, Launch(target, "retry"))


@pytest.mark.parametrize(
    ("error", "policy", "not_tried"),
    [
        (failure(ContentFiltered), RetryPolicy(), None),
        (CUT, RetryPolicy(max_retries=0), "max_retries"),
    ],
)
def test_what_leaves_nothing_to_be_tried_ends_the_call(
    error: Failure, policy: RetryPolicy, not_tried: RefusalReason | None
) -> None:
    call = delivering(retry=policy)
    call.break_off(error, 2 * SECOND)
    assert call.log == [(2 * SECOND, Fail(0, not_tried))]


def test_retries_before_the_delivery_count_too() -> None:
    call = Drive(until="content", targets=5, retry=RetryPolicy(max_retries=2))
    call.fail(0, limited(), SECOND)
    call.content(1, 2 * SECOND)
    call.break_off(CUT, 3 * SECOND)
    call.content(2, 4 * SECOND)
    call.break_off(CUT, 5 * SECOND)
    assert call.kinds() == ["primary", "retry", "retry"]
    assert call.outcome == Fail(2, "max_retries")


def test_the_failover_that_is_free_is_so_once_a_call() -> None:
    purse = Purse(ratio=0, burst=0)
    call = delivering(purse=purse, prefill=(True, True, True))
    call.break_off(CUT, 2 * SECOND)
    assert launches(call) == [(2, Launch(1, "retry"))]
    call.content(1, 3 * SECOND)
    call.break_off(CUT, 4 * SECOND)
    assert call.outcome == Fail(1, "budget")


def test_a_retry_that_would_come_after_the_deadline_is_not_tried() -> None:
    call = delivering(prefill=[True], deadline=3 * SECOND)
    call.break_off(limited(2), 2 * SECOND)
    assert call.log == [(2 * SECOND, Fail(0, "deadline"))]


def test_a_retry_is_hedged_like_any_attempt() -> None:
    call = delivering(prefill=(True, True, True))
    call.break_off(CUT, 2 * SECOND)
    call.wait(7 * SECOND)
    assert launches(call)[1:] == [(7, Launch(2, "hedge", "ttft"))]


def test_a_retry_that_fails_may_be_followed_by_another() -> None:
    call = delivering(prefill=(True, True, True))
    call.break_off(CUT, 2 * SECOND)
    call.fail(1, limited(), 3 * SECOND)
    assert launches(call)[1:] == [(3, Launch(2, "retry"))]
    call.fail(2, failure(ContentFiltered), 4 * SECOND)
    assert call.outcome == Fail(2, None)


def test_an_empty_answer_to_a_retry_is_an_answer() -> None:
    call = delivering(rescue="continue")
    call.break_off(CUT, 2 * SECOND)
    call.end(1, 3 * SECOND)
    assert call.log[1:] == [(3 * SECOND, Commit(1))]


def test_an_empty_answer_of_an_earlier_race_is_none_of_this_one() -> None:
    call = Drive(until="content", hedge=HedgePolicy(after_s=5, stall_after_s=5))
    call.end(1, 6 * SECOND)  # a hedge that ended empty, and so lost
    call.content(0, 7 * SECOND)
    call.break_off(failure(ContentFiltered), 8 * SECOND)
    assert call.outcome == Fail(0, None)


# Again and again


def test_a_stream_may_be_rescued_more_than_once() -> None:
    policy = HedgePolicy(after_s=5, stall_after_s=5, max_attempts=5)
    call = delivering(prefill=(True, True, True), hedge=policy)
    call.fall_silent(6 * SECOND)
    call.content(1, 7 * SECOND)
    call.deliver(8 * SECOND)
    assert call.silent_at() == 13 * SECOND
    call.fall_silent(13 * SECOND)
    call.content(2, 14 * SECOND)
    call.break_off(CUT, 15 * SECOND)
    call.content(3, 16 * SECOND)
    assert [(at / SECOND, each) for at, each in call.log] == [
        (6, Launch(1, "hedge", "stall")),
        (7, Commit(1)),
        (13, Launch(2, "hedge", "stall")),
        (14, Commit(2)),
        (15, Launch(0, "retry")),
        (16, Commit(3)),
    ]
    assert call.states() == [LOST, LOST, FAILED, WON]


def test_a_stream_that_goes_on_may_fall_silent_again() -> None:
    call = rivalled(prefill=(True, True, True))
    call.content(0, 7 * SECOND)
    call.fall_silent(12 * SECOND)
    assert launches(call) == [(12, Launch(2, "hedge", "stall"))]


# Given up by its caller, who asks for more


def test_a_stream_that_lives_goes_on_alone_when_its_rescue_is_given_up() -> None:
    call = rivalled(prefill=(True, True, True))
    call.give_up(7 * SECOND)
    assert call.states() == [WON, CANCELLED]
    call.fall_silent(8 * SECOND)
    assert launches(call) == [(8, Launch(2, "hedge", "stall"))]


def test_a_retry_that_is_pending_stays_so_however_often_its_caller_gives_up() -> None:
    purse = Purse(ratio=0, burst=10)
    call = delivering(prefill=[True], purse=purse)
    call.break_off(limited(2), 2 * SECOND)
    for tenths in range(21, 40):
        call.give_up(tenths * SECOND // 10)
    call.wait(4 * SECOND)
    assert launches(call) == [(4, Launch(0, "retry"))]
    assert purse.level == 9


def test_a_retry_that_was_given_up_is_followed_by_what_the_last_failure_leaves() -> None:
    call = delivering(prefill=(True, True, True), retry=RetryPolicy(max_retries=3))
    call.break_off(CUT, 2 * SECOND)
    call.fail(1, failure(ServerError), 3 * SECOND)
    call.wait(4 * SECOND)
    call.give_up(5 * SECOND)
    call.fail(3, failure(ContentFiltered), 6 * SECOND)
    assert launches(call) == [
        (2, Launch(1, "retry")),
        (3.375, Launch(1, "retry")),
        (5, Launch(1, "retry")),
    ]
    assert call.outcome == Fail(3, None)


def test_what_is_given_up_once_too_often_fails_with_the_last_failure() -> None:
    call = delivering(prefill=(True, True, True))
    call.break_off(CUT, 2 * SECOND)
    call.fail(1, limited(), 3 * SECOND)
    call.give_up(4 * SECOND)
    assert call.outcome == Fail(1, "max_retries")


def test_the_same_failure_told_again_is_not_another_one() -> None:
    # The second backoff of a target is twice as long.
    call = delivering(prefill=[True], retry=RetryPolicy(max_retries=3))
    call.break_off(SERVER_ERROR, 2 * SECOND)
    call.wait(3 * SECOND)
    call.give_up(4 * SECOND)
    call.fail(2, SERVER_ERROR, 5 * SECOND)
    call.wait(6 * SECOND)
    assert [at for at, _ in launches(call)] == [2.375, 4, 5.75]


# Going on with what was delivered


@pytest.mark.parametrize("rescue", ["continue", "continue-or-restart"])
def test_what_goes_on_goes_to_a_target_that_can(rescue: Rescue) -> None:
    call = delivering(rescue=rescue, prefill=(True, False, True))
    call.break_off(CUT, 2 * SECOND)
    assert call.log == [(2 * SECOND, Launch(2, "retry", None, goes_on=True))]
    call = delivering(rescue=rescue, prefill=(True, False, True))
    call.fall_silent(6 * SECOND)
    assert call.log == [(6 * SECOND, Launch(2, "hedge", "stall", goes_on=True))]


def test_where_no_target_can_go_on_nothing_is_tried() -> None:
    call = delivering(rescue="continue", prefill=(False, False))
    call.break_off(CUT, 2 * SECOND)
    assert call.log == [(2 * SECOND, Fail(0, "no_target"))]
    call = delivering(rescue="continue", prefill=(False, False))
    call.fall_silent(6 * SECOND)
    assert call.log == []
    assert call.refused == {"no_target": 1}


def test_or_an_answer_from_the_beginning_where_that_will_do() -> None:
    call = delivering(rescue="continue-or-restart", prefill=(False, False))
    call.break_off(CUT, 2 * SECOND)
    assert call.log == [(2 * SECOND, Launch(1, "retry"))]
    call = delivering(rescue="continue-or-restart", prefill=(False, False))
    call.fall_silent(6 * SECOND)
    assert call.log == [(6 * SECOND, Launch(1, "hedge", "stall"))]


def test_a_restart_goes_nowhere_else_because_of_what_a_target_can() -> None:
    call = delivering(prefill=(False, False, True))
    call.break_off(CUT, 2 * SECOND)
    assert call.log == [(2 * SECOND, Launch(1, "retry"))]


def test_a_target_that_refuses_to_go_on_is_passed_over() -> None:
    call = delivering(rescue="continue", prefill=(False, True, True))
    call.break_off(CUT, 2 * SECOND)
    call.fail(1, REFUSED_PREFIX, 3 * SECOND)
    assert call.log[1:] == [(3 * SECOND, Launch(2, "retry", None, goes_on=True))]


def test_when_all_have_refused_the_call_ends_with_what_it_failed_with_before() -> None:
    call = delivering(rescue="continue", prefill=(False, True))
    call.break_off(CUT, 2 * SECOND)
    call.fail(1, REFUSED_PREFIX, 3 * SECOND)
    assert call.outcome == Fail(0, "no_target")


def test_or_even_the_same_target_begins_anew_where_that_will_do() -> None:
    call = delivering(rescue="continue-or-restart", prefill=(False, True))
    call.break_off(failure(AuthenticationFailed), 2 * SECOND)
    call.fail(1, REFUSED_PREFIX, 3 * SECOND)
    assert call.log[1:] == [(3 * SECOND, Launch(1, "retry"))]
    # And now an invalid request is just that.
    call.fail(2, REFUSED_PREFIX, 4 * SECOND)
    assert call.outcome == Fail(2, None)


def test_what_refuses_a_request_after_it_has_gone_on_does_not_refuse_to_go_on() -> None:
    call = rivalled("continue")
    call.content(1, 7 * SECOND)
    call.break_off(REFUSED_PREFIX, 8 * SECOND)
    assert call.outcome == Fail(1, None)


def test_beside_a_silent_stream_a_refusal_to_go_on_changes_nothing_but_where_the_next_goes() -> (
    None
):
    call = rivalled("continue-or-restart", prefill=(False, True))
    call.fail(1, REFUSED_PREFIX, 7 * SECOND)
    call.wait(11 * SECOND)
    assert launches(call) == [(11, Launch(1, "hedge", "stall"))]


@pytest.mark.parametrize("rescue", ["continue", "continue-or-restart"])
def test_a_model_that_is_unknown_there_is_no_refusal_to_go_on(rescue: Rescue) -> None:
    call = delivering(rescue=rescue, prefill=(True, True))
    call.break_off(failure(AuthenticationFailed), 2 * SECOND)
    call.fail(1, failure(InvalidRequest, status=404), 3 * SECOND)
    assert call.outcome == Fail(1, "no_target")


def test_other_failures_of_what_goes_on_are_failures() -> None:
    call = delivering(rescue="continue", prefill=(False, True))
    call.break_off(CUT, 2 * SECOND)
    call.fail(1, SERVER_ERROR, 3 * SECOND)
    call.wait(4 * SECOND)
    assert launches(call)[1:] == [(3.375, Launch(1, "retry", None, goes_on=True))]


def test_what_cannot_go_on_in_time_begins_anew_in_time() -> None:
    call = delivering(rescue="continue-or-restart", prefill=(True, False), deadline=4 * SECOND)
    call.break_off(limited(2), 2 * SECOND)
    assert launches(call) == [(2, Launch(1, "retry"))]


def test_what_cannot_be_paid_for_begins_anew_for_nothing() -> None:
    purse = Purse(ratio=0, burst=0)
    call = delivering(rescue="continue-or-restart", prefill=(True, False), purse=purse)
    call.break_off(limited(1), 2 * SECOND)
    assert launches(call) == [(2, Launch(1, "retry"))]


def test_each_rescue_goes_by_what_is_allowed_then() -> None:
    # Reasoning, tool calls: what was plain text before may have become more.
    call = delivering(rescue="continue")
    call.break_off(CUT, 2 * SECOND)
    call.content(1, 3 * SECOND)
    call.rescue = "restart"
    call.break_off(SERVER_ERROR, 4 * SECOND)
    call.wait(5 * SECOND)
    assert launches(call) == [
        (2, Launch(1, "retry", None, goes_on=True)),
        (4.375, Launch(1, "retry")),
    ]
