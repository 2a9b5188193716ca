"""The systems that are compared: each a way to get a whole answer, run in a process of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Literal, TypeAlias, cast

import attrs

Ask: TypeAlias = Callable[[str], Awaitable[str]]
"""Gives the answer to a prompt."""

Opened: TypeAlias = AbstractAsyncContextManager[Ask]
"""A system that is ready for the block."""

ATTEMPTS = 4
"""How often a call may be tried, by every system that tries again."""


@attrs.frozen
class System:
    """What is known of a system without importing it."""

    title: str
    """What it is called in tables."""

    place: str
    """Its module and function, which takes a provider's address and gives an :data:`Opened`."""

    loop: Literal["trio", "asyncio"]

    def load(self) -> Callable[[str], Opened]:
        """Import it."""
        module, _, function = self.place.partition(":")
        opened = getattr(import_module(module, __package__), function)
        return cast("Callable[[str], Opened]", opened)


SYSTEMS: Mapping[str, System] = {
    "complete": System("polygateway `complete()`", ".gateway:complete", "trio"),
    "first-complete": System(
        "polygateway `complete()`, first-complete", ".gateway:first_complete", "trio"
    ),
    "continue": System("polygateway `stream()`, continue", ".gateway:continued", "trio"),
    "openai": System("openai SDK", ".peers.openai_sdk:plain", "trio"),
    "openai-read": System(
        "openai SDK, read timeout and retry", ".peers.openai_sdk:read_timeout", "trio"
    ),
    "openai-watchdog": System(
        "openai SDK, watchdog and retry", ".peers.openai_sdk:watchdog", "trio"
    ),
    "langchain": System("langchain, its watchdog and retry", ".peers.langchain:retried", "asyncio"),
    "litellm": System(
        "litellm Router, its continuation", ".peers.litellm_router:continued", "asyncio"
    ),
    "default-complete": System("polygateway `complete()`", ".gateway:default", "trio"),
    "default-continue": System(
        "polygateway `stream()`, continue", ".gateway:default_continued", "trio"
    ),
    "default-stream": System("polygateway `stream()`", ".gateway:default_stream", "trio"),
    "default-openai": System("openai SDK", ".peers.openai_sdk:plain", "trio"),
    "default-langchain": System("langchain", ".peers.langchain:default", "asyncio"),
    "default-litellm": System("litellm Router", ".peers.litellm_router:default", "asyncio"),
}

PACKAGES = (
    *("polygateway", "trio", "httpcore", "h11", "openai", "httpx2", "httpcore2", "litellm"),
    *("langchain-openai", "langchain-core", "aiohttp"),
)
"""The distributions whose versions matter."""
