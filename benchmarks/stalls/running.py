"""Runs a program on trio or on asyncio, with a clock that may be faster than the real one.

So nobody's settings have to be divided where a provider is faster than usual, and what nobody can
set is as much faster: each library asks its event loop for the time.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - some systems run on nothing else
import selectors
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal, TypeAlias

import trio
from trio.testing import MockClock

Work: TypeAlias = Callable[[], Awaitable[None]]
Together: TypeAlias = Callable[[Work, int], Awaitable[None]]
"""Does some work so many times at once."""

Program: TypeAlias = Callable[[Together], Awaitable[None]]


def run(loop: Literal["trio", "asyncio"], program: Program, *, faster: float) -> None:
    """Run a program on an event loop whose time is so many times as fast as the real one."""
    if loop == "trio":
        # It moves by itself at its rate; only with an `autojump_threshold` would it jump.
        clock = None if faster == 1 else MockClock(rate=faster)
        trio.run(program, _on_trio, clock=clock)
    else:
        with asyncio.Runner(loop_factory=partial(_Loop, faster)) as runner:
            runner.run(_as_coroutine(lambda: program(_on_asyncio)))


async def _on_trio(work: Work, times: int) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(times):
            nursery.start_soon(work)


async def _on_asyncio(work: Work, times: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(times):
            group.create_task(_as_coroutine(work))


async def _as_coroutine(work: Work) -> None:
    await work()


class _Loop(asyncio.SelectorEventLoop):
    """An event loop in whose time everything takes longer."""

    def __init__(self, faster: float) -> None:
        self._faster = faster
        super().__init__(_Selector(faster))

    def time(self) -> float:
        return super().time() * self._faster


class _Selector(selectors.DefaultSelector):
    """Waits as long as is meant in a faster time."""

    def __init__(self, faster: float) -> None:
        self._faster = faster
        super().__init__()

    # A key holds whatever was registered with it.
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:  # type: ignore[explicit-any]
        return super().select(None if timeout is None else timeout / self._faster)
