"""Play random series of calls until something does not hold: ``python -m tests.campaign``.

Everything follows from the seed. What fails is made as simple as can be and printed as a test; the
exit code is 1 then. See ``docs/explanation/campaign.md``.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from .counting import missing
from .drawing import draw
from .finding import failure_of, name_of, simplest, told
from .long_run import examined
from .mutants import MUTANTS, hunt
from .source import as_test

if TYPE_CHECKING:
    from collections.abc import Sequence

_EVERY_S = 10.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign")
    parser.add_argument("--calls", type=int, default=10_000, help="at least so many")
    parser.add_argument("--seed", default="0", help="any text; the same calls for the same seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seconds", type=float, default=math.inf, help="at most so long")
    parser.add_argument("--series", metavar="SEED/NUMBER", help="play this series alone")
    parser.add_argument(
        "--mutants", nargs="*", choices=MUTANTS, metavar="NAME", help="find planted defects"
    )
    options = parser.parse_args(arguments)
    if options.mutants is not None:
        return hunt(options.mutants or list(MUTANTS), options.seed)
    if options.series is not None:
        return tell(options.series)
    return campaign(options.seed, options.calls, options.jobs, options.seconds)


def campaign(seed: str, calls: int, jobs: int, seconds: float) -> int:
    """Play so many calls, and tell whether all held and all that matters happened."""
    counts: Counter[str] = Counter()
    began = told = time.monotonic()
    for result in examined(seed, jobs, seconds):
        counts += result.counts
        if result.failed is not None:
            return tell(result.failed)
        if time.monotonic() - told > _EVERY_S:
            told = time.monotonic()
            print(f"{counts['calls']} calls, {told - began:.0f} s", flush=True)
        if counts["calls"] >= calls:
            break
    for what, times in sorted(counts.items()):
        print(f"{times:9} {what}")
    took = time.monotonic() - began
    print(f"{counts['calls']} calls in {took:.0f} s, seed {seed!r}: all laws held")
    too_seldom = missing(counts)
    for line in too_seldom:
        print(f"too seldom: {line}")
    return 1 if too_seldom else 0


def tell(name: str) -> int:
    """Play one series; if it fails, make it simpler and print it as a test."""
    series = draw(name)
    error = failure_of(series)
    if error is None:
        print(f"series {name}: all laws held")
        return 0
    print(f"series {name} failed: {told(error)}", flush=True)
    print(as_test(simplest(series, name_of(error)), name_of(error)))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
