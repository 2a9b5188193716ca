"""What an answer cost in tokens, as its provider counted them."""

from __future__ import annotations

from typing import Literal

import attrs

Confidence = Literal["exact", "at_least", "unknown"]


@attrs.frozen(kw_only=True)
class Usage:
    """Token counts as the provider gave them. ``None``: the wire had none. Never estimated."""

    input_tokens: int | None = None
    """Prompt tokens, those read from or written to a cache included."""

    output_tokens: int | None = None
    """Generated tokens, reasoning included."""

    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None

    confidence: Confidence = "unknown"
    """``exact``: the answer ended properly, so these are the final counts. ``at_least``: it was
    cut before them, so these are what had been counted by then. ``unknown``: there are none.
    """

    @property
    def is_known(self) -> bool:
        """Whether the wire gave any count."""
        return not (
            self.input_tokens is None
            and self.output_tokens is None
            and self.reasoning_tokens is None
            and self.cached_input_tokens is None
        )
