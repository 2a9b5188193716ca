"""What a journal can hold, drawn by hypothesis, and journals with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
from hypothesis import strategies as st

from polygateway import Overloaded, Usage
from polygateway.instrument import AttemptEnded, CallEnded, CallStarted
from polygateway.observe.records import RecordedAttempt, RecordedCall
from polygateway.stats import AttemptStats, CallStats, ContentKind
from polygateway.trace import Arrival, Piece, Trace
from tests.records import ATTEMPT, CALL

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from polygateway.observe.journal import Journal

T = TypeVar("T", bound=attrs.AttrsInstance)

FAILURE = Overloaded("target 'eu' answered 529", target="eu", attempt=0)

# Below a century, with what is added to it.
_TIMES = st.integers(0, 10**18)
_COUNTS = st.integers(0, 3) | st.integers(0, 10**12)
_DURATIONS = st.floats(0, 1e12) | _COUNTS.map(lambda ns: ns / 1e6)


def built(cls: type[T], **given: object) -> SearchStrategy[T]:
    """Draw records of a class: whatever their types allow, besides the fields *given*."""
    kinds = get_type_hints(cls)
    drawn = {
        field.name: st.just(given[field.name]) if field.name in given else _drawn(kinds[field.name])
        for field in attrs.fields(cls)
    }
    return st.builds(cls, **drawn)


@cache
def _drawn(kind: object) -> SearchStrategy[object]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return st.none() | _drawn(inner[0])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is Sequence:
        return st.lists(_drawn(inner[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(_drawn(inner[0]), _drawn(inner[1]), max_size=2)
    if isinstance(kind, type) and attrs.has(kind):
        return built(kind)
    return _LEAVES[kind]


_LEAVES: dict[object, SearchStrategy[object]] = {
    int: _COUNTS,
    float: _DURATIONS,
    str: st.text(max_size=5),
    bool: st.booleans(),
    Arrival: st.nothing(),  # drawn by traces(), for they must come in order
    Piece: st.nothing(),
}


@st.composite
def _pieces(draw: st.DrawFn) -> tuple[Piece, ...]:
    kinds = st.sampled_from(get_args(ContentKind))
    # Half of a surrogate pair is what a provider sends that cuts its text at UTF-16's units.
    texts = st.text(max_size=4) | st.just("\ud83d") | st.just("\u2028\n\x00")
    drawn = draw(st.lists(st.tuples(kinds, texts), max_size=3))
    return tuple(Piece(kind, len(text), text) for kind, text in drawn)


# Made once: hypothesis looks at each new strategy for a while.
_TRACES = built(Trace, arrivals=(), pieces=())
_ATTEMPTS = built(AttemptStats)
_CALL_STATS = built(CallStats, attempts=())
_CALLS = built(RecordedCall, stats=None, attempts=())


@st.composite
def traces(draw: st.DrawFn, index: int = 0) -> Trace:
    """Draw the traces that timelines leave."""
    started = now = draw(_TIMES)
    arrivals: list[Arrival] = []
    pieces = draw(st.lists(_pieces(), max_size=6))
    for brought in pieces:
        waited, held = draw(_COUNTS), draw(_COUNTS)
        now += waited + held
        arrivals.append(
            Arrival(
                at_ns=now,
                waited_ns=waited,
                keepalives=draw(_COUNTS),
                chunk_count=draw(st.integers(1, 5)),
                characters=sum(piece.length for piece in brought),
                kinds=tuple(dict.fromkeys(piece.kind for piece in brought)),
                output_tokens=draw(st.none() | _COUNTS),
            )
        )
    return attrs.evolve(
        draw(_TRACES),
        attempt=index,
        started_ns=started,
        ended_ns=now + draw(_COUNTS),
        threshold_ns=1 + draw(_COUNTS),
        arrivals=tuple(arrivals),
        pieces=tuple(pieces),
    )


@st.composite
def attempts(draw: st.DrawFn, index: int = 0) -> RecordedAttempt:
    """Draw attempts."""
    stats = attrs.evolve(draw(_ATTEMPTS), index=index)
    return RecordedAttempt(stats=stats, trace=draw(traces(index)))


@st.composite
def calls(draw: st.DrawFn, run: str = "r", number: int = 1) -> RecordedCall:
    """Draw calls with all their attempts."""
    found = tuple(draw(attempts(index)) for index in range(draw(st.integers(0, 3))))
    stats = attrs.evolve(draw(_CALL_STATS), attempts=tuple(attempt.stats for attempt in found))
    call = attrs.evolve(draw(_CALLS), run=run, call=number, stats=stats, attempts=found)
    error = f"Overloaded: {FAILURE}" if call.outcome == "failed" else None
    return attrs.evolve(call, error=error, error_kind=error and FAILURE.kind)


def plain(number: int = 1, *, attempts: int = 1) -> RecordedCall:
    """Give a call by hand, as it is recorded when texts are not kept."""
    found = tuple(
        RecordedAttempt(stats=attrs.evolve(ATTEMPT, index=index), trace=_trace(index))
        for index in range(attempts)
    )
    return RecordedCall(
        run="r",
        call=number,
        started_at="2026-03-04T05:06:07.890+00:00",
        started_ns=1_000,
        ended_ns=9_000,
        model="fast",
        stream=True,
        targets=("eu", "us"),
        outcome="complete",
        error_kind=None,
        error=None,
        stats=attrs.evolve(CALL, attempts=tuple(attempt.stats for attempt in found)),
        attempts=found,
        usage=Usage(),
        finish_reason=None,
        provider_model=None,
        response_id=None,
    )


def _trace(index: int) -> Trace:
    return Trace(
        attempt=index,
        started_ns=1_000,
        ended_ns=9_000,
        sent_ns=None,
        headers_ns=None,
        threshold_ns=2_000,
        arrivals=(Arrival(5_000, 4_000, 0, 1, 3, ("text",), None),),
        pieces=((Piece("text", 3),),),
        waited_ns=4_000,
        keepalives=0,
        end_kind="cut",
        form="stream",
        usage=Usage(),
    )


def tell(journal: Journal, *calls: RecordedCall) -> None:
    """Tell a journal of calls, all of which run at the same time."""
    for call in calls:
        journal.call_started(
            CallStarted(
                call=call.call,
                at_ns=call.started_ns,
                model=call.model,
                stream=call.stream,
                targets=call.targets,
            )
        )
    for call in calls:
        for attempt in call.attempts:
            # What it wasted is known only when the call has ended.
            stats = attrs.evolve(attempt.stats, wasted=None)
            journal.attempt_ended(
                AttemptEnded(call=call.call, at_ns=call.ended_ns, stats=stats, trace=attempt.trace)
            )
    for call in reversed(calls):
        end(journal, call)


def end(journal: Journal, call: RecordedCall) -> None:
    """Tell a journal of the end of a call."""
    journal.call_ended(
        CallEnded(
            call=call.call,
            at_ns=call.ended_ns,
            model=call.model,
            stream=call.stream,
            outcome=call.outcome,
            error=FAILURE if call.outcome == "failed" else None,
            stats=call.stats,
            usage=call.usage,
            finish_reason=call.finish_reason,
            provider_model=call.provider_model,
            response_id=call.response_id,
        )
    )


def without_text(call: RecordedCall) -> RecordedCall:
    """Give a call as it is recorded when texts are not kept."""
    return attrs.evolve(
        call,
        attempts=tuple(
            attrs.evolve(attempt, trace=bare(attempt.trace)) for attempt in call.attempts
        ),
    )


def bare(trace: Trace) -> Trace:
    """Give a trace without the texts in it."""
    pieces = tuple(
        tuple(piece._replace(text=None) for piece in brought) for brought in trace.pieces
    )
    return attrs.evolve(trace, pieces=pieces)
