"""A system in a process of its own, which does one job after the other.

``python -m benchmarks.stalls.worker SYSTEM URL FASTER`` reads a job from each line of its input and
writes a line with what came of it.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import attrs
import cattrs

from .fates import Wish, answer
from .jobs import Job, Outcome
from .running import run
from .systems import SYSTEMS

if TYPE_CHECKING:
    from .running import Together
    from .systems import Ask


async def do(job: Job, name: str, ask: Ask, together: Together) -> Outcome:
    """Make the calls of a job."""
    took_s, errors, wrong = [0.0] * job.calls, dict[int, str](), list[int]()
    wishes = (Wish(job.scenario, job.seed, number, name) for number in range(job.calls))

    async def work() -> None:
        for wish in wishes:  # of which each is made by one of those who work
            right, begun = "".join(answer(wish)), time.perf_counter()
            try:
                if await ask(str(wish)) != right:
                    wrong.append(wish.call)
            except Exception as error:  # noqa: BLE001 - whatever it is, there is no answer
                errors[wish.call] = type(error).__name__
            took_s[wish.call] = round(time.perf_counter() - begun, 4)

    wall, cpu = time.perf_counter(), time.process_time()
    await together(work, job.at_once)
    wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    return Outcome(took_s=took_s, errors=errors, wrong=wrong, wall_s=wall_s, cpu_s=cpu_s)


def main() -> None:
    """Do jobs until there are no more."""
    _, name, url, faster = sys.argv
    system = SYSTEMS[name]
    opened = system.load()

    async def program(together: Together) -> None:
        # Nothing else runs while a job is waited for. One event loop does them all, since some
        # libraries keep connections for as long as their process lives.
        for line in sys.stdin:
            async with opened(url) as ask:
                outcome = await do(cattrs.structure(json.loads(line), Job), name, ask, together)
            print(json.dumps(attrs.asdict(outcome)), flush=True)

    run(system.loop, program, faster=float(faster))


if __name__ == "__main__":
    main()
