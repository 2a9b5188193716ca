"""From plain data to a :class:`Config`: all mistakes are found first, then the objects are made.

The rules about values are the validators of the policies' fields. They are run here one by one, so
that the second mistake is found as well as the first. What no validator can see is judged here:
names that are no setting, and settings that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import TYPE_CHECKING, NoReturn, TypeAlias, Union, get_args, get_origin

import attrs
import cattrs

from .._checks import as_list, as_table, dotted, nearest, sounds_like_key, wrong
from .._models import models_mistakes, name_mistakes
from ..errors import ConfigurationError
from ..policies import (
    Auto,
    Config,
    HedgePolicy,
    Limits,
    RetryPolicy,
    StreamPolicy,
    Target,
    WeightedTarget,
)
from .mistakes import Mistake, Place, as_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_Class: TypeAlias = type[attrs.AttrsInstance]

POLICIES: Mapping[str, _Class] = {
    "hedge": HedgePolicy,
    "stream": StreamPolicy,
    "retry": RetryPolicy,
    "limits": Limits,
}
"""The sections that hold one policy each."""


# The one setting about which there is a rule that only the whole configuration can break.
_TOGETHER: Place = ("stream", "recovery")


def checked(
    data: Mapping[str, object],
    source: str,
    variables: Mapping[Place, str],
    mistakes: Sequence[Mistake],
) -> Config:
    """Put *data* into its classes. Nothing of it is kept: changing it later changes nothing.

    Args:
        data: what should be a configuration.
        source: what was read, for the error.
        variables: see :func:`as_error`.
        mistakes: those that were found before.

    Raises:
        ConfigurationError: there are mistakes; the text has a line for each.
    """
    every = [*mistakes, *_find_mistakes(data)]
    if every:
        raise as_error(source, every, variables)
    try:
        return _converter.structure(data, Config)
    except ConfigurationError as error:
        raise as_error(source, [Mistake(_TOGETHER, str(error))], variables) from None


def _copied(value: object, _: object = None) -> object:
    if (table := as_table(value)) is not None:
        return {name: _copied(inner) for name, inner in table.items()}
    if (items := as_list(value)) is not None:
        return [_copied(inner) for inner in items]
    return value


def _as_number(value: float | str, _: object) -> float | str:
    return value if isinstance(value, str) else float(value)


def _as_lineup(
    entries: Sequence[str] | Sequence[Mapping[str, object]], _: object
) -> tuple[str | WeightedTarget, ...]:
    return tuple(
        entry if isinstance(entry, str) else _converter.structure(entry, WeightedTarget)
        for entry in entries
    )


# It makes no code, unlike cattrs.Converter: that would cost more than a configuration or two.
_converter = cattrs.BaseConverter(detailed_validation=False)
for _class in (Config, Target, WeightedTarget, *POLICIES.values()):
    attrs.resolve_types(_class)  # which only the other one does by itself
# What JSON can say, and what may be None, stays as it is. Hooks that come later are asked first.
_converter.register_structure_hook_func(
    lambda kind: get_origin(kind) in {Union, UnionType}, _copied
)
_converter.register_structure_hook_func(lambda kind: get_args(kind) == (float, Auto), _as_number)
_converter.register_structure_hook_func(
    lambda kind: kind == Sequence[str] | Sequence[WeightedTarget], _as_lineup
)


def _find_mistakes(data: Mapping[str, object]) -> Iterator[Mistake]:
    """Give every mistake in a configuration, in no particular order."""
    yield from _wrong_names(Config, data.keys(), ())
    for section, policy in POLICIES.items():
        yield from _in_table(policy, data.get(section, {}), (section,))
    targets = data.get("targets", {})
    yield from _in_targets(targets)
    if "models" in data:
        names = [name for name in as_table(targets) or () if isinstance(name, str)]
        yield from _in_models(data["models"], names)


def _in_targets(targets: object) -> Iterator[Mistake]:
    table = as_table(targets)
    if table is None:
        yield Mistake(("targets",), wrong("targets", "a table of targets", targets))
        return
    for name, target in table.items():
        place = ("targets", str(name))
        yield from (Mistake(place, line) for line in name_mistakes("targets", name))
        yield from _in_table(Target, target, place)


def _in_models(models: object, targets: Collection[str]) -> Iterator[Mistake]:
    parts: dict[Place, object] = {("models",): models}
    if table := as_table(models):
        # One model at a time, so that each mistake gets the place of its own model.
        parts = {("models", str(name)): {name: entries} for name, entries in table.items()}
        for name, entries in table.items():
            yield from _in_weights(entries, ("models", str(name)))
    for place, part in parts.items():
        lines = models_mistakes("models", part, targets, _name_with_weight)
        yield from (Mistake(place, line) for line in lines)


def _in_weights(entries: object, place: Place) -> Iterator[Mistake]:
    for index, entry in enumerate(as_list(entries) or ()):
        if as_table(entry) is not None:
            yield from _in_table(WeightedTarget, entry, (*place, index))


def _name_with_weight(entry: object) -> str | None:
    table = as_table(entry)
    if table is None:
        return None
    name = table.get("target")
    return name if isinstance(name, str) and name.strip() else ""


def _in_table(cls: _Class, raw: object, place: Place) -> Iterator[Mistake]:
    """Give the mistakes in what should be the table for one *cls*."""
    table = as_table(raw)
    if table is None:
        yield Mistake(place, wrong(dotted(*place), "a table", raw))
        return
    yield from _wrong_names(cls, table.keys(), place)
    right = _Right()
    for field in attrs.fields(cls):
        value = table.get(field.name, _default(field))
        if value is not attrs.NOTHING:
            at = (*place, field.name)
            yield from (Mistake(at, line) for line in _in_field(field, value, at, right))


def _wrong_names(cls: _Class, names: Collection[object], place: Place) -> Iterator[Mistake]:
    """Give a mistake for each name that *cls* does not have, or has and needs."""
    known = attrs.fields_dict(cls)
    for name in names:
        if name not in known:
            at = (*place, str(name))
            yield Mistake(at, _unknown(cls, at))
    for name, field in known.items():
        if field.default is attrs.NOTHING and name not in names:
            at = (*place, name)
            yield Mistake(at, f"{dotted(*at)} is missing")


def _unknown(cls: _Class, place: Place) -> str:
    """Say that there is no such setting. Its value is not shown: it may be anything."""
    name = str(place[-1])
    if sounds_like_key(name):
        return f"{dotted(*place)}: a file never holds a key; name its variable with api_key_env"
    return f"{dotted(*place)} is no setting {nearest(name, attrs.fields_dict(cls))}"


def _default(field: attrs.Attribute[object]) -> object:
    factory = getattr(field.default, "factory", None)
    return field.default if factory is None else factory()


class _InDoubt(Exception):
    """A rule asked for a field that is missing, or has a mistake of its own."""


class _Right:
    """Stands for the object that is to be, and has those of its fields that are right."""

    def __getattr__(self, name: str) -> NoReturn:
        raise _InDoubt(name)


def _in_field(
    field: attrs.Attribute[object], value: object, place: Place, right: _Right
) -> list[str]:
    """Give a line for each mistake in one field's value, or add it to what is *right*."""
    if field.validator is not None:
        try:
            field.validator(right, field.evolve(name=dotted(*place)), value)
        except ConfigurationError as error:
            return str(error).split("\n")
        except _InDoubt:
            return []
    setattr(right, field.name, value)
    return []
