"""A recorded call, drawn with characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from rich.text import Text

from ..observe.drawing import notes, words
from ..observe.drawing.axis import Axis
from ..observe.drawing.tracks import MOST_TRACKS, extent_ns, seams_of, tracks_of
from ..observe.records import RecordedCall
from .columns import aligned, padded
from .timeline_lane import MEANINGS, Mark, lane

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console

    from ..observe.drawing.tracks import Track
    from ..stats import Seam

_WIDEST = 140
"""Columns that a picture takes at most: the eye must find the way from a label to its lane."""

_NARROWEST = 40
_BETWEEN_LABELS = 12
_NAME = 14
_SPACE = Text("   ")
_ASCII = str.maketrans({"·": "-", "…": "~", "≥": ">"})


@attrs.frozen
class Sheet:
    """Draws a call on so many columns."""

    call: RecordedCall
    width: int
    is_ascii: bool

    @classmethod
    def on(cls, console: Console, call: RecordedCall) -> Sheet:
        """Choose what *console* can show."""
        width = min(max(console.width, _NARROWEST), _WIDEST)
        return cls(call, width, is_ascii=not console.encoding.startswith("utf"))

    def lines(self) -> Iterator[Text]:
        """Give the picture line by line."""
        tracks = tracks_of(self.call)
        yield self._text(words.cut(notes.title(self.call), self.width), "bold")
        yield self._text(words.cut(notes.subtitle(self.call), self.width), "dim")
        yield Text()
        yield from self._lanes(tracks)
        yield Text()
        yield from map(self._text, self._figures())
        yield Text()
        for note in notes.notes(self.call, tracks):
            yield from map(self._text, words.wrapped(note, self.width))

    def _text(self, text: str, style: str = "") -> Text:
        return Text(text.translate(_ASCII) if self.is_ascii else text, style)

    def _lanes(self, tracks: Sequence[Track]) -> Iterator[Text]:
        labels = [f"{notes.name(track.stats)} {words.kind(track.stats)}" for track in tracks]
        left = min(max(map(words.columns, labels), default=0), self.width // 3)
        axis = Axis(extent_ns(self.call, tracks), 0, self.width - left - 2)
        seams = {seam.after: seam for seam in seams_of(self.call, tracks)}
        lanes = [lane(track, axis, seams.get(track.stats.index)) for track in tracks]
        for label, marks in zip(labels, lanes, strict=True):
            start = self._text(padded(words.cut(label, left), left), "bold")
            yield Text.assemble(start, " ", *map(self._shown, marks))
        for line in (_scale(axis), *_decisions(self.call, axis, seams.values())):
            yield self._text(f"{' ' * left} {line}", "dim")
        yield from self._legend(lanes)

    def _shown(self, mark: Mark) -> tuple[str, str]:
        glyph, stand_in, style = mark.value
        return (stand_in if self.is_ascii else glyph), style

    def _legend(self, lanes: Iterable[Sequence[Mark]]) -> Iterator[Text]:
        present = {mark for marks in lanes for mark in marks}
        row: list[Text] = []
        for mark, meaning in MEANINGS.items():
            if mark in present:
                item = Text.assemble(self._shown(mark), f" {meaning}")
                if len(_SPACE.join([*row, item])) > self.width:
                    yield _SPACE.join(row)
                    row = []
                row.append(item)
        yield _SPACE.join(row)

    def _figures(self) -> Sequence[str]:
        """Give a column for each attempt or, where that is too wide, a paragraph."""
        attempts = self.call.stats.attempts[:MOST_TRACKS]
        names = ["call", *(words.cut(notes.name(attempt), _NAME) for attempt in attempts)]
        figures = [words.figures(stats) for stats in (self.call.stats, *attempts)]
        rows = ([column, *(each[column] for each in figures)] for column in words.COLUMNS)
        table = aligned([["", *names], *rows])
        if max(map(words.columns, table)) <= self.width:
            return table
        paragraphs = (
            f"{name}: {', '.join(' '.join(figure) for figure in each.items())}"
            for name, each in zip(names, figures, strict=True)
        )
        return [line for text in paragraphs for line in words.wrapped(text, self.width)]


def _scale(axis: Axis) -> str:
    """Write times below the columns that they stand for."""
    line, width = "", round(axis.right) + 1
    for time, label in axis.marks(max(1, width // _BETWEEN_LABELS)):
        column = min(round(axis.at(time)), width - len(label))
        line = f"{line:{column}}{label}"
    return line


def _decisions(call: RecordedCall, axis: Axis, seams: Iterable[Seam]) -> Iterator[str]:
    """Point at the commit, and below it at each seam."""
    if call.stats.commit_ms is not None:
        yield _pointer("commit", call.stats.commit_ms, axis)
    for seam in seams:
        yield _pointer("seam", seam.at_ms, axis)


def _pointer(what: str, at_ms: float, axis: Axis) -> str:
    column = round(axis.at(round(at_ms * 1e6)))
    says = f"{what} {words.duration(at_ms)}"
    fits = column + 2 + len(says) <= axis.right
    return f"{'':{column}}^ {says}" if fits else f"{f'{says} ^':>{column + 1}}"
