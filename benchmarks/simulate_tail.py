"""How long calls take when streams stall, simulated with the product's own planner.

``python -m benchmarks.simulate_tail [--calls N] [--seed N] [--svg PATH]`` prints the tables of
docs/explanation/tail-latency.md and, with ``--svg``, draws its picture. 200,000 calls of each kind
take half a minute of one core. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

from polygateway import HedgePolicy, StreamPolicy

from .tail_model import Outage, Workload
from .tail_plot import Curve, picture
from .tail_simulation import Setting, Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .tail_simulation import Record

_NEVER = StreamPolicy(ttft_timeout_s=1e6, stall_timeout_s=1e6)
_OFF = HedgePolicy(enabled=False)
_CONTINUE = StreamPolicy(recovery="continue")

PLAIN, OFF, COMPLETE = "no hedging, no watchdogs", "no hedging", "`complete()`"
FIRST_COMPLETE, CONTINUE = "`complete()`, first-complete", "`stream()`, continue"

SETTINGS: Mapping[str, Setting] = {
    PLAIN: Setting(hedge=_OFF, stream=_NEVER),
    OFF: Setting(hedge=_OFF),
    COMPLETE: Setting(),
    FIRST_COMPLETE: Setting(hedge=HedgePolicy(winner="first-complete")),
    CONTINUE: Setting(until="content", stream=_CONTINUE),
}
OTHERS: Mapping[str, Setting] = {
    "`stream()`, restart": Setting(until="content", stream=StreamPolicy(recovery="restart")),
    "`stream()`, raise": Setting(until="content"),
    "`after_s = 5.0`": Setting(hedge=HedgePolicy(after_s=5.0)),
    '`stall_after_s = "auto"`': Setting(hedge=HedgePolicy(stall_after_s="auto")),
    "`max_attempts = 2`": Setting(hedge=HedgePolicy(max_attempts=2)),
}

USUAL = "5 % of streams stall"
_OF_TWO = Outage(targets={0, 1}, every_s=10_000, begins_s=5000, lasts_s=300)
WORKLOADS: Mapping[str, Workload] = {
    USUAL: Workload(),
    "10 % of streams stall": Workload(stall_share=0.1),
    "the second of three targets takes twice as long": Workload(slowness=(1, 2, 1)),
    "3 % of calls in an outage of both targets": Workload(slowness=(1, 1), outage=_OF_TWO),
    "3 % of calls in an outage of two of three targets": Workload(outage=_OF_TWO),
}


def _outage(target: int, calls_per_s: float) -> Workload:
    """Give an outage of one of two targets: ten minutes in each half hour."""
    outage = Outage(targets={target}, every_s=1800, begins_s=900, lasts_s=600)
    return Workload(calls_per_s=calls_per_s, slowness=(1, 1), outage=outage)


OUTAGES: Mapping[str, Workload] = {
    "an outage of the first target, a call in 5 s": _outage(0, 0.2),
    "an outage of the first target, 2 calls a second": _outage(0, 2),
    "an outage of the first target, 20 calls a second": _outage(0, 20),
    "an outage of the second target, 2 calls a second": _outage(1, 2),
}
ALL = "all"
NORMAL, BEGIN, LATER, AFTER = "before", "its first 30 s", "after that", "the minute after it"


@attrs.frozen(kw_only=True)
class Summary:
    """What many calls came to. Times are seconds."""

    p50: float
    p95: float
    p99: float
    p999: float
    requests: float
    """Share of attempts beyond one a call."""

    tokens: float
    """Share of output beyond what the answers have; that is as their flow."""

    late: float
    """Share of calls hedged for a late first content; of more than one hedge each counts."""

    stalled: float
    """Likewise for a stall."""

    refused: float
    """Of the hedges that were due, the share that was refused; each time counts."""

    failed: float
    curve: Curve
    """Times, and the share of calls that takes longer."""


Rows: TypeAlias = "Mapping[str, Summary]"
Tables: TypeAlias = "Mapping[str, Rows]"


def summarise(records: Sequence[Record]) -> Summary:
    """Sum up calls."""
    took = sorted(record.took / 1e9 for record in records)
    calls = len(records)
    hedges, refused = Counter[str](), 0
    for record in records:
        hedges.update(record.hedges)
        refused += record.refused.total()
    length = sum(record.length for record in records)
    return Summary(
        p50=quantile(took, 0.5),
        p95=quantile(took, 0.95),
        p99=quantile(took, 0.99),
        p999=quantile(took, 0.999),
        requests=sum(record.attempts for record in records) / calls - 1,
        tokens=sum(record.flowed for record in records) / length - 1,
        late=hedges["ttft"] / calls,
        stalled=hedges["stall"] / calls,
        refused=refused / max(1, refused + hedges.total()),
        failed=sum(record.failed for record in records) / calls,
        curve=[(quantile(took, 1 - share), share) for share in _shares(calls)],
    )


def quantile(took: Sequence[float], share: float) -> float:
    """Give the time that *share* of the calls takes at most; they are sorted."""
    return took[max(0, math.ceil(share * len(took) - 1e-9) - 1)]


def _shares(calls: int) -> Iterable[float]:
    """Give shares for a curve, evenly on a logarithmic scale, the last one of ten calls."""
    steps = 160
    return [(10 / calls) ** (step / steps) for step in range(steps + 1)]


def overdrawn(records: Sequence[Record], setting: Setting) -> float:
    """Tell by how much the purse's law was broken: 0 or less if it was kept.

    Hedges and retries beyond the first failovers are at most ratio * calls + burst.
    """
    hedge, extra = setting.hedge, 0
    for record in records:
        extra += record.attempts - 1 - record.failed_over
    return extra - (hedge.budget_ratio * len(records) + hedge.budget_burst)


@attrs.frozen
class Job:
    """A simulation, and how its calls are grouped."""

    workload: Workload
    setting: Setting
    calls: int
    seed: int

    def run(self) -> Rows:
        """Give the summary of each phase of the outages; of all calls if there are none."""
        simulation = Simulation(self.workload, self.setting, calls=self.calls, seed=self.seed)
        records = simulation.run()
        if overdrawn(records, self.setting) > 0:
            raise AssertionError("more was taken from the purse than was in it")
        groups: dict[str, list[Record]] = {}
        for record in records:
            groups.setdefault(self._phase(record), []).append(record)
        groups[ALL] = list(records)
        return {phase: summarise(group) for phase, group in groups.items()}

    def _phase(self, record: Record) -> str:
        outage = self.workload.outage
        if outage is None:
            return NORMAL
        since = outage.since_s(record.begun / 1e9)
        if since < 0 or since >= outage.lasts_s + 60:
            return NORMAL
        return BEGIN if since < 30 else LATER if since < outage.lasts_s else AFTER


COLUMNS: Mapping[str, Callable[[Summary], str]] = {
    "p50": lambda row: f"{row.p50:.1f}",
    "p95": lambda row: f"{row.p95:.1f}",
    "p99": lambda row: f"{row.p99:.1f}",
    "p99.9": lambda row: f"{row.p999:.1f}",
    "requests": lambda row: f"+{row.requests:.1%}",
    "output": lambda row: f"{row.tokens:+.1%}",
    "late": lambda row: f"{row.late:.1%}",
    "stalled": lambda row: f"{row.stalled:.1%}",
    "refused": lambda row: f"{row.refused:.1%}",
    "failed": lambda row: f"{row.failed:.2%}",
}


def table(title: str, rows: Rows) -> str:
    """Write a table in Markdown."""
    lines = [[title, *COLUMNS], ["---", *("---:" for _ in COLUMNS)]]
    for name, row in rows.items():
        lines.append([name, *(column(row) for column in COLUMNS.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@attrs.frozen
class Goal:
    """What must hold."""

    what: str
    is_: float
    most: float

    def __str__(self) -> str:
        verdict = "met" if self.is_ <= self.most else "MISSED"
        return f"{verdict}: {self.what}: {self.is_:.3f}, at most {self.most}"


def goals(usual: Rows, outages: Tables) -> list[Goal]:
    """Give the goals. Hedging is compared with no hedging and no watchdogs."""
    plain, complete = usual[PLAIN], usual[COMPLETE]
    return [
        Goal("p99 of complete(), to that without hedging", complete.p99 / plain.p99, 0.3),
        Goal("its additional requests", complete.requests, 0.1),
        Goal("its additional output", complete.tokens, 0.03),
        Goal(
            "p99.9 with first-complete, to that without hedging",
            usual[FIRST_COMPLETE].p999 / plain.p999,
            0.2,
        ),
        Goal(
            "p99 of stream() with continue, to that without hedging",
            usual[CONTINUE].p99 / plain.p99,
            0.25,
        ),
        *(
            Goal(f"p99 in an outage, to that before, {name}", rows[LATER].p99 / rows[NORMAL].p99, 2)
            for name, rows in outages.items()
            if LATER in rows
        ),
    ]


def simulate(calls: int, seed: int) -> Tables:
    """Simulate calls of all kinds; give the rows of each table."""
    jobs = {
        (title, name): Job(workload, setting, calls, seed)
        for title, workload in WORKLOADS.items()
        for name, setting in {**SETTINGS, **(OTHERS if title == USUAL else {})}.items()
    }
    tables: dict[str, dict[str, Summary]] = {}
    for (title, name), found in _run(jobs):
        tables.setdefault(title, {})[name] = found[ALL]
    return tables


def simulate_outages(calls: int, seed: int) -> Tables:
    """Simulate outages of one of two targets; give the rows of each table."""
    jobs = {
        (title, name): Job(workload, SETTINGS[name], calls, seed)
        for title, workload in OUTAGES.items()
        for name in (COMPLETE, OFF)
    }
    tables: dict[str, dict[str, Summary]] = {}
    for (title, name), found in _run(jobs):
        rows = {phase: found[phase] for phase in (NORMAL, BEGIN, LATER, AFTER) if phase in found}
        if name == OFF:
            rows = {f"{LATER}, {OFF}": rows[LATER]} if LATER in rows else {}
        tables.setdefault(title, {}).update(rows)
    return tables


def _run(jobs: Mapping[tuple[str, str], Job]) -> Sequence[tuple[tuple[str, str], Rows]]:
    with ProcessPoolExecutor() as pool:
        return list(zip(jobs, pool.map(Job.run, jobs.values()), strict=True))


def main() -> None:
    """Print the tables and the goals, and draw the picture."""
    parser = argparse.ArgumentParser(description="Calls when streams stall, simulated.")
    parser.add_argument(
        "--calls", type=int, default=200_000, help="in each simulation; the goals need 20,000"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", type=Path, help="where to draw the picture")
    asked = parser.parse_args()
    tables, outages = simulate(asked.calls, asked.seed), simulate_outages(asked.calls, asked.seed)
    for title, rows in itertools.chain(tables.items(), outages.items()):
        print(table(title, rows), end="\n\n")
    found = goals(tables[USUAL], outages)
    print(*found, sep="\n")
    if asked.svg is not None:
        curves = {name: tables[USUAL][name].curve for name in (PLAIN, OFF, COMPLETE, CONTINUE)}
        asked.svg.write_text(picture(curves), "utf-8")
    sys.exit(any(goal.is_ > goal.most for goal in found))


if __name__ == "__main__":
    main()
