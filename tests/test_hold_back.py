"""A stream of which the first seconds are held back, so that a stall in them can be raced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from polygateway import HedgePolicy, StreamPolicy
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    done,
    finish,
    hang,
    run_virtual,
    silence,
)
from tests.scenario import AT_ONCE, gateway_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway.policies import Winner
    from polygateway.testing import Step


def timed(
    eu: Sequence[Step],
    us: Sequence[Step] = (hang(),),
    *,
    hold_back_s: float = 3,
    winner: Winner = "first-delivered",
) -> list[tuple[float, str]]:
    """Read a stream to its end; give each text and when the application got it."""
    got: list[tuple[float, str]] = []

    async def main() -> None:
        providers = {"eu": ScriptedProvider(eu), "us": ScriptedProvider(us)}
        async with gateway_to(
            providers,
            hedge=HedgePolicy(after_s=5, winner=winner),
            stream=StreamPolicy(hold_back_s=hold_back_s),
            retry=AT_ONCE,
        ) as (gw, _):
            async with gw.stream("x", model="m") as stream:
                got.extend([(trio.current_time(), each.text) async for each in stream if each.text])
            assert stream.completion.text == "".join(text for _, text in got)

    run_virtual(main)
    return got


def every_second(*texts: str) -> list[Step]:
    """Give an answer whose chunks come at 1 s, 2 s and so on."""
    return list(answer(*texts, every_s=1))


def test_everything_is_delivered_with_the_first_chunk_that_comes_late_enough() -> None:
    got = timed(every_second("a", "b", "c", "d", "e"))
    assert got == [(4, "a"), (4, "b"), (4, "c"), (4, "d"), (5, "e")]


def test_without_it_the_first_chunk_is_delivered_at_once() -> None:
    assert timed(every_second("a", "b"), hold_back_s=0) == [(1, "a"), (2, "b")]


def test_the_end_of_the_answer_delivers_it_too() -> None:
    assert timed(every_second("a", "b")) == [(2, "a"), (2, "b")]


def test_time_alone_delivers_nothing() -> None:
    steps: list[Step] = [chunk("a"), silence(4.5), chunk("b"), finish(), done()]
    assert timed(steps) == [(4.5, "a"), (4.5, "b")]


def test_a_stall_in_the_time_that_is_held_back_is_raced() -> None:
    us = [silence(1), *answer("The ", "tide.")]
    assert timed([chunk("Once "), hang()], us) == [(6, "The "), (6, "tide.")]


def test_a_primary_that_resumes_first_keeps_its_progress() -> None:
    eu: list[Step] = [chunk("Once "), silence(5.5), chunk("upon."), finish(), done()]
    assert timed(eu, [silence(1), *answer("The ", "tide.")]) == [(5.5, "Once "), (5.5, "upon.")]


@pytest.mark.parametrize(
    ("winner", "expected"), [("first-delivered", "The tide."), ("first-complete", "Once upon.")]
)
def test_until_then_both_rules_for_a_winner_hold(winner: Winner, expected: str) -> None:
    eu: list[Step] = [chunk("Once "), silence(6.5), chunk("upon."), finish(), done()]
    us: list[Step] = [silence(1), chunk("The "), silence(2), chunk("tide."), finish(), done()]
    got = timed(eu, us, winner=winner)
    assert "".join(text for _, text in got) == expected


def test_what_breaks_before_it_is_delivered_is_tried_again_in_silence() -> None:
    got = timed([chunk("Once "), silence(1), cut()], every_second("The ", "tide."))
    assert [text for _, text in got] == ["The ", "tide."]
