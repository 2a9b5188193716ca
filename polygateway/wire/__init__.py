"""Bytes to chunks and requests to bytes, without I/O: one file a dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, get_args

from ..policies import DialectName

if TYPE_CHECKING:
    from .dialect import Dialect


class _Dialects(Mapping["DialectName", "Dialect"]):
    """Loads each dialect when it is first asked for."""

    def __getitem__(self, name: DialectName) -> Dialect:
        return _dialect(name)

    def __iter__(self) -> Iterator[DialectName]:
        return iter(get_args(DialectName))

    def __len__(self) -> int:
        return len(get_args(DialectName))


DIALECTS: Mapping[DialectName, Dialect] = _Dialects()
"""By the name that a target gives."""


# The imports stand within: most programs speak one or two of these wires, and should not wait for
# the others.
# ruff: noqa: PLC0415
@cache
def _dialect(name: DialectName) -> Dialect:
    match name:
        case "openai-chat":
            from .openai_chat import OpenAIChat

            return OpenAIChat()
        case "openai-responses":
            from .openai_responses import OpenAIResponses

            return OpenAIResponses()
        case "anthropic":
            from .anthropic import Anthropic

            return Anthropic()
        case "gemini":
            from .gemini import Gemini

            return Gemini()
        case "ollama":
            from .ollama import Ollama

            return Ollama()
        case _:
            raise KeyError(name)
