"""aiohttp by hand, on asyncio."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

import aiohttp

from ..clients.openai_chunk import body, take_apart
from .asyncio_loop import AsyncioLoop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..clients import Call, Take
    from ..loops import Loop


class AiohttpByHand:
    """Its parser is in C. Splits events, and decodes them with msgspec."""

    loop: ClassVar[Loop] = AsyncioLoop()

    @asynccontextmanager
    async def open(self, base_url: str, model: str) -> AsyncGenerator[Call]:
        """Open a session without a bound."""
        url, headers = f"{base_url}/v1/chat/completions", {"content-type": "application/json"}
        asked = body(model)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def call(take: Take) -> int:
                async with session.post(url, headers=headers, data=asked) as response:
                    return await _read(response, take)

            yield call


AIOHTTP_BY_HAND = AiohttpByHand()


async def _read(response: aiohttp.ClientResponse, take: Take) -> int:
    rest, count = b"", 0
    async for data in response.content.iter_any():
        texts, rest = take_apart(rest + data)
        for text in texts:
            take(text)
        count += len(texts)
    return count
