"""Plant defects in the product, and see how soon the campaign finds them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from unittest.mock import patch

from polygateway.call import Call
from polygateway.core.budget import Purse
from polygateway.core.gate import AttemptState, Gate, RaceState
from polygateway.core.health import Rest
from polygateway.core.splice import Splice
from polygateway.lessons import Lessons
from polygateway.net.connections import Lease
from polygateway.race import Race
from polygateway.response import CompletionStream

from .drawing import draw
from .finding import failure_of, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import trio

    from polygateway.attempt import Attempt
    from polygateway.core.health import Health
    from polygateway.report import Report

    Plant: TypeAlias = Callable[[], None]

_ROOT = Path(__file__).parents[2]

SECONDS = 60
"""How soon each must be found."""


def _gate_lets_losers_live() -> None:
    def commit(gate: Gate, winner: int) -> list[int]:
        gate.race, gate.attempts[winner] = RaceState.COMMITTED, AttemptState.WON
        return []

    patch.object(Gate, "commit", commit).start()


def _content_is_lost_at_the_commit() -> None:
    def keep(race: Race, attempt: Attempt, report: Report) -> None:
        race._chunks[attempt.index] = list(report.chunks[1:])

    patch.object(Race, "_keep", keep).start()


def _losers_are_delivered() -> None:
    keep = Race._keep

    def keep_for_all(race: Race, attempt: Attempt, report: Report) -> None:
        for each in race._call.attempts if race._until == "content" else [attempt]:
            keep(race, each, report)

    patch.object(Race, "_keep", keep_for_all).start()


def _race_forgets_to_cancel() -> None:
    def lose(call: Call, attempt: int, reason: str) -> None:
        call.gate.lose(attempt)
        call.attempts[attempt].cancel_reason = reason

    patch.object(Call, "lose", lose).start()


def _purse_takes_two() -> None:
    take = Purse.take

    def take_twice(purse: Purse, *, above_half: bool = False) -> bool:
        taken = take(purse, above_half=above_half)
        return (taken and take(purse)) or taken

    patch.object(Purse, "take", take_twice).start()


def _purse_is_not_asked() -> None:
    def take(purse: Purse, *, above_half: bool = False) -> bool:
        del above_half
        purse.charge()
        return True

    patch.object(Purse, "take", take).start()


def _cancelled_counts_as_failed() -> None:
    def says_nothing(lessons: Lessons, attempt: Attempt) -> None:
        health: Health = lessons.candidates[attempt.position].health
        health.failed(attempt.started_ns, attempt.started_ns, was_silent=False)

    patch.object(Lessons, "_says_nothing", says_nothing).start()


def _seams_are_not_told() -> None:
    join = CompletionStream._join

    def join_in_silence(stream: CompletionStream, before: Attempt) -> None:
        join(stream, before)
        stream._chunks.pop()

    patch.object(CompletionStream, "_join", join_in_silence).start()


def _slots_are_kept() -> None:
    def close(lease: Lease) -> None:
        lease._drop()

    patch.object(Lease, "close", close).start()


def _repetitions_are_delivered() -> None:
    def feed(splice: Splice, text: str) -> str:
        splice._is_known = True
        return splice._join(text)

    patch.object(Splice, "feed", feed).start()


def _retry_after_is_forgotten() -> None:
    def ask(_rest: Rest, _wait_ns: int, _now: int) -> None:
        pass

    patch.object(Rest, "ask", ask).start()


def _deadline_is_forgotten() -> None:
    def govern(call: Call, scope: trio.CancelScope) -> None:
        call.scope = scope

    patch.object(Call, "govern", govern).start()


MUTANTS: Mapping[str, Plant] = {
    "the gate lets losers live": _gate_lets_losers_live,
    "a loser is delivered, too": _losers_are_delivered,
    "content is lost at the commit": _content_is_lost_at_the_commit,
    "the race forgets to cancel": _race_forgets_to_cancel,
    "the purse takes two tokens": _purse_takes_two,
    "nobody asks the purse": _purse_is_not_asked,
    "who is cancelled has failed": _cancelled_counts_as_failed,
    "seams are not told": _seams_are_not_told,
    "a repetition is delivered": _repetitions_are_delivered,
    "a wait that was asked for is forgotten": _retry_after_is_forgotten,
    "a deadline is forgotten": _deadline_is_forgotten,
    "a slot is kept": _slots_are_kept,
}


def main(name: str, seed: str) -> int:
    """Plant one defect and look for it; tell whether it was found in time."""
    MUTANTS[name]()
    began = time.monotonic()
    number = calls = 0
    while (took := time.monotonic() - began) < SECONDS:
        series = draw(f"{seed}/{number}")
        calls += len(series.calls)
        error = failure_of(series)
        if error is not None:
            took = time.monotonic() - began
            print(f"{name}: found in {took:.1f} s, after {calls} calls (series {seed}/{number}):")
            print(f"  {name_of(error)}", flush=True)
            return 0
        number += 1
    print(f"{name}: NOT found in {took:.1f} s, {calls} calls", flush=True)
    return 1


def hunt(names: Sequence[str], seed: str) -> int:
    """Look for each planted defect, in a process of its own; tell whether all were found."""
    command = [sys.executable, "-m", "tests.campaign.mutants"]
    done = [
        subprocess.run([*command, name, seed], cwd=_ROOT, check=False)  # noqa: S603 - ours
        for name in names
    ]
    return max(each.returncode for each in done)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
