"""Bytes to chunks and requests to bytes, without I/O: one file a dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .openai_chat import OpenAIChat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .dialect import Dialect

DIALECTS: Mapping[str, Dialect] = {"openai-chat": OpenAIChat()}
"""By the name that a target gives."""
