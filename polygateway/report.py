"""What one read of an attempt brought."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .core.failures import Failure
from .messages import Chunk


@attrs.frozen
class Report:
    """What one read of an attempt brought."""

    chunks: Sequence[Chunk]
    at_ns: int
    """When the read returned."""

    ended: bool = False
    """Whether the answer came to its proper end."""

    failure: Failure | None = None
    """What the attempt ended with; ``None`` unless it failed."""

    @property
    def content(self) -> bool:
        """Whether it brought anything for the application."""
        return bool(self.chunks)

    @property
    def over(self) -> bool:
        """Whether there is nothing more to be read."""
        return self.ended or self.failure is not None
