"""What the comparison of systems under stalls makes of what it measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from benchmarks.speed.about import about
from benchmarks.speed.document import DOCUMENT
from benchmarks.stalls import results
from benchmarks.stalls.__main__ import KEPT
from benchmarks.stalls.goals import RULES, judge
from benchmarks.stalls.jobs import Outcome
from benchmarks.stalls.measuring import Batch
from benchmarks.stalls.plan import FULL, SHORT, Plan
from benchmarks.stalls.report import scenario_table, tables, write_report
from benchmarks.stalls.results import Results
from benchmarks.stalls.summary import Summary, compare, summarise
from benchmarks.stalls.systems import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def batch(
    took_s: Sequence[float],
    *,
    system: str = "complete",
    scenario: str = "A",
    seed: int = 1,
    extra: int = 0,
    errors: dict[int, str] | None = None,
    wrong: Sequence[int] = (),
) -> Batch:
    outcome = Outcome(took_s=took_s, errors=errors or {}, wrong=wrong, wall_s=2.0, cpu_s=0.5)
    requests = len(took_s) + extra
    return Batch(system=system, scenario=scenario, seed=seed, requests=requests, outcome=outcome)


def summary(*took_s: float, extra: int = 0, wrong: int = 0) -> Summary:
    return Summary(
        times=took_s,
        errors={"Lost": took_s.count(math.inf)} if math.inf in took_s else {},
        wrong=wrong,
        extra=extra,
        core=0.1,
    )


def test_batches_of_a_system_in_a_scenario_are_one() -> None:
    found = summarise(
        [
            batch([0.3, 0.4], extra=1, wrong=[1]),
            batch([0.5], system="openai"),
            batch([0.6, 0.7], seed=2, errors={0: "TimeoutError"}),
        ]
    )

    assert [*found] == [("A", "complete"), ("A", "openai")]
    ours = found["A", "complete"]
    assert ours.times == [0.3, 0.4, math.inf, 0.7]
    assert (ours.errors, ours.wrong, ours.extra, ours.core) == ({"TimeoutError": 1}, 1, 1, 0.25)
    assert ours.part(1) == 0.25


def test_times_of_the_faster_scenario_are_given_as_usual() -> None:
    [found] = summarise([batch([0.5], scenario="usual")]).values()

    assert found.times == [12.5]


def test_a_call_without_an_answer_takes_for_ever() -> None:
    found = summary(*[1.0] * 98, math.inf, math.inf)

    assert found.quantile(0.98) == 1.0
    assert math.isinf(found.quantile(0.99))


def test_a_system_compares_with_itself_as_equal() -> None:
    found = summary(*map(float, range(1, 500)))
    ratio = compare(found, found, 0.99)

    assert (ratio.value, ratio.least, ratio.most) == (1, 1, 1)


def test_a_comparison_says_how_sure_it_is() -> None:
    ours = summary(*(1.0 if number % 100 else 3.0 for number in range(500)))
    ratio = compare(ours, summary(*[2.0] * 500), 0.99)

    assert ratio.value == 0.5
    assert (ratio.least, ratio.most) == (0.5, 1.5)


def test_against_one_that_gives_no_answer_anything_is_nothing() -> None:
    assert compare(summary(1.0), summary(math.inf), 0.5).value == 0


@pytest.mark.parametrize("other", [1.0, math.inf])
def test_one_that_gives_no_answer_is_never_as_good(other: float) -> None:
    assert math.isinf(compare(summary(math.inf), summary(other), 0.5).value)


def alike(ours: Summary, peer: Summary) -> dict[tuple[str, str], Summary]:
    """Give the same figures for all of ours, and for all peers."""
    return {
        (rule.scenario, name): ours if name in rule.ours else peer
        for rule in RULES
        for name in (*rule.ours, *rule.peers)
    }


def test_goals_are_met_by_systems_that_are_far_better() -> None:
    judged = judge(alike(summary(1.0, extra=1), summary(9.0, extra=2)))

    assert {each.scenario for each in judged} == {"A", "B", "C", "D", "usual"}
    assert all(each.is_met for each in judged)


def test_a_tie_is_enough_in_one_scenario_only() -> None:
    judged = judge(alike(summary(1.0, extra=1), summary(1.0, extra=1)))
    quantiles = [each for each in judged if each.ratio is not None]

    assert {each.scenario for each in quantiles if each.is_met} == {"A"}
    assert {each.scenario for each in quantiles if not each.is_met} == {"B", "C", "D", "usual"}


@pytest.mark.parametrize("bad", [summary(1.0, 1.0, wrong=1), summary(*[0.1] * 999, math.inf)])
def test_no_call_of_ours_may_go_wrong(bad: Summary) -> None:
    judged = judge(alike(bad, summary(*[9.0] * len(bad.times), extra=9)))

    assert [each.value for each in judged if not each.is_met] == [1] * sum(
        len(rule.ours) for rule in RULES
    )


def test_it_is_the_best_peer_that_counts() -> None:
    found = {("A", "complete"): summary(2.0, extra=3), ("A", "openai"): summary(8.0, extra=4)}
    first, *_ = judge(found | {("A", "langchain"): summary(4.0, extra=2)})

    assert first.value == 0.5
    assert "langchain" in first.what


def test_additional_requests_are_compared_with_those_of_the_best_peer() -> None:
    found = {("A", "complete"): summary(2.0, extra=3), ("A", "openai"): summary(8.0, extra=0)}
    _, requests, _ = judge(found | {("A", "langchain"): summary(4.0, extra=2)})

    assert (requests.value, requests.is_met) == (1.5, False)
    assert str(requests).startswith("MISSED A: polygateway complete(): additional requests")


@pytest.mark.parametrize("plan", [SHORT, FULL])
def test_whatever_is_measured_can_be_judged(plan: Plan) -> None:
    for scenario, names in plan.systems.items():
        [rule] = [rule for rule in RULES if rule.scenario == scenario]
        assert {*names} & {*rule.ours}
        assert {*names} & {*rule.peers}


def test_the_full_form_makes_two_thousand_calls_of_every_system() -> None:
    assert len(FULL.seeds) * FULL.calls >= 2000
    assert {name for names in FULL.systems.values() for name in names} == {*SYSTEMS}


def test_a_table_says_what_never_came() -> None:
    table = scenario_table("A", {("A", "openai"): summary(0.318, 0.32, math.inf, extra=1)})

    assert table.splitlines()[2] == (
        "| openai SDK | 0.32 | never | never | 33.3 % | 0.0 % | +33.3 % | 10 % |"
    )


def test_tables_are_of_what_was_measured() -> None:
    text = tables({("A", "openai"): summary(1.0), ("usual", "default-openai"): summary(20.0)})

    assert [line.split(" |")[0] for line in text.splitlines() if "p50" in line] == [
        "| A: a tenth stalls for 2 s",
        "| Everybody's defaults",
    ]


def full() -> Results:
    batches = [
        batch([0.3, 0.4], system=name, scenario=scenario)
        for scenario, names in FULL.systems.items()
        for name in names
    ]
    return Results(about(["trio"]), batches)


def test_what_is_kept_is_read_again_as_one(tmp_path: Path) -> None:
    kept = Results(about(["trio"]), [batch((0.3,), errors={0: "Lost"}), batch((0.5,), wrong=(0,))])
    for number, each in enumerate(kept.batches):
        results.write(Results(kept.about, [each]), tmp_path / "new" / f"{number}.json")

    assert results.read(sorted((tmp_path / "new").iterdir())) == kept


def test_a_document_is_filled_in_at_its_marks(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "Before.\n<!-- tail: about -->\nold\n<!-- /tail -->\nBetween.\n"
        "<!-- tail: A -->\n<!-- /tail -->\n<!-- tail: goals -->\n<!-- /tail -->\nAfter.\n"
    )
    write_report(full(), document)
    text = document.read_text()

    assert text.startswith("Before.\n<!-- tail: about -->\n")
    assert "old" not in text
    assert "2 calls of each system" in text
    assert "\n| A: a tenth stalls for 2 s |" in text
    assert "\n| goal |" in text
    assert text.endswith("\nAfter.\n")
    assert {path.name for path in tmp_path.iterdir()} == {
        "page.md",
        "page-stalls.svg",
        "page-defaults.svg",
    }


# The document that is published


def test_the_published_tables_and_pictures_are_those_of_the_kept_runs(tmp_path: Path) -> None:
    page = tmp_path / DOCUMENT.name
    page.write_text(DOCUMENT.read_text("utf-8"), "utf-8")
    write_report(results.read(sorted(KEPT.parent.glob("stalls-[0-9].json"))), page)
    written = list(tmp_path.iterdir())
    assert len(written) == 3
    for each in written:
        assert each.read_text("utf-8") == DOCUMENT.with_name(each.name).read_text("utf-8")
