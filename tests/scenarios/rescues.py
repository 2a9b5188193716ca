"""Situations of streams that were delivered in part, and of what is to rescue them, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygateway import StreamPolicy
from polygateway.testing import cut, role
from tests.scenarios.scripts import ENDING, beginning, refused, reply, speech, whole
from tests.scenarios.situations import eu_and_us, stalled
from tests.scenarios.stage import How, Make, Provider, Situation, registered

if TYPE_CHECKING:
    from polygateway.testing import Script

SITUATIONS: list[tuple[Make, How]] = []
situation = registered(SITUATIONS, "stream")

RESTART = StreamPolicy(recovery="restart")
CONTINUE = StreamPolicy(recovery="continue")
CONTINUE_OR_RESTART = StreamPolicy(recovery="continue-or-restart")

CUT = (*beginning("eu", 40), cut())
REFUSES_PREFILL = refused(400, "invalid_request_error")


def goes_on(who: str, start: int) -> Script:
    """Say the rest of somebody's answer."""
    return whole(role(), *speech(who, start, first_s=1), *ENDING)


@situation
def cut_and_restarted() -> Situation:
    return Situation(providers=eu_and_us(CUT), stream=RESTART)


@situation
def cut_and_continued() -> Situation:
    providers = {"eu": Provider(CUT), "us": Provider(goes_on("eu", 40))}
    return Situation(providers=providers, prefill=["us"], stream=CONTINUE)


@situation
def cut_and_said_again() -> Situation:
    """The second target is asked to go on, and begins at the beginning with the same words."""
    providers = {"eu": Provider(CUT), "us": Provider(reply("eu"))}
    return Situation(providers=providers, prefill=["us"], stream=CONTINUE)


@situation
def fallback_rejects_prefill() -> Situation:
    providers = {"eu": Provider(CUT), "us": Provider(REFUSES_PREFILL)}
    return Situation(providers=providers, prefill=["us"], stream=CONTINUE)


@situation
def fallback_rejects_prefill_and_another_goes_on() -> Situation:
    providers = {
        "eu": Provider(CUT),
        "us": Provider(REFUSES_PREFILL),
        "ap": Provider(goes_on("eu", 40)),
    }
    return Situation(providers=providers, prefill=["us", "ap"], stream=CONTINUE)


@situation
def fallback_rejects_prefill_and_restarts() -> Situation:
    providers = {"eu": Provider(CUT), "us": Provider(REFUSES_PREFILL, reply("us"))}
    return Situation(providers=providers, prefill=["us"], stream=CONTINUE_OR_RESTART)


@situation
def stalled_and_restarted() -> Situation:
    return Situation(providers=eu_and_us(stalled("eu")), stream=RESTART)


@situation
def stalled_and_continued() -> Situation:
    providers = {"eu": Provider(stalled("eu")), "us": Provider(goes_on("eu", 20))}
    return Situation(providers=providers, prefill=["us"], stream=CONTINUE)


@situation
def stalled_and_resumed_before_its_rescue() -> Situation:
    """The rescue starts at 6 s and would speak at 12 s; the old attempt does so at 9 s."""
    providers = {"eu": Provider(stalled("eu", 8)), "us": Provider(reply("us", first_s=6))}
    return Situation(providers=providers, stream=RESTART)


@situation
def stalled_and_its_rescue_fails() -> Situation:
    providers = {"eu": Provider(stalled("eu")), "us": Provider(refused(503))}
    return Situation(providers=providers, stream=RESTART)


@situation
def stalled_while_it_was_held_back() -> Situation:
    return Situation(providers=eu_and_us(stalled("eu")), stream=StreamPolicy(hold_back_s=10))
