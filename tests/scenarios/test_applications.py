"""What applications do: they read slowly, leave, and call again."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
import trio

from polygateway.testing import done, raw
from tests.scenarios.scripts import ANSWER_S, text, tokens, whole
from tests.scenarios.situations import SLOTS, STORM_S, plain, reused_connections_die, storm
from tests.scenarios.stage import (
    Play,
    Provider,
    Reply,
    Situation,
    Stage,
    each_way,
    stream,
    streamed,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PAUSE_S = 30.0


async def dawdle(stage: Stage) -> Reply:
    return await stream(stage.gw, stage.options, pause_s=PAUSE_S)


@streamed
def test_a_slow_consumer_is_no_slow_provider(play: Play) -> None:
    seen = play.run(plain, dawdle)
    stats = seen.caller.answer.stats
    assert seen.caller.delivered == text("eu")
    # No hedge after 5 s, no watchdog after 20 s, no stall of 2 s: nobody waited for the provider.
    assert seen.caller.story == ["eu primary won"]
    assert stats.stall_count == 0
    assert stats.backpressure_ms is not None
    assert stats.backpressure_ms / 1000 == pytest.approx(PAUSE_S)
    assert seen.ends("eu") == ["done"]
    assert seen.ends("us") == []


MIB = 1024 * 1024
LARGE = whole(
    tokens("eu", 0, 1), *[raw(b": %b\n\n" % (b"x" * MIB))] * 24, tokens("eu", 1, 2), done()
)


async def read_late(stage: Stage) -> tuple[int, str]:
    """Read one chunk, pause, count what the provider has got rid of, then read the rest."""
    async with stage.gw.stream("x", model="m") as chunks:
        first = await anext(chunks)
        await trio.sleep(5)
        (exchange,) = stage.providers["eu"].log
        sent = len(exchange.sent)
        rest = [each.text async for each in chunks]
    return sent, first.text + "".join(rest)


def test_what_nobody_reads_stays_with_its_provider() -> None:
    play = Play("tcp", "stream")
    seen = play.run(lambda: Situation(providers={"eu": Provider(LARGE)}), read_late)
    sent, delivered = seen.caller
    # The kernel takes some megabytes of 24; the gateway takes one read.
    assert sent < 24
    assert delivered == text("eu", 2)
    assert seen.ends("eu") == ["done"]


@each_way
def test_connections_are_reused(play: Play) -> None:
    seen = play.run(plain, Stage.ask_twice)
    assert [each.story for each in seen.caller] == [["eu primary won"]] * 2
    assert seen.connections("eu") == [0, 0]


@each_way
def test_a_reused_connection_that_dies_is_replaced_in_silence(play: Play) -> None:
    seen = play.run(reused_connections_die, Stage.ask_twice)
    assert [each.answer.text for each in seen.caller] == [text("eu")] * 2
    assert [each.story for each in seen.caller] == [["eu primary won"]] * 2
    assert seen.caller[1].took_s == pytest.approx(ANSWER_S)
    assert seen.ends("eu") == ["done", "dropped", "done"]
    assert seen.connections("eu") == [0, 0, 1]
    assert seen.ends("us") == []


async def weather_the_storm(stage: Stage) -> Sequence[Reply]:
    """Let three times as many callers as there are slots leave their calls; then call in peace."""
    rng = Random("a storm of cancellations")
    left = 0
    replies: list[Reply] = []

    async def restless() -> None:
        nonlocal left
        while left <= 100 or trio.current_time() < STORM_S:
            with trio.move_on_after(rng.choice([0, 0.02, 0.1, 0.3, 1, 2])) as scope:
                await stage.ask()
            left += scope.cancelled_caught

    async def patient() -> None:
        replies.append(await stage.ask())

    for many, caller in ((3 * SLOTS, restless), (2 * SLOTS, patient)):
        async with trio.open_nursery() as nursery:
            for _ in range(many):
                nursery.start_soon(caller)
    return replies


@each_way
def test_a_storm_of_cancellations_leaves_every_slot(play: Play) -> None:
    seen = play.run(storm, weather_the_storm)
    assert len(seen.caller) == 2 * SLOTS
    assert all(each.answer.text == text(each.answer.target) for each in seen.caller)
    ends = {*seen.ends("eu"), *seen.ends("us")}
    assert ends == {"client closed", "done"}
