"""The tables, the goals and the pictures for the document."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..speed.about import sentence
from ..speed.document import filled, table
from .goals import judge
from .measuring import AT_ONCE
from .plot import Panel, picture
from .summary import summarise
from .systems import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from .goals import Judged
    from .results import Results
    from .summary import Key, Summary

TITLES: Mapping[str, str] = {
    "A": "A: a tenth stalls for 2 s",
    "B": "B: as A, with keep-alives",
    "C": "C: as A, and a fifth pauses for 0.25 s",
    "D": "D: as A, and three tenths pause late",
    "usual": "Everybody's defaults",
}

_COLUMNS: Mapping[str, Callable[[Summary], str]] = {
    "p50": lambda row: _seconds(row.quantile(0.5)),
    "p95": lambda row: _seconds(row.quantile(0.95)),
    "p99": lambda row: _seconds(row.quantile(0.99)),
    "errors": lambda row: _share(row, sum(row.errors.values())),
    "wrong text": lambda row: _share(row, row.wrong),
    "requests": lambda row: f"+{_share(row, row.extra)}",
    "core": lambda row: f"{100 * row.core:.0f} %",
}

_DRAWN = ("first-complete", "continue", "openai-watchdog", "litellm", "openai")
_DRAWN_DEFAULTS = (
    *("default-complete", "default-continue", "default-openai", "default-langchain"),
    "default-litellm",
)


def write_report(results: Results, document: Path) -> None:
    """Write the tables into *document*, and the pictures beside it."""
    found = summarise(results.batches)
    text = filled(document.read_text("utf-8"), "tail", lambda name: _said(name, results, found))
    document.write_text(text, "utf-8")
    for name, drawn in pictures(found).items():
        document.with_name(f"{document.stem}-{name}.svg").write_text(drawn, "utf-8")


def _said(name: str, results: Results, found: Mapping[Key, Summary]) -> str:
    match name:
        case "about":
            calls = min(len(row.times) for row in found.values())
            return (
                f"{sentence(results.about)} {calls:,} calls of each system in each scenario,"
                f" {AT_ONCE} at a time."
            )
        case "goals":
            return goals(judge(found))
        case _:
            return scenario_table(name, found)


def tables(found: Mapping[Key, Summary]) -> str:
    """Write a table for each scenario that was measured."""
    measured = {scenario for scenario, _ in found}
    return "\n\n".join(scenario_table(name, found) for name in TITLES if name in measured)


def scenario_table(scenario: str, found: Mapping[Key, Summary]) -> str:
    """Write what each system came to in a scenario."""
    rows = [
        [system.title, *(column(found[scenario, name]) for column in _COLUMNS.values())]
        for name, system in SYSTEMS.items()
        if (scenario, name) in found
    ]
    return table([TITLES[scenario], *_COLUMNS], rows)


def goals(judged: Sequence[Judged]) -> str:
    """Write a table of the goals."""
    rows = [
        [
            f"{each.scenario}, {SYSTEMS[each.system].title}: {each.what}",
            f"{each.most:g}",
            f"{each.value:.2f}",
            "" if each.ratio is None else f"{each.ratio.least:.2f} to {each.ratio.most:.2f}",
            "yes" if each.is_met else "**no**",
        ]
        for each in judged
    ]
    return table(["goal", "at most", "measured", "19 times in 20", "met"], rows)


def _seconds(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _share(row: Summary, count: int) -> str:
    return f"{100 * row.part(count):.1f} %"


def pictures(found: Mapping[Key, Summary]) -> Mapping[str, str]:
    """Draw how many calls take longer, by the names of the pictures."""
    alike = [_panel(name, _DRAWN, (0, 0.5, 1, 1.5, 2, 2.5), found) for name in "ABCD"]
    usual = _panel("usual", _DRAWN_DEFAULTS, (0, 30, 60, 90, 120, 150), found)
    return {
        "stalls": picture("How many calls take longer, with one threshold", alike, columns=2),
        "defaults": picture("How many calls take longer, with defaults", [usual], columns=1),
    }


def _panel(
    scenario: str, names: Sequence[str], ticks_s: Sequence[float], found: Mapping[Key, Summary]
) -> Panel:
    curves = {
        SYSTEMS[name].title.replace("`", ""): sorted(found[scenario, name].times) for name in names
    }
    return Panel(TITLES[scenario], curves, ticks_s)
