"""What must hold, each with its figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from .clients import COMPLETE, HTTPCORE, LITELLM, OPENAI, RAW, STREAM
from .plan import BURST, IMPORT, LONG, LONGER, MANNERS, MANY, OPEN, STREAMS, TARGETS
from .results import Cell, MeasureFailed, NotMeasured, Results
from .statistics import Spread, shown, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@attrs.frozen
class Goal:
    """Something that must be at most so much."""

    what: str
    figure: Callable[[Results], float]
    most: float
    unit: str = ""

    def written(self, value: float) -> str:
        """Give a value in its unit."""
        return f"{shown(value)} {self.unit}".rstrip()


@attrs.frozen
class Judged:
    """A goal, and what was measured."""

    goal: Goal
    value: float
    """Made of the medians of all rounds."""

    rounds: Spread
    """The same, made of each round by itself."""

    @property
    def is_met(self) -> bool:
        """Whether it is."""
        return self.value <= self.goal.most

    def __str__(self) -> str:
        verdict, written = "met   " if self.is_met else "MISSED", self.goal.written
        between = f"{written(self.rounds.least)} to {written(self.rounds.most)}"
        most = f"at most {written(self.goal.most)}"
        return f"{verdict} {self.goal.what}: {written(self.value)} ({between}), {most}"


def judge(results: Results) -> Sequence[Judged]:
    """Judge the goals that can be: if measuring failed, the figure is infinite."""
    return list(_judge(results))


def _judge(results: Results) -> Iterator[Judged]:
    for goal in GOALS:
        try:
            value = goal.figure(results)
        except MeasureFailed:
            yield Judged(goal, math.inf, spread([math.inf]))
        except NotMeasured:
            continue
        else:  # not one round may have it all, if measuring failed now and then
            yield Judged(goal, value, spread(list(_by_round(goal, results)) or [value]))


def _by_round(goal: Goal, results: Results) -> Iterator[float]:
    for each in results.rounds():
        with suppress(NotMeasured):
            yield goal.figure(each)


def _median(figure: str, cell: Cell, scale: float = 1) -> Callable[[Results], float]:
    return lambda results: results.median(cell, figure) * scale


def _ratio(figure: str, cell: Cell, other: Cell) -> Callable[[Results], float]:
    return lambda results: results.median(cell, figure) / results.median(other, figure)


def _burst(name: str, other: str) -> Callable[[Results], float]:
    cells = (Cell("chunks", each, BURST[each]) for each in (name, other))
    return _ratio("cpu_us", *cells)


def _thousand(results: Results) -> float:
    """Compare with the larger of what the time may be."""
    ours, raw = (results.median(Cell("streams", name, MANY), "wall_s") for name in (STREAM, RAW))
    return ours / max(1.5, 1.3 * raw)


def _goals() -> Iterator[Goal]:
    yield Goal("burst, CPU a chunk, to the openai SDK", _burst(STREAM, OPENAI), 1 / 8)
    yield Goal("burst, CPU a chunk, to litellm", _burst(STREAM, LITELLM), 1 / 30)
    yield Goal("burst, CPU a chunk, to bare httpcore", _burst(STREAM, HTTPCORE), 1.15)
    for name in (STREAM, COMPLETE):
        call = _ratio("cpu_us", Cell("chunks", name), Cell("chunks", OPENAI))
        yield Goal(f"CPU a call of {name}, to the openai SDK", call, 1 / 4)
    ours, openai = (Cell("streams", name, STREAMS) for name in (STREAM, OPENAI))
    yield Goal("200 streams, CPU a chunk, to the openai SDK", _ratio("cpu_us", ours, openai), 1 / 3)
    ours, raw = (Cell("spread", name, STREAMS) for name in (STREAM, RAW))
    yield Goal("200 streams, added delay p99, to raw trio sockets", _ratio("p99_ms", ours, raw), 2)
    bounds = "to 1.5 s or 1.3 times raw trio sockets, whichever is more"
    yield Goal(f"1,000 streams, wall time, {bounds}", _thousand, 1)
    for manner in MANNERS:
        yield from _goals_in_turns(manner)
    longer, long = (Cell("chunks", STREAM, size) for size in (LONGER, LONG))
    flat = _ratio("cpu_us", longer, long)
    yield Goal("CPU a chunk of 100,000 at once, to that of 10,000", flat, 1.2)
    for name in (IMPORT, OPEN):
        cell = Cell("imports", name)
        yield Goal(f"{name}: CPU over trio and httpcore", _median("cpu_ms", cell), 100, "ms")
        yield Goal(f"{name}: memory over them", _median("kib", cell, 1 / 1024), 8, "MiB")


def _goals_in_turns(manner: str) -> Iterator[Goal]:
    chunk, call = Cell("armed", manner, BURST[STREAM]), Cell("armed", manner)
    yield Goal(f"{manner}, armed to off, CPU a chunk", _median("ratio", chunk), 1.1)
    yield Goal(f"{manner}, armed over off, CPU a call", _median("more_us", call), 100, "µs")
    most = TARGETS[-1]
    targets = _median("ratio", Cell("targets", manner, most))
    yield Goal(f"{manner}, CPU a call with {most} targets, to 1", targets, 1.2)


GOALS = tuple(_goals())
