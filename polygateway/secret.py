"""A key that cannot be printed by accident."""

from __future__ import annotations

from typing import NoReturn, final

CUT = "…"
"""Stands where a text was cut."""

# What every key of a provider begins with, as "sk-".
_TELLS_NOTHING = 3


@final
class Secret:
    """A string whose repr, str, format, pickle and ``attrs.asdict`` show nothing of it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Give the string itself: for the one place that sends it."""
        return self._value

    def scrub(self, text: str) -> str:
        """Replace every occurrence in *text*: providers echo keys in their error texts.

        Where *text* was cut (:data:`CUT`), the key's beginning may stand before the cut.
        """
        if not self._value:
            return text
        parts = text.replace(self._value, "***").split(CUT)
        return CUT.join([*map(self._without_beginning, parts[:-1]), parts[-1]])

    def _without_beginning(self, text: str) -> str:
        for length in range(min(len(self._value) - 1, len(text)), _TELLS_NOTHING, -1):
            if text.endswith(self._value[:length]):
                return f"{text[:-length]}***"
        return text

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled: read the key from its variable again")
