"""litellm, on asyncio."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

import litellm

from ..clients.openai_chunk import QUESTION
from .asyncio_loop import AsyncioLoop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..clients import Call, Take
    from ..loops import Loop


class Litellm:
    """``acompletion`` as it comes."""

    loop: ClassVar[Loop] = AsyncioLoop()

    @asynccontextmanager
    async def open(self, base_url: str, model: str) -> AsyncGenerator[Call]:
        """Give what calls; litellm keeps its connections itself."""

        async def call(take: Take) -> int:
            count = 0
            stream = await litellm.acompletion(
                model=f"openai/{model}",
                api_base=f"{base_url}/v1",
                api_key="none",
                messages=[{"role": "user", "content": QUESTION}],
                stream=True,
            )
            async for chunk in stream:
                if chunk.choices and (text := chunk.choices[0].delta.content):
                    take(text)
                    count += 1
            return count

        yield call


LITELLM = Litellm()
