"""Streams that are held back: what decides is content that comes late enough."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from polygateway.core.decisions import Cancel, Commit, Fail, Launch
from polygateway.errors import ContentFiltered, ServerError, Truncated
from polygateway.policies import HedgePolicy, RetryPolicy, Winner
from tests.core.driver import GRACE, SECOND, Drive, failure

HELD = 3 * SECOND
WINNERS: list[Winner] = ["first-delivered", "first-complete"]


def held(
    winner: Winner = "first-delivered",
    *,
    hold_back: int = HELD,
    stall_after_s: float = 5,
    retry: RetryPolicy | None = None,
) -> Drive:
    """Give a call whose stream is held back."""
    policy = HedgePolicy(after_s=5, stall_after_s=stall_after_s, winner=winner, max_attempts=4)
    return Drive(targets=4, until="content", hedge=policy, retry=retry, hold_back=hold_back)


def duelling(winner: Winner = "first-delivered", *, hold_back: int = 60 * SECOND) -> Drive:
    """Give a call whose front is silent since 1 s, with a hedge since 6 s."""
    call = held(winner, hold_back=hold_back)
    call.content(0, SECOND)
    call.wait(6 * SECOND)
    assert call.log[1:] == [(6 * SECOND, Launch(1, "hedge", "stall"))]
    return call


# When it is released


@pytest.mark.parametrize("hold_back", [1, SECOND, HELD])
def test_it_is_released_by_the_first_chunk_so_long_after_the_first_one(hold_back: int) -> None:
    for late, decided in ((hold_back - 1, False), (hold_back, True), (hold_back + 1, True)):
        call = held(hold_back=hold_back)
        call.content(0, SECOND)
        call.content(0, SECOND + late)
        assert call.log[1:] == ([(SECOND + late, Commit(0))] if decided else [])


def test_without_holding_back_the_first_chunk_releases_itself() -> None:
    call = held(hold_back=0)
    call.content(0, SECOND)
    assert call.log[1:] == [(SECOND, Commit(0))]


def test_it_is_released_by_the_end_of_the_answer() -> None:
    call = held()
    call.content(0, SECOND)
    call.end(0, SECOND + 1)
    assert call.log[1:] == [(SECOND + 1, Commit(0))]


def test_an_answer_without_content_is_not_held_back() -> None:
    call = held()
    call.end(0, SECOND)
    assert call.log[1:] == [(SECOND, Commit(0))]


def test_time_alone_releases_nothing() -> None:
    call = held(hold_back=SECOND)
    call.content(0, SECOND)
    assert call.wake() == 6 * SECOND  # the silence, and not the end of what is held back
    call.wait(6 * SECOND)
    assert call.log[1:] == [(6 * SECOND, Launch(1, "hedge", "stall"))]


def test_a_finish_reason_alone_releases_nothing() -> None:
    call = held(hold_back=SECOND)
    call.content(0, SECOND)
    call.finish(0, 3 * SECOND)
    assert len(call.log) == 1
    call.end(0, 3 * SECOND + GRACE)
    assert call.log[1:] == [(3 * SECOND + GRACE, Commit(0))]


@given(gaps=st.lists(st.integers(0, 4 * SECOND), min_size=1, max_size=20))
def test_content_that_flows_is_released_by_the_first_chunk_that_is_late_enough(
    gaps: list[int],
) -> None:
    call = held()
    times = [SECOND + sum(gaps[:count]) for count in range(len(gaps) + 1)]
    late = [at for at in times if at - times[0] >= HELD]
    for at in times:
        if call.outcome is None:
            call.content(0, at)
    assert call.log[1:] == [(at, Commit(0)) for at in late[:1]]


# Until then it is raced like a whole answer


@pytest.mark.parametrize("winner", WINNERS)
def test_while_nobody_has_content_the_first_content_cancels_the_others_and_decides_no_more(
    winner: Winner,
) -> None:
    call = held(winner)
    call.wait(5 * SECOND)
    call.content(1, 6 * SECOND)
    assert call.log[2:] == [(6 * SECOND, Cancel(0, "lost the race"))]
    call.content(1, 9 * SECOND)
    assert call.log[3:] == [(9 * SECOND, Commit(1))]


@pytest.mark.parametrize("winner", WINNERS)
def test_a_stall_in_what_is_held_back_opens_a_duel(winner: Winner) -> None:
    call = held(winner)
    call.content(0, SECOND)
    call.content(0, 2 * SECOND)
    call.wait(7 * SECOND)
    assert call.log[1:] == [(7 * SECOND, Launch(1, "hedge", "stall"))]


@pytest.mark.parametrize("resumes", [0, 1])
def test_the_first_content_of_a_duel_decides_it(resumes: int) -> None:
    call = duelling()
    call.content(resumes, 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Cancel(1 - resumes, "lost a duel"))]


def test_under_first_complete_nobody_is_cancelled_and_the_first_release_decides() -> None:
    call = duelling("first-complete", hold_back=8 * SECOND)
    call.content(1, 7 * SECOND)
    call.content(0, 9 * SECOND - 1)
    call.content(1, 12 * SECOND)
    call.content(1, 15 * SECOND - 1)
    assert len(call.log) == 2
    call.content(1, 15 * SECOND)
    assert call.log[2:] == [(15 * SECOND, Commit(1))]


def test_a_front_that_resumes_late_enough_wins_and_is_released_at_once() -> None:
    call = duelling(hold_back=4 * SECOND)
    call.content(0, 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Commit(0))]


def test_what_a_hedge_holds_back_counts_from_its_own_first_chunk() -> None:
    call = duelling(hold_back=4 * SECOND)
    call.content(1, 7 * SECOND)
    call.content(1, 11 * SECOND - 1)
    assert call.log[2:] == [(7 * SECOND, Cancel(0, "lost a duel"))]
    call.content(1, 11 * SECOND)
    assert call.log[3:] == [(11 * SECOND, Commit(1))]


def test_a_duel_may_be_followed_by_another() -> None:
    call = duelling()
    call.content(1, 7 * SECOND)
    call.wait(12 * SECOND)
    assert call.log[3:] == [(12 * SECOND, Launch(2, "hedge", "stall"))]


def test_an_answer_that_is_whole_but_for_its_end_has_won_though_a_rival_could_be_released() -> None:
    call = duelling("first-complete", hold_back=SECOND)
    call.finish(0, 7 * SECOND)
    call.content(1, 7 * SECOND)
    call.finish(0, 8 * SECOND)
    call.content(1, 8 * SECOND)
    assert len(call.log) == 2
    call.end(0, 8 * SECOND + GRACE)
    assert call.log[2:] == [(8 * SECOND + GRACE, Commit(0))]


def test_all_content_is_reported_for_any_may_release_it() -> None:
    call = held()
    for at in (SECOND, 2 * SECOND):
        call.content(0, at)
        assert call.planner.disputed(0)


# What breaks in it is tried again in silence


def test_what_breaks_before_it_is_released_is_a_failure_like_any_other() -> None:
    call = held()
    call.content(0, SECOND)
    call.fail(0, failure(Truncated), 2 * SECOND)
    assert call.log[1:] == [(2 * SECOND, Launch(1, "retry"))]
    call.content(1, 4 * SECOND)
    call.content(1, 7 * SECOND - 1)
    assert len(call.log) == 2, "it counts from the first content of its own"
    call.content(1, 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Commit(1))]


def test_what_breaks_while_another_is_held_back_changes_nothing() -> None:
    call = duelling("first-complete", hold_back=4 * SECOND)
    call.content(1, 7 * SECOND)
    call.fail(0, failure(ServerError), 8 * SECOND)
    call.content(1, 11 * SECOND)
    assert call.log[2:] == [(11 * SECOND, Commit(1))]


def test_with_no_retry_left_the_call_fails_though_content_came() -> None:
    call = held(retry=RetryPolicy(max_retries=0))
    call.content(0, SECOND)
    call.fail(0, failure(Truncated), 2 * SECOND)
    assert call.log[1:] == [(2 * SECOND, Fail(0, "max_retries"))]


def test_an_empty_answer_beside_it_is_kept_until_it_breaks() -> None:
    call = duelling()
    call.end(1, 7 * SECOND)
    call.fail(0, failure(ContentFiltered), 8 * SECOND)
    assert call.log[2:] == [(8 * SECOND, Commit(1))]
