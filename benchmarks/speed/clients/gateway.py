"""polygateway, in every way in which it may be used."""

from __future__ import annotations

import itertools
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import attrs

from polygateway import Config, HedgePolicy, Limits, Target, open_gateway

from ..loops import Loop, TrioLoop
from .openai_chunk import QUESTION

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from polygateway import Gateway

    from . import Call, Take

Ask: TypeAlias = "Callable[[Gateway, str, Take], Awaitable[int]]"
"""Makes a call with a question, and gives how many chunks with content came."""

OFF, ARMED = HedgePolicy(enabled=False), HedgePolicy()
# Soon after the headers, once for each call, and always paid for.
FIRING = HedgePolicy(after_s=0.01, max_attempts=2, budget_ratio=10, budget_burst=1e6)


async def stream(gw: Gateway, question: str, take: Take) -> int:
    """Make a call, and take its answer piece by piece; give the number of its chunks."""
    count = 0
    async with gw.stream(question, model="m") as chunks:
        async for chunk in chunks:
            if chunk.kind == "text":
                take(chunk.delta)
                count += 1
    return count


async def complete(gw: Gateway, question: str, take: Take) -> int:
    """Make a call, and take its whole answer; give the number of its chunks."""
    reply = await gw.complete(question, model="m")
    take(reply.text)
    return reply.stats.chunk_count


@attrs.frozen
class Polygateway:
    """A gateway whose model has targets that are all the same."""

    loop: ClassVar[Loop] = TrioLoop()

    ask: Ask
    hedge: HedgePolicy = ARMED
    targets: int = 2

    @asynccontextmanager
    async def open(self, base_url: str, model: str) -> AsyncGenerator[Call]:
        """Open a gateway."""
        async with open_gateway(self._config(base_url, model)) as gw:

            async def call(take: Take) -> int:
                return await self.ask(gw, QUESTION, take)

            yield call

    def _config(self, base_url: str, model: str) -> Config:
        target = Target(dialect="openai-chat", base_url=f"{base_url}/v1", model=model)
        names = [f"target-{number}" for number in range(self.targets)]
        return Config(
            targets=dict.fromkeys(names, target),
            models={"m": names},
            hedge=self.hedge,
            limits=Limits(max_connections_per_target=10_000),
        )


@attrs.frozen
class Fired(Polygateway):
    """The same, where the first attempt of each call is silent, so that it is hedged once."""

    hedge: HedgePolicy = FIRING

    @asynccontextmanager
    async def open(self, base_url: str, model: str) -> AsyncGenerator[Call]:
        """Open a gateway.

        Raises:
            AssertionError: a call was not hedged.
        """
        questions = map(f"{QUESTION} ({os.getpid()}-{{}})".format, itertools.count())
        async with open_gateway(self._config(base_url, f"silent|{model}")) as gw:

            async def call(take: Take) -> int:
                return await self.ask(gw, next(questions), take)

            yield call
            done = gw.stats().models["m"]
            if done.hedges_started != done.calls:
                raise AssertionError(f"{done.hedges_started} hedges in {done.calls} calls")


STREAM, COMPLETE = Polygateway(stream), Polygateway(complete)
STREAM_OFF, COMPLETE_OFF = Polygateway(stream, OFF), Polygateway(complete, OFF)
STREAM_FIRED, COMPLETE_FIRED = Fired(stream), Fired(complete)
