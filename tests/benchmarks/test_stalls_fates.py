"""What becomes of attempts in the comparison of systems under stalls."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import attrs
import pytest
from hypothesis import given, strategies as st

from benchmarks.stalls.fates import (
    KEEPALIVE_EVERY_S,
    SCENARIOS,
    THRESHOLD_S,
    Script,
    Usual,
    Wish,
    answer,
    fate,
    script_of,
)
from benchmarks.tail_model import Workload

CALM = Wish("calm", 1, 7, "any")
NUMBERS = st.integers(0, 10_000)
WISHES = st.builds(Wish, st.sampled_from([*SCENARIOS]), NUMBERS, NUMBERS, st.just("any"))


def script(wish: Wish, attempt: int = 0, prefix: str = "") -> Script:
    return script_of("m", str(wish), attempt, prefix)


def contents(script: Script) -> list[tuple[float, str]]:
    """Give when each text comes, seconds after the request."""
    found: list[tuple[float, str]] = []
    for at, (_, events) in zip(
        itertools.accumulate(pause for pause, _ in script), script, strict=True
    ):
        for event in events.split(b"\n\n"):
            if event.startswith(b"data: {"):
                delta = json.loads(event.removeprefix(b"data: "))["choices"][0]["delta"]
                found.append((at, delta.get("content", "")))
    return [(at, text) for at, text in found if text]


def silences(wish: Wish, attempt: int = 0) -> list[float]:
    """Give how long each wait between two texts is that is longer than usual."""
    times = [at for at, _ in contents(script(wish, attempt))]
    gaps = (later - at for at, later in itertools.pairwise(times))
    return [round(gap, 6) for gap in gaps if gap > 0.0101]


@given(WISHES)
def test_a_prompt_names_the_call_that_it_was_made_for(wish: Wish) -> None:
    assert Wish.read(str(wish)) == wish


@pytest.mark.parametrize("prompt", ["", "hello", "stalls", "stalls A 1 2", "call A 1 2 any"])
def test_other_prompts_are_left_to_the_provider(prompt: str) -> None:
    with pytest.raises(KeyError):
        script_of("m", prompt, 0, "")


@given(WISHES, st.integers(0, 3), st.sampled_from(["", "other"]))
def test_every_system_meets_the_same(wish: Wish, attempt: int, other: str) -> None:
    assert script(wish, attempt) == script(wish._replace(system=f"{other}system"), attempt)


@given(WISHES, st.integers(0, 3))
def test_every_attempt_gives_the_right_answer(wish: Wish, attempt: int) -> None:
    assert [text for _, text in contents(script(wish, attempt))] == [*answer(wish)]


def test_no_two_pieces_are_alike() -> None:
    pieces = [piece for call in range(300) for piece in answer(CALM._replace(call=call))]

    assert len(pieces) == len({*pieces}) == 9000


def test_a_calm_answer_takes_a_third_of_a_second() -> None:
    pauses = [pause for pause, _ in script(CALM)]

    assert pauses == [0.02, *[0.01] * 30, 0.0]


@pytest.mark.parametrize(
    ("scenario", "shares"),
    [
        ("A", {2.0: 0.1}),
        ("B", {2.0: 0.1}),
        ("C", {2.0: 0.1, 0.25: 0.2}),
        ("D", {2.0: 0.1, 0.22: 0.3}),
    ],
)
def test_as_many_attempts_are_silent_as_the_scenario_says(
    scenario: str, shares: dict[float, float]
) -> None:
    found = Counter[float]()
    for call, attempt in itertools.product(range(2500), range(2)):
        met = silences(Wish(scenario, 1, call, "any"), attempt)
        assert len(met) <= 1
        found.update(met)

    assert {lasts: count / 5000 for lasts, count in found.items()} == pytest.approx(
        shares, abs=0.02
    )


def test_pauses_are_a_little_longer_than_what_is_taken_for_a_stall() -> None:
    pauses = {
        lasts
        for scenario, call in itertools.product("CD", range(200))
        for lasts in silences(Wish(scenario, 1, call, "any"))
    }

    assert all(THRESHOLD_S < lasts <= 1.25 * THRESHOLD_S or lasts == 2.0 for lasts in pauses)


@pytest.mark.parametrize(
    ("scenario", "lasts", "before"), [("A", 2.0, 5), ("C", 0.25, 5), ("D", 0.22, 20)]
)
def test_a_silence_begins_after_so_many_pieces(scenario: str, lasts: float, before: int) -> None:
    wishes = (Wish(scenario, 1, call, "any") for call in range(99))
    wish = next(wish for wish in wishes if silences(wish) == [lasts])
    times = [at for at, _ in contents(script(wish))]

    assert times[before] - times[before - 1] == pytest.approx(lasts)


def test_comments_come_in_the_stalls_of_one_scenario_only() -> None:
    for scenario, call in itertools.product("ABCD", range(200)):
        wish = Wish(scenario, 1, call, "any")
        played = script(wish)
        comments = [pause for pause, events in played if events.startswith(b":")]
        assert bool(comments) == (scenario == "B" and bool(silences(wish)))
        assert all(pause == KEEPALIVE_EVERY_S for pause in comments)
        if comments:
            assert max(pause for pause, _ in played) <= KEEPALIVE_EVERY_S + 1e-9


@given(WISHES, st.integers(0, 80), st.integers(0, 5))
def test_an_attempt_goes_on_with_what_is_there(wish: Wish, pieces: int, more: int) -> None:
    whole = "".join(answer(wish))
    prefix = whole[: len("".join(answer(wish)[:pieces])) + more]

    assert prefix + "".join(text for _, text in contents(script(wish, 1, prefix))) == whole


def test_what_the_answer_does_not_begin_with_is_not_gone_on_with() -> None:
    assert [text for _, text in contents(script(CALM, 1, "Once"))] == [*answer(CALM)]


def test_an_attempt_that_goes_on_meets_its_silence_in_what_is_left() -> None:
    wish = next(
        wish for wish in (Wish("A", 1, call, "any") for call in range(99)) if fate(wish, 1).silences
    )
    times = [at for at, _ in contents(script(wish, 1, "".join(answer(wish)[:12])))]

    assert len(times) == 18
    assert times[3] - times[2] == pytest.approx(2.0)


def test_the_usual_case_is_that_of_the_simulation() -> None:
    figures = {field.name for field in attrs.fields(Workload)} - {
        "calls_per_s",
        "slowness",
        "outage",
    }
    usual = SCENARIOS["usual"]

    assert isinstance(usual, Usual)
    assert {name: getattr(usual, name) for name in figures} == {
        name: getattr(Workload(), name) for name in figures
    }


def test_the_usual_case_is_as_much_faster_as_it_says() -> None:
    usual = SCENARIOS["usual"]
    wishes = [Wish("usual", 1, call, "any") for call in range(2000)]
    firsts = sorted((fate(wish, 0).head_s + usual.piece_s) * usual.faster for wish in wishes)
    lengths = [len(answer(wish)) * usual.piece_s * usual.faster for wish in wishes]
    stalls = [
        each.lasts_s
        for wish in wishes
        for each in fate(wish, 0).silences
        if each.lasts_s * usual.faster > 9
    ]

    assert firsts[1000] == pytest.approx(1.6, rel=0.05)
    assert min(lengths) == pytest.approx(3, abs=0.3)
    assert max(lengths) == pytest.approx(20, abs=0.3)
    assert len(stalls) / 2000 == pytest.approx(0.05, abs=0.012)
