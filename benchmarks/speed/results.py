"""What was measured, and how it is kept: as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
import cattrs

from .statistics import Spread, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .about import About


@attrs.frozen
class Cell:
    """One thing to measure, in a process of its own."""

    kind: str
    """How; see ``plan.py``."""

    what: str
    """A client's name, or ``stream`` or ``complete`` of polygateway, or what is imported."""

    size: int = 1
    """Chunks, streams, or targets, as the kind has it."""


@attrs.frozen
class Sample:
    """What measuring a cell once gave."""

    cell: Cell
    round: int
    """From 0; all cells of a round were measured one after the other."""

    figures: Mapping[str, float]
    """By name; none if it failed."""

    error: str | None = None
    """Why it failed."""


class NotMeasured(LookupError):
    """There is no such figure."""


class MeasureFailed(NotMeasured):
    """There is none, for measuring it failed each time."""


class Results:
    """The samples of one run."""

    def __init__(self, about: About, samples: Sequence[Sample]) -> None:
        self.about = about
        self.samples = samples
        self._by_cell: dict[Cell, list[Sample]] = defaultdict(list)
        for sample in samples:
            self._by_cell[sample.cell].append(sample)

    def spread(self, cell: Cell, figure: str) -> Spread:
        """Sum up a figure over the rounds.

        Raises:
            NotMeasured: there is none.
        """
        found = [each.figures[figure] for each in self._of(cell) if figure in each.figures]
        if found:
            return spread(found)
        if (error := self.error(cell)) is not None:
            raise MeasureFailed(error)
        raise NotMeasured(f"{figure} of {cell}")

    def median(self, cell: Cell, figure: str) -> float:
        """Give a figure's median over the rounds.

        Raises:
            NotMeasured: there is none.
        """
        return self.spread(cell, figure).median

    def error(self, cell: Cell) -> str | None:
        """Give why measuring failed, if it did in any round."""
        return next((each.error for each in self._of(cell) if each.error is not None), None)

    def rounds(self) -> Iterator[Results]:
        """Give what was measured in each round."""
        for number in sorted({sample.round for sample in self.samples}):
            yield Results(self.about, [each for each in self.samples if each.round == number])

    def _of(self, cell: Cell) -> Sequence[Sample]:
        return self._by_cell.get(cell, [])


def write(results: Results, file: Path) -> None:
    """Keep *results*, a line for each sample."""
    samples = ",\n".join(json.dumps(attrs.asdict(sample)) for sample in results.samples)
    about = json.dumps(results.about, indent=1)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'{{"about": {about},\n"samples": [\n{samples}\n]}}\n', "utf-8")


def read(file: Path) -> Results:
    """Read what was kept."""
    kept = json.loads(file.read_text("utf-8"))
    return Results(kept["about"], cattrs.structure(kept["samples"], list[Sample]))
