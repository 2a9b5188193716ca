"""The lane of one attempt: its waits, its content, its stalls, and how it ended."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from . import marks, notes, words
from .axis import Axis
from .look import CONTENT
from .markup import Node, node, number
from .tracks import Span, Track

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...stats import ContentKind, Seam, Stall

HEIGHT = 58
"""From the top of one lane to that of the next."""

_TOP = 15  # above the bar stand the durations of stalls
_BOTTOM = 39
_MIDDLE = 27
_STRIP_BOTTOM = 49
_STRIP = 7
_LABEL_NEEDS = 46


@attrs.frozen
class Lane:
    """Draws a track."""

    track: Track
    axis: Axis
    top: float

    def draw(self) -> Iterator[Node]:
        """Give the parts of the lane, from back to front."""
        track = self.track
        yield self._life()
        yield self._wait(track.wait)
        if track.tail is not None:
            yield self._tail(track.tail)
        if track.held:
            yield self._held()
        for span, stall in track.stalls:
            yield from self._stall(span, stall)
        yield from (self._content(kind) for kind in CONTENT if kind in track.ticks)
        if track.stats.index:
            yield self._thread()
        yield self._launch()
        yield from self._end()

    def _x(self, span: Span) -> tuple[float, float]:
        return self.axis.at(span.begin_ns), self.axis.at(span.end_ns)

    def _life(self) -> Node:
        begin, end = self._x(self.track.life)
        path = f"M{number(begin)} {number(self.top + _MIDDLE)}H{number(end)}"
        return node("path", class_="life s-muted", d=path)

    def _wait(self, span: Span) -> Node:
        title = _title(f"wait for the first content, {_lasted(span)}")
        return marks.wait(*self._x(span), self.top + _MIDDLE, title)

    def _tail(self, span: Span) -> Node:
        title = _title(f"tail, {_lasted(span)}: content had ended, the stream had not")
        return marks.tail(*self._x(span), self.top + _MIDDLE, title)

    def _stall(self, span: Span, stall: Stall) -> Iterator[Node]:
        left, right = self._x(span)
        box = (left, right, self.top + _TOP, self.top + _BOTTOM)
        yield marks.stall(stall.cause, box, _title(notes.stall(stall)), is_open=stall.open)
        if right - left >= _LABEL_NEEDS:
            yield node(
                "text",
                words.duration(stall.duration_ms),
                class_=f"small f-{stall.cause}",
                x=(left + right) / 2,
                y=self.top + _TOP - 4,
                text_anchor="middle",
            )

    def _content(self, kind: ContentKind) -> Node:
        times = self.track.ticks[kind]
        blocks = marks.blocks(map(self.axis.at, times))
        title = _title(f"{CONTENT[kind]}: {len(times)} reads brought some")
        return marks.content(kind, blocks, self.top + _TOP, _BOTTOM - _TOP, title)

    def _held(self) -> Node:
        title = _title(
            f"backpressure, {words.duration(self.track.stats.backpressure_ms)}: nobody asked"
        )
        heights = [round(share * _STRIP, 1) for share in self._held_shares()]
        return marks.skyline(heights, self.axis.left, self.top + _STRIP_BOTTOM, title)

    def _held_shares(self) -> list[float]:
        """Tell of each column, 1 wide, for which share of its time nobody asked."""
        shares = [0.0] * math.ceil(self.axis.right - self.axis.left)
        for span in self.track.held:
            begin, end = (place - self.axis.left for place in self._x(span))
            for column in range(int(begin), math.ceil(end)):
                shares[column] += min(end, column + 1) - max(begin, column)
        return shares

    def _thread(self) -> Node:
        """Lead the eye from the lane above to a launch: what stood there was the reason for it."""
        x = self.axis.at(self.track.life.begin_ns)
        path = (
            f"M{number(x)} {number(self.top + _MIDDLE - 8)}V{number(self.top + _BOTTOM - HEIGHT)}"
        )
        return node("path", class_="thread s-muted", d=path, stroke_dasharray="2 3")

    def _launch(self) -> Node:
        begin = self.track.life.begin_ns
        title = f"{words.kind(self.track.stats)}, launched after {words.duration(begin / 1e6)}"
        return marks.launch(self.axis.at(begin), self.top + _MIDDLE, _title(title))

    def _end(self) -> Iterator[Node]:
        track, y = self.track, self.top + _MIDDLE
        stats, end = track.stats, track.life.end_ns
        if track.closed_ns is not None:
            title = f"closed {words.duration(stats.cancel_to_closed_ms)} after its end was decided"
            at = self.axis.at(track.closed_ns)
            yield marks.closed(at, self.top + _TOP, _BOTTOM - _TOP, _title(title))
        if stats.outcome is not None:
            title = f"{words.fate(stats)} after {words.duration(end / 1e6)}"
            yield marks.end(stats.outcome, self.axis.at(end), y, _title(title))


def seam(made: Seam, axis: Axis, before: float, after: float) -> Node:
    """Draw where one attempt took over from another, between lanes that begin at these heights."""
    x = axis.at(round(made.at_ms * 1e6))
    return marks.seam(made.kind, x, before + _BOTTOM, after + _TOP, _title(notes.seam(made)))


def _lasted(span: Span) -> str:
    return words.duration((span.end_ns - span.begin_ns) / 1e6)


def _title(text: str) -> Node:
    """Make what is shown when the pointer rests on something."""
    return node("title", text)
