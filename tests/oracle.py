"""The figures of a stream by brute force: every tick of the clock is looked at, one by one.

Slow and plain on purpose, so that it can be read against the definitions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import attrs
import pytest

from polygateway.stats import EndKind, Stall, StreamFigures
from polygateway.trace import ReplyForm
from polygateway.usage import Usage

if TYPE_CHECKING:
    from polygateway import Chunk
    from polygateway.stats import ContentKind, RateBasis, RateReason, StallCause

NS_A_SECOND = 10**9
NS_A_MS = 10**6


class Read(NamedTuple):
    """One read of a socket. Times are whole ticks."""

    asked: int
    arrived: int
    chunks: tuple[Chunk, ...] = ()
    """The content that its bytes completed."""

    late: int = 0
    """So much of it our own event loop was late."""

    keepalives: int = 0
    """How many events without content its bytes completed. With content they say nothing new."""

    counted: int | None = None
    """Output tokens that the wire had counted by then."""

    events: int | None = None
    """How many events the content was in, if not one for each chunk."""

    @property
    def chunk_count(self) -> int:
        return len(self.chunks) if self.events is None else self.events

    @property
    def kind(self) -> ContentKind:
        """Kind of the first chunk."""
        return cast("ContentKind", self.chunks[0].kind)

    @property
    def characters(self) -> int:
        return sum(len(chunk.delta) for chunk in self.chunks)


@attrs.frozen(kw_only=True)
class Observation:
    """All that was seen of one attempt. Times are whole ticks."""

    started: int
    reads: Sequence[Read]
    ended: int
    """Or now, of one that runs."""

    threshold: int
    end_kind: EndKind | None = "complete"
    form: ReplyForm = "stream"
    usage: Usage = attrs.field(factory=Usage)
    attempt: int = 0
    tick_ns: int = 1

    @property
    def arrivals(self) -> list[int]:
        """Positions of the reads that brought content."""
        return [position for position, read in enumerate(self.reads) if read.chunks]

    @cached_property
    def waiting(self) -> frozenset[int]:
        """Ticks in which the provider was waited for: a read was under way, and not late."""
        return frozenset[int]().union(
            *(range(read.asked, read.arrived - read.late) for read in self.reads)
        )

    @property
    def is_proper(self) -> bool:
        return self.end_kind == "complete"


class _Gap(NamedTuple):
    """What lies between an arrival and the next one, or the end."""

    before: int
    """Position of the read that began it."""

    after: int
    """Position of the read that closed it; of none, if it lasted to the end."""

    length: int
    waited: int
    is_stalled: bool


def agree(found: StreamFigures, expected: StreamFigures) -> None:
    """Judge what was found: quotients but for rounding, all else to the last bit."""
    assert found.tokens_per_s == pytest.approx(expected.tokens_per_s)
    assert found.tpot_ms == pytest.approx(expected.tpot_ms)
    assert found == attrs.evolve(expected, tokens_per_s=found.tokens_per_s, tpot_ms=found.tpot_ms)


def brute_force(
    seen: Observation, since: int | None = None, until: int | None = None
) -> StreamFigures:
    """Give the figures of an attempt; of its call, if that lasted from *since* to *until*."""
    began = seen.started if since is None else since
    over = seen.ended if until is None else until
    count = sum(read.chunk_count for read in seen.reads)
    total = _ms(seen, len(range(began, over)))
    tokens = seen.usage.output_tokens
    nothing = StreamFigures(
        chunk_count=count,
        ttft_ms=None,
        ttft_text_ms=None,
        generation_ms=None,
        stall_ms=None,
        stall_gap_count=None,
        stall_count=None,
        active_generation_ms=None,
        backpressure_ms=None,
        max_gap_ms=None,
        tail_ms=None,
        open_gap_ms=None,
        total_ms=total,
        output_tokens=tokens,
        tokens_source="none" if tokens is None else "usage",
        tpot_ms=None,
        tokens_per_s=None,
        rate_basis=None,
        rate_reason="empty",
        stalls=(),
    )
    if seen.form == "document":
        return attrs.evolve(nothing, rate_reason="not_streamed")
    if seen.form == "choices":
        return attrs.evolve(nothing, rate_reason="multiple_choices")
    if count == 0:
        return nothing
    tail = _tail(seen).waited
    with_content = attrs.evolve(
        nothing,
        ttft_ms=_ms(seen, len(range(began, seen.reads[seen.arrivals[0]].arrived))),
        ttft_text_ms=_to_first_text(seen, began),
        tail_ms=_ms(seen, tail),
        open_gap_ms=None if seen.is_proper else _ms(seen, tail),
        rate_reason="single_chunk",
        stalls=_stalls(seen),
    )
    return with_content if count == 1 else _with_generation(seen, with_content)


def _with_generation(seen: Observation, known: StreamFigures) -> StreamFigures:
    gaps = _gaps(seen)
    stalled = [gap for gap in gaps if gap.is_stalled]
    generation = sum(gap.length for gap in gaps)
    stall = sum(gap.waited for gap in stalled)
    # One letter for each gap.
    picture = "".join("S" if gap.is_stalled else "." for gap in gaps)
    tokens = known.output_tokens
    rate, basis, reason = _rate(seen, gaps)
    return attrs.evolve(
        known,
        generation_ms=_ms(seen, generation),
        stall_ms=_ms(seen, stall),
        stall_gap_count=len(stalled),
        stall_count=len(re.findall("S+", picture)),
        active_generation_ms=_ms(seen, generation - stall),
        backpressure_ms=_ms(seen, sum(gap.length - gap.waited for gap in gaps)),
        max_gap_ms=_ms(seen, max((gap.waited for gap in gaps), default=0)),
        tpot_ms=_ms(seen, Fraction(generation, tokens - 1)) if tokens and tokens > 1 else None,
        tokens_per_s=None if rate is None else float(rate),
        rate_basis=basis,
        rate_reason=reason,
    )


def _ms(seen: Observation, ticks: Fraction | int) -> float:
    return float(ticks * Fraction(seen.tick_ns, NS_A_MS))


def _gap(seen: Observation, before: int, after: int, until: int) -> _Gap:
    ticks = range(seen.reads[before].arrived, until)
    waited = len(seen.waiting.intersection(ticks))
    return _Gap(before, after, len(ticks), waited, waited >= seen.threshold)


def _gaps(seen: Observation) -> list[_Gap]:
    """Give the gaps between the arrivals."""
    return [
        _gap(seen, before, after, seen.reads[after].arrived)
        for before, after in pairwise(seen.arrivals)
    ]


def _tail(seen: Observation) -> _Gap:
    """Give what lies between the last arrival and the end."""
    return _gap(seen, seen.arrivals[-1], len(seen.reads), seen.ended)


def _to_first_text(seen: Observation, began: int) -> float | None:
    for read in seen.reads:
        if any(chunk.kind == "text" for chunk in read.chunks):
            return _ms(seen, len(range(began, read.arrived)))
    return None


# ---------------------------------------------------------------- the list of stalls

MOST_STALLS = 64


def _stalls(seen: Observation) -> tuple[Stall, ...]:
    """Give the longest stalled gaps in the order of the stream."""
    gaps = _gaps(seen)
    if not seen.is_proper:
        gaps.append(_tail(seen))
    stalled = [gap for gap in gaps if gap.is_stalled]
    longest = sorted(stalled, key=lambda gap: (-gap.waited, gap.before))[:MOST_STALLS]
    return tuple(_stall(seen, gap) for gap in sorted(longest, key=lambda gap: gap.before))


def _stall(seen: Observation, gap: _Gap) -> Stall:
    earlier = seen.reads[: gap.before + 1]
    meanwhile = seen.reads[gap.before + 1 : gap.after]
    closing = seen.reads[gap.after : gap.after + 1]
    keepalives = sum(read.keepalives for read in meanwhile)
    cause: StallCause = "server_alive" if keepalives else "server_silence"
    if not closing and seen.end_kind == "cut":
        cause = "disconnect"
    return Stall(
        attempt=seen.attempt,
        after_chunk=sum(read.chunk_count for read in earlier) - 1,
        offset_ms=_ms(seen, len(range(seen.started, seen.reads[gap.before].arrived))),
        duration_ms=_ms(seen, gap.waited),
        characters_before=sum(read.characters for read in earlier),
        next_kind=closing[0].kind if closing else None,
        keepalives=keepalives,
        open=not closing,
        cause=cause,
    )


# ---------------------------------------------------------------- tokens per second


def _tokens(seen: Observation) -> dict[int, Fraction]:
    """Give the output tokens of each arrival, by the position of its read."""
    final = seen.usage.output_tokens
    assert final is not None
    reads = {position: seen.reads[position] for position in seen.arrivals}
    counts = [0, *(read.counted for read in reads.values() if read.counted is not None)]
    complete = len(counts) == len(reads) + 1 and counts[-1] == final
    if complete and counts == sorted(counts):
        steps = (Fraction(later - earlier) for earlier, later in pairwise(counts))
        return dict(zip(reads, steps, strict=True))
    hidden = seen.usage.reasoning_tokens or 0
    if any(chunk.kind == "reasoning" for read in seen.reads for chunk in read.chunks):
        hidden = 0
    weights = {position: read.characters for position, read in reads.items()}
    if not any(weights.values()):
        weights = {position: read.chunk_count for position, read in reads.items()}
    total = sum(weights.values())
    return {at: Fraction((final - hidden) * weight, total) for at, weight in weights.items()}


def _rate(
    seen: Observation, gaps: Sequence[_Gap]
) -> tuple[Fraction | None, RateBasis | None, RateReason | None]:
    generation = _seconds(seen, sum(gap.length for gap in gaps))
    if generation < Fraction("0.2"):
        return None, None, "burst"
    if not seen.is_proper:
        return None, None, "truncated"
    if seen.usage.output_tokens is None:
        return None, None, "no_token_count"
    tokens = _tokens(seen)
    active = generation - _seconds(seen, sum(gap.waited for gap in gaps if gap.is_stalled))
    flowed = sum(tokens[gap.after] for gap in gaps if not gap.is_stalled)
    if _flows_well(seen, gaps) and _is_plausible(flowed / active):
        return flowed / active, "active", None
    decoded = sum(tokens[gap.after] for gap in gaps)
    if _is_plausible(decoded / generation):
        return decoded / generation, "wall_lower_bound", None
    return None, None, "implausible"


def _flows_well(seen: Observation, gaps: Sequence[_Gap]) -> bool:
    """Tell whether enough of the stream flowed to say how fast that was."""
    flowing = [gap.length for gap in gaps if not gap.is_stalled]
    stall = _seconds(seen, sum(gap.waited for gap in gaps if gap.is_stalled))
    active = _seconds(seen, sum(gap.length for gap in gaps)) - stall
    held = _seconds(seen, sum(gap.length - gap.waited for gap in gaps))
    return (
        len(flowing) >= 5
        and _seconds(seen, sum(flowing)) / len(flowing) >= Fraction("0.001")
        and active >= Fraction("0.2")
        and stall < active
        and held <= active / 10
    )


def _is_plausible(rate: Fraction) -> bool:
    return 0 < rate <= 10_000


def _seconds(seen: Observation, ticks: int) -> Fraction:
    return Fraction(ticks * seen.tick_ns, NS_A_SECOND)
