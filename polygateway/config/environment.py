"""Environment variables on top of a file: ``POLYGATEWAY_SECTION__NAME``."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, cast

import attrs

from .._checks import dotted, folded
from ..errors import ConfigurationError
from .mistakes import Mistake, Place
from .structure import POLICIES

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "POLYGATEWAY_"

# With one underscore instead of two a variable is none of ours, and would be ignored in silence.
# Others may begin like ours (Kubernetes makes POLYGATEWAY_PORT for a service of that name), so
# only what can mean nothing else is refused.
_SLIPS = {
    f"{PREFIX}{section}_{field.name}".upper(): f"{PREFIX}{section}__{field.name}".upper()
    for section, policy in POLICIES.items()
    for field in attrs.fields(policy)
}


def put_on_top(
    table: dict[str, object], environ: Mapping[str, str]
) -> tuple[dict[Place, str], list[Mistake]]:
    """Set in *table* what the variables of *environ* say.

    A variable's parts are matched with the names that the table has, whatever their case, ``-``
    and ``_`` being equal; a name that it does not have is taken in lower case. The value is read
    as TOML; what is none is a string.

    Returns:
        By place, the variable that set it, or made the table it is; and what is wrong with the
        variables themselves.
    """
    setters: dict[Place, str] = {}
    mistakes: list[Mistake] = []
    for variable in sorted(environ):
        try:
            if _is_setting(variable):
                _put(table, variable, environ[variable], setters)
        except ConfigurationError as error:
            mistakes.append(Mistake((variable,), str(error)))
    return setters, mistakes


def _is_setting(variable: str) -> bool:
    if variable in _SLIPS:
        raise ConfigurationError(f"{variable} is no setting (nearest: {_SLIPS[variable]})")
    return variable.startswith(PREFIX) and "__" in variable.removeprefix(PREFIX)


def _put(table: dict[str, object], variable: str, text: str, setters: dict[Place, str]) -> None:
    *above, last = variable.removeprefix(PREFIX).split("__")
    place: Place = ()
    for part in above:
        name = _name(table, part, variable)
        place = (*place, name)
        if name not in table:
            table[name] = {}
            setters[place] = variable
        table = _table(table[name], place, variable)
    name = _name(table, last, variable)
    place = (*place, name)
    if place in setters:
        raise ConfigurationError(f"{variable} sets {dotted(*place)}, as {setters[place]} does")
    table[name] = _value(text)
    setters[place] = variable


def _table(value: object, place: Place, variable: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{variable} is within {dotted(*place)}, which is no table")
    return cast("dict[str, object]", value)


def _name(table: dict[str, object], part: str, variable: str) -> str:
    """Give the name in *table* that *part* of a variable means."""
    if not part:
        raise ConfigurationError(f"{variable} has an empty part between or after its underscores")
    same = [name for name in table if folded(name) == folded(part)]
    if len(same) > 1:
        raise ConfigurationError(f"{variable} could mean {' or '.join(map(repr, same))}")
    return same[0] if same else part.lower()


def _value(text: str) -> object:
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # More than the one value: a text that happens to go on as TOML does.
    return document["value"] if document.keys() == {"value"} else text
