"""HTTP/1.1 as h11 parses it, at two thirds of the price for each piece of a body."""

# h11 takes every event through its machine of states, which a piece of a body leaves as it is. Here
# such a piece is taken from h11's own reader of the body at once; all else goes h11's way.
# tests/net/test_parser.py compares the two on whatever bytes, and pins the private names.

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import h11

if TYPE_CHECKING:
    from collections.abc import Callable

    Event = type[h11.NEED_DATA | h11.PAUSED] | h11.Event


class Parser(h11.Connection):
    """The client's side of one connection."""

    def next_event(self) -> Event:
        """Give the next event, as h11 does.

        Raises:
            h11.RemoteProtocolError: what came is not HTTP/1.1.
        """
        if self.their_state is h11.SEND_BODY and self._receive_buffer:
            return self._next_of_body()
        return super().next_event()

    def _next_of_body(self) -> Event:
        read = cast("Callable[[object], h11.Event | None]", self._reader)
        try:
            event = read(self._receive_buffer)
        except h11.LocalProtocolError as error:
            self._process_error(self.their_role)
            hint = error.error_status_hint
            raise h11.RemoteProtocolError(str(error), error_status_hint=hint) from error
        if isinstance(event, h11.Data):
            return event
        if event is None:  # More is needed: h11 knows how much may be, and whether it can come.
            return super().next_event()
        self._process_event(self.their_role, event)
        return event
