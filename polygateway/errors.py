"""Everything that polygateway raises: one tree, each class saying whose fault it is.

Every error is one plain exception that carries what is known: its ``kind`` in one word, whether a
fresh attempt could succeed, the record of every attempt, and what had been received. Errors
pickle. Their texts name the numbers and the setting that governs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .messages import Completion
    from .stats import AttemptStats, RefusalReason

ErrorKind = Literal[
    "auth",
    "busy",
    "closed",
    "configuration",
    "content_filter",
    "context_length",
    "deadline",
    "internal",
    "invalid_request",
    "overloaded",
    "protocol",
    "quota",
    "rate_limited",
    "transient",
]


def _rebuild(cls: type[GatewayError], args: tuple[object, ...]) -> GatewayError:
    """Make an error of *cls* without its ``__init__``: pickle restores the attributes after."""
    error = cls.__new__(cls, *args)
    error.args = args
    return error


class GatewayError(Exception):
    """The root: catch it to catch everything that polygateway raises."""

    kind: ErrorKind
    """The category in one word, the same for every provider."""

    retryable: bool
    """Whether a fresh attempt could succeed."""

    attempts: Sequence[AttemptStats] = ()
    """The record of every attempt of the call, in order of launch; the same as in its stats."""

    partial: Completion | None = None
    """What had been received when it failed; ``None`` if nothing had."""

    def __reduce__(
        self,
    ) -> tuple[
        Callable[[type[GatewayError], tuple[object, ...]], GatewayError],
        tuple[type[GatewayError], tuple[object, ...]],
        dict[str, object],
    ]:
        state: dict[str, object] = dict(self.__dict__)
        if isinstance(self.__cause__, GatewayError):
            state["__cause__"] = self.__cause__
        return _rebuild, (type(self), self.args), state


class ConfigurationError(GatewayError, ValueError):
    """The caller's mistake, raised before any I/O."""

    kind: ErrorKind = "configuration"
    retryable = False


class GatewayClosed(GatewayError):
    """The gateway was left while the call ran, or before it began."""

    kind: ErrorKind = "closed"
    retryable = False


class _AttemptFailure(GatewayError):
    """What every failure of one attempt knows."""

    default_retryable: ClassVar[bool] = True

    def __init__(
        self,
        message: str,
        *,
        target: str,
        attempt: int,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.target: str = target
        """Name of the target."""
        self.attempt: int = attempt
        """Index of the attempt."""
        self.status: int | None = status
        """HTTP status; ``None`` if no response came."""
        self.code: str | None = code
        """The provider's own code, as text; ``None`` if it gave none."""
        self.request_id: str | None = request_id
        """The provider's id of the request; ``None`` if it gave none."""
        self.retry_after_s: float | None = retry_after_s
        """Seconds after which the provider will take us again; ``None`` if it did not say."""
        self.not_tried: RefusalReason | None = None
        """Why nothing was tried after it; ``None`` where nothing was to be tried."""
        self.retryable: bool = self.default_retryable

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.not_tried is None else f"{text} [{_NOT_TRIED[self.not_tried]}]"


_NOT_TRIED: dict[RefusalReason, str] = {
    "breaker": "not retried: the targets that are left are failing",
    "budget": "not retried: the model's purse is empty (hedge.budget_ratio, hedge.budget_burst)",
    "deadline": "not retried: the call's deadline comes first (deadline_s)",
    "max_attempts": "not hedged: enough attempts (hedge.max_attempts)",
    "max_retries": "not retried: enough retries (retry.max_retries)",
    "no_target": "not retried: no target is left that may be tried (retry.retry_after_max_s)",
    "rate_limited": "not retried: the targets that are left asked us to wait (retry_after_max_s)",
    "throttled": "not retried: most attempts of the model fail",
    "token_budget": "not hedged: enough was wasted in this hour (hedge.budget_tokens_per_hour)",
}


class GatewayBusy(_AttemptFailure):
    """No connection slot became free in time (``limits.admission_timeout_s``)."""

    kind: ErrorKind = "busy"


class AttemptError(_AttemptFailure):
    """What one attempt at one target ended with."""


class ConnectFailed(AttemptError):
    """No connection, or one that was lost before any content."""

    kind: ErrorKind = "transient"


class ConnectTimeout(ConnectFailed, TimeoutError):
    """No connection in time (``stream.connect_timeout_s``)."""


class ServerError(AttemptError):
    """The provider failed: a 5xx, 408 or 409, or an error of its own inside the stream."""

    kind: ErrorKind = "transient"


class Overloaded(AttemptError):
    """The provider has no capacity now: 503, 529 or its word for it."""

    kind: ErrorKind = "overloaded"


class RateLimited(AttemptError):
    """Too many requests or tokens on this key; ``retry_after_s`` says for how long."""

    kind: ErrorKind = "rate_limited"


class QuotaExhausted(AttemptError):
    """This key has nothing left to spend: waiting does not help."""

    kind: ErrorKind = "quota"
    default_retryable = False


class AuthenticationFailed(AttemptError):
    """The key is missing, wrong, or not allowed to do this."""

    kind: ErrorKind = "auth"
    default_retryable = False


class InvalidRequest(AttemptError):
    """The provider refuses the request as it is."""

    kind: ErrorKind = "invalid_request"
    default_retryable = False


class ContextLengthExceeded(AttemptError):
    """The prompt is longer than the model takes."""

    kind: ErrorKind = "context_length"
    default_retryable = False


class ContentFiltered(AttemptError):
    """The provider rejected the request for its content."""

    kind: ErrorKind = "content_filter"
    default_retryable = False


class ProtocolViolation(AttemptError):
    """What came is not what the dialect allows: not a stream, damaged, too large, or nothing."""

    kind: ErrorKind = "protocol"


class Truncated(AttemptError):
    """Content came, the answer's proper end did not."""

    kind: ErrorKind = "transient"


class FirstContentTimeout(AttemptError, TimeoutError):
    """No content in time (``stream.ttft_timeout_s``)."""

    kind: ErrorKind = "transient"


class StallTimeout(AttemptError, TimeoutError):
    """The content stopped coming (``stream.stall_timeout_s``)."""

    kind: ErrorKind = "transient"
    silence_s: float = 0.0
    """How long it was silent, in seconds."""

    chunks: int = 0
    """Content chunks received before."""


class DeadlineExceeded(GatewayError, TimeoutError):
    """The call's own ``deadline_s`` ran out; what its attempts failed with is the cause."""

    kind: ErrorKind = "deadline"
    retryable = False


class StreamBroken(GatewayError):
    """A stream broke after content was delivered.

    ``__cause__`` is what its attempt ended with, ``kind`` and ``retryable`` are that error's, and
    ``partial`` is what was delivered.
    """

    def __init__(self, message: str, cause: AttemptError | GatewayBusy) -> None:
        super().__init__(message)
        self.kind: ErrorKind = cause.kind
        self.retryable: bool = cause.retryable
        self.__cause__: BaseException | None = cause


class InternalError(GatewayError):
    """A defect of polygateway, or of a stream that ``connect`` gave it; see its cause."""

    kind: ErrorKind = "internal"
    retryable = False

    @classmethod
    def because(cls, cause: Exception) -> InternalError:
        """Make one out of an exception that nobody expected."""
        if isinstance(cause, InternalError):
            return cause
        error = cls(f"unexpected {type(cause).__name__}: {cause} (please report it)")
        error.__cause__ = cause
        return error
