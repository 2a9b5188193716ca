"""Run async code in virtual time: hours of waiting take milliseconds."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import trio
from trio.testing import MockClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run_virtual(
    async_fn: Callable[[*Ts], Awaitable[T]],
    *args: *Ts,
    limit_s: float = 86400.0,
    real_limit_s: float = 60.0,
) -> T:
    """Run an async function under a fresh clock that jumps over every wait, and give its value.

    The clock starts at 0 and moves only when all tasks wait; then it jumps to the next deadline.
    It knows of tasks only: what waits for a socket or a thread should be run in real time. The
    function's exceptions come out as they are.

    Args:
        async_fn: what to run, as for :func:`trio.run`.
        args: its positional arguments.
        limit_s: the most virtual seconds it may take. A wait for something that never comes ends
            here, at once.
        real_limit_s: the most real seconds it may take. A loop that never waits ends here, if it
            has checkpoints.

    Raises:
        trio.TooSlowError: one of the limits passed; the text says which.
    """
    return trio.run(
        _limited,
        async_fn,
        args,
        limit_s,
        real_limit_s,
        clock=MockClock(autojump_threshold=0),
    )


async def _limited(
    async_fn: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts], limit_s: float, real_limit_s: float
) -> T:
    with trio.move_on_after(limit_s) as virtual, _moved_on_after_real(real_limit_s):
        return await async_fn(*args)
    if virtual.cancelled_caught:
        raise trio.TooSlowError(
            f"still running after {limit_s:g} s of virtual time (limit_s): nothing is left that"
            " could wake it, or it goes on for ever"
        )
    raise trio.TooSlowError(
        f"still running after {real_limit_s:g} s of real time, at {trio.current_time():g} s of"
        " virtual time (real_limit_s): it is busy without waiting"
    )


@contextmanager
def _moved_on_after_real(seconds: float) -> Generator[None]:
    """Cancel the block after so many seconds of the real clock, which trio does not see here."""
    token = trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope:
        timer = threading.Timer(seconds, token.run_sync_soon, (scope.cancel,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
