"""What a probe found out about a target, to be read."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..figures import NONE
from ..terminal import harmless
from .estimate import LEVEL, PERCENTS, Distribution, fewest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from .estimate import Observed, Percentile, Share
    from .result import Result
    from .summary import FigureName

_TABLE = 78
"""Columns that the table of figures takes."""

_TIMES: Mapping[FigureName, str] = {
    "ttft_ms": "first content",
    "ttft_from_due_ms": "  from its due time",
    "total_ms": "whole answer",
    "total_from_due_ms": "  from its due time",
    "max_silence_ms": "longest silence",
}
_FROM_DUE = ("ttft_from_due_ms", "total_from_due_ms")
_SPEEDS: Mapping[FigureName, str] = {
    "tokens_per_s_active": "tokens/s, active",
    "tokens_per_s_wall_lower_bound": "tokens/s, at least",
}

METHOD = f"""\
Percentiles are by nearest rank, so each is the value of one of the n requests. They get worse to \
the right: p95 is what 95% of the requests kept to or, of a speed, reached.
Below a percentile and beside a share: the interval that holds the true one in {LEVEL:.0%} of \
cases, by order statistics (? if n is too small for that end) and by Wilson.
>= if it was given up at a time limit."""


@attrs.frozen
class _Row:
    """A line of the table of figures."""

    label: str
    count: int
    percentiles: Mapping[int, tuple[str, str]]
    """A value and its interval, by percent."""

    worst: str


def report(result: Result, width: int) -> RenderableType:
    """Give all that is to be said of a target, for so many columns."""
    below = [*_speeds(result), *_failures(result), *_unfinished(result), *_effort(result)]
    return Group(
        *_head(result),
        *(_figures(result, width) if result.summary.whole.of else ()),
        *(paragraph(text, width, style=style, indent=2) for text, style in below),
        "",
    )


def method(width: int) -> RenderableType:
    """Explain how the figures of all reports were computed."""
    return Group(*(paragraph(text, width, style="dim") for text in METHOD.splitlines()))


def paragraph(text: str, width: int, *, style: str = "", indent: int = 0) -> RenderableType:
    """Give a text in lines that are not too long to be read."""
    lines = textwrap.fill(harmless(text), min(width, 100), subsequent_indent=" " * indent)
    return Text(lines, style)


def _head(result: Result) -> Iterator[RenderableType]:
    load, target, plan = result.load, result.target, result.load.plan
    yield Text.assemble(
        (harmless(load.target), "bold"),
        harmless(f"   {target.model} ({target.dialect}) at {target.base_url}"),
    )
    pace = f"{plan.slots} at once" if plan.rate is None else f"{plan.rate:g} a second"
    ended = result.summary.whole.of
    when = f"in {load.elapsed_s:.1f} s" if load.measuring else "stopped before the first"
    yield Text(
        f"{ended} of {plan.requests} requests, {pace}, after {plan.warmup} for warm-up, {when}"
    )


def _figures(result: Result, width: int) -> Iterator[RenderableType]:
    yield from ("", _shares(result), "")
    rows = list(_rows(result))
    if rows:
        yield _table(rows) if width >= _TABLE else Group(*map(_sentence, rows))


def _shares(result: Result) -> RenderableType:
    """Tell how many of how many, each with its interval."""
    summary, grid = result.summary, Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "right", "left"):
        grid.add_column(justify=justify)
    seconds = result.stream.stall_threshold_ms / 1000
    for label, share, note in (
        ("whole", summary.whole, ""),
        ("truncated", summary.truncated, "content, but no proper end"),
        ("failed", summary.failed, "no content"),
        ("stalled", summary.stalled, f"silent for {seconds:g} s or more"),
    ):
        grid.add_row(label, f"{share.count} of {share.of}", *_share(share), note)
    standing = NONE if summary.stall_share is None else f"{summary.stall_share:.1%}"
    grid.add_row("stall share", "", standing, "", "of the time of generation")
    return grid


def _share(share: Share) -> tuple[str, str]:
    if share.value is None or share.interval is None:
        return NONE, ""
    low, high = share.interval
    return f"{share.value:.1%}", f"{100 * low:.1f}-{high:.1%}"


def _rows(result: Result) -> Iterator[_Row]:
    """Give the figures that there are: from the due times only where that is another time."""
    figures = result.summary.figures
    unit, divisor = _unit([figures[name] for name in _TIMES])
    for name, label in _TIMES.items():
        if figures[name].samples and (result.effort.delayed or name not in _FROM_DUE):
            yield _row(f"{label}, {unit}", figures[name], divisor)
    for name, label in _SPEEDS.items():
        if figures[name].samples:
            yield _row(label, figures[name], 1.0)


def _unit(times: list[Distribution]) -> tuple[str, float]:
    """Choose what all times of a table are told in."""
    worst = [each.worst.value for each in times if each.worst is not None]
    return ("s", 1000.0) if max(worst, default=0.0) >= 1000 else ("ms", 1.0)


def _row(label: str, figure: Distribution, divisor: float) -> _Row:
    return _Row(
        label,
        len(figure.samples),
        {percent: _cell(figure.percentile(percent), percent, divisor) for percent in PERCENTS},
        _observed(figure.worst, divisor) if figure.worst is not None else NONE,
    )


def _cell(percentile: Percentile | None, percent: int, divisor: float) -> tuple[str, str]:
    if percentile is None:
        return NONE, f"n < {fewest(percent)}"
    ends = (percentile.low, percentile.high)
    span = "-".join("?" if end is None else _number(end / divisor) for end in ends)
    return _observed(percentile.value, divisor), "?" if span == "?-?" else span


def _observed(observed: Observed, divisor: float) -> str:
    return f"{'>=' if observed.at_least else ''}{_number(observed.value / divisor)}"


def _number(value: float) -> str:
    """Write three digits or more, but no thousandths of large numbers."""
    decimals = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{decimals}f}"


def _table(rows: list[_Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    for heading in ("n", *(f"p{percent}" for percent in PERCENTS), "worst"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [
            Text.assemble(value, ("\n" + span, "dim")) for value, span in row.percentiles.values()
        ]
        table.add_row(row.label, str(row.count), *cells, row.worst)
    return table


def _sentence(row: _Row) -> Text:
    """Give the same where the table is too wide."""
    cells = row.percentiles.items()
    told = [f"p{percent} {value} ({span})" for percent, (value, span) in cells]
    return Text(f"{row.label.strip()}: n {row.count}, {', '.join(told)}, worst {row.worst}")


def _speeds(result: Result) -> Iterator[tuple[str, str]]:
    """Tell what tokens a second are based on, and of how many answers there are none."""
    counts = ", ".join(f"{count} {basis}" for basis, count in result.summary.speeds.items())
    if counts:
        yield f"tokens/s by basis, or why there is none: {counts}", ""


def _failures(result: Result) -> Iterator[tuple[str, str]]:
    for failures in result.summary.failures:
        yield f"{failures.count} x {failures.error}: {failures.example}", "red"


def _unfinished(result: Result) -> Iterator[tuple[str, str]]:
    load = result.load
    made = [*load.warmups, *load.samples]
    ran_ms = [sample.elapsed_ms for sample in made if not sample.finished]
    if ran_ms:
        longest = f"the longest after {max(ran_ms) / 1000:.1f} s"
        yield f"{len(ran_ms)} x not finished when the probe stopped, {longest}; not counted", "red"


def _effort(result: Result) -> Iterator[tuple[str, str]]:
    effort = result.effort
    for finding in effort.findings():
        yield f"the load generator was a bottleneck: {finding}", "yellow"
    if effort.cpu_share is not None:
        latest = f", latest start {effort.latest_ms:.1f} ms after it was due"
        on_schedule = result.load.plan.rate is not None
        yield (
            f"load generator: {effort.cpu_share:.0%} of a core{latest if on_schedule else ''}",
            "dim",
        )
