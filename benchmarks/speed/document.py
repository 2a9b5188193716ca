"""Tables in Markdown, and their places in a document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Row: TypeAlias = "Sequence[str]"


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
