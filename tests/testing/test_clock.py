from __future__ import annotations

import threading

import pytest
import trio

from polygateway.testing import run_virtual


async def slept(seconds: float) -> float:
    await trio.sleep(seconds)
    return trio.current_time()


async def spin() -> None:
    while True:
        await trio.lowlevel.checkpoint()


def test_an_hour_of_waiting_ends_when_an_hour_has_passed_on_trios_clock() -> None:
    assert run_virtual(slept, 3600.0) == 3600


def test_every_run_has_a_clock_of_its_own() -> None:
    assert [run_virtual(slept, 1.5) for _ in range(2)] == [1.5, 1.5]


def test_the_virtual_limit_names_itself() -> None:
    with pytest.raises(trio.TooSlowError, match=r"after 10 s of virtual time \(limit_s\)"):
        run_virtual(slept, 10.5, limit_s=10)


def test_what_ends_before_the_virtual_limit_is_left_alone() -> None:
    assert run_virtual(slept, 9.5, limit_s=10) == 9.5


def test_a_wait_for_nothing_ends_at_once() -> None:
    with pytest.raises(trio.TooSlowError, match="86400 s of virtual time"):
        run_virtual(trio.sleep_forever)


def test_the_real_limit_ends_a_loop_that_never_waits() -> None:
    with pytest.raises(trio.TooSlowError, match=r"0\.01 s of real time, at 0 s .*\(real_limit_s\)"):
        run_virtual(spin, real_limit_s=0.01)


def test_no_thread_is_left_whether_the_real_limit_passed_or_not() -> None:
    with pytest.raises(trio.TooSlowError):
        run_virtual(spin, real_limit_s=0.01)
    run_virtual(slept, 1.0)
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("plain"),
        ExceptionGroup("of its own", [ValueError("a"), KeyError("b")]),
        ExceptionGroup("of one", [ValueError("a")]),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_exceptions_come_out_as_they_are(error: BaseException) -> None:
    async def fail() -> None:
        await trio.sleep(1)
        raise error

    with pytest.raises(type(error)) as caught:
        run_virtual(fail)
    assert caught.value is error


def test_the_runs_own_cancellations_do_not_reach_the_caller() -> None:
    async def main() -> str:
        with trio.move_on_after(5):
            await trio.sleep_forever()
        return "went on"

    assert run_virtual(main) == "went on"
