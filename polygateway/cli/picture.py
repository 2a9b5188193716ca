"""Pictures: a call while it runs, and the table of what all calls came to."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
import trio
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .figures import milliseconds, seconds, winner
from .lanes import Lane, Mark, Providers, lanes
from .scenarios import Result, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console, RenderableType

_STYLES = {Mark.NOTHING: "", Mark.SILENCE: "red", Mark.KEEPALIVE: "magenta", Mark.TEXT: "green"}
_GLYPHS = dict(zip(Mark, " ·~━", strict=True))
_ASCII = dict(zip(Mark, " .~#", strict=True))

_SLOT_S = 0.1
_WIDE_ENOUGH = 72
"""Columns that the longest lane takes at that scale, with its label and its note."""

_TABLE = 80
"""Columns that are enough for the table."""

_LABEL = 14
_QUIET_S = 0.3
"""A silence that deserves a word: several times the time between two chunks."""


@attrs.frozen
class Look:
    """How to draw."""

    glyphs: Mapping[Mark, str]
    slot_s: float
    """Time that a column stands for."""

    width: int
    """Columns."""

    @classmethod
    def on(cls, console: Console) -> Look:
        """Choose what *console* can show."""
        glyphs = _GLYPHS if console.encoding.startswith("utf") else _ASCII
        wide = console.width >= _WIDE_ENOUGH
        return cls(glyphs, _SLOT_S if wide else 2 * _SLOT_S, console.width)

    def bar(self, marks: Iterable[Mark]) -> Text:
        """Draw marks side by side."""
        return Text.assemble(*((self.glyphs[mark], _STYLES[mark]) for mark in marks))

    def legend(self) -> Text:
        """Say what the marks mean."""
        words = {Mark.TEXT: "text", Mark.SILENCE: "silence", Mark.KEEPALIVE: "keep-alive"}
        explained = [self.bar([mark]).append(f" {word}") for mark, word in words.items()]
        return Text("   ").join([*explained, Text(f"one column is {self.slot_s:g} s")])


@attrs.define
class Stage:
    """A call to be watched. rich draws it as it stands."""

    scenario: Scenario
    providers: Providers
    look: Look
    origin: float = attrs.field(factory=trio.current_time)
    """The left edge."""

    received: str = ""
    """The text that the application has."""

    result: Result | None = None
    """What came of the call; ``None`` while it runs."""

    def receive(self, text: str) -> None:
        """Add to what the application has."""
        self.received += text

    def __rich__(self) -> Group:
        return Group(
            Text(self.scenario.name, "bold"),
            Text(self.scenario.says),
            *self._lanes(trio.current_time()),
            *self._paragraph("answer", self.received or "nothing yet", ""),
            *self._error(),
        )

    def _lanes(self, now: float) -> Iterator[Text]:
        known = lanes(self.providers) if self.result is None else self.result.lanes
        for index, lane in enumerate(known):
            label = f"{lane.target} {_kind(lane, known[:index])}"
            bar = self.look.bar(lane.marks(origin=self.origin, now=now, slot_s=self.look.slot_s))
            note = _progress(lane, now) if self.result is None else _end(lane, self.result)
            yield _row(label, bar.append(note and f" {note}"))

    def _error(self) -> Iterator[Text]:
        if self.result is not None and self.result.error is not None:
            yield from self._paragraph(
                "error", f"{self.result.outcome}: {self.result.error}", "red"
            )

    def _paragraph(self, label: str, text: str, style: str) -> Iterator[Text]:
        lines = textwrap.wrap(text, max(self.look.width - _LABEL, _LABEL))
        for line in lines:
            yield _row(label if line is lines[0] else "", Text(line, style))


def _kind(lane: Lane, earlier: Iterable[Lane]) -> str:
    """Say what an attempt was started for, by what its providers know of those before it."""
    began = lane.exchange.started_at
    ends = [each.exchange.ended_at for each in earlier]
    if not ends:
        return "primary"
    return "retry" if all(end is not None and end <= began for end in ends) else "hedge"


def _progress(lane: Lane, now: float) -> str:
    """Say how it stands with an attempt."""
    if lane.closed:
        return "closed"
    quiet = lane.silence_s(now)
    return f"silent for {quiet:.1f} s" if quiet >= _QUIET_S else ""


def _end(lane: Lane, result: Result) -> str:
    """Say what became of an attempt."""
    attempt = lane.attempt
    if attempt is None:
        return ""
    if attempt.error is not None:
        return f"failed: {attempt.error.partition(':')[0]}"
    if attempt.outcome == "won":
        return f"won after {seconds(result.total_ms)}"
    return f"lost, closed in {milliseconds(lane.closing_ms(result.started))}"


def _row(label: str, content: Text) -> Text:
    row = Text.assemble((f"  {label}".ljust(_LABEL), "bold"), content)
    row.no_wrap, row.overflow = True, "crop"
    return row


def summary(results: Iterable[Result], width: int) -> RenderableType:
    """Tell what the calls came to: a table, or where that does not fit, a paragraph for each."""
    rows = {result.scenario: _figures(result) for result in results}
    if width >= _TABLE:
        return _table(rows)
    return "\n".join(
        f"{name}: {', '.join(' '.join(pair) for pair in figures.items())}"
        for name, figures in rows.items()
    )


def _table(rows: Mapping[str, Mapping[str, str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("scenario", style="bold", no_wrap=True)
    for heading in next(iter(rows.values())):
        left = heading == "winner"
        table.add_column(heading.replace(" ", "\n"), justify="left" if left else "right")
    for name, figures in rows.items():
        table.add_row(name, *figures.values())
    return table


def _figures(result: Result) -> Mapping[str, str]:
    """Give a row's cells by heading."""
    stats, won = result.stats, winner(result.attempts)
    return {
        "total": seconds(result.total_ms),
        "stall": seconds(None if stats is None else stats.stall_ms),
        "active generation": seconds(None if stats is None else stats.active_generation_ms),
        "attempts": str(len(result.attempts)),
        "winner": result.outcome if won is None else f"{won.target} ({won.kind})",
        "loser closed": milliseconds(result.closing_ms),
    }
