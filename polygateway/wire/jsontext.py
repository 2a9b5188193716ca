"""JSON out, with the place of what cannot be said; JSON in, of whatever shape it turns out to be.

What a provider sends may have any type anywhere: the readers give a value of the type that was
hoped for, or its empty form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from ..errors import ConfigurationError
from .malformed import Malformed, excerpt

if TYPE_CHECKING:
    from ..messages import JSON

# What values take in memory besides their characters, roughly (CPython on 64 bits): an object with
# a member, an array, a value in either, a string. Hostile JSON takes thirty times its length.
_OBJECT, _ARRAY, _VALUE, _STRING = 184, 64, 36, 52
_MOST_MIB = 24
# Shorter texts cannot take so much, and are not even counted.
_CERTAINLY_SMALL = _MOST_MIB * 1024 * 1024 // 32

_decode = msgspec.json.Decoder().decode

# JSON's numbers have no bound, but floats do, and so does what figures are stored in.
_UNCOUNTABLE = 2**63


# ---- out ----------------------------------------------------------------------------------------


def to_json(value: Mapping[str, JSON], where: str = "") -> bytes:
    """Write *value* as compact UTF-8.

    Args:
        value: an object; its tuples and other sequences become arrays.
        where: how the error's text calls the object itself; empty for a whole body.

    Raises:
        ConfigurationError: something in it cannot be said; the text names its place.
    """
    try:
        return _encoder.encode(value).encode()
    except (ValueError, TypeError, RecursionError) as error:
        flaw = _find_flaw(value, where) or f"the request cannot be written as JSON: {error}"
        raise ConfigurationError(flaw) from error


def _plain(value: object) -> object:
    """Turn what only behaves like an object or an array into one."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return list(cast("Sequence[object]", value))
    raise TypeError(f"{type(value).__name__} is not JSON")


_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
)


def _find_flaw(value: object, where: str) -> str | None:
    try:
        return _flaw(value, where)
    except RecursionError:
        return f"{where or 'the request'} is nested too deeply, or holds itself"


def _flaw(value: object, where: str) -> str | None:
    """Say what in *value* JSON or UTF-8 cannot carry, and where; ``None`` if nothing."""
    if isinstance(value, str):
        return _surrogate(value, where)
    if value is None or isinstance(value, (bool, int)):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{where} is {value}, which JSON cannot say"
    try:
        plain = _plain(value)
    except TypeError:
        return f"{where} is of type {type(value).__name__}, which JSON cannot say"
    return _flaw_inside(plain, where)


def _flaw_inside(value: object, where: str) -> str | None:
    if isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            place = f"{where}.{key}" if where else f"{key}"
            if not isinstance(key, str):
                return f"{where or 'the request'} has the key {key!r}, which is no string"
            if flaw := _surrogate(key, f"the key {key!a}") or _flaw(item, place):
                return flaw
        return None
    items = enumerate(cast("list[object]", value))
    return next((flaw for i, item in items if (flaw := _flaw(item, f"{where}[{i}]"))), None)


def _surrogate(text: str, where: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        lone = ord(text[error.start])
        return f"{where} holds a lone surrogate (U+{lone:04X}), which UTF-8 cannot carry"
    return None


# ---- in -----------------------------------------------------------------------------------------


def from_json(text: str) -> JSON:
    """Read *text*.

    Of a name that stands twice in an object the last value counts. NaN and Infinity are read,
    which servers written in Python send as probabilities.

    Raises:
        Malformed: it is not JSON; with an excerpt. Or its values would take over 24 MiB of memory.
    """
    if len(text) > _CERTAINLY_SMALL and footprint(text) > _MOST_MIB * 1024 * 1024:
        raise Malformed(f"JSON with so many values that they would take over {_MOST_MIB} MiB")
    try:
        return cast("JSON", _decode(text))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return _from_loose_json(text)


def _from_loose_json(text: str) -> JSON:
    """Read what the strict reader refuses: NaN, halves of characters, numbers beyond a float."""
    try:
        return cast("JSON", json.loads(text))
    # RecursionError: thousands of brackets are no JSON that anybody means.
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON ({error}): {excerpt(text)!r}") from error


def footprint(text: str) -> int:
    """Estimate how many bytes the values of *text* take, their characters apart."""
    strings = max(0, text.count('"') // 2 - text.count(":"))  # without the names, which are shared
    return (
        text.count("{") * _OBJECT
        + text.count("[") * _ARRAY
        + text.count(",") * _VALUE
        + strings * _STRING
    )


def as_object(value: JSON) -> Mapping[str, JSON]:
    """Give *value* if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_objects(value: JSON) -> list[Mapping[str, JSON]]:
    """Give the objects of an array; none if *value* is no array."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: JSON) -> str:
    """Give *value* if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: JSON) -> int | None:
    """Give *value* if it is a whole number that can count something: from 0 to below 2^63."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < _UNCOUNTABLE else None


def as_json(value: JSON) -> str:
    """Write what was read as text again.

    Raises:
        Malformed: it is nested too deeply, or holds a number that JSON cannot say.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except RecursionError as error:
        raise Malformed("a value is nested too deeply") from error
    except ValueError as error:
        raise Malformed(f"a value cannot be written again: {error}") from error
