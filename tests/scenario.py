"""Whole calls against scripted providers, in virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypedDict, Unpack

import attrs
import trio

from polygateway import (
    Completion,
    Gateway,
    GatewayError,
    HedgePolicy,
    Limits,
    RetryPolicy,
    StreamPolicy,
    open_gateway,
)
from polygateway.testing import MemoryNetwork, ScriptedProvider, run_virtual, serve_memory

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from polygateway import CallOptions


class Policies(TypedDict, total=False):
    """The policies of a configuration."""

    hedge: HedgePolicy
    stream: StreamPolicy
    retry: RetryPolicy
    limits: Limits


# Backoffs are drawn; without a base they are 0, and every time in a test is exact.
AT_ONCE = RetryPolicy(backoff_base_s=0)
NO_RETRY = RetryPolicy(max_retries=0)


@attrs.frozen
class Result:
    """What a call gave."""

    completion: Completion | None
    error: GatewayError | None
    took_s: float

    @property
    def text(self) -> str:
        """The text of the answer, which must be there."""
        assert self.error is None, self.error
        assert self.completion is not None
        return self.completion.text

    @property
    def failure(self) -> GatewayError:
        """The error, which must be there."""
        assert self.error is not None, self.completion
        return self.error


@asynccontextmanager
async def gateway_to(
    providers: Mapping[str, ScriptedProvider], **policies: Unpack[Policies]
) -> AsyncGenerator[tuple[Gateway, MemoryNetwork]]:
    """Open a gateway whose model ``m`` has all *providers*; nothing may be left open behind it."""
    async with serve_memory(providers) as network:
        async with open_gateway(network.config(**policies), connect=network.connect) as gw:
            yield gw, network
        assert network.open_connections == 0


async def complete(gw: Gateway, **options: Unpack[CallOptions]) -> Result:
    """Complete a prompt."""
    start = trio.current_time()
    completion: Completion | None = None
    error: GatewayError | None = None
    try:
        completion = await gw.complete("How is the tide?", model="m", **options)
    except GatewayError as caught:
        error = caught
    return Result(completion, error, trio.current_time() - start)


def run_complete(providers: Mapping[str, ScriptedProvider], **policies: Unpack[Policies]) -> Result:
    """Complete one prompt in virtual time."""

    async def main() -> Result:
        async with gateway_to(providers, **policies) as (gw, _):
            return await complete(gw)

    return run_virtual(main)
