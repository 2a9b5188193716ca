"""Records of attempts and calls, for tests that only pass them on."""

from __future__ import annotations

import attrs

from polygateway import AttemptStats, CallStats, Usage
from polygateway.core.figures import Ending, figures
from polygateway.core.tally import Tally

_NOTHING_CAME = figures(
    Tally(1),
    Ending(
        attempt=0,
        started_ns=0,
        until_ns=1_000_000_000,
        waited_ns=0,
        keepalives=0,
        end_kind="error",
        form="stream",
        usage=Usage(),
    ),
)

ATTEMPT = AttemptStats(
    **attrs.asdict(_NOTHING_CAME, recurse=False),
    index=0,
    target="eu",
    kind="primary",
    reason=None,
    started_ms=0.0,
    sent_ms=None,
    headers_ms=None,
    outcome="failed",
    end_kind="error",
    cancel_reason=None,
    cancel_to_closed_ms=None,
    status=None,
    request_id=None,
    error=None,
    error_kind=None,
    characters=0,
    usage=Usage(),
    wasted=None,
)
"""An attempt of one second that nothing came of."""

CALL = CallStats(
    **attrs.asdict(_NOTHING_CAME, recurse=False),
    attempts=(),
    front=0,
    hedge_reason=None,
    hedge_after_ms=None,
    hedges_refused={},
    commit_ms=None,
    estimated_saved_ms=None,
)
"""A call of one second that nothing came of."""
