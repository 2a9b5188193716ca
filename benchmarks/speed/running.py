"""Measures the cells of a plan, each in a process of its own, round by round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .about import about
from .plan import IMPORTS
from .results import Results, Sample
from .serving import ROOT, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .plan import Plan
    from .results import Cell

MOST_S = 60.0
"""How long measuring a cell may take."""

PACKAGES = (
    *("polygateway", "trio", "httpcore", "h11", "msgspec", "openai", "anthropic", "httpx2"),
    *("httpcore2", "litellm", "langchain-openai", "langchain-core", "aiohttp"),
)
_ENVIRONMENT = {
    **os.environ,
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # not from the network, each time anew
    "PYTHONDONTWRITEBYTECODE": "",  # modules are compiled once, as those of any installed package
}


def measure(plan: Plan, keep: Callable[[Results], None]) -> Results:
    """Measure; let *keep* have what there is after each round, for a long run may break off."""
    made, samples = about(PACKAGES), list[Sample]()
    with serving() as upstream:
        for number in range(max(plan.values())):
            for cell in (cell for cell, rounds in plan.items() if number < rounds):
                samples.append(_sample(cell, number, upstream.port))
                print(".", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
            keep(Results(made, samples))
    return Results(made, samples)


def _sample(cell: Cell, number: int, port: int) -> Sample:
    try:
        done = subprocess.run(  # noqa: S603 - our own
            _command(cell, port),
            capture_output=True,
            check=True,
            cwd=ROOT,
            env=_ENVIRONMENT,
            text=True,
            timeout=MOST_S,
        )
    except subprocess.TimeoutExpired:
        return Sample(cell, number, {}, f"not done after {MOST_S:g} s")
    except subprocess.CalledProcessError as error:
        return Sample(cell, number, {}, error.stderr.strip().rpartition("\n")[2])
    return Sample(cell, number, json.loads(done.stdout))


def _command(cell: Cell, port: int) -> Sequence[str]:
    if cell.kind == "imports":
        script = str(Path(__file__).with_name("imports.py"))
        return [sys.executable, script, "import trio, httpcore", IMPORTS[cell.what]]
    module = "pairs" if cell.kind in {"armed", "fired", "targets"} else "worker"
    asked = [str(port), cell.kind, cell.what, str(cell.size)]
    return [sys.executable, "-m", f"benchmarks.speed.{module}", *asked]
