"""Which target comes next. Times are nanoseconds."""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import pytest

from polygateway.core.failures import Verdict
from polygateway.core.targets import Candidate, Option, Targets
from polygateway.policies import RetryPolicy
from tests.core.driver import SECOND, START
from tests.core.standings import REST, State, fail, health_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway.core.decisions import Rescue
    from polygateway.stats import RefusalReason

NOW = START + 100 * SECOND

Past: TypeAlias = Literal[
    "unused", "fine", "answered", "silent", "busy", "not ready", "timed out", "hopeless"
]
"""What a call has seen of a target. ``answered``: it failed, and its backoff is over. ``silent``:
its last attempt was, and is over; ``busy``: is silent and lives. ``not ready``: it failed and its
backoff is not over. ``timed out``: it was silent when it failed. ``hopeless``: it refused our key.
"""

UNUSED: tuple[State, Past] = ("healthy", "unused")

AGAIN = Verdict(again=True, elsewhere=True)
FLUKE = Verdict(again=True, elsewhere=True, fluke=True)
TIMED_OUT = Verdict(again=True, elsewhere=True, silent=True)
HOPELESS = Verdict(again=False, elsewhere=True)
REFUSED_PREFIX = Verdict(again=False, elsewhere=True)


def asks(seconds: float) -> Verdict:
    return Verdict(again=True, elsewhere=True, retry_after_ns=round(seconds * SECOND))


def targets_of(
    *states: tuple[State, Past], prefill: Sequence[bool] = (), retry: RetryPolicy | None = None
) -> Targets:
    """Give targets in these states at ``NOW``."""
    flags = prefill or [False] * len(states)
    candidates = [
        Candidate(health=health_of(state, NOW), prefill=flag)
        for (state, _), flag in zip(states, flags, strict=True)
    ]
    targets = Targets(candidates, retry or RetryPolicy())
    for target, (_, past) in enumerate(states):
        live(targets, target, past)
    return targets


def live(targets: Targets, target: int, past: Past) -> None:
    """Let the call see that of a target."""
    if past == "unused":
        return
    targets.launched(target, NOW - 50 * SECOND)
    match past:
        case "answered":
            targets.failed(target, AGAIN, NOW - 40 * SECOND)
        case "not ready":
            targets.failed(target, AGAIN, NOW)
        case "timed out":
            targets.failed(target, TIMED_OUT, NOW - 40 * SECOND)
        case "hopeless":
            targets.failed(target, HOPELESS, NOW - 40 * SECOND)
        case "silent" | "busy":
            targets.fell_silent(target)
        case "fine":
            pass


def hedge(*states: tuple[State, Past], reuse: bool = True) -> int | None:
    busy = {target for target, (_, past) in enumerate(states) if past == "busy"}
    option = targets_of(*states).hedge(busy, NOW, reuse=reuse)
    return None if option is None else option.target


# Hedges: the best first. What is not in here gets none.

ORDER: list[tuple[State, Past]] = [
    ("healthy", "unused"),
    ("due", "unused"),
    ("healthy", "fine"),
    ("healthy", "answered"),
    ("healthy", "silent"),
    ("healthy", "busy"),
    ("due", "fine"),
    ("due", "answered"),
    ("due", "silent"),
    ("due", "busy"),
    ("degraded", "unused"),
    ("degraded", "fine"),
    ("degraded", "answered"),
    ("degraded", "silent"),
    ("degraded", "busy"),
]

ALL = list(product(get_args(State), get_args(Past)))


def rank_of(state: State, past: Past) -> int | None:
    """Give the place in the order; ``None`` for none. Why a target is probed is all one."""
    place: tuple[State, Past] = ("due" if state == "degraded, due" else state, past)
    return ORDER.index(place) if place in ORDER else None


@pytest.mark.parametrize("one", ALL)
def test_of_two_targets_a_hedge_goes_to_the_better_one(one: tuple[State, Past]) -> None:
    for other in ALL:
        ranks = [rank_of(state, past) for state, past in (one, other)]
        best = [rank for rank in ranks if rank is not None]
        assert hedge(one, other) == (ranks.index(min(best)) if best else None), (one, other)


@pytest.mark.parametrize("one", ALL)
def test_where_targets_are_used_once_only_an_unused_one_will_do(one: tuple[State, Past]) -> None:
    is_fit = rank_of(*one) is not None and one[1] == "unused"
    assert hedge(one, reuse=False) == (0 if is_fit else None)


def test_of_equals_the_models_order_decides() -> None:
    for state in ORDER:
        assert hedge(state, state, state) == 0, state


@pytest.mark.parametrize("past", ["fine", "silent"])
def test_of_those_that_were_used_the_one_used_longest_ago_comes_first(past: Past) -> None:
    for order in permutations(range(3)):
        targets = targets_of(UNUSED, UNUSED, UNUSED)
        for age, target in enumerate(order):
            targets.launched(target, NOW - (50 - age) * SECOND)
            if past == "silent":
                targets.fell_silent(target)
        assert targets.hedge((), NOW, reuse=True) == Option(order[0], NOW, goes_on=False)


def test_but_one_without_a_live_attempt_before_one_that_was_used_longer_ago() -> None:
    targets = targets_of(("healthy", "busy"), UNUSED)
    targets.launched(1, NOW - 20 * SECOND)
    targets.fell_silent(1)
    assert targets.hedge({0}, NOW, reuse=True) == Option(1, NOW, goes_on=False)


def test_a_new_attempt_clears_a_target_of_the_silence_of_the_last() -> None:
    targets = targets_of(("healthy", "silent"), ("healthy", "silent"))
    targets.launched(1, NOW - SECOND)
    assert targets.hedge((), NOW, reuse=True) == Option(1, NOW, goes_on=False)


def test_an_answer_clears_it_too_even_an_error() -> None:
    targets = targets_of(("healthy", "silent"), ("healthy", "silent"))
    targets.failed(1, AGAIN, NOW - 10 * SECOND)
    assert targets.hedge((), NOW, reuse=True) == Option(1, NOW, goes_on=False)


@pytest.mark.parametrize(
    ("verdict", "wait"),
    [(AGAIN, 0.5), (FLUKE, 0.5), (asks(0.1), 0.5), (asks(7), 7), (asks(60), 60)],
)
def test_a_target_that_failed_is_ready_for_a_hedge_after_its_longest_backoff_or_its_wait(
    verdict: Verdict, wait: float
) -> None:
    targets = targets_of(UNUSED)
    targets.launched(0, NOW)
    targets.failed(0, verdict, NOW)
    ready = NOW + round(wait * SECOND)
    assert targets.hedge((), ready - 1, reuse=True) is None
    assert targets.hedge((), ready, reuse=True) == Option(0, ready, goes_on=False)


# Why there is none


@pytest.mark.parametrize(
    ("states", "why"),
    [
        ([("open", "unused")], "breaker"),
        ([("resting", "unused")], "rate_limited"),
        ([("healthy", "hopeless")], "no_target"),
        ([("open", "hopeless")], "no_target"),
        ([("resting", "hopeless")], "no_target"),
        ([("healthy", "not ready")], "no_target"),
        ([("open", "answered")], "breaker"),
        ([("resting", "not ready")], "rate_limited"),
        ([("open", "busy"), ("resting", "unused")], "breaker"),
        ([("resting", "fine"), ("open", "hopeless")], "rate_limited"),
    ],
)
def test_it_is_said_why_there_is_no_target(
    states: list[tuple[State, Past]], why: RefusalReason
) -> None:
    assert hedge(*states) is None
    assert targets_of(*states).why_none(NOW) == why


def test_what_was_used_is_no_reason_where_it_would_not_be_used_again() -> None:
    targets = targets_of(("open", "busy"), ("resting", "unused"))
    assert targets.why_none(NOW, reuse=False) == "rate_limited"
    targets.launched(1, NOW)
    assert targets.why_none(NOW, reuse=False) == "no_target"


def test_what_other_calls_learn_counts_at_once() -> None:
    health = health_of("healthy")
    targets = Targets([Candidate(), Candidate(health=health)], RetryPolicy())
    targets.launched(0, NOW)
    assert targets.hedge({0}, NOW, reuse=False) == Option(1, NOW, goes_on=False)
    fail(health, NOW)
    assert targets.hedge({0}, NOW, reuse=False) is None
    assert targets.why_none(NOW, reuse=False) == "breaker"


# Retries. The middle of the first backoff is 0.375 s.


def tried(targets: Targets, verdict: Verdict, *, failed: int = 0) -> list[tuple[int, float]]:
    """Let a target fail at ``NOW``; give the options and how long each is waited for."""
    targets.launched(failed, NOW - SECOND)
    targets.failed(failed, verdict, NOW)
    options = targets.retries(failed, verdict, NOW, 0.5)
    return [(each.target, (each.due - NOW) / SECOND) for each in options]


def test_a_fluke_is_tried_again_before_anything_else_and_however_bad_the_others_are() -> None:
    for state in get_args(State):
        targets = targets_of(UNUSED, (state, "unused"))
        assert tried(targets, FLUKE)[0] == (0, 0.375), state


def test_however_long_its_backoff_is() -> None:
    policy = RetryPolicy(backoff_base_s=8, backoff_max_s=8)
    targets = targets_of(UNUSED, UNUSED, retry=policy)
    assert tried(targets, FLUKE) == [(0, 6), (1, 0)]


def test_only_the_target_that_failed_last_comes_before_the_others() -> None:
    targets = targets_of(UNUSED, UNUSED, ("healthy", "answered"))
    assert tried(targets, FLUKE) == [(0, 0.375), (1, 0), (2, 0)]
    targets = targets_of(("open", "unused"), UNUSED, ("healthy", "answered"))
    assert tried(targets, FLUKE) == [(1, 0), (2, 0)]


@pytest.mark.parametrize("state", ["healthy", "due", "degraded", "degraded, due"])
def test_what_is_no_fluke_moves_on_at_once_to_what_is_admitted(state: State) -> None:
    targets = targets_of(UNUSED, (state, "unused"))
    assert tried(targets, AGAIN) == [(1, 0), (0, 0.375)]


def test_of_those_that_are_admitted_it_is_the_one_that_a_hedge_would_get() -> None:
    targets = targets_of(UNUSED, ("degraded", "unused"), ("due", "unused"))
    assert tried(targets, AGAIN)[0] == (2, 0)


def test_an_open_target_that_is_untried_is_the_last_resort_and_tried_at_once() -> None:
    targets = targets_of(UNUSED, ("open", "unused"))
    assert tried(targets, AGAIN) == [(1, 0), (0, 0.375)]
    assert tried(targets_of(UNUSED, ("open", "unused")), HOPELESS) == [(1, 0)]


def test_only_a_last_resort_is_not_sound() -> None:
    targets = targets_of(UNUSED, ("open", "unused"))
    targets.failed(0, AGAIN, NOW)
    options = targets.retries(0, AGAIN, NOW, 0.5)
    assert [(each.target, each.is_sound) for each in options] == [(1, False), (0, True)]


def test_no_target_is_a_last_resort_while_one_is_admitted() -> None:
    targets = targets_of(UNUSED, ("open", "unused"), ("degraded", "unused"))
    assert tried(targets, HOPELESS) == [(2, 0)]


def test_a_resting_target_is_waited_for_if_there_is_nothing_else() -> None:
    targets = targets_of(UNUSED, ("resting", "unused"))
    assert tried(targets, HOPELESS) == [(1, 60)]


def test_but_not_before_one_that_would_take_us_soon() -> None:
    targets = targets_of(UNUSED, ("resting", "unused"))
    assert tried(targets, AGAIN) == [(0, 0.375), (1, 60)]


def test_nor_before_one_that_would_take_us_sooner() -> None:
    targets = targets_of(UNUSED, ("resting", "unused"))
    assert tried(targets, asks(30)) == [(0, 30), (1, 60)]


def test_but_before_one_that_was_silent() -> None:
    targets = targets_of(UNUSED, ("resting", "unused"))
    assert tried(targets, TIMED_OUT) == [(1, 60), (0, 0.375)]


def test_what_rests_for_longer_than_is_allowed_is_not_waited_for() -> None:
    policy = RetryPolicy(retry_after_max_s=REST / SECOND - 1)
    targets = targets_of(UNUSED, ("resting", "unused"), retry=policy)
    assert tried(targets, HOPELESS) == []
    assert targets.why_none(NOW) == "rate_limited"


def test_nor_is_a_target_that_failed() -> None:
    policy = RetryPolicy(retry_after_max_s=REST / SECOND - 1)
    targets = targets_of(UNUSED, ("resting", "answered"), retry=policy)
    assert tried(targets, HOPELESS) == []
    assert targets.why_none(NOW) == "rate_limited"


def test_an_open_target_that_rests_too_is_waited_for() -> None:
    targets = targets_of(UNUSED, ("resting", "unused"), ("open", "unused"))
    assert tried(targets, HOPELESS) == [(2, 0), (1, 60)]


@pytest.mark.parametrize(
    ("state", "options"),
    [("healthy", [(1, 0)]), ("resting", [(1, 60)]), ("open", [])],
)
def test_a_target_that_lost_a_race_is_used_again_unless_its_breaker_is_open(
    state: State, options: list[tuple[int, float]]
) -> None:
    targets = targets_of(UNUSED, (state, "silent"))
    assert tried(targets, HOPELESS) == options


def test_a_target_whose_breaker_opened_is_not_tried_again_once_it_was_used() -> None:
    targets = targets_of(("open", "unused"))
    assert tried(targets, FLUKE) == []
    assert targets.why_none(NOW) == "breaker"


def test_unless_a_probe_will_be_due_by_then() -> None:
    targets = targets_of(("open", "unused"))
    assert tried(targets, asks(9.9)) == []
    assert tried(targets_of(("open", "unused")), asks(10)) == [(0, 10)]


def test_or_is_due_by_now_though_none_was_when_the_backoff_was_over() -> None:
    health = health_of("open", NOW - 11 * SECOND)
    targets = Targets([Candidate(health=health), Candidate()], RetryPolicy())
    for target in (0, 1):
        targets.launched(target, NOW - 12 * SECOND)
    targets.failed(0, AGAIN, NOW - 11 * SECOND)
    targets.failed(1, HOPELESS, NOW)
    assert targets.retries(1, HOPELESS, NOW, 0.5) == [Option(0, NOW, goes_on=False)]


def test_the_latest_to_fail_is_tried_first_unless_it_asked_for_a_long_wait() -> None:
    for verdict, options in (
        (AGAIN, [(0, 0.375), (1, 0)]),
        (asks(2), [(0, 2), (1, 0)]),
        (asks(2.001), [(1, 0), (0, 2.001)]),
    ):
        assert tried(targets_of(UNUSED, ("healthy", "answered")), verdict) == options


def test_a_known_rest_is_as_good_as_a_wait_that_was_asked_for() -> None:
    health = health_of("healthy")
    targets = Targets([Candidate(health=health), Candidate()], RetryPolicy())
    health.rest.ask(20 * SECOND, NOW)
    assert tried(targets, FLUKE) == [(1, 0), (0, 20)]


# What is learned while a retry is pending


@pytest.mark.parametrize(("asked", "due"), [(1, 10), (10, 10), (11, 11), (70, 70), (71, 10)])
def test_a_longer_wait_that_is_asked_for_meanwhile_is_obeyed_up_to_the_longest(
    asked: int, due: int
) -> None:
    health = health_of("healthy")
    targets = Targets([Candidate(health=health)], RetryPolicy(retry_after_max_s=60))
    health.rest.ask(asked * SECOND, NOW)
    option = Option(0, NOW + 10 * SECOND, goes_on=False)
    assert targets.due(option) == NOW + due * SECOND


# Going on with an answer


def rescued(rescue: Rescue, *prefill: bool) -> Targets:
    targets = targets_of(*[UNUSED] * len(prefill), prefill=prefill)
    targets.rescue = rescue
    return targets


def test_before_anything_is_delivered_no_attempt_goes_on() -> None:
    targets = targets_of(UNUSED, prefill=[True])
    assert targets.hedge((), NOW, reuse=True) == Option(0, NOW, goes_on=False)


@pytest.mark.parametrize(
    ("rescue", "prefill", "choice"),
    [
        ("restart", [True, False], (0, False)),
        ("restart", [False, True], (0, False)),
        ("continue", [True, True], (0, True)),
        ("continue", [False, True], (1, True)),
        ("continue", [False, False], None),
        ("continue-or-restart", [False, True], (1, True)),
        ("continue-or-restart", [False, False], (0, False)),
    ],
)
def test_what_goes_on_goes_to_a_target_that_can(
    rescue: Rescue, prefill: list[bool], choice: tuple[int, bool] | None
) -> None:
    option = rescued(rescue, *prefill).hedge((), NOW, reuse=True)
    assert (None if option is None else (option.target, option.goes_on)) == choice


@pytest.mark.parametrize("rescue", ["continue", "continue-or-restart"])
def test_one_that_can_go_on_comes_before_others_if_it_is_admitted(rescue: Rescue) -> None:
    for state in get_args(State):
        targets = targets_of(UNUSED, (state, "unused"), prefill=[False, True])
        targets.rescue = rescue
        option = targets.hedge((), NOW, reuse=True)
        if state not in {"open", "resting"}:
            assert option == Option(1, NOW, goes_on=True)
        elif rescue == "continue":
            assert option is None
        else:
            assert option == Option(0, NOW, goes_on=False)


def test_one_that_refused_to_go_on_has_not_failed() -> None:
    targets = rescued("continue-or-restart", True)
    targets.launched(0, NOW)
    targets.refused_prefix(0)
    assert targets.hedge((), NOW, reuse=True) == Option(0, NOW, goes_on=False)
    targets.rescue = "continue"
    assert targets.hedge((), NOW, reuse=True) is None
    assert targets.why_none(NOW) == "no_target"


def test_only_a_target_that_can_go_on_is_waited_for_where_it_must() -> None:
    assert tried(rescued("continue", False, True), FLUKE) == [(1, 0)]
    targets = rescued("continue", False, True, True)
    live(targets, 2, "answered")
    assert tried(targets, FLUKE) == [(1, 0), (2, 0)]
    assert tried(rescued("continue", True, False), FLUKE) == [(0, 0.375)]


@pytest.mark.parametrize(
    ("verdict", "options"),
    [
        (FLUKE, [(0, 0.375), (1, 0)]),
        (AGAIN, [(0, 0.375), (1, 0)]),
        (asks(2), [(0, 2), (1, 0)]),
        (asks(3), [(1, 0), (0, 3)]),
        (TIMED_OUT, [(1, 0), (0, 0.375)]),
        (HOPELESS, [(1, 0)]),
    ],
)
def test_where_it_may_one_that_can_is_waited_for_but_not_for_long(
    verdict: Verdict, options: list[tuple[int, float]]
) -> None:
    assert tried(rescued("continue-or-restart", True, False), verdict) == options


def test_one_that_can_go_on_comes_before_a_fluke_of_one_that_cannot() -> None:
    assert tried(rescued("continue-or-restart", False, True), FLUKE) == [(1, 0), (0, 0.375)]
