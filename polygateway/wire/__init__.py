"""Bytes to chunks and requests to bytes, without I/O: one file a dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .anthropic import Anthropic
from .gemini import Gemini
from .ollama import Ollama
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..policies import DialectName
    from .dialect import Dialect

DIALECTS: Mapping[DialectName, Dialect] = {
    "openai-chat": OpenAIChat(),
    "openai-responses": OpenAIResponses(),
    "anthropic": Anthropic(),
    "gemini": Gemini(),
    "ollama": Ollama(),
}
"""By the name that a target gives."""
