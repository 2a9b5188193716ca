"""How late our own event loop was, so that it is not taken for a provider's silence."""

# Theory of operation
# ===================
#
# Rule 1: what computes for long without a checkpoint keeps the loop from looking at its sockets.
#         Bytes that come meanwhile wait in the kernel, and a read that is parked seems to wait for
#         the provider. (TCP_INFO does not tell when they came: its last segment is always fresh.)
# Rule 2: bytes that a poll finds came after the poll before it. So the time that they can have
#         waited for us is what tasks ran between these two polls, and then what ran between the
#         poll and the reader's turn; of both, what lies within the wait.
# Rule 3: a read that ends without a byte was not late: the poll that ended it had found nothing.
#
# So a silence is never overestimated. It is underestimated where it overlaps with such a busy time.

from __future__ import annotations

import trio

from ..core.units import ns


class LoopWatch(trio.abc.Instrument):
    """Notes when trio's loop looks for I/O: two stamps a turn, and nothing for each chunk.

    To be made in a trio run, and added to it with ``trio.lowlevel.add_instrument``.
    """

    def __init__(self) -> None:
        # As the clock gives them, and from the clock itself: two stamps are taken at every turn of
        # the loop, and used at few.
        self._now = trio.lowlevel.current_clock().current_time
        self._polled = self._polls = self._polled_before = self._now()

    def before_io_wait(self, timeout: float) -> None:
        """Stamp the beginning of a poll."""
        self._polled_before = self._polled
        self._polls = self._now()

    def after_io_wait(self, timeout: float) -> None:
        """Stamp the end of a poll."""
        self._polled = self._now()

    def late_ns(self, asked_ns: int, arrived_ns: int) -> int:
        """Tell how late a read was that has brought bytes; to be asked in its task, at once.

        Args:
            asked_ns: when it was begun.
            arrived_ns: when it returned: now.
        """
        polled = ns(self._polled)
        if asked_ns >= polled:
            return arrived_ns - asked_ns
        busy_before = ns(self._polls) - max(ns(self._polled_before), asked_ns)
        return max(busy_before, 0) + arrived_ns - polled
