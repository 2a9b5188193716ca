"""A key that cannot be shown by accident."""

# Theory of operation
#
# 1. The string is held by a closure, not by an attribute: whatever walks over attributes and shows
#    them (debuggers, error reporters, inspect.getmembers) finds a function there.
# 2. There is one way to it, reveal(), for the one place that sends it.
# 3. Providers echo keys in what they say, also escaped: as JSON, URLs, HTML or a repr do, and one
#    within the other. scrub() knows every character in these forms. Of an echo that was cut the
#    beginning is left, so that is looked for wherever a text was cut, and at its end.

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NoReturn, final

if TYPE_CHECKING:
    from collections.abc import Callable

CUT = "…"
"""Stands where a text was cut."""

_MASK = "***"

# What every key of a provider begins with, as "sk-". A string that is no longer is no secret: a
# text without any "x" would tell nobody anything.
_TELLS_NOTHING = 3

_ESCAPE = re.compile(r"[\\%&]")

# The longest form of one character, as "&amp;amp;quot;", and an escape that a cut left unfinished.
_LONGEST_FORM = 16
_UNFINISHED = re.compile(r"(?:\\{1,7}(?:u[0-9a-fA-F]{0,3})?|%[0-9a-fA-F]{0,7}|&[&;#\w]{0,15})?")


@final
class Secret:
    """A string of which repr, str, format, pickle, copies and ``attrs.asdict`` show nothing."""

    __slots__ = ("_prefix", "_reveal")

    def __init__(self, value: str, *, prefix: str = "") -> None:
        """Keep a string.

        Args:
            value: what is secret.
            prefix: what stands before it where it is sent, and is known to everybody.
        """
        self._prefix = prefix
        self._reveal: Callable[[], str] = lambda: value

    def reveal(self) -> str:
        """Give the string itself, its prefix before it: for the one place that sends it."""
        return f"{self._prefix}{self._reveal()}"

    def after(self, prefix: str) -> Secret:
        """Give this secret with *prefix* before it: what a header holds."""
        return Secret(self._reveal(), prefix=f"{prefix}{self._prefix}")

    def scrub(self, text: str) -> str:
        """Replace every occurrence in *text*, escaped ones too: providers echo keys.

        Where *text* was cut (:data:`CUT`), and at its end, the secret's beginning may stand.
        """
        value = self._reveal()
        if len(value) <= _TELLS_NOTHING:
            return text
        if value in text:
            text = text.replace(value, _MASK)
        if _ESCAPE.search(text):
            text = re.sub("".join(map(_forms, value)), _MASK, text)
        elif value[: _TELLS_NOTHING + 1] not in text:  # as in most texts
            return text
        return CUT.join([_without_beginning(part, value) for part in text.split(CUT)])

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self.reveal()

    def __hash__(self) -> int:
        return hash(("Secret", self.reveal()))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled: read the key from its variable again")


@cache
def _forms(character: str) -> str:
    """Give a pattern of all that *character* can be written as."""
    from html.entities import codepoint2name  # noqa: PLC0415 - no small table, for echoes only

    code = ord(character)
    digits = f"(?i:{code:02x})"
    named = f"|{codepoint2name[code]}" if code in codepoint2name else ""
    # The raw one last: "%25" is a percent sign, not the first character of one.
    return (
        rf"(?:%(?:25){{0,3}}{digits}|&(?:amp;){{0,2}}(?:#0{{0,3}}{code}|#[xX]0{{0,3}}{digits}{named});"
        rf"|\\{{0,7}}(?:u00{digits}|{re.escape(character)}))"
    )


def _without_beginning(text: str, value: str) -> str:
    """Replace at the end of *text* what *value* begins with, if that tells anything."""
    least = max(0, len(text) - _LONGEST_FORM * len(value))
    for start in re.compile(_forms(value[0])).finditer(text, least):
        at = start.start()
        if _is_beginning(text, at, value):
            return f"{text[:at]}{_MASK}"
    return text


def _is_beginning(text: str, at: int, value: str) -> bool:
    """Tell whether *text*, from *at* to its end, is the beginning of *value*."""
    for count, character in enumerate(value):
        form = re.compile(_forms(character)).match(text, at)
        if form is None:
            return count > _TELLS_NOTHING and _UNFINISHED.fullmatch(text, at) is not None
        at = form.end()
    return False
