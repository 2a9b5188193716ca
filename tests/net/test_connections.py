from __future__ import annotations

import random
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import Phase, given, settings, strategies as st
from trio.testing import wait_all_tasks_blocked

from polygateway.net.connections import Connections, Endpoint, Lease, NoSlot, connect_tcp
from polygateway.net.exchange import Exchange
from polygateway.net.http import ConnectionLost
from polygateway.net.stream import Overdue
from polygateway.testing import run_virtual
from tests.net.wires import (
    OK,
    POST,
    SECOND,
    Network,
    ServerEnd,
    requested,
    sockets,
    wire,
    within,
)

if TYPE_CHECKING:
    from polygateway.net.connections import Connect

HTTP = Endpoint("http", "h", 80, None)
LATE = 1_000_000 * SECOND


async def no_reply(server: ServerEnd) -> None:
    await requested(server)


async def answering(server: ServerEnd) -> None:
    """Answer every request at once."""
    while await requested(server):
        await server.send_all(OK)


def connections_to(network: Network, slots: int = 1) -> Connections:
    return Connections(HTTP, slots=slots, connect=network.connect)


async def connected(connections: Connections) -> Lease:
    lease = await connections.admit(LATE)
    await lease.connect(LATE)
    return lease


async def in_memory(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    client, _ = wire()
    return client


# ---------------------------------------------------------------- slots


def test_a_slot_is_waited_for_until_the_deadline_and_no_longer() -> None:
    async def main() -> None:
        connections = Connections(HTTP, slots=2, connect=in_memory)
        leases = [await connections.admit(LATE) for _ in range(2)]
        with pytest.raises(NoSlot):
            await connections.admit(3 * SECOND)
        assert trio.current_time() == 3
        for lease in leases:
            lease.close()
        assert connections.free_slots == 2

    run_virtual(main)


def test_slots_are_given_first_come_first_served() -> None:
    async def main() -> list[int]:
        connections = Connections(HTTP, slots=1, connect=in_memory)
        order: list[int] = []

        async def wait(number: int) -> None:
            lease = await connections.admit(LATE)
            order.append(number)
            await trio.sleep(1)
            lease.close()

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(wait, number)
                await wait_all_tasks_blocked()
        assert connections.free_slots == 1
        return order

    assert run_virtual(main) == list(range(10))


@pytest.mark.parametrize("first", ["cancel", "release"])
def test_a_slot_that_comes_with_a_cancellation_has_one_owner_or_is_free(first: str) -> None:
    # encode/httpcore#1093: what was assigned to a task that is cancelled in the same step is lost.
    async def main() -> None:
        connections = Connections(HTTP, slots=1, connect=in_memory)
        lease = await connections.admit(LATE)
        got: list[Lease] = []

        async def wait(scope: trio.CancelScope) -> None:
            with scope:
                got.append(await connections.admit(LATE))

        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()
            nursery.start_soon(wait, scope)
            await wait_all_tasks_blocked()
            for step in (
                (scope.cancel, lease.close) if first == "cancel" else (lease.close, scope.cancel)
            ):
                step()
        assert connections.free_slots + len(got) == 1
        for each in got:
            each.close()
        assert connections.free_slots == 1

    run_virtual(main)


def test_a_waiter_that_gives_up_leaves_its_place_to_the_next() -> None:
    async def main() -> None:
        connections = Connections(HTTP, slots=1, connect=in_memory)
        lease = await connections.admit(LATE)
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                with trio.move_on_after(1):
                    await connections.admit(LATE)

            nursery.start_soon(give_up)
            await wait_all_tasks_blocked()
            nursery.start_soon(connections.admit, 9 * SECOND)
            await trio.sleep(2)
            lease.close()
            await wait_all_tasks_blocked()
        assert connections.free_slots == 0
        assert trio.current_time() == 2

    run_virtual(main)


# ---------------------------------------------------------------- opening


@pytest.mark.parametrize("how", ["deadline", "cancelled"])
def test_a_connection_that_takes_too_long_leaves_nothing_open(how: str) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply], connect_s=10)
            connections = connections_to(network)
            lease = await connections.admit(LATE)
            if how == "deadline":
                with pytest.raises(Overdue):
                    await lease.connect(3 * SECOND)
            else:
                with trio.move_on_after(3):
                    await lease.connect(LATE)
            assert trio.current_time() == 3
            lease.close()
            assert network.clients == []
            assert (connections.open, connections.free_slots) == (0, 1)

    run_virtual(main)


def test_a_stream_from_a_connect_that_ignores_its_cancellation_is_not_lost() -> None:
    async def main() -> None:
        client, _ = wire()

        async def stubborn(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)
            return client

        connections = Connections(HTTP, slots=1, connect=stubborn)
        lease = await connections.admit(LATE)
        with trio.move_on_after(3):
            await lease.connect(LATE)
        assert connections.open == 1
        lease.close()
        assert client.closed

    run_virtual(main)


def test_connect_is_told_where_to_go() -> None:
    async def main() -> None:
        told: list[tuple[str, int, ssl.SSLContext | None]] = []

        async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
            told.append((host, port, tls))
            return await in_memory(host, port, tls)

        context = ssl.create_default_context()
        endpoint = Endpoint("https", "h.invalid", 8443, context)
        await connected(Connections(endpoint, slots=1, connect=connect))
        assert told == [("h.invalid", 8443, context)]

    run_virtual(main)


def raising(error: Exception, cause: Exception | None = None) -> Connect:
    async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        raise error from cause

    return connect


@pytest.mark.parametrize(
    ("connect", "text"),
    [
        (raising(ConnectionRefusedError(111, "Connection refused")), "Connection refused"),
        (raising(TimeoutError("too slow")), "too slow"),
        (raising(TimeoutError()), "TimeoutError"),
        (raising(socket.gaierror(-2, "Name or service not known")), "Name or service not known"),
        (raising(ssl.SSLError(1, "bad certificate")), "bad certificate"),
        (
            raising(trio.BrokenResourceError(), ssl.SSLError(1, "bad certificate")),
            "bad certificate",
        ),
        (raising(trio.BrokenResourceError("gone")), "gone"),
        (raising(trio.BrokenResourceError()), "BrokenResourceError"),
    ],
)
def test_a_connection_that_cannot_be_had_says_why(connect: Connect, text: str) -> None:
    async def main() -> None:
        connections = Connections(HTTP, slots=1, connect=connect)
        lease = await connections.admit(LATE)
        with pytest.raises(ConnectionLost, match=text):
            await lease.connect(LATE)
        lease.close()
        assert (connections.open, connections.free_slots) == (0, 1)

    run_virtual(main)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("my own"),
        RuntimeError(),
        trio.ClosedResourceError(),
        ExceptionGroup("several", [OSError("one"), OSError("two")]),
    ],
)
def test_whatever_else_connect_raises_comes_out_as_it_is_and_costs_no_slot(
    error: Exception,
) -> None:
    async def main() -> None:
        connections = Connections(HTTP, slots=1, connect=raising(error))
        lease = await connections.admit(LATE)
        with pytest.raises(type(error)) as caught:
            await lease.connect(LATE)
        assert caught.value is error
        lease.close()
        assert (connections.open, connections.free_slots) == (0, 1)

    run_virtual(main)


async def test_a_port_where_nobody_listens_refuses_the_connection() -> None:
    far = within().end_ns
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            connections = Connections(
                Endpoint("http", host, port, None), slots=1, connect=connect_tcp
            )
            lease = await connections.admit(far)
            with pytest.raises(ConnectionLost, match="refused"):
                await lease.connect(far)
            lease.close()


# ---------------------------------------------------------------- reuse


def test_the_connection_that_was_used_last_is_reused_first() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = connections_to(network, slots=3)
            leases = [await connected(connections) for _ in range(3)]
            first, second, third = (lease.connection for lease in leases)
            for index in (1, 2, 0):
                leases[index].keep()
            assert (connections.open, connections.free_slots) == (3, 3)
            again = [(await connected(connections)).connection for _ in range(3)]
            assert again == [first, third, second]
            assert (connections.open, connections.free_slots) == (3, 0)
            connections.close()
            assert network.open == 0

    run_virtual(main)


def test_with_fresh_an_idle_connection_is_left_where_it_is() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = connections_to(network, slots=2)
            (await connected(connections)).keep()
            lease = await connections.admit(LATE)
            await lease.connect(LATE, fresh=True)
            assert len(network.clients) == network.open == 2
            lease.close()
            assert connections.open == network.open == 1
            connections.close()

    run_virtual(main)


def test_connecting_again_closes_the_connection_before() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = connections_to(network)
            lease = await connected(connections)
            await lease.connect(LATE, fresh=True)
            assert [client.closed for client in network.clients] == [True, False]
            assert connections.open == 1
            connections.close()

    run_virtual(main)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
async def test_an_idle_connection_that_has_something_to_say_is_closed_before_use(
    said: bytes,
) -> None:
    # encode/httpx#145: a stray 408, or the end.
    ends: list[tuple[trio.SocketStream, trio.SocketStream]] = []

    async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        ends.append(sockets())
        return ends[-1][0]

    connections = Connections(HTTP, slots=3, connect=connect)
    far = within().end_ns
    leases = [await connections.admit(far) for _ in range(3)]
    kept = [await lease.connect(far) for lease in leases]
    for lease in leases:
        lease.keep()
    for _, server in ends[1:]:
        await server.send_all(said)
        if not said:
            await server.aclose()
    lease = await connections.admit(far)
    assert await lease.connect(far) is kept[0]
    assert [client.socket.fileno() < 0 for client, _ in ends] == [False, True, True]
    assert connections.open == 1
    connections.close()
    for _, server in ends:
        await server.aclose()


# ---------------------------------------------------------------- closing


def test_closing_frees_the_slot_and_closes_the_connection_in_the_same_step() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = connections_to(network)
            lease = await connected(connections)
            with trio.testing.assert_no_checkpoints():
                lease.close()
            assert network.open == 0
            assert (connections.open, connections.free_slots) == (0, 1)

    run_virtual(main)


def test_whatever_is_done_with_a_lease_after_its_end_does_nothing() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = connections_to(network)
            for end in (Lease.close, Lease.keep):
                lease = await connected(connections)
                end(lease)
                free_and_open = connections.free_slots, connections.open
                lease.close()
                lease.keep()
                assert (connections.free_slots, connections.open) == free_and_open
            connections.close()

    run_virtual(main)


def test_a_lease_without_connection_can_be_kept_or_closed() -> None:
    async def main() -> None:
        connections = Connections(HTTP, slots=1, connect=in_memory)
        (await connections.admit(LATE)).keep()
        (await connections.admit(LATE)).close()
        assert (connections.open, connections.free_slots) == (0, 1)

    run_virtual(main)


def test_a_connection_that_comes_after_its_lease_was_closed_is_closed() -> None:
    async def connecting(lease: Lease) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await lease.connect(LATE)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply], connect_s=2)
            connections = connections_to(network)
            lease = await connections.admit(LATE)
            nursery.start_soon(connecting, lease)
            await trio.sleep(1)
            connections.close()
            assert connections.free_slots == 1
            await trio.sleep(2)
            assert [client.closed for client in network.clients] == [True]
            assert connections.open == 0

    run_virtual(main)


def test_closing_all_closes_the_idle_ones_and_those_in_use_and_may_be_repeated() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = connections_to(network, slots=4)
            used = [await connected(connections) for _ in range(4)]
            for lease in used[:2]:
                lease.keep()
            for _ in range(2):
                connections.close()
                assert network.open == 0
                assert (connections.open, connections.free_slots) == (0, 4)

    run_virtual(main)


def test_a_connection_that_fails_to_close_keeps_no_other_open() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = connections_to(network, slots=6)
            leases = [await connected(connections) for _ in range(6)]
            for lease in leases[:3]:
                lease.keep()
            for client in (network.clients[1], network.clients[4]):
                client.close_error = OSError("no way")
            with pytest.raises(OSError, match="no way"):
                connections.close()
            assert network.open == 0
            assert (connections.open, connections.free_slots) == (0, 6)

    run_virtual(main)


# ---------------------------------------------------------------- under a storm


class Storm:
    """Tasks that contend for a few slots while somebody cancels them at random."""

    SLOTS = 4
    TASKS = 24
    CANCELS = 1500

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._scopes: list[trio.CancelScope] = []
        self.finished = 0
        self.cancelled = 0

    async def run(self) -> None:
        async with trio.open_nursery() as servers:
            network = Network(servers, [self._serve])
            connections = Connections(
                HTTP, slots=self.SLOTS, connect=partial(self._connect, network)
            )
            async with trio.open_nursery() as nursery:
                for _ in range(self.TASKS):
                    nursery.start_soon(self._work, connections)
                await self._cancel(network)
                nursery.cancel_scope.cancel()
            assert connections.free_slots == self.SLOTS
            assert connections.open == network.open <= self.SLOTS
            connections.close()
            assert connections.open == network.open == 0
            servers.cancel_scope.cancel()

    def _soon(self) -> float:
        """Give a short time; often none, so that much happens at once."""
        return self._random.choice((0, 0, 0.001, 0.01, 0.1)) * self._random.randrange(4)

    async def _connect(
        self, network: Network, host: str, port: int, tls: ssl.SSLContext | None
    ) -> trio.abc.Stream:
        await trio.sleep(self._soon())
        if not self._random.randrange(10):
            raise ConnectionRefusedError
        return await network.connect(host, port, tls)

    async def _serve(self, server: ServerEnd) -> None:
        while await requested(server):
            for piece in (OK[:20], OK[20:-1], OK[-1:]):
                await trio.sleep(self._soon())
                await server.send_all(piece)
            if not self._random.randrange(5):
                await server.aclose()
                return

    async def _work(self, connections: Connections) -> None:
        while True:
            with trio.CancelScope() as scope:
                self._scopes.append(scope)
                await self._exchange(connections)
                self.finished += 1
            self._scopes.remove(scope)
            self.cancelled += scope.cancelled_caught

    async def _exchange(self, connections: Connections) -> None:
        exchange = Exchange(connections, lambda asked, arrived, found: None)
        try:
            await exchange.open(POST, within(admission_s=1, connect_s=0.2, end_s=2))
            while not exchange.ended:
                await exchange.read()
            await exchange.finish()
        except (NoSlot, Overdue, ConnectionLost):
            await trio.lowlevel.checkpoint()
        finally:
            exchange.close()

    async def _cancel(self, network: Network) -> None:
        for _ in range(self.CANCELS):
            await trio.sleep(self._soon() / 10)
            assert network.open <= self.SLOTS
            if self._scopes:
                self._random.choice(self._scopes).cancel()


# A smaller seed is no smaller storm: there is nothing to shrink.
@settings(deadline=None, max_examples=5, phases=[Phase.generate])
@given(seed=st.integers(min_value=0, max_value=2**32 - 1))
def test_after_a_storm_of_cancellations_every_slot_is_free_and_nothing_is_open(seed: int) -> None:
    storm = Storm(seed)
    run_virtual(storm.run)
    # It was a storm, and work was done in it.
    assert storm.cancelled > 200
    assert storm.finished > 200
