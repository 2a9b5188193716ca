from __future__ import annotations

import math

import trio
from hypothesis import given, settings, strategies as st

from polygateway.net.clock import now_ns, trio_deadline
from polygateway.testing import run_virtual

SECOND = 1_000_000_000


def test_the_time_is_that_of_trios_clock_in_whole_nanoseconds() -> None:
    async def main() -> list[int]:
        times = [now_ns()]
        # 0.1 + 0.2 is not 0.3 in floats; the sum of the waits is.
        for wait in (0.1, 0.2, 1e-9):
            await trio.sleep(wait)
            times.append(now_ns())
        return times

    assert run_virtual(main) == [0, 100_000_000, 300_000_000, 300_000_001]


# Ten days: trio's clock starts somewhere in the first million seconds, and a float still tells
# nanoseconds apart there.
@settings(deadline=None, max_examples=50)
@given(at_ns=st.integers(min_value=1, max_value=864_000 * SECOND))
def test_who_sleeps_until_a_deadline_wakes_at_that_very_nanosecond(at_ns: int) -> None:
    async def main() -> int:
        with trio.CancelScope(deadline=trio_deadline(at_ns)):
            await trio.sleep_forever()
        return now_ns()

    assert run_virtual(main, limit_s=math.inf) == at_ns


def test_no_time_is_a_deadline_that_never_comes() -> None:
    assert trio_deadline(None) == math.inf
