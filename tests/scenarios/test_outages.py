"""A minute in which a target fails or is silent, with a call every four seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from polygateway import FirstContentTimeout, Overloaded
from tests.scenarios.outages import (
    OUTAGE_S,
    outage_in_silence,
    outage_in_which_each_failure_takes_a_second,
    outage_of_both,
    outage_of_both_in_silence,
    outage_with_500,
    outage_with_resets,
)
from tests.scenarios.scripts import ANSWER_S, text
from tests.scenarios.stage import each_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.scenarios.stage import Make, Play, Reply, Stage

CALLS = 30
BETWEEN_S = 4.0
BACK_S = 30.0


async def call_every_four_seconds(stage: Stage) -> Sequence[Reply]:
    """Make two minutes' calls, each at its time, and give what came of them in that order."""
    replies: dict[int, Reply] = {}

    async def call(number: int) -> None:
        await trio.sleep_until(number * BETWEEN_S)
        replies[number] = await stage.ask()

    async with trio.open_nursery() as nursery:
        for number in range(CALLS):
            nursery.start_soon(call, number)
    return [replies[number] for number in range(CALLS)]


def is_within_the_purse(replies: Sequence[Reply]) -> bool:
    """Tell whether hedges and retries, beyond the first failover of each call, were paid for."""
    extra = 0
    for reply in replies:
        failed_over = any(each.kind == "retry" and each.target == "us" for each in reply.attempts)
        extra += len(reply.attempts) - 1 - failed_over
    return extra <= 0.2 * len(replies) + 10


@each_way
@pytest.mark.parametrize(
    ("make", "tell"), [(outage_with_500, 5), (outage_with_resets, 5), (outage_in_silence, 10)]
)
def test_in_an_outage_every_call_is_served_and_the_primary_is_found_again(
    play: Play, make: Make, tell: int
) -> None:
    seen = play.run(make, call_every_four_seconds)
    for reply in seen.caller:
        assert reply.answer.text == text(reply.answer.target)
        if reply.asked_s >= OUTAGE_S + BACK_S:
            assert reply.story == ["eu primary won"]
    assert is_within_the_purse(seen.caller)
    # So many attempts tell that it is out; then there is one probe in ten seconds.
    in_outage = [each for each in seen.requests("eu") if each.started_at < OUTAGE_S]
    assert len(in_outage) <= tell + 1 + OUTAGE_S / 10
    spared = [each for each in seen.caller if each.story == ["us primary won"]]
    assert len(spared) >= 3
    assert all(each.took_s == pytest.approx(ANSWER_S) for each in spared)


async def leave_while_it_is_probed(stage: Stage) -> Sequence[Reply]:
    """Find the primary out, leave every call of half a minute, and then call in peace."""
    for _ in range(3):
        await stage.ask()
    for at in range(20, 50, 2):
        await trio.sleep_until(at)
        with trio.move_on_after(0.5):
            await stage.ask()
    await trio.sleep_until(OUTAGE_S)
    return [await stage.ask() for _ in range(2)]


@each_way
def test_a_probe_whose_caller_leaves_is_made_again(play: Play) -> None:
    seen = play.run(outage_in_which_each_failure_takes_a_second, leave_while_it_is_probed)
    probes = [each for each in seen.requests("eu") if 20 <= each.started_at < 50]
    assert 2 <= len(probes) <= 3
    assert {each.ended for each in probes} == {"client closed"}
    assert [each.story for each in seen.caller] == [["eu primary won"]] * 2


@each_way
def test_an_outage_of_both_is_told_at_once_and_is_over_when_it_is_over(play: Play) -> None:
    seen = play.run(outage_of_both, call_every_four_seconds)
    for reply in seen.caller:
        if reply.asked_s < OUTAGE_S - BETWEEN_S:
            assert isinstance(reply.failure, Overloaded)
            assert len(reply.attempts) <= 3
        elif reply.asked_s >= OUTAGE_S:
            assert reply.answer.text == text(reply.answer.target)
    assert is_within_the_purse(seen.caller)
    for target in seen.providers:
        in_outage = [each for each in seen.requests(target) if each.started_at < OUTAGE_S]
        assert in_outage


@each_way
def test_in_a_silence_of_both_hedges_stop_and_whoever_calls_after_it_is_served(play: Play) -> None:
    seen = play.run(outage_of_both_in_silence, call_every_four_seconds)
    in_outage = [each for each in seen.caller if each.asked_s < OUTAGE_S]
    for reply in seen.caller:
        if reply.error is None or reply not in in_outage:
            assert reply.answer.text == text(reply.answer.target)
        else:
            assert isinstance(reply.error, FirstContentTimeout)
    # Unlimited, each of these fifteen calls would have had two hedges.
    hedges = [each for reply in in_outage for each in reply.attempts if each.kind == "hedge"]
    assert 5 <= len(hedges) <= 0.2 * len(in_outage) + 10
    assert is_within_the_purse(seen.caller)
