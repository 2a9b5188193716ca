"""The figures of whole calls against what the server truly wrote, tick by tick."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs
import pytest
import trio
from hypothesis import event, given, strategies as st

from polygateway import (
    Chunk,
    Gateway,
    GatewayError,
    HedgePolicy,
    RetryPolicy,
    StreamPolicy,
    Usage,
    open_gateway,
)
from polygateway.observe import AttemptEnded, CallEnded, Instrument, figures_of
from polygateway.stats import EndKind, StreamFigures
from polygateway.testing import (
    Exchange,
    ScriptedProvider,
    Send,
    Step,
    chunk,
    comment,
    cut,
    done,
    empty,
    error_frame,
    finish,
    hang,
    keepalives,
    ping,
    raw,
    reasoning,
    refusal,
    reset,
    role,
    run_virtual,
    serve_memory,
    silence,
    status,
    together,
    tool_call,
    usage,
)
from tests.oracle import Observation, Read, agree, brute_force
from tests.strategies import MS, said

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from polygateway.messages import JSON
    from polygateway.trace import ReplyForm
    from tests.scenario import Policies

    Call: TypeAlias = Callable[[Gateway, float | None], Awaitable[None]]

THRESHOLD_MS = 2000  # the default of stream.stall_threshold_ms
CALLED_MS = 250  # figures do not start with the clock


async def complete(gw: Gateway, deadline_s: float | None) -> None:
    await gw.complete("x", model="m", deadline_s=deadline_s)


async def stream(gw: Gateway, deadline_s: float | None) -> None:
    async with gw.stream("x", model="m", deadline_s=deadline_s) as opened:
        async for _ in opened:
            pass


class Recorder(Instrument):
    """Keeps how attempts and calls ended."""

    wants_traces = True

    def __init__(self) -> None:
        self.attempts = list[AttemptEnded]()
        self.calls = list[CallEnded]()

    def attempt_ended(self, event: AttemptEnded) -> None:
        self.attempts.append(event)

    def call_ended(self, event: CallEnded) -> None:
        self.calls.append(event)


def timing(stats: StreamFigures) -> StreamFigures:
    """Give the figures of an attempt or a call without what else is told of it."""
    names = [field.name for field in attrs.fields(StreamFigures)]
    return StreamFigures(**{name: getattr(stats, name) for name in names})


# ------------------------------------------------------------------------ what a server writes

BOTH = raw(b'data: {"choices": [{"delta": {"reasoning_content": "hm", "content": "so"}}]}\n\n')
CONTENT: Mapping[Send, tuple[Chunk, ...]] = {
    chunk("a"): (said("text", "a"),),
    chunk("tide"): (said("text", "tide"),),
    reasoning("r"): (said("reasoning", "r"),),
    refusal("no"): (said("refusal", "no"),),
    tool_call("{", id="c", name="f"): (said("tool_call", "{"),),
    # One event with two kinds of content.
    attrs.evolve(BOTH, content=1): (said("reasoning", "hm"), said("text", "so")),
}
ALIVE = [comment(), ping(), empty(), role(), usage(1, 2)]


@attrs.frozen
class Piece:
    """A pause, keep-alives in it, and one write of content, perhaps with a count of tokens."""

    pause_ms: int
    alive: Send | None
    every_ms: int
    content: tuple[Send, ...]
    counted: int | None

    def steps(self) -> Sequence[Step]:
        seconds = self.pause_ms / 1000
        waiting: Sequence[Step] = [silence(seconds)]
        if self.alive is not None and self.pause_ms:
            waiting = keepalives(seconds, every_s=self.every_ms / 1000, step=self.alive)
        return [*waiting, self.write]

    @property
    def write(self) -> Send:
        counts = [] if self.counted is None else [usage(1, self.counted)]
        return together(*self.content, *counts)

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """What a client should make of it."""
        return tuple(each for step in self.content for each in CONTENT[step])


PIECES = st.builds(
    Piece,
    pause_ms=st.sampled_from([0, 1, 20, 999, 1999, 2000, 2001, 3000]) | st.integers(0, 5000),
    alive=st.none() | st.sampled_from(ALIVE),
    every_ms=st.sampled_from([50, 300, 1000]),
    content=st.lists(st.sampled_from([*CONTENT]), min_size=1, max_size=3).map(tuple),
    counted=st.none() | st.integers(0, 40),
)
TAILS = st.builds(
    Piece,
    pause_ms=st.sampled_from([0, 1999, 2000, 3000]) | st.integers(0, 5000),
    alive=st.none() | st.sampled_from(ALIVE),
    every_ms=st.just(300),
    content=st.just(()),
    counted=st.none(),
)
"""A pause before the end."""

ENDS: Mapping[EndKind, Sequence[Sequence[Step]]] = {
    "complete": [
        [finish(), done()],
        [finish(), usage(1, 30), done()],
        [finish(), silence(0.2), usage(1, 5000), silence(0.1), done()],
        [together(finish(), usage(1, 9))],
    ],
    "cut": [[cut()], [reset()], []],
    "error": [[error_frame("out of order")]],
    "watchdog": [[hang()]],
    "cancelled": [[hang()]],
}


@attrs.frozen
class Script:
    """What a server says, and how that ends."""

    pieces: list[Piece]
    tail: Piece
    end_kind: EndKind
    end: Sequence[Step]

    def steps(self) -> list[Step]:
        body = [step for piece in self.pieces for step in piece.steps()]
        return [*body, *self.tail.steps()[:-1], *self.end]

    @property
    def deadline_s(self) -> float | None:
        """How long the call may take: a second more than the script, if it is to be cancelled."""
        if self.end_kind != "cancelled":
            return None
        return sum(piece.pause_ms for piece in [*self.pieces, self.tail]) / 1000 + 1


def _ends(end_kind: EndKind) -> st.SearchStrategy[Script]:
    ends = st.sampled_from(ENDS[end_kind])
    return st.builds(Script, st.lists(PIECES, max_size=8), TAILS, st.just(end_kind), ends)


SCRIPTS = st.one_of([_ends("complete")] * 3 + [_ends(end_kind) for end_kind in ENDS])


# ------------------------------------------------------------------------ what a client sees


def observed(
    exchange: Exchange, script: Script, ended: AttemptEnded, tick_ns: int = MS
) -> Observation:
    """Give what a client that never pauses should have seen, from the log of the server."""
    started, end = round(exchange.started_at * 1e9) // tick_ns, ended.at_ns // tick_ns
    meaning = {piece.write: piece.chunks for piece in script.pieces}
    asked, counted, reads = started, None, list[Read]()
    for at, step in exchange.sent:
        arrived = round(at * 1e9) // tick_ns
        if isinstance(step, Send) and arrived <= end:
            # What comes with content, or with the end, is no sign of life.
            alive = 0 if step.content or step in script.end else step.data.count(b"\n\n")
            counted = _count_in(step, counted)
            chunks = meaning.get(step, ())
            reads.append(Read(asked, arrived, chunks, 0, alive, counted, step.content))
            asked = arrived
    return Observation(
        started=started,
        reads=[*reads, Read(asked, end)],
        ended=end,
        threshold=THRESHOLD_MS * MS // tick_ns,
        end_kind=ended.stats.end_kind,
        usage=Usage(output_tokens=counted),
        attempt=ended.stats.index,
        tick_ns=tick_ns,
    )


def _count_in(step: Send, before: int | None) -> int | None:
    """Give the tokens of output that were counted up to a write."""
    counts = re.findall(rb'"completion_tokens": (\d+)', step.data)
    return int(counts[-1]) if counts else before


@attrs.frozen
class Seen:
    """What was recorded of a call, and what its servers logged."""

    attempts: list[AttemptEnded]
    call: CallEnded
    logs: Mapping[str, Sequence[Exchange]]

    def exchange(self, attempt: AttemptEnded) -> Exchange:
        """Give what a server logged of an attempt; each had one at most."""
        (exchange,) = self.logs[attempt.stats.target]
        return exchange


async def measured(
    call: Call, scripts: Mapping[str, Sequence[Step]], policies: Policies, deadline_s: float | None
) -> Seen:
    providers = {name: ScriptedProvider(steps) for name, steps in scripts.items()}
    recorder = Recorder()
    async with serve_memory(providers) as network:
        config = network.config(**policies)
        async with open_gateway(config, connect=network.connect, instruments=[recorder]) as gw:
            await trio.sleep(CALLED_MS / 1000)
            with suppress(GatewayError):
                await call(gw, deadline_s)
    (ended,) = recorder.calls
    logs = {name: provider.log for name, provider in providers.items()}
    return Seen(recorder.attempts, ended, logs)


NO_RETRY = RetryPolicy(max_retries=0)
ALONE: Policies = {
    "retry": NO_RETRY,
    "hedge": HedgePolicy(enabled=False),
    "stream": StreamPolicy(stall_timeout_s=20),
}


@pytest.mark.parametrize("call", [complete, stream])
@given(script=SCRIPTS)
def test_the_figures_of_a_call_are_those_of_what_was_written(call: Call, script: Script) -> None:
    seen = run_virtual(measured, call, {"eu": script.steps()}, ALONE, script.deadline_s)
    (attempt,) = seen.attempts
    if attempt.stats.chunk_count:
        assert attempt.stats.end_kind == script.end_kind
    expected = brute_force(observed(seen.exchange(attempt), script, attempt))
    agree(timing(attempt.stats), expected)
    assert timing(seen.call.stats) == timing(attempt.stats), "it started at once"
    assert attempt.trace is not None
    assert figures_of(attempt.trace) == timing(attempt.stats)
    event(f"{script.end_kind}, rate: {expected.rate_basis or expected.rate_reason}")


HEDGED: Policies = {
    "retry": NO_RETRY,
    "hedge": HedgePolicy(after_s=3.0005, stall_after_s=3.0005, max_attempts=2),
    "stream": StreamPolicy(stall_timeout_s=20),
}


@pytest.mark.parametrize("call", [complete, stream])
@given(eu=SCRIPTS, us=SCRIPTS)
def test_each_of_two_attempts_has_its_own_figures_and_the_call_those_of_the_winner(
    call: Call, eu: Script, us: Script
) -> None:
    # Their times and those of hedges are parts of a millisecond apart: there is never a tie.
    scripts = {"eu": eu.steps(), "us": [silence(0.0003), *us.steps()]}
    seen = run_virtual(measured, call, scripts, HEDGED, None)
    for attempt in seen.attempts:
        script = {"eu": eu, "us": us}[attempt.stats.target]
        own = observed(seen.exchange(attempt), script, attempt, MS // 10)
        agree(timing(attempt.stats), brute_force(own))
        if attempt.stats.outcome == "won":
            # An empty answer wins when nobody else is left, perhaps long after its end.
            over = seen.call.at_ns * 10 // MS
            agree(timing(seen.call.stats), brute_force(own, CALLED_MS * 10, over))
        assert attempt.trace is not None
        assert figures_of(attempt.trace) == timing(attempt.stats)
    event(f"{[attempt.stats.outcome for attempt in seen.attempts]}")


# ------------------------------------------------------------------------ slow consumers


def slowly(pause_s: float) -> Call:
    """Give a consumer that sleeps after each chunk."""

    async def consume(gw: Gateway, deadline_s: float | None) -> None:
        async with gw.stream("x", model="m", deadline_s=deadline_s) as opened:
            async for _ in opened:
                await trio.sleep(pause_s)

    return consume


@given(script=SCRIPTS, pause_s=st.sampled_from([0.003, 0.3, 1.7, 4.0]))
def test_no_consumer_makes_a_provider_look_slower(script: Script, pause_s: float) -> None:
    eager, slow = (
        run_virtual(measured, call, {"eu": script.steps()}, ALONE, None).call.stats
        for call in (stream, slowly(pause_s))
    )
    assert slow.chunk_count == eager.chunk_count
    assert (slow.stall_ms or 0) <= (eager.stall_ms or 0)
    assert (slow.stall_gap_count or 0) <= (eager.stall_gap_count or 0)
    assert (slow.max_gap_ms or 0) <= (eager.max_gap_ms or 0)
    assert not eager.backpressure_ms


# ------------------------------------------------------------------------ what cannot be timed


def untimed(steps: Sequence[Step], form: ReplyForm) -> StreamFigures:
    """Give the figures of an answer that took 9 s and counted 7 tokens."""
    seen = run_virtual(measured, complete, {"eu": steps}, ALONE, None)
    (attempt,), stats = seen.attempts, timing(seen.call.stats)
    assert attempt.trace is not None
    assert figures_of(attempt.trace) == timing(attempt.stats) == stats
    usage = Usage(output_tokens=7)
    nothing = Observation(
        started=0, reads=[], ended=9000, threshold=1, form=form, usage=usage, tick_ns=MS
    )
    assert stats == attrs.evolve(brute_force(nothing), chunk_count=stats.chunk_count)
    return stats


def event_of(**fields: JSON) -> Send:
    return raw(b"data: " + json.dumps(fields).encode() + b"\n\n")


def test_a_reply_that_is_no_stream_has_a_length_and_a_count() -> None:
    choice: JSON = {"index": 0, "message": {"content": "Low."}, "finish_reason": "stop"}
    counts: JSON = {"prompt_tokens": 5, "completion_tokens": 7}
    reply: Mapping[str, JSON] = {"choices": [choice], "usage": counts}
    stats = untimed([silence(9), *status(200, reply)], "document")
    assert (stats.total_ms, stats.chunk_count, stats.rate_reason) == (9000, 1, "not_streamed")


def test_several_answers_in_one_stream_have_a_length_and_a_count() -> None:
    def of(index: int, content: str, finish_reason: str | None = None) -> JSON:
        return {"index": index, "delta": {"content": content}, "finish_reason": finish_reason}

    script: list[Step] = [
        *(event_of(choices=[of(0, "a")]), silence(4), event_of(choices=[of(1, "b")]), silence(5)),
        *(event_of(choices=[of(0, "", "stop"), of(1, "c", "stop")]), usage(5, 7), done()),
    ]
    stats = untimed(script, "choices")
    assert (stats.total_ms, stats.chunk_count, stats.rate_reason) == (9000, 3, "multiple_choices")
