"""How many calls take longer than a time, drawn: both axes are logarithmic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from polygateway.observe.drawing import look
from polygateway.observe.drawing.markup import Node, node, number, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Curve: TypeAlias = "Sequence[tuple[float, float]]"
"""Times in seconds, and the share of calls that takes longer."""

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 94, 696, 56, 380
_SHORTEST_S, _LONGEST_S = 3, 800
_TIMES_S = (5, 10, 20, 50, 100, 200, 500)
_SHARES = {1.0: "all", 0.1: "1 in 10", 0.01: "1 in 100", 0.001: "1 in 1000", 0.0001: "1 in 10,000"}

# Dashes tell them apart as well as colours.
_LINES = (("bad", "none"), ("server_alive", "6 4"), ("text", "none"), ("good", "2 3"))


def picture(curves: Mapping[str, Curve]) -> str:
    """Draw at most four curves, each with its name."""
    drawn = node(
        "svg",
        look.style(),
        node("rect", class_="f-paper", width=_WIDTH, height=_HEIGHT),
        _text("How many calls take longer", 24, 30, "f-ink title"),
        *_grid(),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        class_=look.SCOPE,
        role="img",
        aria_label="Curves of how many calls take longer than a time; the tables say the same",
    )
    for place, (name, curve) in enumerate(curves.items()):
        drawn.extend(_curve(name.replace("`", ""), curve, place))
    return written(drawn) + "\n"


def _grid() -> list[Node]:
    drawn: list[Node] = []
    for time_s in _TIMES_S:
        x = _x(time_s)
        drawn += [
            _line(x, _TOP, x, _BOTTOM),
            _text(f"{time_s} s", x, _BOTTOM + 20, "f-muted", "middle"),
        ]
    for share, name in _SHARES.items():
        y = _y(share)
        drawn += [_line(_LEFT, y, _RIGHT, y), _text(name, _LEFT - 10, y + 4, "f-muted", "end")]
    drawn.append(_text("from the call to the end of its answer", _LEFT, _BOTTOM + 42, "f-muted"))
    return drawn


def _curve(name: str, curve: Curve, place: int) -> list[Node]:
    colour, dashes = _LINES[place]
    points = " ".join(
        f"{number(_x(time_s))},{number(_y(share))}"
        for time_s, share in curve
        if share >= min(_SHARES)
    )
    line = node("polyline", points=points, fill="none")
    key = _line(_LEFT + 18, 270 + 26 * place, _LEFT + 48, 270 + 26 * place)
    for each in (line, key):
        each.attrib |= {"class": f"s-{colour}", "stroke-width": "2", "stroke-dasharray": dashes}
    return [line, key, _text(name, _LEFT + 58, 274 + 26 * place, "f-ink")]


def _text(words: str, x: float, y: float, class_: str, anchor: str = "start") -> Node:
    return node("text", words, x=x, y=y, class_=class_, text_anchor=anchor)


def _line(x1: float, y1: float, x2: float, y2: float) -> Node:
    return node("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="s-grid")


def _x(time_s: float) -> float:
    return _LEFT + _part(time_s, _SHORTEST_S, _LONGEST_S) * (_RIGHT - _LEFT)


def _y(share: float) -> float:
    return _BOTTOM - _part(share, min(_SHARES), 1) * (_BOTTOM - _TOP)


def _part(value: float, least: float, most: float) -> float:
    """Give how far a value lies between two others, on a logarithmic scale."""
    return (math.log(value) - math.log(least)) / (math.log(most) - math.log(least))
