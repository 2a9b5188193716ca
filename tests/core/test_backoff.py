from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from polygateway.core.backoff import backoff_ns

SECOND = 1_000_000_000


def backoff(retry: int, share: float) -> int:
    """Give a backoff of the default policy: 0.5 s, doubled each time, up to 8 s."""
    return backoff_ns(retry, base_ns=SECOND // 2, most_ns=8 * SECOND, share=share)


@pytest.mark.parametrize(
    ("retry", "d_s"), [(1, 0.5), (2, 1), (3, 2), (4, 4), (5, 8), (6, 8), (7, 8), (10**9, 8)]
)
def test_the_wait_doubles_up_to_the_most(retry: int, d_s: float) -> None:
    assert backoff(retry, 1.0) == d_s * SECOND
    assert backoff(retry, 0.5) == d_s * SECOND * 3 / 4
    assert backoff(retry, 0.0) == d_s * SECOND / 2


def test_no_base_means_no_wait_however_often_it_is_doubled() -> None:
    assert [backoff_ns(k, base_ns=0, most_ns=SECOND, share=1.0) for k in (1, 2, 100)] == [0, 0, 0]


@pytest.mark.parametrize(("share", "wait"), [(0.0, 3), (0.2, 4), (1.0, 7)])
def test_a_wait_is_whole_nanoseconds_also_where_half_of_it_is_not(share: float, wait: int) -> None:
    assert backoff_ns(1, base_ns=7, most_ns=100, share=share) == wait


def test_the_first_wait_may_be_the_most() -> None:
    assert backoff_ns(1, base_ns=SECOND, most_ns=SECOND, share=1.0) == SECOND


@given(
    st.integers(1, 200),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_at_least_half_of_d_is_waited_at_most_d_and_more_for_a_larger_share(
    retry: int, base: int, more: int, share: float, other: float
) -> None:
    most = base + more
    d = min(most, base * 2 ** (retry - 1))
    less, longer = (
        backoff_ns(retry, base_ns=base, most_ns=most, share=each) for each in sorted((share, other))
    )
    assert d // 2 <= less <= longer <= d
