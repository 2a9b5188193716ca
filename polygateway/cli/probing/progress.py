"""How far a load is, for somebody who watches."""

from __future__ import annotations

from collections import Counter

import attrs
import trio
from rich.live import Live
from rich.text import Text

from ..console import Console, keep_painting
from ..terminal import harmless
from .load import Load

_EVERY_S = 0.25
"""Drawing takes a millisecond or two of the loop that measures."""


async def run_watched(load: Load) -> None:
    """Make all requests of *load*, and show on standard error how far it is.

    Nothing is shown unless that is a terminal. If cancelled, what has been found out is in *load*.
    """
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        await load.run()
        return
    with Live(Progress(load), console=console, auto_refresh=False, transient=True) as live:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_paint, live)
            await load.run()
            nursery.cancel_scope.cancel()


async def _paint(live: Live) -> None:
    await keep_painting(live, every_s=_EVERY_S)


@attrs.frozen
class Progress:
    """A load as a line. rich draws it as it stands."""

    load: Load

    def __rich__(self) -> Text:
        load = self.load
        part, ended, of = (
            ("requests", load.samples, load.plan.requests)
            if load.measuring
            else ("for warm-up", load.warmups, load.plan.warmup)
        )
        outcomes = Counter(sample.outcome for sample in ended)
        told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        line = Text.assemble(
            (harmless(load.target), "bold"),
            f"   {len(ended)} of {of} {part}   {load.running} running",
            f"   {told}" if told else "",
            f"   {trio.current_time() - load.began_s:.1f} s",
        )
        line.no_wrap, line.overflow = True, "ellipsis"
        return line
