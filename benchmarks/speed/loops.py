"""What a measure needs of an event loop, and trio's; asyncio's is with the clients that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")


class Loop(Protocol):
    """Runs measures."""

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run *main*, and give what it gives."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def together(self, jobs: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Run *jobs* at the same time, and wait for all."""
        ...


class TrioLoop:
    """trio's."""

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run *main*, and give what it gives."""
        return trio.run(main)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await trio.sleep(seconds)

    async def together(self, jobs: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Run *jobs* at the same time, and wait for all."""
        async with trio.open_nursery() as nursery:
            for job in jobs:
                nursery.start_soon(job)
