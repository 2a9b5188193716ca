"""The console that commands print on, and what they show while it takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich.console
import trio

if TYPE_CHECKING:
    from rich.live import Live


class Console(rich.console.Console):
    """rich's console, but for a closed pipe."""

    def on_broken_pipe(self) -> None:
        """Leave it to whoever runs the command: rich would exit in the middle of a task."""
        raise BrokenPipeError


async def keep_painting(live: Live, *, every_s: float) -> None:
    """Show what there is to see again and again, until cancelled."""
    while True:
        live.refresh()
        await trio.sleep(every_s)
