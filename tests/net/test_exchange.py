from __future__ import annotations

import gc
import gzip
import weakref
import zlib
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from polygateway.net.connections import Connections, NoSlot
from polygateway.net.dial import Endpoint
from polygateway.net.exchange import ConnectOverdue, Exchange
from polygateway.net.http import ConnectionLost, HTTPViolation
from polygateway.net.inflate import CodingError
from polygateway.net.stream import Overdue
from polygateway.testing import run_virtual
from tests.net.wires import (
    OK,
    POST,
    SECOND,
    Network,
    ServerEnd,
    Strike,
    replied,
    requested,
    sockets,
    with_slots,
    within,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from polygateway.net.exchange import Deadlines
    from tests.net.wires import Serve

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class House:
    """A network, its connections, and the exchanges over them."""

    def __init__(
        self, nursery: trio.Nursery, *serve: Serve, slots: int = 1, connect_s: float = 0
    ) -> None:
        self.network = Network(nursery, serve, connect_s=connect_s)
        endpoint = Endpoint("http", "h", 80, None)
        self.connections = Connections(endpoint, with_slots(slots), self.network.connect)
        self.reads: list[tuple[float, float]] = []
        """The stamps that the exchanges were told, in seconds."""

    def exchange(self) -> Exchange:
        return Exchange(self.connections, self._note_read)

    def _note_read(self, asked_ns: int, arrived_ns: int, found: bool) -> None:
        self.reads.append((asked_ns / SECOND, arrived_ns / SECOND))

    async def opened(self, deadlines: Deadlines | None = None) -> Exchange:
        exchange = self.exchange()
        await exchange.open(POST, deadlines or within())
        return exchange

    async def whole(self) -> bytes:
        """Have an exchange to its end, and give up the connection for reuse."""
        exchange = await self.opened()
        body = await rest_of(exchange)
        await exchange.finish()
        return body

    @property
    def state(self) -> tuple[int, int]:
        """How many connections are open and how many slots free; both sides must agree."""
        assert self.connections.open == self.network.open
        return self.connections.open, self.connections.free_slots


async def rest_of(exchange: Exchange) -> bytes:
    body = b""
    while not exchange.ended:
        body += await exchange.read()
    return body


def run(main: Callable[[trio.Nursery], Awaitable[None]]) -> None:
    """Run *main* in virtual time, with a nursery for servers."""

    async def outer() -> None:
        async with trio.open_nursery() as nursery:
            await main(nursery)
            nursery.cancel_scope.cancel()

    run_virtual(outer)


def serving(*pieces: bytes, every_s: float = 0) -> Serve:
    """Answer each request with *pieces*, each *every_s* after the one before."""

    async def serve(server: ServerEnd) -> None:
        while True:
            await replied(server, *pieces, every_s=every_s)

    return serve


def closing_after(*pieces: bytes) -> Serve:
    """Answer one request with *pieces*, then close."""

    async def serve(server: ServerEnd) -> None:
        await replied(server, *pieces, every_s=0)
        await server.aclose()

    return serve


async def silent(server: ServerEnd) -> None:
    await trio.sleep_forever()


# ---------------------------------------------------------------- opening


def test_an_exchange_gives_head_and_body_and_its_connection_back() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK))
        exchange = house.exchange()
        head = await exchange.open(POST, within())
        assert exchange.had_connection
        assert (head.status, head.headers) == (200, {"content-length": "2"})
        assert house.state == (1, 0)
        assert await exchange.read() == b"ok"
        assert exchange.ended
        await exchange.finish()
        assert house.state == (1, 1)

    run(main)


@pytest.mark.parametrize(
    ("deadlines", "error", "at"),
    [
        ({"admission_s": 3, "end_s": 9}, NoSlot, 3),
        ({"admission_s": 9, "end_s": 3}, Overdue, 3),
        ({"admission_s": 3, "end_s": 3}, Overdue, 3),
    ],
)
def test_a_slot_is_waited_for_in_its_own_time_and_in_that_of_all(
    deadlines: dict[str, float], error: type[Exception], at: float
) -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(CHUNKED))
        await house.opened()
        exchange = house.exchange()
        with pytest.raises(error) as caught:
            await exchange.open(POST, within(**deadlines))
        assert type(caught.value) is error
        assert trio.current_time() == at
        assert not exchange.had_connection
        exchange.close()
        assert house.state == (1, 0)

    run(main)


@pytest.mark.parametrize(
    ("deadlines", "error", "at"),
    [
        ({"connect_s": 3, "end_s": 9}, ConnectOverdue, 3),
        ({"connect_s": 9, "end_s": 3}, Overdue, 3),
        ({"connect_s": 3, "end_s": 3}, Overdue, 3),
    ],
)
def test_a_connection_may_take_its_own_time_and_that_of_all(
    deadlines: dict[str, float], error: type[Exception], at: float
) -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, silent, connect_s=20)
        exchange = house.exchange()
        with pytest.raises(Overdue) as caught:
            await exchange.open(POST, within(**deadlines))
        assert type(caught.value) is error
        assert trio.current_time() == at
        assert not exchange.had_connection
        exchange.close()
        assert house.state == (0, 1)

    run(main)


def test_the_time_to_connect_begins_when_there_is_a_slot() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK), connect_s=2)
        first = await house.opened()
        nursery.start_soon(house.opened, within(connect_s=3))
        await trio.sleep(8)
        first.close()
        await trio.sleep(2.5)
        assert house.state == (1, 0)

    run(main)


def test_the_head_is_waited_for_until_the_end_of_all() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, silent, connect_s=2)
        exchange = house.exchange()
        with pytest.raises(Overdue) as caught:
            await exchange.open(POST, within(connect_s=3, end_s=7))
        assert type(caught.value) is Overdue
        assert trio.current_time() == 7
        exchange.close()
        assert house.state == (0, 1)

    run(main)


@pytest.mark.parametrize(
    ("reply", "error"), [(b"", ConnectionLost), (b"HTTP/1.1 banana\r\n\r\n", HTTPViolation)]
)
def test_a_reply_that_is_none_costs_the_connection(reply: bytes, error: type[Exception]) -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, closing_after(reply))
        exchange = house.exchange()
        with pytest.raises(error):
            await exchange.open(POST, within())
        exchange.close()
        assert house.state == (0, 1)
        assert len(house.network.clients) == 1

    run(main)


def test_what_is_sent_shows_neither_the_key_nor_the_prompt() -> None:
    assert repr(POST) == "Post()"


# ---------------------------------------------------------------- reuse


def test_a_connection_is_reused_for_the_next_exchange() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK))
        for _ in range(3):
            assert await house.whole() == b"ok"
        assert len(house.network.clients) == 1

    run(main)


def test_a_stale_connection_is_replaced_in_silence() -> None:
    # encode/httpx#2983: the peer closed an idle connection, which only its next use can find out.
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, closing_after(OK), serving(OK))
        assert await house.whole() == b"ok"
        await trio.sleep(60)
        assert house.state == (1, 1)
        assert await house.whole() == b"ok"
        assert [client.closed for client in house.network.clients] == [True, False]
        assert house.state == (1, 1)

    run(main)


def test_a_stale_connection_is_replaced_once_and_by_a_fresh_one() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, closing_after(OK), closing_after(OK), closing_after(), slots=2)
        first, second = await house.opened(), await house.opened()
        for exchange in (first, second):
            await rest_of(exchange)
            await exchange.finish()
        assert house.state == (2, 2)
        exchange = house.exchange()
        with pytest.raises(ConnectionLost):
            await exchange.open(POST, within())
        exchange.close()
        # The other idle one, which may be as stale, was not tried.
        assert [client.closed for client in house.network.clients] == [False, True, True]

    run(main)


@pytest.mark.parametrize("last_words", [b"H", b"HTTP/1.1 102 Processing\r\n\r\n"])
def test_a_reused_connection_that_brought_a_byte_was_not_stale(last_words: bytes) -> None:
    # The request may have been worked on: to send it again would be to pay for it twice.
    async def serve(server: ServerEnd) -> None:
        await replied(server, OK)
        await closing_after(last_words)(server)

    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serve, serving(OK))
        await house.whole()
        exchange = house.exchange()
        with pytest.raises(ConnectionLost):
            await exchange.open(POST, within())
        exchange.close()
        assert len(house.network.clients) == 1
        assert house.state == (0, 1)

    run(main)


@pytest.mark.parametrize(("connect_s", "error"), [(3, ConnectOverdue), (9, Overdue)])
def test_the_replacement_of_a_stale_connection_has_the_same_deadlines(
    connect_s: float, error: type[Exception]
) -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, closing_after(OK), silent)
        await house.whole()
        house.network.connect_s = 20
        exchange = house.exchange()
        with pytest.raises(Overdue) as caught:
            await exchange.open(POST, within(connect_s=connect_s, end_s=8))
        assert type(caught.value) is error
        assert trio.current_time() == min(connect_s, 8)
        exchange.close()
        assert house.state == (0, 1)

    run(main)


def test_reads_are_told_to_the_exchange_that_makes_them() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK[:-2], OK[-2:], every_s=1))
        assert await house.whole() == b"ok"
        assert house.reads == [(0, 1), (1, 2)]
        told: list[int] = []
        exchange = Exchange(house.connections, lambda _, arrived, __: told.append(arrived))
        await exchange.open(POST, within())
        assert await rest_of(exchange) == b"ok"
        assert told == [3 * SECOND, 4 * SECOND]
        assert len(house.reads) == 2
        assert len(house.network.clients) == 1

    run(main)


# ---------------------------------------------------------------- sending


async def opened_somehow(exchange: Exchange, deadlines: Deadlines) -> None:
    with suppress(Overdue, trio.ClosedResourceError):
        await exchange.open(POST, deadlines)


@pytest.mark.parametrize("end_s", [3, 9], ids=["the deadline", "the reply"])
def test_when_the_request_was_sent_is_known_however_the_wait_for_its_reply_ends(
    end_s: float,
) -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK, every_s=5), connect_s=2)
        exchange = house.exchange()
        assert exchange.sent_ns is None
        await opened_somehow(exchange, within(end_s=end_s))
        assert exchange.sent_ns == 2 * SECOND

    run(main)


def test_when_the_request_was_sent_is_known_at_once_to_whoever_closes() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, silent, connect_s=2)
        exchange = house.exchange()
        async with trio.open_nursery() as opening:
            opening.start_soon(opened_somehow, exchange, within())
            await trio.sleep(5)
            exchange.close()
            assert exchange.sent_ns == 2 * SECOND  # although its task has had no turn since

    run(main)


def test_an_exchange_without_a_slot_or_a_connection_has_sent_nothing() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK), connect_s=5)
        exchanges = [house.exchange() for _ in range(2)]
        async with trio.open_nursery() as opening:
            for exchange in exchanges:
                opening.start_soon(closed_in, partial(exchange.open, POST, within()))
            await trio.sleep(1)
            for exchange in exchanges:
                exchange.close()
                assert exchange.sent_ns is None

    run(main)


def test_what_a_later_exchange_sends_over_the_same_connection_is_not_ones_own() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK))
        first = await house.opened()
        await rest_of(first)
        await first.finish()
        await trio.sleep(3)
        second = await house.opened()
        assert len(house.network.clients) == 1
        assert (first.sent_ns, second.sent_ns) == (0, 3 * SECOND)

    run(main)


def test_a_request_that_is_sent_again_was_sent_the_second_time() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, closing_after(OK), serving(OK), connect_s=1)
        assert await house.whole() == b"ok"
        exchange = await house.opened()
        assert len(house.network.clients) == 2
        assert exchange.sent_ns == 2 * SECOND

    run(main)


# ---------------------------------------------------------------- reading


def test_the_deadline_of_a_read_can_be_set_anew_and_reading_goes_on() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(CHUNKED, b"2\r\nok\r\n", LAST_CHUNK, every_s=5))
        exchange = await house.opened()
        for deadline in (6, 8):
            exchange.deadline_ns = deadline * SECOND
            with pytest.raises(Overdue):
                await exchange.read()
            assert trio.current_time() == deadline
        exchange.deadline_ns = None
        assert await rest_of(exchange) == b"ok"
        assert house.reads == [(0, 5), (5, 6), (6, 8), (8, 10), (10, 15)]

    run(main)


def test_a_cancelled_read_goes_on_in_another_task() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(CHUNKED, b"2\r\no", b"k\r\n", LAST_CHUNK, every_s=2))
        exchange = await house.opened()
        bodies: list[bytes] = []

        async def read_on() -> None:
            bodies.append(await rest_of(exchange))

        with trio.move_on_after(3):
            await read_on()
        assert bodies == []
        assert house.state == (1, 0)
        # It had brought "o", which the first reader has: none of the rest is lost.
        nursery.start_soon(read_on)
        await trio.sleep(10)
        assert bodies == [b"k"]

    run(main)


@pytest.mark.parametrize(
    ("rest", "error"),
    [([b"zz\r\n"], HTTPViolation), ([], ConnectionLost)],
    ids=["damaged", "cut"],
)
def test_what_ends_the_body_too_early_comes_after_its_good_bytes(
    rest: list[bytes], error: type[Exception]
) -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, closing_after(CHUNKED, b"2\r\nok\r\n" + b"".join(rest)))
        exchange = await house.opened()
        assert await exchange.read() == b"ok"
        with pytest.raises(error):
            await exchange.read()
        assert not exchange.ended
        exchange.close()
        assert house.state == (0, 1)

    run(main)


# ---------------------------------------------------------------- codings


def coded(header: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n%s" % (header, len(body), body)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (b"", b"Once upon"),
        (b"content-encoding: identity\r\n", b"Once upon"),
        (b"content-encoding:\r\n", b"Once upon"),
        # mattrobinsonsre/terrapod#71: how servers on Next.js keep it from holding events back.
        (b"content-encoding: none\r\n", b"Once upon"),
        (b"Content-Encoding: GZip \r\n", gzip.compress(b"Once upon")),
        (b"content-encoding: deflate\r\n", zlib.compress(b"Once upon")),
    ],
    ids=["no header", "identity", "empty", "none", "gzip", "deflate"],
)
def test_a_coding_is_undone_whether_asked_for_or_not(header: bytes, body: bytes) -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(coded(header, body)))
        for _ in range(2):
            assert await house.whole() == b"Once upon"
        assert len(house.network.clients) == 1

    run(main)


def test_flushed_events_come_out_of_a_coded_body_one_by_one() -> None:
    async def main(nursery: trio.Nursery) -> None:
        coder = zlib.compressobj(wbits=31)
        chunks = [
            b"%x\r\n%s\r\n" % (len(data), data)
            for word in (b"one", b"two")
            for data in [coder.compress(word) + coder.flush(zlib.Z_SYNC_FLUSH)]
        ]
        end = coder.flush()
        chunks.append(b"%x\r\n%s\r\n0\r\n\r\n" % (len(end), end))
        head = CHUNKED[:-2] + b"content-encoding: gzip\r\n\r\n"
        house = House(nursery, serving(head, *chunks, every_s=1))
        exchange = await house.opened()
        came: list[tuple[float, bytes]] = []
        while not exchange.ended:
            if piece := await exchange.read():
                came.append((trio.current_time(), piece))
        assert came == [(2, b"one"), (3, b"two")]

    run(main)


def test_a_bomb_comes_in_bounded_pieces() -> None:
    async def main(nursery: trio.Nursery) -> None:
        body = gzip.compress(bytes(10_000_000))
        house = House(nursery, serving(coded(b"content-encoding: gzip\r\n", body)))
        exchange = await house.opened()
        sizes: list[int] = []
        while not exchange.ended:
            sizes.append(len(await exchange.read()))
        assert sum(sizes) == 10_000_000
        assert max(sizes) == 16 * 1024

    run(main)


def test_much_of_a_plain_body_comes_in_the_same_pieces() -> None:
    async def main(nursery: trio.Nursery) -> None:
        body = bytes(range(256)) * 240
        house = House(nursery, serving(coded(b"", body)))
        exchange = await house.opened()
        pieces: list[bytes] = []
        while not exchange.ended:
            pieces.append(await exchange.read())
        assert b"".join(pieces) == body
        assert max(map(len, pieces)) == 16 * 1024
        assert len({arrived for _, arrived in house.reads}) == 1  # they came at once

    run(main)


def test_between_the_pieces_of_a_bomb_others_have_their_turn_and_the_deadline_holds() -> None:
    async def main(nursery: trio.Nursery) -> None:
        body = gzip.compress(bytes(10_000_000))
        house = House(nursery, serving(coded(b"content-encoding: gzip\r\n", body)))
        exchange = await house.opened()
        exchange.deadline_ns = 5_000_000_000
        turns = 0

        async def another() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as others:
                others.start_soon(another)
                for _ in range(20):
                    await exchange.read()
                scope.cancel()
        assert turns >= 10
        await trio.sleep_until(5)
        with pytest.raises(Overdue):
            await exchange.read()

    run(main)


@pytest.mark.parametrize("cut", [1, 8])
def test_a_coded_body_that_was_cut_is_damaged_although_its_framing_is_whole(cut: int) -> None:
    # Clients that do not look at the trailer take a cut answer for a whole one.
    async def main(nursery: trio.Nursery) -> None:
        body = gzip.compress(b"Once upon")[:-cut]
        house = House(nursery, serving(coded(b"content-encoding: gzip\r\n", body)))
        exchange = await house.opened()
        assert await exchange.read() == b"Once upon"
        with pytest.raises(CodingError, match="ended before its coding did"):
            await exchange.read()

    run(main)


def test_of_a_reply_in_an_unknown_coding_the_head_can_be_had() -> None:
    # A refusal's status says what matters, whatever its body is.
    async def main(nursery: trio.Nursery) -> None:
        reply = coded(b"content-encoding: br\r\n", b"\x0b\x02\x80ok\x03")
        house = House(nursery, serving(reply.replace(b"200 OK", b"401 Unauthorized")))
        exchange = house.exchange()
        assert (await exchange.open(POST, within())).status == 401
        with pytest.raises(CodingError, match="'br'"):
            await exchange.read()

    run(main)


# ---------------------------------------------------------------- finishing


@pytest.mark.parametrize(
    ("tail", "every_s", "reused"),
    [
        ([LAST_CHUNK], 0.04, True),
        ([b"0\r\n", b"\r\n"], 0.02, True),
        ([b"1\r\nx\r\n" * 1000 + LAST_CHUNK], 0.04, True),
        ([LAST_CHUNK], 0.06, False),
        ([b": ping\r\n"] * 3, 0.02, False),
        ([b"1\r\nx\r\n"] * 10, 0.01, False),
        ([b"249f0\r\n" + b"x" * 150_000 + b"\r\n" + LAST_CHUNK], 0, False),
        ([b"zz\r\n"], 0, False),
        ([LAST_CHUNK + b"HTTP/1.1 408 Request Timeout\r\n\r\n"], 0, False),
    ],
    ids=[
        "soon",
        "in two pieces",
        "after some bytes",
        "late",
        "damaged",
        "kept alive",
        "too long",
        "damaged at once",
        "more behind it",
    ],
)
def test_a_connection_is_reused_if_the_bodys_end_comes_soon_and_closed_otherwise(
    tail: list[bytes], every_s: float, reused: bool
) -> None:
    async def main(nursery: trio.Nursery) -> None:
        async def serve(server: ServerEnd) -> None:
            await replied(server, CHUNKED + b"2\r\nok\r\n", every_s=0)
            for piece in tail:
                await trio.sleep(every_s)
                await server.send_all(piece)
            await trio.sleep_forever()

        house = House(nursery, serve)
        exchange = await house.opened()
        assert await exchange.read() == b"ok"
        await exchange.finish()
        assert trio.current_time() <= 0.05
        assert house.state == (int(reused), 1)

    run(main)


def test_a_peer_that_closes_while_the_end_is_awaited_costs_the_connection() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, closing_after(CHUNKED, b"2\r\nok\r\n"))
        exchange = await house.opened()
        assert await exchange.read() == b"ok"
        await exchange.finish()
        assert house.state == (0, 1)

    run(main)


def test_cancelled_while_the_end_is_awaited_the_connection_is_closed() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(CHUNKED, b"2\r\nok\r\n"))
        exchange = await house.opened()
        assert await exchange.read() == b"ok"
        with trio.move_on_after(0.02) as scope:
            await exchange.finish()
        assert scope.cancelled_caught
        assert house.state == (0, 1)

    run(main)


class Reader:
    """Owns an exchange, and through it all of an answer."""

    def __init__(self, connections: Connections) -> None:
        self.exchange = Exchange(connections, self._note_read)

    def _note_read(self, asked_ns: int, arrived_ns: int, found: bool) -> None: ...


def test_a_connection_that_waits_for_its_reuse_keeps_nothing_of_the_answer_before() -> None:
    # It may wait for hours, and an answer with its timeline has many megabytes.
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK))
        reader = Reader(house.connections)
        await reader.exchange.open(POST, within())
        await rest_of(reader.exchange)
        await reader.exchange.finish()
        assert house.state == (1, 1)
        kept = weakref.ref(reader)
        del reader
        gc.collect()
        assert kept() is None

    run(main)


def test_what_is_read_behind_the_answer_is_told_to_nobody() -> None:
    # It comes after the end, so it may change no figure of the answer.
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(CHUNKED, b"2\r\nok\r\n", LAST_CHUNK, every_s=0.03))
        exchange = await house.opened()
        assert await exchange.read() == b"ok"
        told = list(house.reads)
        await exchange.finish()
        assert house.state == (1, 1)
        assert trio.current_time() == pytest.approx(0.09)
        assert house.reads == told

    run(main)


# ---------------------------------------------------------------- closing


def test_closing_at_once_closes_the_connection_and_may_be_repeated() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(CHUNKED))
        exchange = await house.opened()
        for _ in range(2):
            exchange.close()
            assert house.state == (0, 1)

    run(main)


def test_after_closing_reading_says_so_and_finishing_does_nothing() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK))
        exchange = await house.opened()
        assert await exchange.read() == b"ok"
        exchange.close()
        with pytest.raises(trio.ClosedResourceError):
            await exchange.read()
        # An answer may be whole when the gateway is left; that it was closed is then no failure.
        await exchange.finish()
        assert house.state == (0, 1)

    run(main)


def test_an_exchange_that_was_never_opened_can_be_finished_and_closed() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, silent)
        exchange = house.exchange()
        await exchange.finish()
        exchange.close()
        assert house.state == (0, 1)

    run(main)


def test_an_exchange_that_was_closed_before_it_is_opened_takes_no_slot() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, silent)
        exchange = house.exchange()
        exchange.close()
        with pytest.raises(trio.ClosedResourceError):
            await exchange.open(POST, within())
        assert house.state == (0, 1)
        assert house.network.clients == []

    run(main)


async def closed_in(step: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await step()


@pytest.mark.parametrize("first", ["the slot", "the close"])
def test_closed_while_its_slot_is_on_its_way_an_exchange_gives_it_back(first: str) -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(OK))
        holder = await house.opened()
        exchange = house.exchange()
        async with trio.open_nursery() as waiting:
            waiting.start_soon(closed_in, partial(exchange.open, POST, within()))
            await wait_all_tasks_blocked()
            for each in (holder, exchange) if first == "the slot" else (exchange, holder):
                each.close()
        assert house.state == (0, 1)

    run(main)


@pytest.mark.parametrize("at", [1, 3, 5])
def test_closed_from_elsewhere_whatever_waits_ends(at: float) -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(CHUNKED, every_s=2), connect_s=2)
        exchange = house.exchange()

        async def work() -> None:
            await exchange.open(POST, within())
            await exchange.read()

        async with trio.open_nursery() as waiting:
            waiting.start_soon(closed_in, work)
            await trio.sleep(at)
            exchange.close()
            assert house.state == (0, 1)
        assert house.state == (0, 1)
        assert trio.current_time() == (2 if at == 1 else at)

    run(main)


def test_closed_while_the_end_is_awaited_finishing_ends_quietly() -> None:
    async def main(nursery: trio.Nursery) -> None:
        house = House(nursery, serving(CHUNKED, b"2\r\nok\r\n"))
        exchange = await house.opened()
        assert await exchange.read() == b"ok"
        async with trio.open_nursery() as waiting:
            waiting.start_soon(exchange.finish)
            await wait_all_tasks_blocked()
            house.connections.close()
            assert house.state == (0, 1)
        assert trio.current_time() == 0

    run(main)


async def test_closed_by_the_owner_of_all_a_read_of_a_socket_ends() -> None:
    client, server = sockets()

    async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        return client

    connections = Connections(Endpoint("http", "h", 80, None), with_slots(1), connect)
    exchange = Exchange(connections, lambda asked, arrived, found: None)
    async with server, trio.open_nursery() as nursery:
        nursery.start_soon(closed_in, partial(exchange.open, POST, within()))
        assert (await requested(server)).endswith(b"{}")
        connections.close()
        # The answer may be on its way; and the task may not have come to its read yet.
    assert (connections.open, connections.free_slots) == (0, 1)


# ---------------------------------------------------------------- cancelling


async def two_exchanges(house: House) -> None:
    for _ in range(2):
        exchange = house.exchange()
        try:
            await exchange.open(POST, within())
            await rest_of(exchange)
            await exchange.finish()
        finally:
            exchange.close()


async def cancelled_at(at: int) -> bool:
    """Cancel two exchanges, the second over a stale connection, at a step; tell whether it came."""
    async with trio.open_nursery() as nursery:
        pieces = (CHUNKED, b"2\r\nok\r\n", LAST_CHUNK)
        house = House(nursery, closing_after(*pieces), serving(*pieces, every_s=0.01), connect_s=1)
        strike = Strike(at)
        await strike.run(two_exchanges, house)
        kept = house.connections.open
        assert house.state == (kept, 1)
        assert kept <= 1
        house.connections.close()
        assert house.state == (0, 1)
        nursery.cancel_scope.cancel()
    return strike.struck


def test_cancelled_at_any_checkpoint_exchanges_leave_no_connection_and_no_warning() -> None:
    at = 1
    while run_virtual(cancelled_at, at):
        at += 1
    gc.collect()
    assert at > 30
