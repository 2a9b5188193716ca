"""A short form of benchmarks/simulate_tail.py, with bounds that leave room for chance."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from benchmarks import simulate_tail as tail
from benchmarks.tail_model import Outage, Workload
from benchmarks.tail_plot import picture
from benchmarks.tail_simulation import Setting, Simulation
from polygateway import HedgePolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.simulate_tail import Rows
    from benchmarks.tail_simulation import Record
    from polygateway.policies import Winner

SECOND = 1_000_000_000
CALLS = 4000


def simulated(
    setting: Setting, workload: Workload | None = None, *, calls: int = CALLS, seed: int = 1
) -> Sequence[Record]:
    return Simulation(workload or Workload(), setting, calls=calls, seed=seed).run()


@pytest.fixture(scope="module")
def usual() -> Rows:
    """Give the summaries of the usual workload."""
    return {name: tail.summarise(simulated(setting)) for name, setting in tail.SETTINGS.items()}


def test_the_same_seed_gives_the_same_calls_and_another_one_others() -> None:
    one, again, other = (simulated(Setting(), calls=500, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_without_hedging_and_watchdogs_a_call_takes_what_its_stream_takes() -> None:
    # No stalls and no pauses: a first content, and then the answer flows.
    workload = Workload(stall_share=0, pause_share=0)
    for record in simulated(tail.SETTINGS[tail.PLAIN], workload):
        assert (record.attempts, record.failed) == (1, False)
        assert record.flowed == record.length
        assert 3 * SECOND <= record.length <= 20 * SECOND
        assert record.length < record.took < record.length + 30 * SECOND


def test_the_primary_attempt_is_the_same_whatever_else_is_done() -> None:
    # So what is compared differs by hedging, not by luck.
    plain = simulated(tail.SETTINGS[tail.PLAIN])
    hedged = simulated(tail.SETTINGS[tail.COMPLETE])
    untouched = [(one, two) for one, two in zip(plain, hedged, strict=True) if two.attempts == 1]
    assert len(untouched) > 0.9 * CALLS
    assert all(one.took == two.took for one, two in untouched)


def test_the_workload_is_the_one_that_is_published(usual: Rows) -> None:
    # The median of the whole is about 1.6 + 11.5 s and a second of pauses and stalls in the middle.
    assert usual[tail.PLAIN].p50 == pytest.approx(14.1, abs=0.5)
    # Of 5 % the 80th percentile: 55 s * exp(0.8 * 0.84) is 108 s, beside some 14 s.
    assert usual[tail.PLAIN].p99 == pytest.approx(122, abs=15)


def test_hedging_takes_most_of_the_tail_away_and_costs_little(usual: Rows) -> None:
    plain, complete = usual[tail.PLAIN], usual[tail.COMPLETE]
    assert complete.p99 < 0.33 * plain.p99
    assert complete.p50 <= plain.p50
    assert complete.requests < 0.11
    assert complete.tokens < 0.035
    assert complete.failed == 0


def test_with_first_complete_the_longest_calls_are_shorter_still(usual: Rows) -> None:
    assert usual[tail.FIRST_COMPLETE].p999 < 0.25 * usual[tail.PLAIN].p999
    assert usual[tail.FIRST_COMPLETE].tokens < 0.035


def test_a_delivered_stream_is_rescued_without_writing_anything_twice(usual: Rows) -> None:
    assert usual[tail.CONTINUE].p99 < 0.28 * usual[tail.PLAIN].p99
    assert usual[tail.CONTINUE].tokens < 0.001
    assert usual[tail.CONTINUE].failed == 0


def test_a_stream_that_is_not_rescued_waits_or_breaks() -> None:
    records = simulated(Setting(until="content"))
    assert any(record.failed for record in records)
    assert all(record.hedges["stall"] == 0 for record in records)


@pytest.mark.parametrize("share", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("winner", ["first-delivered", "first-complete"])
def test_where_most_streams_stall_everywhere_the_purse_bounds_what_is_started(
    share: float, winner: Winner
) -> None:
    setting = Setting(hedge=HedgePolicy(winner=winner))
    records = simulated(setting, Workload(stall_share=share), calls=600)
    extra = sum(record.attempts - 1 for record in records)
    assert extra > 0.15 * 600
    assert tail.overdrawn(records, setting) <= 0


@pytest.mark.parametrize("target", [0, 1])
def test_in_an_outage_calls_are_as_quick_as_ever_after_half_a_minute(target: int) -> None:
    outage = Outage(targets={target}, every_s=1e9, begins_s=600, lasts_s=600)
    workload = Workload(slowness=(1, 1), outage=outage)
    simulation = Simulation(workload, Setting(), calls=CALLS, seed=1)
    records = simulation.run()
    before, later = (
        tail.summarise([each for each in records if begin <= each.begun / SECOND < end])
        for begin, end in ((0, 600), (630, 1200))
    )
    assert later.p99 < 2 * before.p99
    assert tail.overdrawn(records, simulation.setting) <= 0
    # The sick one is found out, and found to be well again.
    standings = [each.health.standing(records[-1].begun) for each in simulation.candidates]
    assert standings == ["healthy", "healthy"]


# What is told of it


@pytest.mark.parametrize(
    ("share", "time"), [(0.001, 1), (0.5, 50), (0.501, 51), (0.99, 99), (0.999, 100), (1.0, 100)]
)
def test_a_quantile_is_what_that_share_of_the_calls_takes_at_most(share: float, time: int) -> None:
    assert tail.quantile(range(1, 101), share) == time


def test_the_picture_shows_each_curve_with_its_name(usual: Rows) -> None:
    names = (tail.PLAIN, tail.OFF, tail.COMPLETE, tail.CONTINUE)
    drawn = ET.fromstring(picture({name: usual[name].curve for name in names}))  # noqa: S314 - ours
    written = {each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"no hedging", "complete()", "stream(), continue"} <= written
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}polyline"))) == 4


def test_a_table_has_a_row_for_each_summary(usual: Rows) -> None:
    lines = tail.table("of 4000 calls", usual).splitlines()
    assert lines[0].startswith("| of 4000 calls | p50 | p95 | p99 | p99.9 |")
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {name}" for name in usual]
    assert len({line.count("|") for line in lines}) == 1
