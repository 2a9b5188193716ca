"""The watchdogs count from the last content: nothing else that comes puts them off, on any wire."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from polygateway import (
    Config,
    ConnectTimeout,
    FirstContentTimeout,
    GatewayError,
    HedgePolicy,
    RetryPolicy,
    StallTimeout,
    StreamBroken,
    StreamPolicy,
    Target,
    open_gateway,
)
from polygateway.testing import run_virtual
from polygateway.testing._memory import MemoryConnection
from tests.hostile import WIRES, Wire

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from polygateway.policies import DialectName

CONNECT_S, FIRST_S, STALL_S = 2.0, 3.0, 1.0
CLOSE_S = 0.05
"""How near to its limit a watchdog must end an attempt."""

EVERY_S = 0.07
CASES = [(wire, name) for wire, each in WIRES.items() for name in each.keepalives]


@attrs.frozen
class Ended:
    """How a call ended, and after how long."""

    error: GatewayError
    took_s: float


async def serve(connection: MemoryConnection, pieces: Iterable[tuple[float, bytes]]) -> None:
    """Answer with *pieces*, each after a time, until the client leaves."""
    seen = b""
    while not seen.endswith(b"}"):  # the body is one JSON object
        seen += await connection.server.receive_some()
    try:
        for after_s, piece in pieces:
            await trio.sleep(after_s)
            await connection.server.send_all(piece)
    except trio.BrokenResourceError:
        pass


def config(dialect: DialectName) -> Config:
    return Config(
        targets={"eu": Target(dialect=dialect, base_url="http://eu.invalid", model="m")},
        models={"m": ("eu",)},
        hedge=HedgePolicy(enabled=False),
        retry=RetryPolicy(max_retries=0),
        stream=StreamPolicy(
            connect_timeout_s=CONNECT_S, ttft_timeout_s=FIRST_S, stall_timeout_s=STALL_S
        ),
    )


async def call(
    dialect: DialectName, pieces: Iterable[tuple[float, bytes]], connect_s: float = 0
) -> Ended:
    async with trio.open_nursery() as nursery:

        async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
            await trio.sleep(connect_s)
            connection = MemoryConnection()
            nursery.start_soon(serve, connection, pieces)
            return connection.client

        async with open_gateway(config(dialect), connect=connect) as gw:
            start = trio.current_time()
            with pytest.raises(GatewayError) as caught:
                await gw.complete("How is the tide?", model="m")
            took_s = trio.current_time() - start
        nursery.cancel_scope.cancel()
    return Ended(caught.value, took_s)


def for_ever(wire: Wire, name: str) -> Iterable[tuple[float, bytes]]:
    return itertools.repeat((EVERY_S, wire.keepalives[name]))


@pytest.mark.parametrize(("wire", "name"), CASES)
def test_no_keepalive_puts_off_the_first_content_s_limit(wire: str, name: str) -> None:
    pieces = [(0.0, WIRES[wire].head)]
    ended = run_virtual(
        call, WIRES[wire].dialect, itertools.chain(pieces, for_ever(WIRES[wire], name))
    )
    assert type(ended.error) is FirstContentTimeout
    assert abs(ended.took_s - FIRST_S) <= CLOSE_S


@pytest.mark.parametrize(("wire", "name"), CASES)
def test_no_keepalive_puts_off_the_silence_s_limit(wire: str, name: str) -> None:
    pieces = [
        (0.0, WIRES[wire].head),
        (0.4, WIRES[wire].text("Ebb.")),
        (0.3, WIRES[wire].text("x")),
    ]
    ended = run_virtual(
        call, WIRES[wire].dialect, itertools.chain(pieces, for_ever(WIRES[wire], name))
    )
    assert type(ended.error) is StallTimeout
    assert ended.error.partial is not None
    assert ended.error.partial.text == "Ebb.x"
    assert abs(ended.took_s - (0.7 + STALL_S)) <= CLOSE_S


def test_a_trickle_of_header_bytes_does_not_put_off_the_first_content_s_limit() -> None:
    line = b"HTTP/1.1 200 OK\r\nx-slow: "
    pieces = itertools.chain([(0.0, line)], itertools.repeat((EVERY_S, b"x")))
    ended = run_virtual(call, "openai-chat", pieces)
    assert type(ended.error) is FirstContentTimeout
    assert abs(ended.took_s - FIRST_S) <= CLOSE_S


def test_a_connection_that_never_opens_has_a_limit_of_its_own() -> None:
    nothing: list[tuple[float, bytes]] = []
    ended = run_virtual(call, "openai-chat", nothing, 1000.0)
    assert type(ended.error) is ConnectTimeout
    assert abs(ended.took_s - CONNECT_S) <= CLOSE_S


def test_interim_responses_do_not_put_off_the_first_content_s_limit() -> None:
    pieces = itertools.repeat((EVERY_S, b"HTTP/1.1 102 Processing\r\n\r\n"))
    ended = run_virtual(call, "openai-chat", pieces)
    assert type(ended.error) is FirstContentTimeout
    assert abs(ended.took_s - FIRST_S) <= CLOSE_S


@pytest.mark.parametrize("wire", WIRES)
def test_no_keepalive_puts_off_the_silence_s_limit_of_a_delivered_stream(wire: str) -> None:
    spoken = WIRES[wire]
    pieces = itertools.chain(
        [(0.0, spoken.head), (0.4, spoken.text("Ebb."))],
        ((EVERY_S, event) for event in itertools.cycle(spoken.keepalives.values())),
    )

    async def main() -> Ended:
        async with trio.open_nursery() as nursery:

            async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
                await trio.lowlevel.checkpoint()
                connection = MemoryConnection()
                nursery.start_soon(serve, connection, pieces)
                return connection.client

            async with (
                open_gateway(config(spoken.dialect), connect=connect) as gw,
                gw.stream("How is the tide?", model="m") as stream,
            ):
                assert (await anext(stream)).text == "Ebb."
                with pytest.raises(StreamBroken) as caught:
                    await anext(stream)
                took_s = trio.current_time()
            nursery.cancel_scope.cancel()
        return Ended(caught.value, took_s)

    ended = run_virtual(main)
    assert type(ended.error.__cause__) is StallTimeout
    assert abs(ended.took_s - (0.4 + STALL_S)) <= CLOSE_S


class Stuck(trio.abc.Stream):
    """A connection whose other end reads nothing."""

    def __init__(self) -> None:
        self.closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep_forever()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.sleep_forever()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.sleep_forever()

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


def test_a_request_that_nobody_reads_is_given_up_like_any_silence() -> None:
    stuck = Stuck()

    async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return stuck

    async def main() -> float:
        async with open_gateway(config("openai-chat"), connect=connect) as gw:
            with pytest.raises(FirstContentTimeout):
                await gw.complete("How is the tide?", model="m")
        return trio.current_time()

    assert abs(run_virtual(main) - FIRST_S) <= CLOSE_S
    assert stuck.closed
