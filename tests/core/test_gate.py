from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest

from polygateway.core.gate import (
    ATTEMPT_TRANSITIONS,
    RACE_TRANSITIONS,
    AttemptEvent,
    AttemptState,
    Gate,
    IllegalTransition,
    RaceEvent,
    RaceState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RUNNING, WON, LOST, FAILED, CANCELLED = AttemptState
RACING, COMMITTED, ENDED = RaceState


class Seen(NamedTuple):
    """All that can be seen of a gate."""

    race: RaceState
    attempts: list[AttemptState]
    speaks: list[bool]
    contenders: list[int]


def seen(gate: Gate) -> Seen:
    attempts = list(gate.attempts)
    speaks = [gate.may_speak(index) for index in range(len(attempts))]
    return Seen(gate.race, attempts, speaks, gate.contenders())


def gate_of(race: RaceState, *attempts: AttemptState) -> Gate:
    """Put a gate into any state, whether or not a race could lead there."""
    gate = Gate()
    for _ in attempts:
        gate.launch()
    gate.race = race
    gate.attempts[:] = attempts
    return gate


def refused(gate: Gate, act: Callable[[], object]) -> str:
    """Give what the gate says when it refuses *act*, which must change nothing."""
    before = seen(gate)
    with pytest.raises(IllegalTransition) as caught:
        act()
    assert seen(gate) == before
    return str(caught.value)


# What happens to one attempt: everything that is not listed is refused.
LEGAL = {
    (RUNNING, "lose"): LOST,
    (RUNNING, "fail"): FAILED,
    (RUNNING, "cancel"): CANCELLED,
    (WON, "lose"): LOST,
    (WON, "fail"): FAILED,
    (WON, "cancel"): CANCELLED,
}


@pytest.mark.parametrize(
    ("state", "event"), list(product(AttemptState, ["lose", "fail", "cancel"]))
)
def test_an_attempt_goes_where_the_table_says_and_nowhere_else(
    state: AttemptState, event: str
) -> None:
    gate = gate_of(RACING, RUNNING, state, WON)
    events = {"lose": gate.lose, "fail": gate.fail, "cancel": gate.cancel}
    if (state, event) in LEGAL:
        events[event](1)
        assert gate.attempts == [RUNNING, LEGAL[state, event], WON]
    else:
        assert refused(gate, lambda: events[event](1)) == f"{event} while {state.value}"


@pytest.mark.parametrize(("race", "state"), list(product(RaceState, AttemptState)))
def test_only_an_attempt_that_may_speak_in_an_open_race_can_be_committed(
    race: RaceState, state: AttemptState
) -> None:
    gate = gate_of(race, RUNNING, state)
    if race is RACING and state in {RUNNING, WON}:
        assert gate.commit(1) == [0]
        assert seen(gate) == Seen(COMMITTED, [LOST, WON], [False, True], [1])
    else:
        culprit = race.value if race is not RACING else state.value
        event = "commit" if race is not RACING else "win"
        assert refused(gate, lambda: gate.commit(1)) == f"{event} while {culprit}"


@pytest.mark.parametrize("race", RaceState)
def test_only_a_race_that_is_committed_is_reopened(race: RaceState) -> None:
    gate = gate_of(race, WON, LOST)
    if race is COMMITTED:
        gate.reopen()
        assert seen(gate) == Seen(RACING, [WON, LOST], [True, False], [0])
    else:
        assert refused(gate, gate.reopen) == f"reopen while {race.value}"


def test_in_a_race_that_is_reopened_one_speaks_in_the_end_and_it_may_be_the_same() -> None:
    for winner in (0, 1, 2):
        gate = gate_of(COMMITTED, WON)
        gate.reopen()
        gate.launch()
        gate.launch()
        assert [gate.may_speak(index) for index in range(3)] == [True] * 3
        assert gate.commit(winner) == [index for index in range(3) if index != winner]
        assert [index for index in range(3) if gate.may_speak(index)] == [winner]


@pytest.mark.parametrize("race", RaceState)
def test_a_race_ends_once(race: RaceState) -> None:
    gate = gate_of(race, RUNNING)
    if race is ENDED:
        assert refused(gate, gate.end) == "end while ended"
    else:
        gate.end()
        assert gate.race is ENDED


@pytest.mark.parametrize("race", RaceState)
def test_only_an_open_race_lets_attempts_in(race: RaceState) -> None:
    gate = gate_of(race, RUNNING)
    if race is RACING:
        assert gate.launch() == 1
        assert gate.attempts == [RUNNING, RUNNING]
    else:
        assert refused(gate, gate.launch) == f"no launch: the race is {race.value}"


@pytest.mark.parametrize(("race", "state"), list(product(RaceState, AttemptState)))
def test_who_runs_in_an_open_race_or_has_won_may_speak_and_nobody_else(
    race: RaceState, state: AttemptState
) -> None:
    may = (race, state) in {(RACING, RUNNING), (RACING, WON), (COMMITTED, WON)}
    assert gate_of(race, state).may_speak(0) is may


def test_a_commit_makes_every_other_running_attempt_lose_and_touches_no_other() -> None:
    gate = gate_of(RACING, RUNNING, FAILED, RUNNING, LOST, RUNNING, CANCELLED)
    assert gate.commit(2) == [0, 4]
    assert seen(gate) == Seen(
        COMMITTED,
        [LOST, FAILED, WON, LOST, LOST, CANCELLED],
        [False, False, True, False, False, False],
        [2],
    )


@pytest.mark.parametrize("rivals", range(1, 6))
def test_exactly_one_attempt_speaks_after_a_commit(rivals: int) -> None:
    for winner in range(rivals):
        gate = Gate()
        for index in range(rivals):
            assert gate.launch() == index
        gate.commit(winner)
        assert [index for index in range(rivals) if gate.may_speak(index)] == [winner]


def test_nobody_speaks_after_the_end_of_a_race_without_a_winner() -> None:
    gate = Gate()
    gate.launch()
    assert gate.may_speak(0)
    gate.end()
    assert not gate.may_speak(0)


def test_no_edge_leads_back_but_that_of_a_rescue() -> None:
    order = [RACING, COMMITTED, ENDED]
    back = {
        (before, event)
        for (before, event), after in RACE_TRANSITIONS.items()
        if order.index(before) >= order.index(after)
    }
    assert back == {(COMMITTED, RaceEvent.REOPEN)}
    assert all(after is not RUNNING for after in ATTEMPT_TRANSITIONS.values())
    lasting = {LOST, FAILED, CANCELLED}
    assert not any(before in lasting for before, _ in ATTEMPT_TRANSITIONS)


def test_every_state_and_event_of_the_tables_is_in_use() -> None:
    assert {event for _, event in RACE_TRANSITIONS} == set(RaceEvent)
    assert {event for _, event in ATTEMPT_TRANSITIONS} == set(AttemptEvent)
    assert {RACING, *RACE_TRANSITIONS.values()} == set(RaceState)
    assert {RUNNING, *ATTEMPT_TRANSITIONS.values()} == set(AttemptState)
