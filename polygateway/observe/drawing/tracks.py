"""From a recorded attempt to what its lane shows, and when."""

# Theory of operation
# ===================
#
# Rule 1: times are whole nanoseconds from the application's call, so that all lanes share one axis.
# Rule 2: the time before the first content is a wait, that after the last one the tail. Neither is
#         part of the generation.
# Rule 3: a trace knows how long was waited in a gap, not when. A consumer uses what it has before
#         it asks for more, so the time in which nobody asked is drawn first, the wait behind it.
# Rule 4: the stalls are those that the figures list. Nothing here decides what a stall is.
# Rule 5: where arrivals were not kept nothing is drawn: neither a tail nor that somebody waited.

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import attrs

from ...core.tally import MOST_STALLS
from ...stats import AttemptStats, ContentKind, Seam, Stall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...trace import Trace
    from ..records import RecordedAttempt, RecordedCall


class Span(NamedTuple):
    """A stretch of time."""

    begin_ns: int
    end_ns: int


@attrs.frozen(kw_only=True)
class Track:
    """What happened to one attempt, in nanoseconds from the application's call."""

    stats: AttemptStats
    life: Span
    """From its launch to its end."""

    closed_ns: int | None
    """When its socket was closed; ``None`` unless it was cancelled."""

    wait: Span
    """From its launch to its first content, or to its end."""

    tail: Span | None
    """From its last content to its end. ``None`` without content, or where that is a stall."""

    ticks: Mapping[ContentKind, Sequence[int]]
    """When content came, by kind."""

    stalls: Sequence[tuple[Span, Stall]]
    """When it was waited for in stalled gaps."""

    held: Sequence[Span]
    """When nobody asked: the consumer was busy, or our own event loop late."""

    dropped: int
    """Arrivals that were not recorded."""


MOST_TRACKS = 32
"""Attempts that are drawn of one call."""


def tracks_of(call: RecordedCall) -> Sequence[Track]:
    """Give the tracks of a call's attempts, those of the first :data:`MOST_TRACKS`."""
    return [_track(attempt, call.started_ns) for attempt in call.attempts[:MOST_TRACKS]]


def seams_of(call: RecordedCall, tracks: Iterable[Track]) -> Sequence[Seam]:
    """Give the seams of a call between attempts that have tracks; an attempt begins one at most."""
    drawn = {track.stats.index for track in tracks}
    seams = {seam.after: seam for seam in call.stats.seams if drawn >= {seam.before, seam.after}}
    return tuple(seams.values())


def extent_ns(call: RecordedCall, tracks: Iterable[Track]) -> int:
    """Tell how much time a picture of a call must show; over 0."""
    ends = [track.life.end_ns for track in tracks]
    closes = [track.closed_ns for track in tracks if track.closed_ns is not None]
    return max(1, call.ended_ns - call.started_ns, *ends, *closes)


def _track(attempt: RecordedAttempt, origin_ns: int) -> Track:
    stats, trace = attempt.stats, attempt.trace
    life = Span(trace.started_ns - origin_ns, trace.ended_ns - origin_ns)
    arrived = [arrival.at_ns - origin_ns for arrival in trace.arrivals]
    stalls = [(_place(stall, life, arrived), stall) for stall in stats.stalls[:MOST_STALLS]]
    return Track(
        stats=stats,
        life=life,
        closed_ns=_closed(stats, life),
        wait=Span(life.begin_ns, arrived[0] if arrived else life.end_ns),
        tail=_tail(trace, stalls, arrived, life),
        ticks=_ticks(trace, arrived),
        stalls=stalls,
        held=list(_held(trace, arrived, life)) if trace.form == "stream" else [],
        dropped=trace.dropped,
    )


def _closed(stats: AttemptStats, life: Span) -> int | None:
    if stats.cancel_to_closed_ms is None:
        return None
    return life.end_ns + _ns(stats.cancel_to_closed_ms)


def _place(stall: Stall, life: Span, arrived: Sequence[int]) -> Span:
    """Put a stall before the content that ended it (rule 3)."""
    after = life.begin_ns + _ns(stall.offset_ms)
    lasted = _ns(stall.duration_ms)
    following = bisect_right(arrived, after)
    if following < len(arrived):
        end = arrived[following]
    else:
        end = life.end_ns if stall.open else after + lasted
    return Span(end - lasted, end)


def _tail(
    trace: Trace, stalls: Sequence[tuple[Span, Stall]], arrived: Sequence[int], life: Span
) -> Span | None:
    is_stall = any(stall.open for _, stall in stalls)
    if not arrived or trace.dropped or is_stall:
        return None
    return Span(max(arrived[-1], life.end_ns - trace.waited_ns), life.end_ns)


def _ticks(trace: Trace, arrived: Iterable[int]) -> Mapping[ContentKind, Sequence[int]]:
    ticks: dict[ContentKind, list[int]] = {}
    for at, arrival in zip(arrived, trace.arrivals, strict=True):
        for kind in arrival.kinds:
            ticks.setdefault(kind, []).append(at)
    return ticks


def _held(trace: Trace, arrived: Sequence[int], life: Span) -> Iterator[Span]:
    """Give the stretches behind content in which nobody asked (rule 3)."""
    stamps = arrived if trace.dropped else [*arrived, life.end_ns]
    waits = [*(arrival.waited_ns for arrival in trace.arrivals[1:]), trace.waited_ns]
    for (begin, end), waited in zip(pairwise(stamps), waits, strict=False):
        if end - waited > begin:
            yield Span(begin, end - waited)


def _ns(ms: float) -> int:
    return round(ms * 1e6)
