"""How systems are run in their comparison under stalls."""

from __future__ import annotations

import asyncio  # noqa: TID251 - some of the systems run on it
import time
from typing import Literal

import pytest
import trio

from benchmarks.stalls.fates import Wish, answer
from benchmarks.stalls.jobs import Job, Outcome
from benchmarks.stalls.measuring import measure
from benchmarks.stalls.plan import Plan
from benchmarks.stalls.running import Together, Work, run
from benchmarks.stalls.worker import do

Loop = Literal["trio", "asyncio"]

loops = pytest.mark.parametrize("loop", ["trio", "asyncio"])


def now(loop: Loop) -> float:
    return trio.current_time() if loop == "trio" else asyncio.get_running_loop().time()


async def sleep(loop: Loop, seconds: float) -> None:
    if loop == "trio":
        await trio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


@loops
@pytest.mark.parametrize("faster", [1.0, 25.0])
def test_clocks_run_as_fast_as_they_are_told(loop: Loop, faster: float) -> None:
    async def program(together: Together) -> None:
        del together
        outer, begin, inner = time.perf_counter(), now(loop), time.perf_counter()
        await sleep(loop, faster / 100)
        inner, end, outer = time.perf_counter() - inner, now(loop), time.perf_counter() - outer
        # Both clocks tell nanoseconds, of the time since the machine was started.
        assert inner * faster - 1e-3 <= end - begin <= outer * faster + 1e-3

    run(loop, program, faster=faster)


@loops
def test_what_waits_is_woken_as_much_sooner(loop: Loop) -> None:
    async def program(together: Together) -> None:
        del together
        begin = now(loop)
        await sleep(loop, 36_000)  # otherwise it would take until tomorrow
        assert now(loop) - begin >= 36_000

    run(loop, program, faster=1e7)


@loops
def test_work_is_done_by_so_many_at_once(loop: Loop) -> None:
    counts: list[int] = []

    async def program(together: Together) -> None:
        at_work = 0

        async def work() -> None:
            nonlocal at_work
            at_work += 1
            await sleep(loop, 0.001)
            counts.append(at_work)

        await together(work, 5)

    run(loop, program, faster=1)

    assert counts == [5] * 5


async def one_by_one(work: Work, times: int) -> None:
    """Stand in for those who work together."""
    for _ in range(times):
        await work()


async def test_a_job_tells_what_came_of_each_call() -> None:
    asked: list[str] = []

    async def ask(prompt: str) -> str:
        asked.append(prompt)
        wish = Wish.read(prompt)
        if wish.call == 1:
            raise ConnectionResetError
        return "".join(answer(wish)) if wish.call != 2 else "Once upon a time"

    job = Job(scenario="A", seed=3, calls=5, at_once=2)
    outcome = await do(job, "complete", ask, one_by_one)

    assert asked == [str(Wish("A", 3, number, "complete")) for number in range(5)]
    assert (outcome.errors, outcome.wrong) == ({1: "ConnectionResetError"}, [2])
    assert len(outcome.took_s) == 5


def test_systems_in_their_processes_give_the_right_answers() -> None:
    names = ("complete", "first-complete", "continue")
    plan = Plan(systems={"calm": names, "B": ("complete",)}, seeds=[1], calls=4)
    batches = list(measure(plan))

    assert sorted((batch.scenario, batch.system) for batch in batches) == [
        ("B", "complete"),
        *(("calm", name) for name in sorted(names)),
    ]
    for batch in batches:
        assert isinstance(batch.outcome, Outcome)
        assert (batch.outcome.errors, batch.outcome.wrong) == ({}, ())
        assert batch.requests >= len(batch.outcome.took_s) == 4


def test_a_system_that_cannot_be_run_ends_the_measurement() -> None:
    with pytest.raises(KeyError):
        list(measure(Plan(systems={"nowhere": ("complete",)}, seeds=[1], calls=1)))
