"""Writes what was measured into the document: tables between marks, and pictures beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from . import plots
from .about import sentence
from .clients import CLIENTS, HTTPCORE, STREAM
from .document import filled, table
from .goals import judge
from .plan import BURST, CROWD, IMPORTS, MANNERS, MANY, PACED, STREAMS, TARGETS
from .results import Cell, NotMeasured, Results
from .statistics import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


@attrs.frozen
class Column:
    """A column of a table that has a row for each client."""

    head: str
    cell: Callable[[str], Cell]
    figure: str


def write_report(results: Results, document: Path) -> None:
    """Write the tables into their places in *document*, and the pictures beside it."""
    text = filled(document.read_text("utf-8"), "speed", lambda name: TABLES[name](results))
    document.write_text(text, "utf-8")
    for name, drawn in PICTURES.items():
        picture = document.with_name(f"{document.stem}-{name}.svg")
        picture.write_text(drawn(results), "utf-8")


def written(results: Results, cell: Cell, figure: str) -> str:
    """Give a figure's median and spread, or why there is none."""
    try:
        found = results.spread(cell, figure)
    except NotMeasured:
        return results.error(cell) or "-"
    return f"{shown(found.median)} ({shown(found.least)} to {shown(found.most)})"


def _clients(columns: Sequence[Column], names: Iterable[str]) -> Callable[[Results], str]:
    heads = ["client", *(column.head for column in columns)]
    return lambda results: table(
        heads,
        [
            [name, *(written(results, each.cell(name), each.figure) for each in columns)]
            for name in names
        ],
    )


def _about(results: Results) -> str:
    return f"{sentence(results.about)} Medians of {len(list(results.rounds()))} rounds."


def _goals(results: Results) -> str:
    rows = [
        [
            each.goal.what,
            each.goal.written(each.goal.most),
            each.goal.written(each.value),
            f"{each.goal.written(each.rounds.least)} to {each.goal.written(each.rounds.most)}",
            "yes" if each.is_met else "**no**",
        ]
        for each in judge(results)
    ]
    return table(["measure", "at most", "measured", "in single rounds", "met"], rows)


def _in_turns(results: Results) -> str:
    cases = {
        "a chunk, armed": ("armed", BURST[STREAM]),
        "a call, armed": ("armed", 1),
        "a call, fired": ("fired", 1),
    }
    rows = [
        [f"`{manner}()`, {case}", *_pair(results, Cell(kind, manner, size))]
        for manner in MANNERS
        for case, (kind, size) in cases.items()
    ]
    return table(["CPU, µs", "without", "with", "more", "ratio"], rows)


def _pair(results: Results, cell: Cell) -> Iterable[str]:
    return (written(results, cell, name) for name in ("plain_us", "other_us", "more_us", "ratio"))


def _targets(results: Results) -> str:
    rows = [
        [
            f"`{manner}()`",
            *(written(results, Cell("targets", manner, count), "ratio") for count in TARGETS),
        ]
        for manner in MANNERS
    ]
    return table(["CPU a call, to that with one target", *map(str, TARGETS)], rows)


def _imports(results: Results) -> str:
    rows = [
        [name, *(written(results, Cell("imports", name), figure) for figure in ("cpu_ms", "kib"))]
        for name in IMPORTS
    ]
    return table(["beyond `import trio, httpcore`", "CPU, ms", "memory, KiB"], rows)


def _burst(name: str) -> Cell:
    return Cell("chunks", name, BURST[name])


def _call(name: str) -> Cell:
    return Cell("chunks", name)


def _paced(name: str) -> Cell:
    return Cell("paced", name, PACED)


def _at_once(name: str) -> Cell:
    return Cell("streams", name, STREAMS)


def _spread(name: str) -> Cell:
    return Cell("spread", name, STREAMS)


def _crowd(name: str) -> Cell:
    return Cell("streams", name, MANY)


TABLES: Mapping[str, Callable[[Results], str]] = {
    "about": _about,
    "goals": _goals,
    "single": _clients(
        [
            Column("CPU a chunk, burst, µs", _burst, "cpu_us"),
            Column("wall", _burst, "wall_us"),
            Column("CPU a chunk, paced, µs", _paced, "cpu_us"),
            Column("CPU a call, µs", _call, "cpu_us"),
            Column("wall", _call, "wall_us"),
        ],
        CLIENTS,
    ),
    "streams": _clients(
        [
            Column("CPU a chunk, µs", _at_once, "cpu_us"),
            Column("wall, s", _at_once, "wall_s"),
            Column("memory a stream, KiB", _at_once, "kib_a_stream"),
            Column("delay p50, ms", _spread, "p50_ms"),
            Column("delay p99, ms", _spread, "p99_ms"),
        ],
        CLIENTS,
    ),
    "crowd": _clients(
        [
            Column("CPU a chunk, µs", _crowd, "cpu_us"),
            Column("wall, s", _crowd, "wall_s"),
            Column("memory a stream, KiB", _crowd, "kib_a_stream"),
            Column("delay p50, ms", _crowd, "p50_ms"),
            Column("delay p99, ms", _crowd, "p99_ms"),
        ],
        [*CROWD, HTTPCORE],
    ),
    "hedging": _in_turns,
    "targets": _targets,
    "imports": _imports,
}
"""What stands between the marks, by name."""

PICTURES: Mapping[str, Callable[[Results], str]] = {
    "clients": plots.clients,
    "chunks": plots.by_chunks,
    "streams": plots.by_streams,
}
"""What is drawn beside the document, by name."""
