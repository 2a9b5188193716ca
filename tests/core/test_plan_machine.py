"""Planner, gate and purse together, and what is held of targets, against a plain model."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from polygateway.core.budget import Purse
from polygateway.core.health import Health
from polygateway.core.targets import Candidate
from polygateway.errors import (
    AuthenticationFailed,
    ConnectTimeout,
    ContentFiltered,
    GatewayBusy,
    InvalidRequest,
    ServerError,
    StallTimeout,
    Truncated,
)
from polygateway.policies import HedgePolicy, RetryPolicy
from tests.core.driver import SECOND, START, Drive, failure, limited
from tests.core.model import NEVER, Kind, Model, Rules, Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.core.model import Attempt

FAILURES = {
    Kind("500", fluke=True): failure(ServerError),
    Kind("no connection in time", silent=True): failure(ConnectTimeout),
    Kind("stalled", silent=True): failure(StallTimeout),
    Kind("cut"): failure(Truncated),
    Kind("no slot", blames=False): failure(GatewayBusy),
    Kind("429, 1 s", asks=1): limited(1),
    Kind("429, 30 s", asks=30): limited(30),
    Kind("429, 90 s", asks=90): limited(90),
    Kind("401", again=False): failure(AuthenticationFailed),
    Kind("404", again=False): failure(InvalidRequest, status=404),
    Kind("400", again=False, elsewhere=False, blames=False, refuses=True): failure(
        InvalidRequest, status=400
    ),
    Kind("filtered", again=False, elsewhere=False, blames=False): failure(ContentFiltered),
}

SHORT, LONG = 3 * SECOND, 7 * SECOND
SILENCES = st.sampled_from([SHORT, LONG])
PICKS = st.integers(0, 9)
DELAYS = st.sampled_from([0, 1, SECOND // 4, SECOND, SHORT - 1, SHORT, LONG - 1, LONG])
SHARES = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1)])
MOST_TARGETS = 3
WHYS = st.sampled_from(list(FAILURES))


def failures(health: Health, now: int, count: int) -> None:
    for _ in range(count):
        health.launched(now)
        health.failed(now, now, was_silent=False)


def silences(health: Health, now: int, count: int) -> None:
    for _ in range(count):
        health.launched(now)
        health.fell_silent(now, now)
        health.cancelled(now, was_silent=True)


def answers(health: Health, now: int, count: int) -> None:
    for _ in range(count):
        health.launched(now)
        health.ended(now, now, was_silent=False)


# What a target can do to others' calls: most of it turns what is held of it.
NEWS: dict[str, Callable[[Health, int], None]] = {
    "nearly open": lambda health, now: failures(health, now, 4),
    "open": lambda health, now: failures(health, now, 10),
    "nearly degraded": lambda health, now: silences(health, now, 9),
    "degraded": lambda health, now: silences(health, now, 20),
    "well": lambda health, now: answers(health, now, 30),
    "asks for 1 s": lambda health, now: health.rest.ask(SECOND, now),
    "asks for 20 s": lambda health, now: health.rest.ask(20 * SECOND, now),
    "asks for 100 s": lambda health, now: health.rest.ask(100 * SECOND, now),
}


@st.composite
def all_rules(draw: st.DrawFn) -> Rules:
    """Draw the rules of a call."""
    return Rules(
        prefill=draw(st.tuples(*[st.sampled_from([True, True, False])] * MOST_TARGETS)),
        until=draw(st.sampled_from(["content", "content", "end"])),
        winner=draw(st.sampled_from(["first-delivered", "first-complete"])),
        after=draw(SILENCES),
        stall_after=draw(SILENCES),
        max_attempts=draw(st.sampled_from([1, 2, 3, 5, 5])),
        same_target=draw(st.booleans()),
        max_retries=draw(st.sampled_from([0, 1, 2, 4, 4])),
        deadline=draw(st.sampled_from([NEVER, NEVER, 5 * SECOND, 20 * SECOND])),
        hold_back=draw(st.sampled_from([0, 0, SHORT, LONG])),
        rescue=draw(st.sampled_from(["restart", "continue", "continue-or-restart"])),
    )


def somebody_lives(calls: Calls) -> bool:
    return bool(calls.model.live())


def a_race_runs(calls: Calls) -> bool:
    return not calls.model.over


def it_is_delivering(calls: Calls) -> bool:
    return calls.model.over and calls.model.delivered is not None


def it_is_being_rescued(calls: Calls) -> bool:
    return not calls.model.over and calls.model.delivered is not None


def it_is_over(calls: Calls) -> bool:
    return calls.model.over and calls.model.delivered is None


class Calls(RuleBasedStateMachine):
    """Calls to one model, one after the other, which share a purse and the targets' healths."""

    @initialize(
        rules=all_rules(),
        number=st.integers(1, MOST_TARGETS),
        ratio=st.sampled_from([Fraction(0), Fraction(1, 5), Fraction(1)]),
        burst=st.sampled_from([Fraction(0), Fraction(1), Fraction(5, 2), *[Fraction(10)] * 3]),
    )
    def first_call(self, rules: Rules, number: int, ratio: Fraction, burst: Fraction) -> None:
        self.tokens = Tokens(ratio, burst, burst)
        self.purse = Purse(ratio=float(ratio), burst=float(burst))
        self.known = [Health() for _ in range(number)]
        self.expected = [Health() for _ in range(number)]
        self.epoch: int = START
        self._call(rules)

    @precondition(it_is_over)
    @rule(rules=all_rules())
    def another_call(self, rules: Rules) -> None:
        self.epoch += self.model.now
        self._call(rules)

    def _call(self, rules: Rules) -> None:
        rules = attrs.evolve(rules, prefill=rules.prefill[: len(self.known)])
        self.tokens.put()
        self.purse.put()
        self.model = Model(rules, self.tokens, self.expected, self.epoch)
        self.call = Drive(
            candidates=[
                Candidate(health=health, prefill=prefill)
                for health, prefill in zip(self.known, rules.prefill, strict=True)
            ],
            until=rules.until,
            hedge=HedgePolicy(
                after_s=rules.after / SECOND,
                stall_after_s=rules.stall_after / SECOND,
                winner=rules.winner,
                max_attempts=rules.max_attempts,
                same_target=rules.same_target,
            ),
            retry=RetryPolicy(max_retries=rules.max_retries),
            purse=self.purse,
            deadline=rules.deadline,
            hold_back=rules.hold_back,
            rescue=rules.rescue,
            start=self.epoch,
        )

    # A race

    @precondition(a_race_runs)
    @rule(delay=DELAYS | st.just(100 * SECOND))
    def time_passes(self, delay: int) -> None:
        self._pass_time(self.model.now + delay)

    @precondition(somebody_lives)
    @rule(pick=PICKS, delay=DELAYS, finished=st.booleans())
    def content(self, pick: int, delay: int, finished: bool) -> None:
        attempt = self._reach(pick, delay)
        self.model.content(attempt, finished=finished)
        self.call.content(attempt.index, self.model.now, finished=finished)

    @precondition(somebody_lives)
    @rule(pick=PICKS, delay=DELAYS)
    def finish(self, pick: int, delay: int) -> None:
        attempt = self._reach(pick, delay)
        self.model.finish(attempt)
        self.call.finish(attempt.index, self.model.now)

    @precondition(somebody_lives)
    @rule(pick=PICKS, delay=DELAYS)
    def end(self, pick: int, delay: int) -> None:
        attempt = self._reach(pick, delay)
        self.model.end(attempt)
        self.call.end(attempt.index, self.model.now)

    @precondition(somebody_lives)
    @rule(pick=PICKS, delay=DELAYS, why=WHYS, share=SHARES)
    def fail(self, pick: int, delay: int, why: Kind, share: Fraction) -> None:
        attempt = self._reach(pick, delay)
        self.model.fail(attempt, why, share)
        self.call.fail(attempt.index, FAILURES[why], self.model.now, share=float(share))

    @precondition(it_is_being_rescued)
    @rule(delay=DELAYS, share=SHARES)
    def give_up(self, delay: int, share: Fraction) -> None:
        at = self.model.now + delay
        self._pass_time(at - 1)
        self.model.now = max(self.model.now, at)
        self.model.give_up(share)
        self.call.give_up(self.model.now, share=float(share))

    # A stream that is delivered

    @precondition(it_is_delivering)
    @rule(delay=DELAYS, finished=st.booleans())
    def deliver(self, delay: int, finished: bool) -> None:
        self.model.now += delay
        self.model.deliver(finished=finished)
        self.call.deliver(self.model.now, finished=finished)

    @precondition(it_is_delivering)
    @rule(delay=DELAYS)
    def fall_silent(self, delay: int) -> None:
        silent_at = self.model.silent_at()
        assert self.call.silent_at() == silent_at
        self.model.now = max(self.model.now, silent_at + delay)
        self.model.reopen()
        self.call.fall_silent(self.model.now)

    @precondition(it_is_delivering)
    @rule(delay=DELAYS, why=WHYS, share=SHARES)
    def break_off(self, delay: int, why: Kind, share: Fraction) -> None:
        self.model.now += delay
        self.model.break_off(why, share)
        self.call.break_off(FAILURES[why], self.model.now, share=float(share))

    @precondition(it_is_delivering)
    @rule(delay=DELAYS, whole=st.booleans())
    def stop(self, delay: int, whole: bool) -> None:
        self.model.now += delay
        self.model.stop(whole=whole)
        self.call.stop(self.model.now, whole=whole)

    # Other calls

    @rule(pick=PICKS, news=st.sampled_from(list(NEWS)))
    def other_calls_learn(self, pick: int, news: str) -> None:
        target, now = pick % len(self.known), self.epoch + self.model.now
        for health in (self.known[target], self.expected[target]):
            NEWS[news](health, now)

    @rule(good=st.booleans())
    def other_calls_end(self, good: bool) -> None:
        now = self.epoch + self.model.now
        for _ in range(20):
            self.purse.launched(now)
            (self.purse.succeeded if good else self.purse.failed)(now, now)
            self.tokens.trials.launched(now)
            self.tokens.trials.judge(good=good, launched=now, now=now)

    def _pass_time(self, until: int) -> None:
        self.model.pass_time(until)
        self.call.wait(until)

    def _reach(self, pick: int, delay: int) -> Attempt:
        """Come to something that happens after *delay*, and give the attempt that it happens to."""
        at = self.model.now + delay
        self._pass_time(at - 1)
        self.model.now = at
        live = self.model.live()
        return live[pick % len(live)]

    @invariant()
    def the_same_was_decided_at_the_same_time(self) -> None:
        assert self.call.log == self.model.log

    @invariant()
    def the_same_hedges_were_refused(self) -> None:
        reasons = [each.why for each in self.model.refused]
        assert self.call.refused == {why: reasons.count(why) for why in reasons}

    @invariant()
    def the_same_became_of_every_attempt(self) -> None:
        names = {"empty": "running"}
        became = [names.get(each.became, each.became) for each in self.model.attempts]
        assert [state.value for state in self.call.states()] == became

    @invariant()
    def the_purse_holds_what_it_should(self) -> None:
        assert self.purse.level == float(self.tokens.level)
        assert self.tokens.taken <= self.tokens.ratio * self.tokens.calls + self.tokens.burst

    @invariant()
    def the_same_is_held_of_every_target(self) -> None:
        now = self.epoch + self.model.now
        assert held(self.known, now) == held(self.expected, now)


def held(healths: Iterable[Health], now: int) -> list[tuple[str, bool, int]]:
    return [(each.standing(now), each.admits(now), each.rest.until) for each in healths]


class Streams(Calls):
    """Calls that are delivered in part as soon as they begin, so that they can be rescued."""

    def _call(self, rules: Rules) -> None:
        super()._call(attrs.evolve(rules, until="content", hold_back=0))
        self.content(pick=0, delay=0, finished=False)


TestCalls = Calls.TestCase
TestStreams = Streams.TestCase
