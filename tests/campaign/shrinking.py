"""Make a value that fails simpler, as long as it fails."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar, cast

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")


def shrunk(value: T, failing: Callable[[T], T | None], *, tries: int = 3000) -> T:
    """Give the simplest value that was found to fail, as *value* does.

    The same for the same value: nothing is drawn.

    Args:
        value: made of attrs classes, tuples, whole numbers and what has no parts.
        failing: gives a value that fails, the given one or one as simple; ``None`` if it does not.
        tries: how often *failing* may be asked.
    """
    candidates, position, changed = simpler(value), 0, False
    for _ in range(tries):
        candidate = next(candidates, None)
        if candidate is None and changed:
            # What could not be left out before, perhaps can be now.
            candidates, position, changed = simpler(value), 0, False
            candidate = next(candidates, None)
        if candidate is None:
            break
        found = failing(candidate)
        if found is None:
            position += 1
        else:
            value, changed = found, True
            candidates = islice(simpler(value), position, None)
    return value


def simpler(value: T) -> Iterator[T]:
    """Give what is simpler than *value* by one step, the largest steps first."""
    if isinstance(value, tuple):
        yield from cast("Iterator[T]", _simpler_tuples(cast("tuple[object, ...]", value)))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from cast("Iterator[T]", _simpler_numbers(value))
    elif attrs.has(type(value)):
        yield from _simpler_fields(value)


def _simpler_tuples(value: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
    size = len(value)
    while size:
        for begin in range(0, len(value), size):
            yield value[:begin] + value[begin + size :]
        size //= 2
    for place, each in enumerate(value):
        for candidate in simpler(each):
            yield (*value[:place], candidate, *value[place + 1 :])


def _simpler_numbers(value: int) -> Iterator[int]:
    if value > 0:
        yield from sorted({0, value // 2, value - value % 1000, value - value % 10} - {value})


def _simpler_fields(value: T) -> Iterator[T]:
    fields = fields_of(value)
    for field in fields:
        here: object = getattr(value, field.name)
        default = default_of(field)
        if here != default:
            yield from _evolved(value, field.name, default)
    for field in fields:
        here, default = getattr(value, field.name), default_of(field)
        # A number that is usually another one than 0 is no simpler for being small.
        if here != default and not (default and isinstance(here, int)):
            for candidate in simpler(here):
                yield from _evolved(value, field.name, candidate)


def _evolved(value: T, name: str, part: object) -> Iterator[T]:
    """Give *value* with another part, if there can be such a one."""
    try:
        yield attrs.evolve(value, **{name: part})  # type: ignore[misc]
    except ValueError:
        return


def fields_of(value: object) -> Sequence[attrs.Attribute[object]]:
    """Give the fields of a value of an attrs class; none of any other."""
    kind = type(value)
    return attrs.fields(kind) if attrs.has(kind) else ()


def default_of(field: attrs.Attribute[object]) -> object:
    """Give what a field is if nothing is said."""
    default: object = field.default
    factory: object = getattr(default, "factory", None)  # of attrs.Factory
    return factory() if callable(factory) else default
