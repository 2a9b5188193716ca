"""Whatever happens to a call, and whenever: it is told whole and in order, and changes nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar, get_args

import attrs
import pytest
import trio
from hypothesis import event, given, strategies as st

from polygateway import (
    Gateway,
    GatewayClosed,
    GatewayError,
    HedgePolicy,
    Limits,
    RetryPolicy,
    StreamBroken,
    StreamPolicy,
    open_gateway,
)
from polygateway.instrument import AttemptEnded, CallEnded, SeamMade, StallEnded
from polygateway.policies import Recovery
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    hang,
    reset,
    run_virtual,
    serve_memory,
    silence,
    status,
)
from tests.listening import Notes, check
from tests.striking import run_struck
from tests.test_any_script import (
    HEDGES,
    WAITS,
    Application,
    Body,
    Ending,
    Plan,
    Seen,
    _call,
    _provider,
)
from tests.test_cancellation import SCENARIOS, _complete, _stream, _twice
from tests.test_leaving import PHASES, _At

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from hypothesis.strategies import SearchStrategy

    from polygateway import Config
    from polygateway.instrument import Instrument
    from polygateway.testing import MemoryNetwork, Step

    Use: TypeAlias = Callable[[Gateway], Awaitable[None]]
    Scripts: TypeAlias = Mapping[str, Sequence[Sequence[Step]]]

T = TypeVar("T")

LIMITS = Limits(max_connections_per_target=2)
RETRY = RetryPolicy(backoff_base_s=0.2)


# ---------------------------------------------------------------- ended from outside at any moment


@attrs.define
class Given:
    """What an application was given."""

    notes: Notes = attrs.field(factory=Notes)
    errors: list[GatewayError] = attrs.field(factory=list[GatewayError])

    async def used(self, use: Use, gw: Gateway) -> None:
        """Use a gateway, and note what is raised."""
        try:
            await use(gw)
        except GatewayError as error:
            self.errors.append(error)

    def check(self) -> None:
        """Check that the application was told the same as the instrument."""
        check(self.notes)
        ends = self.notes.of(CallEnded)
        assert [end.error for end in ends if end.error is not None] == self.errors
        # A call that is cancelled when its answer is whole has nothing left to be given up.
        assert {end.outcome for end in ends if end.error is None} <= {"complete", "cancelled"}


async def _cancelled(use: Use, scripts: Scripts, recovery: Recovery, at: int) -> bool:
    """Cancel the use of a gateway at its step number *at*; tell whether it took so many."""
    seen = Given()
    providers = {
        name: ScriptedProvider(*each, connect_s=0.01 * position)
        for position, (name, each) in enumerate(scripts.items())
    }
    async with serve_memory(providers) as network:
        config = _config(network, recovery)
        async with open_gateway(config, connect=network.connect, instruments=[seen.notes]) as gw:
            struck = await run_struck(partial(seen.used, use, gw), at)
            seen.check()  # all of it was told by the time at which the call was over
    return struck


def _config(network: MemoryNetwork, recovery: Recovery) -> Config:
    stream = StreamPolicy(recovery=recovery)
    names = network.base_urls
    return network.config(prefill=names, limits=LIMITS, retry=RETRY, stream=stream)


@pytest.mark.parametrize("use", [_complete, _stream, _twice])
@pytest.mark.parametrize("scripts", SCENARIOS.values(), ids=SCENARIOS)
def test_cancelled_at_any_checkpoint_a_call_is_told_whole(use: Use, scripts: Scripts) -> None:
    at = 1
    while run_virtual(_cancelled, use, scripts, "raise", at):
        at += 1
    assert at > 10


async def _read_on(gw: Gateway) -> None:
    """Read a stream that is cancelled now and then while it waits for a chunk."""
    async with gw.stream("x", model="m") as opened:
        while not opened.completion.finish_reason:
            with trio.move_on_after(6):
                async for _ in opened:
                    pass


RECOVERIES: Mapping[str, Mapping[str, Sequence[Step]]] = {
    "breaks": {"eu": [chunk("Once "), cut()], "us": answer("upon ", "a time", every_s=1)},
    "stalls, and another takes over": {
        "eu": [chunk("Once "), hang()],
        "us": [silence(0.5), *answer("upon ", "a time", every_s=1)],
    },
    "stalls and resumes": {
        "eu": [chunk("Once "), silence(6), *answer("upon ", "a time")],
        "us": [silence(9), *answer("late")],
    },
    "breaks twice": {
        "eu": [chunk("Once "), cut()],
        "us": [chunk("upon "), silence(0.1), reset()],
        "ap": answer("a time"),
    },
    "stalls and is in vain": {
        "eu": [chunk("Once "), silence(20), cut()],
        "us": status(500),
        "ap": status(500),
    },
}


@pytest.mark.parametrize("use", [_stream, _read_on])
@pytest.mark.parametrize("recovery", ["restart", "continue"])
@pytest.mark.parametrize("script", RECOVERIES.values(), ids=RECOVERIES)
def test_cancelled_at_any_checkpoint_a_recovery_is_told_whole(
    script: Mapping[str, Sequence[Step]], recovery: Recovery, use: Use
) -> None:
    scripts = {name: [steps] for name, steps in script.items()}
    at = 1
    while run_virtual(_cancelled, use, scripts, recovery, at):
        at += 1
    assert at > 10


async def _left(
    use: Use, script: Mapping[str, Sequence[Step]], recovery: Recovery, at: int
) -> bool:
    """Leave a gateway at step number *at* of its use; tell whether it took so many."""
    seen, left = Given(), trio.Event()
    providers = {name: ScriptedProvider(each) for name, each in script.items()}
    async with serve_memory(providers) as network, trio.open_nursery() as victim:
        config = _config(network, recovery)
        async with open_gateway(config, connect=network.connect, instruments=[seen.notes]) as gw:
            instrument = _At(victim, at, left.set)
            trio.lowlevel.add_instrument(instrument)
            victim.start_soon(seen.used, use, gw)
            with trio.move_on_after(200):
                await left.wait()
        trio.lowlevel.remove_instrument(instrument)
    # One that was called after it was left knows of no call.
    seen.errors = [error for error in seen.errors if not _is_refusal(error)]
    seen.check()
    return left.is_set()


def _is_refusal(error: GatewayError) -> bool:
    return isinstance(error, GatewayClosed) and not error.attempts


@pytest.mark.parametrize("use", [_complete, _stream])
@pytest.mark.parametrize("script", PHASES.values(), ids=PHASES)
def test_a_call_whose_gateway_is_left_at_any_moment_is_told_whole(
    use: Use, script: Mapping[str, Sequence[Step]]
) -> None:
    at = 1
    while run_virtual(_left, use, script, "raise", at):
        at += 1
    assert at > 10


@pytest.mark.parametrize("recovery", ["restart", "continue"])
@pytest.mark.parametrize("script", RECOVERIES.values(), ids=RECOVERIES)
def test_a_recovery_whose_gateway_is_left_at_any_moment_is_told_whole(
    script: Mapping[str, Sequence[Step]], recovery: Recovery
) -> None:
    at = 1
    while run_virtual(_left, _stream, script, recovery, at):
        at += 1
    assert at > 10


# ---------------------------------------------------------------- whatever providers do

ENDINGS: list[Ending] = ["no marker", "marker only", "cut", "reset", "hang", "error", "eof"]
BODIES: list[Body] = ["chunk", "chunk", "chunk", "two", "comment", "ping", "empty"]


def mostly(usual: T, unusual: SearchStrategy[T]) -> SearchStrategy[T]:
    """Draw what is unusual in one of four cases."""
    return st.integers(0, 3).flatmap(lambda which: unusual if which == 3 else st.just(usual))


PLANS = st.builds(
    Plan,
    refusal=mostly(None, st.none() | st.sampled_from([400, 429, 503])),
    body=st.lists(st.tuples(WAITS, st.sampled_from(BODIES)), min_size=1, max_size=6),
    wait=WAITS,
    ending=mostly("whole", st.sampled_from(ENDINGS)),
)
PROVIDERS = st.lists(st.lists(PLANS, min_size=1, max_size=2), min_size=1, max_size=3).map(
    lambda plans: dict(zip(("eu", "us", "ap"), plans, strict=False))
)
APPLICATIONS = st.builds(
    Application,
    streams=st.booleans(),
    cancels_after_ms=mostly(None, WAITS),
    deadline_ms=mostly(None, st.sampled_from([500, 5000, 10_000])),
    pause_ms=mostly(0, st.sampled_from([1, 700, 6000])),
    breaks_after=mostly(None, st.integers(0, 3)),
)

# Stalls begin between whole milliseconds, which is where all the rest happens: what happens at the
# very same time may happen in any order.
STALL_THRESHOLDS = st.sampled_from([0.7, 499.7, 2000.3, 6000.9])

STREAMS = st.builds(
    StreamPolicy,
    ttft_timeout_s=mostly(60.0, st.just(3.0)),
    stall_timeout_s=mostly(60.0, st.just(3.0)),
    stall_threshold_ms=STALL_THRESHOLDS,
    recovery=st.sampled_from(get_args(Recovery)),
    hold_back_s=mostly(0.0, st.just(1.5)),
)

# Without a backoff nothing is drawn by lot.
RETRIES = st.builds(RetryPolicy, max_retries=st.integers(0, 3), backoff_base_s=st.just(0.0))

Policies: TypeAlias = "tuple[HedgePolicy, RetryPolicy, StreamPolicy]"


async def _run(
    providers: dict[str, list[Plan]],
    policies: Policies,
    application: Application,
    *instruments: Instrument,
) -> Seen:
    seen = Seen()
    served = {name: _provider(name, plans) for name, plans in providers.items()}
    hedge, retry, stream = policies
    async with serve_memory(served) as network:
        config = network.config(prefill=served, hedge=hedge, retry=retry, stream=stream)
        async with open_gateway(config, connect=network.connect, instruments=instruments) as gw:
            limit = application.cancels_after_ms
            with trio.move_on_after(float("inf") if limit is None else limit / 1000):
                await _call(gw, application, seen)
    return seen


def _tell(providers: dict[str, list[Plan]], policies: Policies, application: Application) -> Notes:
    """Make a call, and check that all of it was told."""
    notes = Notes()
    seen = run_virtual(_run, providers, policies, application, notes)
    check(notes)
    for end in notes.of(CallEnded):
        # A stream can break behind chunks that its application does not ask for any more.
        left_before = seen.error is None and isinstance(end.error, StreamBroken)
        assert end.error is seen.error or left_before
        assert end.outcome == "complete" or not seen.whole
    return notes


@given(PROVIDERS, st.tuples(HEDGES, RETRIES, STREAMS), APPLICATIONS)
def test_every_call_is_told_whole_and_its_figures_follow_from_its_trace(
    providers: dict[str, list[Plan]], policies: Policies, application: Application
) -> None:
    notes = _tell(providers, policies, application)
    for attempt in notes.of(AttemptEnded):
        event(f"{attempt.stats.outcome} with {attempt.stats.end_kind}")
    for stall in notes.of(StallEnded):
        event("an open stall" if stall.stall.open else "a stall")


# Content, and then a silence or a break: what a stream is recovered from.
BREAKING = st.builds(
    Plan,
    refusal=st.none(),
    body=st.lists(st.tuples(WAITS, st.sampled_from(BODIES)), max_size=2).map(
        lambda body: [(20, "chunk"), *body]
    ),
    wait=WAITS,
    ending=mostly("cut", st.sampled_from(["whole", "hang", "error", "eof", "reset"])),
)
BROKEN = st.tuples(BREAKING, BREAKING | PLANS, PLANS).map(
    lambda plans: {name: [plan] for name, plan in zip(("eu", "us", "ap"), plans, strict=True)}
)
RECOVERING = st.builds(
    StreamPolicy,
    stall_timeout_s=mostly(60.0, st.just(3.0)),
    stall_threshold_ms=STALL_THRESHOLDS,
    recovery=st.sampled_from(get_args(Recovery)[1:]),
)
READERS = APPLICATIONS.map(lambda application: attrs.evolve(application, streams=True))


@given(BROKEN, st.tuples(HEDGES, RETRIES, RECOVERING), READERS)
def test_every_recovery_is_told_whole(
    providers: dict[str, list[Plan]], policies: Policies, application: Application
) -> None:
    notes = _tell(providers, policies, application)
    for made in notes.of(SeamMade):
        event(made.seam.kind)
    event(f"seams: {len(notes.of(SeamMade))}")


class _Unshuffled:
    """Takes the place of trio's random numbers: tasks that are due together run in one order."""

    def shuffle(self, batch: list[trio.lowlevel.Task]) -> None:
        """Leave *batch* as it is sorted."""


@given(PROVIDERS | BROKEN, st.tuples(HEDGES, RETRIES, STREAMS | RECOVERING), APPLICATIONS)
def test_a_call_fares_the_same_with_and_without_instruments(
    providers: dict[str, list[Plan]], policies: Policies, application: Application
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trio._core._run._r", _Unshuffled())
        alone = run_virtual(_run, providers, policies, application)
        watched = run_virtual(_run, providers, policies, application, Notes())
    assert watched.stats == alone.stats
    assert (watched.delivered, watched.whole) == (alone.delivered, alone.whole)
    assert _told_of(watched.error) == _told_of(alone.error)


def _told_of(error: GatewayError | None) -> tuple[object, ...]:
    return () if error is None else (type(error), str(error), error.attempts, error.partial)
