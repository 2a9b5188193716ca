"""``polygateway demo``: a stall, and what becomes of it, before one's eyes."""

import json
import textwrap
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated

import attrs
import trio
from cyclopts import Parameter
from rich.live import Live

from ..gateway import open_gateway
from ..testing import serve_tcp
from .console import Console, keep_painting
from .picture import Look, Stage, summary
from .scenarios import Result, Scenario, perform, scenarios

_FRAME_S = 0.08
_READABLE = 78

_INTRODUCTION = (
    "Two scripted providers on this machine, eu and us, are called through polygateway. eu goes"
    " first and misbehaves. A lane shows what a provider sends while the call runs."
)
_CAPTION = "loser closed: from the decision against it to the close, as its server saw it"


async def demo(*, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """Show what a stall is and what becomes of it: no key, no configuration, 15 seconds.

    Two scripted providers are served on this machine. Nothing leaves it.

    Args:
        as_json: Print the figures alone, as JSON.
    """
    await play(scenarios(), as_json=as_json)


async def play(programme: Iterable[Scenario], *, as_json: bool) -> None:
    """Play scenarios one after the other, and print what came of them."""
    console = Console(highlight=False, quiet=as_json)
    look = Look.on(console)
    console.print(textwrap.fill(_INTRODUCTION, min(look.width, _READABLE)), end="\n\n")
    console.print(look.legend(), end="\n\n")
    results = [await _play(scenario, look, console) for scenario in programme]
    console.print(summary(results, look.width), _CAPTION, sep="\n")
    if as_json:
        print(json.dumps({"scenarios": [record(result) for result in results]}, indent=2))


async def _play(scenario: Scenario, look: Look, console: Console) -> Result:
    providers = scenario.cast()
    async with (
        serve_tcp(providers) as served,
        open_gateway(scenario.config(served)) as gw,
    ):
        stage = Stage(scenario, providers, look)
        with Live(stage, console=console, auto_refresh=False, transient=True) as live:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(keep_painting, live, every_s=_FRAME_S))
                stage.result = await perform(scenario, gw, providers, stage.receive)
                nursery.cancel_scope.cancel()
    console.print(stage, "")
    return stage.result


def record(result: Result) -> Mapping[str, object]:
    """Give what ``--json`` says of a call."""
    figures: object
    if result.stats is not None:
        figures = attrs.asdict(result.stats)
    else:
        figures = {"attempts": [attrs.asdict(attempt) for attempt in result.attempts]}
    return {
        "name": result.scenario,
        "total_ms": result.total_ms,
        "outcome": result.outcome,
        "stats": figures,
    }
