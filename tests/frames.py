"""Whose the frames of a traceback are, wherever the library is installed."""

from __future__ import annotations

from pathlib import Path

_TESTS = Path(__file__).parent


def is_ours(filename: str) -> bool:
    """Tell whether the frames of a file hold nothing that a test or its provider put there."""
    return not Path(filename).is_relative_to(_TESTS) and "/polygateway/testing/" not in filename
