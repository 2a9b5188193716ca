"""When an attempt counts as silent."""

from __future__ import annotations

import pytest

from polygateway.core.latency import Latency
from polygateway.core.targets import Candidate
from polygateway.core.thresholds import Thresholds
from polygateway.core.units import ns
from polygateway.policies import HedgePolicy
from tests.core.driver import START

AUTO = HedgePolicy(after_s="auto", stall_after_s="auto")


def latency_of(first_s: float | None = None, *, count: int = 60, silence_s: float = 0) -> Latency:
    """Give what is learned of a target that always takes as long, and how long it always stops."""
    latency = Latency()
    for _ in range(count):
        if first_s is not None:
            latency.first_content(ns(first_s), START)
        if silence_s:
            latency.silence(ns(silence_s), START)
    return latency


def thresholds_of(policy: HedgePolicy, *latencies: Latency) -> Thresholds:
    return Thresholds(policy, [Candidate(latency=latency) for latency in latencies], START)


def after_s(policy: HedgePolicy, *latencies: Latency) -> list[float]:
    thresholds = thresholds_of(policy, *latencies)
    return [thresholds.after_ns(target) / 1e9 for target in range(len(latencies))]


def stall_after_s(
    policy: HedgePolicy, target: int, progress_s: float, *latencies: Latency
) -> float:
    thresholds = thresholds_of(policy, *latencies)
    return thresholds.stall_after_ns(target, ns(progress_s)) / 1e9


def test_what_is_configured_holds_for_every_target_whatever_was_learned() -> None:
    policy = HedgePolicy(after_s=7, stall_after_s=3)
    latencies = [latency_of(1, silence_s=30), latency_of()]
    assert after_s(policy, *latencies) == [7, 7]
    for target in (0, 1):
        for progress in (0, 100):
            assert stall_after_s(policy, target, progress, *latencies) == 3


def test_until_it_is_learned_both_are_five_seconds() -> None:
    assert after_s(AUTO, Latency(), latency_of(1, count=59)) == [5, 5]
    assert stall_after_s(AUTO, 0, 0, Latency(), Latency()) == 5
    assert stall_after_s(AUTO, 0, 0, latency_of(silence_s=30, count=19), Latency()) == 5


def test_each_target_has_a_first_content_of_its_own() -> None:
    usual, slow = latency_of(1), latency_of(4)
    learned = [latency.after_ns(START) for latency in (usual, slow)]
    assert None not in learned
    assert after_s(AUTO, usual, slow, Latency()) == [*[(each or 0) / 1e9 for each in learned], 5]
    assert learned[0] != learned[1]


def test_what_is_learned_while_a_call_runs_does_not_change_what_its_first_content_may_take() -> (
    None
):
    latency = latency_of(1, count=59)
    thresholds = thresholds_of(AUTO, latency)
    assert thresholds.after_ns(0) == ns(5)
    latency.first_content(ns(1), START)
    assert latency.after_ns(START) is not None
    assert thresholds.after_ns(0) == ns(5)


# What a new start would cost: the first content of the target that it would go to, and what was
# generated so far.


def cost_s(target: int, progress_s: float, *latencies: Latency) -> float:
    """Find out what a new start is taken to cost by what is asked of the target's latency."""
    asked: list[int] = []

    class Asked(Latency):
        def stall_after_ns(self, cost_ns: int, now: int) -> int | None:
            asked.append(cost_ns)
            assert now == START
            return ns(4.5)

    known = list(latencies)
    known[target] = Asked()
    assert stall_after_s(AUTO, target, progress_s, *known) == 4.5
    return asked[0] / 1e9


@pytest.mark.parametrize(("target", "rival_s"), [(0, 4), (1, 1), (2, 1)])
def test_a_new_start_costs_the_usual_first_content_of_another_target_and_what_is_lost(
    target: int, rival_s: float
) -> None:
    latencies = [latency_of(1), latency_of(4), latency_of(9)]
    assert cost_s(target, 6, *latencies) == rival_s + 6


def test_with_a_single_target_it_costs_that_targets_own() -> None:
    class Own(Latency):
        def stall_after_ns(self, cost_ns: int, now: int) -> int | None:
            return cost_ns

    own = Own()
    for _ in range(5):
        own.first_content(ns(2), START)
    assert stall_after_s(AUTO, 0, 1, own) == 3


def test_a_first_content_that_is_not_known_is_taken_to_be_1_6_s() -> None:
    assert cost_s(0, 1, Latency(), latency_of(9, count=4)) == 2.6


@pytest.mark.parametrize(
    ("silence_s", "waited_s"),
    [
        # So long a stop is worth a new start as soon as it is noticed.
        (300, 2),
        # So short a one never is, so that it is waited for as long as is ever waited.
        (2.5, 10),
    ],
)
def test_what_was_learned_of_its_silences_governs_the_next_one(
    silence_s: float, waited_s: float
) -> None:
    latencies = latency_of(1, silence_s=silence_s), latency_of(1)
    assert stall_after_s(AUTO, 0, 2, *latencies) == waited_s
