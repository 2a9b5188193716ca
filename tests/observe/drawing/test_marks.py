"""Ticks that run together are one block: what is drawn is bounded by the room there is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from polygateway.observe.drawing.marks import TICK, blocks, skyline

PLACES = st.lists(st.floats(200, 900), max_size=300).map(sorted)


def test_ticks_that_can_be_told_apart_are_drawn_one_by_one() -> None:
    drawn = list(blocks([10, 13, 20]))
    assert drawn == [pytest.approx((at - TICK / 2, at + TICK / 2)) for at in (10, 13, 20)]


def test_ticks_that_touch_are_one_block() -> None:
    assert list(blocks([10, 11, 12.5, 20])) == [
        pytest.approx((10 - TICK / 2, 12.5 + TICK / 2)),
        pytest.approx((20 - TICK / 2, 20 + TICK / 2)),
    ]


def test_without_ticks_there_is_no_block() -> None:
    assert list(blocks([])) == []


@given(PLACES)
def test_every_tick_is_in_a_block_and_every_block_ends_with_ticks(places: list[float]) -> None:
    drawn = list(blocks(places))
    edges = {round(place + side * TICK / 2, 6) for place in places for side in (-1, 1)}
    assert all(any(a <= place <= b for a, b in drawn) for place in places)
    assert {round(edge, 6) for block in drawn for edge in block} <= edges


@given(PLACES)
def test_blocks_are_apart_so_their_number_is_bounded(places: list[float]) -> None:
    drawn = list(blocks(places))
    gaps = [b[0] - a[1] for a, b in pairwise(drawn)]
    assert all(gap > 0.99 for gap in gaps)
    assert len(drawn) <= 700 / (TICK + 0.99) + 1


def test_columns_of_the_same_height_are_one_box() -> None:
    drawn = skyline([0, 7, 7, 3.5, 0, 7], 100, 50)
    assert drawn.get("d") == "M101 43h2v7h-2zM103 46.5h1v3.5h-1zM105 43h1v7h-1z"
