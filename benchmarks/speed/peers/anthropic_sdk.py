"""Anthropic's SDK on trio: another wire, with fewer fields in an event, so other work."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

from anthropic import AsyncAnthropic

from ..clients.openai_chunk import QUESTION
from ..loops import TrioLoop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..clients import Call, Take
    from ..loops import Loop


class AnthropicSDK:
    """Its client as it comes, and its plain stream of events."""

    loop: ClassVar[Loop] = TrioLoop()

    @asynccontextmanager
    async def open(self, base_url: str, model: str) -> AsyncGenerator[Call]:
        """Open a client."""
        async with AsyncAnthropic(base_url=base_url, api_key="none") as client:

            async def call(take: Take) -> int:
                count = 0
                async with await client.messages.create(
                    model=model,
                    max_tokens=1000,
                    messages=[{"role": "user", "content": QUESTION}],
                    stream=True,
                ) as stream:
                    async for event in stream:
                        if event.type == "content_block_delta" and event.delta.type == "text_delta":
                            take(event.delta.text)
                            count += 1
                return count

            yield call


ANTHROPIC_SDK = AnthropicSDK()
