"""What a provider sends without end, or damaged, costs it its attempt and us very little.

In memory, with small limits, so that it takes no time.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
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
    ProtocolViolation,
    RetryPolicy,
    ServerError,
    Target,
    Truncated,
    open_gateway,
)
from polygateway.testing import run_virtual
from tests.hostile import ATTACKS, CHUNKED, FLOODS, KIB, WIRES, Wire, head

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polygateway.policies import DialectName
    from tests.hostile import Bytes

MIB = 1024 * KIB
LIMIT = 64 * KIB
READ = 64 * KIB
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


def config(dialect: DialectName, limits: Limits) -> Config:
    return Config(
        targets={"eu": Target(dialect=dialect, base_url="http://eu.invalid", model="m")},
        models={"m": ("eu",)},
        hedge=HedgePolicy(enabled=False),
        retry=RetryPolicy(max_retries=0),
        limits=limits,
    )


async def called(
    dialect: DialectName, stream: trio.abc.Stream, limits: Limits = LIMITS
) -> Completion | GatewayError:
    async def connect(*_: object) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return stream

    async with open_gateway(config(dialect, limits), connect=connect) as gw:
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


# ---------------------------------------------------------------- what is damaged, but ends


def finished(wire: Wire, *events: bytes) -> Pulled:
    return Pulled(iter([wire.head, *events]))


@pytest.mark.parametrize("name", WIRES)
def test_bytes_that_are_no_utf_8_are_told_with_their_place(name: str) -> None:
    wire = WIRES[name]
    before, after = wire.text("@").split(b"@")
    first = wire.text("Ebb.")
    error = run_virtual(called, wire.dialect, finished(wire, first, before, b"\xe6\xb3", after))
    assert type(error) is ProtocolViolation
    body_starts = len(head(f"content-type: {wire.content_type}"))
    place = len(wire.head + first + before) - body_starts
    assert f"at byte {place} of the stream" in str(error)
    assert error.partial is not None
    assert error.partial.text == "Ebb."


@pytest.mark.parametrize("name", WIRES)
def test_of_a_name_that_stands_twice_the_last_value_counts(name: str) -> None:
    wire = WIRES[name]
    once, value = wire.text("Ebb."), json.dumps("Ebb.").encode()
    field, _ = once.split(value)
    label = field[field.rindex(b'"', 0, -3) :]
    twice = once.replace(label + value, label + b'"Flood.", ' + label + value)
    assert twice != once
    error = run_virtual(called, wire.dialect, finished(wire, twice))
    assert isinstance(error, Truncated)
    assert error.partial is not None
    assert error.partial.text == "Ebb."


NUMBERS = ("1e999", "-1e999", "1" * 400, "1" * 5000, "-1", "1.5", "9223372036854775808", "NaN")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", WIRES)
def test_a_number_that_counts_nothing_is_no_figure(name: str, number: str) -> None:
    wire = WIRES[name]
    usage = b"prompt_tokens promptTokenCount input_tokens prompt_eval_count".split()
    numbers = b", ".join(b'"%s": %s' % (field, number.encode()) for field in usage)
    event = wire.text("Ebb.").replace(
        b"{", b'{%s, "usage": {%s}, "usageMetadata": {%s}, ' % ((numbers,) * 3), 1
    )
    error = run_virtual(called, wire.dialect, finished(wire, event))
    assert isinstance(error, Truncated | ProtocolViolation)  # Python reads no number of 5000 digits
    assert isinstance(error, ProtocolViolation) == (len(number) > 4300)
    if error.partial is not None:
        assert error.partial.text == "Ebb."
        assert not error.partial.usage.is_known


@pytest.mark.parametrize("name", WIRES)
def test_nul_characters_in_a_text_are_text(name: str) -> None:
    wire = WIRES[name]
    error = run_virtual(called, wire.dialect, finished(wire, wire.text("a\0b")))
    assert isinstance(error, Truncated)
    assert error.partial is not None
    assert error.partial.text == "a\0b"


# ---------------------------------------------------------------- memory that is not bytes


# What would take over 24 MiB: an element, and how often.
DENSE = {
    "objects": (b'{"":0},', MIB // 7),
    "numbers": (b"999,", 3 * MIB // 4),
}


@pytest.mark.parametrize("dense", DENSE)
@pytest.mark.parametrize("name", WIRES)
def test_json_that_would_fill_the_memory_is_not_read(name: str, dense: str) -> None:
    wire = WIRES[name]
    before, after = wire.text("@").split(b'"@"')
    element, count = DENSE[dense]
    event = before + b"[" + element * count + b"0]" + after
    answer, peak = run_traced(wire, [event], Limits())
    assert isinstance(answer, ProtocolViolation)
    assert "take over 24 MiB" in str(answer)
    assert peak < 16 * MIB


@pytest.mark.parametrize("letter", ["x", "\xe9", "\u6ce2", "\U0001f30a"])
@pytest.mark.parametrize("name", WIRES)
def test_an_answer_takes_its_limit_in_memory_and_not_many_times_it(name: str, letter: str) -> None:
    wire = WIRES[name]
    # Letters, and one character in a hundred that makes Python hold all of them at its own width.
    event = wire.text("x" * 99 + letter)
    limits = Limits(max_answer_bytes=256 * KIB)
    answer, peak = run_traced(wire, itertools.repeat(event * 50), limits)
    assert isinstance(answer, ProtocolViolation)
    assert "max_answer_bytes" in str(answer)
    assert answer.partial is not None
    assert sys.getsizeof(answer.partial.text) <= 257 * KIB
    assert peak < 2 * MIB


def run_traced(
    wire: Wire, events: Iterable[bytes], limits: Limits
) -> tuple[Completion | GatewayError, int]:
    """Make a call, and give what comes of it and the most memory that was taken."""
    stream = Pulled(itertools.chain([wire.head], events))
    tracemalloc.start()
    try:
        answer = run_virtual(called, wire.dialect, stream, limits, limit_s=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return answer, peak


# ---------------------------------------------------------------- other people's turns


class Slow(Pulled):
    """Sends a piece now and then."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.sleep(0.3)
        return await super().receive_some(max_bytes)


def test_a_refusal_whose_body_trickles_is_told_in_two_seconds() -> None:
    body = itertools.repeat(b"x")
    start = head("content-type: text/plain", status="500 Oops")

    async def main() -> float:
        error = await called("openai-chat", Slow(itertools.chain([start], body)))
        assert isinstance(error, ServerError)
        return trio.current_time()

    assert run_virtual(main) <= 0.3 + 2.0


TURNS = 10


@pytest.mark.parametrize("name", FLOODS)
def test_others_have_their_turn_beside_a_flood(name: str) -> None:
    # Of what one turn takes benchmarks/check_hostile.py measures the time, and this the bytes.
    stream = Pulled(FLOODS[name].sent())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(called, FLOODS[name].dialect, stream)
            for _ in range(TURNS):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    run_virtual(main)
    assert stream.given <= TURNS * READ


def test_others_have_their_turn_beside_thousands_of_odd_chunks_in_a_read() -> None:
    stream = Pulled(iter([CHUNKED + b"1;a\r\n:\r\n" * 8_000]))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await called("openai-chat", stream)
            nursery.cancel_scope.cancel()

    run_virtual(main)
    assert turns >= 8_000 / 500
