"""Lanes are drawn from what the provider did, not from what the gateway thinks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from polygateway.cli.lanes import Lane, Mark, lanes
from polygateway.testing import Exchange, Request, ScriptedProvider, chunk, comment, headers, role
from tests.records import ATTEMPT

if TYPE_CHECKING:
    from polygateway.stats import AttemptStats, Outcome
    from polygateway.testing import Head, Send

LETTERS = {Mark.NOTHING: " ", Mark.SILENCE: ".", Mark.KEEPALIVE: "k", Mark.TEXT: "t"}
ASKED = Request(method="POST", path="/", headers={}, content=b"")


def exchange(
    started_at: float, *sent: tuple[float, Head | Send], ended_at: float | None = None
) -> Exchange:
    return Exchange(
        index=0,
        connection=0,
        request=ASKED,
        started_at=started_at,
        sent=list(sent),
        ended_at=ended_at,
    )


def attempt(target: str = "eu", index: int = 0, outcome: Outcome = "lost") -> AttemptStats:
    """Give the figures of an attempt from 500 to 1500 ms after the call."""
    return attrs.evolve(ATTEMPT, index=index, target=target, outcome=outcome, started_ms=500.0)


def drawn(exchange: Exchange, *, now: float = 100.0) -> str:
    marks = Lane("eu", exchange, None).marks(origin=10.0, now=now, slot_s=1.0)
    return "".join(LETTERS[mark] for mark in marks)


def test_a_lane_begins_with_its_request_and_ends_with_the_reply() -> None:
    assert drawn(exchange(12.5, ended_at=15.5)) == "  ...."


def test_a_lane_that_runs_is_silent_in_the_slots_that_are_over() -> None:
    assert drawn(exchange(10.5), now=12.5) == ".."


def test_a_lane_that_runs_shows_text_as_soon_as_it_comes() -> None:
    assert drawn(exchange(10.5, (12.1, chunk("a"))), now=12.2) == "..t"


def test_text_is_seen_before_keepalives_and_keepalives_before_silence() -> None:
    sent = [(11.2, comment()), (12.2, comment()), (12.4, chunk("a")), (12.6, comment())]
    assert drawn(exchange(10.5, *sent, ended_at=13.5)) == ".kt."


def test_what_is_neither_text_nor_keepalive_leaves_silence() -> None:
    assert drawn(exchange(10.5, (10.6, headers()), (11.6, role()), ended_at=12.5)) == "..."


def test_a_silence_lasts_since_the_last_text_whatever_keepalives_say() -> None:
    lane = Lane("eu", exchange(10.0, (11.0, chunk("a")), (14.0, comment())), None)
    assert lane.silence_s(15.0) == 4.0


def test_a_silence_before_any_text_lasts_since_the_request() -> None:
    assert Lane("eu", exchange(10.0), None).silence_s(12.0) == 2.0


def test_a_close_is_timed_from_the_decision_to_what_the_server_saw() -> None:
    lane = Lane("eu", exchange(10.5, ended_at=11.75), attempt())
    assert lane.closing_ms(called=10.0) == 250.0


@pytest.mark.parametrize("outcome", ["won", "failed", "cancelled"])
def test_only_who_lost_was_closed_on(outcome: Outcome) -> None:
    lane = Lane("eu", exchange(10.5, ended_at=11.75), attempt(outcome=outcome))
    assert lane.closing_ms(called=10.0) is None


def test_lanes_are_in_order_of_launch_with_the_attempt_that_each_one_is() -> None:
    eu, us = ScriptedProvider([]), ScriptedProvider([])
    eu.log += [exchange(1.0), exchange(3.0)]
    us.log += [exchange(2.0)]
    known = [attempt("eu", index=0), attempt("us", index=1), attempt("eu", index=2)]
    found = lanes({"us": us, "eu": eu}, known)
    assert [(lane.target, lane.exchange.started_at) for lane in found] == [
        ("eu", 1.0),
        ("us", 2.0),
        ("eu", 3.0),
    ]
    assert [lane.attempt for lane in found] == known


def test_lanes_of_a_call_that_runs_have_no_attempts_yet() -> None:
    provider = ScriptedProvider([])
    provider.log += [exchange(1.0)]
    assert [lane.attempt for lane in lanes({"eu": provider})] == [None]
