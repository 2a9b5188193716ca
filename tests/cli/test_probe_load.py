"""The load in virtual time: when requests are made, how many at once, and when no more."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING

import attrs
import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock

from polygateway import StreamPolicy, open_gateway
from polygateway.cli.probing.estimate import Observed
from polygateway.cli.probing.load import Load
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    hang,
    page,
    run_virtual,
    serve_memory,
    silence,
    status,
)
from tests.cli.probes import QUICKLY, each_by_itself, measured, started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway.testing import Script

ONE_SECOND = (silence(1), *answer("Yes."))
"""Its content comes a second after the request, and at once its end."""


def most_at_once(provider: ScriptedProvider) -> int:
    """Tell how many exchanges ran at the same time at most."""
    begins = [(exchange.started_at, 1) for exchange in provider.log]
    ends = [(exchange.ended_at or 0.0, -1) for exchange in provider.log]
    return max(itertools.accumulate(change for _, change in sorted(begins + ends)))


# ---------------------------------------------------------------- so many at once


@pytest.mark.parametrize("slots", [1, 3, 6, 9])
def test_so_many_requests_run_at_once_and_each_makes_room_for_the_next(slots: int) -> None:
    provider = ScriptedProvider(ONE_SECOND)
    result = measured(provider, attrs.evolve(QUICKLY, requests=6, slots=slots))
    assert most_at_once(provider) == min(slots, 6)
    assert result.load.elapsed_s == pytest.approx(-(-6 // slots))
    assert result.summary.whole.count == 6


def test_without_a_rate_no_request_is_late() -> None:
    result = measured(ScriptedProvider(ONE_SECOND), QUICKLY)
    assert [sample.due_s for sample in result.load.samples] == pytest.approx([0, 1, 2, 3])
    assert all(sample.delay_ms == 0 for sample in result.load.samples)


# ---------------------------------------------------------------- at a rate

RATES = st.floats(min_value=1e-3, max_value=1e6)


@given(RATES, st.integers(0, 10**6))
def test_request_k_is_due_at_k_over_the_rate_and_nothing_adds_up(rate: float, index: int) -> None:
    due = attrs.evolve(QUICKLY, rate=rate).due_s(index)
    assert due == float(index / Fraction(rate))


def test_with_a_rate_requests_begin_on_time_whatever_became_of_the_others() -> None:
    provider = ScriptedProvider((silence(10), *answer("Yes.")))
    result = measured(provider, attrs.evolve(QUICKLY, slots=100, rate=2.0))
    assert started(provider) == pytest.approx({0: 0.0, 1: 0.5, 2: 1.0, 3: 1.5})
    assert most_at_once(provider) == 4
    assert not result.effort.delayed


def test_coordinated_omission_is_visible() -> None:
    # Ten a second are due, but only one runs at a time, and each takes a second. Seen from its
    # call every request took a second; seen by whoever wanted it, request k took k + 1 seconds,
    # less the k tenths that it was not yet due.
    result = measured(ScriptedProvider(ONE_SECOND), attrs.evolve(QUICKLY, rate=10.0))
    figures = result.summary.figures
    assert [each.value for each in figures["ttft_ms"].samples] == pytest.approx([1000] * 4)
    seen = [each.value for each in figures["ttft_from_due_ms"].samples]
    assert seen == pytest.approx([1000 * (k + 1) - 100 * k for k in range(4)])
    assert result.effort.findings() == [
        "3 of 4 requests waited for one of 1 slots, the longest for 2.70 s"
    ]


def test_a_late_event_loop_is_on_the_record_of_the_request_that_it_delayed() -> None:
    async def main() -> Load:
        async with serve_memory({"eu": ScriptedProvider(answer("Yes."))}) as network:
            config = each_by_itself(network.config())
            async with open_gateway(config, connect=network.connect) as gateway:
                plan = attrs.evolve(QUICKLY, requests=2, rate=1.0, slots=9)
                load = Load(gateway, "eu", plan)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(load.run)
                    await trio.sleep(0.9)
                    clock.jump(0.15)  # what computes for so long lets nothing else run
        return load

    clock = MockClock(autojump_threshold=0)
    load = trio.run(main, clock=clock)
    assert [sample.late_ms for sample in load.samples] == pytest.approx([0.0, 50.0])
    assert [sample.queued_ms for sample in load.samples] == pytest.approx([0.0, 0.0])


# ---------------------------------------------------------------- warm-up


@pytest.mark.parametrize("rate", [None, 2.0])
def test_the_warm_up_is_over_before_what_counts_and_counts_for_nothing(rate: float | None) -> None:
    provider = ScriptedProvider(
        (silence(30), *answer("cold")), (silence(30), *answer("cold")), ONE_SECOND
    )
    result = measured(provider, attrs.evolve(QUICKLY, warmup=2, slots=2, rate=rate))
    assert len(provider.log) == 6
    assert min(list(started(provider).values())[2:]) >= 30
    assert result.summary.whole.of == 4
    assert result.summary.figures["ttft_ms"].worst == Observed(1000.0)
    assert result.load.elapsed_s < 5
    assert len(result.load.warmups) == 2


# ---------------------------------------------------------------- what comes of a request


def test_a_request_is_one_request_without_hedges_and_retries() -> None:
    provider = ScriptedProvider((silence(50), *answer("late")), status(503), answer("Yes."))
    result = measured(provider, attrs.evolve(QUICKLY, requests=3))
    assert len(provider.log) == 3
    assert (result.summary.whole.count, result.summary.failed.count) == (2, 1)


def test_every_end_of_an_answer_is_a_result() -> None:
    provider = ScriptedProvider(
        answer("Yes.", "No."), [chunk("Ye"), cut()], status(500), [chunk("Y"), hang()], [hang()]
    )
    plan = attrs.evolve(QUICKLY, requests=5, options={"deadline_s": 20.0})
    result = measured(provider, plan, stream=StreamPolicy(ttft_timeout_s=5))
    ends = [(sample.outcome, type(sample.cause).__name__) for sample in result.load.samples]
    assert ends == [
        ("whole", "NoneType"),
        ("truncated", "Truncated"),
        ("failed", "ServerError"),
        ("truncated", "DeadlineExceeded"),
        ("failed", "FirstContentTimeout"),
    ]
    assert [sample.elapsed_ms for sample in result.load.samples] == pytest.approx(
        [0, 0, 0, 20_000, 5_000]
    )
    assert [sample.finish_reason for sample in result.load.samples][:2] == ["stop", None]


def test_what_is_asked_is_what_was_planned() -> None:
    provider = ScriptedProvider(answer("Yes."))
    measured(provider, attrs.evolve(QUICKLY, prompt="Is it?", options={"max_tokens": 7}))
    body = provider.log[0].request.body
    assert body["messages"] == [{"role": "user", "content": "Is it?"}]
    assert 7 in (body.get("max_tokens"), body.get("max_completion_tokens"))


# ---------------------------------------------------------------- leaving a target alone


@pytest.mark.parametrize(
    ("provider", "error"),
    [
        (ScriptedProvider(status(401)), "AuthenticationFailed"),
        (ScriptedProvider(status(404)), "InvalidRequest"),
        (ScriptedProvider(status(429)), "RateLimited"),
        (ScriptedProvider(page("<html>Welcome</html>")), "ProtocolViolation"),
        (ScriptedProvider(answer("x"), refuses=True), "ConnectFailed"),
        (ScriptedProvider(answer("x"), connect_s=1e6), "ConnectTimeout"),
    ],
)
@pytest.mark.parametrize("warmup", [0, 2, 9])
def test_a_target_that_will_not_answer_is_asked_three_times(
    provider: ScriptedProvider, error: str, warmup: int
) -> None:
    result = measured(provider, attrs.evolve(QUICKLY, requests=50, warmup=warmup))
    assert result.load.hopeless
    assert len(result.load.warmups + result.load.samples) == 3
    assert result.verdict is not None
    assert result.verdict.startswith(f"no whole answer to 3 requests: {error}: target 'eu' ")
    assert result.verdict.endswith(f" ({47 + warmup} more called off)")


def test_what_else_runs_then_is_stopped() -> None:
    refusals = [(silence(after), *status(401)) for after in (1, 2, 3)]
    provider = ScriptedProvider(*refusals, [hang()])
    result = measured(provider, attrs.evolve(QUICKLY, requests=50, slots=5))
    # Five at first, and one more for each of the first two that ended.
    outcomes = [sample.outcome for sample in result.load.samples]
    assert outcomes == ["failed"] * 3 + ["unfinished"] * 4
    assert {exchange.ended for exchange in provider.log} == {"done", "client closed"}
    assert result.load.running == 0


def test_with_a_rate_it_is_left_alone_as_well() -> None:
    provider = ScriptedProvider(status(401))
    measured(provider, attrs.evolve(QUICKLY, requests=50, rate=1.0, slots=9))
    assert len(provider.log) == 3


@pytest.mark.parametrize(
    "scripts",
    [
        [status(500)],  # may pass
        [status(401), status(401), answer("Yes."), status(401)],  # has passed
        [status(401), status(401), status(404)],  # not alike
    ],
)
def test_one_that_may_answer_is_asked_to_the_end(scripts: Sequence[Script]) -> None:
    provider = ScriptedProvider(*scripts)
    result = measured(provider, attrs.evolve(QUICKLY, requests=20))
    assert len(provider.log) == 20
    assert not result.load.hopeless


# ---------------------------------------------------------------- stopping


def test_a_load_that_is_cancelled_keeps_what_it_knows() -> None:
    async def main() -> Load:
        provider = ScriptedProvider(ONE_SECOND, [chunk("Yes"), hang()])
        async with serve_memory({"eu": provider}) as network:
            config = each_by_itself(network.config())
            async with open_gateway(config, connect=network.connect) as gateway:
                load = Load(gateway, "eu", QUICKLY, cpu_time=trio.current_time)
                with trio.move_on_after(10):
                    await load.run()
                assert network.open_connections == 0
        return load

    load = run_virtual(main)
    assert [sample.outcome for sample in load.samples] == ["whole", "unfinished"]
    assert load.samples[1].elapsed_ms == pytest.approx(9000)
    assert load.samples[1].has_content
    assert (load.elapsed_s, load.cpu_s, load.running) == pytest.approx((10.0, 10.0, 0))


def test_processor_time_is_that_of_what_counts() -> None:
    readings = iter([5.0, 7.5])
    result = measured(
        ScriptedProvider(ONE_SECOND),
        attrs.evolve(QUICKLY, warmup=2),
        cpu_time=lambda: next(readings),
    )
    assert (result.load.cpu_s, result.load.elapsed_s) == pytest.approx((2.5, 4.0))
    assert result.effort.cpu_share == pytest.approx(0.625)
