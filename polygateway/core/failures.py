"""What a failed attempt means for the next one: a table over the error tree."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ..errors import (
    AttemptError,
    AuthenticationFailed,
    ConnectFailed,
    ConnectTimeout,
    ContentFiltered,
    ContextLengthExceeded,
    FirstContentTimeout,
    GatewayBusy,
    InvalidRequest,
    QuotaExhausted,
    ServerError,
    StallTimeout,
)
from .units import ns

Failure: TypeAlias = AttemptError | GatewayBusy
"""Whatever one attempt can end with by itself."""


@attrs.frozen(kw_only=True)
class Verdict:
    """What may be tried after a failure."""

    again: bool
    """A fresh attempt could succeed, at this target or another one."""

    elsewhere: bool
    """Another target could do better."""

    fluke: bool = False
    """Likely to be gone at once: the same target, whose prompt cache is warm, gets a second try."""

    silent: bool = False
    """The target did not answer: it is not waited for again while another one is left."""

    retry_after_ns: int | None = None
    """How long the target asked not to be tried; ``None`` if it did not say."""

    blames: bool = True
    """Whether it speaks against the target, and not against the request or our own limits."""


_TIMEOUTS = (ConnectTimeout, FirstContentTimeout, StallTimeout)
_FLUKES = (ServerError, ConnectFailed)
_ANOTHER_MAY_DO_BETTER = (AuthenticationFailed, ContextLengthExceeded, QuotaExhausted)
_NOT_THE_TARGETS = (GatewayBusy, InvalidRequest, ContextLengthExceeded, ContentFiltered)

# What a provider writes may be any number; half a century is for ever.
_LONGEST_S = 1.6e9


def judge(failure: Failure) -> Verdict:
    """Say what may be tried after *failure*."""
    silent = isinstance(failure, _TIMEOUTS)
    unknown = _is_unknown(failure)
    wait = failure.retry_after_s
    return Verdict(
        again=failure.retryable,
        elsewhere=failure.retryable or unknown or isinstance(failure, _ANOTHER_MAY_DO_BETTER),
        fluke=failure.retryable and isinstance(failure, _FLUKES) and not silent,
        silent=silent,
        retry_after_ns=None if wait is None else ns(min(max(wait, 0), _LONGEST_S)),
        blames=unknown or not isinstance(failure, _NOT_THE_TARGETS),
    )


def is_refusal(failure: Failure) -> bool:
    """Tell whether it is the request as it is that was refused."""
    return isinstance(failure, InvalidRequest) and not _is_unknown(failure)


def _is_unknown(failure: Failure) -> bool:
    """Tell whether the model or the path is unknown: the other targets have names of their own."""
    return isinstance(failure, InvalidRequest) and failure.status == 404
