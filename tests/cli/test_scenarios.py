"""Each scenario shows what it says, in virtual time to the millisecond."""

from __future__ import annotations

import pytest

from polygateway import open_gateway
from polygateway.cli.scenarios import ANSWER, Result, perform, scenarios
from polygateway.testing import run_virtual, serve_memory

NAMES = [
    *("stalled-unhedged", "stalled-hedged", "keepalives-hedged", "slow-start-hedged"),
    *("cut", "cut-continued"),
]
HEDGED = [name for name in NAMES if name.endswith("-hedged")]


def play(name: str, pace: float = 1.0) -> Result:
    """Give what comes of a scenario."""

    async def main() -> Result:
        scenario = next(each for each in scenarios(pace) if each.name == name)
        providers = scenario.cast()
        async with (
            serve_memory(providers) as network,
            open_gateway(scenario.config(network), connect=network.connect) as gw,
        ):
            result = await perform(scenario, gw, providers, received.append)
            assert "".join(received) == (
                "" if result.completion is None else result.completion.text
            )
            return result

    received: list[str] = []
    return run_virtual(main)


def test_the_scenarios_are_those_that_the_demo_promises() -> None:
    assert [scenario.name for scenario in scenarios()] == NAMES


def test_all_scenarios_together_leave_time_for_the_start_within_fifteen_seconds() -> None:
    assert sum(play(name).total_ms for name in NAMES) < 12_000


def test_without_hedging_the_whole_stall_is_sat_out() -> None:
    result = play("stalled-unhedged")
    assert result.outcome == "complete"
    assert result.stats is not None
    assert result.stats.stall_count == 1
    # The three seconds that it says, and the time that every piece takes.
    assert result.stats.stall_ms == pytest.approx(3030)
    assert [(each.target, each.outcome) for each in result.attempts] == [("eu", "won")]
    assert result.closing_ms is None


@pytest.mark.parametrize("name", HEDGED)
def test_hedged_the_other_target_wins_and_the_loser_is_closed_at_once(name: str) -> None:
    result = play(name)
    assert result.outcome == "complete"
    assert [(each.target, each.kind, each.outcome) for each in result.attempts] == [
        ("eu", "primary", "lost"),
        ("us", "hedge", "won"),
    ]
    assert [lane.exchange.ended for lane in result.lanes] == ["client closed", "done"]
    assert result.closing_ms == pytest.approx(0, abs=0.001)
    assert result.total_ms < play("stalled-unhedged").total_ms - 1500


@pytest.mark.parametrize(
    ("name", "reason", "started_ms"),
    [
        # 300 ms to the first content, 9 pieces of 30 ms, then half a second of silence.
        ("stalled-hedged", "stall", 300 + 9 * 30 + 500),
        ("keepalives-hedged", "stall", 300 + 9 * 30 + 500),
        ("slow-start-hedged", "ttft", 500),
    ],
)
def test_a_hedge_starts_when_it_was_said_to(name: str, reason: str, started_ms: float) -> None:
    hedge = play(name).attempts[1]
    assert hedge.reason == reason
    assert hedge.started_ms == pytest.approx(started_ms)


def test_keepalives_do_come_in_the_silence_that_is_hedged() -> None:
    eu = play("keepalives-hedged").lanes[0]
    sent = [step for _, step in eu.exchange.sent]
    assert any(getattr(step, "data", b"").startswith(b":") for step in sent)


def test_a_cut_stream_is_an_error_that_holds_what_was_delivered() -> None:
    result = play("cut")
    assert result.outcome == "StreamBroken"
    assert result.completion is not None
    text = result.completion.text
    assert text
    assert text != ANSWER
    assert ANSWER.startswith(text)
    assert [(each.target, each.outcome) for each in result.attempts] == [("eu", "failed")]


def test_a_cut_stream_that_goes_on_elsewhere_is_one_answer() -> None:
    result = play("cut-continued")
    assert [(each.target, each.kind, each.outcome) for each in result.attempts] == [
        ("eu", "primary", "failed"),
        ("us", "retry", "won"),
    ]
    assert result.completion is not None
    (seam,) = result.completion.seams
    assert (seam.kind, seam.characters) == ("continue", len(ANSWER[: 9 * 3]))
    # 9 pieces of 30 ms and the rest from elsewhere, each after 300 ms to the first one.
    assert result.total_ms == pytest.approx(300 + 300 + 22 * 30)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cut"])
def test_every_other_scenario_ends_with_the_whole_answer(name: str) -> None:
    result = play(name)
    assert result.completion is not None
    assert result.completion.text == ANSWER


@pytest.mark.parametrize("name", NAMES)
def test_the_pace_scales_every_duration(name: str) -> None:
    whole, tenth = play(name), play(name, 0.1)
    assert tenth.total_ms == pytest.approx(whole.total_ms / 10)
    assert [each.outcome for each in tenth.attempts] == [each.outcome for each in whole.attempts]


def test_a_call_of_which_nothing_came_is_a_result_as_well() -> None:
    async def main() -> Result:
        scenario = scenarios()[0]
        async with (
            serve_memory({}) as network,
            open_gateway(nobody(), connect=network.connect) as gw,
        ):
            return await perform(scenario, gw, {}, print)

    result = run_virtual(main)
    assert result.outcome == "ConnectFailed"
    assert result.stats is None
    assert result.total_ms == pytest.approx(result.elapsed_ms)
    assert [each.outcome for each in result.attempts] == ["failed"]


def nobody() -> dict[str, object]:
    """Configure a model whose only target is not there."""
    target = {"dialect": "openai-chat", "base_url": "http://nobody.invalid/v1", "model": "none"}
    return {"targets": {"nobody": target}, "models": {"m": ["nobody"]}, "retry": {"max_retries": 0}}
