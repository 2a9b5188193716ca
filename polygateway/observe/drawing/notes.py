"""What a picture of a call says in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import words
from .look import CAUSES
from .tracks import seams_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...stats import AttemptStats, Seam, Stall, Waste
    from ..records import RecordedCall
    from .tracks import Track

_NAME = 40
"""Columns of text that a name may take."""

_MODEL = 28


def title(call: RecordedCall) -> str:
    """Name a call and what became of it."""
    model = words.cut(call.model, _MODEL)
    return f"{model}: {words.outcome(call)} after {words.duration(call.stats.total_ms)}"


def subtitle(call: RecordedCall) -> str:
    """Tell which call it is."""
    parts = [
        call.started_at,
        "stream" if call.stream else "complete",
        f"call {call.call} of run {call.run}",
    ]
    if call.provider_model:
        parts.append(call.provider_model)
    if call.finish_reason:
        parts.append(f"finish reason {call.finish_reason}")
    return " · ".join(words.cut(part, _NAME) for part in parts)


def description(call: RecordedCall, tracks: Sequence[Track]) -> str:
    """Tell in words what the picture shows, for those who cannot see it."""
    seams = map(seam, seams_of(call, tracks))
    return " ".join(f"{said}." for said in (title(call), *map(_attempt, tracks), *seams))


def notes(call: RecordedCall, tracks: Sequence[Track]) -> Iterator[str]:
    """Give what no figure and no shape says: errors, waste, and what is not drawn."""
    for track in tracks:
        told = "; ".join(_of_attempt(track))
        if told:
            yield f"{name(track.stats)} {told}"
    undrawn = len(call.stats.attempts) - len(tracks)
    if undrawn:
        yield f"attempts without a lane: {undrawn}"
    yield from map(seam, seams_of(call, tracks))
    if call.error is not None:
        yield f"raised: {call.error}"
    for why, count in call.stats.hedges_refused.items():
        yield f"hedges that were due and did not start ({words.spaced(why)}): {count}"
    if call.stats.holdout:
        yield "never hedged, because it belongs to the holdout"
    if call.stats.estimated_saved_ms is not None:
        saved = words.duration(call.stats.estimated_saved_ms)
        yield f"saved by the hedge, an estimate: {saved}"


def name(stats: AttemptStats) -> str:
    """Name an attempt."""
    return f"{stats.index} {words.cut(stats.target, _NAME)}"


def _attempt(track: Track) -> str:
    stats = track.stats
    parts = [
        f"Attempt {name(stats)}, {words.kind(stats)}",
        f"launched after {words.duration(stats.started_ms)}",
    ]
    if stats.ttft_ms is not None:
        parts.append(f"first content {words.duration(stats.ttft_ms)} later")
    parts += [stall(each) for _, each in track.stalls]
    parts.append(f"{words.fate(stats)}, {words.duration(stats.total_ms)} after its launch")
    return ", ".join(parts)


def stall(stalled: Stall) -> str:
    """Describe a stall."""
    told = [
        f"{CAUSES[stalled.cause]} for {words.duration(stalled.duration_ms)}",
        f"after {stalled.after_chunk + 1} chunks",
    ]
    if stalled.keepalives:
        told.append(f"with {stalled.keepalives} keep-alives")
    if stalled.open:
        told.append("until the attempt ended")
    return " ".join(told)


def seam(made: Seam) -> str:
    """Describe a seam."""
    where = f"seam after {words.duration(made.at_ms)}"
    if made.kind == "restart":
        told = f"attempt {made.after} began anew, and the {made.characters} characters before"
        return f"{where}: {told} are to be discarded"
    told = f"attempt {made.after} went on where attempt {made.before} had stopped"
    return f"{where}: {told}, after {made.characters} characters"


def _of_attempt(track: Track) -> Iterator[str]:
    stats = track.stats
    if stats.error is not None:
        yield f"failed: {stats.error}"
    if stats.cancel_reason is not None:
        closed = words.duration(stats.cancel_to_closed_ms)
        yield f"cancelled ({stats.cancel_reason}), closed {closed} later"
    if stats.wasted is not None:
        yield f"cost in vain: {_waste(stats.wasted)}"
    shown = sum(not stalled.open for _, stalled in track.stalls)
    unshown = (stats.stall_gap_count or 0) - shown
    if unshown > 0:
        yield f"the longest {shown} of its stalled gaps are shown, {unshown} are not"
    if track.dropped:
        yield f"{track.dropped} more reads brought content, but were not recorded"


def _waste(waste: Waste) -> str:
    counts = {"in": waste.input_tokens, "out": waste.output_tokens}
    tokens = ", ".join(f"{count} {way}" for way, count in counts.items() if count is not None)
    known = f"tokens {tokens} ({words.spaced(waste.confidence)}), " if tokens else ""
    return f"{known}{waste.characters} characters"
