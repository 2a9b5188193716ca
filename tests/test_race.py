"""Races of `complete()`: who is launched when, who wins, what becomes of the losers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway import (
    AuthenticationFailed,
    ConnectFailed,
    ConnectTimeout,
    DeadlineExceeded,
    FirstContentTimeout,
    GatewayBusy,
    GatewayError,
    HedgePolicy,
    InvalidRequest,
    Limits,
    Overloaded,
    ProtocolViolation,
    RateLimited,
    RetryPolicy,
    ServerError,
    StallTimeout,
    StreamPolicy,
    Truncated,
)
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    comment,
    cut,
    done,
    empty,
    error_frame,
    finish,
    hang,
    headers,
    keepalives,
    page,
    ping,
    reset,
    role,
    run_virtual,
    silence,
    status,
    together,
    usage,
)
from tests.scenario import AT_ONCE, NO_RETRY, Result, complete, gateway_to, run_complete

if TYPE_CHECKING:
    from polygateway.testing import Step

# Five seconds for either kind of silence are the defaults; tests name them where they count.
FRESH = ("The ", "tide ", "turns.")


def fresh(*, every_s: float = 0.25) -> ScriptedProvider:
    """Give a provider whose answer is whole 0.75 s after it was asked."""
    return ScriptedProvider(answer(*FRESH, every_s=every_s))


def stalling(*during: Step) -> ScriptedProvider:
    """Give a provider that falls silent after a chunk for 30 s, or does *during* then."""
    return ScriptedProvider([chunk("Once "), *(during or (silence(30),)), *answer("upon a time.")])


# A silence in the middle


@pytest.mark.parametrize(
    "during",
    [
        (silence(30),),
        keepalives(30, every_s=0.05, step=comment()),
        keepalives(30, every_s=0.05, step=ping()),
        keepalives(30, every_s=0.05, step=empty()),
    ],
    ids=["silence", "comments", "pings", "empty deltas"],
)
def test_a_stalled_answer_is_replaced_after_the_silence_and_one_fresh_attempt(
    during: tuple[Step, ...],
) -> None:
    eu, us = stalling(*during), fresh()
    result = run_complete({"eu": eu, "us": us}, hedge=HedgePolicy(stall_after_s=0.5))

    assert result.text == "The tide turns."
    assert result.took_s == pytest.approx(0.5 + 0.75, abs=1e-6)
    assert us.log[0].started_at == pytest.approx(0.5, abs=1e-6)
    # The duel is decided by the hedge's first content.
    assert eu.log[0].ended == "client closed"
    assert eu.log[0].ended_at == pytest.approx(0.75, abs=1e-6)


def test_a_silence_before_any_content_is_hedged_after_after_s() -> None:
    eu, us = ScriptedProvider([headers(), hang()]), fresh()
    result = run_complete({"eu": eu, "us": us}, hedge=HedgePolicy(after_s=2))

    assert result.text == "The tide turns."
    assert result.took_s == pytest.approx(2.75, abs=1e-6)
    assert result.completion is not None
    assert result.completion.stats.hedge_reason == "ttft"


def test_the_records_of_a_duel_say_what_happened() -> None:
    result = run_complete({"eu": stalling(), "us": fresh()})

    assert result.completion is not None
    stats = result.completion.stats
    lost, won = stats.attempts
    assert (lost.target, lost.kind, lost.reason, lost.outcome) == ("eu", "primary", None, "lost")
    assert (lost.cancel_reason, lost.cancel_to_closed_ms) == ("lost a duel", 0)
    assert (lost.chunk_count, lost.total_ms) == pytest.approx((1, 5250))
    assert (won.target, won.kind, won.reason, won.outcome) == ("us", "hedge", "stall", "won")
    assert (won.started_ms, won.ttft_ms) == pytest.approx((5000, 250))
    assert stats.hedge_reason == "stall"
    assert stats.commit_ms == stats.total_ms == pytest.approx(5750)
    # The figures are the winner's alone; its first content is counted from the call.
    assert (stats.chunk_count, stats.ttft_ms) == pytest.approx((3, 5250))
    assert (stats.generation_ms, stats.stall_ms) == pytest.approx((500, 0))


def test_a_primary_that_resumes_before_the_hedge_has_content_keeps_its_answer() -> None:
    eu = ScriptedProvider([chunk("Once "), silence(6), *answer("upon ", "a time.", every_s=1)])
    us = ScriptedProvider([silence(10), *answer("too late")])
    result = run_complete({"eu": eu, "us": us})

    assert result.text == "Once upon a time."
    assert result.took_s == pytest.approx(8, abs=1e-6)
    # It resumes 7 s after its first chunk, and that decides the duel.
    assert us.log[0].ended == "client closed"
    assert us.log[0].ended_at == pytest.approx(7, abs=1e-6)


@pytest.mark.parametrize(
    ("names", "third"), [(("eu", "us"), "us"), (("eu", "us", "ap"), "ap")], ids=["two", "three"]
)
def test_a_primary_that_falls_silent_again_is_dueled_again(
    names: tuple[str, ...], third: str
) -> None:
    eu = ScriptedProvider(
        [chunk("Once "), silence(6), chunk("upon "), silence(40), *answer("a time.")]
    )
    slow = ScriptedProvider([silence(10), *answer("too late")], answer(*FRESH))
    providers = {"eu": eu, "us": slow, "ap": fresh(every_s=0)}
    result = run_complete({name: providers[name] for name in names})

    assert result.text == "The tide turns."
    assert result.completion is not None
    attempts = result.completion.stats.attempts
    assert [attempt.target for attempt in attempts] == ["eu", "us", third]
    assert [attempt.outcome for attempt in attempts] == ["lost", "lost", "won"]
    # Silent at 0, resumed at 6, silent again: the second duel begins 5 s after 6.
    assert attempts[2].started_ms == pytest.approx(11_000)


def test_the_second_duel_is_the_last_when_max_attempts_is_reached() -> None:
    eu = ScriptedProvider(
        [chunk("Once "), silence(6), chunk("upon "), silence(40), *answer("a time.")]
    )
    us = ScriptedProvider([silence(10), *answer("too late")])
    result = run_complete({"eu": eu, "us": us}, hedge=HedgePolicy(max_attempts=2))

    assert result.text == "Once upon a time."
    assert result.completion is not None
    assert len(result.completion.stats.attempts) == 2
    # Silent from 6 to 46: asked for at 11, 16, ... 41, every time refused (and at 46 it resumes).
    assert result.completion.stats.hedges_refused["max_attempts"] in {7, 8}


def test_under_first_complete_the_first_whole_answer_wins_whoever_resumed() -> None:
    eu = ScriptedProvider([chunk("Once "), silence(6), *answer("upon ", "a ", "time.", every_s=3)])
    us = ScriptedProvider([silence(3), *answer(*FRESH, every_s=0.5)])
    result = run_complete({"eu": eu, "us": us}, hedge=HedgePolicy(winner="first-complete"))

    # The primary resumes at 9, while the hedge launched at 5 brings its first content at 8.5.
    assert result.text == "The tide turns."
    assert result.took_s == pytest.approx(9.5, abs=1e-6)
    assert eu.log[0].ended_at == pytest.approx(9.5, abs=1e-6)


def test_while_nobody_has_content_the_first_content_ends_the_race_under_first_complete_too() -> (
    None
):
    eu = ScriptedProvider([silence(6), *answer(*FRESH, every_s=4)])
    us = ScriptedProvider([silence(6), *answer("too late")])
    result = run_complete({"eu": eu, "us": us}, hedge=HedgePolicy(winner="first-complete"))

    assert result.text == "The tide turns."
    assert us.log[0].ended == "client closed"
    assert us.log[0].ended_at == pytest.approx(10, abs=1e-6)


def test_at_equal_stamps_the_front_wins_a_duel() -> None:
    for _ in range(20):  # trio's order of tasks is random
        eu = ScriptedProvider([chunk("Once "), silence(6), chunk("upon a time."), *answer()])
        us = ScriptedProvider([silence(1), *answer("The tide turns.")])
        result = run_complete({"eu": eu, "us": us})
        assert result.text == "Once upon a time."


def test_a_hedge_that_stays_silent_too_is_joined_by_another_one() -> None:
    eu = ScriptedProvider([chunk("Once "), hang()])
    us = ScriptedProvider([headers(), hang()])
    result = run_complete({"eu": eu, "us": us, "ap": fresh()})

    assert result.text == "The tide turns."
    assert result.completion is not None
    assert [attempt.started_ms for attempt in result.completion.stats.attempts] == [
        pytest.approx(0),
        pytest.approx(5000),
        pytest.approx(10_000),
    ]


def test_a_model_with_one_target_is_hedged_at_that_target() -> None:
    eu = ScriptedProvider([chunk("Once "), hang()], answer(*FRESH))
    result = run_complete({"eu": eu})

    assert result.text == "The tide turns."
    assert result.took_s == pytest.approx(5, abs=1e-6)


def test_without_same_target_a_model_with_one_target_is_not_hedged() -> None:
    result = run_complete({"eu": stalling()}, hedge=HedgePolicy(same_target=False))

    assert result.text == "Once upon a time."
    assert result.completion is not None
    assert set(result.completion.stats.hedges_refused) == {"no_target"}


def test_without_hedging_a_stall_is_waited_for() -> None:
    result = run_complete({"eu": stalling(), "us": fresh()}, hedge=HedgePolicy(enabled=False))

    assert result.text == "Once upon a time."
    assert result.completion is not None
    stats = result.completion.stats
    assert (stats.stall_ms, stats.stall_count) == pytest.approx((30_000, 1))
    assert (stats.hedge_reason, stats.hedges_refused) == (None, {})


def test_an_empty_purse_refuses_a_hedge_and_is_asked_again_after_such_a_silence() -> None:
    policy = HedgePolicy(budget_ratio=0, budget_burst=0)
    result = run_complete({"eu": stalling(), "us": fresh()}, hedge=policy)

    assert result.text == "Once upon a time."
    assert result.completion is not None
    # Silent from 0 to 30: refused at 5, 10, ... 25 (at 30 it resumes).
    assert result.completion.stats.hedges_refused["budget"] in {5, 6}


def test_a_finish_reason_excuses_the_silence_behind_it() -> None:
    eu = ScriptedProvider([chunk("Once."), silence(4.8), finish(), hang()])
    us = fresh()
    result = run_complete({"eu": eu, "us": us}, hedge=HedgePolicy(stall_after_s=5))

    assert result.text == "Once."
    assert result.took_s == pytest.approx(4.8 + 0.5, abs=1e-6)
    assert us.log == []


def test_a_whole_answer_without_its_end_marker_never_pays_for_a_hedge() -> None:
    for _ in range(20):  # trio's order of tasks is random
        eu = ScriptedProvider([chunk("Once."), silence(4.7), finish(), hang()])
        us = fresh()
        assert run_complete({"eu": eu, "us": us}).text == "Once."
        assert us.log == []


def test_a_hedge_does_not_beat_an_answer_whose_finish_reason_came() -> None:
    eu = ScriptedProvider([chunk("Once."), silence(5.9), finish(), hang()])
    us = ScriptedProvider([silence(1.2), *answer(*FRESH, every_s=0.15)])
    result = run_complete({"eu": eu, "us": us})

    # The hedge's first content comes 0.45 s after the finish reason, within its 0.5 s of grace.
    assert result.text == "Once."
    assert result.took_s == pytest.approx(6.4, abs=1e-6)


def test_content_behind_a_finish_reason_reopens_the_duel() -> None:
    eu = ScriptedProvider(
        [chunk("Once "), silence(5.9), finish(), silence(0.4), chunk("upon"), finish(), done()]
    )
    us = ScriptedProvider([silence(1.2), chunk("The "), silence(9), *answer("tide")])
    assert run_complete({"eu": eu, "us": us}).text == "Once upon"


def test_a_hedge_that_ends_empty_is_not_followed_by_the_next_one_at_once() -> None:
    eu = ScriptedProvider([silence(8), *answer("Once.")])
    us = ScriptedProvider([role(), finish(), done()])
    ap = fresh()
    result = run_complete({"eu": eu, "us": us, "ap": ap})

    assert result.text == "Once."
    assert ap.log == []
    assert result.completion is not None
    # Its terminal fact came at once, however long it was kept.
    assert result.completion.stats.attempts[1].total_ms == pytest.approx(0)


# Attempts that cannot win


REFUSALS = {code: status(code, {"error": {"message": "no"}}) for code in (400, 401, 404, 429, 500)}
NO_ANSWERS = {
    "error frame": [error_frame("no")],
    "empty stream": [headers()],
    "bare [DONE]": [done()],
    "role, then cut": [role(), cut()],
    "HTML page": page("<html>busy</html>"),
    "reset": [headers(), reset()],
}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_hedge_that_is_refused_leaves_the_slow_primary_in_the_race(code: int) -> None:
    us = ScriptedProvider(REFUSALS[code])
    result = run_complete({"eu": stalling(silence(7)), "us": us})

    assert result.text == "Once upon a time."
    assert result.took_s == pytest.approx(7, abs=1e-6)
    assert result.completion is not None
    assert [each.outcome for each in result.completion.stats.attempts] == ["won", "failed"]


@pytest.mark.parametrize("script", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_hedge_without_an_answer_leaves_the_slow_primary_in_the_race(script: list[Step]) -> None:
    result = run_complete({"eu": stalling(silence(7)), "us": ScriptedProvider(script)})

    assert result.text == "Once upon a time."
    assert result.took_s == pytest.approx(7, abs=1e-6)


@pytest.mark.parametrize("script", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_primary_without_an_answer_fails_over(script: list[Step]) -> None:
    # A server's own error and a lost connection are flukes: the same target gets a second try.
    result = run_complete({"eu": ScriptedProvider(script), "us": fresh()}, retry=AT_ONCE)

    assert result.text == "The tide turns."


def test_a_primary_that_fails_while_its_hedge_runs_leaves_the_hedge_in_the_race() -> None:
    eu = ScriptedProvider([chunk("Once "), silence(6), error_frame("boom")])
    us = ScriptedProvider([silence(3), *answer(*FRESH)])
    result = run_complete({"eu": eu, "us": us})

    assert result.text == "The tide turns."
    assert result.took_s == pytest.approx(8, abs=1e-6)
    assert result.completion is not None
    assert [each.outcome for each in result.completion.stats.attempts] == ["failed", "won"]


def test_content_that_comes_in_one_read_with_an_error_decides_no_duel() -> None:
    eu = ScriptedProvider(
        [chunk("Once "), silence(6), together(chunk("upon"), error_frame("boom")), cut()]
    )
    us = ScriptedProvider([silence(3), *answer(*FRESH)])
    assert run_complete({"eu": eu, "us": us}).text == "The tide turns."


def test_an_empty_whole_answer_is_an_answer() -> None:
    result = run_complete({"eu": ScriptedProvider([role(), finish(), done()]), "us": fresh()})

    assert result.text == ""
    assert result.completion is not None
    assert result.completion.finish_reason == "stop"
    assert result.completion.stats.ttft_ms is None


def test_an_empty_whole_answer_wins_only_when_nobody_else_is_left() -> None:
    eu = ScriptedProvider([headers(), silence(6), finish(), done()])
    us = ScriptedProvider([silence(3), *answer(*FRESH)])
    assert run_complete({"eu": eu, "us": us}).text == "The tide turns."

    us = ScriptedProvider([silence(3), error_frame("boom")])
    result = run_complete({"eu": eu, "us": us})
    assert result.text == ""
    assert result.took_s == pytest.approx(8, abs=1e-6)


# Watchdogs


def test_an_attempt_without_content_is_given_up_whatever_else_arrives() -> None:
    eu = ScriptedProvider([*keepalives(100, every_s=0.05), hang()])
    result = run_complete(
        {"eu": eu},
        hedge=HedgePolicy(enabled=False),
        stream=StreamPolicy(ttft_timeout_s=8),
        retry=NO_RETRY,
    )

    error = result.failure
    assert isinstance(error, FirstContentTimeout)
    assert isinstance(error, TimeoutError)
    assert result.took_s == pytest.approx(8, abs=1e-6)
    assert "8 s (stream.ttft_timeout_s)" in str(error)
    assert error.partial is None


def test_an_attempt_that_falls_silent_is_given_up_counted_from_its_last_content() -> None:
    eu = ScriptedProvider(
        [silence(1), chunk("Once "), silence(1), chunk("upon"), *keepalives(100), hang()]
    )
    result = run_complete(
        {"eu": eu},
        hedge=HedgePolicy(enabled=False),
        stream=StreamPolicy(stall_timeout_s=8),
        retry=NO_RETRY,
    )

    error = result.failure
    assert isinstance(error, StallTimeout)
    assert result.took_s == pytest.approx(10, abs=1e-6)
    assert "8 s after 2 chunks (stream.stall_timeout_s)" in str(error)
    assert (error.silence_s, error.chunks) == pytest.approx((8, 2))
    assert error.partial is not None
    assert error.partial.text == "Once upon"
    assert error.not_tried == "max_retries"


def test_the_deadline_ends_the_call_with_what_the_front_had() -> None:
    async def main() -> Result:
        us = ScriptedProvider([headers(), hang()])
        async with gateway_to({"eu": stalling(), "us": us}) as (gw, network):
            result = await complete(gw, deadline_s=7)
            assert network.open_connections == 0
            return result

    result = run_virtual(main)
    error = result.failure
    assert isinstance(error, DeadlineExceeded)
    assert isinstance(error, TimeoutError)
    assert result.took_s == pytest.approx(7, abs=1e-6)
    assert "7 s (deadline_s" in str(error)
    assert error.partial is not None
    assert error.partial.text == "Once "
    assert [each.outcome for each in error.attempts] == ["cancelled", "cancelled"]
    assert [each.cancel_reason for each in error.attempts] == ["deadline", "deadline"]


# Failing for good


def test_the_deadline_gives_what_the_attempt_with_the_latest_content_had() -> None:
    steps = [step for _ in range(60) for step in (silence(0.1), chunk("and "))]
    eu = ScriptedProvider([chunk("Once "), silence(5.2), *steps])
    us = ScriptedProvider([silence(0.5), chunk("The "), hang()])

    async def main() -> Result:
        policy = HedgePolicy(winner="first-complete")
        async with gateway_to({"eu": eu, "us": us}, hedge=policy) as (gw, _):
            return await complete(gw, deadline_s=8)

    error = run_virtual(main).failure
    assert error.partial is not None
    assert error.partial.text.startswith("Once and ")


def test_a_cut_answer_is_never_a_success_and_nothing_is_invented() -> None:
    eu = ScriptedProvider([chunk("Once "), chunk("upon"), cut()])
    error = run_complete({"eu": eu}, retry=NO_RETRY).failure

    assert isinstance(error, Truncated)
    assert error.partial is not None
    assert error.partial.text == "Once upon"
    assert (error.partial.finish_reason, error.partial.raw_finish_reason) == (None, None)
    assert error.partial.usage.output_tokens is None


def test_a_call_whose_attempts_all_fail_raises_the_last_error_with_the_others_behind_it() -> None:
    eu = ScriptedProvider(status(503, {"error": {"message": "busy"}}))
    us = ScriptedProvider(
        status(429, {"error": {"message": "slow down"}}, headers={"retry-after": "30"})
    )
    error = run_complete({"eu": eu, "us": us}, retry=RetryPolicy(max_retries=1)).failure

    assert type(error) is RateLimited
    assert (error.target, error.attempt, error.retry_after_s) == ("us", 1, 30)
    assert error.not_tried == "max_retries"
    assert isinstance(error.__cause__, Overloaded)
    assert [each.error_kind for each in error.attempts] == ["overloaded", "rate_limited"]
    assert [each.status for each in error.attempts] == [503, 429]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (status(400, {"error": {"message": "no"}}), InvalidRequest),
        (status(401, {"error": {"message": "no"}}), AuthenticationFailed),
        (status(500, {"error": {"message": "no"}}), ServerError),
        ([error_frame("no")], ServerError),
        ([done()], ProtocolViolation),
        (page("<html>"), ProtocolViolation),
        ([headers(), cut()], ConnectFailed),
        ([headers(), reset()], ConnectFailed),
    ],
)
def test_a_single_failure_has_the_type_of_what_went_wrong(
    script: list[Step], expected: type[GatewayError]
) -> None:
    error = run_complete({"eu": ScriptedProvider(script)}, retry=NO_RETRY).failure
    assert type(error) is expected
    assert error.partial is None
    assert len(error.attempts) == 1


def test_a_refused_connection_is_tried_once_more_and_then_elsewhere() -> None:
    us = fresh()
    result = run_complete({"eu": ScriptedProvider(answer(), refuses=True), "us": us}, retry=AT_ONCE)

    assert result.text == "The tide turns."
    assert result.completion is not None
    assert [each.target for each in result.completion.stats.attempts] == ["eu", "eu", "us"]


def test_a_connection_that_does_not_come_about_is_given_up_in_time() -> None:
    eu = ScriptedProvider(answer(), connect_s=1000)
    result = run_complete(
        {"eu": eu},
        retry=NO_RETRY,
        hedge=HedgePolicy(enabled=False),
        stream=StreamPolicy(connect_timeout_s=3),
    )
    error = result.failure
    assert type(error) is ConnectTimeout
    assert result.took_s == pytest.approx(3, abs=1e-6)
    assert "3 s (stream.connect_timeout_s)" in str(error)


def test_a_call_that_gets_no_slot_is_told_so() -> None:
    async def crowded() -> None:
        limits = Limits(max_connections_per_target=1, admission_timeout_s=4)
        policies = HedgePolicy(enabled=False)
        async with (
            gateway_to({"eu": stalling()}, limits=limits, hedge=policies, retry=NO_RETRY) as (
                gw,
                _,
            ),
            gw.stream("first", model="m"),
        ):
            result = await complete(gw)
            assert type(result.failure) is GatewayBusy
            assert result.took_s == pytest.approx(4, abs=1e-6)
            assert "4 s (limits.admission_timeout_s" in str(result.failure)

    run_virtual(crowded)


# Retrying


def test_a_server_error_is_tried_once_more_on_its_target_after_its_backoff() -> None:
    eu = ScriptedProvider(status(500), answer(*FRESH))
    result = run_complete({"eu": eu, "us": fresh()}, retry=RetryPolicy(backoff_base_s=1))

    assert result.text == "The tide turns."
    assert 0.5 <= result.took_s <= 1
    assert len(eu.log) == 2


def test_a_target_that_takes_us_again_soon_is_waited_for() -> None:
    eu = ScriptedProvider(status(429, headers={"retry-after": "1.5"}), answer(*FRESH))
    result = run_complete({"eu": eu, "us": fresh()}, retry=AT_ONCE)

    assert result.took_s == pytest.approx(1.5, abs=1e-6)
    assert len(eu.log) == 2


def test_a_target_that_asks_for_a_longer_wait_is_left() -> None:
    eu = ScriptedProvider(status(429, headers={"retry-after": "2.5"}))
    result = run_complete({"eu": eu, "us": fresh(every_s=0)}, retry=AT_ONCE)

    assert result.text == "The tide turns."
    assert result.took_s == pytest.approx(0, abs=1e-6)


def test_a_target_that_refuses_again_is_left_for_one_that_stands_ready() -> None:
    eu = ScriptedProvider(status(429, headers={"retry-after": "1"}))
    result = run_complete({"eu": eu, "us": fresh(every_s=0)}, retry=AT_ONCE)

    assert result.text == "The tide turns."
    assert len(eu.log) == 2


def test_a_refusal_gives_its_connection_back() -> None:
    eu = ScriptedProvider(status(500), answer(*FRESH))
    assert run_complete({"eu": eu}, retry=AT_ONCE).text == "The tide turns."
    assert [each.connection for each in eu.log] == [0, 0]


def test_an_invalid_request_is_sent_once() -> None:
    eu, us = ScriptedProvider(status(400)), fresh()
    error = run_complete({"eu": eu, "us": us}).failure

    assert type(error) is InvalidRequest
    assert (len(eu.log), len(us.log), error.not_tried) == (1, 0, None)


def test_a_cut_before_the_end_is_retried_in_silence_for_nothing_was_delivered() -> None:
    eu = ScriptedProvider([chunk("Once "), cut()])
    result = run_complete({"eu": eu, "us": fresh()}, retry=AT_ONCE)

    assert result.text == "The tide turns."
    assert result.completion is not None
    assert [each.kind for each in result.completion.stats.attempts] == ["primary", "retry"]


def test_the_total_ends_with_the_answer_not_with_its_connection() -> None:
    result = run_complete({"eu": ScriptedProvider([chunk("Once."), silence(1), done(), hang()])})

    assert result.completion is not None
    assert result.completion.stats.total_ms == pytest.approx(1000)


def test_usage_after_the_finish_reason_is_counted() -> None:
    eu = ScriptedProvider([chunk("Once."), finish(), silence(0.4), usage(7, 1), done()])
    result = run_complete({"eu": eu})

    assert result.completion is not None
    assert result.completion.usage.output_tokens == 1
    assert result.took_s == pytest.approx(0.4, abs=1e-6)
