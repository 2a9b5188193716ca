"""The gateway's own accountant: adds up what the calls cost that have ended."""

# Theory of operation
# ===================
#
# Rule 1: all is taken at once, from the record of a call that has ended. A call that still runs is
#         in nothing, so that the figures of one account always agree with each other. The records
#         of some calls are added up together, which costs a third of adding up each in its turn,
#         when neither the code nor the accounts are in the processor's caches any more.
# Rule 2: an account is fed with attempts and with streams. The streams of a target are its
#         attempts, those of a model are its calls; nothing else differs.
# Rule 3: durations are added as whole nanoseconds, which milliseconds give back exactly up to some
#         weeks. So the order of the calls changes none of these sums.
# Rule 4: there is one account for each configured name, so memory does not grow with the calls.
# Rule 5: those calls of a model that could be hedged, and those of the holdout, are added up apart
#         as well. The holdout is small, so what is to be compared is kept for good.

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict, get_args

import attrs

from ..aggregates import Cohort, Distribution, GatewayStats, ModelStats, TargetStats
from ..instrument import CallOutcome, Instrument
from ..stats import AttemptKind, Outcome, RefusalReason, Standing
from .histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..instrument import CallEnded
    from ..stats import AttemptStats, CallStats, StreamFigures, Waste

# So few that adding them up keeps nobody waiting: less than a millisecond.
_TOGETHER = 16

# A histogram forgets by the time that it is told. Told always the same one, it keeps everything.
_EVER = 0

_Fate: TypeAlias = tuple[AttemptKind, Outcome | None]


@attrs.frozen(kw_only=True)
class TargetState:
    """What is held of a target at a moment, whatever calls it had."""

    standing: Standing
    after_s: float | None
    """See :class:`TargetStats`."""


class _Ended(NamedTuple):
    """What the accounts take of a call that has ended."""

    at_ns: int
    model: str
    outcome: CallOutcome
    stats: CallStats


class Ledger(Instrument):
    """Keeps the account of every target and every model.

    Args:
        targets: names of all targets that attempts can be at.
        models: names of all models that can be called.
    """

    def __init__(self, targets: Iterable[str], models: Iterable[str]) -> None:
        self._targets = {name: _Account() for name in targets}
        self._models = {name: _ModelAccount() for name in models}
        self._ended: list[_Ended] = []
        """The calls that are in no account yet, in the order in which they ended."""

    def call_ended(self, event: CallEnded) -> None:
        """Take a call that has ended to the accounts of its model and of its attempts' targets."""
        # Not the event: it may hold an answer.
        self._ended.append(_Ended(event.at_ns, event.model, event.outcome, event.stats))
        if len(self._ended) == _TOGETHER:
            self._add_up()

    def _add_up(self) -> None:
        ended, self._ended = self._ended, []
        for call in ended:
            self._models[call.model].add_call(call)
            self._add_attempts(call)

    def _add_attempts(self, call: _Ended) -> None:
        by_target: defaultdict[str, list[AttemptStats]] = defaultdict(list)
        for attempt in call.stats.attempts:
            by_target[attempt.target].append(attempt)
        for name, attempts in by_target.items():
            whole = [attempt for attempt in attempts if attempt.end_kind == "complete"]
            self._targets[name].add(call.at_ns, attempts, streams=attempts, whole=whole)

    def snapshot(
        self, now_ns: int, budget_levels: Mapping[str, float], targets: Mapping[str, TargetState]
    ) -> GatewayStats:
        """Give all accounts as they are at *now_ns*.

        Args:
            now_ns: the time, by the clock of the events.
            budget_levels: the level of each model's purse, in tokens.
            targets: what is held of each target.
        """
        self._add_up()
        return GatewayStats(
            targets={
                name: TargetStats(
                    **account.fields(now_ns),
                    standing=targets[name].standing,
                    after_s=targets[name].after_s,
                )
                for name, account in self._targets.items()
            },
            models={
                name: account.stats(now_ns, budget_levels[name])
                for name, account in self._models.items()
            },
        )


@attrs.define
class _Pace:
    """How fast tokens came in the streams that ended properly."""

    streams: int = 0
    tpot_ms: float = 0.0
    generation_ns: int = 0
    later_tokens: int = 0

    def add(self, figures: StreamFigures) -> None:
        if figures.tpot_ms is None or figures.output_tokens is None:
            return
        self.streams += 1
        self.tpot_ms += figures.tpot_ms
        self.generation_ns += _ns(figures.generation_ms)
        self.later_tokens += figures.output_tokens - 1

    def request_weighted(self) -> float | None:
        return _ratio(self.tpot_ms, self.streams)

    def token_weighted(self) -> float | None:
        return _ratio(self.generation_ns / 1e6, self.later_tokens)


@attrs.define
class _Account:
    """What is known of one target or model; see :class:`Aggregate`."""

    calls: int = 0
    attempts: Counter[_Fate] = attrs.field(factory=Counter[_Fate])
    stalled_calls: int = 0
    stalls: int = 0
    stall_ns: int = 0
    open_stall_ns: int = 0
    generation_ns: int = 0
    pace: _Pace = attrs.field(factory=_Pace)
    output_tokens: int = 0
    wasted_input_tokens: int = 0
    wasted_output_tokens: int = 0
    wasted_tokens_estimated: int = 0
    wasted_attempts_uncounted: int = 0
    ttft_ms: Histogram = attrs.field(factory=Histogram)
    longest_silence_ms: Histogram = attrs.field(factory=Histogram)
    stall_duration_ms: Histogram = attrs.field(factory=Histogram)
    cancel_to_closed_ms: Histogram = attrs.field(factory=Histogram)

    def add(
        self,
        now_ns: int,
        attempts: Sequence[AttemptStats],
        *,
        streams: Sequence[StreamFigures],
        whole: Sequence[StreamFigures],
    ) -> None:
        """Add what concerns this account in one call.

        Args:
            now_ns: when the call ended.
            attempts: all of them.
            streams: what the times are taken from.
            whole: those of the streams that ended properly.
        """
        stalls = sum(map(_stalls, streams))
        self.calls += 1
        self.stalls += stalls
        self.stalled_calls += stalls > 0
        for attempt in attempts:
            self._add_attempt(attempt, now_ns)
        for stream in streams:
            self._add_stream(stream, now_ns)
        for stream in whole:
            self.pace.add(stream)

    def _add_attempt(self, attempt: AttemptStats, now_ns: int) -> None:
        self.attempts[attempt.kind, attempt.outcome] += 1
        if attempt.wasted is None:
            self.output_tokens += attempt.output_tokens or 0
        else:
            self._add_waste(attempt.wasted)
        _record(self.cancel_to_closed_ms, attempt.cancel_to_closed_ms, now_ns)

    def _add_waste(self, waste: Waste) -> None:
        prompt, generated = waste.input_tokens or 0, waste.output_tokens or 0
        self.wasted_input_tokens += prompt
        self.wasted_output_tokens += generated
        if waste.confidence == "estimate":
            self.wasted_tokens_estimated += prompt + generated
        self.wasted_attempts_uncounted += waste.confidence == "unknown"

    def _add_stream(self, figures: StreamFigures, now_ns: int) -> None:
        self.stall_ns += _ns(figures.stall_ms)
        self.open_stall_ns += sum(_ns(stall.duration_ms) for stall in figures.stalls if stall.open)
        self.generation_ns += _ns(figures.generation_ms)
        _record(self.ttft_ms, figures.ttft_ms, now_ns)
        _record(self.longest_silence_ms, _longest_silence(figures), now_ns)
        for stall in figures.stalls:
            self.stall_duration_ms.record(stall.duration_ms, now_ns)

    def fields(self, now_ns: int) -> _Aggregate:
        """Give the fields of an :class:`Aggregate`."""
        return {
            "calls": self.calls,
            "attempts": {
                kind: {outcome: self.attempts[kind, outcome] for outcome in get_args(Outcome)}
                for kind in get_args(AttemptKind)
            },
            "stalled_calls": self.stalled_calls,
            "stalls": self.stalls,
            "stall_s": self.stall_ns / 1e9,
            "open_stall_s": self.open_stall_ns / 1e9,
            "generation_s": self.generation_ns / 1e9,
            "stall_share": _ratio(self.stall_ns, self.generation_ns),
            "tpot_mean_request_weighted": self.pace.request_weighted(),
            "itl_mean_token_weighted": self.pace.token_weighted(),
            "output_tokens": self.output_tokens,
            "wasted_input_tokens": self.wasted_input_tokens,
            "wasted_output_tokens": self.wasted_output_tokens,
            "wasted_tokens_estimated": self.wasted_tokens_estimated,
            "wasted_attempts_uncounted": self.wasted_attempts_uncounted,
            "ttft_ms": self.ttft_ms.snapshot(now_ns),
            "longest_silence_ms": self.longest_silence_ms.snapshot(now_ns),
            "stall_duration_ms": self.stall_duration_ms.snapshot(now_ns),
            "cancel_to_closed_ms": self.cancel_to_closed_ms.snapshot(now_ns),
        }


@attrs.define
class _Calls:
    """What is known of calls that were treated alike; see :class:`Cohort`."""

    calls: int = 0
    failed: int = 0
    total_ms: Histogram = attrs.field(factory=Histogram)
    ttft_ms: Histogram = attrs.field(factory=Histogram)

    def add(self, call: _Ended) -> None:
        """Add a call that its caller did not leave."""
        self.calls += 1
        if call.outcome == "failed":
            self.failed += 1
        else:
            _record(self.total_ms, call.stats.total_ms, _EVER)
            _record(self.ttft_ms, call.stats.ttft_ms, _EVER)

    def cohort(self) -> Cohort:
        return Cohort(
            calls=self.calls,
            failed=self.failed,
            total_ms=self.total_ms.snapshot(_EVER),
            ttft_ms=self.ttft_ms.snapshot(_EVER),
        )


@attrs.define
class _ModelAccount(_Account):
    """What is known of one model; see :class:`ModelStats`."""

    outcomes: Counter[CallOutcome] = attrs.field(factory=Counter[CallOutcome])
    hedges_refused: Counter[RefusalReason] = attrs.field(factory=Counter[RefusalReason])
    hedged: _Calls = attrs.field(factory=_Calls)
    holdout: _Calls = attrs.field(factory=_Calls)

    def add_call(self, call: _Ended) -> None:
        """Add a call of this model."""
        stats = call.stats
        whole = [stats] if call.outcome == "complete" else []
        self.add(call.at_ns, stats.attempts, streams=[stats], whole=whole)
        self.outcomes[call.outcome] += 1
        if stats.hedges_refused:
            self.hedges_refused.update(stats.hedges_refused)
        if call.outcome != "cancelled" and stats.holdout is not None:
            (self.holdout if stats.holdout else self.hedged).add(call)

    def stats(self, now_ns: int, budget_level: float) -> ModelStats:
        """Give the account as it is at *now_ns*."""
        return ModelStats(
            **self.fields(now_ns),
            outcomes={outcome: self.outcomes[outcome] for outcome in get_args(CallOutcome)},
            hedges_refused={why: self.hedges_refused[why] for why in get_args(RefusalReason)},
            budget_level=budget_level,
            hedged=self.hedged.cohort(),
            holdout=self.holdout.cohort(),
        )


class _Aggregate(TypedDict):
    """The fields of :class:`Aggregate`."""

    calls: int
    attempts: Mapping[AttemptKind, Mapping[Outcome, int]]
    stalled_calls: int
    stalls: int
    stall_s: float
    open_stall_s: float
    generation_s: float
    stall_share: float | None
    tpot_mean_request_weighted: float | None
    itl_mean_token_weighted: float | None
    output_tokens: int
    wasted_input_tokens: int
    wasted_output_tokens: int
    wasted_tokens_estimated: int
    wasted_attempts_uncounted: int
    ttft_ms: Distribution
    longest_silence_ms: Distribution
    stall_duration_ms: Distribution
    cancel_to_closed_ms: Distribution


def _stalls(figures: StreamFigures) -> int:
    return (figures.stall_count or 0) + sum(stall.open for stall in figures.stalls)


def _longest_silence(figures: StreamFigures) -> float | None:
    silences = (figures.max_gap_ms, figures.open_gap_ms)
    return max((silence for silence in silences if silence is not None), default=None)


def _record(histogram: Histogram, value: float | None, now_ns: int) -> None:
    if value is not None:
        histogram.record(value, now_ns)


def _ns(milliseconds: float | None) -> int:
    return round((milliseconds or 0) * 1e6)


def _ratio(total: float, parts: float) -> float | None:
    return total / parts if parts else None
