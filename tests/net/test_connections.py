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

from polygateway import Limits
from polygateway.net.connections import Connections, Lease, NoSlot
from polygateway.net.dial import Endpoint, connect_tcp
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
    with_slots,
    within,
)

if TYPE_CHECKING:
    from polygateway.net.dial import Connect
    from polygateway.net.tcp import TCPStream

HTTP = Endpoint("http", "h", 80, None)
LATE = 1_000_000 * SECOND


async def no_reply(server: ServerEnd) -> None:
    await requested(server)


async def answering(server: ServerEnd) -> None:
    """Answer every request at once."""
    while await requested(server):
        await server.send_all(OK)


def connections_to(network: Network, slots: int = 1) -> Connections:
    return Connections(HTTP, with_slots(slots), network.connect)


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
        connections = Connections(HTTP, with_slots(2), in_memory)
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
        connections = Connections(HTTP, with_slots(1), in_memory)
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


class Queue:
    """A crowd that waits for a few slots: some give up, and the others hold one for a while."""

    def __init__(self, slots: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._connections = Connections(HTTP, with_slots(slots), in_memory)
        self.asked: list[int] = []
        self.admitted: list[tuple[float, int]] = []
        """When who was. Of those who are let in at the same instant trio draws who runs first."""

        self.given_up: set[int] = set()
        self.slots_left = -1

    async def run(self, crowd: int) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(crowd):
                self.asked.append(number)
                nursery.start_soon(self._wait, number)
                await wait_all_tasks_blocked()  # so that they ask in this order
                await trio.sleep(self._random.choice((0, 0, 1)))
        self.slots_left = self._connections.free_slots

    async def _wait(self, number: int) -> None:
        patience = self._random.choice((3, 10, 1000))
        with trio.move_on_after(patience):
            lease = await self._connections.admit(LATE)
            self.admitted.append((trio.current_time(), number))
            with trio.CancelScope(shield=True):
                await trio.sleep(self._random.randrange(6))
            (lease.close if self._random.randrange(2) else lease.keep)()
            return
        self.given_up.add(number)


@given(
    slots=st.integers(min_value=1, max_value=5),
    crowd=st.integers(min_value=1, max_value=40),
    seed=st.integers(min_value=0, max_value=2**32 - 1),
)
def test_a_crowd_is_admitted_in_the_order_of_asking_and_nobody_starves(
    slots: int, crowd: int, seed: int
) -> None:
    queue = Queue(slots, seed)
    run_virtual(queue.run, crowd)
    admitted = [number for _, number in sorted(queue.admitted)]
    assert admitted == [number for number in queue.asked if number not in queue.given_up]
    assert queue.slots_left == slots


def test_who_waits_longer_than_the_deadline_is_told_so_and_holds_up_nobody() -> None:
    async def main() -> None:
        connections = Connections(HTTP, with_slots(1), in_memory)
        held = await connections.admit(LATE)
        told: list[float] = []

        async def wait(until_s: float) -> None:
            with pytest.raises(NoSlot):
                await connections.admit(round(until_s * SECOND))
            told.append(trio.current_time())

        async def wait_longer() -> None:
            lease = await connections.admit(LATE)
            told.append(trio.current_time())
            lease.close()

        async with trio.open_nursery() as nursery:
            for until_s in (3, 1, 2):
                nursery.start_soon(wait, until_s)
            await wait_all_tasks_blocked()
            nursery.start_soon(wait_longer)
            await trio.sleep(5)
            held.close()
        assert told == [1, 2, 3, 5]

    run_virtual(main)


@pytest.mark.parametrize("first", ["cancel", "release"])
def test_a_slot_that_comes_with_a_cancellation_has_one_owner_or_is_free(first: str) -> None:
    # encode/httpcore#1093: what was assigned to a task that is cancelled in the same step is lost.
    async def main() -> None:
        connections = Connections(HTTP, with_slots(1), in_memory)
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
        connections = Connections(HTTP, with_slots(1), in_memory)
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

        connections = Connections(HTTP, with_slots(1), stubborn)
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
        await connected(Connections(endpoint, with_slots(1), connect))
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
        connections = Connections(HTTP, with_slots(1), connect)
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
        connections = Connections(HTTP, with_slots(1), raising(error))
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
                Endpoint("http", host, port, None), with_slots(1), connect_tcp
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
    ends: list[tuple[TCPStream, trio.SocketStream]] = []

    async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        ends.append(sockets())
        return ends[-1][0]

    connections = Connections(HTTP, with_slots(3), connect)
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
    assert [client.connection.fileno() < 0 for client, _ in ends] == [False, True, True]
    assert connections.open == 1
    connections.close()
    for _, server in ends:
        await server.aclose()


# ---------------------------------------------------------------- idle and old ones


def bounded(network: Network, *, idle_s: float = 50, lifetime_s: float = 600) -> Connections:
    limits = Limits(
        max_connections_per_target=3, idle_timeout_s=idle_s, connection_lifetime_s=lifetime_s
    )
    return Connections(HTTP, limits, network.connect)


@pytest.mark.parametrize(
    ("waited_s", "reused"), [(0, True), (49.9, True), (50, False), (90, False)]
)
def test_a_connection_that_was_idle_for_too_long_is_closed_and_not_used_again(
    waited_s: float, reused: bool
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = bounded(network, idle_s=50)
            (await connected(connections)).keep()
            await trio.sleep(waited_s)
            await connected(connections)
            assert len(network.clients) == (1 if reused else 2)
            assert connections.open == network.open == 1
            connections.close()

    run_virtual(main)


def test_each_use_begins_the_idle_time_anew_but_not_the_lifetime() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = bounded(network, idle_s=50, lifetime_s=100)
            used: list[int] = []
            for _ in range(4):  # at 0, 40, 80 and 120 s
                lease = await connected(connections)
                used.append(len(network.clients))
                lease.keep()
                await trio.sleep(40)
            assert used == [1, 1, 1, 2]
            connections.close()

    run_virtual(main)


def test_an_exchange_may_last_longer_than_a_lifetime_and_ends_it() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = bounded(network, lifetime_s=100)
            lease = await connected(connections)
            await trio.sleep(500)
            assert network.open == 1
            lease.keep()
            assert connections.open == network.open == 0

    run_virtual(main)


def test_without_any_idle_time_no_connection_is_reused() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = bounded(network, idle_s=0)
            for opened in (1, 2, 3):
                (await connected(connections)).keep()
                assert len(network.clients) == opened
                assert connections.open == network.open == 0

    run_virtual(main)


def test_those_that_were_idle_longest_are_swept_when_another_comes_back() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = bounded(network, idle_s=50)
            leases = [await connected(connections) for _ in range(3)]
            for lease in leases[:2]:
                lease.keep()
                await trio.sleep(20)
            await trio.sleep(20)
            assert network.open == 3  # nobody looks while nothing happens
            leases[2].keep()
            assert [client.closed for client in network.clients] == [True, False, False]
            await trio.sleep(45)
            # The last one is used again; the one before it is out of date by now.
            (await connected(connections)).keep()
            assert [client.closed for client in network.clients] == [True, True, False]
            connections.close()

    run_virtual(main)


def test_what_is_out_of_date_is_closed_on_the_way_to_one_that_is_not() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            network = Network(nursery, [no_reply])
            connections = bounded(network, lifetime_s=100)
            old = await connected(connections)
            await trio.sleep(90)
            (await connected(connections)).keep()
            old.keep()  # it comes first, for it was used last
            await trio.sleep(20)
            await connected(connections)
            assert [client.closed for client in network.clients] == [True, False]
            assert connections.open == 1
            connections.close()

    run_virtual(main)


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
        connections = Connections(HTTP, with_slots(1), in_memory)
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
            connections = Connections(HTTP, with_slots(self.SLOTS), partial(self._connect, network))
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
