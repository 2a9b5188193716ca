"""The pictures of the report."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from . import chart
from .clients import CLIENTS, RAW
from .plan import BURST, GROWING_CHUNKS, GROWING_STREAMS, GROWTH
from .results import Cell, NotMeasured

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from polygateway.observe.drawing.markup import Node

    from .results import Results
    from .statistics import Spread

T = TypeVar("T")

_ROW, _TOP = 22, 84
_PANELS = ((256, 440), (490, 660))
_LEFT, _RIGHT, _BOTTOM = 70, 690, 360


def clients(results: Results) -> str:
    """Draw what a chunk and a call cost, client by client."""
    bottom = _TOP + _ROW * len(CLIENTS)
    chunks = _found(results, {name: Cell("chunks", name, size) for name, size in BURST.items()})
    calls = _found(results, {name: Cell("chunks", name) for name in CLIENTS})
    drawn = [
        *(chart.text(name, 24, _middle(name) + 4, f"f-{_colour(name)}") for name in CLIENTS),
        *_panel("µs of CPU a chunk, in a burst", chunks, *_PANELS[0], bottom),
        *_panel("µs of CPU a call", calls, *_PANELS[1], bottom),
    ]
    said = "What a chunk and a call cost with each client; the tables say the same"
    return chart.picture("What a chunk and a call cost", said, bottom + 36, drawn)


def _panel(
    title: str, found: Mapping[str, Spread], left: float, right: float, bottom: float
) -> Iterable[Node]:
    yield chart.text(title, left, _TOP - 22, "f-ink strong")
    ends = [end for each in found.values() for end in (each.least, each.most)]
    scale = chart.reaching(ends, left, right)
    yield from chart.columns(scale, _TOP - 8, bottom)
    for name, spread in found.items():
        yield from chart.point(scale, spread, _middle(name), _colour(name))


def _middle(name: str) -> float:
    return _TOP + _ROW * (list(CLIENTS).index(name) + 0.5)


def _colour(name: str) -> str:
    return "text" if name.startswith("polygateway") else "good" if name == RAW else "ink"


def by_chunks(results: Results) -> str:
    """Draw what a chunk costs in answers of more and more chunks."""
    return _growth(
        results,
        "chunks",
        GROWING_CHUNKS,
        "What a chunk costs, the longer its answer is",
        "chunks in the answer, which come at once; of one it is what a call costs",
    )


def by_streams(results: Results) -> str:
    """Draw what a chunk costs, the more streams run at once."""
    return _growth(
        results,
        "streams",
        GROWING_STREAMS,
        "What a chunk costs, the more streams run",
        "streams at the same time, each with a chunk every 20 ms",
    )


def _growth(results: Results, kind: str, sizes: Sequence[int], title: str, below: str) -> str:
    curves: dict[str, Sequence[tuple[float, float]]] = {}
    for name in GROWTH:
        found = _found(results, {size: Cell(kind, name, size) for size in sizes})
        curves[name] = [(size, spread.median) for size, spread in found.items()]
    across = chart.reaching((x for points in curves.values() for x, _ in points), _LEFT, _RIGHT)
    up = chart.reaching((y for points in curves.values() for _, y in points), _BOTTOM, _TOP)
    drawn = [
        *chart.columns(across, _TOP, _BOTTOM),
        *chart.rows(up, _LEFT, _RIGHT),
        chart.text("µs of CPU a chunk", 24, _TOP - 28, "f-muted"),
        chart.text(below, _LEFT, _BOTTOM + 40, "f-muted"),
    ]
    for place, (name, points) in enumerate(curves.items()):
        drawn.append(chart.curve(across, up, points, place))
        x, y = _LEFT + 210 * (place % 3), _BOTTOM + 66 + 22 * (place // 3)
        drawn.extend(chart.key(name, x, y, place))
    return chart.picture(title, f"{title}, as curves", _BOTTOM + 112, drawn)


def _found(results: Results, cells: Mapping[T, Cell]) -> Mapping[T, Spread]:
    """Give the CPU of those that were measured."""
    found: dict[T, Spread] = {}
    for key, cell in cells.items():
        with suppress(NotMeasured):
            found[key] = results.spread(cell, "cpu_us")
    return found
