"""Whatever providers and applications do: one attempt speaks, whole and in order.

Every provider writes texts that name their exchange and their place in it ("eu0.0 ", "eu0.1 "), so
that what comes out tells by itself where it came from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import attrs
import trio
from hypothesis import event, given, strategies as st

from polygateway import (
    CallStats,
    Completion,
    CompletionStream,
    Gateway,
    GatewayError,
    HedgePolicy,
    RetryPolicy,
    StreamPolicy,
    open_gateway,
)
from polygateway.testing import (
    MemoryNetwork,
    ScriptedProvider,
    chunk,
    comment,
    cut,
    done,
    empty,
    error_frame,
    finish,
    hang,
    headers,
    ping,
    reset,
    run_virtual,
    serve_memory,
    silence,
    status,
    together,
)

if TYPE_CHECKING:
    from polygateway.stats import AttemptStats
    from polygateway.testing import Request, Step

Body = Literal["chunk", "two", "comment", "ping", "empty"]
Ending = Literal["whole", "no marker", "marker only", "cut", "reset", "hang", "error", "eof"]

# Milliseconds: around the limits below, and far beyond them.
WAITS = st.sampled_from([0, 1, 20, 499, 500, 501, 2000, 4999, 5000, 5001, 30_000])


@attrs.frozen
class Plan:
    """What a provider does with one request."""

    refusal: int | None
    body: Sequence[tuple[int, Body]]
    wait: int
    ending: Ending

    def script(self, label: str) -> list[Step]:
        if self.refusal is not None:
            return [silence(self.wait / 1000), *status(self.refusal)]
        steps: list[Step] = [headers()]
        place = 0
        for wait, what in self.body:
            steps.append(silence(wait / 1000))
            if what in {"chunk", "two"}:
                texts = [f"{label}.{place + i} " for i in range(2 if what == "two" else 1)]
                place += len(texts)
                steps.append(together(*map(chunk, texts)))
            else:
                steps.append({"comment": comment, "ping": ping, "empty": empty}[what]())
        return [*steps, silence(self.wait / 1000), *_ENDINGS[self.ending]]

    @property
    def texts(self) -> int:
        return sum({"chunk": 1, "two": 2}.get(what, 0) for _, what in self.body)


_ENDINGS: dict[Ending, list[Step]] = {
    "whole": [finish(), done()],
    "no marker": [finish(), hang()],
    "marker only": [done()],
    "cut": [cut()],
    "reset": [reset()],
    "hang": [hang()],
    "error": [error_frame("boom")],
    "eof": [],
}

PLANS = st.builds(
    Plan,
    refusal=st.none() | st.none() | st.none() | st.sampled_from([400, 401, 404, 429, 500, 503]),
    body=st.lists(
        st.tuples(WAITS, st.sampled_from(["chunk", "chunk", "two", "comment", "ping", "empty"])),
        max_size=5,
    ),
    wait=WAITS,
    ending=st.sampled_from(["whole", "whole", "whole", *_ENDINGS]),
)

PROVIDERS = st.dictionaries(
    st.sampled_from(["eu", "us", "ap"]), st.lists(PLANS, min_size=1, max_size=3), min_size=1
)

HEDGES = st.builds(
    HedgePolicy,
    enabled=st.sampled_from([True, True, True, False]),
    after_s=st.sampled_from([0.5, 5.0]),
    stall_after_s=st.sampled_from([0.5, 5.0]),
    max_attempts=st.integers(1, 4),
    winner=st.sampled_from(["first-delivered", "first-complete"]),
    same_target=st.booleans(),
    budget_ratio=st.sampled_from([0.0, 0.2, 1.0]),
    budget_burst=st.sampled_from([0.0, 1.0, 2.0, 10.0]),
)

RETRIES = st.builds(RetryPolicy, max_retries=st.integers(0, 3))

STREAMS = st.builds(
    StreamPolicy,
    ttft_timeout_s=st.sampled_from([3.0, 60.0]),
    stall_timeout_s=st.sampled_from([3.0, 60.0]),
)


@attrs.frozen
class Application:
    """What the caller does."""

    streams: bool
    cancels_after_ms: int | None
    deadline_ms: int | None
    pause_ms: int
    breaks_after: int | None


APPLICATIONS = st.builds(
    Application,
    streams=st.booleans(),
    cancels_after_ms=st.none() | WAITS,
    deadline_ms=st.none() | st.sampled_from([500, 5000, 10_000]),
    pause_ms=st.sampled_from([0, 0, 1, 700, 6000]),
    breaks_after=st.none() | st.integers(0, 3),
)


@attrs.define
class Seen:
    """What the caller got."""

    delivered: str = ""
    attempts: set[int] = attrs.field(factory=set[int])
    completion: Completion | None = None
    whole: bool = False
    error: GatewayError | None = None
    stats: CallStats | None = None


async def _call(gw: Gateway, application: Application, seen: Seen) -> None:
    deadline = None if application.deadline_ms is None else application.deadline_ms / 1000
    try:
        if not application.streams:
            seen.completion = await gw.complete("x", model="m", deadline_s=deadline)
            seen.whole, seen.stats = True, seen.completion.stats
            return
        async with gw.stream("x", model="m", deadline_s=deadline) as stream:
            try:
                await _read(stream, application, seen)
            finally:
                seen.completion, seen.stats = stream.completion, stream.stats
    except GatewayError as error:
        seen.error = error


async def _read(stream: CompletionStream, application: Application, seen: Seen) -> None:
    count = 0
    async for each in stream:
        if count == application.breaks_after:
            break
        count += 1
        seen.delivered += each.text
        seen.attempts.add(each.attempt)
        seen.whole = each.kind == "end"
        await trio.sleep(application.pause_ms / 1000)


def _provider(name: str, plans: Sequence[Plan]) -> ScriptedProvider:
    served = 0

    def script(_: Request) -> list[Step]:
        nonlocal served
        served += 1
        return plans[min(served, len(plans)) - 1].script(f"{name}{served - 1}")

    return ScriptedProvider(script)


async def _run(
    providers: dict[str, list[Plan]],
    policies: tuple[HedgePolicy, RetryPolicy, StreamPolicy],
    application: Application,
) -> Seen:
    seen = Seen()
    served = {name: _provider(name, plans) for name, plans in providers.items()}
    hedge, retry, stream = policies
    async with serve_memory(served) as network:
        config = network.config(hedge=hedge, retry=retry, stream=stream)
        async with open_gateway(config, connect=network.connect) as gw:
            limit = application.cancels_after_ms
            with trio.move_on_after(float("inf") if limit is None else limit / 1000):
                await _call(gw, application, seen)
            _check_nothing_is_held(gw, network)
        assert network.open_connections == 0
    return seen


def _check_nothing_is_held(gw: Gateway, network: MemoryNetwork) -> None:
    assert not gw._calls
    connections = [route.connections for route in gw._routes.values()]
    assert all(each.free_slots == 1000 and not each._leases for each in connections)
    assert network.open_connections == sum(len(each._idle) for each in connections)


def _check_one_voice(text: str, providers: dict[str, list[Plan]], *, whole: bool) -> None:
    """Check that *text* is the beginning of what one exchange wrote, and all of it if *whole*."""
    pieces = re.findall(r"([a-z]+)(\d+)\.(\d+) ", text)
    assert "".join(f"{name}{exchange}.{place} " for name, exchange, place in pieces) == text
    assert [int(place) for _, _, place in pieces] == list(range(len(pieces)))
    assert len({(name, exchange) for name, exchange, _ in pieces}) <= 1
    if whole and pieces:
        name, exchange, _ = pieces[0]
        plan = providers[name][min(int(exchange), len(providers[name]) - 1)]
        assert len(pieces) == plan.texts
        assert plan.ending in {"whole", "no marker", "marker only"}


def _check_bounds(attempts: Sequence[AttemptStats], hedge: HedgePolicy, retry: RetryPolicy) -> None:
    kinds = [attempt.kind for attempt in attempts]
    assert kinds.count("primary") == 1
    assert kinds[0] == "primary"
    for position, kind in enumerate(kinds):
        assert kind != "hedge" or (hedge.enabled and position < hedge.max_attempts)
    assert kinds.count("retry") <= retry.max_retries
    # One call: what it brings, what is there, and the first failover, which is never refused.
    extra = kinds.count("hedge") + kinds.count("retry")
    assert extra <= 1 + min(hedge.budget_burst, hedge.budget_burst + hedge.budget_ratio)
    outcomes = [attempt.outcome for attempt in attempts]
    assert outcomes.count("won") <= 1
    assert None not in outcomes


def _check_figures(stats: CallStats) -> None:
    for each in (stats, *stats.attempts):
        if each.chunk_count == 0:
            assert each.ttft_ms is None
        if each.chunk_count < 2:
            assert each.generation_ms is each.stall_ms is each.active_generation_ms is None
            continue
        assert each.generation_ms is not None
        assert each.stall_ms is not None
        assert each.active_generation_ms is not None
        assert each.stall_ms >= 0
        assert each.active_generation_ms >= 0
        assert abs(each.generation_ms - each.stall_ms - each.active_generation_ms) < 1e-6
        assert each.generation_ms <= each.total_ms + 1e-6


@given(PROVIDERS, st.tuples(HEDGES, RETRIES, STREAMS), APPLICATIONS)
def test_one_attempt_speaks_whole_and_in_order_and_all_is_closed(
    providers: dict[str, list[Plan]],
    policies: tuple[HedgePolicy, RetryPolicy, StreamPolicy],
    application: Application,
) -> None:
    seen = run_virtual(_run, providers, policies, application)

    assert len(seen.attempts) <= 1
    _check_one_voice(seen.delivered, providers, whole=seen.whole)
    for completion in (seen.completion, seen.error.partial if seen.error else None):
        if completion is not None:
            _check_one_voice(completion.text, providers, whole=seen.whole)
            assert completion.text.startswith(seen.delivered)
            _check_figures(completion.stats)
    attempts = seen.error.attempts if seen.error else seen.stats.attempts if seen.stats else None
    if attempts is not None:
        _check_bounds(attempts, policies[0], policies[1])
        event(f"attempts: {len(attempts)}")
    event("whole" if seen.whole else type(seen.error).__name__)
