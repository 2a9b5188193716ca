"""From plain data to records, with nothing converted, guessed or repaired.

cattrs would collect the mistakes in a value of any size, and take ``"5"`` for a number. Here the
first mistake ends it, so that what a hostile file costs is bounded by its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Literal,
    NoReturn,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs

from .._checks import as_list, as_table, wrong

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T", bound=attrs.AttrsInstance)

# No count and no time comes near it, and arithmetic with what is below cannot overflow.
_LIMIT = 2**63


class Misfit(ValueError):
    """A value is not what is needed in its place. The text names the place as jq does."""


def refuse(place: str, wanted: str, value: object) -> NoReturn:
    """Say what should stand at *place* instead of *value*.

    Raises:
        Misfit: always.
    """
    raise Misfit(wrong(place, wanted, value))


def is_count(value: object) -> TypeGuard[int]:
    """Tell whether *value* is a whole number from 0 on. A bool is none."""
    return type(value) is int and 0 <= value < _LIMIT


def table_at(place: str, value: object) -> Mapping[object, object]:
    """Give *value*, which must be an object.

    Raises:
        Misfit: it is something else.
    """
    table = as_table(value)
    return refuse(place, "an object", value) if table is None else table


def list_at(place: str, value: object) -> Sequence[object]:
    """Give *value*, which must be an array.

    Raises:
        Misfit: it is something else.
    """
    items = as_list(value)
    return refuse(place, "an array", value) if items is None else items


def record(cls: type[T], value: object, place: str = "") -> T:
    """Make one *cls* of an object. Names that it does not have are passed over.

    Args:
        cls: an attrs class whose fields are records, words, texts, counts, durations, flags, and
            optional ones, sequences and mappings of these.
        value: what should be the object.
        place: where it stands; empty for a whole line.

    Raises:
        Misfit: something in it is missing or wrong; the first such thing is told.
    """
    table = table_at(place or "the line", value)
    fields: dict[str, object] = {}
    for name, (kind, is_needed) in _fields(cls).items():
        if name in table:
            fields[name] = _value(kind, table[name], f"{place}.{name}")
        elif is_needed:
            raise Misfit(f"{place}.{name} is missing")
    return cls(**fields)


@lru_cache
def _fields(cls: type[attrs.AttrsInstance]) -> Mapping[str, tuple[object, bool]]:
    """Give the kind of each field, and whether it must be there."""
    kinds = get_type_hints(cls)
    return {
        field.name: (kinds[field.name], field.default is attrs.NOTHING)
        for field in attrs.fields(cls)
    }


def _value(kind: object, value: object, place: str) -> object:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:  # of something and None, in this order
        return None if value is None else _value(inner[0], value, place)
    if origin is Literal:
        return value if value in inner else refuse(place, _either(inner), value)
    if origin is Sequence:
        items = enumerate(list_at(place, value))
        return tuple([_value(inner[0], item, f"{place}[{index}]") for index, item in items])
    if origin is Mapping:
        return _mapping(inner[0], inner[1], value, place)
    if leaf := _LEAVES.get(kind):
        fits, wanted = leaf
        return value if fits(value) else refuse(place, wanted, value)
    return record(cast("type[attrs.AttrsInstance]", kind), value, place)


def _mapping(key: object, kind: object, value: object, place: str) -> Mapping[object, object]:
    return {
        _value(key, name, f"a name in {place}"): _value(kind, item, f"{place}.{name}")
        for name, item in table_at(place, value).items()
    }


def _either(words: Sequence[object]) -> str:
    return " or ".join(map(repr, words))


def _is_duration(value: object) -> bool:
    return type(value) in {int, float} and 0 <= cast("float", value) < _LIMIT


_LEAVES: Mapping[object, tuple[Callable[[object], bool], str]] = {
    int: (is_count, "a whole number from 0 to 2^63"),
    float: (_is_duration, "a number from 0 to 2^63"),
    str: (lambda value: isinstance(value, str), "a string"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
}
