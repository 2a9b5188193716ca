"""When a second attempt starts beside the first, where it goes, and what may forbid it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway.core.budget import Purse
from polygateway.core.decisions import Launch
from polygateway.errors import AuthenticationFailed, InvalidRequest, ServerError
from polygateway.policies import HedgePolicy, RetryPolicy
from tests.core.driver import SECOND, Drive, Until, failure, limited

if TYPE_CHECKING:
    from polygateway.stats import RefusalReason

UNTIL: list[Until] = ["content", "end"]

PRIMARY = (0, Launch(0, "primary"))


def hedges(call: Drive) -> list[tuple[float, int, str | None]]:
    """Give time in seconds, target and reason of each hedge."""
    return [
        (at / SECOND, decision.target, decision.reason)
        for at, decision in call.log
        if isinstance(decision, Launch) and decision.kind == "hedge"
    ]


def at_half(*, ratio: float = 0) -> Purse:
    """Give a purse that pays for no hedge for a late first content."""
    return spent(5, ratio)


def empty(*, ratio: float = 0) -> Purse:
    return spent(10, ratio)


def spent(tokens: int, ratio: float) -> Purse:
    purse = Purse(ratio=ratio, burst=10)
    for _ in range(tokens):
        assert purse.take()
    return purse


# When


@pytest.mark.parametrize("until", UNTIL)
@pytest.mark.parametrize(
    ("after_s", "after_ns"), [(0.1, 100_000_000), (0.3, 300_000_000), (5.0, 5_000_000_000)]
)
def test_a_hedge_starts_exactly_after_s_after_a_launch_without_content(
    until: Until, after_s: float, after_ns: int
) -> None:
    call = Drive(until=until, hedge=HedgePolicy(after_s=after_s, stall_after_s=1.7))
    assert call.log == [PRIMARY]
    assert call.wake() == after_ns
    call.wait(after_ns - 1)
    assert call.log == [PRIMARY]
    call.wait(after_ns)
    assert call.log == [PRIMARY, (after_ns, Launch(1, "hedge", "ttft"))]


def test_a_hedge_starts_exactly_stall_after_s_after_the_last_content() -> None:
    call = Drive(hedge=HedgePolicy(after_s=5, stall_after_s=3))
    for ms in (1600, 1650, 4000, 6999, 9998):
        call.content(0, ms * 1_000_000)
    call.wait(13 * SECOND)
    assert hedges(call) == [(12.998, 1, "stall")]


def test_content_that_flows_keeps_every_hedge_away() -> None:
    call = Drive(hedge=HedgePolicy(after_s=5, stall_after_s=3))
    for second in range(2, 100, 2):
        call.content(0, second * SECOND)
    assert hedges(call) == []
    assert call.refused == {}


@pytest.mark.parametrize("after_s", [1.5, 2, 30])
def test_from_the_first_content_on_it_is_another_silence_that_counts(after_s: float) -> None:
    call = Drive(hedge=HedgePolicy(after_s=after_s, stall_after_s=4))
    call.content(0, SECOND)
    call.wait(90 * SECOND)
    assert hedges(call)[0] == (5.0, 1, "stall")


def test_a_late_start_of_the_wake_up_counts_from_when_it_came() -> None:
    call = Drive(hedge=HedgePolicy(after_s=5))
    call.tick(8 * SECOND)
    call.wait(13 * SECOND)
    assert hedges(call) == [(8.0, 1, "ttft"), (13.0, 0, "ttft")]


def test_nothing_is_due_before_its_time() -> None:
    call = Drive(hedge=HedgePolicy(after_s=5))
    call.tick(5 * SECOND - 1)
    assert call.log == [PRIMARY]
    assert call.refused == {}


@pytest.mark.parametrize("until", UNTIL)
def test_each_attempt_must_be_silent_before_the_next_one_starts(until: Until) -> None:
    call = Drive(targets=3, until=until, hedge=HedgePolicy(after_s=5))
    call.wait(10 * SECOND)
    assert hedges(call) == [(5.0, 1, "ttft"), (10.0, 2, "ttft")]


def test_a_hedge_beside_a_stalled_front_must_be_silent_too() -> None:
    call = Drive(targets=3, hedge=HedgePolicy(after_s=7, stall_after_s=2))
    call.content(0, SECOND)
    call.wait(20 * SECOND)
    assert hedges(call) == [(3.0, 1, "stall"), (10.0, 2, "stall")]


def test_without_hedging_nothing_is_ever_due() -> None:
    call = Drive(hedge=HedgePolicy(enabled=False))
    assert call.wake() is None
    call.content(0, SECOND)
    assert call.wake() is None
    call.tick(99 * SECOND)
    assert call.log == [PRIMARY]
    assert call.refused == {}


@pytest.mark.parametrize("until", UNTIL)
def test_an_attempt_whose_finish_reason_came_is_not_silent_for_a_while(until: Until) -> None:
    call = Drive(until=until, hedge=HedgePolicy(after_s=5))
    call.finish(0, 5 * SECOND, grace=7)
    call.wait(5 * SECOND + 6)
    assert call.log == [PRIMARY]
    call.wait(5 * SECOND + 7)
    assert call.log[1:] == [(5 * SECOND + 7, Launch(1, "hedge", "ttft"))]


def test_neither_is_one_with_content() -> None:
    call = Drive(hedge=HedgePolicy(after_s=5, stall_after_s=3))
    call.content(0, SECOND)
    call.finish(0, 4 * SECOND)
    call.wait(99 * SECOND)
    assert hedges(call)[0] == (4.5, 1, "stall")


def test_content_after_a_finish_reason_begins_another_silence() -> None:
    call = Drive(hedge=HedgePolicy(after_s=5, stall_after_s=3))
    call.content(0, SECOND)
    call.finish(0, 3_800_000_000)
    call.wait(4 * SECOND)  # the stall is due, and put off to 4.3
    call.content(0, 4_100_000_000)
    call.wait(99 * SECOND)
    assert hedges(call)[0] == (7.1, 1, "stall")


# A hedge that failed, or had nothing to say


@pytest.mark.parametrize("failed_ms", [5001, 5400, 9999])
def test_the_failure_of_a_hedge_is_not_the_reason_for_the_next_one(failed_ms: int) -> None:
    call = Drive(targets=3, hedge=HedgePolicy(after_s=5))
    call.fail(1, failure(ServerError), failed_ms * 1_000_000)
    call.wait(10 * SECOND)
    assert hedges(call) == [(5.0, 1, "ttft"), (10.0, 2, "ttft")]


def test_nor_is_a_hedge_that_ended_without_content() -> None:
    call = Drive(targets=3, hedge=HedgePolicy(after_s=5))
    call.end(1, 6 * SECOND)
    call.wait(10 * SECOND)
    assert hedges(call) == [(5.0, 1, "ttft"), (10.0, 2, "ttft")]


def test_a_failed_hedge_counts_as_not_silent_by_its_own_launch_and_after_s() -> None:
    call = Drive(targets=3, hedge=HedgePolicy(after_s=9, stall_after_s=2))
    call.content(0, SECOND)
    call.fail(1, limited(), 4 * SECOND)
    call.wait(30 * SECOND)
    assert hedges(call) == [(3.0, 1, "stall"), (12.0, 2, "stall")]


def test_the_first_of_two_failed_hedges_does_not_shorten_the_time_of_the_second() -> None:
    call = Drive(targets=4, hedge=HedgePolicy(after_s=5, max_attempts=5))
    call.wait(10 * SECOND)
    call.fail(2, limited(), 11 * SECOND)
    call.fail(1, limited(), 12 * SECOND)
    call.wait(15 * SECOND)
    assert hedges(call)[2:] == [(15.0, 3, "ttft")]


def test_the_failure_of_a_primary_gives_its_hedge_no_more_time() -> None:
    call = Drive(targets=3, hedge=HedgePolicy(after_s=5))
    call.fail(0, failure(ServerError), 9 * SECOND)
    call.wait(10 * SECOND)
    assert hedges(call) == [(5.0, 1, "ttft"), (10.0, 2, "ttft")]


def test_the_failure_of_the_silent_one_makes_no_hedge_of_one_that_flows() -> None:
    call = Drive(targets=3, hedge=HedgePolicy(stall_after_s=5, winner="first-complete"))
    call.content(0, SECOND)
    call.content(1, 9 * SECOND)
    call.fail(0, failure(ServerError), 10 * SECOND)
    call.wait(14 * SECOND)
    assert hedges(call) == [(6.0, 1, "stall"), (14.0, 2, "stall")]


# Where


def test_hedges_take_the_next_targets_in_the_order_of_the_model() -> None:
    call = Drive(targets=5, hedge=HedgePolicy(after_s=1, max_attempts=5))
    call.wait(10 * SECOND)
    assert [target for _, target, _ in hedges(call)] == [1, 2, 3, 4]


def test_a_model_with_a_single_target_is_hedged_too() -> None:
    call = Drive(targets=1, hedge=HedgePolicy(after_s=5))
    call.wait(10 * SECOND)
    assert hedges(call) == [(5.0, 0, "ttft"), (10.0, 0, "ttft")]


def test_with_no_target_left_the_one_used_longest_ago_is_used_again() -> None:
    call = Drive(targets=2, hedge=HedgePolicy(after_s=1, max_attempts=5))
    call.wait(4 * SECOND)
    assert hedges(call) == [(1.0, 1, "ttft"), (2.0, 0, "ttft"), (3.0, 1, "ttft"), (4.0, 0, "ttft")]


def test_a_target_without_a_live_attempt_comes_before_one_used_longer_ago() -> None:
    call = Drive(targets=2, hedge=HedgePolicy(after_s=1, stall_after_s=1, max_attempts=5))
    call.wait(2 * SECOND)  # attempts at the targets 0, 1, 0
    call.content(0, 2 * SECOND + 1)  # and only the first of them is left
    call.wait(3 * SECOND + 1)
    assert hedges(call)[2:] == [(3.000000001, 1, "stall")]


def test_a_target_that_failed_in_this_call_is_not_hedged_to() -> None:
    call = Drive(targets=2, hedge=HedgePolicy(after_s=5))
    call.fail(1, failure(InvalidRequest, status=400), 6 * SECOND)
    call.wait(10 * SECOND)
    assert hedges(call) == [(5.0, 1, "ttft"), (10.0, 0, "ttft")]


def test_without_same_target_only_targets_are_hedged_to_that_the_call_has_not_used() -> None:
    call = Drive(targets=2, hedge=HedgePolicy(after_s=5, same_target=False, max_attempts=5))
    call.wait(20 * SECOND)
    assert hedges(call) == [(5.0, 1, "ttft")]
    assert call.refused == {"no_target": 3}


# What forbids it


def test_hedges_stop_at_max_attempts_which_is_asked_again_and_counted() -> None:
    call = Drive(hedge=HedgePolicy(after_s=5, max_attempts=2))
    call.wait(20 * SECOND - 1)
    assert hedges(call) == [(5.0, 1, "ttft")]
    assert call.refused == {"max_attempts": 2}
    call.wait(20 * SECOND)
    assert call.refused == {"max_attempts": 3}


def test_attempts_of_every_kind_count() -> None:
    call = Drive(targets=4, hedge=HedgePolicy(after_s=5, max_attempts=3))
    call.fail(0, limited(), SECOND)  # a retry at 1
    call.wait(99 * SECOND)
    assert call.kinds() == ["primary", "retry", "hedge"]
    assert hedges(call) == [(6.0, 2, "ttft")]


def test_a_single_attempt_allowed_means_no_hedge() -> None:
    call = Drive(hedge=HedgePolicy(max_attempts=1))
    call.wait(5 * SECOND)
    assert call.log == [PRIMARY]
    assert call.refused == {"max_attempts": 1}


def test_what_is_refused_costs_nothing() -> None:
    purse = Purse(ratio=0, burst=10)
    full = Drive(hedge=HedgePolicy(max_attempts=1), purse=purse)
    nowhere = Drive(targets=1, hedge=HedgePolicy(same_target=False), purse=purse)
    for call in (full, nowhere):
        call.wait(99 * SECOND)
    assert purse.level == 10


def test_every_hedge_costs_a_token() -> None:
    purse = Purse(ratio=0, burst=10)
    call = Drive(hedge=HedgePolicy(max_attempts=3), purse=purse)
    call.wait(60 * SECOND)
    assert purse.level == 8


@pytest.mark.parametrize("until", UNTIL)
def test_a_hedge_for_a_late_first_content_stops_at_half_of_the_purse(until: Until) -> None:
    call = Drive(until=until, purse=at_half())
    call.wait(5 * SECOND)
    assert call.log == [PRIMARY]
    assert call.refused == {"budget": 1}


def test_the_rescue_of_a_stalled_stream_may_use_the_rest() -> None:
    purse = at_half()
    call = Drive(purse=purse)
    call.content(0, SECOND)
    call.wait(6 * SECOND)
    assert hedges(call) == [(6.0, 1, "stall")]
    assert purse.level == 4


def test_an_empty_purse_rescues_nobody() -> None:
    call = Drive(purse=empty())
    call.content(0, SECOND)
    call.wait(6 * SECOND)
    assert call.log == [PRIMARY]
    assert call.refused == {"budget": 1}


@pytest.mark.parametrize(("filled_s", "hedged_s"), [(7, 10.0), (10, 15.0), (11, 15.0)])
def test_a_refused_hedge_is_asked_for_again_after_another_such_silence(
    filled_s: int, hedged_s: float
) -> None:
    purse = at_half(ratio=10)
    call = Drive(hedge=HedgePolicy(after_s=5), purse=purse)
    call.wait(filled_s * SECOND)
    purse.put()
    call.wait(99 * SECOND)
    assert hedges(call)[0] == (hedged_s, 1, "ttft")


def test_a_refused_rescue_is_asked_for_again_after_another_stall() -> None:
    purse = empty(ratio=10)
    call = Drive(hedge=HedgePolicy(after_s=5, stall_after_s=3), purse=purse)
    call.content(0, SECOND)
    call.wait(4 * SECOND)
    purse.put()
    call.wait(7 * SECOND)
    assert hedges(call) == [(7.0, 1, "stall")]
    assert call.refused == {"budget": 1}


@pytest.mark.parametrize(
    ("policy", "targets", "why"),
    [
        (HedgePolicy(after_s=7, stall_after_s=2, max_attempts=1), 2, "max_attempts"),
        (HedgePolicy(after_s=7, stall_after_s=2, same_target=False), 1, "no_target"),
        (HedgePolicy(after_s=7, stall_after_s=2), 2, "budget"),
    ],
)
def test_the_silence_after_a_refusal_is_of_the_kind_that_was_refused(
    policy: HedgePolicy, targets: int, why: RefusalReason
) -> None:
    late = Drive(targets=targets, hedge=policy, purse=empty())
    late.wait(21 * SECOND)
    assert late.refused == {why: 3}  # at 7, 14 and 21
    stalled = Drive(targets=targets, hedge=policy, purse=empty())
    stalled.content(0, SECOND)
    stalled.wait(7 * SECOND)
    assert stalled.refused == {why: 3}  # at 3, 5 and 7


def test_the_refusal_of_an_early_hedge_does_not_put_off_the_rescue_of_a_stall() -> None:
    call = Drive(hedge=HedgePolicy(after_s=30, stall_after_s=5), purse=at_half())
    call.content(0, 31 * SECOND)
    call.wait(36 * SECOND)
    assert call.refused == {"budget": 1}
    assert hedges(call) == [(36.0, 1, "stall")]


def test_the_refusal_of_a_rescue_does_not_put_off_the_hedge_of_a_later_attempt() -> None:
    purse = empty(ratio=10)
    call = Drive(hedge=HedgePolicy(after_s=5, stall_after_s=60), purse=purse)
    call.content(0, SECOND)
    call.wait(61 * SECOND)
    assert call.refused == {"budget": 1}
    purse.put()
    call.fail(0, limited(), 62 * SECOND)  # a retry at once
    call.wait(67 * SECOND)
    assert hedges(call) == [(67.0, 0, "ttft")]


def test_content_after_a_refusal_is_waited_for_as_ever() -> None:
    call = Drive(hedge=HedgePolicy(stall_after_s=5), purse=empty())
    call.content(0, SECOND)
    call.content(0, 8 * SECOND)  # refused at 6
    call.wait(13 * SECOND - 1)
    assert call.refused == {"budget": 1}
    call.wait(13 * SECOND)
    assert call.refused == {"budget": 2}


def test_refusals_are_counted_by_their_reason() -> None:
    call = Drive(
        targets=1,
        hedge=HedgePolicy(after_s=5, max_attempts=2),
        retry=RetryPolicy(backoff_base_s=0),
        purse=at_half(),
    )
    call.wait(5 * SECOND)  # no token
    call.fail(0, failure(ServerError), 6 * SECOND)  # the second of two attempts
    call.wait(11 * SECOND)
    assert call.refused == {"budget": 1, "max_attempts": 1}


def test_a_target_that_refused_its_key_is_no_target_for_a_hedge() -> None:
    call = Drive(targets=2, hedge=HedgePolicy(after_s=5, same_target=False))
    call.fail(0, failure(AuthenticationFailed), SECOND)
    call.wait(6 * SECOND)
    assert call.kinds() == ["primary", "retry"]
    assert call.refused == {"no_target": 1}
