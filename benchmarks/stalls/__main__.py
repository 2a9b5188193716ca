"""The command: measures, prints tables and goals, and writes the document.

``python -m benchmarks.stalls`` measures what the goals need, in a few minutes on two calm cores;
those of the defaults take ``--full``. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from ..speed.about import about
from ..speed.document import add_report_option
from ..speed.serving import ROOT
from . import results
from .goals import judge
from .measuring import measure
from .plan import FULL, SHORT, Plan
from .report import tables, write_report
from .results import Results
from .summary import summarise
from .systems import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT = ROOT / "benchmarks" / "results" / "stalls.json"
KEPT_SHORT = KEPT.with_name("stalls-short.json")


def main() -> int:
    """Do what is asked, and tell whether all goals are met that were judged."""
    parser = _parser()
    asked = parser.parse_args()
    if asked.report and (asked.only or not (asked.full or asked.read)):
        parser.error("--report takes all that --full measures, with it or with --read")
    if not _plan(asked).systems:
        parser.error(f"only --full measures {' and '.join(asked.only)}")
    kept = results.read(asked.read) if asked.read else _measured(asked)
    if asked.report:
        write_report(kept, asked.report)
    found = summarise(kept.batches)
    judged = judge(found)
    print(tables(found), "", *judged, sep="\n")
    return 0 if all(each.is_met for each in judged) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stalls", description="What becomes of the slowest calls."
    )
    parser.add_argument("--full", action="store_true", help="measure everything: over an hour")
    parser.add_argument("--only", action="append", choices=[*FULL.systems], help="repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures are kept")
    parser.add_argument(
        "--seeds", type=_seeds, metavar="FIRST-LAST", help="two halves can be measured side by side"
    )
    parser.add_argument(
        "--read", type=Path, nargs="+", metavar="FILE", help="take these as one, measure nothing"
    )
    add_report_option(parser)
    return parser


def _seeds(text: str) -> Sequence[int]:
    first, _, last = text.partition("-")
    return range(int(first), int(last) + 1)


def _plan(asked: argparse.Namespace) -> Plan:
    plan = FULL if asked.full else SHORT
    systems = {
        scenario: names
        for scenario, names in plan.systems.items()
        if asked.only is None or scenario in asked.only
    }
    return attrs.evolve(plan, systems=systems, seeds=asked.seeds or plan.seeds)


def _measured(asked: argparse.Namespace) -> Results:
    file = asked.json or (KEPT if asked.full else KEPT_SHORT)
    kept = Results(about(PACKAGES), batches := [])
    for batch in measure(_plan(asked)):
        batches.append(batch)
        results.write(kept, file)
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return kept


if __name__ == "__main__":
    sys.exit(main())
