from __future__ import annotations

from hypothesis import given, strategies as st

from polygateway.core.allowance import Allowance

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def test_nothing_is_wasted_at_first() -> None:
    assert Allowance(1).is_left(0)


def test_nothing_may_be_wasted_where_nothing_is_allowed() -> None:
    assert not Allowance(0).is_left(0)


def test_it_is_over_when_all_of_it_is_wasted() -> None:
    allowance = Allowance(100)
    allowance.waste(60, 0)
    assert allowance.is_left(0)
    allowance.waste(39, SECOND)
    assert allowance.is_left(SECOND)
    allowance.waste(1, MINUTE)
    assert not allowance.is_left(MINUTE)


def test_what_was_wasted_is_forgotten_after_an_hour_and_not_before() -> None:
    # 59 s into a minute: an hour later is 59 s into another one.
    allowance = Allowance(1)
    allowance.waste(1, 59 * SECOND)
    assert not allowance.is_left(HOUR)
    assert not allowance.is_left(HOUR + 59 * SECOND)
    assert allowance.is_left(HOUR + MINUTE)


def test_a_little_each_minute_adds_up_to_an_hour() -> None:
    allowance = Allowance(61)
    for minute in range(61):
        assert allowance.is_left(minute * MINUTE)
        allowance.waste(1, minute * MINUTE)
    assert not allowance.is_left(60 * MINUTE)
    assert allowance.is_left(61 * MINUTE)


def test_time_that_goes_back_loses_nothing() -> None:
    allowance = Allowance(2)
    allowance.waste(1, 5 * MINUTE)
    allowance.waste(1, 4 * MINUTE)
    assert not allowance.is_left(HOUR + 5 * MINUTE)
    assert allowance.is_left(HOUR + 6 * MINUTE)


@given(
    most=st.integers(0, 1000),
    events=st.lists(
        st.tuples(
            st.sampled_from([0, 1, SECOND, 59 * SECOND, MINUTE, 7 * MINUTE, 59 * MINUTE, HOUR]),
            st.integers(0, 600),
        )
    ),
)
def test_what_was_wasted_counts_for_an_hour_and_for_a_minute_more_at_most(
    most: int, events: list[tuple[int, int]]
) -> None:
    allowance, now, wasted = Allowance(most), 0, list[tuple[int, int]]()
    for later, tokens in events:
        now += later
        if sum(each for at, each in wasted if now - at < HOUR) >= most:
            assert not allowance.is_left(now)
        if sum(each for at, each in wasted if now - at < HOUR + MINUTE) < most:
            assert allowance.is_left(now)
        allowance.waste(tokens, now)
        wasted.append((now, tokens))
