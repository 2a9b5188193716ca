"""Configurations to begin with, and what the error says about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway.config import load_config
from polygateway.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

CANARY = "sk-canary-7d1f"
"""What may be seen nowhere."""


def minimal(**changes: object) -> dict[str, object]:
    """A right configuration of one target and one model, with other sections as given."""
    return {"targets": {"eu": target()}, "models": {"fast": ["eu"]}, **changes}


def target(**changes: object) -> dict[str, object]:
    """A right target, with other fields as given."""
    return {
        "dialect": "openai-chat",
        "base_url": "https://example.invalid/v1",
        "model": "lyra-3",
        **changes,
    }


def one_target(**changes: object) -> dict[str, object]:
    """A right configuration, with other fields of its one target as given."""
    return minimal(targets={"eu": target(**changes)})


def told(data: Mapping[str, object]) -> list[str]:
    """The lines of the error, each for one mistake."""
    with pytest.raises(ConfigurationError) as caught:
        load_config(data)
    first, *lines = str(caught.value).split("\n")
    count = "1 mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
    assert first == f"{count} in the configuration:"
    return [line.removeprefix("  ") for line in lines]
