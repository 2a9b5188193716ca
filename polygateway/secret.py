"""A key that cannot be printed by accident."""

from __future__ import annotations

from typing import NoReturn, final


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
        """Replace every occurrence in *text*: providers echo keys in their error texts."""
        return text.replace(self._value, "***") if self._value else text

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
