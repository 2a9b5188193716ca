"""Where calls go, by weights and by what is known of the targets, and what hedges may cost."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import trio

from polygateway import (
    Config,
    Gateway,
    GatewayClosed,
    GatewayError,
    HedgePolicy,
    RetryPolicy,
    Target,
    WeightedTarget,
    open_gateway,
)
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    done,
    finish,
    hang,
    headers,
    run_virtual,
    serve_memory,
    silence,
    status,
    usage,
)
from tests.scenario import gateway_to

if TYPE_CHECKING:
    from polygateway.testing import Request, Script, Step

WHOLE = answer("Once.")
LATE_ONCE_IN_THREE: list[Script] = [[silence(8), *WHOLE], WHOLE, WHOLE]
AT_ONCE = RetryPolicy(backoff_base_s=0)


def sick_until(at_s: float, *, like: list[Step]) -> ScriptedProvider:
    """Give a provider that is sick for a while."""

    def script(_: Request) -> list[Step]:
        return like if trio.current_time() < at_s else list(WHOLE)

    return ScriptedProvider(script)


async def targets_of(gw: Gateway, calls: int, every_s: float) -> list[str]:
    """Give the name of the target that answered each call."""
    names: list[str] = []
    for _ in range(calls):
        names.append((await gw.complete("x", model="m")).target)
        await trio.sleep(every_s)
    return names


def started_at(provider: ScriptedProvider) -> list[float]:
    return [exchange.started_at for exchange in provider.log]


# ---------------------------------------------------------------- failures


def test_a_target_that_fails_is_only_probed_and_is_the_primary_again_when_it_recovers() -> None:
    async def main() -> None:
        eu = sick_until(60, like=list(status(500)))
        us = ScriptedProvider(WHOLE)
        async with gateway_to({"eu": eu, "us": us}, retry=AT_ONCE) as (gw, _):
            names = await targets_of(gw, calls=40, every_s=4)
            standing = gw.stats().targets["eu"].standing
        assert set(names[:15]) == {"us"}
        back = names.index("eu")
        assert 60 <= 4 * back <= 70
        assert set(names[back:]) == {"eu"}
        assert standing == "healthy"
        in_outage = [at for at in started_at(eu) if at < 60]
        probes = in_outage[5:]
        assert len(probes) <= 6
        assert all(later - earlier >= 10 for earlier, later in pairwise(probes))

    run_virtual(main)


def test_while_its_breaker_is_open_a_target_gets_no_hedge() -> None:
    async def main() -> None:
        eu = ScriptedProvider([headers(), hang()])
        us = ScriptedProvider(status(500))
        ap = ScriptedProvider(WHOLE)
        async with serve_memory({"eu": eu, "us": us, "ap": ap}) as network:
            targets = network.config().targets
            config = Config(
                targets=targets,
                models={"m": ("eu", "us", "ap"), "sick": ("us", "ap")},
                hedge=HedgePolicy(after_s=5),
                retry=AT_ONCE,
            )
            async with open_gateway(config, connect=network.connect) as gw:
                for _ in range(5):
                    await gw.complete("x", model="sick")
                assert gw.stats().targets["us"].standing == "open"
                reply = await gw.complete("x", model="m")
        assert [each.target for each in reply.stats.attempts] == ["eu", "ap"]

    run_virtual(main)


def test_the_last_target_is_always_tried() -> None:
    async def main() -> None:
        eu = sick_until(30, like=list(status(500)))
        async with gateway_to({"eu": eu}, retry=RetryPolicy(max_retries=0)) as (gw, _):
            for _ in range(20):
                with pytest.raises(GatewayError):
                    await gw.complete("x", model="m")
                await trio.sleep(1)
            assert gw.stats().targets["eu"].standing == "open"
            await trio.sleep(15)
            assert (await gw.complete("x", model="m")).text == "Once."
        assert len(eu.log) == 21

    run_virtual(main)


def test_our_own_cancellations_speak_against_nobody() -> None:
    async def main() -> None:
        eu = ScriptedProvider([headers(), hang()])
        async with gateway_to({"eu": eu}, hedge=HedgePolicy(after_s=50)) as (gw, _):
            for _ in range(50):
                with trio.move_on_after(1):
                    await gw.complete("x", model="m")
            assert gw.stats().targets["eu"].standing == "healthy"

    run_virtual(main)


# ---------------------------------------------------------------- silences


def test_a_target_whose_streams_stall_is_degraded_and_comes_last() -> None:
    async def main() -> None:
        eu = sick_until(200, like=[chunk("Once "), hang()])
        us = ScriptedProvider(WHOLE)
        config = {"hedge": HedgePolicy(after_s=5, budget_burst=100)}
        async with gateway_to({"eu": eu, "us": us}, **config) as (gw, _):  # type: ignore[arg-type]
            for _ in range(10):
                reply = await gw.complete("x", model="m")
                assert reply.stats.hedge_reason == "stall"
            assert gw.stats().targets["eu"].standing == "degraded"
            reply = await gw.complete("x", model="m")
            assert (reply.target, reply.stats.hedge_reason) == ("us", None)

    run_virtual(main)


# ---------------------------------------------------------------- limits of the provider


def test_a_target_that_asked_for_a_wait_is_left_alone_until_then() -> None:
    async def main() -> None:
        eu = ScriptedProvider(status(429, headers={"retry-after": "30"}), WHOLE)
        us = ScriptedProvider(WHOLE)
        async with gateway_to({"eu": eu, "us": us}) as (gw, _):
            assert await targets_of(gw, calls=8, every_s=5) == [*["us"] * 6, *["eu"] * 2]
        assert started_at(eu)[:2] == [0, 30]

    run_virtual(main)


def test_the_longest_wait_wins() -> None:
    async def main() -> None:
        refusals = [status(429, headers={"retry-after": wait}) for wait in ("40", "10")]
        eu = ScriptedProvider(*refusals, WHOLE)
        us = ScriptedProvider(WHOLE)
        async with gateway_to({"eu": eu, "us": us}) as (gw, _):
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(targets_of, gw, 1, 0)
            await trio.sleep(11)
            assert await targets_of(gw, calls=1, every_s=0) == ["us"]
            assert gw.stats().targets["eu"].standing == "rate_limited"

    run_virtual(main)


def test_what_a_provider_counts_together_waits_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE_KEY", "sk-one-and-the-same")
    monkeypatch.setenv("OTHER_KEY", "sk-another-one-of-ours")

    async def main() -> None:
        eu = ScriptedProvider(status(429, headers={"retry-after": "30"}), WHOLE)
        async with serve_memory({"eu": eu}) as network:
            url = network.base_urls["eu"].replace("http:", "https:")

            def target(key: str, model: str) -> Target:
                return Target(dialect="openai-chat", base_url=url, model=model, api_key_env=key)

            targets = {
                "first": target("ONE_KEY", "large"),
                "same": target("ONE_KEY", "large"),
                "small": target("ONE_KEY", "small"),
                "other": target("OTHER_KEY", "large"),
            }
            config = Config(targets=targets, models={"m": tuple(targets)})
            async with open_gateway(config, connect=network.connect) as gw:
                await gw.complete("x", model="m")
                standings = {name: each.standing for name, each in gw.stats().targets.items()}
        assert standings == {
            "first": "rate_limited",
            "same": "rate_limited",
            "small": "healthy",
            "other": "healthy",
        }

    run_virtual(main)


# ---------------------------------------------------------------- weights


def test_primaries_are_drawn_by_their_weights() -> None:
    async def main() -> None:
        providers = {name: ScriptedProvider(WHOLE) for name in ("eu", "us", "ap")}
        async with serve_memory(providers) as network:
            weighted = [
                WeightedTarget(target=name, weight=weight)
                for name, weight in (("eu", 6), ("us", 3), ("ap", 1))
            ]
            config = Config(targets=network.config().targets, models={"m": weighted})
            async with open_gateway(config, connect=network.connect) as gw:
                names = Counter(await targets_of(gw, calls=1000, every_s=0))
        # Five standard deviations of a binomial share.
        for name, share in (("eu", 0.6), ("us", 0.3), ("ap", 0.1)):
            assert abs(names[name] - 1000 * share) < 5 * (1000 * share * (1 - share)) ** 0.5

    run_virtual(main)


# ---------------------------------------------------------------- what hedges may cost


def test_hedges_stop_when_enough_tokens_were_wasted_in_an_hour() -> None:
    async def main() -> None:
        eu = ScriptedProvider([headers(), hang()])
        us = ScriptedProvider([chunk("Once."), finish(), usage(90, 10), done()])
        hedge = HedgePolicy(after_s=5, budget_tokens_per_hour=250)
        async with gateway_to({"eu": eu, "us": us}, hedge=hedge) as (gw, _):
            outcomes: list[object] = []
            for _ in range(5):
                with trio.move_on_after(9):
                    outcomes.append((await gw.complete("x", model="m")).text)
            refused = gw.stats().models["m"].hedges_refused
            assert outcomes == ["Once."] * 3, "90 tokens each: the third passes the limit"
            assert refused["token_budget"] == 2
            await trio.sleep(3700)
            assert (await gw.complete("x", model="m")).text == "Once."

    run_virtual(main)


def test_a_holdout_is_never_hedged_and_its_calls_are_told_apart() -> None:
    async def main() -> None:
        # One in three is late: more, and the target would come last.
        eu = ScriptedProvider(*[*LATE_ONCE_IN_THREE] * 40)
        us = ScriptedProvider(WHOLE)
        hedge = HedgePolicy(after_s=5, holdout=0.5, budget_ratio=1, budget_burst=100)
        async with gateway_to({"eu": eu, "us": us}, hedge=hedge) as (gw, _):
            held: Counter[bool | None] = Counter()
            for index in range(120):
                stats = (await gw.complete("x", model="m")).stats
                held[stats.holdout] += 1
                is_hedged = stats.hedge_reason is not None
                assert is_hedged == (index % 3 == 0 and not stats.holdout)
            model = gw.stats().models["m"]
        assert 30 < held[True] < 90
        assert (model.holdout.calls, model.hedged.calls) == (held[True], held[False])
        assert model.holdout.total_ms.max == pytest.approx(8000)
        assert model.hedged.total_ms.max == pytest.approx(5000)

    run_virtual(main)


def test_without_hedging_there_is_no_holdout() -> None:
    async def main() -> None:
        async with gateway_to(
            {"eu": ScriptedProvider(WHOLE)}, hedge=HedgePolicy(enabled=False, holdout=1)
        ) as (gw, _):
            assert (await gw.complete("x", model="m")).stats.holdout is None

    run_virtual(main)


# ---------------------------------------------------------------- learning


def test_what_first_contents_take_is_learned() -> None:
    async def main() -> None:
        eu = ScriptedProvider([silence(1), *WHOLE])
        async with gateway_to({"eu": eu}, hedge=HedgePolicy()) as (gw, _):
            await targets_of(gw, calls=59, every_s=0)
            assert gw.stats().targets["eu"].after_s is None
            await targets_of(gw, calls=1, every_s=0)
            assert gw.stats().targets["eu"].after_s == pytest.approx(3), "three times the median"

    run_virtual(main)


def test_and_then_hedges_come_by_it() -> None:
    async def main() -> None:
        eu = ScriptedProvider(*[[silence(1), *WHOLE]] * 60, [headers(), hang()])
        us = ScriptedProvider(WHOLE)
        async with gateway_to({"eu": eu, "us": us}) as (gw, _):
            await targets_of(gw, calls=60, every_s=0)
            reply = await gw.complete("x", model="m")
        assert reply.stats.hedge_after_ms == pytest.approx(3000)

    run_virtual(main)


# ---------------------------------------------------------------- closing


def test_closing_gracefully_waits_for_what_runs_and_takes_nothing_new() -> None:
    async def main() -> None:
        eu = ScriptedProvider([silence(7), *WHOLE])
        texts: list[str] = []

        async def call(gw: Gateway) -> None:
            texts.append((await gw.complete("x", model="m", hedge_policy=NEVER)).text)

        async with gateway_to({"eu": eu}) as (gw, network), trio.open_nursery() as nursery:
            nursery.start_soon(call, gw)
            await trio.sleep(1)
            nursery.start_soon(gw.aclose)
            await trio.sleep(1)
            with pytest.raises(GatewayClosed):
                await gw.complete("x", model="m")
            await trio.sleep(6)
            assert texts == ["Once."]
            assert network.open_connections == 0

    run_virtual(main)


NEVER = HedgePolicy(enabled=False)


def test_what_takes_too_long_is_closed() -> None:
    async def main() -> None:
        eu = ScriptedProvider([headers(), hang()])

        async def call(gw: Gateway) -> None:
            with pytest.raises(GatewayClosed):
                await gw.complete("x", model="m", hedge_policy=NEVER)

        async with gateway_to({"eu": eu}) as (gw, network), trio.open_nursery() as nursery:
            nursery.start_soon(call, gw)
            await trio.sleep(1)
            await gw.aclose(grace_s=5)
            assert trio.current_time() == 6
            assert network.open_connections == 0
            await gw.aclose()

    run_virtual(main)
