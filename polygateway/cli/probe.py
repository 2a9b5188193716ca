"""``polygateway probe``: measure targets, one by one, and say how sure the figures are."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..errors import ConfigurationError
from ..gateway import open_gateway
from ..instrument import Instrument
from ..net.dial import Connect
from ..observe.journal import Journal
from ..policies import Config
from .app import FAILED
from .console import Console
from .probing.load import Load, Plan
from .probing.options import How, Where
from .probing.progress import run_watched
from .probing.record import record
from .probing.result import Result, result
from .probing.table import method, report
from .terminal import harmless


async def probe(
    *,
    where: Where = Where(),  # noqa: B008 - it is frozen
    how: How = How(),  # noqa: B008 - likewise
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    journal: Path | None = None,
) -> int:
    """Measure targets: how often and how soon they answer, how fast, and where they stall.

    Each target is measured by itself, one after the other, without hedges and retries. Ctrl-C
    prints what there is.

    Args:
        where: What is to be measured.
        how: How it is to be measured.
        as_json: Print everything, each request's figures included, as JSON.
        journal: Append the timeline of every request, the warm-up included, to this file.

    Returns:
        The exit code.
    """
    config = where.configuration()
    plan = how.plan(config.limits)
    page = _Page(as_json=as_json)
    with ExitStack() as closing:
        instruments = [] if journal is None else [closing.enter_context(_open(journal))]
        closing.callback(page.end)
        await measure(config, plan, page.show, instruments=instruments)
    return page.code


def _open(path: Path) -> Journal:
    try:
        return Journal(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write to {path}: {error.strerror}") from None


async def measure(
    config: Config,
    plan: Plan,
    show: Callable[[Result], None],
    *,
    connect: Connect | None = None,
    instruments: Sequence[Instrument] = (),
) -> None:
    """Measure the models of *config* one after the other.

    If cancelled, what there is of the one that is being measured is shown.

    Args:
        config: models that consist of the target of the same name.
        plan: what is to be done to each.
        show: called with what was found out about each.
        connect: as for :func:`open_gateway`.
        instruments: likewise.
    """
    async with open_gateway(config, connect=connect, instruments=instruments) as gateway:
        for target in config.models:
            load = Load(gateway, target, plan)
            try:
                await run_watched(load)
            finally:
                show(result(load, config))


class _Page:
    """Puts what was found out on standard output, and what went wrong on standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self._console = Console(highlight=False, markup=False, quiet=as_json)
        self._as_json = as_json
        self._results: list[Result] = []
        self.code: int = 0
        """1 if a target gave no whole answer."""

    def show(self, found: Result) -> None:
        """Show what was found out about a target."""
        self._results.append(found)
        if found.verdict is None or found.has_content:
            self._console.print(report(found, self._console.width))
        if found.verdict is not None:
            self.code = FAILED
            line = " ".join(f"polygateway: {found.load.target}: {found.verdict}".split())
            print(harmless(line), file=sys.stderr)

    def end(self) -> None:
        """Say what goes for all targets."""
        if self._as_json and self._results:
            print(json.dumps(record(self._results), indent=2, allow_nan=False))
        elif any(found.has_content for found in self._results):
            self._console.print(method(self._console.width))
