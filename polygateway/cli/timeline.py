"""``polygateway timeline``: the calls of a journal, and where the time of each one went."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - cyclopts reads the types
from typing import TYPE_CHECKING

from rich.text import Text

from ..errors import ConfigurationError
from ..observe.drawing import words
from ..observe.page import draw_page
from ..observe.picture import draw_call
from ..observe.reading import read_journal
from .columns import aligned
from .console import Console
from .terminal import harmless
from .timeline_terminal import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..observe.reading import JournalReading
    from ..observe.records import RecordedCall

_MOST_RUNS = 5
_WORD = 40
"""Columns of text in a cell of the list."""


def timeline(
    journal: Path,
    /,
    *,
    call: int | None = None,
    run: str | None = None,
    svg: Path | None = None,
    html: Path | None = None,
) -> None:
    """Draw calls that a journal tells of.

    Without options: a line for each call, and a picture of the last one.

    Args:
        journal: A file that a Journal has written.
        call: Number of the one call to draw.
        run: Only the calls of this run; the first characters of its name are enough.
        svg: Draw the call, or the last one, into this file.
        html: Draw all calls, with a table of their figures, into this file.
    """
    reading = _read(journal)
    for trouble in _troubles(reading):
        print(f"{harmless(str(journal))}: {harmless(trouble)}", file=sys.stderr)
    calls = _chosen(reading.calls, call, run)
    if not calls:
        wanted = "call" if call is None else f"call {call}"
        of = "" if run is None else f" of a run {run}"
        raise ConfigurationError(f"{journal} tells of no {wanted}{of} that has ended")
    if svg is not None:
        _write(svg, draw_call(calls[-1]))
        print(f"{svg}: call {calls[-1].call} of run {calls[-1].run}")
    if html is not None:
        _write(html, draw_page(calls))
        print(f"{html}: {words.counted(len(calls))}")
    if svg is None and html is None:
        _show(calls)


def _read(journal: Path) -> JournalReading:
    try:
        return read_journal(journal)
    except OSError as error:
        raise ConfigurationError(f"cannot read {journal}: {error.strerror}") from None


def _troubles(reading: JournalReading) -> Iterator[str]:
    yield from map(str, reading.problems)
    for each in reading.unfinished:
        yield f"call {each.call} of run {each.run} has not ended, or its process died in it"


def _chosen(
    calls: Sequence[RecordedCall], number: int | None, run: str | None
) -> Sequence[RecordedCall]:
    """Give the calls that were asked for.

    Raises:
        ConfigurationError: one was asked for by a number that several runs have.
    """
    chosen = [
        call for call in calls if call.run.startswith(run or "") and number in {None, call.call}
    ]
    if number is not None and len(chosen) > 1:
        runs = ", ".join(call.run for call in chosen[:_MOST_RUNS])
        raise ConfigurationError(
            f"{len(chosen)} runs have a call {number}: choose one with --run, as of {runs}"
        )
    return chosen


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from None


def _show(calls: Sequence[RecordedCall]) -> None:
    console = Console(highlight=False)
    if len(calls) > 1:
        for line in _list(calls):
            # A terminal shows what it has room for; a pipe gets all of it.
            row = Text(line, no_wrap=True, overflow="crop")
            console.print(row, soft_wrap=not console.is_terminal)
        console.print()
    for text in Sheet.on(console, calls[-1]).lines():
        console.print(text, soft_wrap=True)


def _list(calls: Sequence[RecordedCall]) -> Sequence[str]:
    head = ("run", "call", "started", "model", "outcome", "total", "ttft", "stall", "attempts")
    rows = [head, *map(_row, calls)]
    if len({call.run for call in calls}) == 1:
        rows = [row[1:] for row in rows]
    return aligned(rows)


def _row(call: RecordedCall) -> tuple[str, ...]:
    stats = call.stats
    attempts = ", ".join(f"{each.target} {words.fate(each)}" for each in stats.attempts)
    cells = (
        *(call.run, str(call.call), call.started_at, call.model, words.outcome(call)),
        *map(words.duration, (stats.total_ms, stats.ttft_ms, stats.stall_ms)),
        attempts,
    )
    return tuple(words.cut(cell, _WORD) for cell in cells)
