"""Telling instruments what happens, without letting them harm a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .instrument import Instrument
from .logs import LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .instrument import Event


class Audience:
    """The instruments of a gateway."""

    def __init__(self, instruments: Iterable[Instrument]) -> None:
        self._instruments = list(instruments)

    def __bool__(self) -> bool:
        """Tell whether there is anybody: else no event need be made."""
        return bool(self._instruments)

    @property
    def wants_traces(self) -> bool:
        """Whether somebody wants the timelines of attempts."""
        return any(instrument.wants_traces for instrument in self._instruments)

    @property
    def hears_stalls(self) -> bool:
        """Whether somebody wants to know of stalls, which costs a look at the clock a read."""
        return any(
            overridden is not default
            for each in self._instruments
            for overridden, default in (
                (type(each).stall_began, Instrument.stall_began),
                (type(each).stall_ended, Instrument.stall_ended),
            )
        )

    def tell(self, event: Event) -> None:
        """Tell everybody, in order. One that raises is dropped, with a warning in the log."""
        for instrument in tuple(self._instruments):
            try:
                event.tell(instrument)
            except Exception:  # noqa: BLE001 - whatever it is, no call may suffer from it
                self._instruments = [each for each in self._instruments if each is not instrument]
                LOGGER.warning("%r raised and is told of nothing more", instrument, exc_info=True)
