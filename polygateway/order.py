"""What a caller wants."""

from __future__ import annotations

import attrs

from .core.budget import Purse
from .core.thresholds import Thresholds
from .messages import ChatRequest
from .model import Lineup
from .policies import HedgePolicy, Limits, RetryPolicy, StreamPolicy


@attrs.frozen(kw_only=True)
class Order:
    """What was asked for, and by which rules it is to be had."""

    model: str
    streamed: bool
    """Whether the answer is wanted chunk by chunk."""

    lineup: Lineup
    thresholds: Thresholds
    request: ChatRequest
    hedge: HedgePolicy
    retry: RetryPolicy
    stream: StreamPolicy
    limits: Limits
    purse: Purse
    deadline_s: float | None
    """How long the call may take; ``None`` for any time."""

    holdout: bool | None
    """Whether it is kept from being hedged; ``None`` if nothing is hedged in any case."""
