"""Records of calls that have ended, made by hand or drawn, for whoever adds them up."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, get_args

import attrs
from hypothesis import strategies as st

from polygateway.instrument import CallEnded, CallOutcome
from polygateway.stats import (
    AttemptKind,
    AttemptStats,
    CallStats,
    EndKind,
    Outcome,
    RefusalReason,
    Stall,
    StreamFigures,
    Waste,
    WasteConfidence,
)
from polygateway.usage import Usage
from tests.records import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000
SECOND = 1_000_000_000
START = 7 * 10**15 + 123_456_789
THRESHOLD = 2 * SECOND

TARGETS = ("eu", "us", "apac")
MODELS = ("fast", "smart", "unused")

EMPTY = attrs.evolve(NOTHING, total_ms=0.0)


def stall(duration_ms: float, *, is_open: bool = False) -> Stall:
    """Give a stall; with *is_open*, one in which the stream ended."""
    return Stall(
        attempt=0,
        after_chunk=0,
        offset_ms=0.0,
        duration_ms=duration_ms,
        characters_before=0,
        next_kind=None if is_open else "text",
        keepalives=0,
        open=is_open,
        cause="server_silence",
    )


def waste(
    confidence: WasteConfidence,
    *,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
) -> Waste:
    """Give what an attempt cost in vain."""
    return Waste(
        ran_ms=0.0,
        characters=0,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        confidence=confidence,
    )


def attempt(
    figures: StreamFigures = EMPTY,
    *,
    target: str = "eu",
    kind: AttemptKind = "primary",
    outcome: Outcome = "won",
    end_kind: EndKind = "complete",
    cancel_to_closed_ms: float | None = None,
    wasted: Waste | None = None,
) -> AttemptStats:
    """Give an attempt; if nothing is said of it, one that won with a complete, empty answer."""
    return AttemptStats(
        **attrs.asdict(figures, recurse=False),
        index=0,
        target=target,
        kind=kind,
        reason="stall" if kind == "hedge" else None,
        started_ms=0.0,
        sent_ms=1.0,
        headers_ms=2.0,
        outcome=outcome,
        end_kind=end_kind,
        cancel_reason=None,
        cancel_to_closed_ms=cancel_to_closed_ms,
        status=200,
        request_id=None,
        error=None,
        error_kind=None,
        characters=0,
        usage=Usage(),
        wasted=wasted,
    )


def call(
    *attempts: AttemptStats,
    figures: StreamFigures = EMPTY,
    model: str = "fast",
    outcome: CallOutcome = "complete",
    at_ns: int = START,
    refused: dict[RefusalReason, int] | None = None,
    holdout: bool | None = None,
) -> CallEnded:
    """Give the end of a call that had these attempts."""
    stats = CallStats(
        **attrs.asdict(figures, recurse=False),
        attempts=attempts,
        front=0,
        hedge_reason=None,
        hedge_after_ms=None,
        hedges_refused=refused or {},
        commit_ms=None,
        holdout=holdout,
        estimated_saved_ms=None,
    )
    return CallEnded(
        call=1,
        at_ns=at_ns,
        model=model,
        stream=False,
        outcome=outcome,
        error=None,
        stats=stats,
        usage=Usage(),
        finish_reason=None,
        provider_model=None,
        response_id=None,
    )


def _of_generation(gaps: Sequence[int], held: int, tokens: int | None) -> StreamFigures:
    generation, stall_ns = sum(gaps) + held, sum(gap for gap in gaps if gap >= THRESHOLD)
    return attrs.evolve(
        EMPTY,
        chunk_count=len(gaps) + 1,
        generation_ms=generation / 1e6,
        stall_ms=stall_ns / 1e6,
        stall_gap_count=sum(gap >= THRESHOLD for gap in gaps),
        stall_count=sum(stalled for stalled, _ in groupby(gap >= THRESHOLD for gap in gaps)),
        active_generation_ms=(generation - stall_ns) / 1e6,
        backpressure_ms=held / 1e6,
        max_gap_ms=max(gaps) / 1e6,
        tpot_ms=generation / 1e6 / (tokens - 1) if tokens is not None and tokens > 1 else None,
        stalls=[stall(gap / 1e6) for gap in gaps if gap >= THRESHOLD],
    )


_WAITS = st.integers(0, 100 * MS) | st.integers(THRESHOLD - 1, 70 * SECOND)
_TOKENS = st.none() | st.integers(0, 3000)
_WASTES = st.builds(
    waste,
    st.sampled_from(get_args(WasteConfidence)),
    input_tokens=_TOKENS,
    output_tokens=_TOKENS,
)
_REFUSALS = st.dictionaries(st.sampled_from(get_args(RefusalReason)), st.integers(1, 3))


@st.composite
def streams(draw: st.DrawFn) -> StreamFigures:
    """Draw figures that belong together, of streams with any number of chunks."""
    gaps, tokens = draw(st.lists(_WAITS, max_size=6)), draw(_TOKENS)
    figures = _of_generation(gaps, draw(_WAITS), tokens) if gaps else EMPTY
    figures = attrs.evolve(figures, output_tokens=tokens)
    if not gaps and draw(st.booleans()):
        return figures
    figures = attrs.evolve(figures, chunk_count=len(gaps) + 1, ttft_ms=draw(_WAITS) / 1e6)
    if draw(st.booleans()):
        return figures
    silence = draw(_WAITS)
    still_open = [stall(silence / 1e6, is_open=True)] if silence >= THRESHOLD else []
    return attrs.evolve(figures, open_gap_ms=silence / 1e6, stalls=[*figures.stalls, *still_open])


attempts = st.builds(
    attempt,
    streams(),
    target=st.sampled_from(TARGETS[:2]),
    kind=st.sampled_from(get_args(AttemptKind)),
    outcome=st.sampled_from(get_args(Outcome)),
    end_kind=st.sampled_from(get_args(EndKind)),
    cancel_to_closed_ms=st.none() | st.floats(0, 10),
    wasted=st.none() | _WASTES,
)


@st.composite
def calls(draw: st.DrawFn) -> CallEnded:
    """Draw calls of two models with attempts at two targets, within a quarter of an hour."""
    return call(
        *draw(st.lists(attempts, max_size=4)),
        figures=attrs.evolve(draw(streams()), total_ms=draw(_WAITS) / 1e6),
        model=draw(st.sampled_from(MODELS[:2])),
        outcome=draw(st.sampled_from(get_args(CallOutcome))),
        at_ns=START + draw(st.integers(0, 900 * SECOND)),
        refused=draw(_REFUSALS),
        holdout=draw(st.sampled_from([None, False, True])),
    )
