"""Whole calls that an instrument may see, in virtual time. Times are seconds."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs
import pytest
import trio

from polygateway import Gateway, GatewayError, HedgePolicy, StreamPolicy, open_gateway
from polygateway.aggregates import GatewayStats
from polygateway.instrument import CallEnded, Instrument
from polygateway.testing import (
    Script,
    ScriptedProvider,
    answer,
    chunk,
    done,
    finish,
    reasoning,
    run_virtual,
    serve_memory,
    silence,
    status,
    together,
    usage,
)
from tests.scenario import AT_ONCE, NO_RETRY, Policies

if TYPE_CHECKING:
    from polygateway.messages import JSON
    from polygateway.stats import CallStats

Play: TypeAlias = Callable[[Gateway], Awaitable["CallStats | None"]]

PROMPT = "say swordfish"
"""What callers ask, and what a provider repeats: nothing that is exported may hold it."""


DOCUMENT: dict[str, JSON] = {
    "id": "chatcmpl-scripted",
    "model": "scripted",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}


@attrs.frozen
class Scene:
    """Some targets of the model ``m``, and a call of it."""

    play: Play
    """Gives the figures that the caller sees; ``None`` where the caller gets none."""

    scripts: Mapping[str, Script | None]
    """What each target does; ``None``: it refuses connections."""

    policies: Policies = attrs.field(factory=Policies)

    def providers(self) -> Mapping[str, ScriptedProvider]:
        return {
            name: ScriptedProvider(script or (), refuses=script is None)
            for name, script in self.scripts.items()
        }


@attrs.frozen
class Shown:
    """What the call of a scene came to, as the caller and the gateway tell it."""

    event: CallEnded
    totals: GatewayStats

    @property
    def stats(self) -> CallStats:
        return self.event.stats


class Witness(Instrument):
    """Keeps how each call ended."""

    def __init__(self) -> None:
        self.ended: list[CallEnded] = []

    def call_ended(self, event: CallEnded) -> None:
        self.ended.append(event)


async def complete(gw: Gateway) -> CallStats:
    return (await gw.complete(PROMPT, model="m")).stats


async def read_all(gw: Gateway) -> CallStats:
    async with gw.stream(PROMPT, model="m") as stream:
        async for _ in stream:
            pass
    return stream.stats


async def read_one(gw: Gateway) -> CallStats:
    async with gw.stream(PROMPT, model="m") as stream:
        await anext(stream)
    return stream.stats


async def give_up(gw: Gateway) -> None:
    with trio.move_on_after(6):
        await gw.complete(PROMPT, model="m")


async def fail(gw: Gateway) -> None:
    with pytest.raises(GatewayError):
        await gw.complete(PROMPT, model="m")


async def break_off(gw: Gateway) -> None:
    with pytest.raises(GatewayError):
        await read_all(gw)


ENDING = (finish(), usage(7, 2), done())

SCENES = {
    # Silent from 0.6 on. At 5.6 it is hedged; us brings the first content at 5.7, its end at 6.1.
    "rescued": Scene(
        complete,
        {
            "eu": [*answer("a", "b", "c", every_s=0.2)[:-3], silence(55)],
            "us": answer("The ", "tide ", "turns ", "at ", "six.", every_s=0.1),
        },
    ),
    # 8 chunks from 0.1 to 0.7, the last two in one read, and after 3 s of silence 4 more, to 4.0.
    "stalled": Scene(
        read_all,
        {
            "eu": [
                *(step for _ in range(6) for step in (silence(0.1), reasoning("so "))),
                *(silence(0.1), together(chunk("The "), chunk("tide ")), silence(3)),
                *(step for _ in range(4) for step in (chunk("turns "), silence(0.1))),
                *(finish("length"), usage(9, 120), done()),
            ]
        },
    ),
    # The first content comes at 6; a hedge is due at 5, and may not start.
    "refused": Scene(
        complete,
        {"eu": [silence(6), *answer("The ", "tide.")]},
        Policies(hedge=HedgePolicy(max_attempts=1)),
    ),
    # Refused at once by one target, then by the other; both quote the prompt.
    "failed": Scene(
        fail,
        {"eu": status(429, PROMPT, {"retry-after": "300"}), "us": status(401, PROMPT)},
        Policies(retry=AT_ONCE),
    ),
    "unreachable": Scene(fail, {"eu": None}, Policies(retry=NO_RETRY)),
    # Cut 2.5 s after the second chunk, of 0.2.
    "cut": Scene(
        break_off,
        {"eu": [*answer("The ", "tide.", every_s=0.1)[:-3], silence(2.5)]},
        Policies(retry=NO_RETRY),
    ),
    # Silent from 0.1 on, and hedged at 5.1; the caller gives up at 6, when nobody has won.
    "duel": Scene(
        give_up,
        {"eu": [*answer("The ", every_s=0.1)[:-3], silence(55)], "us": [silence(55)]},
    ),
    # A whole answer comes in one document, which is no stream that could be timed.
    "document": Scene(complete, {"eu": [silence(1), *status(200, DOCUMENT)]}),
    # Cut as above; us is asked at 2.7, and its first content comes at 2.8, its end at 3.0.
    "restarted": Scene(
        read_all,
        {
            "eu": [*answer("The ", "tide.", every_s=0.1)[:-3], silence(2.5)],
            "us": answer("The ", "tide ", "turns.", every_s=0.1),
        },
        Policies(retry=AT_ONCE, stream=StreamPolicy(recovery="restart")),
    ),
    # Silent from 0.2 on, and hedged at 5.2; us goes on at 5.3, to its end at 5.4.
    "continued": Scene(
        read_all,
        {
            "eu": [*answer("The ", "tide ", every_s=0.1)[:-3], silence(55)],
            "us": answer("turns ", "at six.", every_s=0.1),
        },
        Policies(stream=StreamPolicy(recovery="continue")),
    ),
    # Silent from 0.1 to 8.1, and held out, so that it is not hedged.
    "held out": Scene(
        complete,
        {"eu": [silence(0.1), chunk("The "), silence(8), chunk("tide."), *ENDING]},
        Policies(hedge=HedgePolicy(holdout=1)),
    ),
    # The caller leaves after the first chunk, which comes at 0.5.
    "left": Scene(read_one, {"eu": answer("The ", "tide ", "turns.", every_s=0.5)}),
}


class Complaints(logging.Handler):
    """Keeps the warnings of a gateway: it drops an instrument that raises with nothing else."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


def show(name: str, *instruments: Instrument, times: int = 1) -> Shown:
    """Play a scene in front of instruments, and give what its last call came to."""
    complaints = Complaints()
    logging.getLogger("polygateway").addHandler(complaints)
    try:
        shown = run_virtual(_play, SCENES[name], instruments, times)
    finally:
        logging.getLogger("polygateway").removeHandler(complaints)
    assert complaints.said == []
    return shown


async def _play(scene: Scene, instruments: Sequence[Instrument], times: int) -> Shown:
    witness = Witness()
    async with serve_memory(scene.providers()) as network:
        config = network.config(prefill=scene.scripts, **scene.policies)
        watching = [*instruments, witness]
        async with open_gateway(config, connect=network.connect, instruments=watching) as gw:
            for _ in range(times):
                seen = await scene.play(gw)
                assert seen in (None, witness.ended[-1].stats)
            return Shown(witness.ended[-1], gw.stats())
