"""The figures of a call and of its attempts, in rows below the lanes."""

from __future__ import annotations

from itertools import accumulate, islice
from typing import TYPE_CHECKING

from . import notes, words
from .markup import Node, node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...stats import AttemptStats, StreamFigures
    from ..records import RecordedCall

ROW = 19
"""Height of a row."""

_NAME = 16
"""Columns of text that a name may take."""

_NAME_WIDTH = 118
_WIDTHS: Mapping[str, float] = {
    "backpressure": 86,
    "longest gap": 82,
    "tokens": 58,
    "tokens/s": 106,
}
_WIDTH = 77
"""Of every other column."""


def table(call: RecordedCall, attempts: Sequence[AttemptStats], left: float, top: float) -> Node:
    """Draw the figures of a call and of those of its *attempts* that are shown."""
    rows: list[tuple[str, StreamFigures]] = [("call", call.stats)]
    rows += [(notes.name(attempt), attempt) for attempt in attempts]
    drawn = node("g", class_="figures")
    places = _places(left)
    drawn.extend(_row("", {name: name for name in places}, places, left, top, "f-muted small"))
    for number, (name, stats) in enumerate(rows, 1):
        face = "f-ink strong" if number == 1 else "f-ink"
        drawn.extend(_row(name, words.figures(stats), places, left, top + number * ROW, face))
    return drawn


def height(attempts: Sequence[AttemptStats]) -> float:
    """Tell how high the table of so many attempts is."""
    return (len(attempts) + 2) * ROW


def _places(left: float) -> Mapping[str, float]:
    """Give where the columns end on the right."""
    widths = [_WIDTHS.get(column, _WIDTH) for column in words.COLUMNS]
    ends = accumulate(widths, initial=left + _NAME_WIDTH)
    return dict(zip(words.COLUMNS, islice(ends, 1, None), strict=True))


def _row(
    name: str,
    cells: Mapping[str, str],
    places: Mapping[str, float],
    left: float,
    top: float,
    face: str,
) -> Iterator[Node]:
    y = top + ROW - 6
    yield node("text", words.cut(name, _NAME), class_=face, x=left, y=y)
    for column, x in places.items():
        cell = words.cut(cells[column], _NAME)
        yield node("text", cell, class_=face, x=x, y=y, text_anchor="end")
