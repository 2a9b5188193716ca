from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, TypeVar

import pytest

from polygateway import errors
from polygateway.errors import (
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

if TYPE_CHECKING:
    from polygateway.stats import RefusalReason

E = TypeVar("E", bound=BaseException)

# Class, what else it is caught as, kind, retryable.
PLAIN: list[tuple[type[GatewayError], tuple[type[Exception], ...], str, bool]] = [
    (ConfigurationError, (ValueError,), "configuration", False),
    (GatewayClosed, (), "closed", False),
    (DeadlineExceeded, (TimeoutError,), "deadline", False),
    (InternalError, (), "internal", False),
]
OF_AN_ATTEMPT: list[
    tuple[type[AttemptError | GatewayBusy], tuple[type[Exception], ...], str, bool]
] = [
    (GatewayBusy, (), "busy", True),
    (ConnectFailed, (AttemptError,), "transient", True),
    (ConnectTimeout, (ConnectFailed, AttemptError, TimeoutError), "transient", True),
    (ServerError, (AttemptError,), "transient", True),
    (Overloaded, (AttemptError,), "overloaded", True),
    (RateLimited, (AttemptError,), "rate_limited", True),
    (QuotaExhausted, (AttemptError,), "quota", False),
    (AuthenticationFailed, (AttemptError,), "auth", False),
    (InvalidRequest, (AttemptError,), "invalid_request", False),
    (ContextLengthExceeded, (AttemptError,), "context_length", False),
    (ContentFiltered, (AttemptError,), "content_filter", False),
    (ProtocolViolation, (AttemptError,), "protocol", True),
    (Truncated, (AttemptError,), "transient", True),
    (FirstContentTimeout, (AttemptError, TimeoutError), "transient", True),
    (StallTimeout, (AttemptError, TimeoutError), "transient", True),
]


def pickled(error: E) -> E:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made on the line itself
    assert type(again) is type(error)
    return again


def stall() -> StallTimeout:
    error = StallTimeout(
        "target 'eu' sent no content for 120.0 s after 41 chunks (stream.stall_timeout_s)",
        target="eu",
        attempt=1,
        status=200,
        code="late",
        request_id="req-7",
        retry_after_s=2.5,
    )
    error.silence_s = 120.0
    error.chunks = 41
    return error


def test_the_tables_here_name_every_class_of_the_tree() -> None:
    listed = {row[0] for row in (*PLAIN, *OF_AN_ATTEMPT)}
    public = {
        thing
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, GatewayError) and not name.startswith("_")
    }
    assert public == listed | {GatewayError, AttemptError, StreamBroken}


@pytest.mark.parametrize(("cls", "caught_as", "kind", "retryable"), PLAIN)
def test_an_error_of_the_call_is_caught_by_what_it_is(
    cls: type[GatewayError], caught_as: tuple[type[Exception], ...], kind: str, retryable: bool
) -> None:
    error = cls("what happened")
    assert isinstance(error, GatewayError)
    assert not isinstance(error, AttemptError)
    assert all(isinstance(error, other) for other in caught_as)
    assert (error.kind, error.retryable) == (kind, retryable)
    assert (error.attempts, error.partial) == ((), None)
    assert str(error) == str(pickled(error)) == "what happened"


@pytest.mark.parametrize(("cls", "caught_as", "kind", "retryable"), OF_AN_ATTEMPT)
def test_an_error_of_an_attempt_is_caught_by_what_it_is(
    cls: type[AttemptError | GatewayBusy],
    caught_as: tuple[type[Exception], ...],
    kind: str,
    retryable: bool,
) -> None:
    error = cls("what happened", target="eu", attempt=2)
    assert isinstance(error, GatewayError)
    assert all(isinstance(error, other) for other in caught_as)
    assert (error.kind, error.retryable) == (kind, retryable)
    assert (error.target, error.attempt) == ("eu", 2)
    assert (error.status, error.code, error.request_id) == (None, None, None)
    assert (error.retry_after_s, error.not_tried) == (None, None)
    assert str(error) == "what happened"
    again = pickled(error)
    assert vars(again) == vars(error)
    assert str(again) == "what happened"


def test_a_timeout_of_ours_is_no_error_of_the_operating_system_with_a_number() -> None:
    error = DeadlineExceeded("the call's deadline of 30.0 s ran out (deadline_s)")
    assert error.errno is None
    assert str(error) == "the call's deadline of 30.0 s ran out (deadline_s)"


def test_a_busy_gateway_is_not_the_fault_of_an_attempt() -> None:
    assert AttemptError not in GatewayBusy.__mro__


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("budget", "hedge.budget_ratio, hedge.budget_burst"),
        ("deadline", "deadline_s"),
        ("max_attempts", "hedge.max_attempts"),
        ("max_retries", "retry.max_retries"),
        ("no_target", "no target is left"),
    ],
)
def test_why_nothing_more_was_tried_is_in_the_text(reason: RefusalReason, told: str) -> None:
    error = ServerError("target 'eu' answered 500", target="eu", attempt=0, status=500)
    error.not_tried = reason
    assert str(error).startswith("target 'eu' answered 500 [not ")
    assert told in str(error)
    assert str(pickled(error)) == str(error)


def test_an_error_carries_its_facts_through_pickling() -> None:
    error = stall()
    error.add_note("a note")
    again = pickled(error)
    assert (again.target, again.attempt, again.status) == ("eu", 1, 200)
    assert (again.code, again.request_id, again.retry_after_s) == ("late", "req-7", 2.5)
    assert (again.silence_s, again.chunks) == (120.0, 41)
    assert again.args == error.args
    assert again.__notes__ == ["a note"]


def test_an_error_carries_its_causes_through_pickling() -> None:
    first = ConnectFailed("no route", target="eu", attempt=0)
    second = stall()
    second.__cause__ = first
    error = DeadlineExceeded("too late")
    error.__cause__ = second
    again = pickled(error)
    assert isinstance(again.__cause__, StallTimeout)
    assert str(again.__cause__) == str(second)
    assert isinstance(again.__cause__.__cause__, ConnectFailed)
    assert str(again.__cause__.__cause__) == "no route"


def test_a_foreign_cause_that_cannot_be_pickled_does_not_hinder() -> None:
    error = InternalError("a defect")
    error.__cause__ = RuntimeError(lambda: None)
    again = pickled(error)
    assert str(again) == "a defect"
    assert again.__cause__ is None


def test_a_broken_stream_has_the_kind_of_its_cause() -> None:
    for cause in (
        stall(),
        RateLimited("slow down", target="eu", attempt=0),
        ContentFiltered("no", target="eu", attempt=0),
    ):
        broken = StreamBroken("the stream broke after 41 chunks", cause)
        for error in (broken, pickled(broken), copy.copy(broken)):
            assert (error.kind, error.retryable) == (cause.kind, cause.retryable)
            assert type(error.__cause__) is type(cause)
            assert str(error) == "the stream broke after 41 chunks"
            assert not isinstance(error, TimeoutError)


def test_a_defect_is_told_with_what_caused_it() -> None:
    cause = KeyError("front")
    error = InternalError.because(cause)
    assert str(error) == "unexpected KeyError: 'front' (please report it)"
    assert error.__cause__ is cause
    assert InternalError.because(error) is error


def test_one_handler_catches_everything() -> None:
    for cls, *_ in PLAIN:
        with pytest.raises(GatewayError):
            raise cls("what happened")
    for attempt_cls, *_ in OF_AN_ATTEMPT:
        with pytest.raises(GatewayError):
            raise attempt_cls("what happened", target="eu", attempt=0)
