"""Situations in which targets are out for a minute, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from polygateway.testing import hang, reset, silence
from tests.scenarios.scripts import refused, reply
from tests.scenarios.stage import How, Make, Provider, Situation, registered

if TYPE_CHECKING:
    from collections.abc import Callable

    from polygateway.testing import Request, Script

SITUATIONS: list[tuple[Make, How]] = []
situation = registered(SITUATIONS, "complete", "stream")

OUTAGE_S = 60.0


def until_the_outage_ends(bad: Script, who: str) -> Callable[[Request], Script]:
    """Do as *bad* for a minute, then answer properly."""
    end = trio.current_time() + OUTAGE_S
    return lambda _: bad if trio.current_time() < end else reply(who)


def outage(bad: Script) -> Situation:
    """Let the primary be out for a minute."""
    return Situation(
        providers={"eu": Provider(until_the_outage_ends(bad, "eu")), "us": Provider(reply("us"))},
    )


@situation
def outage_with_500() -> Situation:
    return outage(refused(500))


@situation
def outage_with_resets() -> Situation:
    return outage([reset()])


@situation
def outage_in_silence() -> Situation:
    return outage([hang()])


@situation
def outage_in_which_each_failure_takes_a_second() -> Situation:
    return outage([silence(1), *refused(500)])


@situation
def outage_of_both() -> Situation:
    return outage_of_all(refused(503))


@situation
def outage_of_both_in_silence() -> Situation:
    return outage_of_all([hang()])


def outage_of_all(bad: Script) -> Situation:
    providers = {name: Provider(until_the_outage_ends(bad, name)) for name in ("eu", "us")}
    return Situation(providers=providers)
