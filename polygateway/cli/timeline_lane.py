"""The lane of one attempt as a row of marks, one for each column."""

# ruff: noqa: RUF001 - what looks like a letter here is a shape

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from ..observe.drawing.look import SEAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..observe.drawing.axis import Axis
    from ..observe.drawing.tracks import Span, Track
    from ..stats import ContentKind, Outcome, Seam, SeamKind, StallCause


class Mark(enum.Enum):
    """What the time of a column was like: a character, its stand-in in ASCII, and a colour."""

    NOTHING = (" ", " ", "")
    WAIT = ("·", ".", "dim")
    FLOW = ("─", "-", "dim")
    HELD = ("_", "_", "yellow")
    REFUSAL = ("▞", "%", "bold")
    REASONING = ("▄", "=", "cyan")
    TOOL_CALL = ("▀", "+", "blue")
    TEXT = ("█", "#", "green")
    SILENCE = ("╱", "/", "red")
    ALIVE = ("∴", ":", "magenta")
    DISCONNECT = ("╳", "X", "bold red")
    RESTART = ("↻", "@", "bold")
    CONTINUE = ("»", "}", "bold green")
    LAUNCH = ("▸", ">", "bold")
    WON = ("✓", "*", "bold green")
    LOST = ("×", "x", "bold")
    FAILED = ("!", "!", "bold red")
    CANCELLED = ("■", "|", "bold")


MEANINGS: Mapping[Mark, str] = {
    Mark.LAUNCH: "launch",
    Mark.WAIT: "wait",
    Mark.FLOW: "between content",
    Mark.TEXT: "text",
    Mark.REASONING: "reasoning",
    Mark.TOOL_CALL: "tool call",
    Mark.REFUSAL: "refusal",
    Mark.SILENCE: "stall: nothing came",
    Mark.ALIVE: "stall: only keep-alives",
    Mark.DISCONNECT: "silence, then cut off",
    Mark.HELD: "backpressure",
    Mark.CONTINUE: SEAMS["continue"],
    Mark.RESTART: SEAMS["restart"],
    Mark.WON: "won",
    Mark.LOST: "lost",
    Mark.FAILED: "failed",
    Mark.CANCELLED: "cancelled",
}
"""In the order of legends."""

# A column may have content of several kinds; the last of these is shown.
_CONTENT: Mapping[ContentKind, Mark] = {
    "refusal": Mark.REFUSAL,
    "reasoning": Mark.REASONING,
    "tool_call": Mark.TOOL_CALL,
    "text": Mark.TEXT,
}
_CAUSES: Mapping[StallCause, Mark] = {
    "server_silence": Mark.SILENCE,
    "server_alive": Mark.ALIVE,
    "disconnect": Mark.DISCONNECT,
}
_ENDS: Mapping[Outcome, Mark] = {
    "won": Mark.WON,
    "lost": Mark.LOST,
    "failed": Mark.FAILED,
    "cancelled": Mark.CANCELLED,
}


_SEAMS: Mapping[SeamKind, Mark] = {"restart": Mark.RESTART, "continue": Mark.CONTINUE}


def lane(track: Track, axis: Axis, seam: Seam | None) -> list[Mark]:
    """Draw a track in the columns of *axis*. What comes later here covers what came before.

    Args:
        track: what to draw.
        axis: where its times are.
        seam: where its attempt took over from another; ``None`` if it did not.
    """
    drawn = _Row(axis)
    drawn.paint(track.life, Mark.FLOW)
    for span in (track.wait, track.tail):
        if span is not None:
            drawn.paint(span, Mark.WAIT)
    for span in track.held:
        drawn.paint(span, Mark.HELD)
    for kind, mark in _CONTENT.items():
        for time in track.ticks.get(kind, ()):
            drawn.put(time, mark)
    for span, stall in track.stalls:
        drawn.insert(span, _CAUSES[stall.cause])
    drawn.put(track.life.begin_ns, Mark.LAUNCH)
    if seam is not None:
        drawn.put(round(seam.at_ms * 1e6), _SEAMS[seam.kind])
    if track.stats.outcome is not None:
        drawn.put(track.life.end_ns, _ENDS[track.stats.outcome])
    return drawn.marks


class _Row:
    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self.marks: list[Mark] = [Mark.NOTHING] * (round(axis.right) + 1)

    def put(self, time_ns: int, mark: Mark) -> None:
        """Mark the column of a time."""
        self.marks[self._column(time_ns)] = mark

    def paint(self, span: Span, mark: Mark) -> None:
        """Mark the columns of a stretch of time, but not the one in which it ends."""
        for column in range(self._column(span.begin_ns), self._column(span.end_ns)):
            self.marks[column] = mark

    def insert(self, span: Span, mark: Mark) -> None:
        """Mark what lies between two columns; if nothing does, the first, so that it is seen."""
        begin, end = self._column(span.begin_ns), self._column(span.end_ns)
        for column in range(begin + 1, end) or [begin]:
            self.marks[column] = mark

    def _column(self, time_ns: int) -> int:
        return round(self._axis.at(time_ns))
