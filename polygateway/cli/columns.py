"""Text in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..observe.drawing.words import columns

if TYPE_CHECKING:
    from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Give rows, all with as many cells, as lines in which the cells stand below each other."""
    widths = [max(map(columns, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def padded(text: str, width: int) -> str:
    """Fill up a text to so many columns."""
    return text + " " * (width - columns(text))
