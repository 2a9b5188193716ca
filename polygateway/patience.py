"""How long an attempt is waited for, and how much of its silence nobody waited in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.units import ns
from .net.clock import now_ns

if TYPE_CHECKING:
    from .core.timeline import Timeline
    from .policies import StreamPolicy

# After a finish reason usage may follow, and on some wires nothing ever ends the stream.
_GRACE_NS = 500_000_000


class Patience:
    """The times until which an attempt may be silent. All are stamps of the one clock.

    Time in which nobody was reading from the attempt postpones them: what the provider did in it
    is not known.
    """

    def __init__(self, timeline: Timeline, policy: StreamPolicy) -> None:
        self.first_by_ns: int = timeline.started_ns + ns(policy.ttft_timeout_s)
        """When its first content must be there."""

        self.finished_ns: int | None = None
        """When its finish reason came; ``None`` before, and when content has made it void."""

        self._timeline = timeline
        self._stall_ns = ns(policy.stall_timeout_s)
        self._began_ns = 0  # the last read
        self._returned_ns: int | None = timeline.started_ns  # None while somebody reads
        self._held_ns = 0
        """Time since the last content, or since the finish reason, in which nobody was reading."""

        self._finish_waited_ns = 0  # from the last content to the finish reason

    # ---- who reads ------------------------------------------------------------------------------

    def begin_read(self) -> None:
        """Note that somebody reads from now on."""
        self._began_ns = now_ns()
        if self._returned_ns is not None:
            self._held_ns += self._began_ns - self._returned_ns
            self._returned_ns = None

    def end_read(self) -> None:
        """Note that nobody reads from now on."""
        # Not since its bytes came: a flood of keep-alives keeps us parsing, and postpones nothing.
        self._returned_ns = now_ns()

    def unread_ns(self) -> int:
        """Give how long, since the last content or the finish reason, nobody was reading."""
        since = 0 if self._returned_ns is None else now_ns() - self._returned_ns
        return self._held_ns + since

    # ---- what came ------------------------------------------------------------------------------

    def note_content(self) -> None:
        """Note that the latest read brought content."""
        self._held_ns = 0

    def note_open(self) -> None:
        """Note that the answer is not finished."""
        self.finished_ns = None

    def note_finish(self) -> None:
        """Note that the finish reason is there: from now on only the end is waited for."""
        if self.finished_ns is None:
            self.finished_ns = self._timeline.arrived_ns
            self._finish_waited_ns = self._timeline.waited_ns
            self._held_ns = 0

    def forget_grace(self) -> None:
        """Note that the end did not come: what was waited for it is no part of the answer."""
        self._timeline.waited_ns = self._finish_waited_ns

    # ---- until when -----------------------------------------------------------------------------

    @property
    def excused_ns(self) -> int:
        """Until when silence means nothing, because the finish reason came; 0 for no excuse."""
        if self.finished_ns is None:
            return 0
        # Twice the grace: whatever is due with its end must not come before its end.
        return self.finished_ns + self.unread_ns() + 2 * _GRACE_NS

    @property
    def spoke_ns(self) -> int | None:
        """Stamp of the last content, later by the time since then in which nobody was reading.

        ``None`` before the first.
        """
        last = self._timeline.last_ns
        return None if last is None else last + self.unread_ns()

    def read_by_ns(self) -> int:
        """Give when the read that has begun gives up."""
        if self.finished_ns is not None:
            return self.finished_ns + self._held_ns + _GRACE_NS
        # Not what was waited in reads: a flood of keep-alives that is never waited for is no news.
        last = self._timeline.last_ns
        return self.first_by_ns if last is None else last + self._held_ns + self._stall_ns

    def stalls_at_ns(self) -> int | None:
        """Give when the silence will be a stall; ``None``: it will be none."""
        timeline = self._timeline
        if timeline.last_ns is None or self.finished_ns is not None:
            return None
        return self._began_ns + timeline.tally.threshold_ns - timeline.waited_ns
