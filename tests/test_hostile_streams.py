"""What a provider sends without end, or damaged, costs it its attempt and us very little.

In memory, with small limits, so that it takes no time.
"""

from __future__ import annotations

import re
import tracemalloc
from typing import TYPE_CHECKING

import pytest
import trio

from polygateway import (
    Completion,
    Config,
    GatewayError,
    HedgePolicy,
    Limits,
    RetryPolicy,
    Target,
    open_gateway,
)
from polygateway.testing import run_virtual
from tests.hostile import ATTACKS, KIB

if TYPE_CHECKING:
    from polygateway.policies import DialectName
    from tests.hostile import Bytes

LIMIT = 64 * KIB
MOST_MEMORY = 4096 * KIB
"""What an attack may take, with such limits: a fixed part, and some times the limit."""

LIMITS = Limits(max_event_bytes=LIMIT, max_body_bytes=LIMIT, max_answer_bytes=LIMIT)


class Pulled(trio.abc.Stream):
    """A connection whose other end sends as fast as it is read."""

    def __init__(self, sent: Bytes) -> None:
        self._sent = sent
        self._rest = b""
        self.given = 0
        self.closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        piece = self._rest or next(self._sent, b"")
        piece, self._rest = piece[:max_bytes], piece[max_bytes:]
        self.given += len(piece)
        return piece

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


def config(dialect: DialectName) -> Config:
    return Config(
        targets={"eu": Target(dialect=dialect, base_url="http://eu.invalid", model="m")},
        models={"m": ("eu",)},
        hedge=HedgePolicy(enabled=False),
        retry=RetryPolicy(max_retries=0),
        limits=LIMITS,
    )


async def called(dialect: DialectName, stream: trio.abc.Stream) -> Completion | GatewayError:
    async def connect(*_: object) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return stream

    async with open_gateway(config(dialect), connect=connect) as gw:
        try:
            return await gw.complete("How is the tide?", model="m")
        except GatewayError as error:
            return error


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_at_its_bound(name: str) -> None:
    attack = ATTACKS[name]
    stream = Pulled(attack.sent())
    tracemalloc.start()
    try:
        error = run_virtual(called, attack.dialect, stream, limit_s=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert type(error) is attack.error
    assert re.search(attack.says, str(error))
    assert len(str(error)) < 1000
    assert stream.closed
    assert peak < MOST_MEMORY
