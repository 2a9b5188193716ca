"""A gateway that is left, and a program that is interrupted, at any moment of a call."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from polygateway import (
    Gateway,
    GatewayClosed,
    GatewayError,
    InternalError,
    Limits,
    RetryPolicy,
    open_gateway,
)
from polygateway.testing import (
    MemoryNetwork,
    ScriptedProvider,
    answer,
    chunk,
    cut,
    done,
    finish,
    hang,
    headers,
    run_virtual,
    serve_memory,
    silence,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence
    from typing import TypeAlias

    from polygateway.testing import Step

    Call: TypeAlias = Callable[[Gateway], Awaitable[None]]
    Scripts: TypeAlias = Mapping[str, Sequence[Step]]


async def _complete(gw: Gateway) -> None:
    await gw.complete("x", model="m", deadline_s=100)


async def _stream(gw: Gateway) -> None:
    async with gw.stream("x", model="m", deadline_s=100) as stream:
        async for _ in stream:
            await trio.sleep(0.1)


# ---------------------------------------------------------------- leaving

PHASES: dict[str, Scripts] = {
    "a duel": {
        "eu": [chunk("Once "), silence(6), *answer("upon")],
        "us": [silence(9), *answer("late")],
    },
    "late first content": {
        "eu": [headers(), hang()],
        "us": [headers(), hang()],
        "ap": answer("upon ", "a time", every_s=1),
    },
    "backoff and retries": {
        "eu": status(500),
        "us": [chunk("Once "), cut()],
        "ap": [chunk("Once."), finish(), hang()],
    },
    "the drain": {"eu": [chunk("Once."), done(), silence(0.03), chunk("unheard")]},
}


@attrs.define(eq=False)
class _At(trio.abc.Instrument):
    """Does *what* before step number *at* of the tasks in *victim*, at any depth."""

    victim: trio.Nursery
    at: int
    what: Callable[[], None]
    steps: int = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        parent = task.parent_nursery
        while parent is not None and parent is not self.victim:
            parent = parent.parent_task.parent_nursery
        self.steps += parent is self.victim
        if self.steps == self.at:
            self.what()
            self.steps += 1


async def _outcome(call: Call, gw: Gateway) -> GatewayError | None:
    try:
        await call(gw)
    except GatewayError as error:
        return error
    return None


async def _leave(call: Call, scripts: Scripts, at: int) -> bool:
    """Leave the gateway at the call's step number *at*; tell whether it took so many."""
    left = trio.Event()
    outcomes: list[GatewayError | None] = []
    providers = {name: ScriptedProvider(script) for name, script in scripts.items()}

    async def run(gw: Gateway) -> None:
        outcomes.append(await _outcome(call, gw))

    async with serve_memory(providers) as network:
        config = network.config(
            limits=Limits(max_connections_per_target=2), retry=RetryPolicy(backoff_base_s=0.2)
        )
        async with trio.open_nursery() as victim:
            async with open_gateway(config, connect=network.connect) as gw:
                instrument = _At(victim, at, left.set)
                trio.lowlevel.add_instrument(instrument)
                victim.start_soon(run, gw)
                with trio.move_on_after(200):
                    await left.wait()
            trio.lowlevel.remove_instrument(instrument)
            assert network.open_connections == 0
        await wait_all_tasks_blocked()
        _check_nothing_is_left(gw, providers)
    _check_outcome(outcomes, was_left=left.is_set())
    return left.is_set()


def _check_nothing_is_left(gw: Gateway, providers: Mapping[str, ScriptedProvider]) -> None:
    assert not gw._calls
    for provider in providers.values():
        assert all(exchange.ended is not None for exchange in provider.log)
    for route in gw._routes.values():
        assert route.connections.free_slots == 2


def _check_outcome(outcomes: list[GatewayError | None], *, was_left: bool) -> None:
    (error,) = outcomes
    assert not isinstance(error, InternalError)
    assert was_left or not isinstance(error, GatewayClosed)
    if isinstance(error, GatewayClosed):
        assert all(attempt.outcome is not None for attempt in error.attempts)
        ended = [attempt.cancel_reason for attempt in error.attempts]
        assert set(ended) <= {"shutdown", "lost the race", "lost a duel", None}


@pytest.mark.parametrize("call", [_complete, _stream])
@pytest.mark.parametrize("scripts", PHASES.values(), ids=PHASES)
def test_a_gateway_left_at_any_moment_of_a_call_leaves_nothing(
    call: Call, scripts: Scripts
) -> None:
    at = 1
    while run_virtual(_leave, call, scripts, at):
        at += 1
    gc.collect()
    assert at > 10


# ---------------------------------------------------------------- interrupting


def _interrupt_when_all_wait(call: Call, script: Sequence[Step]) -> MemoryNetwork:
    """Send the program a SIGINT while *call*, in the main task, waits for what never comes."""
    seen: list[MemoryNetwork] = []
    token: list[trio.lowlevel.TrioToken] = []

    async def interrupt() -> None:
        await trio.sleep(20)  # in the middle of a duel, or parked in __anext__
        await wait_all_tasks_blocked()
        # Out of any task, as the operating system does it: it is raised in the main one.
        token[0].run_sync_soon(partial(signal.raise_signal, signal.SIGINT))
        await trio.sleep_forever()

    async def main() -> None:
        assert callable(signal.getsignal(signal.SIGINT)), "it would end the process"
        token.append(trio.lowlevel.current_trio_token())
        provider = ScriptedProvider(script)
        async with serve_memory({"eu": provider, "us": provider}) as network:
            seen.append(network)
            async with open_gateway(network.config(), connect=network.connect) as gw:
                trio.lowlevel.spawn_system_task(interrupt)
                await call(gw)

    with pytest.raises(KeyboardInterrupt) as caught:
        run_virtual(main)
    assert caught.value.__cause__ is None
    return seen[0]


@pytest.mark.parametrize("call", [_complete, _stream])
@pytest.mark.parametrize(
    "script", [[headers(), hang()], [chunk("Once "), hang()]], ids=["silent", "stalled"]
)
def test_an_interrupt_comes_out_plain_and_leaves_no_connection(
    call: Call, script: Sequence[Step]
) -> None:
    network = _interrupt_when_all_wait(call, script)
    assert network.open_connections == 0
