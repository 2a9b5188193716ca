"""Draw series: the same from the same seed, whatever else draws random numbers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar, get_args

import attrs

from polygateway import HedgePolicy, Limits, RetryPolicy, StreamPolicy

from .series import (
    Beat,
    Call,
    Ending,
    GoingOn,
    Policies,
    Provider,
    Reply,
    Series,
    Spell,
    What,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_WHATS: Sequence[What] = get_args(What)
_ENDINGS: Sequence[Ending] = get_args(Ending)
_CODES = ("context_length_exceeded", "content_filter", "insufficient_quota", None)
_STATUSES = (400, 400, 401, 402, 404, 408, 413, 429, 429, 429, 500, 500, 503, 529)
_RETRY_AFTERS = (None, None, "0", "1", "3", "20", "100")

_REPLIES = 8
"""How many a provider has."""

_MOST_CALLS = 50


def draw(seed: str) -> Series:
    """Draw a series."""
    return _Draw(random.Random(seed)).series()


class _Draw:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._policies = (self._policy(), self._policy())
        self._waits = self._boundaries()

    def series(self) -> Series:
        dice, (configured, own) = self._dice, self._policies
        calls = self._calls()
        last_ms = calls[-1].at_ms
        # Most series are mostly well: where everything fails, nothing is hedged any more.
        quality = dice.choice([0.5, 0.8, 0.8, 0.9, 1.0])
        sick = dice.random() < 0.4
        providers = [
            self._provider(last_ms, quality, sick=sick and not position)
            for position in range(dice.choice([1, 2, 2, 2, 3, 3, 4, 5]))
        ]
        must_go_on = "continue" in {configured.stream.recovery, own.stream.recovery}
        if must_go_on and not any(each.prefill for each in providers):
            providers[-1] = attrs.evolve(providers[-1], prefill=True)
        return Series(
            seed=dice.randrange(10**6),
            providers=tuple(providers),
            calls=calls,
            policies=configured,
            own_policies=own,
            limits=self._limits(),
            weighted=dice.random() < 0.3,
            left_at_ms=dice.randint(last_ms // 2, last_ms + 5000) if self._once_in(8) else None,
            grace_ms=dice.choice([0, 500, 30_000]) if self._once_in(3) else None,
        )

    # Time

    def _boundaries(self) -> Sequence[int]:
        """Give waits around what the policies are about, and far beyond."""
        waits = [0, 0, 0, 0, 1, 20, 100, 700, 2000, 11_000, 40_000]
        for policies in self._policies:
            hedge, stream = policies.hedge, policies.stream
            for limit in (hedge.after_s, hedge.stall_after_s, stream.hold_back_s):
                if not isinstance(limit, str):
                    waits += [max(0, round(limit * 1000) + off) for off in (-1, 0, 1)]
            for limit in (stream.ttft_timeout_s, stream.stall_timeout_s):
                waits.append(round(limit * 1000) + self._dice.choice([-1, 0, 1]))
        return waits

    def _wait(self) -> int:
        return self._dice.choice(self._waits)

    # What providers do

    def _provider(self, last_ms: int, quality: float, *, sick: bool) -> Provider:
        dice = self._dice
        replies = [self._reply(good=dice.random() < quality) for _ in range(_REPLIES)]
        return Provider(
            replies=tuple(replies),
            connect_ms=dice.choice([0, 0, 0, 0, 1, 1, 50, 50, 700, 12_000]),
            keep_alive_ms=dice.choice([None, None, 0, 1000]),
            drops_reused=dice.random() < 0.1,
            spell=self._spell(last_ms) if sick or dice.random() < 0.1 else None,
            prefill=dice.random() < 0.6,
            weight=dice.choice([0.5, 1.0, 3.0]),
        )

    def _spell(self, last_ms: int) -> Spell:
        begin = self._dice.randint(0, last_ms // 2 + 1)
        end = begin + self._dice.randint(0, last_ms + 1)
        refuses = self._dice.random() < 0.3
        return Spell(begin, end, None if refuses else self._reply(good=False))

    def _reply(self, *, good: bool) -> Reply:
        if good:
            return self._answer("whole", quick=self._dice.random() < 0.7)
        if self._dice.random() < 0.25:
            return self._refusal()
        return self._answer(self._dice.choice(_ENDINGS), quick=self._dice.random() < 0.5)

    def _answer(self, ending: Ending, *, quick: bool) -> Reply:
        dice = self._dice
        beats = [
            Beat(self._what(), dice.choice([0, 20]) if quick else self._wait())
            for _ in range(dice.choice([0, 1, 1, 2, 2, 3, 4, 6]))
        ]
        return Reply(
            beats=tuple(beats),
            ending=ending,
            wait_ms=0 if quick else self._wait(),
            head_first=dice.random() < 0.5,
            counts=dice.random() < 0.5,
            going_on=dice.choice(get_args(GoingOn)),
        )

    def _what(self) -> What:
        return "text" if self._dice.random() < 0.8 else self._dice.choice(_WHATS)

    def _refusal(self) -> Reply:
        dice = self._dice
        return Reply(
            wait_ms=self._wait(),
            status=dice.choice(_STATUSES),
            code=dice.choice(_CODES) if dice.random() < 0.3 else None,
            retry_after=dice.choice(_RETRY_AFTERS),
        )

    # What applications do

    def _calls(self) -> tuple[Call, ...]:
        dice = self._dice
        apart = dice.choice([10, 1000, 5000, 20_000, 20_000])
        at, calls = 0, list[Call]()
        # In a long series there is time to learn what a target usually takes.
        size = 200 if self._once_in(40) else dice.randint(20, _MOST_CALLS)
        for _ in range(size):
            at += dice.choice([0, apart, dice.randint(0, 2 * apart)])
            calls.append(self._call(at))
        return tuple(calls)

    def _call(self, at_ms: int) -> Call:
        dice = self._dice
        is_cancelled = dice.random() < 0.2
        return Call(
            at_ms=at_ms,
            luck=dice.randrange(1000),
            streams=dice.random() < 0.6,
            deadline_ms=dice.choice([1, 500, 5000, 10_000, 60_000]) if self._once_in(8) else None,
            cancelled_after_ms=self._wait() if is_cancelled else None,
            cancelled_after_steps=dice.choice([0, 0, dice.randrange(40)]) if is_cancelled else 0,
            pause_ms=self._wait() if self._once_in(8) else 0,
            patience_ms=dice.choice([0, 1, 300]) if self._once_in(8) else None,
            breaks_after=dice.randrange(4) if self._once_in(8) else None,
            wants_json=self._once_in(10),
            own_policies=self._once_in(5),
        )

    def _once_in(self, times: int) -> bool:
        return self._dice.randrange(times) == 0

    # Policies

    def _policy(self) -> Policies:
        return Policies(self._hedge(), self._stream(), self._retry())

    def _hedge(self) -> HedgePolicy:
        dice = self._dice
        return HedgePolicy(
            enabled=not self._once_in(8),
            after_s=dice.choice([0.5, 5.0, "auto"]),
            stall_after_s=dice.choice([0.5, 5.0, "auto"]),
            max_attempts=dice.choice([1, 2, 3, 4, 5, 5]),
            winner=dice.choice(["first-delivered", "first-complete"]),
            same_target=not self._once_in(3),
            budget_ratio=dice.choice([0.0, 0.2, 0.5, 1.0]),
            budget_burst=dice.choice([0.0, 2.0, 10.0, 10.0, 100.0]),
            budget_tokens_per_hour=dice.choice([0, 20, 200]) if self._once_in(6) else None,
            holdout=dice.choice([0.3, 1.0]) if self._once_in(6) else 0.0,
        )

    def _stream(self) -> StreamPolicy:
        dice = self._dice
        return StreamPolicy(
            connect_timeout_s=dice.choice([1.0, 10.0]),
            ttft_timeout_s=dice.choice([3.0, 20.0, 60.0]),
            stall_timeout_s=dice.choice([3.0, 20.0, 60.0]),
            stall_threshold_ms=dice.choice([100.0, 2000.0]),
            recovery=dice.choice(
                ["raise", "restart", "continue", "continue-or-restart", "continue-or-restart"]
            ),
            hold_back_s=dice.choice([0.0, 0.0, 0.0, 0.5, 3.0]),
        )

    def _retry(self) -> RetryPolicy:
        dice = self._dice
        return RetryPolicy(
            max_retries=dice.randrange(5),
            backoff_base_s=dice.choice([0.0, 0.5, 0.5]),
            wait_for_target_s=dice.choice([0.0, 2.0]),
            retry_after_max_s=dice.choice([2.0, 60.0]),
        )

    def _limits(self) -> Limits:
        dice = self._dice
        return Limits(
            max_connections_per_target=dice.choice([1, 3, 1000, 1000]),
            admission_timeout_s=dice.choice([0.5, 5.0]),
            idle_timeout_s=dice.choice([0.0, 1.0, 50.0]),
            connection_lifetime_s=dice.choice([3.0, 600.0]),
            max_answer_bytes=20 if self._once_in(20) else 1 << 20,
        )
