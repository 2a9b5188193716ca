"""Write a series down as a test that can be run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import attrs

from .shrinking import default_of, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .series import Series

_WIDTH = 96

_POLICIES = ("HedgePolicy", "Limits", "RetryPolicy", "StreamPolicy")
_PARTS = ("Beat", "Call", "Policies", "Provider", "Reply", "Series", "Spell")


def as_test(series: Series, failure: str) -> str:
    """Give the source of a test that plays *series*.

    Args:
        series: what fails.
        failure: how, in one line.
    """
    source = written(series, 8)
    lines = [
        f'"""Found by the campaign: {failure}."""',
        "",
        *_imported("polygateway", _POLICIES, source),
        "from tests.campaign.checking import run",
        *_imported("tests.campaign.series", _PARTS, source),
        "",
        "",
        "def test_what_the_campaign_found() -> None:",
        "    run(",
        source,
        "    )",
        "",
    ]
    return "\n".join(lines)


def _imported(module: str, names: Sequence[str], source: str) -> list[str]:
    used = [name for name in names if f"{name}(" in source]
    return [f"from {module} import {', '.join(used)}"] if used else []


def written(value: object, indent: int = 0) -> str:
    """Give the source of *value*, without what need not be said, from a column on."""
    line = " " * indent + flat(value)
    if len(line) <= _WIDTH:
        return line
    begin, parts, end = _parts(value)
    if not parts:
        return line
    inner = [f"{_named(name, part, indent + 4)},\n" for name, part in parts]
    blank = " " * indent
    return f"{blank}{begin}\n{''.join(inner)}{blank}{end}"


def _named(name: str, value: object, indent: int) -> str:
    blank = " " * indent
    return f"{blank}{name}{written(value, indent).removeprefix(blank)}"


def flat(value: object) -> str:
    """Give the same in one line."""
    begin, parts, end = _parts(value)
    if not begin:
        return repr(value)
    inner = ", ".join(f"{name}{flat(part)}" for name, part in parts)
    only = "," if isinstance(value, tuple) and len(parts) == 1 else ""
    return f"{begin}{inner}{only}{end}"


def _parts(value: object) -> tuple[str, list[tuple[str, object]], str]:
    """Give how *value* begins, its parts with their names, and how it ends."""
    if isinstance(value, tuple):
        return "(", [("", part) for part in cast("tuple[object, ...]", value)], ")"
    if attrs.has(type(value)):
        return f"{type(value).__name__}(", list(_said(value)), ")"
    return "", [], ""


def _said(value: object) -> Iterator[tuple[str, object]]:
    for field in fields_of(value):
        part: object = getattr(value, field.name)
        if part != default_of(field):
            yield f"{field.name}=", part
