"""The campaign in short, and what it is worth: it finds what is planted, and makes it simple."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import attrs
import pytest

from polygateway import HedgePolicy, Limits, RetryPolicy, StreamPolicy
from polygateway.core.budget import Purse
from tests.campaign.__main__ import main
from tests.campaign.checking import run
from tests.campaign.counting import FLOORS, missing
from tests.campaign.drawing import draw
from tests.campaign.finding import failure_of, name_of, simplest
from tests.campaign.laws import Broken
from tests.campaign.mutants import MUTANTS, hunt
from tests.campaign.playing import play
from tests.campaign.series import Beat, Call, Policies, Provider, Reply, Series, Spell
from tests.campaign.shrinking import shrunk
from tests.campaign.source import as_test, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.campaign.playing import Played

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("seed", ["ebb", "flow", "slack"])
def test_the_laws_hold_of_a_short_campaign(seed: str) -> None:
    counts = Counter[str]()
    for number in range(8):
        counts += run(draw(f"{seed}/{number}"))

    assert counts["calls"] > 150
    assert counts["call complete"] > counts["calls"] / 3


# ---------------------------------------------------------------- the same from the same seed


def _story(played: Played) -> list[str]:
    """Give all that happened, but for the numbers of the calls: they go on in a process."""
    return [re.sub(r"\bcall=\d+", "", repr(event)) for event in played.notes.events]


@pytest.mark.parametrize("name", ["spring/0", "neap/3"])
def test_a_series_is_played_the_same_every_time(name: str) -> None:
    assert _story(play(draw(name))) == _story(play(draw(name)))


FOUND = {
    "an empty answer of a first rescue won the second": Series(
        providers=(
            Provider(replies=(Reply(beats=(Beat(), Beat(wait_ms=501)), wait_ms=5000), Reply())),
        ),
        calls=(Call(streams=True),),
        policies=Policies(
            hedge=HedgePolicy(stall_after_s=0.5),
            stream=StreamPolicy(stall_timeout_s=3.0, recovery="restart"),
        ),
    ),
    "a stall was told after the end of its call": Series(
        providers=(Provider(replies=(Reply(beats=(Beat(),), wait_ms=120),)),),
        calls=(Call(at_ms=361_000, streams=True, pause_ms=19_000),),
        policies=Policies(stream=StreamPolicy(stall_threshold_ms=100.0, hold_back_s=3.0)),
        left_at_ms=372_000,
    ),
    "an answer that was about to end was called silent": Series(
        providers=(Provider(replies=(Reply(beats=(Beat(), Beat()), ending="no marker"),)),),
        calls=(Call(streams=True, pause_ms=500, own_policies=True),),
        own_policies=Policies(
            hedge=HedgePolicy(stall_after_s=0.5),
            stream=StreamPolicy(recovery="continue-or-restart"),
        ),
    ),
    "a stall began after its attempt had ended": Series(
        seed=1,
        providers=(Provider(replies=(Reply(beats=(Beat(),), wait_ms=150),)),),
        calls=(Call(at_ms=14_525, streams=True, own_policies=True),),
        own_policies=Policies(stream=StreamPolicy(stall_threshold_ms=100.0)),
        left_at_ms=14_625,
    ),
}


@pytest.mark.parametrize("series", FOUND.values(), ids=FOUND)
def test_what_was_found_before_does_not_come_back(series: Series) -> None:
    run(series)


def test_other_seeds_give_other_series() -> None:
    assert len({written(draw(f"0/{number}")) for number in range(20)}) == 20


# ---------------------------------------------------------------- making it simple

DRAWN = draw("ebb/1")


def _kept(holds: Callable[[Series], bool]) -> Callable[[Series], Series | None]:
    return lambda series: series if holds(series) else None


def test_what_does_not_matter_is_left_out() -> None:
    def fails(series: Series) -> bool:
        streams = any(call.streams for call in series.calls)
        return streams and any(provider.spell is not None for provider in series.providers)

    series = attrs.evolve(DRAWN, providers=(*DRAWN.providers, Provider(spell=Spell(3, 5))))
    assert fails(series)

    assert shrunk(series, _kept(fails)) == Series(
        providers=(Provider(spell=Spell()),), calls=(Call(streams=True),)
    )


def test_numbers_become_as_small_as_they_can_be() -> None:
    def fails(series: Series) -> bool:
        return any(beat.wait_ms >= 700 for beat in _beats(series))

    series = Series(providers=(Provider(replies=(Reply((Beat("text", 5001), Beat())),)),))
    (beat,) = _beats(shrunk(series, _kept(fails)))

    assert 700 <= beat.wait_ms < 1400


def _beats(series: Series) -> list[Beat]:
    return [
        beat for provider in series.providers for reply in provider.replies for beat in reply.beats
    ]


def test_what_cannot_be_simpler_stays_as_it_is() -> None:
    assert shrunk(Series(), _kept(lambda _: True)) == Series()
    assert shrunk(DRAWN, _kept(lambda series: series == DRAWN)) == DRAWN


def test_values_that_cannot_be_are_not_tried() -> None:
    # Its most is under the usual base, which alone would be simpler.
    series = Series(
        policies=Policies(retry=RetryPolicy(backoff_base_s=0.1, backoff_max_s=0.2)),
    )
    tried: list[Series] = []
    shrunk(series, tried.append)

    assert series.policies not in {each.policies for each in tried}
    assert RetryPolicy(backoff_base_s=0.1) in {each.policies.retry for each in tried}


def test_only_so_much_is_tried() -> None:
    tried: list[Series] = []
    shrunk(DRAWN, tried.append, tries=7)

    assert len(tried) == 7


# ---------------------------------------------------------------- writing it down


@pytest.mark.parametrize("number", range(5))
def test_a_series_is_written_as_the_expression_that_makes_it(number: int) -> None:
    names = (Beat, Call, Policies, Provider, Reply, Series, Spell)
    policies = (HedgePolicy, Limits, RetryPolicy, StreamPolicy)
    scope = {each.__name__: each for each in (*names, *policies)}
    series = draw(f"slack/{number}")

    assert eval(written(series), scope) == series  # noqa: S307 - it was written by ourselves


def test_only_what_matters_is_written() -> None:
    series = Series(calls=(Call(streams=True),))

    assert written(series) == "Series(calls=(Call(streams=True),))"


def test_what_fails_becomes_a_test_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    take = Purse.take

    def take_twice(purse: Purse, *, above_half: bool = False) -> bool:
        return take(purse, above_half=above_half) and (take(purse) or True)

    with patch.object(Purse, "take", take_twice):
        names = (f"0/{number}" for number in range(20))
        failing = next(name for name in names if failure_of(draw(name)) is not None)
        assert main(["--series", failing]) == 1
        _, _, source = capsys.readouterr().out.partition("\n")
        scope: dict[str, Callable[[], None]] = {}
        exec(source, scope)  # noqa: S102 - it was written by ourselves
        with pytest.raises(Broken, match="the purse is right"):
            scope["test_what_the_campaign_found"]()
    scope["test_what_the_campaign_found"]()
    assert len(source.splitlines()) < 40


# ---------------------------------------------------------------- what it is worth


@pytest.mark.parametrize(
    "name",
    [
        "the purse takes two tokens",
        *(pytest.param(each, marks=pytest.mark.long) for each in MUTANTS),
    ],
)
def test_what_is_planted_is_found_within_a_minute(name: str) -> None:
    assert hunt([name], seed="0") == 0


def test_what_has_happened_too_seldom_is_told() -> None:
    enough = Counter(FLOORS) + Counter({"calls": 100_000})
    assert missing(enough) == []
    what = next(iter(FLOORS))
    assert missing(enough - Counter({what: 1})) == [
        f"{what}: {FLOORS[what] - 1} times, not {FLOORS[what]}"
    ]
    assert missing(Counter({"calls": 49_999})) == []


def test_a_failure_is_named_by_what_failed_and_not_by_its_facts() -> None:
    assert name_of(Broken("the purse is right", 1.5)) == "the purse is right"


def test_a_campaign_that_holds_tells_what_it_met() -> None:
    command = [sys.executable, "-m", "tests.campaign", "--calls", "50", "--jobs", "1"]
    done = subprocess.run(  # noqa: S603 - ours
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )

    assert "call complete" in done.stdout
    assert "all laws held" in done.stdout


def test_one_series_can_be_played_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--series", "flow/0"]) == 0
    assert capsys.readouterr().out == "series flow/0: all laws held\n"


def test_a_series_without_failure_has_none() -> None:
    assert failure_of(Series()) is None
    assert as_test(simplest(Series(), "none"), "none").count("Series()") == 1
