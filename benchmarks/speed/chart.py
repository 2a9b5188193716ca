"""Charts with logarithmic axes, in light and dark: points with their spread, and lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from polygateway.observe.drawing import look
from polygateway.observe.drawing.markup import Node, node, number, written

from .statistics import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .statistics import Spread

WIDTH = 720

# Dashes and the shapes of points tell lines apart as well as colours.
STYLES = (("text", "none"), ("good", "7 3"), ("bad", "none"), ("muted", "2 3"), ("ink", "8 3 2 3"))


@attrs.frozen
class Scale:
    """A logarithmic axis, from one place to another."""

    least: float
    most: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Give where *value* is."""
        part = math.log(value / self.least) / math.log(self.most / self.least)
        return self.start + part * (self.end - self.start)

    def marks(self) -> Iterable[float]:
        """Give the powers of ten that are on it."""
        first, last = math.ceil(math.log10(self.least) - 1e-9), math.log10(self.most) + 1e-9
        return [10.0**power for power in range(first, math.floor(last) + 1)]


def reaching(values: Iterable[float], start: float, end: float) -> Scale:
    """Give an axis on which all *values* are, with a little room."""
    found = list(values)
    return Scale(min(found) / 1.3, max(found) * 1.3, start, end)


def picture(title: str, said: str, height: float, drawn: Iterable[Node]) -> str:
    """Write a picture with a title; *said* is what it shows, for those who cannot see it."""
    root = node(
        "svg",
        look.style(),
        node("rect", class_="f-paper", width=WIDTH, height=height),
        text(title, 24, 30, "f-ink title"),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {number(height)}",
        class_=look.SCOPE,
        role="img",
        aria_label=said,
    )
    return written(root) + "\n"


def columns(scale: Scale, top: float, bottom: float) -> Iterable[Node]:
    """Draw an axis across, below."""
    for value in scale.marks():
        x = scale.place(value)
        yield line(x, top, x, bottom)
        yield text(f"{value:,g}", x, bottom + 18, "f-muted", "middle")


def rows(scale: Scale, left: float, right: float) -> Iterable[Node]:
    """Draw an axis upwards, at the left."""
    for value in scale.marks():
        y = scale.place(value)
        yield line(left, y, right, y)
        yield text(f"{value:,g}", left - 8, y + 4, "f-muted", "end")


def point(scale: Scale, found: Spread, y: float, colour: str) -> Iterable[Node]:
    """Draw a median with its spread, and write it beside."""
    least, most = scale.place(found.least), scale.place(found.most)
    whisker = line(least, y, most, y)
    whisker.attrib |= {"class": f"s-{colour}", "stroke-width": "2"}
    yield whisker
    yield node("circle", class_=f"f-{colour}", cx=scale.place(found.median), cy=y, r=4.5)
    yield text(shown(found.median), most + 9, y + 4, "f-ink")


def curve(across: Scale, up: Scale, points: Sequence[tuple[float, float]], style: int) -> Node:
    """Draw a line through *points*."""
    places = " ".join(f"{number(across.place(x))},{number(up.place(y))}" for x, y in points)
    return styled(node("polyline", points=places, fill="none"), style)


def key(name: str, x: float, y: float, style: int) -> Iterable[Node]:
    """Say what a line stands for."""
    yield styled(line(x, y, x + 30, y), style)
    yield text(name, x + 38, y + 4, "f-ink")


def text(words: str, x: float, y: float, class_: str, anchor: str = "start") -> Node:
    """Write."""
    return node("text", words, x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float) -> Node:
    """Draw a line of the grid."""
    return node("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="s-grid")


def styled(drawn: Node, style: int) -> Node:
    """Give a line the colour and the dashes of a style."""
    colour, dashes = STYLES[style]
    drawn.attrib |= {"class": f"s-{colour}", "stroke-width": "2", "stroke-dasharray": dashes}
    return drawn
