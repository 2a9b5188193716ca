"""``docs/reference/errors.md`` shows the tables that errors are classified by."""

from __future__ import annotations

import re
from pathlib import Path

from polygateway.wire.fault_tables import (
    CODES,
    EXACT_WORDS,
    HUNDREDS,
    STATUSES,
    TYPES,
    WORDS,
    Names,
    Wording,
)

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text("utf-8")


def bullets(title: str) -> list[tuple[str, str]]:
    """Give the class that each bullet of a section begins with, and the rest of it."""
    section = re.split(rf"^### \d\. {title}$", PAGE, flags=re.MULTILINE)[1].partition("\n#")[0]
    found = re.findall(r"^- `(\w+)`(.*(?:\n  .*)*)", section, re.MULTILINE)
    return [(name, re.sub(r"\s+", " ", rest)) for name, rest in found]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def names_told(title: str) -> list[tuple[str, str]]:
    return [(name, word) for name, rest in bullets(title) for word in quoted(rest)]


def names_known(table: Names) -> list[tuple[str, str]]:
    return [(error.__name__, word) for error, words in table for word in words]


def test_the_page_shows_every_code_and_type() -> None:
    assert sorted(names_told("Codes and types")) == sorted(names_known(CODES))
    assert sorted(names_told("Broad types")) == sorted(names_known(TYPES))


def in_words(statuses: frozenset[int] | None) -> str:
    if statuses is None:
        return "any status"
    few = [str(status) for status in sorted(statuses) if status < 500]
    return ", ".join([*few, *(["5xx"] if len(few) < len(statuses) else [])])


def wordings_told(title: str) -> list[tuple[str, str, list[str]]]:
    split = [(name, *rest.split(":", 1)) for name, rest in bullets(title)]
    return [(name, statuses.strip(" ()"), quoted(words)) for name, statuses, words in split]


def wordings_known(table: tuple[Wording, ...]) -> list[tuple[str, str, list[str]]]:
    return [(each.error.__name__, in_words(each.statuses), list(each.words)) for each in table]


def test_the_page_shows_every_wording_in_its_order() -> None:
    assert wordings_told("Exact words") == wordings_known(EXACT_WORDS)
    assert wordings_told("Words") == wordings_known(WORDS)


def test_the_page_shows_every_status() -> None:
    told = {name: rest.strip(": ").split(", ") for name, rest in bullets("Statuses")}
    known: dict[str, list[str]] = {}
    for status, error in STATUSES.items():
        known.setdefault(error.__name__, []).append(str(status))
    for hundred, error in HUNDREDS.items():
        known.setdefault(error.__name__, []).append(f"every other {hundred}xx")
    assert told == known
