from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway.core.failures import Verdict, is_refusal, judge
from polygateway.errors import (
    AttemptError,
    AuthenticationFailed,
    ConnectFailed,
    ConnectTimeout,
    ContentFiltered,
    ContextLengthExceeded,
    FirstContentTimeout,
    GatewayBusy,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    QuotaExhausted,
    RateLimited,
    ServerError,
    StallTimeout,
    Truncated,
)
from tests.core.driver import failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polygateway.core.failures import Failure

FLUKE = Verdict(again=True, elsewhere=True, fluke=True)
SILENT = Verdict(again=True, elsewhere=True, silent=True)
ELSEWHERE_AT_ONCE = Verdict(again=True, elsewhere=True)
ELSEWHERE_ONLY = Verdict(again=False, elsewhere=True)
NOWHERE = Verdict(again=False, elsewhere=False, blames=False)

TABLE: dict[type[AttemptError | GatewayBusy], Verdict] = {
    ServerError: FLUKE,
    ConnectFailed: FLUKE,
    ConnectTimeout: SILENT,
    FirstContentTimeout: SILENT,
    StallTimeout: SILENT,
    GatewayBusy: Verdict(again=True, elsewhere=True, blames=False),
    Overloaded: ELSEWHERE_AT_ONCE,
    ProtocolViolation: ELSEWHERE_AT_ONCE,
    RateLimited: ELSEWHERE_AT_ONCE,
    Truncated: ELSEWHERE_AT_ONCE,
    AuthenticationFailed: ELSEWHERE_ONLY,
    ContextLengthExceeded: Verdict(again=False, elsewhere=True, blames=False),
    QuotaExhausted: ELSEWHERE_ONLY,
    ContentFiltered: NOWHERE,
    InvalidRequest: NOWHERE,
}


@pytest.mark.parametrize("of", TABLE)
def test_what_may_be_tried_after_each_kind_of_failure(
    of: type[AttemptError | GatewayBusy],
) -> None:
    assert judge(failure(of)) == TABLE[of]


def subclasses(of: type[AttemptError]) -> Iterator[type[AttemptError]]:
    for each in of.__subclasses__():
        yield each
        yield from subclasses(each)


def test_no_kind_of_failure_is_missing_in_the_table() -> None:
    ours = {each for each in subclasses(AttemptError) if each.__module__.startswith("polygateway")}
    assert ours | {GatewayBusy} == set(TABLE)


@pytest.mark.parametrize(
    ("status", "verdict"), [(400, NOWHERE), (404, ELSEWHERE_ONLY), (413, NOWHERE), (422, NOWHERE)]
)
def test_of_the_refused_requests_only_an_unknown_model_or_path_moves_on(
    status: int, verdict: Verdict
) -> None:
    assert judge(failure(InvalidRequest, status=status)) == verdict


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (failure(InvalidRequest, status=400), True),
        (failure(InvalidRequest), True),
        (failure(InvalidRequest, status=404), False),
        (failure(ContextLengthExceeded, status=400), False),
        (failure(ContentFiltered, status=400), False),
    ],
)
def test_a_request_is_refused_as_it_is_unless_that_is_said_of_model_or_length(
    error: Failure, refused: bool
) -> None:
    assert is_refusal(error) is refused


def test_a_404_of_another_kind_changes_nothing() -> None:
    assert judge(failure(ContentFiltered, status=404)) == NOWHERE


@pytest.mark.parametrize(
    ("seconds", "nanoseconds"),
    [(0.0, 0), (0.3, 300_000_000), (1.5, 1_500_000_000), (60.0, 60_000_000_000), (-1.0, 0)],
)
def test_what_a_target_asked_for_is_kept_in_nanoseconds(seconds: float, nanoseconds: int) -> None:
    assert judge(failure(RateLimited, retry_after_s=seconds)).retry_after_ns == nanoseconds


@pytest.mark.parametrize("seconds", [1e10, float("9" * 305)])
def test_an_absurd_wait_is_a_long_one(seconds: float) -> None:
    century = 100 * 365 * 86_400 * 10**9
    wait = judge(failure(RateLimited, retry_after_s=seconds)).retry_after_ns
    assert wait is not None
    assert century / 4 < wait <= century


def test_a_wait_may_be_asked_for_with_any_failure() -> None:
    verdict = judge(failure(ServerError, retry_after_s=7))
    assert verdict == Verdict(again=True, elsewhere=True, fluke=True, retry_after_ns=7 * 10**9)
