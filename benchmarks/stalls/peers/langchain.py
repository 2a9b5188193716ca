"""langchain-openai, whose ``ainvoke`` reads a stream: as it is, and with retries."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from langchain_openai import ChatOpenAI, StreamChunkTimeoutError

from ..fates import THRESHOLD_S
from ..systems import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..systems import Ask


@asynccontextmanager
async def default(url: str) -> AsyncGenerator[Ask]:
    """As it is: its watchdog waits for two minutes, and then raises."""
    model = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model="any", streaming=True)

    async def ask(prompt: str) -> str:
        return str((await model.ainvoke(prompt)).text)

    yield ask


@asynccontextmanager
async def retried(url: str) -> AsyncGenerator[Ask]:
    """With the threshold for its watchdog, after which calls are made again."""
    model = ChatOpenAI(
        base_url=f"{url}/v1",
        api_key="none",
        model="any",
        streaming=True,
        stream_chunk_timeout=THRESHOLD_S,
    ).with_retry(
        retry_if_exception_type=(StreamChunkTimeoutError,),
        wait_exponential_jitter=False,
        stop_after_attempt=ATTEMPTS,
    )

    async def ask(prompt: str) -> str:
        return str((await model.ainvoke(prompt)).text)

    yield ask
