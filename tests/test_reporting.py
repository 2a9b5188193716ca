"""Instruments are told in order, and one that raises harms nobody."""

from __future__ import annotations

import logging

import attrs
import pytest

from polygateway.instrument import CallStarted, Committed, Instrument, StallBegan, StallEnded
from polygateway.reporting import Audience

STARTED = CallStarted(call=1, at_ns=0, model="m", stream=False, targets=("eu",))
COMMITTED = Committed(call=1, at_ns=0, attempt=0, target="eu")


@attrs.define(eq=False)
class Listener(Instrument):
    """Writes down who was told of what; may raise at the end of a call's start."""

    name: str
    told: list[str]
    wants_traces: bool = False
    raises: BaseException | None = None

    def call_started(self, event: CallStarted) -> None:
        self.told.append(f"{self.name}: call {event.call}")
        if self.raises is not None:
            raise self.raises

    def committed(self, event: Committed) -> None:
        self.told.append(f"{self.name}: committed {event.attempt}")


def test_everybody_is_told_in_the_order_in_which_they_were_given() -> None:
    told: list[str] = []
    audience = Audience(Listener(name, told) for name in "bac")
    audience.tell(STARTED)
    audience.tell(COMMITTED)
    assert told == [
        *("b: call 1", "a: call 1", "c: call 1"),
        *("b: committed 0", "a: committed 0", "c: committed 0"),
    ]


def test_one_that_raises_is_dropped_with_a_warning_and_the_others_are_told_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []
    failing = Listener("b", told, raises=ZeroDivisionError("the disk is full"))
    audience = Audience([Listener("a", told), failing, Listener("c", told)])
    with caplog.at_level(logging.WARNING, "polygateway"):
        audience.tell(STARTED)
        audience.tell(COMMITTED)
        audience.tell(STARTED)
    assert told == [
        *("a: call 1", "b: call 1", "c: call 1"),
        *("a: committed 0", "c: committed 0"),
        *("a: call 1", "c: call 1"),
    ]
    (warning,) = caplog.records
    assert (warning.name, warning.levelname) == ("polygateway", "WARNING")
    assert repr(failing) in warning.getMessage()
    assert "the disk is full" in caplog.text  # with the traceback


def test_of_two_that_are_equal_only_the_one_that_raised_is_dropped() -> None:
    @attrs.define
    class Alike(Instrument):
        limit: int = attrs.field(eq=False)
        told: int = attrs.field(default=0, eq=False)

        def call_started(self, event: CallStarted) -> None:
            self.told += 1
            if self.told == self.limit:
                raise ValueError

    first, second = Alike(limit=1), Alike(limit=100)
    assert first == second
    audience = Audience([first, second])
    for _ in range(3):
        audience.tell(STARTED)
    assert (first.told, second.told) == (1, 3)


def test_an_audience_whose_last_instrument_was_dropped_is_none() -> None:
    audience = Audience([Listener("a", [], wants_traces=True, raises=ValueError())])
    assert audience
    assert audience.wants_traces
    audience.tell(STARTED)
    assert not audience
    assert not audience.wants_traces


def test_traces_are_wanted_if_anybody_wants_them() -> None:
    assert not Audience([]).wants_traces
    assert not Audience([Listener("a", [])]).wants_traces
    assert Audience([Listener("a", []), Listener("b", [], wants_traces=True)]).wants_traces


class Began(Instrument):
    def stall_began(self, event: StallBegan) -> None: ...


class Ended(Instrument):
    def stall_ended(self, event: StallEnded) -> None: ...


def test_stalls_are_heard_if_anybody_overrides_either_method() -> None:
    assert not Audience([]).hears_stalls
    assert not Audience([Instrument(), Listener("a", [])]).hears_stalls
    assert Audience([Listener("a", []), Began()]).hears_stalls
    assert Audience([Ended(), Listener("a", [])]).hears_stalls


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_of_the_program_is_not_swallowed(interrupt: BaseException) -> None:
    told: list[str] = []
    audience = Audience([Listener("a", told, raises=interrupt), Listener("b", told)])
    with pytest.raises(type(interrupt)):
        audience.tell(STARTED)
    # It was no failure of the instrument's.
    audience.tell(COMMITTED)
    assert told == ["a: call 1", "a: committed 0", "b: committed 0"]


def test_an_instrument_that_overrides_nothing_may_be_told_of_everything() -> None:
    audience = Audience([Instrument()])
    audience.tell(STARTED)
    audience.tell(COMMITTED)
    assert audience
