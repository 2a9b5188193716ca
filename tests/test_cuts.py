"""An answer that is cut anywhere is never taken for a whole one, and never ends in a raw exception.

Every offset of one short whole answer on every wire, HTTP's framing included: the connection is
closed there, reset there, or falls silent there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs
import pytest
import trio

from polygateway import (
    AttemptError,
    Config,
    ConnectFailed,
    FirstContentTimeout,
    Gateway,
    HedgePolicy,
    ProtocolViolation,
    RetryPolicy,
    StallTimeout,
    StreamPolicy,
    Target,
    Truncated,
    open_gateway,
)
from polygateway.testing import run_virtual
from polygateway.testing._memory import MemoryConnection
from tests.golden import GOLDEN, Golden

if TYPE_CHECKING:
    from polygateway.policies import DialectName

How: TypeAlias = Literal["fin", "rst", "stall"]

BROKEN = (ConnectFailed, ProtocolViolation)


@attrs.frozen
class Cut:
    """A response that ends early, and what must come of it."""

    sent: bytes
    text: str
    is_whole: bool


def response(golden: Golden) -> tuple[bytes, list[bytes]]:
    """Give the head, and the chunks of the body, one for each event."""
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: {golden.content_type}\r\n"
        "transfer-encoding: chunked\r\n\r\n"
    )
    sizes = [b"%x\r\n" % len(event.data) for event in golden.events]
    return head.encode(), sizes


def cuts(golden: Golden, how: How) -> list[Cut]:
    """Cut the response at every offset, the first before its first byte."""
    head, sizes = response(golden)
    sent = head
    readable: list[tuple[int, str, bool]] = []  # from which offset on an event is taken
    for size, event in zip(sizes, golden.events, strict=True):
        needed = event.given if how == "stall" else event.whole
        readable.append((len(sent) + len(size) + needed, event.text, event.terminal))
        sent += size + event.data + b"\r\n"
    sent += b"0\r\n\r\n"
    return [_cut(sent[:offset], readable) for offset in range(len(sent))]


def _cut(sent: bytes, readable: list[tuple[int, str, bool]]) -> Cut:
    taken = [(text, terminal) for at, text, terminal in readable if at <= len(sent)]
    text = "".join(text for text, _ in taken)
    return Cut(sent, text, is_whole=any(terminal for _, terminal in taken))


def expected(cut: Cut, how: How) -> type[AttemptError] | tuple[type[AttemptError], ...]:
    """Give the error that an answer must end with that is not whole."""
    if how == "stall":
        return StallTimeout if cut.text else FirstContentTimeout
    return Truncated if cut.text else BROKEN


async def serve(connection: MemoryConnection, sent: bytes, how: How) -> None:
    seen = b""
    while not seen.endswith(b"}"):  # the body is one JSON object
        seen += await connection.server.receive_some()
    if sent:
        await connection.server.send_all(sent)
    if how == "stall":
        await connection.server.receive_some()
    elif how == "rst":
        connection.break_off()
    await connection.server.aclose()


def config(dialect: DialectName) -> Config:
    return Config(
        targets={"eu": Target(dialect=dialect, base_url="http://eu.invalid", model="m")},
        models={"m": ("eu",)},
        hedge=HedgePolicy(enabled=False),
        retry=RetryPolicy(max_retries=0),
        stream=StreamPolicy(ttft_timeout_s=1, stall_timeout_s=1),
    )


async def judge(gw: Gateway, cut: Cut, how: How) -> None:
    if cut.is_whole:
        answer = await gw.complete("How is the tide?", model="m")
        assert answer.text == cut.text
        return
    with pytest.raises(AttemptError) as caught:
        await gw.complete("How is the tide?", model="m")
    error = caught.value
    assert isinstance(error, expected(cut, how)), cut.sent
    assert error.retryable
    assert ("" if error.partial is None else error.partial.text) == cut.text


async def run(dialect: DialectName, golden: Golden, how: How) -> None:
    left = iter(tries := cuts(golden, how))
    async with trio.open_nursery() as nursery:

        async def connect(*_: object) -> trio.abc.Stream:
            connection = MemoryConnection()
            nursery.start_soon(serve, connection, next(left).sent, how)
            return connection.client

        async with open_gateway(config(dialect), connect=connect) as gw:
            for cut in tries:
                await judge(gw, cut, how)


@pytest.mark.parametrize("how", ["fin", "rst", "stall"])
@pytest.mark.parametrize("wire", GOLDEN)
def test_wherever_an_answer_is_cut_the_caller_is_told(wire: str, how: How) -> None:
    dialect, golden = GOLDEN[wire]
    run_virtual(run, dialect, golden, how)
