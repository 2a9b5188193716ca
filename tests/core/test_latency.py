from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import event, given, strategies as st

from polygateway.core.latency import LEARNED_NS, Latency, _curve, _Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

MS = 1_000_000
SECOND = 1_000_000_000
HOUR = 3600 * SECOND
START = 10**15 + 1


class Sample(NamedTuple):
    """How long something lasted, in nanoseconds, and whether it was cut off then."""

    lasted: int
    censored: bool = False


def ended(*seconds: float) -> list[Sample]:
    return [Sample(round(each * SECOND)) for each in seconds]


def cut_off(*seconds: float) -> list[Sample]:
    return [Sample(round(each * SECOND), censored=True) for each in seconds]


def learned(
    contents: list[Sample] | None = None, silences: list[Sample] | None = None, now: int = START
) -> Latency:
    latency = Latency()
    for lasted, censored in contents or []:
        latency.first_content(lasted, now, censored=censored)
    for lasted, censored in silences or []:
        latency.silence(lasted, now, censored=censored)
    return latency


# ---------------------------------------------------------------- the estimate

# Weeks of remission of children with leukaemia (Freireich and others, 1963), with which Gehan
# (1965) and most textbooks since then explain censoring.
TREATED = [
    *ended(6, 6, 6, 7, 10, 13, 16, 22, 23),
    *cut_off(6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35),
]
PLACEBO = ended(1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23)


def test_the_estimate_is_that_of_the_textbooks() -> None:
    curve = _curve(sorted(TREATED))
    weeks = [lasted // SECOND for lasted in curve.lasted]
    table = dict(zip(weeks, (left / 10**18 for left in curve.left), strict=True))
    expected = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}
    assert {week: round(left, 3) for week, left in table.items()} == expected


@pytest.mark.parametrize(("samples", "median"), [(TREATED, 23), (PLACEBO, 8)])
def test_the_median_is_that_of_the_textbooks(samples: list[Sample], median: int) -> None:
    assert learned(samples).median_first_ns(START) == median * SECOND


def test_with_nothing_cut_off_the_percentile_is_the_sample_of_that_rank() -> None:
    # Of n samples the one after which at most a twentieth is left. 1 - 57 * (1 / 60), in floats,
    # is a little more than that.
    for count in range(60, 301):
        latency = learned([Sample(rank**2 * MS) for rank in range(1, count + 1)])
        assert latency.median_first_ns(START) == math.ceil(count / 2) ** 2 * MS
        assert latency.after_ns(START) == min(math.ceil(count * 19 / 20) ** 2 * MS, 30 * SECOND)


def test_what_was_cut_off_weighs_on_all_that_took_longer() -> None:
    # 100 samples, the shortest 10 cut off. The others weigh 1/90 each then, and a twentieth is left
    # after 86 of them (4 of 90), not after 85 (5 of 90). With whole ones, it is the 95th of all.
    late = ended(*[0.2] * 60, *(2 + rank / 100 for rank in range(61, 91)))
    assert learned(late + cut_off(*[0.1] * 10)).after_ns(START) == 2860 * MS
    assert learned(late + ended(*[0.1] * 10)).after_ns(START) == 2850 * MS


def test_survivors_alone_make_a_target_look_fast() -> None:
    # Of 100, 20 lost at 3 s without content. Two of the others took longer than that.
    fast, slow = ended(*[0.2] * 78), ended(8.0, 9.0)
    assert learned([*fast, *slow]).after_ns(START) == 600 * MS
    assert learned([*fast, *slow, *cut_off(*[3.0] * 20)]).after_ns(START) == 9 * SECOND


def test_of_equal_samples_those_cut_off_took_longer() -> None:
    # 57 of 60 have ended at 2 s, if the one that was cut off then counts as left: 3 of 60.
    samples = [*ended(*[0.5] * 56), *cut_off(2.0), *ended(2.0, 7.0, 7.0)]
    assert learned(samples).after_ns(START) == 2 * SECOND


def test_a_share_that_was_never_seen_to_come_counts_as_come_with_the_longest_sample() -> None:
    samples = [*ended(*[1.0] * 56), *cut_off(4.0, 6.0, 8.0, 5.0)]
    assert learned(samples).after_ns(START) == 8 * SECOND
    assert learned(cut_off(*range(1, 61))).median_first_ns(START) == 60 * SECOND


# ---------------------------------------------------------------- first content


def test_nothing_is_late_before_sixty_samples_and_there_is_no_median_before_five() -> None:
    latency = Latency()
    for count in range(1, 62):
        latency.first_content(SECOND, START + count, censored=count % 7 == 0)
        assert (latency.median_first_ns(START + count) is None) == (count < 5)
        assert (latency.after_ns(START + count) is None) == (count < 60)


@pytest.mark.parametrize(
    ("usual", "slow", "after"),
    [
        (0.1, 5.0, 5.0),
        (1.6, 4.9, 4.9),
        (1.6, 4.7, 4.8),
        (1.6, 1.6, 4.8),
        *[(0.0, 0.0, 0.5), (0.0, 0.499, 0.5), (0.166, 0.4, 0.5), (0.167, 0.4, 0.501)],
        *[(0.0, 29.9, 29.9), (0.0, 30.1, 30.0), (9.9, 10.0, 29.7), (10.1, 11.0, 30.0)],
    ],
)
def test_late_is_what_19_of_20_are_not_and_no_sooner_than_three_times_the_median(
    usual: float, slow: float, after: float
) -> None:
    latency = learned(ended(*[usual] * 56, *[slow] * 4))
    assert latency.after_ns(START) == round(after * SECOND)
    assert latency.median_first_ns(START) == round(usual * SECOND)


def test_first_contents_and_silences_have_nothing_to_do_with_each_other() -> None:
    latency = learned(ended(*[3.0] * 60))
    assert latency.stall_after_ns(0, START) is None
    latency = learned(silences=ended(*[3.0] * 60))
    assert latency.after_ns(START) is None
    assert latency.median_first_ns(START) is None


# ---------------------------------------------------------------- silences


@pytest.mark.parametrize(
    ("silences", "cost", "wait"),
    [
        # Each lasts 3 s: after 2 s, a second remains. It is worth a cost of a second, not of more.
        (ended(*[3.0] * 20), 1.0, 2.0),
        (ended(*[3.0] * 20), 1.1, 10.0),
        # Pauses of 3 s, stalls of a minute. If half are pauses, they are let go by.
        (ended(*[3.0] * 11, *[60.0] * 9), 5.0, 3.0),
        (ended(*[3.0] * 10, *[60.0] * 10), 5.0, 3.0),
        (ended(*[3.0] * 9, *[60.0] * 11), 5.0, 2.0),
        (ended(2.5, *[3.0] * 9, *[60.0] * 10), 5.0, 2.5),
        # Who loses more by a new start waits longer for the pauses to end.
        (ended(*[4.0] * 12, *[9.0] * 6, *[60.0] * 3), 1.9, 2.0),
        (ended(*[4.0] * 12, *[9.0] * 6, *[60.0] * 3), 5.0, 4.0),
        (ended(*[4.0] * 12, *[9.0] * 6, *[60.0] * 3), 5.1, 9.0),
        # Over ten seconds nothing is waited, whatever it would cost.
        (ended(*[60.0] * 20), 59.0, 10.0),
        (ended(*[11.0] * 19, 90.0), 10.0, 10.0),
        # What ended only with the attempt may have gone on for ever.
        (cut_off(*[2.5] * 20), 1e6, 2.0),
        (ended(*[2.5] * 10) + cut_off(*[4.0] * 10), 30.0, 2.5),
        (ended(*[2.5] * 9) + cut_off(*[4.0] * 11), 30.0, 2.0),
        # At risk at 4 s are the 10 that were not cut off before: 6 of them go on for long.
        (cut_off(*[3.0] * 30) + ended(*[5.0] * 4, *[60.0] * 6), 20.0, 2.0),
        (cut_off(*[3.0] * 30) + ended(*[5.0] * 6, *[60.0] * 4), 20.0, 5.0),
    ],
)
def test_a_silence_is_waited_for_until_half_would_go_on_for_longer_than_a_new_start_costs(
    silences: list[Sample], cost: float, wait: float
) -> None:
    latency = learned(silences=silences)
    assert latency.stall_after_ns(round(cost * SECOND), START) == round(wait * SECOND)


def test_nothing_is_said_of_silences_before_twenty() -> None:
    latency = Latency()
    for count in range(1, 22):
        latency.silence(3 * SECOND, START + count, censored=count % 7 == 0)
        assert (latency.stall_after_ns(SECOND, START + count) is None) == (count < 20)


def test_shorter_silences_than_the_least_wait_are_no_samples() -> None:
    latency = Latency()
    for _ in range(1000):
        latency.silence(LEARNED_NS - 1, START)
    assert latency.stall_after_ns(0, START) is None
    for _ in range(20):
        latency.silence(LEARNED_NS, START)
    assert latency.stall_after_ns(0, START) == LEARNED_NS == 2 * SECOND


def test_silences_that_all_end_when_they_are_noticed_are_let_go_by() -> None:
    latency = learned(silences=ended(*[2.0] * 20))
    assert latency.stall_after_ns(1, START) == 10 * SECOND


# ---------------------------------------------------------------- the window


def test_the_last_three_hundred_samples_count() -> None:
    latency = learned(ended(*[9.0] * 300), ended(*[60.0] * 300))
    for _ in range(300):
        latency.first_content(SECOND, START)
        latency.silence(3 * SECOND, START)
    assert latency.after_ns(START) == 3 * SECOND
    assert latency.stall_after_ns(5 * SECOND, START) == 10 * SECOND


def test_of_three_hundred_samples_the_oldest_goes_first() -> None:
    # 15 of 300 is a twentieth, 16 is more than one.
    latency = learned([*ended(*[9.0] * 16), *ended(*[1.0] * 284)])
    assert latency.after_ns(START) == 9 * SECOND
    latency = learned([*ended(*[9.0] * 16), *ended(*[1.0] * 285)])
    assert latency.after_ns(START) == 3 * SECOND


def test_an_hour_old_sample_counts_and_an_older_one_does_not() -> None:
    latency = learned(ended(*[1.0] * 60), ended(*[3.0] * 20))
    assert latency.after_ns(START + HOUR) == 3 * SECOND
    assert latency.median_first_ns(START + HOUR) == SECOND
    assert latency.stall_after_ns(SECOND, START + HOUR) == 2 * SECOND
    assert latency.after_ns(START + HOUR + 1) is None
    assert latency.median_first_ns(START + HOUR + 1) is None
    assert latency.stall_after_ns(SECOND, START + HOUR + 1) is None


def test_what_is_old_has_no_part_in_what_is_new() -> None:
    latency = learned(ended(*[9.0] * 200))
    for _ in range(60):
        latency.first_content(SECOND, START + HOUR // 2)
    assert latency.after_ns(START + HOUR) == 27 * SECOND
    assert latency.after_ns(START + HOUR + 1) == 3 * SECOND


def test_a_target_that_is_called_once_a_minute_is_known_after_an_hour_and_stays_so() -> None:
    latency, asked = Latency(), list[bool]()
    for minute in range(600):
        now = START + minute * 60 * SECOND
        asked.append(latency.after_ns(now) is not None)
        if minute % 10 != 9 or minute < 60:  # later, it misses one in ten
            latency.first_content(2 * SECOND, now + 2 * SECOND)
    assert asked == [False] * 60 + [True] * 540


def test_what_is_known_is_forgotten_when_fewer_than_half_are_left() -> None:
    latency = Latency()
    for minute in range(60):
        latency.first_content(SECOND, START + minute)
    assert latency.after_ns(START + 59) == 3 * SECOND
    assert latency.after_ns(START + HOUR + 30) == 3 * SECOND, "of the minutes 30 to 59 there are 30"
    assert latency.after_ns(START + HOUR + 31) is None
    latency.first_content(SECOND, START + HOUR + 31)
    assert latency.after_ns(START + HOUR + 31) is None, "thirty again, but no longer known"


def test_a_question_of_a_call_that_began_before_the_last_samples_is_answered() -> None:
    latency = learned(ended(*[1.0] * 60), ended(*[3.0] * 20), now=START + 10 * SECOND)
    assert latency.after_ns(START) == 3 * SECOND
    assert latency.stall_after_ns(SECOND, START) == 2 * SECOND


def test_an_answer_lags_by_no_more_than_a_sixteenth_of_the_samples() -> None:
    random = Random(7)
    latency, exact, kept = Latency(), list[int | None](), list[Sample]()
    for count in range(600):
        sample = Sample(round(random.random() ** 3 * 20 * SECOND), random.random() < 0.1)
        kept = [*kept, sample][-300:]
        latency.first_content(sample.lasted, START + count, censored=sample.censored)
        exact.append(learned(kept).after_ns(START))
        lag = len(kept) // 16 + 1
        assert latency.after_ns(START + count) in exact[-lag:]


def test_questions_cost_nothing_while_nothing_changes_and_little_a_sample_else() -> None:
    sums = list[int]()

    def summarise(samples: Sequence[tuple[int, bool]]) -> int:
        sums.append(len(samples))
        return len(samples)

    window = _Window(summarise, enough=60)
    for count in range(300):
        window.add(count, START, censored=False)
    for _ in range(10_000):
        assert window.known(START) == 300
    assert sums == [300]
    for count in range(1900):
        window.add(count, START, censored=False)
        assert window.known(START) == 300
    assert len(sums) == 1 + 100, "every 19 samples: more than a sixteenth of 300"


# ---------------------------------------------------------------- brute force

# Tenths of a second, so that samples are often equal, and every time can be tried.
TICK = SECOND // 10


def of_ticks(ticks: Sequence[int], *, min_size: int) -> SearchStrategy[list[Sample]]:
    """Draw samples of so many ticks; one number for each is drawn faster than two values."""
    whole_or_not = (False, False, False, True)
    kinds = [Sample(each * TICK, censored) for each in ticks for censored in whole_or_not]
    numbers = st.lists(st.integers(0, len(kinds) - 1), min_size=min_size, max_size=80)
    return numbers.map(lambda drawn: [kinds[number] for number in drawn])


# Cubes, so that the slowest take several times the median.
CONTENTS = of_ticks([root**3 // 20 for root in range(18)], min_size=60)
SILENCES = of_ticks(range(20, 131), min_size=20)
COSTS = st.integers(0, 150).map(lambda ticks: ticks * TICK)


def product_limit(samples: list[Sample]) -> dict[int, Fraction]:
    """Give the estimate, as Kaplan and Meier wrote it, of what share lasts longer than a time."""
    product, shares = Fraction(1), dict[int, Fraction]()
    for time in sorted({each.lasted for each in samples if not each.censored}):
        at_risk = sum(each.lasted >= time for each in samples)
        ends = sum(each.lasted == time and not each.censored for each in samples)
        product *= 1 - Fraction(ends, at_risk)
        shares[time] = product
    return shares


def quantile(samples: list[Sample], share: Fraction) -> int:
    reached = [time for time, left in product_limit(samples).items() if left <= share]
    return min(reached, default=max(samples).lasted)


def late(samples: list[Sample]) -> int:
    percentile, median = quantile(samples, Fraction(1, 20)), quantile(samples, Fraction(1, 2))
    return min(max(percentile, 3 * median, SECOND // 2), 30 * SECOND)


def worth_it(shares: dict[int, Fraction], waited: int, cost: int) -> bool:
    """Tell whether the median of what remains after a wait is at least a cost."""
    at_risk = min((left for time, left in shares.items() if time <= waited), default=Fraction(1))
    halved = [time for time, left in shares.items() if time > waited and left <= at_risk / 2]
    return at_risk > 0 and (not halved or min(halved) - waited >= cost)


@given(CONTENTS)
def test_the_percentile_and_the_median_are_those_of_the_brute_force(samples: list[Sample]) -> None:
    latency = learned(samples)
    assert latency.after_ns(START) == late(samples)
    assert latency.median_first_ns(START) == quantile(samples, Fraction(1, 2))
    event(f"seen: {min(product_limit(samples).values(), default=1) <= Fraction(1, 20)}")
    event(f"late: {late(samples) // SECOND} s")


@given(SILENCES, COSTS.filter(bool))
def test_the_wait_is_the_first_of_all_that_is_worth_it(samples: list[Sample], cost: int) -> None:
    # Samples and costs are whole ticks: whatever holds between two ticks holds at the one before.
    waits = range(20 * TICK, 100 * TICK + 1, TICK)
    shares = product_limit(samples)
    expected = next((wait for wait in waits if worth_it(shares, wait, cost)), 10 * SECOND)
    assert learned(silences=samples).stall_after_ns(cost, START) == expected
    event(f"wait: {expected // SECOND} s")


# ---------------------------------------------------------------- laws


@given(CONTENTS, st.randoms(use_true_random=False), st.integers(0, 10**18))
def test_neither_order_nor_clock_matters(samples: list[Sample], random: Random, now: int) -> None:
    mixed = random.sample(samples, len(samples))
    one, other = learned(samples, samples), learned(mixed, mixed, now)
    assert one.after_ns(START) == other.after_ns(now)
    assert one.median_first_ns(START) == other.median_first_ns(now)
    for cost in range(0, 20 * SECOND, SECOND):
        assert one.stall_after_ns(cost, START) == other.stall_after_ns(cost, now)


@given(CONTENTS, st.integers(2, 1000))
def test_the_median_is_as_much_longer_as_the_samples_are(samples: list[Sample], by: int) -> None:
    longer = [each._replace(lasted=each.lasted * by) for each in samples]
    median = learned(samples).median_first_ns(START)
    assert median is not None
    assert learned(longer).median_first_ns(START) == median * by


@given(CONTENTS, st.data())
def test_a_sample_that_is_cut_off_lowers_no_estimate(
    samples: list[Sample], data: st.DataObject
) -> None:
    index = data.draw(st.sampled_from(range(len(samples))))
    instead = [*samples]
    instead[index] = samples[index]._replace(censored=True)
    before, after = learned(samples), learned(instead)
    assert (after.after_ns(START) or 0) >= (before.after_ns(START) or 0)
    assert (after.median_first_ns(START) or 0) >= (before.median_first_ns(START) or 0)


@given(SILENCES, COSTS, st.data())
def test_a_silence_that_is_cut_off_is_no_reason_to_wait_longer(
    samples: list[Sample], cost: int, data: st.DataObject
) -> None:
    index = data.draw(st.sampled_from(range(len(samples))))
    instead = [*samples]
    instead[index] = samples[index]._replace(censored=True)
    before, after = learned(silences=samples), learned(silences=instead)
    assert (after.stall_after_ns(cost, START) or 0) <= (before.stall_after_ns(cost, START) or 0)


@given(CONTENTS, st.data())
def test_a_sample_that_took_longer_lowers_no_estimate(
    samples: list[Sample], data: st.DataObject
) -> None:
    index = data.draw(st.sampled_from(range(len(samples))))
    instead = [*samples]
    more = data.draw(st.integers(0, 100))
    instead[index] = samples[index]._replace(lasted=samples[index].lasted + more * TICK)
    before, after = learned(samples), learned(instead)
    assert (after.after_ns(START) or 0) >= (before.after_ns(START) or 0)


@given(SILENCES, COSTS, COSTS)
def test_the_dearer_a_new_start_the_longer_a_silence_is_waited_for(
    samples: list[Sample], one: int, other: int
) -> None:
    latency = learned(silences=samples)
    waits = [latency.stall_after_ns(cost, START) or 0 for cost in sorted((one, other))]
    assert 2 * SECOND <= waits[0] <= waits[1] <= 10 * SECOND
