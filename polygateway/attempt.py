"""One attempt at one target: request and reply, and how far it came."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

import attrs
import trio

from .core.tally import Gap
from .core.timeline import Timeline
from .core.units import ns
from .diagnosis import NETWORK_ERRORS, Diagnosis
from .errors import AttemptError
from .net.clock import now_ns, wall_s
from .net.exchange import Deadlines, Exchange
from .net.http import ConnectionLost, HTTPViolation
from .net.lateness import LoopWatch
from .net.stream import Overdue
from .patience import Patience
from .report import Report
from .usage import Usage
from .wire.dialect import Phase
from .wire.faults import refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .continuation import Continuation
    from .core.decisions import Launch
    from .core.failures import Failure
    from .messages import Chunk
    from .net.http import ResponseHead
    from .policies import Limits, StreamPolicy
    from .route import Route
    from .stats import AttemptKind, HedgeReason
    from .trace import ReplyForm
    from .wire.dialect import Decoder, WireRequest

# The text of a refusal helps, but is not worth a wait: its status has said what matters.
_REFUSAL_NS = 2_000_000_000
_REFUSAL_BYTES = 64 * 1024


class Interrupted(Exception):
    """The time came until which somebody wanted to wait for an attempt."""


@attrs.frozen(kw_only=True)
class Watched:
    """How an attempt is watched."""

    loop: LoopWatch
    traces: bool
    """Whether its timeline is to be kept chunk by chunk."""

    on_stall: Callable[[Attempt, Gap | None], None] | None
    """Told when it stalls, without a gap, and when content has ended a stalled gap, with it.
    ``None`` if nobody wants to know.
    """


class Attempt:
    """One try at one target.

    Owns its connection. Whoever owns the attempt reads until a report is over and closes it then,
    one task at a time; between two reads it may be handed to another task.
    """

    def __init__(
        self,
        route: Route,
        encode: Callable[[], WireRequest],
        launch: Launch,
        *,
        index: int,
        continuation: Continuation | None,
        policy: StreamPolicy,
        limits: Limits,
        watched: Watched,
    ) -> None:
        """Begin an attempt.

        Args:
            route: its target.
            encode: puts the request into the words of its target's provider.
            launch: why it starts.
            index: which of its call's attempts it is.
            continuation: what it goes on with; ``None`` if it begins at the beginning.
            policy: for its stream.
            limits: for its connection and its answer.
            watched: how it is watched.
        """
        self.route: Route = route
        self.index: int = index
        self.position: int = launch.target
        """Of its target, in the order in which the call tries them."""

        self.kind: AttemptKind = launch.kind
        self.reason: HedgeReason | None = launch.reason
        self.started_ns: int = now_ns()
        self.ended_ns: int | None = None
        """Stamp of its terminal fact, failure or cancellation; ``None`` while it runs."""

        self.cancel_reason: str | None = None
        """Why it was cancelled; ``None`` if it was not."""

        self.cancel_to_closed_ns: int | None = None
        """From its cancellation to the closing of its connection; ``None`` if there was none."""

        self.scope: trio.CancelScope = trio.CancelScope()
        """Around the task that reads from it while it races."""

        self.timeline: Timeline = Timeline(
            self.started_ns, ns(policy.stall_threshold_ms / 1e3), keeps=watched.traces
        )
        self.headers_ns: int | None = None
        """When the head of its response was complete; ``None`` before."""

        self.has_been_silent: bool = False
        """Whether it has fallen silent, as hedging understands it."""

        self.continuation: Continuation | None = continuation
        """What it goes on with; ``None`` if it began at the beginning."""

        self.in_stall: bool = False
        """Whether it has been told that it stalls, and not yet that this is over."""

        self.failure: Failure | None = None
        """What it ended with; ``None`` unless it failed."""

        self.whole: bool = False
        """Whether its answer came to its proper end."""

        self.decoder: Decoder | None = None
        """Holds the answer; ``None`` before the head of a reply with status 200 came."""

        self.request_bytes: int = 0
        """Size of its request's body; 0 before it was made."""

        self.left_out: Sequence[str] = ()
        """The dialects whose opaque parts of the conversation its request left out."""

        self._diagnosis = Diagnosis(route, index, policy, limits)
        self._encode = encode
        self._policy = policy
        self._limits = limits
        self._patience = Patience(self.timeline, policy)
        self._watched = watched
        self._exchange = Exchange(route.connections, self._note_read)

    def __str__(self) -> str:
        return f"attempt {self.index} ({self.kind}) at {self.route.name!r}"

    # What is known

    @property
    def excused_ns(self) -> int:
        """Until when its silence means nothing, because its finish reason came; 0 for no excuse."""
        return self._patience.excused_ns

    @property
    def spoke_ns(self) -> int | None:
        """Stamp of its last content, later by the time since then in which nobody was reading.

        ``None`` before its first.
        """
        return self._patience.spoke_ns

    @property
    def head(self) -> ResponseHead | None:
        """Head of its response; ``None`` before it came."""
        return self._diagnosis.head

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request; ``None`` if it gave none."""
        return self._diagnosis.request_id

    @property
    def sent_ns(self) -> int | None:
        """When the last byte of its request was written; ``None`` before."""
        return self._exchange.sent_ns

    @property
    def usage(self) -> Usage:
        """What its provider has counted up to now."""
        return Usage() if self.decoder is None else self.decoder.answer.counted(ended=self.whole)

    @property
    def form(self) -> ReplyForm:
        """What sort of reply it has, as far as it can be told up to now."""
        return "stream" if self.decoder is None else self.decoder.form

    # Reading

    async def read(self, until_ns: int | None = None) -> Report:
        """Wait for what the next read of the socket brings; the first call sends the request.

        If cancelled, nothing of a reply is lost: the next call goes on, in whatever task. An
        attempt whose reply has not begun must be closed then.

        Args:
            until_ns: when to stop waiting, once a reply has begun; ``None`` for never.

        Raises:
            Interrupted: that time has come. Nothing is lost.
            trio.ClosedResourceError: the attempt was closed.
        """
        chunks: list[Chunk] = []
        self._patience.begin_read()
        try:
            decoder = self.decoder or await self._open()
            data = await self._read_body(until_ns)
            self._stop_if_cancelled()
            chunks = decoder.feed(data)
            if self._exchange.ended:
                chunks += decoder.close()
        except (AttemptError, *NETWORK_ERRORS) as error:
            self._stop_if_cancelled()
            report = self._after_error(chunks, error)
        else:
            report = self._after_read(chunks, decoder)
        finally:
            self._patience.end_read()
        return report if self.continuation is None else self._joined(report, self.continuation)

    def _joined(self, report: Report, continuation: Continuation) -> Report:
        chunks = continuation.joined(report.chunks, self.index, ended=report.ended)
        if continuation.is_useless and report.failure is None:
            self.whole = False
            return self._failed([], self._diagnosis.began_anew())
        return attrs.evolve(report, chunks=chunks)

    async def _read_body(self, until_ns: int | None) -> bytes:
        """Wait for bytes of the reply; if somebody watches, tell of a stall as it begins."""
        read_by, stalls_at = self._patience.read_by_ns(), self._stalls_at_ns()
        ends_at = read_by if until_ns is None else min(read_by, until_ns)
        if stalls_at is not None and stalls_at < ends_at:
            self._exchange.deadline_ns = stalls_at
            try:
                return await self._exchange.read()
            except Overdue:
                self._stop_if_cancelled()
                self._begin_stall()
        self._exchange.deadline_ns = ends_at
        try:
            return await self._exchange.read()
        except Overdue:
            if ends_at == until_ns:
                raise Interrupted from None
            raise

    def _stalls_at_ns(self) -> int | None:
        """Give when the silence will be a stall; ``None`` if nobody wants to know."""
        unwanted = self._watched.on_stall is None or self.in_stall
        return None if unwanted else self._patience.stalls_at_ns()

    def _begin_stall(self) -> None:
        # Not if the deadline passed between two pieces of a read: then nobody waited.
        if self.timeline.waited_ns >= self.timeline.tally.threshold_ns:
            self._tell_stall(None)

    def _tell_stall(self, gap: Gap | None) -> None:
        if self._watched.on_stall is not None:
            self._watched.on_stall(self, gap)

    def _note_read(self, asked_ns: int, arrived_ns: int, found: bool) -> None:  # noqa: FBT001
        late = self._watched.loop.late_ns(asked_ns, arrived_ns) if found else 0
        self.timeline.read(asked_ns, arrived_ns, late)

    def _stop_if_cancelled(self) -> None:
        # What a read brought that was on its way back then counts for nothing, a failure too.
        if self.cancel_reason is not None:
            raise trio.ClosedResourceError(f"{self} was cancelled: {self.cancel_reason}")

    async def _open(self) -> Decoder:
        """Send the request, and give a decoder for its reply."""
        wire = self._encode()
        del self._encode  # it may hold a large request, which is sent once
        self.left_out, self.request_bytes = wire.left_out, len(wire.body)
        head = await self._exchange.open(self.route.post(wire), self._deadlines())
        self._stop_if_cancelled()
        self._diagnosis.head = head
        self.headers_ns = self.timeline.arrived_ns
        if head.status != 200:
            body = await self._read_refusal()
            if self._exchange.ended:
                await self._exchange.finish()
            fault = refused(head.status, head.headers, body, now_s=wall_s())
            raise self._diagnosis.refused(fault)
        self.decoder = self.route.dialect.decoder(
            attempt=self.index,
            target=self.route.target,
            content_type=head.headers.get("content-type", ""),
            limits=self._limits,
        )
        return self.decoder

    def _deadlines(self) -> Deadlines:
        return Deadlines(
            admission_ns=ns(self._limits.admission_timeout_s),
            connect_ns=ns(self._policy.connect_timeout_s),
            end_ns=self._patience.first_by_ns,
        )

    async def _read_refusal(self) -> bytes:
        """Give what can be had of an error's body in a short time."""
        body = BytesIO()  # which tracebacks do not show: providers echo keys
        self._exchange.deadline_ns = min(now_ns() + _REFUSAL_NS, self._patience.first_by_ns)
        try:
            while not self._exchange.ended and body.tell() < _REFUSAL_BYTES:
                body.write(await self._exchange.read())
        except NETWORK_ERRORS:
            pass
        return body.getvalue()[:_REFUSAL_BYTES]

    # What it means

    def _after_read(self, chunks: list[Chunk], decoder: Decoder) -> Report:
        self._note_content(chunks)
        phase = decoder.phase
        if phase is Phase.ENDED:
            return self._ended(chunks, self.timeline.arrived_ns)
        if phase is Phase.FAILED and decoder.fault is not None:
            return self._failed(chunks, self._diagnosis.broken_off(decoder.fault))
        if self._exchange.ended:
            count = self.timeline.chunk_count
            cut = self._diagnosis.truncated(count, "the stream ended", decoder.stray)
            return self._failed(chunks, cut)
        if phase is Phase.OPEN:
            self.timeline.alive(decoder.keepalives)
            self._patience.note_open()
        else:
            self._patience.note_finish()
        return Report(chunks, self.timeline.arrived_ns)

    def _note_content(self, chunks: Sequence[Chunk]) -> None:
        """Stamp the content that the latest read completed."""
        decoder = self.decoder
        if decoder is None or decoder.content_events == self.timeline.chunk_count:
            return
        gap = self.timeline.content(
            decoder.content_events - self.timeline.chunk_count,
            chunks,
            decoder.answer.usage.output_tokens,
        )
        self._patience.note_content()
        if gap is not None:
            self._tell_stall(gap)

    def _after_error(self, chunks: list[Chunk], error: Exception) -> Report:
        decoder = self.decoder
        if decoder is not None and isinstance(error, ConnectionLost | HTTPViolation):
            chunks += decoder.close()
        self._note_content(chunks)
        if decoder is not None and decoder.phase is Phase.ENDED:
            return self._ended(chunks, self.timeline.arrived_ns)
        if isinstance(error, Overdue) and self._patience.finished_ns is not None:
            self._patience.forget_grace()
            return self._ended(chunks, self._patience.finished_ns)
        failure = self._diagnosis.of(
            error,
            chunks=self.timeline.chunk_count,
            stray="" if decoder is None else decoder.stray,
            fault=None if decoder is None else decoder.fault,
        )
        return self._failed(chunks, failure)

    def _failed(self, chunks: list[Chunk], failure: Failure) -> Report:
        # Its frames hold the request's headers, and those the key.
        self.failure = failure.with_traceback(None)
        self.ended_ns = now_ns()
        try:
            self.close()
        except Exception as trouble:  # noqa: BLE001 - the failure says more
            failure.add_note(f"its connection could not be closed either: {trouble!r}")
        return Report(chunks, self.ended_ns, failure=failure)

    def _ended(self, chunks: list[Chunk], at_ns: int) -> Report:
        self.ended_ns = at_ns
        self.whole = True
        return Report(chunks, self.timeline.arrived_ns, ended=True)

    # Ending

    async def finish(self) -> None:
        """Give up the connection of an answer that has ended: for reuse where that is possible.

        If cancelled, it is closed.
        """
        if self.decoder is not None and self.decoder.phase is Phase.ENDED:
            await self._exchange.finish()
        else:
            self.close()

    def cancel(self, reason: str) -> None:
        """End it from outside: its task is cancelled and its connection closed, at once."""
        cancelled = now_ns()
        self.cancel_reason = reason
        self.scope.cancel(reason=reason)
        try:
            self.close()
        finally:
            # A read that was under way ends with the close, and with it the attempt.
            if self.ended_ns is None:
                self.ended_ns = max(cancelled, self.timeline.arrived_ns)
        if self._exchange.had_connection:
            self.cancel_to_closed_ns = now_ns() - cancelled

    def close(self) -> None:
        """Close its connection at once. Closing again does nothing."""
        self._exchange.close()
