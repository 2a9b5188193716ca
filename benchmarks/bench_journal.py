"""What a journal costs for each chunk, against the same gateway with nobody watching.

CPU time of interleaved rounds over memory streams, the scripted provider's share included on both
sides; the figure to read is what the journal adds, for answers that come a chunk a read and 50
chunks a read. "recorded" is the part of it that is spent while the answer comes.
``python benchmarks/bench_journal.py [--json]``
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from polygateway import open_gateway
from polygateway.observe import Instrument, Journal
from polygateway.testing import (
    ScriptedProvider,
    chunk,
    done,
    finish,
    run_virtual,
    serve_memory,
    together,
    usage,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from polygateway.testing import Step

ROUNDS = 7
CALLS = 20
CHUNKS = 1000


class Recorder(Instrument):
    """Has timelines recorded, and does nothing with them."""

    wants_traces = True


# Who watches, given a folder.
WATCHING: dict[str, Callable[[Path], list[Instrument]]] = {
    "nobody": lambda _: [],
    "recorded": lambda _: [Recorder()],
    "journal": lambda folder: [Journal(folder / "calls.jsonl")],
    "with text": lambda folder: [Journal(folder / "calls.jsonl", text=True)],
}


def script(per_read: int) -> list[Step]:
    """Give an answer of :data:`CHUNKS` chunks, so many of them to be read at once."""
    reads = [together(*[chunk("a dozen characters")] * per_read)] * (CHUNKS // per_read)
    return [*reads, finish(), usage(7, CHUNKS), done()]


def measure(per_read: int, instruments: list[Instrument]) -> float:
    """Give the CPU microseconds of a chunk."""

    async def main() -> float:
        provider = ScriptedProvider(script(per_read))
        async with (
            serve_memory({"eu": provider}) as network,
            open_gateway(network.config(), connect=network.connect, instruments=instruments) as gw,
        ):
            start = time.process_time_ns()
            for _ in range(CALLS):
                async with gw.stream("x", model="m") as stream:
                    async for _ in stream:
                        pass
            return (time.process_time_ns() - start) / 1000 / CALLS / CHUNKS

    cost = run_virtual(main)
    for instrument in instruments:
        if isinstance(instrument, Journal):
            instrument.close()
    return cost


def run() -> list[dict[str, str | float]]:
    """Measure every case and give a row for each."""
    rows: list[dict[str, str | float]] = []
    for case, per_read in (("a chunk a read", 1), ("50 chunks a read", 50)):
        spent: dict[str, list[float]] = {watching: [] for watching in WATCHING}
        for _ in range(ROUNDS):
            for watching, figures in spent.items():
                with tempfile.TemporaryDirectory() as folder:
                    figures.append(measure(per_read, WATCHING[watching](Path(folder))))
        # Not the median: whatever else the machine does can only add, and often by more than this.
        least = {watching: min(figures) for watching, figures in spent.items()}
        rows.append({"case": case, **least, "journal adds": least["journal"] - least["nobody"]})
    return rows


def main() -> None:
    """Print the rows as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json = parser.parse_args().json
    rows = run()
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    print(f"| {'us a chunk':<16} |", " | ".join(f"{head:>12}" for head in [*rows[0]][1:]), "|")
    print(f"|{'---|' * len(rows[0])}")
    for row in rows:
        case, *figures = row.values()
        print(f"| {case:<16} |", " | ".join(f"{figure:12.2f}" for figure in figures), "|")


if __name__ == "__main__":
    main()
