"""Cancelling a call at any of its steps, counted over all of its tasks."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import attrs
import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@attrs.define(eq=False)
class _Strike(trio.abc.Instrument):
    """Cancels *scope* before step number *at* of the tasks that *victim* has, at any depth."""

    scope: trio.CancelScope
    victim: trio.Nursery
    at: int
    steps: int = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if is_below(task, self.victim):
            self.steps += 1
            if self.steps == self.at:
                self.scope.cancel(reason="struck")


def is_below(task: trio.lowlevel.Task, nursery: trio.Nursery) -> bool:
    """Tell whether *task* runs in *nursery*, at any depth."""
    parent = task.parent_nursery
    while parent is not None and parent is not nursery:
        parent = parent.parent_task.parent_nursery
    return parent is nursery


async def run_struck(async_fn: Callable[[], Awaitable[object]], at: int) -> bool:
    """Run *async_fn* and cancel it at its step number *at*; tell whether it took so many."""
    with trio.CancelScope() as scope, ExitStack() as after:
        async with trio.open_nursery() as victim:
            strike = _Strike(scope, victim, at)
            trio.lowlevel.add_instrument(strike)
            after.callback(trio.lowlevel.remove_instrument, strike)
            victim.start_soon(async_fn)
    return scope.cancel_called
