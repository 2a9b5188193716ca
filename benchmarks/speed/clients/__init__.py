"""What is measured: one class for each way to get a streamed answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from ..loops import Loop

Take: TypeAlias = "Callable[[str], object]"
"""Is given the text of each chunk as soon as it is there."""

Call: TypeAlias = "Callable[[Take], Awaitable[int]]"
"""Makes a call, and gives how many chunks with content came."""


class Client(Protocol):
    """A way to get a streamed answer, as somebody would write it who needs one."""

    loop: ClassVar[Loop]
    """What it runs on."""

    def open(self, base_url: str, model: str) -> AbstractAsyncContextManager[Call]:
        """Give what calls *model* at the provider there, for the block."""
        ...


STREAM, COMPLETE = "polygateway stream", "polygateway complete"
STREAM_OFF, COMPLETE_OFF = f"{STREAM}, hedging off", f"{COMPLETE}, hedging off"
STREAM_FIRED, COMPLETE_FIRED = f"{STREAM}, hedge fired", f"{COMPLETE}, hedge fired"
HTTPCORE, RAW = "bare httpcore on trio", "raw trio sockets"
OPENAI, ANTHROPIC = "openai SDK on trio", "anthropic SDK on trio"
LITELLM, LANGCHAIN = "litellm acompletion", "langchain-openai astream"
AIOHTTP = "aiohttp by hand"

CLIENTS: Mapping[str, tuple[str, str]] = {
    STREAM: ("clients.gateway", "STREAM"),
    COMPLETE: ("clients.gateway", "COMPLETE"),
    STREAM_OFF: ("clients.gateway", "STREAM_OFF"),
    COMPLETE_OFF: ("clients.gateway", "COMPLETE_OFF"),
    STREAM_FIRED: ("clients.gateway", "STREAM_FIRED"),
    COMPLETE_FIRED: ("clients.gateway", "COMPLETE_FIRED"),
    RAW: ("clients.raw_trio", "RAW_TRIO"),
    HTTPCORE: ("clients.bare_httpcore", "BARE_HTTPCORE"),
    AIOHTTP: ("peers.aiohttp_by_hand", "AIOHTTP_BY_HAND"),
    ANTHROPIC: ("peers.anthropic_sdk", "ANTHROPIC_SDK"),
    OPENAI: ("peers.openai_sdk", "OPENAI_SDK"),
    LANGCHAIN: ("peers.langchain_sdk", "LANGCHAIN"),
    LITELLM: ("peers.litellm_sdk", "LITELLM"),
}
"""Where each is, by name. They are imported only in the process that measures them."""


def load(name: str) -> Client:
    """Import a client."""
    module, attribute = CLIENTS[name]
    return cast("Client", getattr(import_module(f"benchmarks.speed.{module}"), attribute))
