from __future__ import annotations

import itertools

from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from polygateway.core.breaker import Breaker
from polygateway.core.trials import Trials

SECOND = 1_000_000_000
PROBE = 10 * SECOND


def open_one(*, closes_after: int = 1, most_passing: int = 0, at: int = 0) -> Breaker:
    """Give a breaker that opened at *at*."""
    breaker = Breaker(least=1, closes_after=closes_after, most_passing=most_passing)
    breaker.launched(at)
    breaker.judge(good=False, launched=at, now=at)
    assert breaker.is_open
    return breaker


def probe(breaker: Breaker, at: int, *, good: bool, lasts: int = SECOND) -> None:
    """Let an attempt run that is admitted."""
    assert breaker.admits(at)
    breaker.launched(at)
    breaker.judge(good=good, launched=at, now=at + lasts)


def test_a_breaker_is_closed_at_first_and_admits_everything() -> None:
    breaker = Breaker(least=5)
    assert not breaker.is_open
    for now in range(1000):
        assert breaker.admits(now)
        breaker.launched(now)


def test_an_open_breaker_admits_nothing_for_ten_seconds() -> None:
    breaker = open_one()
    assert not breaker.admits(0)
    assert not breaker.admits(PROBE - 1)
    assert breaker.admits(PROBE)
    assert breaker.admits(100 * PROBE)


def test_a_probe_that_is_under_way_is_the_only_one_for_ten_seconds() -> None:
    breaker = open_one()
    breaker.launched(3 * PROBE)
    assert not breaker.admits(4 * PROBE - 1)
    assert breaker.admits(4 * PROBE)


def test_a_probe_that_is_cancelled_changes_nothing() -> None:
    breaker = open_one()
    breaker.launched(PROBE)
    breaker.forget(PROBE)
    assert breaker.is_open
    assert not breaker.admits(2 * PROBE - 1)
    assert breaker.admits(2 * PROBE)


def test_a_good_probe_closes_it() -> None:
    breaker = open_one()
    probe(breaker, PROBE, good=True)
    assert not breaker.is_open
    assert breaker.admits(PROBE + SECOND)


def test_a_bad_probe_leaves_it_open_and_the_next_one_is_due_ten_seconds_after_its_launch() -> None:
    breaker = open_one()
    probe(breaker, PROBE, good=False)
    assert breaker.is_open
    assert not breaker.admits(2 * PROBE - 1)
    assert breaker.admits(2 * PROBE)


def test_where_three_must_be_good_the_next_probe_is_due_as_soon_as_one_was() -> None:
    breaker = open_one(closes_after=3)
    probe(breaker, PROBE, good=True)
    probe(breaker, PROBE + SECOND, good=True)
    assert breaker.is_open
    probe(breaker, PROBE + 2 * SECOND, good=True)
    assert not breaker.is_open


def test_a_bad_probe_between_good_ones_begins_the_count_anew() -> None:
    breaker = open_one(closes_after=2)
    probe(breaker, PROBE, good=True)
    probe(breaker, 2 * PROBE, good=False)
    probe(breaker, 3 * PROBE, good=True)
    assert breaker.is_open
    probe(breaker, 4 * PROBE, good=True)
    assert not breaker.is_open


def test_good_probes_of_an_earlier_time_do_not_count_when_it_opens_again() -> None:
    breaker = open_one(closes_after=2)
    probe(breaker, PROBE, good=True)
    probe(breaker, 2 * PROBE, good=True)
    breaker.launched(3 * PROBE)
    breaker.judge(good=False, launched=3 * PROBE, now=3 * PROBE)
    probe(breaker, 4 * PROBE, good=True)
    assert breaker.is_open


def test_what_was_launched_before_it_opened_does_not_close_it() -> None:
    breaker = Breaker(least=1)
    breaker.launched(1)
    breaker.launched(2)
    breaker.judge(good=False, launched=2, now=3)
    breaker.judge(good=False, launched=1, now=3)
    assert breaker.is_open
    breaker = Breaker(least=1)
    breaker.launched(2)
    breaker.launched(1)
    breaker.judge(good=False, launched=1, now=3)
    breaker.judge(good=True, launched=2, now=4)
    assert breaker.is_open


def test_what_was_launched_before_it_closed_does_not_open_it() -> None:
    breaker = open_one()
    for at in range(2, 12):
        breaker.launched(at)
    breaker.launched(PROBE)
    breaker.judge(good=True, launched=PROBE, now=PROBE + 1)
    for at in range(2, 12):
        breaker.judge(good=False, launched=at, now=PROBE + 2)
    assert not breaker.is_open


def test_with_an_attempt_in_spite_of_it_what_that_says_counts() -> None:
    # The last target that is left is tried although its breaker is open.
    breaker = open_one()
    breaker.launched(5)
    breaker.judge(good=True, launched=5, now=6)
    assert not breaker.is_open


def passed_by(breaker: Breaker, now: int) -> int:
    """Give how many calls pass the breaker by, late as it is, before one is admitted."""
    for count in range(1, 100):
        breaker.called()
        if breaker.admits(now):
            return count - 1
    raise AssertionError("no probe is ever due")


def test_after_each_bad_probe_twice_as_many_calls_pass_before_the_next_one_up_to_a_number() -> None:
    breaker = open_one(most_passing=5)
    passed: list[int] = []
    for number in range(1, 7):
        now = number * 10 * PROBE
        passed.append(passed_by(breaker, now))
        probe(breaker, now, good=False)
    # The first call that comes is itself the probe; then every second, every fourth, every fifth.
    assert passed == [0, 0, 1, 3, 4, 4]


def test_enough_calls_alone_bring_no_probe_before_its_time() -> None:
    breaker = open_one(most_passing=5)
    for _ in range(100):
        breaker.called()
    assert not breaker.admits(PROBE - 1)
    assert breaker.admits(PROBE)


def test_after_a_good_probe_no_call_must_pass_before_the_next_one() -> None:
    breaker = open_one(closes_after=2, most_passing=100)
    for number in range(1, 6):
        passed_by(breaker, number * PROBE)
        probe(breaker, number * PROBE, good=False)
    passed_by(breaker, 6 * PROBE)
    probe(breaker, 6 * PROBE, good=True)
    probe(breaker, 6 * PROBE + SECOND, good=True)
    assert not breaker.is_open


def test_a_probe_that_is_cancelled_makes_no_more_calls_pass_by() -> None:
    breaker = open_one(most_passing=100)
    for number in range(1, 6):
        assert passed_by(breaker, number * PROBE) == 0
        breaker.launched(number * PROBE)
        breaker.forget(number * PROBE)


def test_when_it_opens_again_the_first_probes_come_as_soon_as_ever() -> None:
    breaker = open_one(most_passing=100)
    for number in range(1, 6):
        passed_by(breaker, number * PROBE)
        probe(breaker, number * PROBE, good=False)
    breaker.launched(6 * PROBE)
    breaker.judge(good=True, launched=6 * PROBE, now=6 * PROBE)
    breaker.launched(7 * PROBE)
    breaker.judge(good=False, launched=7 * PROBE, now=7 * PROBE)
    assert passed_by(breaker, 8 * PROBE) == 0


def test_a_closed_breaker_admits_whatever_number_of_calls() -> None:
    breaker = Breaker(least=1, most_passing=5)
    assert passed_by(breaker, 0) == 0
    breaker.launched(0)
    assert breaker.admits(0)


@given(
    recovers=st.integers(0, 100 * SECOND),
    gap=st.integers(SECOND // 2, 5 * SECOND),
    lasts=st.integers(1, 3 * SECOND),
)
def test_traffic_is_back_one_probe_interval_after_the_recovery(
    recovers: int, gap: int, lasts: int
) -> None:
    # A call each *gap* asks whether it is admitted; its verdict comes *lasts* after its launch.
    breaker = open_one()
    pending: list[tuple[int, int]] = []
    launches: list[int] = []
    for now in range(0, recovers + PROBE + gap + lasts + 1, gap):
        while pending and pending[0][0] <= now:
            judged, launched = pending.pop(0)
            breaker.judge(good=launched >= recovers, launched=launched, now=judged)
        if not breaker.is_open:
            break
        if breaker.admits(now):
            breaker.launched(now)
            launches.append(now)
            pending.append((now + lasts, now))
    for judged, launched in pending:
        breaker.judge(good=launched >= recovers, launched=launched, now=judged)
    assert not breaker.is_open
    assert max(launches) < recovers + PROBE + gap
    assert all(later - sooner >= PROBE for sooner, later in itertools.pairwise(launches))


class Breakers(RuleBasedStateMachine):
    """A breaker, against all that happened since it changed last."""

    @initialize(
        least=st.integers(1, 6), closes_after=st.integers(1, 3), most_passing=st.integers(0, 5)
    )
    def begin(self, least: int, closes_after: int, most_passing: int) -> None:
        self.least, self.closes_after, self.most_passing = least, closes_after, most_passing
        self.breaker = Breaker(least=least, closes_after=closes_after, most_passing=most_passing)
        self.now = 10**15
        self.running: list[int] = []
        self._change(is_open=False)

    def _change(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.trials = Trials(least=self.least)
        self.verdicts: list[bool] = []
        self._await_probe(self.now + PROBE)

    def _await_probe(self, due: int) -> None:
        self.due = due
        self.calls = 0
        self.passing = min(2 ** self.verdicts.count(False), self.most_passing)

    @rule(times=st.integers(1, 6))
    def calls_come(self, times: int) -> None:
        for _ in range(times):
            self.breaker.called()
            self.calls += 1

    @rule(wait=st.sampled_from([1, SECOND, PROBE - 1, PROBE, 30 * PROBE]))
    def time_passes(self, wait: int) -> None:
        self.now += wait

    @rule(times=st.integers(1, 8))
    def launch(self, times: int) -> None:
        for _ in range(times):
            self.now += 1
            self.breaker.launched(self.now)
            self.trials.launched(self.now)
            self.running.append(self.now)
            self._await_probe(self.now + PROBE)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99), good=st.booleans(), times=st.integers(1, 6))
    def judge(self, pick: int, good: bool, times: int) -> None:
        for _ in range(min(times, len(self.running))):
            launched = self.running.pop(pick % len(self.running))
            self.now += 1
            self.breaker.judge(good=good, launched=launched, now=self.now)
            if self.trials.judge(good=good, launched=launched, now=self.now):
                self._follow(good=good)
            assert self.breaker.is_open is self.is_open

    def _follow(self, *, good: bool) -> None:
        self.verdicts.append(good)
        if not self.is_open:
            if self.trials.mostly_bad:
                self._change(is_open=True)
        elif self.verdicts[-self.closes_after :] == [True] * self.closes_after:
            self._change(is_open=False)
        elif good:
            self.due, self.passing = self.now, 0

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99))
    def cancel(self, pick: int) -> None:
        launched = self.running.pop(pick % len(self.running))
        self.breaker.forget(launched)
        self.trials.forget(launched)

    @invariant()
    def the_same_is_admitted(self) -> None:
        if hasattr(self, "breaker"):
            assert self.breaker.is_open is self.is_open
            for now in (self.now, self.due - 1, self.due):
                is_due = now >= self.due and self.calls >= self.passing
                assert self.breaker.admits(now) is (not self.is_open or is_due)


TestBreakers = Breakers.TestCase
