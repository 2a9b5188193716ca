"""What pictures say in sentences."""

from __future__ import annotations

import attrs

from polygateway.observe.drawing import notes
from polygateway.observe.drawing.tracks import tracks_of
from tests.observe.gallery import GALLERY
from tests.observe.staged import attempt, call

QUICK = GALLERY["quick"]()


def test_a_call_is_named_with_all_that_is_known_of_it() -> None:
    assert notes.subtitle(QUICK) == (
        "2026-03-04T05:06:07.890Z · stream · call 17 of run 5f3a9c · lyra-3 · finish reason stop"
    )
    plain = attrs.evolve(QUICK, stream=False, provider_model=None, finish_reason=None)
    assert notes.subtitle(plain) == "2026-03-04T05:06:07.890Z · complete · call 17 of run 5f3a9c"


def test_a_call_without_trouble_needs_no_notes() -> None:
    assert list(notes.notes(QUICK, tracks_of(QUICK))) == []


def test_the_description_tells_the_story() -> None:
    rescued = GALLERY["rescued"]()
    assert notes.description(rescued, tracks_of(rescued)) == (
        "fast: complete after 60.0 s. "
        "Attempt 0 eu, primary, launched after 0 ms, first content 1.60 s later, "
        "stall: nothing came for 40.6 s after 157 chunks until the attempt ended, "
        "lost, 50.0 s after its launch. "
        "Attempt 1 us, hedge (stall), launched after 48.2 s, first content 1.80 s later, "
        "stall: only keep-alives for 2.60 s after 76 chunks with 3 keep-alives, "
        "won, 11.8 s after its launch."
    )


def test_a_seam_says_who_took_over_and_what_becomes_of_what_came_before() -> None:
    recovered = GALLERY["recovered"]()
    went_on = "attempt 1 went on where attempt 0 had stopped, after 628 characters"
    anew = "attempt 2 began anew, and the 1032 characters before are to be discarded"
    told = [f"seam after 17.0 s: {went_on}", f"seam after 26.0 s: {anew}"]
    assert list(notes.notes(recovered, tracks_of(recovered)))[-2:] == told
    assert notes.description(recovered, tracks_of(recovered)).endswith(f"{'. '.join(told)}.")


def test_a_call_of_the_holdout_says_why_nothing_was_hedged() -> None:
    held_out = GALLERY["held_out"]()
    assert list(notes.notes(held_out, tracks_of(held_out))) == [
        "never hedged, because it belongs to the holdout"
    ]
    hedged = attrs.evolve(held_out, stats=attrs.evolve(held_out.stats, holdout=False))
    assert list(notes.notes(hedged, tracks_of(hedged))) == []


def test_waste_that_nothing_tells_in_tokens_is_told_in_characters() -> None:
    lost = attempt(0, [], 1, outcome="lost")
    wasted = lost.stats.wasted
    assert wasted is not None
    unknown = attrs.evolve(wasted, input_tokens=None, output_tokens=None, confidence="unknown")
    lost = attrs.evolve(lost, stats=attrs.evolve(lost.stats, wasted=unknown))
    recorded = call(lost, total=1)
    assert list(notes.notes(recorded, tracks_of(recorded))) == ["0 eu cost in vain: 0 characters"]
