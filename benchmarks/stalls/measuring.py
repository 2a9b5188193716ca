"""Lets every system make the same calls, one system after the other, again and again."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import attrs

from ..speed.serving import serving
from .fates import SCENARIOS
from .jobs import Job, Outcome
from .processes import Worker, working

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from ..speed.serving import Upstream
    from .plan import Plan

AT_ONCE = 8
"""Calls at a time: with more, the dearest systems would need most of a core."""

_CALM = Job(scenario="calm", seed=0, calls=AT_ONCE, at_once=AT_ONCE)


@attrs.frozen(kw_only=True)
class Batch:
    """Some calls that a system made, one after the other."""

    system: str
    scenario: str
    seed: int
    requests: int
    """How many of them the provider had for these calls."""

    outcome: Outcome


def measure(plan: Plan) -> Iterator[Batch]:
    """Measure; of all systems one is at work at a time."""
    with serving("benchmarks.stalls.fates") as upstream, ExitStack() as stack:
        workers = {
            name: stack.enter_context(_ready(name, upstream.base_url, faster))
            for name, faster in _paces(plan).items()
        }
        for seed in plan.seeds:
            for scenario, names in plan.systems.items():
                job = Job(scenario=scenario, seed=seed, calls=plan.calls, at_once=AT_ONCE)
                for name in _rotated(names, seed):
                    yield _batch(workers[name], name, job, upstream)


def _rotated(names: Sequence[str], seed: int) -> Sequence[str]:
    """Let another system be the first, so that two measurements side by side are out of step."""
    first = seed % len(names)
    return [*names[first:], *names[:first]]


def _paces(plan: Plan) -> Mapping[str, float]:
    """Give how fast the time of each system is: as in its scenarios, which are alike in that."""
    return {
        name: SCENARIOS[scenario].faster
        for scenario, names in plan.systems.items()
        for name in names
    }


@contextmanager
def _ready(name: str, url: str, faster: float) -> Generator[Worker]:
    """Run a system that has made calls: the first ones import what is imported late."""
    with working(name, url, faster=faster) as worker:
        worker.do(_CALM)
        yield worker


def _batch(worker: Worker, name: str, job: Job, upstream: Upstream) -> Batch:
    before = _requests(upstream)
    outcome = worker.do(job)
    return Batch(
        system=name,
        scenario=job.scenario,
        seed=job.seed,
        requests=_requests(upstream) - before,
        outcome=outcome,
    )


def _requests(upstream: Upstream) -> int:
    return sum(upstream.status()["requests"].values())
