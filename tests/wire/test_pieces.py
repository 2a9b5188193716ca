from __future__ import annotations

import sys

import pytest
from hypothesis import given, strategies as st

from polygateway.wire.pieces import Pieces, size_of, width_of

# What Python adds to the characters of any text differs from one width to the next.
EMPTY = {width: sys.getsizeof(char) - 2 * width for width, char in ((2, "波"), (4, "🌊"))}


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 1),
        ("tide", 1),
        ("\xff", 1),
        ("caf\xe9", 1),
        ("don\u2019t", 2),
        ("波", 2),
        ("tide 🌊", 4),
    ],
)
def test_a_character_takes_as_many_bytes_as_the_widest_of_its_text(text: str, width: int) -> None:
    assert width_of(text) == width
    assert size_of(text) == width * len(text)


@given(st.text(st.sampled_from("a波🌊"), min_size=100))
def test_the_size_is_what_python_takes(text: str) -> None:
    if (width := width_of(text)) > 1:
        assert size_of(text) == sys.getsizeof(text) - EMPTY[width] - width


@given(st.lists(st.text(st.sampled_from("aé波🌊"))))
def test_the_costs_of_all_pieces_are_the_size_of_the_whole(pieces: list[str]) -> None:
    text, cost = Pieces(), 0
    for piece in pieces:
        cost += text.cost(piece)
        text.add(piece)
    assert text.whole() == "".join(pieces)
    assert cost == size_of("".join(pieces))


def test_one_wide_character_widens_all_that_came_before_it() -> None:
    text = Pieces()
    text.add("x" * 1000)
    assert text.cost("🌊") == 3 * 1000 + 4
