"""A target's key, read from its variable."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from ..secret import Secret

if TYPE_CHECKING:
    from ..policies import Target


def resolve_key(name: str, target: Target) -> Secret | None:
    """Read the key of the target called *name* from the environment.

    Returns:
        The key; ``None`` if the target has no ``api_key_env``, so that none is sent.

    Raises:
        ConfigurationError: the variable is missing or empty, or what it holds cannot be a key. The
            text says where a stray character stands, and nothing else of the key.
    """
    variable = target.api_key_env
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        what = "is not set" if key is None else "is empty"
        raise ConfigurationError(f"target {name!r}: {_named(variable)} {what} (api_key_env)")
    for position, character in enumerate(key, start=1):
        if stray := _stray(character):
            raise ConfigurationError(
                f"target {name!r}: the key in {_named(variable)} has {stray} at position {position}"
                f" (api_key_env)"
            )
    return Secret(key)


def _named(variable: str) -> str:
    """Name the variable, unless it may be a key, put where the variable's name belongs."""
    if variable == variable.upper():
        return f"the variable {variable}"
    return "the variable it names (in lower case, so not shown: it may be the key itself)"


def _stray(character: str) -> str | None:
    """Say what kind of character is none of a key's; ``None`` if it may be one."""
    if character.isspace():
        return "whitespace"
    if not character.isascii():
        return "a character outside ASCII"
    return None if character.isprintable() else "a control character"
