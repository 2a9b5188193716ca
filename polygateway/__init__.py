"""Race a stalled LLM stream against a second target, and know where the time went."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from .aggregates import Cohort, Distribution, GatewayStats, ModelStats, TargetStats
    from .errors import (
        AttemptError,
        AuthenticationFailed,
        ConfigurationError,
        ConnectFailed,
        ConnectTimeout,
        ContentFiltered,
        ContextLengthExceeded,
        DeadlineExceeded,
        FirstContentTimeout,
        GatewayBusy,
        GatewayClosed,
        GatewayError,
        InternalError,
        InvalidRequest,
        Overloaded,
        ProtocolViolation,
        QuotaExhausted,
        RateLimited,
        ServerError,
        StallTimeout,
        StreamBroken,
        Truncated,
    )
    from .gateway import Gateway, open_gateway
    from .messages import (
        Chunk,
        Completion,
        Message,
        ToolCall,
        ToolCallDelta,
    )
    from .policies import (
        Config,
        HedgePolicy,
        Limits,
        RetryPolicy,
        StreamPolicy,
        Target,
        WeightedTarget,
    )
    from .request import CallOptions, Prompt
    from .response import CompletionStream
    from .stats import AttemptStats, CallStats, Seam, Stall, Waste
    from .usage import Usage

__all__ = [
    "AttemptError",
    "AttemptStats",
    "AuthenticationFailed",
    "CallOptions",
    "CallStats",
    "Chunk",
    "Cohort",
    "Completion",
    "CompletionStream",
    "Config",
    "ConfigurationError",
    "ConnectFailed",
    "ConnectTimeout",
    "ContentFiltered",
    "ContextLengthExceeded",
    "DeadlineExceeded",
    "Distribution",
    "FirstContentTimeout",
    "Gateway",
    "GatewayBusy",
    "GatewayClosed",
    "GatewayError",
    "GatewayStats",
    "HedgePolicy",
    "InternalError",
    "InvalidRequest",
    "Limits",
    "Message",
    "ModelStats",
    "Overloaded",
    "Prompt",
    "ProtocolViolation",
    "QuotaExhausted",
    "RateLimited",
    "RetryPolicy",
    "Seam",
    "ServerError",
    "Stall",
    "StallTimeout",
    "StreamBroken",
    "StreamPolicy",
    "Target",
    "TargetStats",
    "ToolCall",
    "ToolCallDelta",
    "Truncated",
    "Usage",
    "Waste",
    "WeightedTarget",
    "__version__",
    "open_gateway",
]

# From light to heavy. A program that only asks for its version, or a command for its help, should
# not wait for trio and an HTTP client: each name is loaded when it is first used.
_MODULES = (
    *("errors", "usage", "stats", "aggregates"),
    *("messages", "policies", "request", "response", "gateway"),
)


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in _MODULES:
            home = import_module(f".{module}", __name__)
            if hasattr(home, name):
                return globals().setdefault(name, getattr(home, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
