"""What a journal tells of calls that are over: the records that it was written from."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..instrument import CallOutcome
from ..stats import AttemptStats, CallStats
from ..trace import Trace
from ..usage import Usage


@attrs.frozen(kw_only=True)
class RecordedAttempt:
    """One attempt of a recorded call."""

    stats: AttemptStats
    trace: Trace
    """What its figures are made of. Times are nanoseconds of the writer's monotonic clock."""


@attrs.frozen(kw_only=True)
class RecordedCall:
    """One call, as an instrument was told of it when it had ended."""

    run: str
    """Tells the runs that wrote into one journal apart."""

    call: int
    """Number of the call in its run."""

    started_at: str
    """When it was made: wall clock, UTC, ISO 8601."""

    started_ns: int
    """The same on the writer's monotonic clock, which the traces use as well."""

    ended_ns: int
    """When it ended, on that clock."""

    model: str
    stream: bool
    """Whether it was made by ``gw.stream(...)``."""

    targets: Sequence[str]
    """Names of the model's targets, the primary first."""

    outcome: CallOutcome
    error_kind: str | None
    """``None`` unless it failed."""

    error: str | None
    """Text of what was raised; ``None`` unless it failed."""

    stats: CallStats
    attempts: Sequence[RecordedAttempt]
    """In order of launch."""

    usage: Usage
    finish_reason: str | None
    provider_model: str | None
    response_id: str | None
