from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, strategies as st

from polygateway.core.splice import Splice

if TYPE_CHECKING:
    from collections.abc import Sequence

STORY = "The tide comes in twice a day, and twice a day it goes.\nNobody asks it to."


def said_after(delivered: str, *pieces: str) -> tuple[str, Splice]:
    """Give what is delivered of a whole answer, and the splice."""
    splice = Splice(delivered)
    given_ = "".join([*map(splice.feed, pieces), splice.close()])
    return given_, splice


# ---- a continuation -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delivered", "piece"),
    [
        ("The tide", " comes in."),
        ("The ti", "de comes in."),
        ("Yes", "!"),
        ("", "Yes!"),
        # Alike in a letter or two with how the answer began, and different in the next.
        ("The tide", " Thus"),
    ],
)
def test_a_continuation_is_given_as_it_comes(delivered: str, piece: str) -> None:
    splice = Splice(delivered)
    assert splice.feed(piece) == piece
    assert splice.feed("\n\n") == "\n\n"
    assert splice.feed(delivered) == delivered  # by then it is no new beginning any more
    assert splice.close() == ""
    assert (splice.withheld, splice.started_over, splice.whole) == (0, False, "")


def test_an_answer_that_says_nothing_more_adds_nothing() -> None:
    given_, splice = said_after("The tide.\n")
    assert (given_, splice.withheld, splice.started_over) == ("", 0, False)


# ---- white space at the seam --------------------------------------------------------------------


@pytest.mark.parametrize("blank", ["", " ", "\n", "\n\n", " \t\r\n", "\N{NO-BREAK SPACE}"])
def test_the_model_is_shown_no_white_space_at_the_end(blank: str) -> None:
    # "messages: final assistant content cannot end with trailing whitespace" (forgecode#1872)
    splice = Splice(f" The tide\n{blank}")
    assert (splice.sent, splice.delivered) == (" The tide", f" The tide\n{blank}")
    assert Splice(blank).sent == ""


@pytest.mark.parametrize(
    ("delivered", "said", "whole"),
    [
        ("The ", " tide", "The tide"),
        ("The ", "tide", "The tide"),  # some tokenizers swallow the first blank
        ("The", " tide", "The tide"),
        ("Ebb.\n\n", "\n\nTide.", "Ebb.\n\nTide."),
        ("Ebb.\n", "\n\nTide.", "Ebb.\n\nTide."),
        ("Ebb.\n\n", "\nTide.", "Ebb.\n\nTide."),
        ("if ebb:\n", "\n    return 1", "if ebb:\n    return 1"),
        ("if ebb:\n    ", "\n    return 1", "if ebb:\n    return 1"),
        ("if ebb:\n    ", "\n        return 1", "if ebb:\n        return 1"),
        ("if ebb:\n    ", "return 1", "if ebb:\n    return 1"),
        ("Ebb.\n", "\nTide.\nEbb.", "Ebb.\nTide.\nEbb."),
        ("\n ", "\n Ebb.", "\n Ebb."),
        ("Ebb. ", " ", "Ebb. "),
    ],
)
def test_white_space_that_was_not_shown_is_not_there_twice(
    delivered: str, said: str, whole: str
) -> None:
    for pieces in ([said], [*said]):
        assert delivered + said_after(delivered, *pieces)[0] == whole


# ---- a new beginning ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delivered", "said", "whole"),
    [
        # Mistral's API repeats the text without the white space at its end (vercel/ai#3256).
        ("The capital of ", "The capital of France", "The capital of France"),
        # A server for which the text is a whole message (colibri#1401).
        (
            "The capital of France is",
            "The capital of France is **Paris**.",
            "The capital of France is **Paris**.",
        ),
        (STORY, f"{STORY} It is patient.", f"{STORY} It is patient."),
        (STORY[:33], STORY, STORY),
        (STORY, f"\n\n{STORY}\n", f"{STORY}\n"),  # templates put white space before an answer
        (f"\n\n{STORY}\n", f"{STORY}\n\nEnd.", f"\n\n{STORY}\n\nEnd."),
        (f"{STORY}\n\n", f"{STORY}\nEnd.", f"{STORY}\n\nEnd."),
        ("T", "The", "The"),
        (STORY, STORY, STORY),
    ],
)
def test_what_a_model_that_starts_over_repeats_is_left_out(
    delivered: str, said: str, whole: str
) -> None:
    for pieces in ([said], [*said]):
        given_, splice = said_after(delivered, *pieces)
        assert delivered + given_ == whole
        assert said[splice.withheld :] == given_
        assert not splice.started_over


def test_while_it_repeats_nothing_is_given() -> None:
    splice = Splice("The tide comes in. ")
    assert [splice.feed(piece) for piece in ("\n", "The tide ", "comes", " in.")] == [""] * 4
    assert splice.withheld == len("\nThe tide comes in.")
    assert [splice.feed(piece) for piece in (" ", " It", " goes.")] == ["", " It", " goes."]
    assert splice.withheld == len("\nThe tide comes in. ")


@pytest.mark.parametrize(
    ("delivered", "said"),
    [
        ("- The ebb takes\n- The tide brings\n", "- The moon watches"),
        ("def test_ebb():\n    assert ebb()\n\n\n", "def test_tide():\n    assert tide()"),
        (STORY, STORY[:29] + "!"),
        ("=" * 31, "=" * 30 + " Ebb"),
    ],
)
def test_what_begins_alike_and_departs_soon_is_a_continuation(delivered: str, said: str) -> None:
    for pieces in ([said], [*said]):
        given_, splice = said_after(delivered, *pieces)
        assert (given_, splice.started_over) == (said, False)


RECORD = '{"messages": [{"role": "user", "content": "%s"}]}\n'


def test_what_begins_as_several_records_did_is_one_more_of_them() -> None:
    delivered = RECORD % "Ebb?" + RECORD % "Tide?"
    given_, splice = said_after(delivered, RECORD % "Moon?")
    assert (given_, splice.started_over) == (RECORD % "Moon?", False)


@pytest.mark.parametrize("shared", [30, 39, len(STORY) - 1])
@pytest.mark.parametrize("blank", ["", "\n"])
def test_what_begins_alike_for_long_and_then_departs_has_started_over(
    shared: int, blank: str
) -> None:
    said = f"{blank}{STORY[:shared]}# It is patient."
    for pieces in ([said], [*said]):
        splice = Splice(f"{STORY}\n\n")
        given_ = [splice.feed(piece) for piece in pieces]
        begun = splice.whole
        assert splice.started_over
        assert begun + "".join(given_) == said
        assert begun.startswith(f"{blank}{STORY[:shared]}#")
        assert splice.feed("\n\nEnd.") == "\n\nEnd."  # and nothing is left out any more
        assert (splice.whole, splice.close()) == (begun, "")


def test_an_answer_that_ends_after_a_few_words_of_the_beginning_goes_on_with_them() -> None:
    # '"' begins a text that quotes, and ends it.
    given_, splice = said_after('"The tide comes in," he said, "', '"')
    assert (given_, splice.started_over) == ('"', False)
    given_, splice = said_after("No. No. ", " ", "No.")
    assert (given_, splice.started_over) == ("No.", False)


def test_an_answer_that_ends_after_many_of_them_has_started_over() -> None:
    # What was delivered is cut, and what it says now is less: only as a whole it is an answer.
    given_, splice = said_after(STORY, STORY[:55])
    assert (given_, splice.started_over, splice.whole) == ("", True, STORY[:55])


def test_an_answer_that_begins_with_the_last_line_again_keeps_it() -> None:
    # Lines that are twice the same are honest, and a loss in silence is worse (qwen-code#3966).
    delivered = "x = [\n    0,\n    0,\n"
    assert said_after(delivered, "    0,\n]")[0] == "    0,\n]"


# ---- laws ---------------------------------------------------------------------------------------


def common(one: str, other: str) -> str:
    """Give what both begin with."""
    return max((one[:end] for end in range(len(one) + 1) if other.startswith(one[:end])), key=len)


def expected(delivered: str, said: str) -> tuple[str, bool]:
    """Say of whole texts what is delivered, or what replaces it, and which of the two it is."""
    sent = delivered.rstrip()
    beginning, words = sent.lstrip(), said.lstrip()
    same = common(beginning, words)
    rest = said
    if beginning and same == beginning:
        rest = words.removeprefix(beginning)
    elif len(same) >= 30 and same not in beginning[1:]:
        return said, True
    blank = common(delivered.removeprefix(sent), rest)
    return rest.removeprefix(blank), False


def cut(text: str, places: Sequence[int]) -> list[str]:
    """Cut *text* at *places*, which count from its beginning round and round."""
    ends = sorted(place % (len(text) + 1) for place in places)
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


LONG = "ab " * 11 + "ba\nbb"
TEXTS = st.text("ab \n", max_size=4)
DELIVERED = st.builds(
    lambda *parts: "".join(parts),
    TEXTS,
    st.sampled_from(["", "a", "ab b", LONG, LONG * 2, "b" + LONG, f"b{LONG}b{LONG}"]),
    TEXTS,
)


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw what was delivered, and the pieces of an answer that often begins with it again."""
    delivered = draw(DELIVERED)
    repeated = delivered[: draw(st.integers(0, len(delivered)))]
    said = draw(TEXTS) + draw(st.sampled_from(["", repeated, delivered])) + draw(TEXTS)
    return delivered, cut(said, draw(st.lists(st.integers(0, 100), max_size=5)))


@given(answers())
@example((f"b{LONG}", [f"b{LONG}"[:30], "?"]))
@example((f"b{LONG}b{LONG}", [f"b{LONG}"[:30], "?"]))
def test_what_is_delivered_depends_on_what_was_said_and_not_on_how_it_was_cut(
    answer: tuple[str, list[str]],
) -> None:
    delivered, pieces = answer
    given_, splice = said_after(delivered, *pieces)
    result = splice.whole + given_ if splice.started_over else given_
    assert (result, splice.started_over) == expected(delivered, "".join(pieces))


@given(answers())
def test_only_the_beginning_of_what_was_said_is_ever_withheld(
    answer: tuple[str, list[str]],
) -> None:
    delivered, pieces = answer
    splice, said, given_ = Splice(delivered), "", ""
    for piece in [*pieces, ""]:
        said += piece
        given_ += splice.feed(piece)
        assert splice.started_over or given_ == said[splice.withheld :]
    given_ += splice.close()
    assert splice.started_over or given_ == said[splice.withheld :]


@pytest.mark.parametrize("blanks", [0, 50_000])
def test_a_long_repetition_is_never_copied_while_it_lasts(blanks: int) -> None:
    # One letter at a time, a copy with each would take time that grows with the square.
    delivered = "ab" * 50_000 + "\n" * blanks
    splice, letters = Splice(delivered), delivered[:-1]
    tracemalloc.start()
    try:
        for letter in letters:
            splice.feed(letter)
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()
    assert splice.feed(f"{delivered[-1]} c") == " c"
