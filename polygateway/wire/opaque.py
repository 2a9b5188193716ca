"""What only the provider understands of an answer, kept in its message for the next prompt.

Thinking signatures, reasoning items and the like must go back unchanged in a tool-use loop. They
stand under one key of the message, labelled with the dialect that they belong to; every other
dialect leaves them out, and the attempt's record says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ..errors import ConfigurationError
from ..messages import JSON
from .completeness import COMPLETENESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..messages import Message
    from ..policies import Target

KEY = "opaque"
"""Where a message holds it."""


@attrs.frozen
class Opaque:
    """What one message holds."""

    dialect: str
    parts: Mapping[str, JSON]


def label(dialect: str, parts: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Give the value for :data:`KEY`: *parts*, and whose they are."""
    return {"dialect": dialect, **parts}


def source_of(target: Target) -> Mapping[str, JSON]:
    """Say where an answer comes from whose opaque parts hold for that model and address alone."""
    return {"base_url": target.base_url.rstrip("/"), "model": target.model}


def opaque_in(message: Message, place: str) -> Opaque | None:
    """Give what *message* holds; ``None`` if it holds nothing of the kind.

    Args:
        message: one of a conversation.
        place: how errors call it.

    Raises:
        ConfigurationError: what stands there was not put there by polygateway.
    """
    value = message.get(KEY)
    if value is None:
        return None
    if isinstance(value, Mapping):
        dialect = value.get("dialect")
        if isinstance(dialect, str) and dialect in COMPLETENESS:
            return Opaque(dialect, value)
    raise ConfigurationError(
        f"{place}[{KEY!r}] must be what a completion's message held there, or be left out"
    )


def fingerprint(text: str, calls: Sequence[tuple[str, str]]) -> str:
    """Give what tells whether a message still says what the model said.

    Args:
        text: the message's.
        calls: name and arguments of each.
    """
    return hashlib.sha256(json.dumps([text, calls]).encode()).hexdigest()
