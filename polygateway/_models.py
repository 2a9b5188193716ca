"""What a table of models may hold, in objects as in plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ._checks import as_list, as_table, dotted, nearest, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

NameWithWeight: TypeAlias = "Callable[[object], str | None]"
"""Gives the target's name of an entry that has a weight; ``None`` if the entry has none. The name
is empty where the entry's own rules tell that it is wrong.
"""


def name_mistakes(place: str, name: object) -> Iterator[str]:
    """Give a line if *name*, in the table called *place*, can be no target's or model's name."""
    if not isinstance(name, str) or not name.strip():
        yield f"{place} has the name {name!r}; a name is a string that is not empty"


def models_mistakes(
    place: str, models: object, targets: Collection[str], name_with_weight: NameWithWeight
) -> Iterator[str]:
    """Give a line for each mistake in a table of models.

    Args:
        place: what to call the table.
        models: what should be lists of targets, by the model's name.
        targets: the names there are.
        name_with_weight: asked of each entry of the lists.
    """
    table = as_table(models)
    if not table:
        yield wrong(place, "a table of at least one model", models)
        return
    for model, entries in table.items():
        yield from name_mistakes(place, model)
        at = dotted(place, str(model))
        if listed := as_list(entries):
            yield from _entries_mistakes(at, listed, targets, name_with_weight)
        else:
            yield wrong(at, "a list of at least one target's name", entries)


def _entries_mistakes(
    place: str,
    entries: Sequence[object],
    targets: Collection[str],
    name_with_weight: NameWithWeight,
) -> Iterator[str]:
    weighted = [name_with_weight(entry) for entry in entries]
    if len({name is None for name in weighted}) > 1:
        yield f"{place} has targets with and without a weight; give every one a weight, or none"
    names = [entry if name is None else name for entry, name in zip(entries, weighted, strict=True)]
    for index, name in enumerate(names):
        if weighted[index] != "":
            yield from _entry_mistakes(f"{place}[{index}]", name, names[:index], targets)


def _entry_mistakes(
    place: str, name: object, before: Sequence[object], targets: Collection[str]
) -> Iterator[str]:
    if not isinstance(name, str) or name not in targets:
        yield wrong(place, f"the name of a target {nearest(name, targets)}", name)
    elif name in before:
        yield f"{place} names {name!r} a second time"
