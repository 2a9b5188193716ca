from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from polygateway import Usage
from polygateway.core.waste import Cost, wasted

if TYPE_CHECKING:
    from polygateway.stats import Waste, WasteConfidence

EXACT = Usage(input_tokens=12, output_tokens=200, confidence="exact")
"""Of a winner that wrote 1000 characters."""

WINNER = Cost(usage=EXACT, characters=1000)


def waste(
    usage: Usage | None = None,
    characters: int = 0,
    *,
    winner: Cost | None = WINNER,
    sent: bool = True,
    refused: bool = False,
) -> Waste:
    cost = Cost(usage=usage or Usage(), characters=characters)
    return wasted(cost, ran_ns=1_500_000, sent=sent, refused=refused, winner=winner)


def tokens(found: Waste) -> tuple[int | None, int | None, WasteConfidence]:
    return found.input_tokens, found.output_tokens, found.confidence


def test_how_long_it_ran_and_what_it_wrote_is_known_in_any_case() -> None:
    for found in (waste(None, 7), waste(None, 7, winner=None), waste(None, 7, sent=False)):
        assert (found.ran_ms, found.characters) == (1.5, 7)


def test_what_the_loser_does_not_say_is_estimated_by_the_winner() -> None:
    # The same prompt; and 0.2 tokens a character, of which it had written 250.
    assert tokens(waste(None, 250)) == (12, 50, "estimate")


def test_a_loser_that_wrote_nothing_had_the_prompt_read_all_the_same() -> None:
    assert tokens(waste(None, 0)) == (12, 0, "estimate")


def test_its_own_count_goes_before_any_estimate() -> None:
    # It ended properly, or was cut after usage that came with every chunk.
    whole = Usage(input_tokens=13, output_tokens=9, confidence="exact")
    assert tokens(waste(whole, 250)) == (13, 9, "exact")
    cut = Usage(input_tokens=13, output_tokens=9, confidence="at_least")
    assert tokens(waste(cut, 250)) == (13, 9, "at_least")


def test_what_its_own_count_lacks_is_estimated_and_all_of_it_called_so() -> None:
    prompt = Usage(input_tokens=13, confidence="at_least")
    assert tokens(waste(prompt, 250)) == (13, 50, "estimate")
    generated = Usage(output_tokens=9, confidence="at_least")
    assert tokens(waste(generated, 250)) == (12, 9, "estimate")


@pytest.mark.parametrize(
    "winner",
    [None, Cost(usage=Usage(), characters=1000)],
    ids=["nobody won", "the winner did not say"],
)
def test_without_any_count_there_is_none(winner: Cost | None) -> None:
    assert tokens(waste(None, 250, winner=winner)) == (None, None, "unknown")


def test_a_count_that_is_not_whole_stays_so_where_nobody_can_fill_it() -> None:
    prompt = Usage(input_tokens=13, confidence="at_least")
    assert tokens(waste(prompt, 250, winner=None)) == (13, None, "at_least")


def test_a_winner_without_text_tells_nothing_of_tokens_a_character() -> None:
    # A tool call without arguments, say: dividing by its length would be a made-up number.
    silent = Cost(usage=EXACT, characters=0)
    assert tokens(waste(None, 250, winner=silent)) == (12, None, "estimate")


def test_a_request_that_was_never_sent_cost_nothing_and_that_is_exact() -> None:
    for winner in (WINNER, None):
        assert tokens(waste(None, 0, sent=False, winner=winner)) == (0, 0, "exact")


def test_of_a_request_that_was_refused_nothing_is_estimated() -> None:
    # A 429 read no prompt; what a provider charges for other refusals is not known here.
    assert tokens(waste(None, 0, refused=True)) == (None, None, "unknown")


COUNTS = st.none() | st.integers(0, 10_000)
USAGES = st.builds(
    Usage,
    input_tokens=COUNTS,
    output_tokens=COUNTS,
    confidence=st.sampled_from(["exact", "at_least"]),
)
COSTS = st.builds(Cost, usage=USAGES, characters=st.integers(0, 10_000))


@given(COSTS, COSTS)
def test_no_count_of_its_own_is_ever_changed_and_no_estimate_exceeds_the_winners_rate(
    loser: Cost, winner: Cost
) -> None:
    found = wasted(loser, ran_ns=0, sent=True, refused=False, winner=winner)
    if loser.usage.input_tokens is not None:
        assert found.input_tokens == loser.usage.input_tokens
    if loser.usage.output_tokens is not None:
        assert found.output_tokens == loser.usage.output_tokens
    elif found.output_tokens is not None:
        assert winner.usage.output_tokens is not None
        # At most half a token from the winner's tokens for each character.
        exactly = winner.usage.output_tokens * loser.characters
        assert abs(found.output_tokens * winner.characters - exactly) <= winner.characters / 2
        assert found.confidence == "estimate"
