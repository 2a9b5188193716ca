"""What the shapes in a picture mean: those that are in it, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import marks
from .look import CAUSES, CONTENT, SEAMS
from .markup import Node, node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...stats import Seam
    from .tracks import Track

Item = tuple[Node, str]
"""A sample, drawn between 0 and 20 across and from 0 to 12 down, and its meaning."""

ROW = 22
"""From the top of one row to that of the next."""

_SAMPLE = 26
_LETTER = 7.2
_NARROW = 4
_BETWEEN = 16


def legend(
    tracks: Sequence[Track], seams: Iterable[Seam], left: float, right: float, top: float
) -> tuple[Node, float]:
    """Draw the legend of a picture; give it and where it ends."""
    drawn = node("g", class_="legend")
    x, y = left, top
    for sample, meaning in items(tracks, seams):
        width = _SAMPLE + _width(meaning)
        if x + width > right:
            x, y = left, y + ROW
        text = node("text", meaning, class_="f-muted", x=_SAMPLE, y=10)
        drawn.append(node("g", sample, text, transform=f"translate({x:.0f} {y:.0f})"))
        x += width + _BETWEEN
    return drawn, y + ROW


def items(tracks: Sequence[Track], seams: Iterable[Seam]) -> Iterator[Item]:
    """Give what must be explained in a picture."""
    if not tracks:
        return
    yield marks.launch(6, 6), "launch"
    yield marks.wait(0, 20, 6), "wait for content"
    yield from _content(tracks)
    if any(track.tail is not None for track in tracks):
        yield marks.tail(0, 20, 6), "tail"
    yield from _stalls(tracks)
    if any(track.held for track in tracks):
        yield marks.skyline([7.0] * 20, 0, 10), "backpressure"
    yield from _seams(seams)
    yield from _ends(tracks)
    if any(track.closed_ns is not None for track in tracks):
        yield marks.closed(10, 0, 12), "closed"


def _width(text: str) -> float:
    """Guess how wide a text is: which font it is written in is not known."""
    return sum(_NARROW if each in "fijlrt.,:- " else _LETTER for each in text)


def _content(tracks: Iterable[Track]) -> Iterator[Item]:
    present = {kind for track in tracks for kind in track.ticks}
    for kind, name in CONTENT.items():
        if kind in present:
            blocks = [(0.0, 1.6), (4.0, 5.6), (8.0, 9.6), (12.0, 20.0)]
            yield marks.content(kind, blocks, 0, 12), name


def _stalls(tracks: Iterable[Track]) -> Iterator[Item]:
    stalls = [stall for track in tracks for _, stall in track.stalls]
    present = {stall.cause for stall in stalls}
    for cause, name in CAUSES.items():
        if cause in present:
            yield marks.stall(cause, (0, 20, 0, 12), is_open=False), name


def _seams(seams: Iterable[Seam]) -> Iterator[Item]:
    present = {seam.kind for seam in seams}
    for kind, name in SEAMS.items():
        if kind in present:
            yield marks.seam(kind, 10, 0, 12), name


def _ends(tracks: Iterable[Track]) -> Iterator[Item]:
    present = {track.stats.outcome for track in tracks}
    for outcome in marks.ENDS:
        if outcome in present:
            yield marks.end(outcome, 10, 6), outcome
