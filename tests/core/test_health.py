from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from polygateway.core.health import Health, Rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from polygateway.stats import Standing

SECOND = 1_000_000_000
PROBE = 10 * SECOND
MINUTE = 60 * SECOND
NOW = 1000 * SECOND
"""When targets that are ill have just fallen ill."""


def fail(health: Health, at: int, *, lasts: int = 0) -> None:
    """Let an attempt run and fail."""
    health.launched(at)
    health.failed(at, at + lasts, was_silent=False)


def stall(health: Health, at: int, *, lasts: int = 0) -> None:
    """Let an attempt run, fall silent and be cancelled."""
    health.launched(at)
    health.fell_silent(at, at + lasts)
    health.cancelled(at, was_silent=True)


def end(health: Health, at: int, *, lasts: int = 0, was_silent: bool = False) -> None:
    """Let an attempt run to its proper end."""
    health.launched(at)
    if was_silent:
        health.fell_silent(at, at + lasts)
    health.ended(at, at + lasts, was_silent=was_silent)


def ill(*, fails: bool = False, stalls: bool = False, rests: bool = False) -> Health:
    """Give a target that is ill at ``NOW``."""
    health = Health()
    for at in range(NOW - 10, NOW) if stalls else ():
        stall(health, at)
    for at in range(NOW - 5, NOW) if fails else ():
        fail(health, at)
    if rests:
        health.rest.ask(PROBE - 1, NOW)
    return health


def test_a_target_of_which_nothing_is_known_is_healthy() -> None:
    assert Health().standing(0) == "healthy"
    assert Health().admits(0)


# What weighs most is said: a target that rests and is degraded is left alone, not put last.
@pytest.mark.parametrize(
    ("fails", "rests", "stalls", "standing"),
    [
        (False, False, False, "healthy"),
        (False, False, True, "degraded"),
        (False, True, False, "rate_limited"),
        (False, True, True, "rate_limited"),
        (True, False, False, "open"),
        (True, False, True, "open"),
        (True, True, False, "open"),
        (True, True, True, "open"),
    ],
)
def test_all_that_can_be_wrong_with_a_target(
    fails: bool, rests: bool, stalls: bool, standing: Standing
) -> None:
    health = ill(fails=fails, rests=rests, stalls=stalls)
    assert health.standing(NOW) == standing
    assert health.admits(NOW) is (standing == "healthy")
    # Ten seconds later a probe is due, and the wait is over. The degraded waits for a call, too.
    assert health.admits(NOW + PROBE) is not stalls
    health.called()
    assert health.admits(NOW + PROBE)
    health.launched(NOW + PROBE)
    assert health.admits(NOW + PROBE) is not (fails or stalls)


def test_five_failures_open_a_target() -> None:
    health = Health()
    standings: list[Standing] = []
    for at in range(5):
        fail(health, at)
        standings.append(health.standing(at))
    assert standings == ["healthy"] * 4 + ["open"]


def test_ten_silences_degrade_a_target() -> None:
    health = Health()
    standings: list[Standing] = []
    for at in range(10):
        stall(health, at)
        standings.append(health.standing(at))
    assert standings == ["healthy"] * 9 + ["degraded"]


def test_a_share_of_one_half_degrades_and_less_does_not() -> None:
    health = Health()
    for at in range(0, 100, 5):
        end(health, at)
        end(health, at + 1)
        stall(health, at + 2)
    assert health.standing(100) == "healthy"
    for at in range(200, 220, 2):
        end(health, at)
        stall(health, at + 1)
    assert health.standing(220) == "degraded"


def test_silences_are_no_failures_and_failures_no_silences() -> None:
    stalls, fails = Health(), Health()
    for at in range(100):
        stall(stalls, at)
        fail(fails, at)
    assert stalls.standing(100) == "degraded"
    for at in range(PROBE, 100 * PROBE, PROBE):
        fails.launched(at)
        fails.ended(at, at + 1, was_silent=False)
    assert fails.standing(100 * PROBE) == "healthy"


def test_an_attempt_that_was_silent_and_ends_well_has_been_silent_all_the_same() -> None:
    health = Health()
    for at in range(10):
        end(health, at, was_silent=True)
    assert health.standing(10) == "degraded"


def test_an_attempt_that_was_silent_and_fails_counts_as_both() -> None:
    health = Health()
    for at in range(10):
        health.launched(at)
        health.fell_silent(at, at)
        health.failed(at, at, was_silent=True)
    # The one opened at the fifth, the other one at the tenth: what closes one leaves the other.
    assert health.standing(10) == "open"
    end(health, PROBE + 10)
    assert health.standing(PROBE + 10) == "degraded"


def test_our_own_cancellations_count_as_nothing() -> None:
    health = Health()
    for at in range(0, 1000, 10):
        fail(health, at)
        end(health, at + 1)
        end(health, at + 2)
        for each in range(3, 10):
            health.launched(at + each)
            health.cancelled(at + each, was_silent=False)
    assert health.standing(1000) == "healthy"
    health = Health()
    for at in range(5):
        fail(health, 10 * at)
        health.launched(10 * at + 1)
        health.cancelled(10 * at + 1, was_silent=False)
    assert health.standing(50) == "open"


def test_a_silence_among_many_cancellations_counts_in_full() -> None:
    health = Health()
    for at in range(0, 100, 10):
        stall(health, at)
        for each in range(1, 10):
            health.launched(at + each)
            health.cancelled(at + each, was_silent=False)
    assert health.standing(100) == "degraded"


def ends(health: Health, at: int) -> None:
    health.ended(at, at, was_silent=True)


def fails(health: Health, at: int) -> None:
    health.failed(at, at, was_silent=True)


def is_cancelled(health: Health, at: int) -> None:
    health.cancelled(at, was_silent=True)


@pytest.mark.parametrize("is_over", [ends, fails, is_cancelled])
def test_of_two_that_began_at_once_each_has_a_verdict_of_its_own(
    is_over: Callable[[Health, int], None],
) -> None:
    # In virtual time they do. One falls silent and is over, then the other one falls silent.
    health = Health()
    for at in range(5):
        assert not health._silences.is_open
        health.launched(at)
        health.launched(at)
        health.fell_silent(at, at)
        is_over(health, at)
        health.fell_silent(at, at)
    assert health._silences.is_open


def test_a_failure_says_nothing_of_silences() -> None:
    health = Health()
    for at in range(0, 40, 4):
        fail(health, at)
        end(health, at + 1)
        end(health, at + 2)
        stall(health, at + 3)
    # Of those that were watched to the end or fell silent, a third fell silent.
    assert health.standing(40) == "healthy"


def test_a_failing_target_is_back_after_one_good_probe() -> None:
    health = ill(fails=True)
    end(health, NOW + PROBE, lasts=SECOND)
    assert health.standing(NOW + PROBE + SECOND) == "healthy"


def test_a_degraded_target_is_back_after_three_good_probes_one_after_the_other() -> None:
    health = ill(stalls=True)
    health.called()
    now = NOW + PROBE
    for _ in range(3):
        assert health.standing(now) == "degraded"
        assert health.admits(now)
        end(health, now, lasts=SECOND)
        now += SECOND
    assert health.standing(now) == "healthy"


def test_a_probe_that_falls_silent_leaves_a_target_degraded() -> None:
    health = ill(stalls=True)
    end(health, NOW + PROBE)
    end(health, NOW + PROBE + 1)
    end(health, NOW + PROBE + 2, was_silent=True)
    health.called()
    assert health.standing(NOW + PROBE + 3) == "degraded"
    assert not health.admits(NOW + 2 * PROBE + 1)
    assert health.admits(NOW + 2 * PROBE + 2)


@pytest.mark.parametrize("gap", [SECOND, 5 * SECOND, 20 * SECOND, 10 * MINUTE])
def test_a_degraded_target_gets_few_of_the_calls_however_seldom_they_come(gap: int) -> None:
    health, asked = ill(stalls=True), 0
    for number in range(1, 1001):
        now = NOW + number * gap
        health.called()
        if health.admits(now):
            stall(health, now)
            asked += 1
    # One in 32, and some at the beginning.
    assert asked <= 1000 / 32 + 5


@pytest.mark.parametrize("gap", [SECOND, 5 * SECOND, 20 * SECOND, 10 * MINUTE])
def test_a_failing_target_is_probed_every_ten_seconds_however_seldom_calls_come(gap: int) -> None:
    health, asked = ill(fails=True), list[int]()
    for now in range(NOW + gap, NOW + 100 * gap, gap):
        health.called()
        if health.admits(now):
            fail(health, now)
            asked.append(now)
    gaps = {later - sooner for sooner, later in itertools.pairwise(asked)}
    assert gaps == {max(PROBE, gap)}


# Rests


def test_a_target_that_asked_for_a_wait_is_left_alone_until_it_is_over() -> None:
    health = Health()
    health.rest.ask(3 * SECOND, NOW)
    assert health.standing(NOW + 3 * SECOND - 1) == "rate_limited"
    assert not health.admits(NOW + 3 * SECOND - 1)
    assert health.standing(NOW + 3 * SECOND) == "healthy"
    assert health.admits(NOW + 3 * SECOND)


@given(st.lists(st.tuples(st.integers(0, 20 * MINUTE), st.integers(0, MINUTE)), min_size=1))
def test_the_longest_wait_wins_and_no_wait_is_longer_than_ten_minutes(
    asked: list[tuple[int, int]],
) -> None:
    rest, now, ends = Rest(), NOW, [0]
    for wait, later in asked:
        now += later
        rest.ask(wait, now)
        ends.append(now + min(wait, 10 * MINUTE))
        assert rest.until == max(ends)


def test_targets_that_share_a_key_rest_together() -> None:
    rest = Rest()
    one, two, other = Health(rest), Health(rest), Health()
    one.rest.ask(SECOND, NOW)
    assert [each.standing(NOW) for each in (one, two, other)] == [
        "rate_limited",
        "rate_limited",
        "healthy",
    ]


def test_a_target_that_takes_an_attempt_after_all_has_taken_back_what_it_asked() -> None:
    health = Health()
    health.rest.ask(MINUTE, NOW)
    end(health, NOW + 1)
    assert health.standing(NOW + 1) == "healthy"


@pytest.mark.parametrize("launched", [NOW - 1, NOW])
def test_what_it_took_before_it_asked_takes_nothing_back(launched: int) -> None:
    health = Health()
    health.launched(launched)
    health.rest.ask(MINUTE, NOW)
    health.ended(launched, NOW + SECOND, was_silent=False)
    assert health.standing(NOW + SECOND) == "rate_limited"


def test_a_failure_or_a_cancellation_takes_nothing_back() -> None:
    health = Health()
    health.rest.ask(MINUTE, NOW)
    fail(health, NOW + 1)
    health.launched(NOW + 2)
    health.cancelled(NOW + 2, was_silent=False)
    assert health.standing(NOW + 3) == "rate_limited"


# Outages


def test_a_target_that_fails_for_a_minute_is_asked_seldom_and_is_back_soon() -> None:
    # A call each second asks. The outage is from 30 to 90; answers take three seconds.
    health = Health()
    asked: list[int] = []
    ends: list[int] = []
    for now in range(0, 150 * SECOND, SECOND):
        for launched in [each for each in ends if each + 3 * SECOND == now]:
            health.ended(launched, now, was_silent=False)
        if health.admits(now):
            asked.append(now)
            if 30 * SECOND <= now < 90 * SECOND:
                fail(health, now)
            else:
                health.launched(now)
                ends.append(now)
    failed = [at for at in asked if 30 * SECOND <= at < 90 * SECOND]
    # Ten of the last twenty must fail, then come the probes.
    assert failed[:10] == [at * SECOND for at in range(30, 40)]
    assert len(failed) <= 10 + 5
    gaps = [later - sooner for sooner, later in itertools.pairwise(asked) if sooner >= 40 * SECOND]
    assert max(gaps) <= PROBE
    # From 90 s and an interval and an answer on, everything is admitted again.
    assert [at for at in asked if at >= 103 * SECOND] == [at * SECOND for at in range(103, 150)]
