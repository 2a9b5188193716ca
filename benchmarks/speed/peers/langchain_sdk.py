"""langchain-openai, on asyncio."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

from langchain_openai import ChatOpenAI

from ..clients.openai_chunk import QUESTION
from .asyncio_loop import AsyncioLoop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..clients import Call, Take
    from ..loops import Loop


class LangChain:
    """``ChatOpenAI.astream`` as it comes, its watchdog included."""

    loop: ClassVar[Loop] = AsyncioLoop()

    @asynccontextmanager
    async def open(self, base_url: str, model: str) -> AsyncGenerator[Call]:
        """Make a chat model; it keeps its connections itself."""
        chat = ChatOpenAI(model=model, base_url=f"{base_url}/v1", api_key="none")

        async def call(take: Take) -> int:
            count = 0
            async for piece in chat.astream(QUESTION):
                if text := piece.content:
                    take(str(text))
                    count += 1
            return count

        yield call


LANGCHAIN = LangChain()
