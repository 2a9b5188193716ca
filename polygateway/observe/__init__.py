"""Instruments: what watches a gateway at work, keeps what it measured, exports and draws it.

::

    from polygateway import open_gateway
    from polygateway.observe import Journal


    async def main():
        with Journal("calls.jsonl") as journal:
            async with open_gateway(instruments=[journal]) as gw:
                await gw.complete("How is the tide?", model="fast")

``OpenTelemetryInstrument`` needs ``pip install polygateway[otel]``, ``PrometheusInstrument`` needs
``polygateway[prometheus]``; nothing else here needs either.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.figures import figures_of
    from ..instrument import (
        AttemptEnded,
        AttemptStarted,
        CallEnded,
        CallStarted,
        Committed,
        Event,
        HedgeRefused,
        Instrument,
        SeamMade,
        StallBegan,
        StallEnded,
    )
    from ..logs import LoggingInstrument
    from ..trace import Arrival, Piece, Trace
    from .journal import Journal
    from .opentelemetry import OpenTelemetryInstrument
    from .page import draw_page
    from .picture import draw_call
    from .prometheus import PrometheusInstrument
    from .reading import JournalProblem, JournalReading, UnfinishedCall, read_journal
    from .records import RecordedAttempt, RecordedCall

__all__ = [
    "Arrival",
    "AttemptEnded",
    "AttemptStarted",
    "CallEnded",
    "CallStarted",
    "Committed",
    "Event",
    "HedgeRefused",
    "Instrument",
    "Journal",
    "JournalProblem",
    "JournalReading",
    "LoggingInstrument",
    "OpenTelemetryInstrument",
    "Piece",
    "PrometheusInstrument",
    "RecordedAttempt",
    "RecordedCall",
    "SeamMade",
    "StallBegan",
    "StallEnded",
    "Trace",
    "UnfinishedCall",
    "draw_call",
    "draw_page",
    "figures_of",
    "read_journal",
]

# Where a name is not among the events. Each module is loaded when a name of it is first used, for
# one may need an extra that is not installed, and another is not cheap.
_HOMES = {
    "Arrival": "..trace",
    "Journal": ".journal",
    "JournalProblem": ".reading",
    "JournalReading": ".reading",
    "LoggingInstrument": "..logs",
    "OpenTelemetryInstrument": ".opentelemetry",
    "Piece": "..trace",
    "PrometheusInstrument": ".prometheus",
    "RecordedAttempt": ".records",
    "RecordedCall": ".records",
    "Trace": "..trace",
    "UnfinishedCall": ".reading",
    "draw_call": ".picture",
    "draw_page": ".page",
    "figures_of": "..core.figures",
    "read_journal": ".reading",
}


def __getattr__(name: str) -> object:
    if name in __all__:
        home = import_module(_HOMES.get(name, "..instrument"), __name__)
        return globals().setdefault(name, getattr(home, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
