"""What may watch a gateway at work: instruments, and the events that they are told of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import attrs

from .errors import GatewayError
from .stats import (
    AttemptKind,
    AttemptStats,
    CallStats,
    HedgeReason,
    RefusalReason,
    Seam,
    Stall,
)
from .trace import Trace
from .usage import Usage

CallOutcome = Literal["complete", "failed", "cancelled"]
"""``complete``: the answer came whole. ``failed``: an error was raised. ``cancelled``: the caller
left or was cancelled before the end; that is nobody's failure.
"""


class Event(Protocol):
    """Something that happened to a call."""

    @property
    def call(self) -> int:
        """Number of the call, unique in this process."""
        ...

    @property
    def at_ns(self) -> int:
        """When, in nanoseconds of trio's clock."""
        ...

    def tell(self, instrument: Instrument) -> None:
        """Call the method of *instrument* that takes this event."""
        ...


class Instrument:
    """Watches a gateway; see ``open_gateway(..., instruments=[...])``.

    Derive from it and override what you want to know. The methods run in the task that the event
    happened in, between two checkpoints: they must not wait, and what they take, the call takes
    longer. One that raises an ``Exception`` is dropped, with a warning in the log, and no call is
    harmed. Events of one call come in order; events of several calls are interleaved.
    """

    wants_traces: bool = False
    """Whether ``AttemptEnded.trace`` is wanted. Recording costs about a microsecond a chunk."""

    def call_started(self, event: CallStarted) -> None:
        """Learn that an application called."""

    def attempt_started(self, event: AttemptStarted) -> None:
        """Learn that an attempt began."""

    def stall_began(self, event: StallBegan) -> None:
        """Learn that a stream has been silent for ``stream.stall_threshold_ms``."""

    def stall_ended(self, event: StallEnded) -> None:
        """Learn that a silence is over: content came, or the attempt ended."""

    def hedge_refused(self, event: HedgeRefused) -> None:
        """Learn that a hedge was due and did not start."""

    def committed(self, event: Committed) -> None:
        """Learn that a race was decided. The losers have ended before.

        A stream that recovers may be decided again, for another attempt each time.
        """

    def seam_made(self, event: SeamMade) -> None:
        """Learn that an attempt took over what another had delivered in part.

        It was committed before, and has something to deliver now.
        """

    def attempt_ended(self, event: AttemptEnded) -> None:
        """Learn that an attempt came to its end, whatever end."""

    def call_ended(self, event: CallEnded) -> None:
        """Learn that a call came to its end, whatever end. Its attempts have ended before."""


@attrs.frozen(kw_only=True)
class CallStarted:
    """An application called."""

    call: int
    at_ns: int
    model: str
    """What was asked for, one of the configured models."""

    stream: bool
    """Whether by ``gw.stream(...)``."""

    targets: Sequence[str]
    """Names of the model's targets, the primary first."""

    def tell(self, instrument: Instrument) -> None:
        """See :meth:`Event.tell`."""
        instrument.call_started(self)


@attrs.frozen(kw_only=True)
class AttemptStarted:
    """An attempt began."""

    call: int
    at_ns: int
    attempt: int
    """Its index in the call, from 0."""

    kind: AttemptKind
    reason: HedgeReason | None
    """Why a hedge was started; ``None`` for every other kind."""

    target: str
    """Name of the target."""

    dialect: str
    """The wire that the target speaks."""

    provider_model: str
    """The model's name at the target."""

    host: str
    port: int

    def tell(self, instrument: Instrument) -> None:
        """See :meth:`Event.tell`."""
        instrument.attempt_started(self)


@attrs.frozen(kw_only=True)
class StallBegan:
    """A stream with content has been silent for ``stream.stall_threshold_ms``."""

    call: int
    at_ns: int
    attempt: int
    target: str
    after_chunk: int
    """Position of the content chunk before the silence, from 0."""

    def tell(self, instrument: Instrument) -> None:
        """See :meth:`Event.tell`."""
        instrument.stall_began(self)


@attrs.frozen(kw_only=True)
class StallEnded:
    """A silence that was told of is over."""

    call: int
    at_ns: int
    attempt: int
    target: str
    stall: Stall
    """The silence as the figures have it. One that turns out to be the tail of a whole answer is in
    no figure but ``tail_ms``: then it is not ``open``, and nothing came ``next``. Of a reply with
    several choices no figure has it.
    """

    def tell(self, instrument: Instrument) -> None:
        """See :meth:`Event.tell`."""
        instrument.stall_ended(self)


@attrs.frozen(kw_only=True)
class HedgeRefused:
    """A hedge was due and did not start."""

    call: int
    at_ns: int
    reason: HedgeReason
    """Why it was due."""

    why: RefusalReason
    """Why it did not start."""

    def tell(self, instrument: Instrument) -> None:
        """See :meth:`Event.tell`."""
        instrument.hedge_refused(self)


@attrs.frozen(kw_only=True)
class Committed:
    """A race was decided."""

    call: int
    at_ns: int
    attempt: int
    """Index of the winner."""

    target: str

    def tell(self, instrument: Instrument) -> None:
        """See :meth:`Event.tell`."""
        instrument.committed(self)


@attrs.frozen(kw_only=True)
class SeamMade:
    """An attempt took over a stream that another had delivered in part."""

    call: int
    at_ns: int
    seam: Seam
    """Where, and what becomes of what was delivered before."""

    def tell(self, instrument: Instrument) -> None:
        """See :meth:`Event.tell`."""
        instrument.seam_made(self)


@attrs.frozen(kw_only=True)
class AttemptEnded:
    """An attempt came to its end."""

    call: int
    at_ns: int
    stats: AttemptStats
    """Its record. Whether it was in vain, what that cost, and why nothing was tried after it, is
    known for good only when the call has ended.
    """

    trace: Trace | None
    """What its figures are made of; ``None`` unless an instrument wants traces."""

    def tell(self, instrument: Instrument) -> None:
        """See :meth:`Event.tell`."""
        instrument.attempt_ended(self)


@attrs.frozen(kw_only=True)
class CallEnded:
    """A call came to its end."""

    call: int
    at_ns: int
    model: str
    stream: bool
    outcome: CallOutcome
    error: GatewayError | None
    """What it failed with, and the application is told; ``None`` unless it failed."""

    stats: CallStats
    usage: Usage
    """Of the attempt whose figures the stats are."""

    finish_reason: str | None
    """The provider's own word for the end; ``None`` if there was none."""

    provider_model: str | None
    """The model's name as the provider said it; ``None`` if it did not."""

    response_id: str | None
    """The provider's id of the answer; ``None`` if there is none."""

    def tell(self, instrument: Instrument) -> None:
        """See :meth:`Event.tell`."""
        instrument.call_ended(self)
