"""How many calls take longer than a time, drawn: a panel for each scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from polygateway.observe.drawing.markup import Node, node, number

from ..speed import chart
from ..speed.statistics import quantile

if TYPE_CHECKING:
    from collections.abc import Iterator

Curve: TypeAlias = Sequence[float]
"""The times of all calls in order. Those without an answer are infinite."""

_LEFT, _RIGHT, _TOP = 24, chart.WIDTH - 24, 80
_AXIS, _GAP, _HEIGHT, _ROW, _KEY = 62, 26, 190, 266, 22
_SHARES = {1.0: "all", 0.1: "1 in 10", 0.01: "1 in 100", 0.001: "1 in 1000"}
_LEAST = min(_SHARES)
_STEPS = 160


@attrs.frozen
class Panel:
    """A part of a picture."""

    title: str
    curves: Mapping[str, Curve]
    """Those of all panels have the same names, in the same order."""

    ticks_s: Sequence[float]
    """From 0 on; the last one is where the panel ends."""


@attrs.frozen
class _Frame:
    """Where a panel stands."""

    left: float
    top: float
    width: float
    longest_s: float

    def x(self, time_s: float) -> float:
        return self.left + min(time_s / self.longest_s, 1) * self.width

    def y(self, share: float) -> float:
        return self.top + math.log(share) / math.log(_LEAST) * _HEIGHT


def picture(title: str, panels: Sequence[Panel], *, columns: int) -> str:
    """Draw panels, so many beside each other, and below them what their lines stand for."""
    width = (_RIGHT - _LEFT - (columns - 1) * _GAP) / columns
    drawn: list[Node] = []
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        left = _LEFT + column * (width + _GAP) + _AXIS
        frame = _Frame(left, _TOP + row * _ROW, width - _AXIS, panel.ticks_s[-1])
        drawn += _panel(panel, frame)
    below = _TOP + (len(panels) - 1) // columns * _ROW + _HEIGHT + 50
    names = list(panels[0].curves)
    for style, name in enumerate(names):
        drawn += chart.key(name, _LEFT + _AXIS, below + style * _KEY, style)
    said = "Curves of how many calls take longer than a time; the tables say the same"
    return chart.picture(title, said, below + len(names) * _KEY, drawn)


def _panel(panel: Panel, frame: _Frame) -> Iterator[Node]:
    yield chart.text(panel.title, frame.left, frame.top - 12, "f-ink strong")
    bottom, right = frame.top + _HEIGHT, frame.left + frame.width
    for tick_s in panel.ticks_s:
        x = frame.x(tick_s)
        yield chart.line(x, frame.top, x, bottom)
        yield chart.text(f"{tick_s:g} s", x, bottom + 18, "f-muted small", "middle")
    for share, name in _SHARES.items():
        y = frame.y(share)
        yield chart.line(frame.left, y, right, y)
        yield chart.text(name, frame.left - 8, y + 4, "f-muted small", "end")
    for style, curve in enumerate(panel.curves.values()):
        points = " ".join(f"{number(x)},{number(y)}" for x, y in _points(curve, frame))
        yield chart.styled(node("polyline", points=points, fill="none"), style)


def _points(curve: Curve, frame: _Frame) -> Iterator[tuple[float, float]]:
    """Give the points of a curve, up to where its panel ends."""
    least = max(_LEAST, 1 / len(curve))
    for step in range(_STEPS + 1):
        share = least ** (step / _STEPS)
        time_s = quantile(curve, 1 - share)
        yield frame.x(time_s), frame.y(share)
        if time_s > frame.longest_s:
            return
