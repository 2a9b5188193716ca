"""httpcore on trio, by hand: what polygateway's transport costs alone, with the same decoding."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

import httpcore

from polygateway import Chunk

from ..loops import TrioLoop
from .openai_chunk import body, take_apart

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..loops import Loop
    from . import Call, Take


class BareHttpcore:
    """Splits events, decodes them with msgspec, and makes polygateway's ``Chunk`` of each."""

    loop: ClassVar[Loop] = TrioLoop()

    @asynccontextmanager
    async def open(self, base_url: str, model: str) -> AsyncGenerator[Call]:
        """Open a pool without bounds."""
        url, asked = f"{base_url}/v1/chat/completions", body(model)
        headers = [("content-type", "application/json")]
        async with httpcore.AsyncConnectionPool(max_connections=None) as pool:

            async def call(take: Take) -> int:
                async with pool.stream("POST", url, headers=headers, content=asked) as response:
                    return await _read(response, take)

            yield call


BARE_HTTPCORE = BareHttpcore()


async def _read(response: httpcore.Response, take: Take) -> int:
    rest, count = b"", 0
    async for data in response.aiter_stream():
        texts, rest = take_apart(rest + data)
        for text in texts:
            take(Chunk("text", text, 0).delta)
        count += len(texts)
    return count
