from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, get_args

import attrs
import pytest
from hypothesis import given, strategies as st

from polygateway.aggregates import Distribution
from polygateway.core.ledger import Ledger, TargetState
from polygateway.instrument import CallOutcome
from polygateway.stats import AttemptKind, Outcome, RefusalReason
from tests.aggregate_strategies import (
    EMPTY,
    MODELS,
    SECOND,
    START,
    TARGETS,
    attempt,
    call,
    calls,
    stall,
    waste,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polygateway.aggregates import Aggregate, Cohort, GatewayStats
    from polygateway.instrument import CallEnded
    from polygateway.stats import (
        AttemptStats,
        CallStats,
        EndKind,
        StreamFigures,
        WasteConfidence,
    )

LEVELS = {"fast": 10.0, "smart": -2.5, "unused": 3.0}
STATES = {
    "eu": TargetState(standing="degraded", after_s=4.5),
    "us": TargetState(standing="healthy", after_s=None),
    "apac": TargetState(standing="open", after_s=0.5),
}
BOUND = 0.0109  # 1.09 %


def ledger(*calls: CallEnded, now_ns: int = START) -> GatewayStats:
    """Give what a ledger says when it was told of these calls."""
    kept = Ledger(TARGETS, MODELS)
    for event in calls:
        event.tell(kept)
    return kept.snapshot(now_ns, LEVELS, STATES)


def assert_values(seen: Distribution, *values: float) -> None:
    """Compare the values that were counted, from the least to the greatest."""
    assert seen.count == len(values)
    for rank, value in enumerate(values, start=1):
        assert seen.quantile(rank / len(values)) == pytest.approx(value, rel=BOUND)


def timed(generation_ms: float, tokens: int) -> StreamFigures:
    """Give an answer of so many tokens in that time."""
    return attrs.evolve(
        EMPTY,
        chunk_count=10,
        generation_ms=generation_ms,
        output_tokens=tokens,
        tpot_ms=generation_ms / (tokens - 1),
    )


# Zeros


def test_what_was_not_used_is_there_with_zeros_and_nothing_that_would_need_a_sample() -> None:
    stats = ledger()
    assert tuple(stats.targets) == TARGETS
    assert tuple(stats.models) == MODELS
    for seen in (*stats.targets.values(), *stats.models.values()):
        assert seen.calls == seen.stalled_calls == seen.stalls == 0
        assert seen.stall_s == seen.open_stall_s == seen.generation_s == 0
        assert seen.stall_share is None
        assert seen.tpot_mean_request_weighted is seen.itl_mean_token_weighted is None
        assert seen.output_tokens == seen.wasted_input_tokens == seen.wasted_output_tokens == 0
        assert seen.wasted_tokens_estimated == seen.wasted_attempts_uncounted == 0
        assert seen.hedges_started == seen.hedges_won == 0
        assert seen.attempts == {
            kind: {"won": 0, "lost": 0, "failed": 0, "cancelled": 0}
            for kind in ("primary", "hedge", "retry")
        }
        for name in ("ttft_ms", "longest_silence_ms", "stall_duration_ms", "cancel_to_closed_ms"):
            assert getattr(seen, name) == Distribution()
    unused = stats.models["unused"]
    assert unused.outcomes == {"complete": 0, "failed": 0, "cancelled": 0}
    assert unused.hedges_refused == dict.fromkeys(get_args(RefusalReason), 0)
    for cohort in (unused.hedged, unused.holdout):
        assert (cohort.calls, cohort.failed) == (0, 0)
        assert cohort.total_ms == cohort.ttft_ms == Distribution()


def test_the_level_of_each_purse_is_that_of_the_moment() -> None:
    stats = ledger()
    assert {name: model.budget_level for name, model in stats.models.items()} == LEVELS


def test_what_is_held_of_each_target_is_that_of_the_moment() -> None:
    stats = ledger()
    for name, state in STATES.items():
        assert (stats.targets[name].standing, stats.targets[name].after_s) == (
            *(state.standing, state.after_s),
        )


def test_a_call_that_made_no_attempt_is_one_of_its_model_alone() -> None:
    stats = ledger(call(outcome="cancelled"))
    assert stats.models["fast"].calls == stats.models["fast"].outcomes["cancelled"] == 1
    assert [target.calls for target in stats.targets.values()] == [0, 0, 0]


# Who is told of what


# eu sends a piece, stalls for 3 s, goes on, and falls silent; after 5 s of it a hedge at us takes
# over, answers in 2 s without a stall, and wins.
FRONT = attrs.evolve(
    EMPTY,
    chunk_count=10,
    ttft_ms=1600.0,
    generation_ms=4000.0,
    stall_ms=3000.0,
    stall_gap_count=1,
    stall_count=1,
    max_gap_ms=3000.0,
    open_gap_ms=5200.0,
    stalls=(stall(3000.0), stall(5200.0, is_open=True)),
)
RESCUE = attrs.evolve(
    EMPTY,
    chunk_count=20,
    ttft_ms=200.0,
    generation_ms=2000.0,
    stall_ms=0.0,
    stall_gap_count=0,
    stall_count=0,
    max_gap_ms=150.0,
    output_tokens=101,
    tpot_ms=20.0,
)
RESCUED = call(
    attempt(
        FRONT,
        target="eu",
        outcome="lost",
        end_kind="cancelled",
        cancel_to_closed_ms=0.25,
        wasted=waste("estimate", input_tokens=30, output_tokens=40),
    ),
    attempt(RESCUE, target="us", kind="hedge"),
    figures=attrs.evolve(RESCUE, ttft_ms=10_800.0),
    refused={"budget": 2},
)


def test_a_stall_of_the_loser_is_a_stall_of_its_target() -> None:
    eu = ledger(RESCUED).targets["eu"]
    assert (eu.calls, eu.stalled_calls, eu.stalls) == (1, 1, 2)
    assert (eu.stall_s, eu.open_stall_s, eu.generation_s) == (3.0, 5.2, 4.0)
    assert eu.stall_share == 0.75
    assert_values(eu.ttft_ms, 1600)
    assert_values(eu.longest_silence_ms, 5200)
    assert_values(eu.stall_duration_ms, 3000, 5200)
    assert_values(eu.cancel_to_closed_ms, 0.25)
    assert eu.attempts["primary"] == {"won": 0, "lost": 1, "failed": 0, "cancelled": 0}
    assert (eu.hedges_started, eu.hedges_won) == (0, 0)


def test_what_the_loser_cost_is_wasted_at_its_target() -> None:
    eu = ledger(RESCUED).targets["eu"]
    assert (eu.wasted_input_tokens, eu.wasted_output_tokens, eu.output_tokens) == (30, 40, 0)
    assert (eu.wasted_tokens_estimated, eu.wasted_attempts_uncounted) == (70, 0)
    assert eu.tpot_mean_request_weighted is eu.itl_mean_token_weighted is None


def test_the_target_of_the_hedge_has_the_figures_of_the_hedge() -> None:
    us = ledger(RESCUED).targets["us"]
    assert (us.calls, us.stalled_calls, us.stalls, us.stall_share) == (1, 0, 0, 0.0)
    assert (us.hedges_started, us.hedges_won, us.output_tokens) == (1, 1, 101)
    assert_values(us.ttft_ms, 200)
    assert_values(us.longest_silence_ms, 150)
    assert us.stall_duration_ms == us.cancel_to_closed_ms == Distribution()
    assert (us.tpot_mean_request_weighted, us.itl_mean_token_weighted) == (20.0, 20.0)
    assert us.wasted_input_tokens == us.wasted_output_tokens == 0


def test_a_model_has_the_times_that_callers_saw_and_the_costs_of_all_attempts() -> None:
    fast = ledger(RESCUED).models["fast"]
    assert (fast.calls, fast.stalled_calls, fast.stalls) == (1, 0, 0)
    assert (fast.stall_s, fast.open_stall_s, fast.generation_s) == (0.0, 0.0, 2.0)
    assert_values(fast.ttft_ms, 10_800)
    assert_values(fast.longest_silence_ms, 150)
    assert_values(fast.cancel_to_closed_ms, 0.25)
    assert (fast.hedges_started, fast.hedges_won) == (1, 1)
    assert fast.hedges_refused["budget"] == 2
    assert (fast.output_tokens, fast.wasted_input_tokens, fast.wasted_output_tokens) == (
        101,
        30,
        40,
    )
    assert fast.outcomes == {"complete": 1, "failed": 0, "cancelled": 0}


def test_two_attempts_at_one_target_are_one_call_of_it() -> None:
    stalled = attrs.evolve(EMPTY, stall_count=2)
    again = call(
        attempt(stalled, outcome="failed", wasted=waste("unknown")),
        attempt(stalled, kind="retry"),
    )
    eu = ledger(again, again).targets["eu"]
    assert (eu.calls, eu.stalled_calls, eu.stalls) == (2, 2, 8)
    assert eu.attempts["retry"]["won"] == eu.attempts["primary"]["failed"] == 2
    assert eu.wasted_attempts_uncounted == 2


def test_a_stream_that_ended_in_a_stall_after_its_only_chunk_stalled() -> None:
    only = attrs.evolve(EMPTY, chunk_count=1, stalls=[stall(9000.0, is_open=True)])
    eu = ledger(call(attempt(only))).targets["eu"]
    assert (eu.stalls, eu.stalled_calls, eu.stall_s, eu.open_stall_s) == (1, 1, 0.0, 9.0)
    assert eu.stall_share is None


@pytest.mark.parametrize(
    ("max_gap_ms", "open_gap_ms", "longest"),
    [(None, None, []), (7.0, None, [7]), (None, 9.0, [9]), (7.0, 9.0, [9]), (9.0, 7.0, [9])],
)
def test_the_longest_silence_is_the_one_that_was_lived_through(
    max_gap_ms: float | None, open_gap_ms: float | None, longest: list[float]
) -> None:
    figures = attrs.evolve(EMPTY, max_gap_ms=max_gap_ms, open_gap_ms=open_gap_ms)
    assert_values(ledger(call(attempt(figures))).targets["eu"].longest_silence_ms, *longest)


def test_an_attempt_that_was_cancelled_before_it_had_content_is_no_sample() -> None:
    cut_off = attempt(outcome="lost", end_kind="cancelled", wasted=waste("unknown"))
    stats = ledger(call(cut_off, attempt(attrs.evolve(EMPTY, ttft_ms=100.0), target="us")))
    assert stats.targets["eu"].ttft_ms.count == 0
    assert stats.targets["us"].ttft_ms.count == 1


@pytest.mark.parametrize("confidence", ["exact", "at_least", "estimate", "unknown"])
def test_wasted_tokens_say_how_well_they_are_known(confidence: WasteConfidence) -> None:
    prompt = None if confidence == "unknown" else 5
    lost = attempt(outcome="lost", wasted=waste(confidence, input_tokens=prompt))
    eu = ledger(call(lost)).targets["eu"]
    assert (eu.wasted_input_tokens, eu.wasted_output_tokens) == (prompt or 0, 0)
    assert eu.wasted_tokens_estimated == (5 if confidence == "estimate" else 0)
    assert eu.wasted_attempts_uncounted == (confidence == "unknown")


def test_what_was_delivered_before_a_continue_seam_is_not_wasted() -> None:
    # eu breaks after 40 tokens, us goes on: both are in the answer, and nothing was in vain.
    broken = attempt(attrs.evolve(EMPTY, output_tokens=40), outcome="failed", end_kind="cut")
    going_on = attempt(timed(900.0, 10), target="us", kind="retry")
    stats = ledger(call(broken, going_on, figures=timed(900.0, 10)))
    assert stats.models["fast"].output_tokens == 50
    assert (stats.targets["eu"].output_tokens, stats.targets["us"].output_tokens) == (40, 10)
    assert stats.models["fast"].wasted_attempts_uncounted == 0


# The cohorts


def answered(total_ms: float, ttft_ms: float | None, *, holdout: bool | None) -> CallEnded:
    figures = attrs.evolve(EMPTY, total_ms=total_ms, ttft_ms=ttft_ms)
    return call(figures=figures, holdout=holdout)


def assert_cohort(seen: Cohort, *, calls: int, failed: int = 0) -> None:
    assert (seen.calls, seen.failed, seen.total_ms.count) == (calls, failed, calls - failed)


def test_the_calls_of_the_holdout_are_kept_apart_from_those_that_could_be_hedged() -> None:
    fast = ledger(
        answered(8000, 1600, holdout=False),
        answered(9000, 1700, holdout=False),
        answered(60_000, 1500, holdout=True),
    ).models["fast"]
    assert_cohort(fast.hedged, calls=2)
    assert_values(fast.hedged.total_ms, 8000, 9000)
    assert_values(fast.hedged.ttft_ms, 1600, 1700)
    assert_cohort(fast.holdout, calls=1)
    assert_values(fast.holdout.total_ms, 60_000)
    assert_values(fast.holdout.ttft_ms, 1500)


def test_where_nothing_is_hedged_in_any_case_a_call_is_in_neither_cohort() -> None:
    fast = ledger(answered(8000, 1600, holdout=None)).models["fast"]
    assert fast.calls == 1
    assert_cohort(fast.hedged, calls=0)
    assert_cohort(fast.holdout, calls=0)


@pytest.mark.parametrize("holdout", [False, True])
def test_a_call_that_failed_counts_in_its_cohort_and_has_no_times_there(holdout: bool) -> None:
    failed = call(figures=attrs.evolve(EMPTY, ttft_ms=5.0), outcome="failed", holdout=holdout)
    fast = ledger(failed, answered(8000, 1600, holdout=holdout)).models["fast"]
    assert_cohort(fast.holdout if holdout else fast.hedged, calls=2, failed=1)
    assert_cohort(fast.hedged if holdout else fast.holdout, calls=0)


@pytest.mark.parametrize("holdout", [False, True])
def test_a_call_that_its_caller_left_is_in_no_cohort(holdout: bool) -> None:
    fast = ledger(call(outcome="cancelled", holdout=holdout)).models["fast"]
    assert_cohort(fast.hedged, calls=0)
    assert_cohort(fast.holdout, calls=0)


def test_a_whole_answer_without_content_has_no_time_to_it_in_its_cohort() -> None:
    fast = ledger(answered(8000, None, holdout=False)).models["fast"]
    assert (fast.hedged.total_ms.count, fast.hedged.ttft_ms.count) == (1, 0)


def test_cohorts_are_kept_for_good_because_few_calls_are_in_the_holdout() -> None:
    # One call in a hundred, and one call a second: three in five minutes.
    kept = Ledger(TARGETS, MODELS)
    for second in range(0, 10_000, 100):
        event = answered(8000, 1600, holdout=True)
        attrs.evolve(event, at_ns=START + second * SECOND).tell(kept)
    fast = kept.snapshot(START + 20_000 * SECOND, LEVELS, STATES).models["fast"]
    assert fast.holdout.total_ms.count == fast.holdout.ttft_ms.count == 100
    assert fast.ttft_ms.count == 0


# Ratios


def test_the_weight_of_a_long_answer_is_told_by_the_name_of_the_ratio() -> None:
    short, long = timed(900.0, 10), timed(10_000.0, 1001)  # 100 ms and 10 ms a token
    stats = ledger(*(call(attempt(each), figures=each) for each in (short, long)))
    for seen in (stats.targets["eu"], stats.models["fast"]):
        assert seen.tpot_mean_request_weighted == 55.0
        assert seen.itl_mean_token_weighted == pytest.approx(10_900 / 1009)


@pytest.mark.parametrize("end_kind", ["cut", "error", "watchdog", "cancelled"])
def test_what_did_not_end_properly_never_enters_a_targets_pace(end_kind: EndKind) -> None:
    good, bad = attempt(timed(900.0, 10)), attempt(timed(1.0, 1001), end_kind=end_kind)
    eu = ledger(call(good), call(bad)).targets["eu"]
    assert (eu.tpot_mean_request_weighted, eu.itl_mean_token_weighted) == (100.0, 100.0)


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_what_failed_or_was_left_never_enters_a_models_pace(outcome: CallOutcome) -> None:
    good, bad = call(figures=timed(900.0, 10)), call(figures=timed(1.0, 1001), outcome=outcome)
    fast = ledger(good, bad).models["fast"]
    assert (fast.tpot_mean_request_weighted, fast.itl_mean_token_weighted) == (100.0, 100.0)


# Time


def test_counts_are_kept_for_good_and_distributions_for_five_minutes() -> None:
    kept = Ledger(TARGETS, MODELS)
    slow = attrs.evolve(EMPTY, ttft_ms=100.0, generation_ms=1000.0)
    call(attempt(slow), figures=slow).tell(kept)
    for seconds, samples in ((0, 1), (269, 1), (301, 0), (10**9, 0)):
        stats = kept.snapshot(START + seconds * SECOND, LEVELS, STATES)
        for seen in (stats.targets["eu"], stats.models["fast"]):
            assert (seen.calls, seen.generation_s, seen.ttft_ms.count) == (1, 1.0, samples)


def test_a_snapshot_does_not_change_when_calls_go_on() -> None:
    kept = Ledger(TARGETS, MODELS)
    RESCUED.tell(kept)
    before, again = (kept.snapshot(START, LEVELS, STATES) for _ in range(2))
    RESCUED.tell(kept)
    assert before == again != kept.snapshot(START, LEVELS, STATES)


@pytest.mark.parametrize("ns", [1, 249, 100_000_000, 5_184_000 * SECOND])
def test_a_thousand_durations_add_up_exactly(ns: int) -> None:
    # In float seconds ten times 0.1 is less than 1; and 249 / 1e6 * 1e6 is less than 249.
    each = attrs.evolve(EMPTY, generation_ms=ns / 1e6, stall_ms=ns / 1e6)
    eu = ledger(*[call(attempt(each))] * 1000).targets["eu"]
    assert eu.generation_s == eu.stall_s == 1000 * ns / 1e9


# Against a plain recount


def known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def recount_attempts(seen: Aggregate, attempts: Sequence[AttemptStats]) -> None:
    for kind in get_args(AttemptKind):
        for outcome in get_args(Outcome):
            fitting = [a for a in attempts if a.kind == kind and a.outcome == outcome]
            assert seen.attempts[kind][outcome] == len(fitting)
    assert seen.hedges_started == sum(a.kind == "hedge" for a in attempts)
    assert seen.output_tokens == sum(known(a.output_tokens for a in attempts if not a.wasted))
    wastes = [a.wasted for a in attempts if a.wasted]
    inputs, outputs = known(w.input_tokens for w in wastes), known(w.output_tokens for w in wastes)
    assert (seen.wasted_input_tokens, seen.wasted_output_tokens) == (sum(inputs), sum(outputs))
    guesses = [w for w in wastes if w.confidence == "estimate"]
    counts = known(count for w in guesses for count in (w.input_tokens, w.output_tokens))
    assert seen.wasted_tokens_estimated == sum(counts)
    assert seen.wasted_attempts_uncounted == sum(w.confidence == "unknown" for w in wastes)


def recount_streams(seen: Aggregate, streams: Sequence[StreamFigures]) -> None:
    open_stalls = [stall for s in streams for stall in s.stalls if stall.open]
    assert seen.stalls == sum(known(s.stall_count for s in streams)) + len(open_stalls)
    stall_ms = math.fsum(known(s.stall_ms for s in streams))
    generation_ms = math.fsum(known(s.generation_ms for s in streams))
    assert seen.stall_s == pytest.approx(stall_ms / 1000)
    assert seen.generation_s == pytest.approx(generation_ms / 1000)
    assert seen.open_stall_s == pytest.approx(sum(s.duration_ms for s in open_stalls) / 1000)
    share = pytest.approx(stall_ms / generation_ms) if generation_ms else None
    assert seen.stall_share == share


def recount_pace(seen: Aggregate, whole: Sequence[StreamFigures]) -> None:
    counted = [s for s in whole if s.tpot_ms is not None]
    tpots = known(s.tpot_ms for s in counted)
    tokens = sum(count - 1 for count in known(s.output_tokens for s in counted))
    generation_ms = math.fsum(known(s.generation_ms for s in counted))
    mean = pytest.approx(math.fsum(tpots) / len(tpots)) if tpots else None
    assert seen.tpot_mean_request_weighted == mean
    assert seen.itl_mean_token_weighted == (
        pytest.approx(generation_ms / tokens) if tpots else None
    )


def recount_recent(
    seen: Aggregate, attempts: Sequence[AttemptStats], streams: Sequence[StreamFigures]
) -> None:
    silences = [known((s.max_gap_ms, s.open_gap_ms)) for s in streams]
    assert_values(seen.ttft_ms, *sorted(known(s.ttft_ms for s in streams)))
    assert_values(seen.longest_silence_ms, *sorted(max(each) for each in silences if each))
    stalls = [stall.duration_ms for s in streams for stall in s.stalls]
    assert_values(seen.stall_duration_ms, *sorted(stalls))
    assert_values(seen.cancel_to_closed_ms, *sorted(known(a.cancel_to_closed_ms for a in attempts)))


def recount_cohort(seen: Cohort, mine: Sequence[CallEnded]) -> None:
    whole = [c.stats for c in mine if c.outcome == "complete"]
    assert seen.calls == sum(c.outcome != "cancelled" for c in mine)
    assert seen.failed == sum(c.outcome == "failed" for c in mine)
    assert_values(seen.total_ms, *sorted(s.total_ms for s in whole))
    assert_values(seen.ttft_ms, *sorted(known(s.ttft_ms for s in whole)))


def test_of_a_ledger_that_nobody_reads_few_records_are_kept() -> None:
    kept = Ledger(TARGETS, MODELS)

    def tell() -> weakref.ref[CallStats]:
        event = attrs.evolve(RESCUED, stats=attrs.evolve(RESCUED.stats))
        kept.call_ended(event)
        return weakref.ref(event.stats)

    records = [tell() for _ in range(100)]
    assert sum(record() is not None for record in records) < 20


def stalled(streams: Iterable[StreamFigures]) -> bool:
    return any(s.stall_count or any(stall.open for stall in s.stalls) for s in streams)


@given(st.lists(calls(), max_size=6))
def test_every_figure_is_that_of_a_plain_recount(drawn: list[CallEnded]) -> None:
    ended = sorted(drawn, key=lambda event: event.at_ns)
    now = ended[-1].at_ns if ended else START
    stats = ledger(*ended, now_ns=now)
    recent = [c for c in ended if now // (30 * SECOND) - c.at_ns // (30 * SECOND) < 10]
    for name, target in stats.targets.items():
        by_call = [[a for a in c.stats.attempts if a.target == name] for c in ended]
        attempts = [a for each in by_call for a in each]
        assert target.calls == sum(bool(each) for each in by_call)
        assert target.stalled_calls == sum(map(stalled, by_call))
        recount_attempts(target, attempts)
        recount_streams(target, attempts)
        recount_pace(target, [a for a in attempts if a.end_kind == "complete"])
        late = [a for c in recent for a in c.stats.attempts if a.target == name]
        recount_recent(target, late, late)
    for name, model in stats.models.items():
        mine = [c for c in ended if c.model == name]
        assert model.calls == len(mine) == sum(model.outcomes.values())
        assert model.stalled_calls == sum(stalled([c.stats]) for c in mine)
        recount_attempts(model, [a for c in mine for a in c.stats.attempts])
        recount_streams(model, [c.stats for c in mine])
        recount_pace(model, [c.stats for c in mine if c.outcome == "complete"])
        late_calls = [c for c in recent if c.model == name]
        recount_recent(
            model,
            [a for c in late_calls for a in c.stats.attempts],
            [c.stats for c in late_calls],
        )
        recount_cohort(model.hedged, [c for c in mine if c.stats.holdout is False])
        recount_cohort(model.holdout, [c for c in mine if c.stats.holdout])
        for outcome in get_args(CallOutcome):
            assert model.outcomes[outcome] == sum(c.outcome == outcome for c in mine)
        for why in get_args(RefusalReason):
            refused = (c.stats.hedges_refused.get(why, 0) for c in mine)
            assert model.hedges_refused[why] == sum(refused)
