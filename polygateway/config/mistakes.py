"""Mistakes in a configuration, and the one error that tells all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Place: TypeAlias = tuple[str | int, ...]
"""Where a setting is: the names of the tables that lead to it, or positions in lists, and its own
name.
"""


class Mistake(NamedTuple):
    """One line of the error."""

    place: Place
    text: str
    """What is wrong, and with what."""


def as_error(
    source: str, mistakes: Collection[Mistake], variables: Mapping[Place, str]
) -> ConfigurationError:
    """Make the error that tells all *mistakes*, sorted by place.

    Args:
        source: what was read, for the first line.
        mistakes: at least one.
        variables: by place, the environment variable that set it; named beside its mistakes.
    """
    count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    lines = [
        " ".join([mistake.text, *_causes(mistake.place, variables)]) for mistake in sorted(mistakes)
    ]
    return ConfigurationError("\n  ".join([f"{count} in {source}:", *lines]))


def _causes(place: Place, variables: Mapping[Place, str]) -> list[str]:
    """Name the variables that set *place* or a part of it; else the one that set what it is in."""
    inside = {variable: None for at, variable in variables.items() if at[: len(place)] == place}
    around = [place[:depth] for depth in range(len(place) - 1, 0, -1) if place[:depth] in variables]
    names = inside or [variables[at] for at in around[:1]]
    return [f"(set by {name})" for name in names]
