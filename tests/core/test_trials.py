from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from polygateway.core.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Iterable

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


def told(trials: Trials, verdicts: Iterable[bool], *, start: int = 0) -> list[bool]:
    """Let attempts run one after the other, a second each; tell what is said after each verdict."""
    said: list[bool] = []
    for second, good in enumerate(verdicts, start):
        trials.launched(second * SECOND)
        trials.judge(good=good, launched=second * SECOND, now=(second + 1) * SECOND)
        said.append(trials.mostly_bad)
    return said


def test_nothing_is_said_before_there_are_enough_verdicts() -> None:
    assert told(Trials(least=5), [False] * 5) == [False, False, False, False, True]
    assert told(Trials(least=2), [False] * 2) == [False, True]


@pytest.mark.parametrize(("bad", "good"), [(5, 5), (4, 4), (6, 2), (1, 1)])
def test_half_is_most(bad: int, good: int) -> None:
    assert told(Trials(least=2), [True] * good + [False] * bad)[-1]


@pytest.mark.parametrize(("bad", "good"), [(5, 6), (9, 11), (1, 2)])
def test_less_than_half_is_not_most(bad: int, good: int) -> None:
    assert not any(told(Trials(least=2), [True] * good + [False] * bad))


def test_of_many_good_verdicts_only_the_last_twenty_stand_against_bad_ones() -> None:
    said = told(Trials(least=5), [True] * 1000 + [False] * 10)
    assert said.index(True) == 1009


def test_a_good_verdict_does_not_make_most_of_them_bad() -> None:
    assert told(Trials(least=2), [False, True]) == [False, False]


def test_good_verdicts_end_it_when_less_than_half_are_bad() -> None:
    trials = Trials(least=5)
    told(trials, [False] * 20)
    assert told(trials, [True] * 11, start=20) == [True] * 10 + [False]


def test_a_verdict_counts_for_five_minutes() -> None:
    trials = Trials(least=2)
    told(trials, [False])
    # That verdict came at one second, this one comes five minutes later.
    trials.launched(2 * SECOND)
    trials.judge(good=False, launched=2 * SECOND, now=SECOND + 5 * MINUTE)
    assert trials.mostly_bad

    trials = Trials(least=2)
    told(trials, [False])
    trials.launched(2 * SECOND)
    trials.judge(good=False, launched=2 * SECOND, now=SECOND + 5 * MINUTE + 1)
    assert not trials.mostly_bad


@pytest.mark.parametrize(("late", "mostly_bad"), [(0, True), (1, False)])
def test_a_verdict_on_a_peer_counts_for_five_minutes(late: int, mostly_bad: bool) -> None:
    # Of four peers two run, one was bad five minutes ago, and one is bad now.
    trials = Trials(least=1)
    for launched in (1, 2, 3, 4):
        trials.launched(launched)
    trials.judge(good=False, launched=3, now=SECOND)
    trials.judge(good=False, launched=4, now=SECOND + 5 * MINUTE + late)
    assert trials.mostly_bad is mostly_bad


def test_after_a_quiet_night_the_first_attempt_finds_the_evening_forgotten() -> None:
    trials = Trials(least=5)
    told(trials, [False] * 20)
    assert trials.mostly_bad
    trials.launched(8 * 60 * MINUTE)
    assert not trials.mostly_bad


def test_of_many_attempts_that_begin_at_once_a_few_quick_failures_are_not_most() -> None:
    # 1000 calls begin in a second; each twentieth fails after 0.1 s, all others answer for a while.
    trials = Trials(least=5)
    events = [(number, number, "launched") for number in range(1000)]
    events += [(number + 100, number, "failed") for number in range(0, 1000, 20)]
    for at, launched, what in sorted(events):
        if what == "launched":
            trials.launched(launched)
        else:
            trials.judge(good=False, launched=launched, now=at)
        assert not trials.mostly_bad


@pytest.mark.parametrize("share", [2, 3, 4])
def test_of_many_attempts_that_begin_at_once_failures_of_most_are_noticed_at_once(
    share: int,
) -> None:
    # Of *share* attempts all but one fail.
    trials = Trials(least=5)
    for launched in range(1000):
        trials.launched(launched)
    for launched in range(1000):
        if launched % share:
            trials.judge(good=False, launched=launched, now=1000 + launched)
    assert trials.mostly_bad


def test_attempts_of_one_instant_are_peers_of_each_other() -> None:
    # In virtual time a thousand calls can begin at once.
    trials = Trials(least=5)
    for _ in range(30):
        trials.launched(7)
    said: list[bool] = []
    for _ in range(15):
        trials.judge(good=False, launched=7, now=8)
        said.append(trials.mostly_bad)
    assert said == [False] * 14 + [True]
    for _ in range(15):
        assert trials.judge(good=True, launched=7, now=9)
    assert not trials.judge(good=True, launched=7, now=9)


def test_late_verdicts_do_not_speak_against_what_was_good_since() -> None:
    # Twenty streams hang for two minutes; the sixty that began after them ended well meanwhile.
    trials = Trials(least=5)
    for launched in range(20):
        trials.launched(launched)
    told(trials, [True] * 60, start=1)
    for launched in range(9):
        trials.judge(good=False, launched=launched, now=2 * MINUTE)
    assert not trials.mostly_bad


def test_most_are_bad_although_the_good_ones_are_known_first() -> None:
    # Twenty begin each second. Of five one ends well, after 10 s; four hang for a minute.
    trials, said = Trials(least=5), list[bool]()
    for now in range(100 * 20):
        trials.launched(now)
        if now >= 10 * 20 and not now % 5:
            trials.judge(good=True, launched=now - 10 * 20, now=now)
        if now >= 60 * 20 and now % 5:
            trials.judge(good=False, launched=now - 60 * 20, now=now)
        said.append(trials.mostly_bad)
    assert not any(said[: 60 * 20])
    assert all(said[61 * 20 :])


def test_what_is_cancelled_counts_as_nothing() -> None:
    trials = Trials(least=5)
    for launched in range(100):
        trials.launched(launched)
        if launched % 10:
            trials.forget(launched)
    for launched in range(0, 50, 10):
        assert not trials.mostly_bad
        trials.judge(good=False, launched=launched, now=200 + launched)
    assert trials.mostly_bad


def test_what_was_never_launched_or_is_over_is_passed_over() -> None:
    trials = Trials(least=1)
    trials.forget(1)
    assert not trials.judge(good=False, launched=1, now=2)
    trials.launched(3)
    trials.forget(3)
    assert not trials.judge(good=False, launched=3, now=4)
    assert not trials.mostly_bad


@attrs.define
class Fact:
    """An attempt, and what was seen of it."""

    launched: int
    good: bool | None = None
    judged: int = -1
    cancelled: bool = False

    def running(self) -> bool:
        return self.good is None and not self.cancelled


class AllTrials(RuleBasedStateMachine):
    """All attempts there ever were, looked through for each question."""

    @initialize(least=st.integers(1, 8))
    def begin(self, least: int) -> None:
        self.least = least
        self.trials = Trials(least=least)
        self.facts: list[Fact] = []
        self.verdicts: list[Fact] = []
        self.now = 10**15
        self.mostly_bad = False

    @rule(wait=st.sampled_from([1, SECOND, MINUTE, 4 * MINUTE, 5 * MINUTE]))
    def time_passes(self, wait: int) -> None:
        self.now += wait

    @rule(times=st.integers(1, 12))
    def launch(self, times: int) -> None:
        for _ in range(times):
            self.now += 1
            if not self._verdicts_are_bad():
                self.mostly_bad = False
            self.facts.append(Fact(self.now))
            self.trials.launched(self.now)

    @precondition(lambda self: any(map(Fact.running, self.facts)))
    @rule(pick=st.integers(0, 999), times=st.integers(1, 12), good=st.booleans())
    def judge(self, pick: int, times: int, good: bool) -> None:
        for _ in range(times):
            running = list(filter(Fact.running, self.facts))
            if running:
                self._judge(running[pick % len(running)], good=good)

    def _judge(self, fact: Fact, *, good: bool) -> None:
        fact.good, fact.judged = good, self.now
        self.verdicts.append(fact)
        assert self.trials.judge(good=good, launched=fact.launched, now=self.now)
        if not good and self._peers_are_bad(fact):
            self.mostly_bad = True
        if not self._verdicts_are_bad():
            self.mostly_bad = False
        assert self.trials.mostly_bad is self.mostly_bad

    @precondition(lambda self: any(map(Fact.running, self.facts)))
    @rule(pick=st.integers(0, 999))
    def cancel(self, pick: int) -> None:
        running = list(filter(Fact.running, self.facts))
        fact = running[pick % len(running)]
        fact.cancelled = True
        self.trials.forget(fact.launched)

    def _verdicts_are_bad(self) -> bool:
        verdicts = [fact.good for fact in self.verdicts[-20:] if self._recent(fact)]
        bad = verdicts.count(False)
        return len(verdicts) >= self.least and bad >= len(verdicts) - bad

    def _peers_are_bad(self, fact: Fact) -> bool:
        index = self.facts.index(fact)
        peers = self.facts[max(0, index - 19) : index + 1]
        alive = sum(peer.running() for peer in peers)
        bad = sum(peer.good is False and self._recent(peer) for peer in peers)
        good = sum(peer.good is True and self._recent(peer) for peer in peers)
        return bad >= good + alive

    def _recent(self, fact: Fact) -> bool:
        return self.now - fact.judged <= 5 * MINUTE

    @invariant()
    def the_same_is_said(self) -> None:
        if hasattr(self, "trials"):
            assert self.trials.mostly_bad is self.mostly_bad


TestAllTrials = AllTrials.TestCase
