"""What is learned of simulated targets is what it should be, and does what it is for."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.core.learning import (
    FIRST,
    FIRST_S,
    REGIMES,
    SEEDS,
    STALLING,
    TAILS,
    all_compared,
    contents,
    regime_row,
    statistics_row,
)

averaged = cache(all_compared)  # the same regimes are looked at from several sides

PAGE = Path(__file__).parents[2] / "docs/explanation/learned-thresholds.md"


def told(name: str) -> list[float]:
    """Give the numbers in the row of that name on the page about what is learned."""
    (row,) = re.findall(
        rf"^\| {re.escape(name)} \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    return numbers(row)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


@pytest.mark.parametrize("name", [name for name in TAILS if name != "none"])
def test_the_planned_share_of_hedges_is_met_and_survivors_only_would_miss_it(name: str) -> None:
    came = contents(TAILS[name])
    for seed, hedged in zip(SEEDS, came.censored, strict=True):
        assert 0.04 <= hedged.share <= 0.06, seed
        assert hedged.after_s == pytest.approx(came.percentile_95, rel=0.1), seed
    assert came.survivors.share > 0.1, "twice what is planned"
    assert came.survivors.after_s < 0.7 * came.percentile_95
    assert numbers(" ".join(came.row())) == pytest.approx(told(name), rel=0.05)


def test_without_a_tail_fewer_are_hedged_than_planned() -> None:
    came = contents(TAILS["none"])
    beyond = FIRST.beyond(3 * FIRST_S)
    assert beyond == pytest.approx(0.034, abs=0.001)
    for seed, hedged in zip(SEEDS, came.censored, strict=True):
        assert hedged.share == pytest.approx(beyond, rel=0.2), seed
        assert hedged.after_s == pytest.approx(3 * FIRST_S, rel=0.05), seed
    assert numbers(" ".join(came.row())) == pytest.approx(told("none"), rel=0.05)


@pytest.mark.parametrize("name", REGIMES)
def test_silences_cost_little_more_than_by_the_best_fixed_wait(name: str) -> None:
    came = averaged(REGIMES[name])
    best = min(came[rule].lost_s for rule in ("2 s", "5 s", "10 s"))
    assert came["hindsight"].lost_s < came["learned"].lost_s <= 1.12 * best
    assert numbers(" ".join(regime_row(came))) == pytest.approx(told(name), rel=0.05)


@pytest.mark.parametrize(
    ("rule", "regime", "times"),
    [
        ("2 s", "a batch each 2.4 s", 2.5),
        ("2 s", "pauses to think", 2.0),
        ("2 s", "few stalls, uneven pauses", 1.3),
        ("5 s", "an outage", 1.25),
        ("5 s", "pauses to think", 1.15),
        ("10 s", "an outage", 1.7),
        ("10 s", "the usual", 1.3),
        ("longest gap", "an outage", 6.0),
        ("longest gap", "the usual", 1.4),
    ],
)
def test_every_other_rule_costs_much_more_somewhere(rule: str, regime: str, times: float) -> None:
    came = averaged(REGIMES[regime])
    assert came[rule].lost_s > times * came["learned"].lost_s


@pytest.mark.parametrize("name", ["pauses to think", "a batch each 2.4 s"])
def test_after_an_outage_the_ordinary_pauses_are_learned_again(name: str) -> None:
    # In the outage every silence is hedged after 2 s, and all that is seen of a pause then is what
    # the hedges leave of it.
    came = averaged(REGIMES["an outage"], REGIMES[name])
    best = min(came[rule].lost_s for rule in ("2 s", "5 s", "10 s"))
    assert came["learned"].lost_s <= 1.12 * best
    assert came["learned"].wait_s > 3


@pytest.mark.parametrize("share", STALLING)
def test_percentiles_of_gaps_say_nothing_about_how_long_to_wait(share: float) -> None:
    row = numbers(" ".join(statistics_row(share)))
    of_all, exceed, of_longest, learned = row
    assert of_all < 0.5, "a harmless gap, whatever stalls there are"
    assert exceed == pytest.approx(2.3, abs=0.1), "1 % of 230 gaps"
    assert (of_longest > 20) == (share > 0.05), "what should be noticed became the normal case"
    assert learned < 2.5
    assert row == pytest.approx(told(f"{share:.0%}"), rel=0.05)
