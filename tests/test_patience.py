"""What an attempt is waited for, where the clock goes on while nobody waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polygateway import StreamPolicy
from polygateway.core.timeline import Timeline
from polygateway.net.clock import now_ns
from polygateway.patience import Patience
from tests.net.wires import SECOND

if TYPE_CHECKING:
    from trio.testing import MockClock


class Reading:
    """An attempt whose reads find what they bring at once."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self.timeline = Timeline(now_ns(), SECOND)
        self.patience = Patience(self.timeline, StreamPolicy(stall_timeout_s=2))

    def read(self, *, content: bool = False, parsed_s: float = 0) -> None:
        """Read, and take so long to take apart what came."""
        self.patience.begin_read()
        self.timeline.read(now_ns(), now_ns())
        if content:
            self.timeline.content(1, [], None)
            self.patience.note_content()
        self._clock.jump(parsed_s)
        self.patience.end_read()


async def test_parsing_a_flood_of_keepalives_postpones_nothing(mock_clock: MockClock) -> None:
    reading = Reading(mock_clock)
    reading.read(content=True)
    for _ in range(20):
        reading.read(parsed_s=0.1)
    reading.patience.begin_read()
    assert reading.patience.read_by_ns() == now_ns()
    assert reading.patience.spoke_ns == reading.timeline.last_ns


async def test_time_in_which_nobody_reads_postpones_the_end_of_a_silence(
    mock_clock: MockClock,
) -> None:
    reading = Reading(mock_clock)
    reading.read(content=True)
    mock_clock.jump(1.5)
    reading.read(parsed_s=0.25)
    mock_clock.jump(1.5)
    assert reading.patience.spoke_ns == 3 * SECOND
    reading.patience.begin_read()
    assert reading.patience.read_by_ns() == 5 * SECOND


async def test_behind_a_finish_reason_only_the_time_after_it_counts(mock_clock: MockClock) -> None:
    reading = Reading(mock_clock)
    reading.read(content=True)
    mock_clock.jump(1.5)
    reading.patience.begin_read()
    reading.timeline.read(now_ns(), now_ns())
    reading.patience.note_finish()
    reading.patience.end_read()
    mock_clock.jump(0.25)
    reading.patience.begin_read()
    assert reading.patience.read_by_ns() == 1.5 * SECOND + 0.25 * SECOND + 0.5 * SECOND


async def test_content_behind_a_finish_reason_makes_it_void(mock_clock: MockClock) -> None:
    reading = Reading(mock_clock)
    reading.read(content=True)
    reading.patience.note_finish()
    assert reading.patience.excused_ns
    reading.read(content=True)
    reading.patience.note_open()
    assert not reading.patience.excused_ns
    reading.patience.begin_read()
    assert reading.patience.read_by_ns() == 2 * SECOND
