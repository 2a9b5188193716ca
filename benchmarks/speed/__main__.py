"""The command: measures, prints the goals, and writes the document.

``python -m benchmarks.speed`` measures what the goals need, in a few minutes on two calm cores of a
Linux machine. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from . import plan, results
from .document import add_report_option
from .goals import judge
from .report import write_report
from .running import measure
from .serving import ROOT

if TYPE_CHECKING:
    from .results import Results

KEPT = ROOT / "benchmarks" / "results" / "speed.json"
SHORT = KEPT.with_name("speed-short.json")


def main() -> int:
    """Do what is asked, and tell whether all goals are met that were judged."""
    asked = _asked()
    found = results.read(asked.read) if asked.read else _measured(asked)
    if asked.report:
        write_report(found, asked.report)
    failed = [f"{each.cell}: {each.error}" for each in found.samples if each.error is not None]
    judged = judge(found)
    print(*failed, *judged, sep="\n")
    return 0 if all(each.is_met for each in judged) else 1


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description="What a call and a chunk cost."
    )
    parser.add_argument("--full", action="store_true", help="measure everything: half an hour")
    parser.add_argument("--only", action="append", metavar="KIND", help="as in plan.py; repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures are kept")
    parser.add_argument("--read", type=Path, metavar="FILE", help="what was kept; measure nothing")
    add_report_option(parser)
    asked = parser.parse_args()
    if asked.report and (asked.only or not (asked.full or asked.read)):
        parser.error("a report is of everything: --full, or --read what a full run has kept")
    return asked


def _measured(asked: argparse.Namespace) -> Results:
    chosen = plan.full() if asked.full else plan.short()
    if asked.only:
        chosen = {cell: rounds for cell, rounds in chosen.items() if cell.kind in asked.only}
    file = asked.json or (KEPT if asked.full else SHORT)
    return measure(chosen, lambda found: results.write(found, file))


if __name__ == "__main__":
    sys.exit(main())
