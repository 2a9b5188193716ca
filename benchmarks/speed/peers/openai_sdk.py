"""OpenAI's SDK on trio."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

from openai import AsyncOpenAI

from ..clients.openai_chunk import QUESTION
from ..loops import TrioLoop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..clients import Call, Take
    from ..loops import Loop


class OpenAISDK:
    """Its client as it comes."""

    loop: ClassVar[Loop] = TrioLoop()

    @asynccontextmanager
    async def open(self, base_url: str, model: str) -> AsyncGenerator[Call]:
        """Open a client."""
        async with AsyncOpenAI(base_url=f"{base_url}/v1", api_key="none") as client:

            async def call(take: Take) -> int:
                count = 0
                async with await client.chat.completions.create(
                    model=model, messages=[{"role": "user", "content": QUESTION}], stream=True
                ) as stream:
                    async for chunk in stream:
                        if chunk.choices and (text := chunk.choices[0].delta.content):
                            take(text)
                            count += 1
                return count

            yield call


OPENAI_SDK = OpenAISDK()
