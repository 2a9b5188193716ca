"""Who wins: first content, duels, empty answers, and failures beside others."""

from __future__ import annotations

import pytest

from polygateway.core.decisions import Cancel, Commit, Fail, Launch
from polygateway.core.gate import AttemptState
from polygateway.errors import ContentFiltered, InvalidRequest, ServerError
from polygateway.policies import HedgePolicy, RetryPolicy, Winner
from tests.core.driver import SECOND, Drive, Until, failure

RUNNING, WON, LOST, FAILED, _ = AttemptState

WINNERS: list[Winner] = ["first-delivered", "first-complete"]
UNTIL: list[Until] = ["content", "end"]


def racing(
    until: Until = "end", winner: Winner = "first-delivered", *, attempts: int = 2, more: int = 0
) -> Drive:
    """Give a call with attempts without content, launched 5 s apart; so many more may follow."""
    policy = HedgePolicy(winner=winner, max_attempts=attempts + more)
    call = Drive(targets=5, until=until, hedge=policy)
    call.wait(5 * SECOND * (attempts - 1))
    assert len(call.launches) == attempts
    return call


def duelling(winner: Winner = "first-delivered", *, more: int = 1) -> Drive:
    """Give a complete call whose front is silent since 1 s, with a hedge since 6 s."""
    call = Drive(targets=3, hedge=HedgePolicy(winner=winner, max_attempts=2 + more))
    call.content(0, SECOND)
    call.wait(6 * SECOND)
    assert call.log[1:] == [(6 * SECOND, Launch(1, "hedge", "stall"))]
    return call


# Streams: the first content decides


@pytest.mark.parametrize("winner", WINNERS)
@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_stream_is_committed_to_whoever_brings_the_first_content(
    winner: Winner, first: int
) -> None:
    call = racing("content", winner, attempts=3)
    call.content(first, 11 * SECOND)
    assert call.log[3:] == [(11 * SECOND, Commit(first))]
    assert call.states() == [WON if index == first else LOST for index in range(3)]


def test_a_lone_attempt_of_a_stream_is_committed_by_its_first_content() -> None:
    call = Drive(until="content")
    assert call.planner.disputed(0)
    call.content(0, SECOND)
    assert call.log[1:] == [(SECOND, Commit(0))]


# Complete answers: the proper end decides


@pytest.mark.parametrize("winner", WINNERS)
@pytest.mark.parametrize("first", [0, 1, 2])
def test_while_nobody_has_content_the_first_content_cancels_all_others(
    winner: Winner, first: int
) -> None:
    call = racing("end", winner, attempts=3)
    call.content(first, 11 * SECOND)
    assert call.log[3:] == [
        (11 * SECOND, Cancel(index, "lost the race")) for index in range(3) if index != first
    ]
    assert call.planner.front() == first
    call.end(first, 12 * SECOND)
    assert call.log[-1] == (12 * SECOND, Commit(first))


def test_content_of_a_lone_attempt_decides_nothing() -> None:
    call = Drive()
    assert not call.planner.disputed(0)
    call.content(0, SECOND)
    assert not call.planner.disputed(0)
    assert len(call.log) == 1
    call.end(0, 2 * SECOND)
    assert call.log[1:] == [(2 * SECOND, Commit(0))]


def test_a_front_that_resumes_wins_the_duel() -> None:
    call = duelling()
    call.content(0, 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Cancel(1, "lost a duel"))]
    assert call.states() == [RUNNING, LOST]


def test_a_hedge_that_brings_content_wins_the_duel() -> None:
    call = duelling()
    call.content(1, 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Cancel(0, "lost a duel"))]
    assert call.states() == [LOST, RUNNING]


@pytest.mark.parametrize("ends", [0, 1])
def test_under_first_complete_a_duel_cancels_nobody_and_the_first_to_end_wins(ends: int) -> None:
    call = duelling("first-complete")
    for ms in (6100, 6200, 6300):
        call.content(0, ms * 1_000_000)
        call.content(1, ms * 1_000_000 + 1)
    assert len(call.log) == 2
    call.end(ends, 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Commit(ends))]
    assert call.states()[1 - ends] is LOST


def test_a_duel_may_be_decided_by_the_end_of_the_front() -> None:
    call = duelling()
    call.end(0, 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Commit(0))]
    assert call.states() == [WON, LOST]


def test_the_winner_of_a_duel_that_falls_silent_is_hedged_too() -> None:
    call = duelling()
    call.content(1, 7 * SECOND)
    call.wait(12 * SECOND)
    assert call.log[3:] == [(12 * SECOND, Launch(2, "hedge", "stall"))]
    call.content(1, 13 * SECOND)
    assert call.log[4:] == [(13 * SECOND, Cancel(2, "lost a duel"))]


def test_a_duel_of_three_is_decided_by_one_of_them() -> None:
    call = duelling()
    call.wait(11 * SECOND)
    assert call.log[2:] == [(11 * SECOND, Launch(2, "hedge", "stall"))]
    call.content(2, 12 * SECOND)
    assert call.log[3:] == [
        (12 * SECOND, Cancel(0, "lost a duel")),
        (12 * SECOND, Cancel(1, "lost a duel")),
    ]


def test_under_first_complete_a_hedge_left_alone_without_content_is_raced_from_scratch() -> None:
    call = duelling("first-complete")
    call.fail(0, failure(ServerError), 7 * SECOND)
    call.wait(11 * SECOND)
    assert call.log[2:] == [(11 * SECOND, Launch(2, "hedge", "ttft"))]
    call.content(2, 12 * SECOND)
    assert call.log[3:] == [(12 * SECOND, Cancel(1, "lost the race"))]


# A finish reason without the end: usage may still follow, and then the answer is whole


def test_an_answer_that_is_whole_but_for_its_end_has_won_its_duel() -> None:
    call = duelling()
    call.finish(0, 7 * SECOND)
    call.content(1, 7 * SECOND + 1)
    call.end(0, 7 * SECOND + 2)
    assert call.log[2:] == [(7 * SECOND + 2, Commit(0))]


def test_a_hedge_that_is_whole_but_for_its_end_has_won_its_duel() -> None:
    call = duelling("first-complete")
    call.content(1, 7 * SECOND)
    call.finish(1, 8 * SECOND)
    call.content(0, 8 * SECOND + 1)
    call.end(1, 8 * SECOND + 2)
    assert call.log[2:] == [(8 * SECOND + 2, Commit(1))]


def test_a_finish_reason_holds_content_off_for_a_while_only() -> None:
    call = duelling()
    call.finish(0, 7 * SECOND, grace=5)
    call.content(1, 7 * SECOND + 4)
    assert len(call.log) == 2
    call.content(1, 7 * SECOND + 5)
    assert call.log[2:] == [(7 * SECOND + 5, Cancel(0, "lost a duel"))]


def test_content_after_a_finish_reason_decides_like_any_other() -> None:
    call = duelling()
    call.finish(0, 7 * SECOND)
    call.content(0, 7 * SECOND + 1)
    assert call.log[2:] == [(7 * SECOND + 1, Cancel(1, "lost a duel"))]


def test_a_finish_reason_without_content_holds_nothing_off() -> None:
    call = racing()
    call.finish(0, 6 * SECOND)
    call.content(1, 6 * SECOND + 1)
    assert call.log[2:] == [(6 * SECOND + 1, Cancel(0, "lost the race"))]


def test_content_that_comes_with_its_finish_reason_decides_too() -> None:
    call = duelling()
    call.content(0, 7 * SECOND, finished=True)
    assert call.log[2:] == [(7 * SECOND, Cancel(1, "lost a duel"))]


@pytest.mark.parametrize("until", UNTIL)
def test_the_first_content_may_come_with_its_finish_reason(until: Until) -> None:
    call = racing(until)
    call.content(1, 6 * SECOND + 1, finished=True)
    decided = Commit(1) if until == "content" else Cancel(0, "lost the race")
    assert call.log[2:] == [(6 * SECOND + 1, decided)]


# Who is in front


def test_without_content_the_oldest_is_in_front() -> None:
    call = racing(attempts=3)
    assert call.planner.front() == 0
    call.fail(0, failure(ServerError), 11 * SECOND)
    assert call.planner.front() == 1


def test_the_latest_content_is_in_front() -> None:
    call = duelling("first-complete")
    assert call.planner.front() == 0
    call.content(1, 7 * SECOND)
    assert call.planner.front() == 1
    call.content(0, 8 * SECOND)
    call.tick(9 * SECOND)  # content that is not disputed is learnt of when it matters
    assert call.planner.front() == 0


def test_of_equal_stamps_the_older_attempt_is_in_front() -> None:
    call = duelling("first-complete")
    call.content(1, 7 * SECOND)
    call.content(0, 7 * SECOND)
    call.tick(7 * SECOND)
    assert call.planner.front() == 0


@pytest.mark.parametrize("until", UNTIL)
def test_of_two_contents_of_one_moment_the_one_taken_first_wins(until: Until) -> None:
    call = racing(until)
    call.content(1, 7 * SECOND)
    log = list(call.log)
    assert call.planner.content(0, call.now) == []
    assert call.log == log


# Answers without content


@pytest.mark.parametrize("until", UNTIL)
def test_an_empty_answer_is_committed_when_nobody_else_lives(until: Until) -> None:
    call = Drive(until=until)
    call.end(0, SECOND)
    assert call.log[1:] == [(SECOND, Commit(0))]


@pytest.mark.parametrize("until", UNTIL)
@pytest.mark.parametrize("empty", [0, 1])
def test_an_empty_answer_is_kept_while_another_attempt_lives(until: Until, empty: int) -> None:
    call = racing(until)
    call.end(empty, 6 * SECOND)
    assert len(call.log) == 2
    assert call.states() == [RUNNING, RUNNING]
    call.fail(1 - empty, failure(ServerError), 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Commit(empty))]


def test_an_empty_answer_loses_against_content() -> None:
    stream = racing("content")
    stream.end(0, 6 * SECOND)
    stream.content(1, 7 * SECOND)
    assert stream.log[2:] == [(7 * SECOND, Commit(1))]
    complete = racing("end")
    complete.end(0, 6 * SECOND)
    complete.content(1, 7 * SECOND)
    complete.end(1, 8 * SECOND)
    assert complete.log[2:] == [(8 * SECOND, Commit(1))]
    assert complete.states() == [LOST, WON]


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_empty_answers_the_first_is_committed(first: int) -> None:
    call = racing()
    call.end(first, 6 * SECOND)
    call.end(1 - first, 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Commit(first))]


def test_an_empty_answer_stands_when_content_breaks_off() -> None:
    call = duelling(more=0)
    call.end(1, 7 * SECOND)
    call.content(0, 8 * SECOND)
    call.fail(0, failure(ContentFiltered), 9 * SECOND)
    assert call.log[2:] == [(9 * SECOND, Commit(1))]


def test_an_empty_answer_is_no_live_attempt() -> None:
    call = racing(more=1)
    call.end(0, 6 * SECOND)
    assert call.planner.live() == [1]
    call.wait(10 * SECOND)
    assert call.log[2:] == [(10 * SECOND, Launch(2, "hedge", "ttft"))]


# Failures beside others


@pytest.mark.parametrize("until", UNTIL)
@pytest.mark.parametrize("fails", [0, 1])
@pytest.mark.parametrize("of", [ServerError, InvalidRequest, ContentFiltered])
def test_no_failure_ends_a_race_that_another_attempt_can_win(
    until: Until, fails: int, of: type[ServerError | InvalidRequest | ContentFiltered]
) -> None:
    call = racing(until)
    call.fail(fails, failure(of, status=400), 6 * SECOND)
    call.content(1 - fails, 7 * SECOND)
    if until == "end":
        call.end(1 - fails, 8 * SECOND)
    assert call.log[2:] == [(call.now, Commit(1 - fails))]
    assert call.states()[fails] is FAILED


def test_a_failure_launches_nothing_while_another_attempt_lives() -> None:
    call = racing(more=1)
    call.fail(0, failure(ServerError), 6 * SECOND)
    call.wait(10 * SECOND - 1)
    assert len(call.log) == 2
    assert call.wake() == 10 * SECOND


@pytest.mark.parametrize("last", [0, 1])
def test_a_call_ends_with_the_failure_that_came_last(last: int) -> None:
    call = Drive(retry=RetryPolicy(max_retries=0))
    call.fail(1 - last, failure(ServerError), 6 * SECOND)
    call.fail(last, failure(InvalidRequest, status=400), 7 * SECOND)
    assert call.log[2:] == [(7 * SECOND, Fail(last, None))]


def test_a_loser_that_failed_too_late_is_not_the_one_a_call_ends_with() -> None:
    call = duelling()
    call.content(1, 7 * SECOND)
    assert call.planner.failed(0, failure(ServerError), call.now, 0.5) == []
    call.fail(1, failure(ContentFiltered), 8 * SECOND)
    assert call.outcome == Fail(1, None)


# What comes too late


@pytest.mark.parametrize("until", UNTIL)
def test_after_the_commit_nothing_is_decided_any_more(until: Until) -> None:
    call = racing(until)
    call.end(0, 6 * SECOND)
    call.end(1, 7 * SECOND)
    planner, now = call.planner, call.now
    for index in (0, 1):
        assert planner.content(index, now) == []
        assert planner.ended(index, empty=False) == []
        assert planner.ended(index, empty=True) == []
        assert planner.failed(index, failure(ServerError), now, 0.5) == []
    assert planner.tick(now + 10**12) == []
    assert planner.live() == []


def test_nothing_that_a_loser_brings_decides_anything() -> None:
    call = duelling()
    call.content(1, 7 * SECOND)
    planner, now = call.planner, call.now
    assert not planner.disputed(0)
    assert planner.content(0, now) == []
    assert planner.ended(0, empty=False) == []
    assert planner.ended(0, empty=True) == []
    assert planner.front() == 1
