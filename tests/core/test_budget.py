from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import event, given, strategies as st

from polygateway.core.allowance import Allowance
from polygateway.core.budget import Purse

SECOND = 1_000_000_000


def spent(purse: Purse, *, above_half: bool = False) -> int:
    """Take from a purse until it refuses, and give how often it did not."""
    for count in range(100):
        if not purse.take(above_half=above_half):
            return count
    pytest.fail("the purse has no bottom")


def test_a_purse_is_full_at_the_start() -> None:
    purse = Purse(ratio=0.2, burst=10)
    assert purse.level == 10
    assert spent(purse) == 10
    assert purse.level == 0


def test_a_refusal_takes_nothing() -> None:
    purse = Purse(ratio=0.5, burst=1)
    assert purse.take()
    purse.put()
    assert not purse.take()
    assert purse.level == 0.5
    purse.put()
    assert purse.take()


# In floats 0.1 added ten times is 0.9999999999999999, which would buy nothing.
@pytest.mark.parametrize(("ratio", "calls"), [(0.1, 10), (0.2, 5), (0.05, 20), (0.3, 10)])
def test_shares_of_a_token_add_up_exactly(ratio: float, calls: int) -> None:
    purse = Purse(ratio=ratio, burst=10)
    spent(purse)
    for _ in range(calls - 1):
        purse.put()
    already = spent(purse)
    purse.put()
    assert already + spent(purse) == ratio * calls
    assert purse.level == 0


def test_a_call_fills_the_purse_up_to_the_burst_only() -> None:
    purse = Purse(ratio=0.2, burst=2)
    purse.put()
    assert purse.level == 2
    purse.take()
    for _ in range(100):
        purse.put()
    assert purse.level == 2


@pytest.mark.parametrize(("burst", "hedges"), [(0, 0), (1, 1), (2, 1), (3, 2), (9, 5), (10, 5)])
def test_a_hedge_for_a_late_first_content_is_refused_at_half_of_the_burst(
    burst: float, hedges: int
) -> None:
    purse = Purse(ratio=0.2, burst=burst)
    assert spent(purse, above_half=True) == hedges
    assert spent(purse) == burst - hedges


def test_half_of_an_odd_burst_is_not_rounded() -> None:
    purse = Purse(ratio=0.5, burst=5)
    assert spent(purse, above_half=True) == 3
    purse.put()
    assert purse.level == 2.5
    assert not purse.take(above_half=True)
    purse.put()
    assert purse.take(above_half=True)


@pytest.mark.parametrize("burst", [0.0, 0.5, 0.999999])
def test_less_than_a_token_buys_nothing(burst: float) -> None:
    purse = Purse(ratio=0.2, burst=burst)
    assert not purse.take()
    assert purse.level == burst


def test_a_charge_is_taken_even_from_an_empty_purse_down_to_minus_the_burst() -> None:
    purse = Purse(ratio=1, burst=2)
    levels: list[float] = []
    for _ in range(6):
        purse.charge()
        levels.append(purse.level)
    assert levels == [1, 0, -1, -2, -2, -2]
    assert not purse.take()
    purse.put()
    assert purse.level == -1


def test_a_charge_stops_at_minus_a_burst_that_is_no_whole_number() -> None:
    purse = Purse(ratio=1, burst=1.5)
    for _ in range(5):
        purse.charge()
    assert purse.level == -1.5


def test_a_purse_without_burst_never_goes_below_zero() -> None:
    purse = Purse(ratio=1, burst=0)
    purse.charge()
    purse.put()
    assert purse.level == 0
    assert not purse.take()


MILLIONTHS = st.integers(0, 3_000_000)
ACTS = st.lists(st.sampled_from(["put", "take", "take above half", "charge"]), max_size=200)


@given(MILLIONTHS, st.integers(0, 12_000_000), ACTS)
def test_what_is_taken_beyond_the_charges_never_exceeds_ratio_times_calls_plus_burst(
    fill: int, full: int, acts: list[str]
) -> None:
    ratio, burst = Fraction(fill, 10**6), Fraction(full, 10**6)
    purse = Purse(ratio=float(ratio), burst=float(burst))
    level, calls, taken = burst, 0, 0
    for act in acts:
        match act:
            case "put":
                purse.put()
                calls += 1
                level = min(burst, level + ratio)
            case "charge":
                purse.charge()
                level = max(-burst, level - 1)
            case _:
                above_half = act == "take above half"
                there_is_one = level >= 1 and (level > burst / 2 or not above_half)
                assert purse.take(above_half=above_half) is there_is_one
                taken += there_is_one
                level -= there_is_one
        assert purse.level == float(level)
        assert taken <= ratio * calls + burst
    event(f"taken: {min(taken, 10)}")


# Throttling


def told(purse: Purse, verdicts: str, *, start: int = 0) -> list[bool]:
    """Let attempts succeed (``.``) or fail (``x``) one after the other."""
    throttled: list[bool] = []
    for launched, verdict in enumerate(verdicts, start):
        purse.launched(launched)
        if verdict == ".":
            purse.succeeded(launched, launched)
        else:
            purse.failed(launched, launched)
        throttled.append(purse.is_throttled)
    return throttled


def test_while_most_attempts_fail_nothing_is_taken_whatever_the_purse_holds() -> None:
    purse = Purse(ratio=1, burst=10)
    told(purse, "x" * 10)
    assert purse.is_throttled
    assert spent(purse) == 0
    assert purse.level == 10


def test_a_first_failover_is_charged_all_the_same() -> None:
    purse = Purse(ratio=1, burst=10)
    told(purse, "x" * 10)
    purse.charge()
    assert purse.level == 9


@pytest.mark.parametrize(
    ("verdicts", "throttled"),
    [
        ("x" * 9, False),
        ("x" * 10, True),
        ("." * 10 + "x" * 9, False),
        ("." * 10 + "x" * 10, True),
        ("..x" * 100, False),
        (".x" * 5, True),
        # Ten successes and ten failures, then one success more.
        ("." * 10 + "x" * 10 + "." * 10, True),
        ("." * 10 + "x" * 10 + "." * 11, False),
    ],
)
def test_half_of_the_last_twenty_and_at_least_ten_attempts_decide(
    verdicts: str, throttled: bool
) -> None:
    assert told(Purse(ratio=1, burst=10), verdicts)[-1] is throttled


def test_hedging_comes_back_by_itself_when_attempts_succeed_again() -> None:
    purse = Purse(ratio=1, burst=10)
    told(purse, "x" * 100)
    throttled = told(purse, "." * 20, start=100)
    assert throttled.index(False) == 10
    assert spent(purse) == 10


def test_a_failure_that_is_nobodys_counts_as_nothing() -> None:
    purse = Purse(ratio=1, burst=10)
    for launched in range(100):
        purse.launched(launched)
        purse.cancelled(launched)
    assert not purse.is_throttled
    assert not any(told(purse, "x" * 9, start=100))
    assert told(purse, "x", start=109) == [True]


def test_the_quick_failures_of_many_calls_that_began_at_once_do_not_throttle() -> None:
    purse = Purse(ratio=1, burst=10)
    for launched in range(1000):
        purse.launched(launched)
    for launched in range(0, 1000, 20):
        purse.failed(launched, SECOND + launched)
    assert not purse.is_throttled


# What hedges may waste


def test_hedges_may_waste_what_they_like_where_nothing_is_said() -> None:
    assert Purse(ratio=1, burst=10).may_waste(0)


def test_hedges_may_waste_what_is_allowed() -> None:
    allowance = Allowance(10)
    purse = Purse(ratio=1, burst=10, allowance=allowance)
    assert purse.may_waste(0)
    allowance.waste(10, 0)
    assert not purse.may_waste(0)
