from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from polygateway.core.health import Health
from polygateway.core.order import RANKS, drawn, lined_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polygateway.stats import Standing

NOW = 10**12

# Drawn


def expected(order: Sequence[int], weights: Sequence[float]) -> float:
    """Give the chance of an order when each next position is drawn by the weight that is left."""
    left, chance = sum(weights), 1.0
    for position in order:
        chance *= weights[position] / left
        left -= weights[position]
    return chance


def midpoints(count: int) -> list[float]:
    """Give numbers that lie evenly between 0 and 1."""
    return [(each + 0.5) / count for each in range(count)]


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (1, 99), (0.3, 0.6)])
def test_the_first_of_two_is_drawn_by_its_weight(weights: tuple[float, float]) -> None:
    # Not at random: over all pairs of shares, which is an integral.
    grid = midpoints(400)
    firsts = Counter(drawn(weights, shares)[0] for shares in itertools.product(grid, grid))
    assert firsts[0] / 400**2 == pytest.approx(weights[0] / sum(weights), abs=0.004)


@pytest.mark.parametrize("weights", [(1, 1, 1), (3, 2, 1), (8, 1, 1)])
def test_every_order_of_three_is_drawn_by_the_weights_that_are_left(
    weights: tuple[float, float, float],
) -> None:
    grid = midpoints(40)
    found = Counter(tuple(drawn(weights, shares)) for shares in itertools.product(grid, repeat=3))
    for order in itertools.permutations(range(3)):
        assert found[order] / 40**3 == pytest.approx(expected(order, weights), abs=0.02)


def test_a_hundred_thousand_draws_follow_the_weights() -> None:
    weights, chance, count = (5, 3, 1, 1), random.Random(5), 100_000
    found = Counter(tuple(drawn(weights, [chance.random() for _ in weights])) for _ in range(count))
    chi_square = sum(
        (found[order] - count * p) ** 2 / (count * p)
        for order in itertools.permutations(range(4))
        if (p := expected(order, weights))
    )
    # With 23 degrees of freedom this is exceeded once in a thousand times.
    assert chi_square < 49.73


@given(st.data(), st.integers(1, 6))
def test_every_position_is_drawn_once(data: st.DataObject, count: int) -> None:
    weights = data.draw(st.lists(st.floats(1e-300, 1e300), min_size=count, max_size=count))
    shares = st.floats(0, 1, exclude_max=True)
    order = drawn(weights, data.draw(st.lists(shares, min_size=count, max_size=count)))
    assert sorted(order) == list(range(count))


def test_the_largest_share_is_not_the_end_of_the_world() -> None:
    assert drawn([1, 1], [math.nextafter(1, 0), 0.5]) == [1, 0]


# Lined up


def healthy() -> Health:
    return Health()


def degraded() -> Health:
    health = Health()
    for at in range(NOW - 10, NOW):
        health.launched(at)
        health.fell_silent(at, at)
    return health


def rate_limited() -> Health:
    health = Health()
    health.rest.ask(1000, NOW)
    return health


def opened(at: int = NOW) -> Health:
    health = Health()
    for launched in range(at - 5, at):
        health.launched(launched)
        health.failed(launched, launched, was_silent=False)
    return health


def due() -> Health:
    """Give an open one that is to be probed."""
    return opened(NOW // 2)


KINDS: list[Callable[[], Health]] = [healthy, degraded, rate_limited, opened, due]


def standings(healths: Sequence[Health]) -> list[Standing]:
    return [health.standing(NOW) for health in healths]


def test_a_healthy_target_is_better_than_a_slow_one_than_one_that_rests_than_a_broken_one() -> None:
    ranked: list[Standing] = ["healthy", "degraded", "rate_limited", "open"]
    assert sorted(RANKS, key=RANKS.__getitem__) == ranked
    assert standings([healthy(), degraded(), rate_limited(), opened()]) == ranked


def test_the_order_stays_while_all_are_healthy() -> None:
    assert lined_up([2, 0, 1], [healthy(), healthy(), healthy()], NOW) == [2, 0, 1]


@pytest.mark.parametrize("ill", [degraded, rate_limited, opened])
def test_a_primary_that_is_ill_is_moved_behind_the_healthy_ones(ill: Callable[[], Health]) -> None:
    assert lined_up([0, 1, 2], [ill(), healthy(), healthy()], NOW) == [1, 2, 0]


def test_a_primary_that_is_due_for_a_probe_is_the_first() -> None:
    assert lined_up([0, 1], [due(), healthy()], NOW) == [0, 1]


def test_a_probe_is_not_worth_leaving_a_healthy_primary() -> None:
    assert lined_up([0, 1, 2], [healthy(), due(), healthy()], NOW) == [0, 2, 1]


def test_with_none_admitted_the_one_of_which_the_best_is_held_is_tried() -> None:
    assert lined_up([0, 1, 2], [opened(), rate_limited(), degraded()], NOW) == [2, 1, 0]
    assert lined_up([0], [opened()], NOW) == [0]


def test_every_call_passes_by_what_is_degraded_wherever_that_stands() -> None:
    for order in ([0, 1], [1, 0]):
        healths = [degraded(), healthy()]
        later = NOW + 10_000_000_000
        assert not healths[0].admits(later)
        lined_up(order, healths, NOW)
        assert healths[0].admits(later)


def test_all_mixtures_of_three_targets() -> None:
    orders = list(itertools.permutations(range(3)))
    for kinds, order in itertools.product(itertools.product(KINDS, repeat=3), orders):
        healths = [kind() for kind in kinds]
        found = lined_up(order, healths, NOW)
        ranks = [RANKS[each] for each in standings(healths)]
        admitted = [each for each in order if healths[each].admits(NOW)]

        assert sorted(found) == [0, 1, 2]
        if admitted:
            assert found[0] == admitted[0]
        else:
            assert ranks[found[0]] == min(ranks)
        # All others: the better ones first, and equals as they stood.
        rest = [(ranks[each], order.index(each)) for each in found[1:]]
        assert rest == sorted(rest)
