"""polygateway: with the threshold that all systems get, and as it is."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs

from polygateway import Config, HedgePolicy, RetryPolicy, StreamPolicy, Target, open_gateway

from .fates import THRESHOLD_S
from .systems import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from polygateway import Gateway

    from .systems import Ask, Opened

# The purse is out of the way.
_HEDGE = HedgePolicy(
    after_s=THRESHOLD_S,
    stall_after_s=THRESHOLD_S,
    max_attempts=ATTEMPTS,
    budget_ratio=1,
    budget_burst=1e6,
)
_RETRY = RetryPolicy(max_retries=ATTEMPTS - 1)
_CONTINUE = StreamPolicy(recovery="continue")


def _config(url: str) -> Config:
    target = Target(dialect="openai-chat", base_url=f"{url}/v1", model="any", prefill=True)
    names = ("eu", "us", "asia")
    return Config(targets=dict.fromkeys(names, target), models={"m": names})


@asynccontextmanager
async def _whole(config: Config) -> AsyncGenerator[Ask]:
    async with open_gateway(config) as gw:

        async def ask(prompt: str) -> str:
            return (await gw.complete(prompt, model="m")).text

        yield ask


@asynccontextmanager
async def _streamed(config: Config) -> AsyncGenerator[Ask]:
    async with open_gateway(config) as gw:

        async def ask(prompt: str) -> str:
            return await _read(gw, prompt)

        yield ask


async def _read(gw: Gateway, prompt: str) -> str:
    """Put together what an application is given."""
    async with gw.stream(prompt, model="m") as stream:
        return "".join([chunk.text async for chunk in stream])


def complete(url: str) -> Opened:
    """Race stalls; the first to go on wins a duel."""
    return _whole(attrs.evolve(_config(url), hedge=_HEDGE, retry=_RETRY))


def first_complete(url: str) -> Opened:
    """Race stalls; the first to end wins a duel."""
    hedge = attrs.evolve(_HEDGE, winner="first-complete")
    return _whole(attrs.evolve(_config(url), hedge=hedge, retry=_RETRY))


def continued(url: str) -> Opened:
    """Show the answer as it comes, and let another target go on with it when it stalls."""
    config = _config(url)
    return _streamed(attrs.evolve(config, hedge=_HEDGE, retry=_RETRY, stream=_CONTINUE))


def default(url: str) -> Opened:
    """Ask for a whole answer, with no setting changed."""
    return _whole(_config(url))


def default_stream(url: str) -> Opened:
    """Show the answer as it comes, with no setting changed."""
    return _streamed(_config(url))


def default_continued(url: str) -> Opened:
    """Show the answer as it comes, with no setting changed but that stalls are rescued."""
    return _streamed(attrs.evolve(_config(url), stream=_CONTINUE))
