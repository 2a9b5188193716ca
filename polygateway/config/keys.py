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
    if target.api_key_env is None:
        return None
    # No variable of this frame holds a key, nor a name that may be one: tracebacks show them.
    key = Secret(os.environ.get(target.api_key_env, ""))
    if flaw := _flaw(key, target.api_key_env):
        raise ConfigurationError(f"target {name!r}: {flaw} (api_key_env)")
    return key


def _flaw(key: Secret, variable: str) -> str | None:
    """Say why what *variable* holds can be no key; ``None`` if it can."""
    if not key.reveal():
        return f"{_named(variable)} is {'empty' if variable in os.environ else 'not set'}"
    for position, character in enumerate(key.reveal(), start=1):
        if stray := _stray(character):
            return f"the key in {_named(variable)} has {stray} at position {position}"
    return None


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
