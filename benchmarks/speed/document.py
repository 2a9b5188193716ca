"""The document that benchmarks write into: its tables, and their places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from .serving import ROOT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

Row: TypeAlias = "Sequence[str]"

DOCUMENT = ROOT / "docs" / "explanation" / "performance.md"
"""Where the figures are published."""


def add_report_option(parser: argparse.ArgumentParser) -> None:
    """Let a command be asked to write into the document, or into another file."""
    parser.add_argument(
        "--report",
        type=Path,
        nargs="?",
        const=DOCUMENT,
        metavar="FILE",
        help=f"page whose tables and pictures are made anew; {DOCUMENT.name} if not named",
    )


def table(heads: Row, rows: Iterable[Row]) -> str:
    """Write a table, the first column to the left and the others to the right."""
    lines = [heads, ["---", *("---:" for _ in heads[1:])], *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def filled(text: str, mark: str, write: Callable[[str], str]) -> str:
    """Give *text* with each place filled by what *write* gives for its name.

    A place is between ``<!-- MARK: NAME -->`` and ``<!-- /MARK -->``.
    """

    def replaced(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        return f"{begin}\n{write(name)}\n{end}"

    pattern = rf"(<!-- {mark}: (\w+) -->).*?(<!-- /{mark} -->)"
    return re.sub(pattern, replaced, text, flags=re.DOTALL)
