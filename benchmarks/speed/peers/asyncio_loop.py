"""asyncio's event loop, for what does not run on trio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")


class AsyncioLoop:
    """asyncio's."""

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run *main*, and give what it gives."""

        async def running() -> T:
            return await main()

        return asyncio.run(running())

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def together(self, jobs: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Run *jobs* at the same time, and wait for all."""
        await asyncio.gather(*(job() for job in jobs))
