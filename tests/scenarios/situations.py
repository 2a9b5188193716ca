"""The situations that gateways are judged by: what each provider does, and when, as data.

Times are seconds. The policies are the defaults unless a situation says otherwise.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import trio

from polygateway import HedgePolicy, Limits, RetryPolicy, StreamPolicy
from polygateway.testing import (
    comment,
    cut,
    done,
    empty,
    error_frame,
    finish,
    hang,
    headers,
    keepalives,
    ping,
    raw,
    reset,
    role,
    silence,
)
from tests.scenarios.scripts import (
    ENDING,
    TOKENS,
    beginning,
    refused,
    reply,
    speech,
    tokens,
    whole,
)
from tests.scenarios.stage import Deaf, How, Make, Provider, Situation, registered

if TYPE_CHECKING:
    from collections.abc import Callable

    from polygateway.testing import Request, Script

SITUATIONS: list[tuple[Make, How]] = []
situation = registered(SITUATIONS, "complete", "stream")


def eu(*scripts: Script) -> dict[str, Provider]:
    """Give the only target of a model."""
    return {"eu": Provider(*scripts)}


def eu_and_us(*scripts: Script) -> dict[str, Provider]:
    """Give a primary that does what is said, and a second target that answers properly."""
    return {"eu": Provider(*scripts), "us": Provider(reply("us"))}


# ---------------------------------------------------------------- rate limits


@situation
def rate_limited_for_a_moment() -> Situation:
    return Situation(providers=eu_and_us(rate_limited(1), reply("eu")))


@situation
def rate_limited_for_longer() -> Situation:
    return Situation(providers=eu_and_us(rate_limited(20), reply("eu")))


@situation
def rate_limited_and_alone() -> Situation:
    return Situation(providers=eu(rate_limited(20), reply("eu")))


@situation
def rate_limited_beyond_the_deadline() -> Situation:
    return Situation(providers=eu(rate_limited(20), reply("eu")), options={"deadline_s": 10})


@situation
def rate_limited_for_an_hour() -> Situation:
    return Situation(providers=eu(rate_limited(3600)))


@situation
def rate_limited_for_ever() -> Situation:
    return Situation(providers=eu_and_us(rate_limited()))


@situation
def rate_limited_for_ever_and_alone() -> Situation:
    return Situation(providers=eu(rate_limited()))


@situation
def rate_limited_for_a_moment_again_and_again() -> Situation:
    return Situation(providers=eu(rate_limited(1)))


@situation
def rate_limited_everywhere() -> Situation:
    return Situation(providers={"eu": Provider(rate_limited()), "us": Provider(rate_limited())})


def rate_limited(retry_after_s: float | None = None) -> Script:
    return refused(429, "rate_limit_error", word="rate_limit", retry_after_s=retry_after_s)


@situation
def fallback_is_rate_limited_for_longer() -> Situation:
    return Situation(
        providers={"eu": Provider(refused(503), reply("eu")), "us": Provider(rate_limited(30))}
    )


@situation
def rival_is_rate_limited() -> Situation:
    """The second target has asked for half a minute when the first one hangs."""
    return Situation(
        providers={
            "eu": Provider(refused(503), [hang()], reply("eu")),
            "us": Provider(rate_limited(30), reply("us")),
        },
        retry=RetryPolicy(max_retries=1),
        calls_before=1,
    )


# ---------------------------------------------------------------- failures before any content


@situation
def one_500() -> Situation:
    return Situation(providers=eu_and_us(refused(500), reply("eu")))


@situation
def overloaded_for_ever() -> Situation:
    return Situation(providers=eu_and_us(refused(503)))


@situation
def overloaded_everywhere() -> Situation:
    return Situation(providers={"eu": Provider(refused(503)), "us": Provider(refused(503))})


@situation
def reset_before_the_headers() -> Situation:
    return Situation(providers=eu_and_us([reset()], reply("eu")))


@situation
def reset_before_the_headers_for_ever() -> Situation:
    return Situation(providers=eu_and_us([reset()]))


@situation
def bad_request() -> Situation:
    return Situation(providers=eu_and_us(refused(400, "invalid_request_error")))


@situation
def prompt_too_long_for_the_primary() -> Situation:
    return Situation(providers=eu_and_us(TOO_LONG))


@situation
def prompt_too_long_for_all() -> Situation:
    return Situation(providers={"eu": Provider(TOO_LONG), "us": Provider(TOO_LONG)})


TOO_LONG = refused(400, "invalid_request_error", word="context_length_exceeded")


@situation
def prompt_filtered() -> Situation:
    return Situation(
        providers=eu_and_us(refused(400, "invalid_request_error", word="content_filter"))
    )


@situation
def answer_filtered() -> Situation:
    return Situation(
        providers=eu_and_us(whole(*beginning("eu", 20), finish("content_filter"), done()))
    )


@situation
def malformed_first_chunk() -> Situation:
    return Situation(providers=eu_and_us([role(), silence(1), MALFORMED, *speech("eu"), *ENDING]))


@situation
def malformed_chunk_after_20_tokens() -> Situation:
    return Situation(
        providers=eu_and_us(
            [*beginning("eu", 20), silence(1), MALFORMED, *speech("eu", 20), *ENDING]
        )
    )


MALFORMED = raw(b'data: {"choices": [{"index": 0, "delta": {"content": "to\n\n')


@situation
def another_model_answers() -> Situation:
    us = Provider(reply("us", model="lyra-3-small"))
    return Situation(providers={"eu": Provider(refused(503)), "us": us})


# ---------------------------------------------------------------- silences before any content


@situation
def accepts_and_never_answers() -> Situation:
    return Situation(providers=eu_and_us([hang()]))


@situation
def fallback_never_answers() -> Situation:
    return Situation(
        providers={"eu": Provider(refused(503), reply("eu")), "us": Provider([hang()])}
    )


@situation
def two_never_answer() -> Situation:
    silent = {name: Provider([hang()]) for name in ("eu", "us")}
    return Situation(providers=silent | {"ap": Provider(reply("ap"))})


@situation
def two_never_answer_and_nothing_is_hedged() -> Situation:
    silent = {name: Provider([hang()]) for name in ("eu", "us")}
    return Situation(
        providers=silent | {"ap": Provider(reply("ap"))},
        hedge=HedgePolicy(enabled=False),
    )


@situation
def first_token_after_20_s() -> Situation:
    return Situation(providers=eu_and_us(reply("eu", first_s=20)))


@situation
def first_token_after_20_s_and_alone() -> Situation:
    return Situation(providers=eu(reply("eu", first_s=20)))


@situation
def keepalives_only() -> Situation:
    return Situation(providers=eu_and_us([headers(), *ALIVE, hang()]))


ALIVE = (
    *keepalives(100, every_s=4, step=comment("OPENROUTER PROCESSING")),
    *keepalives(100, every_s=4, step=ping()),
    *keepalives(100, every_s=4, step=empty()),
)


@situation
def one_event_bit_by_bit() -> Situation:
    event = tokens("eu", 0, 1).data
    bits = [event[at : at + 20] for at in range(0, len(event), 20)]
    dripping = [step for bit in bits for step in (silence(2), raw(bit))]
    return Situation(providers=eu_and_us([headers(), *dripping, hang()]))


# ---------------------------------------------------------------- trouble after the first content


@situation
def cut_after_40_of_60_tokens() -> Situation:
    return Situation(providers=eu_and_us([*beginning("eu", 40), cut()]))


@situation
def stall_of_30_s_after_20_tokens() -> Situation:
    return Situation(providers=eu_and_us(stalled("eu")))


def stalled(who: str, silence_s: float = 30) -> Script:
    return whole(*beginning(who, 20), *speech(who, 20, first_s=silence_s), *ENDING)


@situation
def keepalives_only_after_20_tokens() -> Situation:
    alive = keepalives(30, every_s=1)
    return Situation(
        providers=eu_and_us(
            whole(*beginning("eu", 20), *alive, *speech("eu", 20, first_s=0), *ENDING)
        )
    )


@situation
def a_trickle() -> Situation:
    """A token every three seconds: slow, and yet it flows."""
    slow = [step for place in range(6) for step in (silence(3), tokens("eu", place, place + 1))]
    return Situation(providers=eu_and_us(whole(role(), *slow, *ENDING)))


@situation
def no_done_but_a_finish_reason() -> Situation:
    return Situation(providers=eu_and_us(whole(*beginning("eu", TOKENS), finish())))


@situation
def no_done_and_no_end_of_the_connection() -> Situation:
    return Situation(providers=eu_and_us([*beginning("eu", TOKENS), finish(), hang()]))


@situation
def no_done_and_no_finish_reason() -> Situation:
    return Situation(providers=eu_and_us(beginning("eu", TOKENS)))


# ---------------------------------------------------------------- rivals


@situation
def error_frame_from_the_rival_of_a_late_primary() -> Situation:
    return Situation(providers={"eu": Provider(reply("eu", first_s=9)), "us": Provider(ERROR)})


@situation
def error_frame_from_the_rival_of_a_stalled_primary() -> Situation:
    return Situation(providers={"eu": Provider(stalled("eu", 9)), "us": Provider(ERROR)})


ERROR = (silence(0.5), error_frame("the engine died"))


@situation
def resumes_as_its_rival_speaks() -> Situation:
    """The primary stops at 1 s; its rival starts at 6 s, and both speak at 7 s."""
    return Situation(providers=eu_and_us(stalled("eu", 6)))


@situation
def begins_as_its_rival_begins() -> Situation:
    """The rival starts at 5 s, and both begin at 6 s."""
    return Situation(providers=eu_and_us(reply("eu", first_s=6)))


@situation
def loser_goes_on_writing() -> Situation:
    """The primary is given up at 6 s, and at 7.6 s begins to write without looking."""
    late = [step for at in range(100) for step in (tokens("eu", at, at + 1), silence(0.2))]
    return Situation(
        providers={"eu": Deaf([headers(), silence(7.6), *late]), "us": Provider(reply("us"))}
    )


@situation
def rival_stalls_too() -> Situation:
    """The second target stalls as well; the third attempt is for the third target."""
    return Situation(
        providers={
            "eu": Provider(stalled("eu")),
            "us": Provider(stalled("us")),
            "ap": Provider(reply("ap")),
        }
    )


# ---------------------------------------------------------------- what applications do


@situation
def plain() -> Situation:
    return Situation(providers=eu_and_us(reply("eu")), stream=StreamPolicy(stall_timeout_s=20))


@situation
def reused_connections_die() -> Situation:
    return Situation(
        providers={"eu": Provider(reply("eu"), drops_reused=True), "us": Provider(reply("us"))},
        calls_before=1,
    )


STORM_S = 10.0
SLOTS = 4


def storm() -> Situation:
    """For ten seconds, what comes is a matter of luck; there are few slots, and much contention."""
    return Situation(
        providers={
            who: Provider(weather(who, Random(seed))) for seed, who in enumerate(("eu", "us"))
        },
        limits=Limits(max_connections_per_target=SLOTS, admission_timeout_s=2),
    )


def weather(who: str, rng: Random) -> Callable[[Request], Script]:
    def script(_: Request) -> Script:
        fate = rng.random() if trio.current_time() < STORM_S else 1.0
        if fate < 0.1:
            return refused(500)
        if fate < 0.3:
            return [*beginning(who, 20), hang()]
        return [silence(rng.choice([0, 0.1, 1])), *reply(who)]

    return script
