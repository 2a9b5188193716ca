"""Changes of a body that leave it readable: other values in its JSON, other orders of its lines."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from polygateway.messages import JSON

    Change: TypeAlias = Callable[[random.Random, list[bytes]], None]

# Of every type, empty, large, of the other sign, and what only JSON's escapes can bring.
VALUES: tuple[JSON, ...] = (
    *(None, True, False, 0, 1, -1, 7, 2**53, 2**64, 10**400, 0.5, -1e308, "", "x", "0", "null"),
    *("\ud800", "\u0000", "é🌊", "stop", "error", "{}", '{"a":', "x" * 600, 500),
    *([], {}, [[]], [{}], ["x"], {"": None}, {"error": "x"}, {"type": "error"}),
)


def mutated(data: bytes, head: int, seed: int) -> bytes | None:
    """Change one thing in *data*, of which *head* bytes are no body.

    ``None`` if there is nothing that can be changed in this way.
    """
    dice = random.Random(seed)
    lines = data[head:].split(b"\n")
    try:
        dice.choice(_CHANGES)(dice, lines)
    except (ValueError, RecursionError):  # not JSON
        return None
    return data[:head] + b"\n".join(lines)


def _change_value(dice: random.Random, lines: list[bytes]) -> None:
    """Change the JSON of one line."""
    at = dice.randrange(len(lines))
    begin = lines[at].index(b"{")
    value = cast("JSON", json.loads(lines[at][begin:]))
    _change_inside(dice, value)
    lines[at] = lines[at][:begin] + json.dumps(value).encode()


def _change_inside(dice: random.Random, value: JSON) -> None:
    places = _containers(value)
    place = dice.choice(places)
    if isinstance(place, list):
        if not place or dice.random() < 0.3:
            place.append(dice.choice([*VALUES, *places]))
        else:
            place[dice.randrange(len(place))] = dice.choice(VALUES)
    elif place:
        name = dice.choice(list(place))
        old = place.pop(name)
        if dice.random() < 0.8:
            place[name] = [old] if dice.random() < 0.1 else dice.choice(VALUES)


def _containers(value: JSON) -> list[list[JSON] | dict[str, JSON]]:
    found: list[list[JSON] | dict[str, JSON]] = []
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            found.append(each)
            todo.extend(each.values())
        elif isinstance(each, list):
            found.append(each)
            todo.extend(each)
    return found


def _copy_line(dice: random.Random, lines: list[bytes]) -> None:
    lines.insert(dice.randrange(len(lines) + 1), dice.choice(lines))


def _drop_line(dice: random.Random, lines: list[bytes]) -> None:
    del lines[dice.randrange(len(lines))]


def _swap_lines(dice: random.Random, lines: list[bytes]) -> None:
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


_CHANGES: tuple[Change, ...] = (*[_change_value] * 5, _copy_line, _drop_line, _swap_lines)
