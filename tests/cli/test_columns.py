"""Text in columns."""

from __future__ import annotations

from polygateway.cli.columns import aligned, padded


def test_cells_stand_below_each_other_and_no_line_ends_in_blanks() -> None:
    rows = [["model", "total", ""], ["fast", "2 s", "won"], ["a", "", ""]]
    assert aligned(rows) == ["model  total", "fast   2 s    won", "a"]


def test_wide_characters_take_two_columns() -> None:
    assert aligned([["大", "a"], ["abc", "b"]]) == ["大   a", "abc  b"]


def test_a_text_is_filled_up_and_never_cut() -> None:
    assert padded("ab", 4) == "ab  "
    assert padded("abcdef", 4) == "abcdef"
