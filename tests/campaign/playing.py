"""Play a series in virtual time, and check what must hold of it."""

from __future__ import annotations

import math
import random
import warnings
from typing import TYPE_CHECKING

import attrs
import trio
from trio._core import _run as scheduler
from trio.testing import wait_all_tasks_blocked

from polygateway import GatewayStats, open_gateway
from polygateway.race import leaves
from polygateway.testing import run_virtual, serve_memory
from tests.listening import Notes

from .laws import Broken, require
from .providing import Cast
from .series import Series
from .using import Seen, use
from .verdicts import Told, listen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway import Gateway
    from polygateway.instrument import CallStarted
    from polygateway.testing import MemoryNetwork

    from .series import Call


@attrs.define(eq=False)
class Played:
    """All that is known of a series that was played."""

    series: Series
    seen: list[Seen]
    """What the application saw of each call."""

    cast: Cast
    notes: CallNotes
    told: list[Told]
    """What the gateway was told of its targets."""

    stats: GatewayStats
    """What the gateway said of itself at last."""

    events_before_stats: int
    """How many events were told before it said so."""


class CallNotes(Notes):
    """Writes down every event, and which call of the series it belongs to."""

    def __init__(self, numbers: Mapping[trio.lowlevel.Task, int]) -> None:
        super().__init__()
        self._numbers = numbers
        self.call_of: dict[int, int] = {}
        """The call's id, by its number in the series."""

    def call_started(self, event: CallStarted) -> None:
        super().call_started(event)
        self.call_of[self._numbers[trio.lowlevel.current_task()]] = event.call


def play(series: Series, *, real_limit_s: float = 60) -> Played:
    """Play *series*: the same every time.

    Args:
        series: what to play.
        real_limit_s: what it may take on the real clock.

    Raises:
        Broken: something did not hold while it was played.
        Exception: whatever else should not have happened.
    """
    random.seed(series.seed)
    scheduler._r.seed(series.seed)
    # Trio shuffles the tasks that can run, to which only Hypothesis may give an order otherwise.
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]  # it is no constant
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return run_virtual(_Play(series).run, limit_s=1e6, real_limit_s=real_limit_s)
    except BaseExceptionGroup as group:
        raise _plain(group) from group
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = False  # type: ignore[misc]


class _Play:
    def __init__(self, series: Series) -> None:
        self._series = series
        self._cast = Cast(series)
        self._seen = [Seen(call) for call in series.calls]
        self._numbers: dict[trio.lowlevel.Task, int] = {}
        self._notes = CallNotes(self._numbers)
        self._inside = 0
        """How many calls are under way."""

        self._to_come = len(series.calls)
        """How many have not ended."""

        self._all_over = trio.Event()
        self._told: list[Told] = []
        self._stats: GatewayStats | None = None
        self._events_before_stats = 0

    async def run(self) -> Played:
        before = trio.lowlevel.current_statistics().tasks_living
        async with serve_memory(self._cast.providers) as network:
            await self._serve(network)
            await wait_all_tasks_blocked()
            require("no connection is left", network.open_connections == 0)
            require("every exchange ends", all(each.exchange.ended for each in self._cast.asked))
            living = trio.lowlevel.current_statistics().tasks_living
            require("no task is left", living == before, living - before)
        assert self._stats is not None
        return Played(
            self._series,
            self._seen,
            self._cast,
            self._notes,
            self._told,
            self._stats,
            self._events_before_stats,
        )

    async def _serve(self, network: MemoryNetwork) -> None:
        config = self._cast.config(network.base_urls)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cast.refuse_connections)
            async with open_gateway(
                config, connect=network.connect, instruments=[self._notes]
            ) as gw:
                self._told = listen(gw)
                for number in range(len(self._seen)):
                    nursery.start_soon(self._call, gw, network, number, nursery)
                await self._until_left()
                await self._close(gw)
                self._stats = gw.stats()
                self._events_before_stats = len(self._notes.events)
        require("a gateway that was left has no calls", not gw._calls)

    async def _until_left(self) -> None:
        left_at = self._series.left_at_ms
        with trio.move_on_at(math.inf if left_at is None else left_at / 1000):
            await self._all_over.wait()

    async def _close(self, gw: Gateway) -> None:
        """Close the gateway gracefully, if the series does."""
        grace_ms = self._series.grace_ms
        if grace_ms is not None:
            began = trio.current_time()
            await gw.aclose(grace_s=grace_ms / 1000)
            took = trio.current_time() - began
            require("closing takes no longer than its grace", took <= grace_ms / 1000 + 1e-6, took)

    async def _call(
        self, gw: Gateway, network: MemoryNetwork, number: int, nursery: trio.Nursery
    ) -> None:
        call, seen = self._series.calls[number], self._seen[number]
        task = trio.lowlevel.current_task()
        self._numbers[task] = number
        await trio.sleep_until(call.at_ms / 1000)
        seen.began = trio.current_time()
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel, scope, call)
            self._inside += 1
            before = task._cancel_status
            try:
                await use(gw, self._series, number, seen)
            finally:
                self._inside -= 1
                seen.over = trio.current_time()
                require("no scope is left in a task", task._cancel_status is before)
                require("no nursery is left in a task", not task.child_nurseries)
                self._check_nothing_is_held(gw, network)
        seen.was_cancelled = scope.cancelled_caught
        self._to_come -= 1
        if not self._to_come:
            self._all_over.set()

    def _check_nothing_is_held(self, gw: Gateway, network: MemoryNetwork) -> None:
        require("a call that is over is forgotten", len(gw._calls) <= self._inside)
        if self._inside:
            return
        slots = self._series.limits.max_connections_per_target
        idle = 0
        for name, route in gw._routes.items():
            connections = route.connections
            idle += connections.open
            require("no slot is left", connections.free_slots == slots, name)
            require("no lease is left", not connections._leases, name)
        require("no connection is left", network.open_connections == idle, idle)


async def _cancel(scope: trio.CancelScope, call: Call) -> None:
    """Cancel *call* at its time, if it has one."""
    if call.cancelled_after_ms is not None:
        await trio.sleep(call.cancelled_after_ms / 1000)
        for _ in range(call.cancelled_after_steps):
            await trio.lowlevel.checkpoint()
        scope.cancel()


def _plain(error: BaseException) -> BaseException:
    """Give the one exception that a group is about: a broken law, if there is one."""
    found = list(leaves(error))
    return next((each for each in found if isinstance(each, Broken)), found[0])
