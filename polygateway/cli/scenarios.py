"""The demo's scenarios: what the providers do, what is asked of the gateway, what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import attrs
import trio

from ..errors import GatewayError
from ..messages import Completion
from ..policies import HedgePolicy, Recovery, StreamPolicy
from ..stats import AttemptStats
from ..testing import (
    Script,
    ScriptedProvider,
    chunk,
    cut,
    done,
    finish,
    headers,
    keepalives,
    role,
    silence,
    usage,
)
from .lanes import Lane, Providers, lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..gateway import Gateway
    from ..policies import Config
    from ..stats import CallStats
    from ..testing import ServedProviders, Step

QUESTION = "Why does the tide turn twice a day?"
ANSWER = "The moon pulls the sea, and the earth turns beneath it in a day."

_PIECES = tuple(ANSWER[at : at + 3] for at in range(0, len(ANSWER), 3))
_HALF = 9

# Seconds: the proportions of real calls, shrunk until nobody minds to watch. Real ones take 1.6 s
# to the first content, and a stall then lasts 55 s.
_FIRST_S = 0.3
_EVERY_S = 0.03
_STALL_S = 3.0
_KEEPALIVE_S = 0.25
_HEDGE_S = 0.5
_COUNTS_AS_STALL_S = 0.4


@attrs.frozen(kw_only=True)
class Scenario:
    """One call: providers with their scripts, and how the gateway is to go about it."""

    name: str
    says: str
    """What there is to be seen."""

    scripts: Mapping[str, Script]
    """By the provider's name, the primary first."""

    hedge: HedgePolicy
    stream: StreamPolicy
    how: Literal["complete", "stream"] = "complete"
    """Which of the gateway's methods is called."""

    def cast(self) -> Providers:
        """Make providers that play the scripts."""
        return {name: ScriptedProvider(script) for name, script in self.scripts.items()}

    def config(self, served: ServedProviders) -> Config:
        """Give the configuration of a gateway to the providers, all of which can go on."""
        return served.config(prefill=self.scripts, hedge=self.hedge, stream=self.stream)


@attrs.frozen(kw_only=True)
class Result:
    """What became of a call, as its application saw it."""

    scenario: str
    started: float
    """When the application called, on trio's clock."""

    elapsed_ms: float
    completion: Completion | None
    """What it received; ``None`` for nothing at all."""

    error: GatewayError | None
    attempts: Sequence[AttemptStats]
    lanes: Sequence[Lane]
    """The same attempts, as their providers saw them."""

    @property
    def outcome(self) -> str:
        """``complete``, or the name of the error's class."""
        return "complete" if self.error is None else type(self.error).__name__

    @property
    def stats(self) -> CallStats | None:
        """The call's figures; ``None`` if nothing came."""
        return None if self.completion is None else self.completion.stats

    @property
    def total_ms(self) -> float:
        """How long the call took."""
        return self.elapsed_ms if self.stats is None else self.stats.total_ms

    @property
    def closing_ms(self) -> float | None:
        """The longest that a loser's server waited for the close; ``None`` without a loser."""
        every = [lane.closing_ms(self.started) for lane in self.lanes]
        return max((ms for ms in every if ms is not None), default=None)


async def perform(
    scenario: Scenario, gw: Gateway, providers: Providers, receive: Callable[[str], None]
) -> Result:
    """Make the scenario's call. An error of the gateway is a result like another.

    Args:
        scenario: what to play.
        gw: a gateway to its providers.
        providers: its cast, which nobody has asked yet.
        receive: called with the pieces of text that the application gets, when it gets them.
    """
    started = trio.current_time()
    error: GatewayError | None = None
    completion: Completion | None
    try:
        completion = await _call(scenario, gw, receive)
        attempts = completion.stats.attempts
    except GatewayError as failure:
        error, completion, attempts = failure, failure.partial, failure.attempts
    return Result(
        scenario=scenario.name,
        started=started,
        elapsed_ms=(trio.current_time() - started) * 1000,
        completion=completion,
        error=error,
        attempts=attempts,
        lanes=lanes(providers, attempts),
    )


async def _call(scenario: Scenario, gw: Gateway, receive: Callable[[str], None]) -> Completion:
    if scenario.how == "complete":
        completion = await gw.complete(QUESTION, model="m")
        receive(completion.text)
        return completion
    async with gw.stream(QUESTION, model="m") as stream:
        async for piece in stream:
            receive(piece.text)
    return stream.completion


def scenarios(pace: float = 1.0) -> Sequence[Scenario]:
    """Give all scenarios.

    Args:
        pace: every duration is multiplied by this.
    """
    pause = silence(_STALL_S * pace)
    alive = keepalives(_STALL_S * pace, every_s=_KEEPALIVE_S * pace)
    begin, end = _beginning(pace), _end(pace)
    return (
        _scenario(
            "stalled-unhedged",
            f"eu falls silent for {_STALL_S:g} s in the middle of its answer. Hedging is off.",
            (*begin, pause, *end),
            pace,
            hedged=False,
        ),
        _scenario(
            "stalled-hedged",
            f"The same, but after {_HEDGE_S:g} s of silence us is asked too.",
            (*begin, pause, *end),
            pace,
        ),
        _scenario(
            "keepalives-hedged",
            "eu sends keep-alives in its silence: no read timeout would ever notice.",
            (*begin, *alive, *end),
            pace,
        ),
        _scenario(
            "slow-start-hedged",
            f"eu does not begin: after {_HEDGE_S:g} s without content us is asked too.",
            (*_beginning(pace, first_s=_STALL_S), *end),
            pace,
        ),
        _scenario(
            "cut",
            "eu cuts a stream in the middle of its delivery: an error, never a whole answer.",
            (*begin, cut()),
            pace,
            hedged=False,
            how="stream",
        ),
        _scenario(
            "cut-continued",
            "The same, but us goes on where eu was cut: one answer, with a seam.",
            (*begin, cut()),
            pace,
            how="stream",
            recovery="continue",
        ),
    )


def _scenario(
    name: str,
    says: str,
    eu: Script,
    pace: float,
    *,
    hedged: bool = True,
    how: Literal["complete", "stream"] = "complete",
    recovery: Recovery = "raise",
) -> Scenario:
    """Give a scenario in which eu does as it is told, and us behaves."""
    limit_s = _HEDGE_S * pace
    us = (*_beginning(pace), *_end(pace)) if recovery == "raise" else _rest(pace)
    return Scenario(
        name=name,
        says=says,
        scripts={"eu": eu, "us": us},
        hedge=HedgePolicy(enabled=hedged, after_s=limit_s, stall_after_s=limit_s),
        stream=StreamPolicy(stall_threshold_ms=_COUNTS_AS_STALL_S * pace * 1000, recovery=recovery),
        how=how,
    )


def _beginning(pace: float, *, first_s: float = _FIRST_S) -> Script:
    """Give the first half of an answer, whose first piece comes after *first_s*."""
    return (headers(), silence(first_s * pace), role(), *_flow(_PIECES[:_HALF], pace))


def _rest(pace: float) -> Script:
    """Go on with an answer of which the first half is there."""
    return (headers(), silence(_FIRST_S * pace), role(), *_end(pace))


def _end(pace: float) -> Script:
    """Give the other half, and the proper end."""
    return (*_flow(_PIECES[_HALF:], pace), finish(), usage(12, len(_PIECES)), done())


def _flow(pieces: Sequence[str], pace: float) -> Iterator[Step]:
    for piece in pieces:
        yield from (silence(_EVERY_S * pace), chunk(piece))
