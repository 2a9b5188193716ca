"""The openai SDK on trio: as it is, and with what its users write around it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from openai import APITimeoutError, AsyncOpenAI, Timeout

from ..fates import THRESHOLD_S
from ..systems import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from ..systems import Ask


def _client(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none")


async def _read(client: AsyncOpenAI, prompt: str, hear: Callable[[str], None]) -> None:
    message = {"role": "user", "content": prompt}
    stream = await client.chat.completions.create(model="any", messages=[message], stream=True)
    async with stream:
        async for chunk in stream:
            hear(chunk.choices[0].delta.content or "")


async def _whole(client: AsyncOpenAI, prompt: str) -> str:
    contents: list[str] = []
    await _read(client, prompt, contents.append)
    return "".join(contents)


async def _watched(client: AsyncOpenAI, prompt: str) -> str:
    """Give the answer, unless there is no content for too long: keep-alives do not count."""
    contents: list[str] = []
    with trio.fail_after(THRESHOLD_S) as scope:

        def hear(content: str) -> None:
            contents.append(content)
            if content:
                scope.deadline = trio.current_time() + THRESHOLD_S

        await _read(client, prompt, hear)
    return "".join(contents)


async def _retried(attempt: Callable[[], Awaitable[str]], error: type[Exception]) -> str:
    for _ in range(ATTEMPTS - 1):
        try:
            return await attempt()
        except error:
            continue
    return await attempt()


@asynccontextmanager
async def plain(url: str) -> AsyncGenerator[Ask]:
    """As it is."""
    async with _client(url) as client:

        async def ask(prompt: str) -> str:
            return await _whole(client, prompt)

        yield ask


@asynccontextmanager
async def read_timeout(url: str) -> AsyncGenerator[Ask]:
    """With a timeout for each read, and calls that are made again after it."""
    timeout = Timeout(600, connect=5, read=THRESHOLD_S)
    async with _client(url).with_options(timeout=timeout, max_retries=0) as client:

        async def ask(prompt: str) -> str:
            return await _retried(lambda: _whole(client, prompt), APITimeoutError)

        yield ask


@asynccontextmanager
async def watchdog(url: str) -> AsyncGenerator[Ask]:
    """With a watchdog over its content, and calls that are made again after it."""
    async with _client(url) as client:

        async def ask(prompt: str) -> str:
            return await _retried(lambda: _watched(client, prompt), trio.TooSlowError)

        yield ask
