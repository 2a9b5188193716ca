"""What a call and its attempts cost, in figures that can be checked by hand.

Every field has one definition, given under it. ``None`` means that the figure does not
exist for this stream; it is never a stand-in for zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

AttemptKind = Literal["primary", "hedge", "retry"]
HedgeReason = Literal["ttft", "stall"]
Outcome = Literal["won", "lost", "failed", "cancelled"]
RefusalReason = Literal["budget", "deadline", "max_attempts", "max_retries", "no_target"]


@attrs.frozen(kw_only=True)
class StreamFigures:
    """The time of one answer, divided into what flowed and what stood still.

    Durations are milliseconds. A *content chunk* is a parsed event with non-empty text,
    reasoning, refusal, or tool-call name or arguments; all chunks parsed from one socket
    read share that read's stamp. A *stalled gap* is a gap between two content chunks in
    which the gateway waited in socket reads for at least ``stream.stall_threshold_ms``.
    """

    chunk_count: int
    """Content chunks received. Chunks are not tokens: providers put several into one."""

    ttft_ms: float | None
    """Start to first content chunk. For a call: from the application's call, so the delay
    before a hedge is included; for an attempt: from that attempt's own start.

    ``None`` when no content came.
    """

    generation_ms: float | None
    """First to last content chunk on the wall clock, silences included.

    ``None`` with fewer than two content chunks: one arrival spans no interval.
    """

    stall_ms: float | None
    """The part of ``generation_ms`` spent waiting for the provider in stalled gaps.

    Only time inside socket reads counts; a consumer that does not ask is no stall.
    ``None`` when ``generation_ms`` is.
    """

    stall_gap_count: int | None
    """Stalled gaps. ``None`` when ``generation_ms`` is."""

    stall_count: int | None
    """Stall events: maximal runs of consecutive stalled gaps, each run counted once.

    Gaps between chunks of the same read are passed over. ``None`` when ``generation_ms`` is.
    """

    active_generation_ms: float | None
    """``generation_ms - stall_ms``. ``None`` when ``generation_ms`` is."""

    max_gap_ms: float | None
    """The longest time waited for the provider between two consecutive content chunks.

    ``None`` when ``generation_ms`` is.
    """

    total_ms: float
    """Start to end, or to now while it runs. For a call: from the application's call to
    the end of the answer; for an attempt: from its start to its terminal fact, failure or
    cancellation.
    """


@attrs.frozen(kw_only=True)
class AttemptStats(StreamFigures):
    """One try at one target, and what became of it."""

    index: int
    """Position in order of launch, from 0."""

    target: str
    """Name of the target."""

    kind: AttemptKind
    """``primary``; ``hedge``: started while another was running; ``retry``: started because
    the last one had failed.
    """

    reason: HedgeReason | None
    """Why a hedge was started: no first content (``ttft``) or a silence (``stall``).

    ``None`` for every other kind.
    """

    started_ms: float
    """From the application's call to the start of this attempt."""

    outcome: Outcome | None
    """``won``; ``lost`` the race or a duel; ``failed`` by itself; ``cancelled`` from outside
    (see ``cancel_reason``). ``None`` while it runs.
    """

    cancel_reason: str | None
    """Why it was cancelled: ``lost the race``, ``lost a duel``, ``caller``, ``deadline`` or
    ``shutdown``. ``None`` when it was not.
    """

    cancel_to_closed_ms: float | None
    """From the decision to cancel to the closing of its socket. ``None`` when it was not
    cancelled, or had no connection.
    """

    status: int | None
    """HTTP status of its response; ``None`` when none arrived."""

    request_id: str | None
    """The provider's request id, from the response headers; ``None`` when there is none."""

    error: str | None
    """What it failed with, as text; ``None`` unless it failed."""

    error_kind: str | None
    """``kind`` of that error; ``None`` unless it failed."""


@attrs.frozen(kw_only=True)
class CallStats(StreamFigures):
    """What one call cost, as seen by its caller.

    The figures are the winner's (of a call still open: those of the attempt in front), except
    that ``ttft_ms`` and ``total_ms`` start at the application's call.
    """

    attempts: Sequence[AttemptStats]
    """Every attempt of the call, in order of launch."""

    hedge_reason: HedgeReason | None
    """Reason of the call's first hedge; ``None`` when nothing was hedged."""

    hedges_refused: Mapping[RefusalReason, int]
    """How many hedges that were due did not start, by the reason why."""

    commit_ms: float | None
    """From the application's call to the commit; ``None`` before it, or when the call failed."""
