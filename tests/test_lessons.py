"""What a call's attempts teach about their targets and their model, seen from outside."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from polygateway import (
    Completion,
    Gateway,
    GatewayError,
    HedgePolicy,
    Limits,
    RetryPolicy,
    StreamPolicy,
)
from polygateway.core.health import Health
from polygateway.core.latency import Latency
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    done,
    finish,
    hang,
    headers,
    page,
    run_virtual,
    silence,
    status,
)
from tests.scenario import gateway_to

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeAlias

    from polygateway.testing import Script, Step

    Use: TypeAlias = Callable[[Gateway], Awaitable[object]]

WHOLE = answer("Once.")
OFF = HedgePolicy(enabled=False)


@attrs.define
class Notebook(Latency):
    """Writes down what it is told, in seconds."""

    contents: list[tuple[float, bool]] = attrs.field(factory=list[tuple[float, bool]])
    silences: list[tuple[float, bool]] = attrs.field(factory=list[tuple[float, bool]])

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    def first_content(self, took_ns: int, now: int, *, censored: bool = False) -> None:
        self.contents.append((took_ns / 1e9, censored))

    def silence(self, lasted_ns: int, now: int, *, censored: bool = False) -> None:
        self.silences.append((lasted_ns / 1e9, censored))


async def complete(gw: Gateway) -> None:
    await gw.complete("x", model="m")


async def complete_or_fail(gw: Gateway) -> Completion | GatewayError:
    try:
        return await gw.complete("x", model="m")
    except GatewayError as error:
        return error


def taught(
    scripts: Mapping[str, Sequence[Script]],
    use: Use = complete,
    *,
    hedge: HedgePolicy | None = None,
    stream: StreamPolicy | None = None,
) -> Mapping[str, Notebook]:
    """Give what is learned of each target's times by one call, whatever comes of it."""
    notebooks = {name: Notebook() for name in scripts}

    async def main() -> None:
        providers = {name: ScriptedProvider(*script) for name, script in scripts.items()}
        async with gateway_to(
            providers,
            hedge=hedge or HedgePolicy(after_s=5),
            stream=stream or StreamPolicy(),
            retry=RetryPolicy(max_retries=0),
        ) as (gw, _):
            for name, known in gw._candidates.items():
                gw._candidates[name] = attrs.evolve(known, latency=notebooks[name])
            gw._models = {name: gw._model(name) for name in gw._models}
            with suppress(GatewayError):
                await use(gw)

    run_virtual(main)
    return notebooks


# ---------------------------------------------------------------- times


def test_a_first_content_is_a_sample_whatever_becomes_of_the_answer() -> None:
    for end in ([finish(), done()], [cut()], [finish("length"), done()]):
        assert taught({"eu": [[silence(1.5), chunk("a"), *end]]})["eu"].contents == [(1.5, False)]


def test_a_loser_enters_with_the_time_that_it_had() -> None:
    late = [silence(1), *WHOLE]
    learned = taught({"eu": [[headers(), hang()]], "us": [late]})
    assert learned["eu"].contents == [(6, True)]
    assert learned["us"].contents == [(1, False)]


def test_so_does_one_that_was_given_up() -> None:
    policy = StreamPolicy(ttft_timeout_s=9)
    assert taught({"eu": [[hang()]]}, hedge=OFF, stream=policy)["eu"].contents == [(9, True)]


def test_a_deadline_cuts_off_like_that() -> None:
    async def hurry(gw: Gateway) -> None:
        await gw.complete("x", model="m", deadline_s=3)

    assert taught({"eu": [[hang()]]}, hurry)["eu"].contents == [(3, True)]


def test_a_caller_that_leaves_is_no_sample() -> None:
    async def leave(gw: Gateway) -> None:
        with trio.move_on_after(3):
            await gw.complete("x", model="m")

    learned = taught({"eu": [[hang()]]}, leave)["eu"]
    assert (learned.contents, learned.silences) == ([], [])


@pytest.mark.parametrize(
    "script", [status(500), [silence(4), *page("<html>")], [silence(4), cut()]]
)
def test_an_error_is_no_slow_answer(script: Script) -> None:
    assert taught({"eu": [script]})["eu"].contents == []


def test_silences_are_samples_and_the_last_one_of_a_loser_is_cut_off() -> None:
    eu: list[Step] = [chunk("a"), silence(3), chunk("b"), silence(0.5), chunk("c"), hang()]
    learned = taught({"eu": [eu], "us": [[silence(1), *WHOLE]]})
    assert learned["eu"].silences == [(3, False), (6, True)]
    assert learned["us"].silences == []


def test_whether_an_attempt_was_silent_is_judged_by_what_was_known_when_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # While 59 are known, 5 s without content are a silence. From 60 on it is three times the
    # median of 4 s; but that became known by this attempt.
    silent: list[Health] = []

    def fell_silent(health: Health, _started: int, _now: int) -> None:
        silent.append(health)

    monkeypatch.setattr(Health, "fell_silent", fell_silent)
    usual: Script = [silence(4), *WHOLE]

    async def main() -> None:
        provider = ScriptedProvider(*[usual] * 59, [silence(6), *WHOLE])
        async with gateway_to({"eu": provider}, hedge=OFF) as (gw, _):
            for _i in range(59):
                await complete(gw)
            assert not silent
            await complete(gw)
            assert gw.stats().targets["eu"].after_s == 12

    run_virtual(main)
    assert len(silent) == 1


def test_the_wait_for_a_proper_end_is_no_silence() -> None:
    assert taught({"eu": [[chunk("a"), silence(4), finish(), done()]]})["eu"].silences == []


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("script", "standing"),
    [
        (status(500), "open"),
        (status(401), "open"),
        (status(404), "open"),
        (status(429), "open"),
        ([chunk("a"), cut()], "open"),
        (page("<html>"), "open"),
        (status(400), "healthy"),
        (status(413), "healthy"),
        (WHOLE, "healthy"),
    ],
)
def test_what_speaks_against_a_target(script: Script, standing: str) -> None:
    async def main() -> None:
        async with gateway_to(
            {"eu": ScriptedProvider(script)}, retry=RetryPolicy(max_retries=0)
        ) as (gw, _):
            for _ in range(30):
                with suppress(GatewayError):
                    await gw.complete("x", model="m")
            assert gw.stats().targets["eu"].standing == standing

    run_virtual(main)


def test_our_own_limits_do_not() -> None:
    async def main() -> None:
        limits = Limits(max_connections_per_target=1, admission_timeout_s=1)
        eu = ScriptedProvider([chunk("a"), hang()], WHOLE)
        async with gateway_to(
            {"eu": eu}, limits=limits, hedge=OFF, retry=RetryPolicy(max_retries=0)
        ) as (gw, _):
            async with gw.stream("x", model="m"):
                for _ in range(30):
                    with pytest.raises(GatewayError, match="no free connection slot"):
                        await gw.complete("x", model="m")
            assert gw.stats().targets["eu"].standing == "healthy"

    run_virtual(main)


def test_when_most_attempts_fail_nothing_is_hedged_or_retried_until_some_succeed() -> None:
    async def main() -> None:
        eu = ScriptedProvider(*[status(500)] * 12, [silence(7), *WHOLE], WHOLE)
        async with gateway_to(
            {"eu": eu}, retry=RetryPolicy(backoff_base_s=0), hedge=HedgePolicy(after_s=5)
        ) as (gw, _):
            results = [await complete_or_fail(gw) for _ in range(20)]
            failures = [each for each in results if isinstance(each, GatewayError)]
            replies = [each for each in results if not isinstance(each, GatewayError)]
            assert "not retried" in str(failures[-1])
            assert len(eu.log) < 12 + 20
            assert replies[0].stats.hedge_reason is None
            assert set(replies[0].stats.hedges_refused) <= {"breaker", "throttled"}

    run_virtual(main)


def test_failures_that_no_single_target_is_known_for_stop_retries_all_the_same() -> None:
    async def main() -> None:
        busy = {name: ScriptedProvider(status(503)) for name in ("eu", "us", "ap", "sa")}
        retry = RetryPolicy(max_retries=3, backoff_base_s=0)
        async with gateway_to(busy, retry=retry) as (gw, _):
            failures = [await complete_or_fail(gw) for _ in range(4)]
            standings = {each.standing for each in gw.stats().targets.values()}
        assert standings == {"healthy"}, "three failures each at most"
        counts = [len(each.attempts) for each in failures if isinstance(each, GatewayError)]
        assert counts == [4, 4, 2, 2], "the tenth verdict is enough; the first failover is free"
        assert "most attempts of the model fail" in str(failures[-1])

    run_virtual(main)
