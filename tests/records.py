"""Records of streams, attempts and calls, for tests that pass them on or change what matters."""

from __future__ import annotations

import attrs

from polygateway import AttemptStats, CallStats, Usage
from polygateway.stats import StreamFigures

NOTHING = StreamFigures(
    chunk_count=0,
    ttft_ms=None,
    ttft_text_ms=None,
    generation_ms=None,
    stall_ms=None,
    stall_gap_count=None,
    stall_count=None,
    active_generation_ms=None,
    backpressure_ms=None,
    max_gap_ms=None,
    tail_ms=None,
    open_gap_ms=None,
    total_ms=1000.0,
    output_tokens=None,
    tokens_source="none",
    tpot_ms=None,
    tokens_per_s=None,
    rate_basis=None,
    rate_reason="empty",
    stalls=(),
)
"""A stream of one second without content."""

ATTEMPT = AttemptStats(
    **attrs.asdict(NOTHING, recurse=False),
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
    **attrs.asdict(NOTHING, recurse=False),
    attempts=(),
    front=0,
    hedge_reason=None,
    hedge_after_ms=None,
    hedges_refused={},
    commit_ms=None,
    estimated_saved_ms=None,
)
"""A call of one second that nothing came of."""
