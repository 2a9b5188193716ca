from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import pytest
import trio
from hypothesis import given, strategies as st

from polygateway import GatewayError, HedgePolicy, open_gateway
from polygateway.aggregates import BUCKET_FLOORS, Distribution
from polygateway.core.ledger import Ledger, TargetState
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    done,
    finish,
    hang,
    run_virtual,
    serve_memory,
    silence,
    status,
    usage,
)
from tests.scenario import NO_RETRY, complete, gateway_to

BOUND = 0.0109  # 1.09 %

if TYPE_CHECKING:
    from polygateway.aggregates import GatewayStats


@st.composite
def distributions(draw: st.DrawFn) -> Distribution:
    """Draw distributions that whole numbers might have left."""
    buckets = draw(st.dictionaries(st.integers(-64, 640), st.integers(1, 1000)))
    zeros = draw(st.integers(0, 5))
    if not buckets and not zeros:
        return Distribution()
    return Distribution(
        zero_count=zeros,
        buckets=buckets,
        sum=float(draw(st.integers(0, 10**9))),
        min=0.0 if zeros else 2 ** (min(buckets) / 32 + 0.01),
        max=2 ** (max(buckets) / 32 + 0.02) if buckets else 0.0,
    )


def test_the_bounds_are_the_greatest_floats_not_above_the_roots_of_two() -> None:
    assert len(BUCKET_FLOORS) == 32
    for step, floor in enumerate(BUCKET_FLOORS):
        above = math.nextafter(floor, math.inf)
        assert Fraction(floor) ** 32 <= 2**step < Fraction(above) ** 32


def test_of_nothing_there_is_neither_mean_nor_quantile_nor_extreme() -> None:
    nothing = Distribution()
    assert (nothing.count, nothing.sum) == (0, 0.0)
    assert nothing.mean is nothing.min is nothing.max is None
    assert [nothing.quantile(q) for q in (0, 0.5, 1)] == [None, None, None]


def test_the_mean_is_that_of_the_sum() -> None:
    seen = Distribution(zero_count=1, buckets={0: 2, 31: 1}, sum=5.0, min=0.0, max=2.0)
    assert (seen.count, seen.mean) == (4, 1.25)


@pytest.mark.parametrize("q", [-0.001, 1.001, math.nan, math.inf, -math.inf])
def test_a_share_that_is_none_is_refused(q: float) -> None:
    for seen in (Distribution(), Distribution(zero_count=1, min=0.0, max=0.0)):
        with pytest.raises(ValueError, match=rf"share from 0 to 1, not {q!r}$"):
            seen.quantile(q)


@pytest.mark.parametrize("index", [*range(-3, 70), -32_704, 32_767])
def test_whatever_is_in_a_bucket_is_told_to_within_the_bound(index: int) -> None:
    doublings, step = divmod(index, 32)
    # What is not extreme gets no help from the extremes.
    amid = Distribution(zero_count=1, buckets={index: 2}, min=0.0, max=math.inf)
    seen = amid.quantile(0.5)
    assert seen is not None
    lower = math.ldexp(BUCKET_FLOORS[step], doublings)
    for value in (math.nextafter(lower, math.inf), lower * 1.01, lower * 1.0218):
        assert abs(seen - value) <= BOUND * value


def test_a_quantile_counts_the_zeros_first() -> None:
    seen = Distribution(zero_count=5, buckets={31: 5}, sum=10.0, min=0.0, max=2.0)
    assert [seen.quantile(q) for q in (0, 0.25, 0.5)] == [0.0, 0.0, 0.0]
    assert seen.quantile(0.500001) == pytest.approx(2.0, rel=BOUND)
    assert seen.quantile(1) == pytest.approx(2.0, rel=BOUND)


def test_the_share_of_nothing_is_covered_by_the_least_value() -> None:
    seen = Distribution(buckets={0: 1, 32: 1}, sum=3.03, min=1.01, max=2.02)
    assert seen.quantile(0) == 1.01


@pytest.mark.parametrize("value", [1.001, 1.02])  # at either end of its bucket
def test_a_value_that_is_alone_is_given_exactly(value: float) -> None:
    alone = Distribution(buckets={0: 9}, sum=9 * value, min=value, max=value)
    assert [alone.quantile(q) for q in (0, 0.5, 1)] == [value, value, value]


@given(distributions(), st.lists(st.floats(0, 1)))
def test_quantiles_rise_and_lie_between_the_extremes(seen: Distribution, qs: list[float]) -> None:
    found = [seen.quantile(q) for q in sorted(qs)]
    if seen.min is None or seen.max is None:
        assert set(found) <= {None}
    else:
        values = [seen.min, *(value for value in found if value is not None), seen.max]
        assert len(values) == len(qs) + 2
        assert all(one <= two for one, two in pairwise(values))


@given(distributions(), distributions(), distributions())
def test_distributions_can_be_added_in_any_order(
    one: Distribution, two: Distribution, three: Distribution
) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + Distribution() == one
    assert (one + two).count == one.count + two.count


def test_adding_changes_neither_summand() -> None:
    one = Distribution(buckets={3: 1}, sum=1.1, min=1.1, max=1.1)
    before = attrs.evolve(one, buckets=dict(one.buckets))
    assert (one + one).buckets == {3: 2}
    assert one == before


# Whole calls


def stalling() -> ScriptedProvider:
    """Give a provider that sends a piece after 1 s, and falls silent."""
    return ScriptedProvider([silence(1), chunk("The t"), hang()])


def steady() -> ScriptedProvider:
    """Give a provider that answers 41 tokens in two pieces, 2 s apart, without a stall."""
    said = (chunk("The tide "), silence(1.9), chunk("turns."))
    return ScriptedProvider([silence(0.5), *said, usage(7, 41), finish(), done()])


def test_a_call_that_was_rescued_is_in_the_accounts_of_both_targets_and_of_its_model() -> None:
    async def main() -> GatewayStats:
        async with gateway_to({"eu": stalling(), "us": steady(), "apac": steady()}) as (gw, _):
            assert (await complete(gw)).text == "The tide turns."
            return gw.stats()

    stats = run_virtual(main)
    eu, us, apac = stats.targets.values()
    assert (eu.calls, us.calls, apac.calls) == (1, 1, 0)
    assert eu.attempts["primary"]["lost"] == us.attempts["hedge"]["won"] == 1
    # The hedge is due when eu has been silent for 5 s; half a second later us has content.
    assert (eu.stalled_calls, eu.stalls, eu.stall_s, eu.open_stall_s) == (1, 1, 0.0, 5.5)
    assert (eu.ttft_ms.max, eu.longest_silence_ms.max) == (1000.0, 5500.0)
    assert eu.cancel_to_closed_ms.count == 1
    # A token in vain for about a third of the winner's characters, and its prompt: estimates.
    assert (eu.wasted_input_tokens, eu.wasted_output_tokens) == (7, round(41 * 5 / 15))
    assert eu.wasted_tokens_estimated == 7 + 14
    assert (us.stalled_calls, us.generation_s, us.output_tokens) == (0, 1.9, 41)
    assert (us.ttft_ms.max, us.longest_silence_ms.max) == (500.0, 1900.0)
    assert us.tpot_mean_request_weighted == us.itl_mean_token_weighted == 1900 / 40
    m = stats.models["m"]
    assert (m.calls, m.outcomes["complete"], m.hedges_started, m.hedges_won) == (1, 1, 1, 1)
    assert (m.stalled_calls, m.generation_s, m.ttft_ms.max) == (0, 1.9, 6500.0)
    assert m.budget_level == 9.0  # 10, filled up by the call, less the hedge


def test_a_call_counts_when_it_ends_however_it_ends() -> None:
    async def main() -> None:
        eu = ScriptedProvider(status(500), answer("Yes."), [chunk("No"), hang()])
        async with gateway_to({"eu": eu}, retry=NO_RETRY) as (gw, _):
            with pytest.raises(GatewayError):
                await gw.complete("x", model="m")
            assert gw.stats().models["m"].outcomes == {"complete": 0, "failed": 1, "cancelled": 0}
            async with gw.stream("x", model="m") as stream:
                assert gw.stats().models["m"].calls == 1
                assert [chunk.text async for chunk in stream] == ["Yes.", ""]
            assert gw.stats().models["m"].outcomes == {"complete": 1, "failed": 1, "cancelled": 0}
            with trio.move_on_after(1):
                await gw.complete("x", model="m")
            assert gw.stats().models["m"].outcomes == {"complete": 1, "failed": 1, "cancelled": 1}
            primaries = gw.stats().targets["eu"].attempts["primary"]
            assert primaries == {"won": 1, "lost": 0, "failed": 1, "cancelled": 1}

    run_virtual(main)


def test_a_hedge_that_was_refused_is_counted_with_the_reason_why() -> None:
    async def main() -> GatewayStats:
        slow = ScriptedProvider([silence(12), *answer("Late.")])
        only = HedgePolicy(max_attempts=1)
        async with gateway_to({"eu": slow, "us": steady()}, hedge=only) as (gw, _):
            assert (await complete(gw)).text == "Late."
            return gw.stats()

    m = run_virtual(main).models["m"]
    assert m.hedges_refused["max_attempts"] == 2  # after 5 s and after 10 s
    assert sum(m.hedges_refused.values()) == 2
    assert m.hedges_started == 0


def test_what_hedging_does_is_told_by_the_calls_that_chance_held_out() -> None:
    async def main() -> GatewayStats:
        # A piece after 1 s, and the rest of it 30 s later; us answers at once when it is asked.
        stalling = ScriptedProvider([silence(1), chunk("The "), silence(30), *answer("tide.")])
        us = ScriptedProvider(answer("The tide."))
        async with gateway_to({"eu": stalling, "us": us}) as (gw, _):
            for policy in (
                HedgePolicy(holdout=0),
                HedgePolicy(holdout=1),
                HedgePolicy(enabled=False, holdout=1),
            ):
                assert (await complete(gw, hedge_policy=policy)).text == "The tide."
            return gw.stats()

    m = run_virtual(main).models["m"]
    assert (m.calls, m.hedges_won) == (3, 1)
    assert (m.hedged.calls, m.hedged.total_ms.max, m.hedged.ttft_ms.max) == (1, 6000, 6000)
    assert (m.holdout.calls, m.holdout.total_ms.max, m.holdout.ttft_ms.max) == (1, 31_000, 1000)


def test_what_is_held_of_a_target_is_told() -> None:
    async def main() -> None:
        eu = ScriptedProvider(status(429, "not now", {"retry-after": "20"}))
        async with gateway_to({"eu": eu, "us": steady()}) as (gw, _):
            assert gw.stats().targets["eu"].standing == "healthy"
            await complete(gw)
            targets = gw.stats().targets
            assert [target.standing for target in targets.values()] == ["rate_limited", "healthy"]
            assert [target.after_s for target in targets.values()] == [None, None]  # too few yet
            await trio.sleep(20)
            assert gw.stats().targets["eu"].standing == "healthy"

    run_virtual(main)


def test_what_is_learned_of_a_target_is_told_once_it_is_enough() -> None:
    async def main() -> list[float | None]:
        eu = ScriptedProvider([silence(1), *answer("Yes.")])
        learned: list[float | None] = []
        async with gateway_to({"eu": eu}) as (gw, _):
            for _ in range(60):
                learned.append(gw.stats().targets["eu"].after_s)
                await complete(gw)
            return [*learned, gw.stats().targets["eu"].after_s]

    *early, last = run_virtual(main)
    assert early == [None] * 60
    assert last is not None
    assert last >= 1  # what it has always taken


def test_distributions_forget_what_is_older_than_five_minutes_and_counts_do_not() -> None:
    async def main() -> None:
        async with gateway_to({"eu": steady()}) as (gw, _):
            await complete(gw)
            assert gw.stats().targets["eu"].ttft_ms.count == 1
            await trio.sleep(301)
            eu = gw.stats().targets["eu"]
            assert (eu.ttft_ms.count, eu.calls) == (0, 1)

    run_virtual(main)


def test_a_ledger_can_be_kept_by_an_instrument_as_well() -> None:
    async def main() -> None:
        network = serve_memory({"eu": stalling(), "us": steady()})
        mine = Ledger(["eu", "us"], ["m"])
        async with (
            network as net,
            open_gateway(net.config(), connect=net.connect, instruments=[mine]) as gw,
        ):
            for _ in range(3):
                await complete(gw)
            now = round(trio.current_time() * 1e9)
            stats = gw.stats()
            levels = {"m": stats.models["m"].budget_level}
            states = {
                name: TargetState(standing=target.standing, after_s=target.after_s)
                for name, target in stats.targets.items()
            }
            assert mine.snapshot(now, levels, states) == stats

    run_virtual(main)
