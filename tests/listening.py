"""An instrument that writes down all that it is told, and what must hold of that for any call."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar, Unpack, cast

import attrs

from polygateway import GatewayError, open_gateway
from polygateway.core.figures import figures_of
from polygateway.instrument import (
    AttemptEnded,
    AttemptStarted,
    CallEnded,
    CallStarted,
    Committed,
    HedgeRefused,
    Instrument,
    SeamMade,
    StallBegan,
    StallEnded,
)
from polygateway.stats import StreamFigures
from polygateway.testing import run_virtual, serve_memory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias

    from polygateway import AttemptStats, Gateway, Stall
    from polygateway.instrument import Event
    from polygateway.testing import ScriptedProvider
    from tests.scenario import Policies

    Use: TypeAlias = Callable[[Gateway], Awaitable[object]]
    Providers: TypeAlias = Mapping[str, ScriptedProvider]

E = TypeVar("E")


class Notes(Instrument):
    """Writes down every event."""

    def __init__(self, *, wants_traces: bool = True) -> None:
        self.wants_traces = wants_traces
        self.events: list[Event] = []

    def call_started(self, event: CallStarted) -> None:
        self.events.append(event)

    def attempt_started(self, event: AttemptStarted) -> None:
        self.events.append(event)

    def stall_began(self, event: StallBegan) -> None:
        self.events.append(event)

    def stall_ended(self, event: StallEnded) -> None:
        self.events.append(event)

    def hedge_refused(self, event: HedgeRefused) -> None:
        self.events.append(event)

    def committed(self, event: Committed) -> None:
        self.events.append(event)

    def seam_made(self, event: SeamMade) -> None:
        self.events.append(event)

    def attempt_ended(self, event: AttemptEnded) -> None:
        self.events.append(event)

    def call_ended(self, event: CallEnded) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """Give the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def by_call(self) -> list[Sequence[Event]]:
        """Give the events of each call."""
        calls: defaultdict[int, list[Event]] = defaultdict(list)
        for event in self.events:
            calls[event.call].append(event)
        return list(calls.values())

    @property
    def lines(self) -> list[str]:
        """Each event in a few words."""
        return list(map(_line, self.events))

    @property
    def end(self) -> CallEnded:
        """The end of the only call."""
        (end,) = self.of(CallEnded)
        return end


def _line(event: Event) -> str:
    match event:
        case CallStarted():
            line = "call"
        case AttemptStarted():
            why = "" if event.reason is None else f" ({event.reason})"
            line = f"{event.kind} {event.attempt}{why}"
        case StallBegan():
            line = f"{event.attempt} stalls"
        case StallEnded():
            line = f"{event.attempt} stalled"
        case HedgeRefused():
            line = f"no hedge ({event.reason}): {event.why}"
        case Committed():
            line = f"commit {event.attempt}"
        case SeamMade():
            line = f"{event.seam.kind} {event.seam.before} -> {event.seam.after}"
        case AttemptEnded():
            line = f"{event.stats.index} {event.stats.outcome}"
        case CallEnded():
            line = f"call {event.outcome}"
        case _:
            raise AssertionError(event)
    return line


# ---------------------------------------------------------------- whole calls


def watch(
    use: Use, providers: Providers, *instruments: Instrument, **policies: Unpack[Policies]
) -> None:
    """Use a gateway in virtual time; nothing may be left open behind it."""

    async def main() -> None:
        async with serve_memory(providers) as network:
            config = network.config(prefill=providers, **policies)
            async with open_gateway(config, connect=network.connect, instruments=instruments) as gw:
                await use(gw)
            assert network.open_connections == 0

    run_virtual(main)


def told(use: Use, providers: Providers, **policies: Unpack[Policies]) -> Notes:
    """Use a gateway in virtual time, whatever comes of it, and give what an instrument is told."""
    notes = Notes()
    with suppress(GatewayError):
        watch(use, providers, notes, **policies)
    check(notes)
    return notes


async def complete(gw: Gateway) -> None:
    """Have a whole answer."""
    await gw.complete("x", model="m")


async def stream(gw: Gateway) -> None:
    """Read a stream to its end."""
    async with gw.stream("x", model="m") as opened:
        async for _ in opened:
            pass


# ---------------------------------------------------------------- what must hold


def figures_in(stats: StreamFigures) -> StreamFigures:
    """Give the figures of a stream out of the record of an attempt or a call."""
    names = (field.name for field in attrs.fields(StreamFigures))
    return StreamFigures(**{name: getattr(stats, name) for name in names})


def check(notes: Notes) -> None:
    """Check what holds of the events of any calls, all of which have ended."""
    for events in notes.by_call():
        _check_call(events)


def _check_call(events: Sequence[Event]) -> None:
    first, *between, last = events
    assert isinstance(first, CallStarted)
    assert isinstance(last, CallEnded)
    assert not any(isinstance(event, CallStarted | CallEnded) for event in between)
    assert (last.model, last.stream) == (first.model, first.stream)
    assert all(first.at_ns <= event.at_ns <= last.at_ns for event in between)

    attempts: dict[int, list[Event]] = {}
    for event in between:
        if isinstance(event, AttemptStarted):
            assert event.attempt == len(attempts), "in order of launch, each once"
            assert event.target in first.targets
            attempts[event.attempt] = []
        if not isinstance(event, HedgeRefused | SeamMade):
            attempts[_attempt_of(event)].append(event)
    assert len(attempts) == len(last.stats.attempts)
    for index, of_attempt in attempts.items():
        _check_attempt(of_attempt, last, index)
    _check_commits(between, last)
    _check_seams(first, between, last)
    _check_waste(between, last)
    _check_end(first, between, last)


def _attempt_of(event: Event) -> int:
    if isinstance(event, AttemptEnded):
        return event.stats.index
    return cast("AttemptStarted | StallBegan | StallEnded | Committed", event).attempt


def _check_attempt(events: Sequence[Event], call: CallEnded, index: int) -> None:
    started, *between, ended = events
    assert isinstance(started, AttemptStarted)
    assert isinstance(ended, AttemptEnded)
    stats, final = ended.stats, call.stats.attempts[index]
    assert (stats.kind, stats.reason, stats.target) == (
        *(started.kind, started.reason, started.target),
    )
    # Whether it was in vain, and what that cost, is known for good when the call has ended; and why
    # nothing was tried after it is known only then, which its error says at its end.
    then, now = (attrs.evolve(each, wasted=None, error=None) for each in (stats, final))
    assert then == now
    assert (final.error or "").startswith(stats.error or "")
    committed = any(isinstance(event, Committed) for event in between)
    assert committed or stats.wasted is not None
    assert (stats.error is None) == (stats.error_kind is None) == (final.error is None)
    assert (stats.outcome == "failed") == (stats.error is not None)
    assert (stats.outcome in {"lost", "cancelled"}) == (stats.cancel_reason is not None)
    assert ended.at_ns - started.at_ns == round(stats.total_ms * 1e6)
    _check_times(stats)
    if ended.trace is None or ended.trace.form == "stream":
        _check_stalls([event for event in between if not isinstance(event, Committed)], ended)
    if ended.trace is not None:
        assert figures_of(ended.trace) == figures_in(stats)


def _check_times(stats: AttemptStats) -> None:
    """Check that the parts of an attempt follow each other and are no longer than the whole."""
    steps = [stats.sent_ms, stats.headers_ms, stats.ttft_ms, stats.total_ms]
    known = [step for step in steps if step is not None]
    assert known == sorted(known)
    assert stats.headers_ms is None or stats.status is not None
    if stats.ttft_ms is not None:
        parts = (stats.ttft_ms, stats.generation_ms or 0, stats.tail_ms or 0)
        assert sum(parts) <= stats.total_ms + 1e-6
    if stats.open_gap_ms is not None:
        assert stats.open_gap_ms == stats.tail_ms
        assert stats.end_kind != "complete"


def _check_stalls(events: Sequence[Event], ended: AttemptEnded) -> None:
    """Check that exactly the stalls of the figures were told, each when it began and ended."""
    told: list[Stall] = []
    for began, over in zip(events[::2], events[1::2], strict=True):
        assert isinstance(began, StallBegan)
        assert isinstance(over, StallEnded)
        assert began.after_chunk == over.stall.after_chunk
        assert began.at_ns <= over.at_ns
        told.append(over.stall)
    stats = ended.stats
    if stats.end_kind == "complete" and told and told[-1].after_chunk == stats.chunk_count - 1:
        # A silence that a proper end ended is told, for nobody knew; but it was no stall.
        assert (told[-1].open, told[-1].next_kind) == (False, None)
        told.pop()
    assert told == list(stats.stalls)


def _check_commits(events: Sequence[Event], call: CallEnded) -> None:
    commits = [event for event in events if isinstance(event, Committed)]
    assert (call.stats.commit_ms is None) == (not commits)
    assert call.outcome != "complete" or commits
    attempts = call.stats.attempts
    assert all(attempts[each.attempt].target == each.target for each in commits)
    assert len({each.attempt for each in commits}) == len(commits), "nobody is committed twice"
    for commit in commits:
        before = events[: events.index(commit)]
        rivals = {each.attempt for each in before if isinstance(each, AttemptStarted)}
        ended = {each.stats.index for each in before if isinstance(each, AttemptEnded)}
        assert rivals - {commit.attempt} <= ended, "the losers have ended before"
    last = {each.attempt for each in commits[-1:]}
    assert all(each.index in last for each in attempts if each.outcome == "won")
    assert not any(attempts[index].outcome == "lost" for index in last)


def _check_seams(first: CallStarted, events: Sequence[Event], call: CallEnded) -> None:
    """Check that every seam leads from what was delivered to one that was committed since."""
    commits = [event for event in events if isinstance(event, Committed)]
    told = [event for event in events if isinstance(event, SeamMade)]
    assert [each.seam for each in told] == list(call.stats.seams)
    assert call.stream or not told
    for made in told:
        seam, before = made.seam, events[: events.index(made)]
        assert seam.after in {each.attempt for each in before if isinstance(each, Committed)}
        assert made.at_ns == first.at_ns + round(seam.at_ms * 1e6)
    speakers = [commits[0].attempt if commits else None, *(each.after for each in call.stats.seams)]
    assert [each.before for each in call.stats.seams] == speakers[:-1]
    for one, two in pairwise(call.stats.seams):
        assert one.kind == "restart" or one.characters <= two.characters


def _check_waste(events: Sequence[Event], call: CallEnded) -> None:
    """Check that in vain was whatever is no part of what the caller got."""
    kept = set([event.attempt for event in events if isinstance(event, Committed)][:1])
    for seam in call.stats.seams:
        kept = {seam.after} if seam.kind == "restart" else kept | {seam.after}
    assert {each.index for each in call.stats.attempts if each.wasted is None} == kept


def _check_end(first: CallStarted, events: Sequence[Event], call: CallEnded) -> None:
    assert (call.error is not None) == (call.outcome == "failed")
    won = [each.index for each in call.stats.attempts if each.outcome == "won"]
    assert len(won) <= 1
    if call.outcome == "complete":
        assert call.stats.attempts[won[0]].end_kind == "complete"
    refused = [event.why for event in events if isinstance(event, HedgeRefused)]
    assert {why: refused.count(why) for why in refused} == call.stats.hedges_refused
    for event in events:
        if isinstance(event, AttemptEnded) and event.trace and event.stats.outcome == "won":
            seen = figures_of(event.trace, since_ns=first.at_ns, until_ns=call.at_ns)
            assert seen == figures_in(call.stats)
