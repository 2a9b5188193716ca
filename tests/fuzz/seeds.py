"""What a fuzzer begins with: what providers have sent, and what was found worth keeping."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cases import CASES
from tests.golden import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"

_PLAIN = b"\0\0"
_LONGEST = 4096

# In libFuzzer's words, which know no \n.
_FRAMING = (
    *(
        "data: ",
        "event: error\\x0a",
        "error: ",
        "id: 1\\x0a",
        ": x\\x0a",
        "\\x0a\\x0a",
        "\\x0d\\x0a",
    ),
    *("\\xef\\xbb\\xbf", "[DONE]"),
)


def seeds(target: str) -> Iterator[bytes]:
    """Give the bodies that *target* may be sent, as inputs; every body is one for most targets."""
    for case in CASES.values():
        if target == "refusal":
            if case.status >= 400:
                yield _PLAIN + b"\n" + case.body
        elif case.dialect == target or target not in _DIALECTS:
            yield _PLAIN + case.body[:_LONGEST]
    for dialect, golden in GOLDEN.values():
        if dialect == target or target not in _DIALECTS:
            yield _PLAIN + b"".join(event.data for event in golden.events)


def words(target: str) -> Sequence[str]:
    """Give the words of the wire, as a fuzzer's dictionary has them."""
    text = b"\n".join(seeds(target)).decode(errors="replace")
    named = {f'\\"{word}\\"' for word in re.findall(r'"([a-zA-Z_.-]{2,40})"', text)}
    return [*sorted(named), *_FRAMING]


def kept(target: str) -> Sequence[bytes]:
    """Give the inputs of *target* that are checked in."""
    path = CORPUS / f"{target}.txt"
    return [base64.b64decode(line) for line in path.read_text("ascii").splitlines()]


def keep(target: str, inputs: Sequence[bytes]) -> None:
    """Check in *inputs*, in place of those of *target* that are there."""
    lines = sorted((base64.b64encode(each).decode() for each in inputs), key=lambda x: (len(x), x))
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines), "ascii")


_DIALECTS = frozenset(dialect for dialect, _ in GOLDEN.values())
