"""A call as a picture: self-contained SVG, without scripts and without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from .drawing import lane, notes, table, words
from .drawing.axis import Axis
from .drawing.legend import legend
from .drawing.look import SCOPE, patterns, style
from .drawing.markup import Node, node, number, written
from .drawing.tracks import MOST_TRACKS, Track, extent_ns, seams_of, tracks_of
from .records import RecordedCall

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 960
_LEFT = 24
_RIGHT = _WIDTH - _LEFT
_LANES_LEFT = 206
_LANES_RIGHT = _WIDTH - 40  # leaves room for what marks an end
_MOST_MARKS = 9
_LINE = 16

# Columns of text that fit whatever font it is.
_TITLE = 70
_TARGET = 22
_LABEL = 26
_NOTE = 126
_MOST_LINES = 3  # of one note


def draw_call(call: RecordedCall) -> str:
    """Draw a call as the text of an SVG file.

    It holds a lane for each attempt, the figures, and the same in words. It follows the light or
    dark scheme of whoever looks at it. Its size is bounded, however long the call was.
    """
    return written(svg(call, style(), patterns()))


def svg(call: RecordedCall, *definitions: Node) -> Node:
    """Draw a call as an element.

    Args:
        call: what to draw.
        definitions: the style and the patterns, unless they are elsewhere in the document.
    """
    sheet = _Sheet(call, tracks_of(call))
    parts = list(sheet.parts())
    size = f"0 0 {_WIDTH} {number(sheet.bottom)}"
    return node(
        "svg",
        node("title", notes.title(call)),
        node("desc", notes.description(call, sheet.tracks)),
        *definitions,
        node("rect", class_="f-paper", width=_WIDTH, height=sheet.bottom),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=size,
        width=_WIDTH,
        height=sheet.bottom,
        class_=SCOPE,
        role="img",
    )


@attrs.define
class _Sheet:
    """Puts the parts of a picture below each other."""

    call: RecordedCall
    tracks: Sequence[Track]
    bottom: float = 0
    """Where what has been drawn ends."""

    def parts(self) -> Iterator[Node]:
        yield from self._heading()
        yield self._legend()
        axis = Axis(extent_ns(self.call, self.tracks), _LANES_LEFT, _LANES_RIGHT)
        top, self.bottom = self.bottom, self.bottom + 22 + len(self.tracks) * lane.HEIGHT
        yield from self._grid(axis, top + 16)
        yield from self._commit(axis, top)
        yield from self._seams(axis, top + 22)
        for index, track in enumerate(self.tracks):
            yield _lane(track, axis, top + 22 + index * lane.HEIGHT)
        self.bottom += 34
        yield self._table()
        self.bottom += 6
        yield from self._notes()
        self.bottom += 16

    def _heading(self) -> Iterator[Node]:
        title = words.cut(notes.title(self.call), _TITLE)
        yield node("text", title, class_="title f-ink", x=_LEFT, y=36)
        says = words.cut(notes.subtitle(self.call), _NOTE)
        yield node("text", says, class_="f-muted", x=_LEFT, y=57)
        self.bottom = 76

    def _legend(self) -> Node:
        drawn, self.bottom = legend(
            self.tracks, seams_of(self.call, self.tracks), _LEFT, _RIGHT, self.bottom
        )
        return drawn

    def _grid(self, axis: Axis, top: float) -> Iterator[Node]:
        for time, label in axis.marks(_MOST_MARKS):
            x = axis.at(time)
            line = f"M{number(x)} {number(top)}V{number(self.bottom)}"
            yield node("path", class_="grid s-grid", d=line)
            y = self.bottom + _LINE
            yield node("text", label, class_="small f-muted", x=x, y=y, text_anchor="middle")

    def _commit(self, axis: Axis, top: float) -> Iterator[Node]:
        commit_ms = self.call.stats.commit_ms
        if commit_ms is None:
            return
        x = axis.at(round(commit_ms * 1e6))
        line = f"M{number(x)} {number(top + 16)}V{number(self.bottom)}"
        yield node("path", class_="commit s-good", d=line, stroke_width=1.5)
        says = f"commit {words.duration(commit_ms)}"
        anchor = "end" if x > _WIDTH / 2 else "start"
        yield node("text", says, class_="small f-good", x=x, y=top + 11, text_anchor=anchor)

    def _seams(self, axis: Axis, top: float) -> Iterator[Node]:
        tops = {track.stats.index: top + n * lane.HEIGHT for n, track in enumerate(self.tracks)}
        for seam in seams_of(self.call, self.tracks):
            yield lane.seam(seam, axis, tops[seam.before], tops[seam.after])

    def _table(self) -> Node:
        shown = self.call.stats.attempts[:MOST_TRACKS]
        drawn = table.table(self.call, shown, _LEFT, self.bottom)
        self.bottom += table.height(shown)
        return drawn

    def _notes(self) -> Iterator[Node]:
        for note in notes.notes(self.call, self.tracks):
            for line in words.wrapped(words.cut(note, _MOST_LINES * _NOTE), _NOTE):
                self.bottom += _LINE
                yield node("text", line, class_="f-muted", x=_LEFT, y=self.bottom)


def _lane(track: Track, axis: Axis, top: float) -> Node:
    stats = track.stats
    what = f"{stats.index} {words.kind(stats)}, {stats.outcome or 'running'}"
    return node(
        "g",
        node("text", words.cut(stats.target, _TARGET), class_="strong f-ink", x=_LEFT, y=top + 24),
        node("text", words.cut(what, _LABEL), class_="f-muted", x=_LEFT, y=top + 40),
        *lane.Lane(track, axis, top).draw(),
        class_="lane",
    )
