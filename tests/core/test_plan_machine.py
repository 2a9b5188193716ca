"""Planner, gate and purse together, against a plain model."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from polygateway.core.budget import Purse
from polygateway.errors import (
    AuthenticationFailed,
    ConnectTimeout,
    ContentFiltered,
    ServerError,
    StallTimeout,
    Truncated,
)
from polygateway.policies import HedgePolicy, RetryPolicy
from tests.core.driver import SECOND, Drive, failure, limited
from tests.core.model import NEVER, Kind, Model, Rules, Tokens

if TYPE_CHECKING:
    from tests.core.model import Attempt

FAILURES = {
    Kind("500", fluke=True): failure(ServerError),
    Kind("no connection in time", silent=True): failure(ConnectTimeout),
    Kind("stalled", silent=True): failure(StallTimeout),
    Kind("cut"): failure(Truncated),
    Kind("429, 1 s", asks=1): limited(1),
    Kind("429, 30 s", asks=30): limited(30),
    Kind("429, 90 s", asks=90): limited(90),
    Kind("401", again=False): failure(AuthenticationFailed),
    Kind("filtered", again=False, elsewhere=False): failure(ContentFiltered),
}

SHORT, LONG = 3 * SECOND, 7 * SECOND
SILENCES = st.sampled_from([SHORT, LONG])
PICKS = st.integers(0, 9)
DELAYS = st.sampled_from([0, 1, SECOND // 4, SECOND, SHORT - 1, SHORT, LONG - 1, LONG])
SHARES = st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1)])


@st.composite
def all_rules(draw: st.DrawFn) -> Rules:
    """Draw the rules of a call."""
    return Rules(
        targets=range(draw(st.integers(1, 3))),
        until=draw(st.sampled_from(["content", "end", "end"])),
        winner=draw(st.sampled_from(["first-delivered", "first-complete"])),
        after=draw(SILENCES),
        stall_after=draw(SILENCES),
        max_attempts=draw(st.integers(1, 5)),
        same_target=draw(st.booleans()),
        max_retries=draw(st.integers(0, 4)),
        deadline=draw(st.sampled_from([NEVER, NEVER, 5 * SECOND, 20 * SECOND])),
    )


def somebody_lives(calls: Calls) -> bool:
    return bool(calls.model.live())


def it_is_over(calls: Calls) -> bool:
    return calls.model.over


class Calls(RuleBasedStateMachine):
    """Calls to one model, one after the other, which share a purse."""

    @initialize(
        rules=all_rules(),
        ratio=st.sampled_from([Fraction(0), Fraction(1, 5), Fraction(1)]),
        burst=st.sampled_from([Fraction(0), Fraction(1), Fraction(5, 2), Fraction(10)]),
    )
    def first_call(self, rules: Rules, ratio: Fraction, burst: Fraction) -> None:
        self.tokens = Tokens(ratio, burst, burst)
        self.purse = Purse(ratio=float(ratio), burst=float(burst))
        self.another_call(rules)

    @precondition(it_is_over)
    @rule(rules=all_rules())
    def another_call(self, rules: Rules) -> None:
        self.tokens.put()
        self.purse.put()
        self.model = Model(rules, self.tokens)
        self.call = Drive(
            targets=len(rules.targets),
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
        )

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
    @rule(pick=PICKS, delay=DELAYS, why=st.sampled_from(list(FAILURES)), share=SHARES)
    def fail(self, pick: int, delay: int, why: Kind, share: Fraction) -> None:
        attempt = self._reach(pick, delay)
        self.model.fail(attempt, why, share)
        self.call.fail(attempt.index, FAILURES[why], self.model.now, share=float(share))

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


TestCalls = Calls.TestCase
