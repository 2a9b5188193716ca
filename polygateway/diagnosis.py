"""What ends an attempt, in the words of the error tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from .errors import (
    AttemptError,
    ConnectFailed,
    ConnectTimeout,
    FirstContentTimeout,
    GatewayBusy,
    ProtocolViolation,
    StallTimeout,
    Truncated,
)
from .net.connections import NoSlot
from .net.exchange import ConnectOverdue
from .net.http import ConnectionLost, HTTPViolation, ResponseHead
from .net.inflate import CodingError
from .net.stream import Overdue
from .policies import Limits, StreamPolicy
from .route import Route
from .wire.malformed import excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .core.failures import Failure
    from .wire.dialect import Fault

F = TypeVar("F", bound=AttemptError | GatewayBusy)

NETWORK_ERRORS = (NoSlot, Overdue, ConnectionLost, HTTPViolation, CodingError)
"""What the network part raises for what the network does."""

_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")


@attrs.define
class Diagnosis:
    """Names the failures of one attempt. No text that it makes holds a key of the target's."""

    route: Route
    attempt: int
    """Index of the attempt."""

    policy: StreamPolicy
    limits: Limits
    head: ResponseHead | None = None
    """Head of the attempt's response; ``None`` before it came."""

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request; ``None`` if it gave none."""
        headers: Mapping[str, str] = self.head.headers if self.head is not None else {}
        found = next((headers[name] for name in _REQUEST_ID_HEADERS if name in headers), None)
        return None if found is None else self._scrubbed(excerpt(found))

    # By the provider

    def refused(self, fault: Fault) -> AttemptError:
        """Name what a reply whose status is not 200 means."""
        status = "?" if self.head is None else self.head.status
        return self._fault(fault, f"answered {status}")

    def broken_off(self, fault: Fault) -> AttemptError:
        """Name what went wrong in a stream."""
        ours = fault.error is ProtocolViolation
        return self._fault(
            fault, "sent what is no answer" if ours else "reported an error in its stream"
        )

    def began_anew(self) -> ProtocolViolation:
        """Name an answer that was to go on with what was delivered and does not."""
        return self._failure(
            ProtocolViolation,
            "began its answer anew instead of going on with it (the target's prefill;"
            ' stream.recovery = "continue-or-restart" would take it)',
        )

    def _fault(self, fault: Fault, what: str) -> AttemptError:
        wait = fault.retry_after_s
        again = "" if wait is None else f" (again in {wait:g} s)"
        failure = self._failure(
            fault.error,
            f"{what}: {fault.message}{again}",
            code=fault.code,
            retry_after_s=fault.retry_after_s,
        )
        failure.retryable = failure.retryable and not fault.do_not_retry
        return failure

    # By the network

    def of(self, error: Exception, *, chunks: int, stray: str, fault: Fault | None) -> Failure:
        """Name what an error of the network means.

        Args:
            error: one of :data:`NETWORK_ERRORS`, or what an attempt has been found to end with.
            chunks: content chunks received before.
            stray: the last line received that belongs to no event; empty if there was none.
            fault: what the decoder made of the end; ``None`` if it found nothing wrong.
        """
        if isinstance(error, AttemptError):
            return error
        if isinstance(error, CodingError):
            return self._failure(ProtocolViolation, f"sent a body that cannot be read: {error}")
        if isinstance(error, Overdue) and not isinstance(error, ConnectOverdue):
            return self._silent(chunks)
        if fault is not None and fault.error is not ProtocolViolation:
            return self.broken_off(fault)
        return self.truncated(chunks, str(error), stray) if chunks else self._no_answer(error)

    def truncated(self, chunks: int, why: str, stray: str) -> Truncated:
        """Name an answer that was cut after so many chunks."""
        said = f"; it holds {stray!r}, which is no event" if stray else ""
        return self._failure(
            Truncated,
            f"cut its answer after {_counted(chunks)}, without its proper end: {why}{said}",
        )

    def _silent(self, chunks: int) -> Failure:
        if not chunks:
            limit = self.policy.ttft_timeout_s
            return self._failure(
                FirstContentTimeout, f"sent no content in {limit:g} s (stream.ttft_timeout_s)"
            )
        limit = self.policy.stall_timeout_s
        failure = self._failure(
            StallTimeout,
            f"sent no content for {limit:g} s after {_counted(chunks)} (stream.stall_timeout_s)",
        )
        failure.silence_s = limit
        failure.chunks = chunks
        return failure

    def _no_answer(self, error: Exception) -> Failure:
        match error:
            case NoSlot():
                limit = self.limits.admission_timeout_s
                return self._failure(
                    GatewayBusy,
                    f"had no free connection slot for {limit:g} s (limits.admission_timeout_s,"
                    " limits.max_connections_per_target)",
                )
            case ConnectOverdue():
                limit = self.policy.connect_timeout_s
                return self._failure(
                    ConnectTimeout, f"gave no connection in {limit:g} s (stream.connect_timeout_s)"
                )
            case HTTPViolation():
                return self._failure(ProtocolViolation, f"does not speak HTTP/1.1: {error}")
            case _:
                return self._failure(ConnectFailed, f"gave no answer: {error}")

    def _failure(
        self,
        error: type[F],
        text: str,
        *,
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> F:
        return error(
            f"target {self.route.name!r} {self._scrubbed(text)}",
            target=self.route.name,
            attempt=self.attempt,
            status=None if self.head is None else self.head.status,
            code=None if code is None else self._scrubbed(code),
            request_id=self.request_id,
            retry_after_s=retry_after_s,
        )

    def _scrubbed(self, text: str) -> str:
        return self.route.scrub(text)


def _counted(chunks: int) -> str:
    return f"{chunks} chunk{'' if chunks == 1 else 's'}"
