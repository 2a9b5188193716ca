"""What many calls cost together: the figures of each target and each model, frozen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from math import isqrt, ldexp

import attrs

from .instrument import CallOutcome
from .stats import AttemptKind, Outcome, RefusalReason, Standing

SCALE = 5
BUCKETS_PER_DOUBLING = 1 << SCALE

WINDOW_S = 300
"""How far back a :class:`Distribution` of a gateway looks, in slices of :data:`SLICE_S`."""

SLICE_S = 30


def _floor(step: int) -> float:
    """Give 2^(step/32), rounded down to a float.

    By exact integer square roots, so that no value falls on the wrong side of a bound, and all
    machines have the same bounds; a logarithm in floats gives neither.
    """
    power = 1 << (step + 52 * BUCKETS_PER_DOUBLING)
    for _ in range(SCALE):
        power = isqrt(power)
    return power / 2**52


BUCKET_FLOORS = tuple(map(_floor, range(BUCKETS_PER_DOUBLING)))
"""Lower bounds of the buckets 0 to 31, which divide what lies between 1 and 2."""

# The value of a bucket that is nowhere farther from what is in it than by (g - 1) / (g + 1), which
# is 1.083 %, where g is the ratio of two bounds.
_MIDDLE = 2 * BUCKET_FLOORS[1] / (1 + BUCKET_FLOORS[1])


def _middle(index: int) -> float:
    doublings, step = divmod(index, BUCKETS_PER_DOUBLING)
    return ldexp(BUCKET_FLOORS[step] * _MIDDLE, doublings)


@attrs.frozen(kw_only=True)
class Distribution:
    """How often which values occurred, from 0 up, to within 1.09 %.

    The buckets are those of OpenTelemetry's exponential histogram at scale 5: bucket ``i`` counts
    the values over 2^(i/32), up to and including 2^((i+1)/32). ``a + b`` is the distribution of the
    values of both; ``Distribution()`` is that of none.
    """

    zero_count: int = 0
    """Values that were 0."""

    buckets: Mapping[int, int] = attrs.field(factory=dict[int, int])
    """Values in each bucket, by its index; buckets without any are left out."""

    sum: float = 0.0
    """Of all values."""

    min: float | None = None
    """The least value, exactly; ``None`` when there is none."""

    max: float | None = None
    """The greatest value, exactly; ``None`` when there is none."""

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.zero_count + sum(self.buckets.values())

    @property
    def mean(self) -> float | None:
        """``sum / count``; ``None`` when there is no value."""
        return self.sum / self.count if self.count else None

    def quantile(self, q: float) -> float | None:
        """Give the least value that at least the share *q* of all values does not exceed.

        That is the nearest rank: always one of the values, never between two. What is given differs
        from it by at most 1.09 %, and lies between ``min`` and ``max``. ``None`` when there is no
        value.

        Args:
            q: from 0, which gives ``min``, to 1.

        Raises:
            ValueError: *q* is not from 0 to 1.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile is a share from 0 to 1, not {q!r}")
        if self.min is None or self.max is None:
            return None
        indexes = sorted(self.buckets)
        upto = list(accumulate((self.buckets[index] for index in indexes), initial=self.zero_count))
        # A quotient, for 7 / 100 is the float 0.07, while 0.07 * 100 is more than 7.
        place = bisect_left(upto, q, key=lambda seen: seen / upto[-1])
        middle = _middle(indexes[place - 1]) if place else 0.0
        return min(max(middle, self.min), self.max)

    def __add__(self, other: Distribution) -> Distribution:
        buckets = dict(self.buckets)
        for index, times in other.buckets.items():
            buckets[index] = buckets.get(index, 0) + times
        both = (self, other)
        return Distribution(
            zero_count=self.zero_count + other.zero_count,
            buckets=buckets,
            sum=self.sum + other.sum,
            min=min((each.min for each in both if each.min is not None), default=None),
            max=max((each.max for each in both if each.max is not None), default=None),
        )


@attrs.frozen(kw_only=True)
class Aggregate:
    """What the calls of a gateway cost together, as far as they concern one target or model.

    Counts and sums are over all calls that ended since the gateway was opened; a call counts when
    it ends. Distributions are over those that ended in the last five minutes (in steps of 30 s, so
    at least 270 s).

    Of a target, *streams* are all attempts at it, also those that lost, failed or were cancelled:
    they tell how the target behaves, with times from the attempt's start. Of a model they are the
    calls, with the figures of :class:`CallStats`: they tell what callers got, with times from the
    application's call, so that a stall from which a hedge rescued the call is its target's alone.
    *Attempts* are in both cases all of them. A figure that is ``None`` in a stream is left out of
    sums and distributions; it never counts as 0.
    """

    calls: int
    """Calls of the model; calls with at least one attempt at the target."""

    attempts: Mapping[AttemptKind, Mapping[Outcome, int]]
    """Attempts by what started them and by what became of them; every pair is there."""

    stalled_calls: int
    """Calls with at least one stall in a stream, open ones included."""

    stalls: int
    """Stall events: the sum of ``stall_count``, and one for each stream that ended in a stall."""

    stall_s: float
    """Seconds: the sum of ``stall_ms``. Streams that ended in a stall are in it with the stalls
    before that one; see ``open_stall_s``.
    """

    open_stall_s: float
    """Seconds of the stalls in which streams ended, up to that end, because a hedge was better, a
    limit was reached, the connection broke, or the caller left. What they would have become is not
    known.
    """

    generation_s: float
    """Seconds: the sum of ``generation_ms``, silences between content chunks included."""

    stall_share: float | None
    """``stall_s / generation_s``, from 0 to 1: the share of generation that stood still.

    The more stalls end by a hedge, the less of them is in it: see ``open_stall_s``. ``None`` when
    there was no generation.
    """

    tpot_mean_request_weighted: float | None
    """The mean of ``tpot_ms``, in milliseconds: every stream has the same weight.

    Only streams that ended properly: of a target, with its terminal fact; of a model, with a whole
    answer. ``None`` when none of them has a ``tpot_ms``.
    """

    itl_mean_token_weighted: float | None
    """Milliseconds: the sum of ``generation_ms`` divided by the sum of ``output_tokens - 1``, over
    the same streams: every token has the same weight, so long answers count for more.

    ``None`` when ``tpot_mean_request_weighted`` is.
    """

    output_tokens: int
    """Generated tokens that providers counted, in attempts that were not in vain."""

    wasted_input_tokens: int
    """Prompt tokens of the attempts that were in vain; estimates included."""

    wasted_output_tokens: int
    """Generated tokens of the attempts that were in vain; estimates included."""

    wasted_tokens_estimated: int
    """How many of both are estimates, as :class:`Waste` says."""

    wasted_attempts_uncounted: int
    """Attempts that were in vain and of which nothing tells what they cost; they are in none of the
    sums.
    """

    ttft_ms: Distribution
    """Time to first content of the streams that had any.

    An attempt that was cancelled before it had content is no sample: how long it would have taken
    is not known. So where slow ones are cut off by hedges, this sees the faster rest.
    """

    longest_silence_ms: Distribution
    """The longest time waited in each stream after its first content: ``max_gap_ms``, or the
    silence in which the stream ended before its proper end, if that was longer.
    """

    stall_duration_ms: Distribution
    """How long each stalled gap lasted, until content came or the stream ended; of the longest 64
    of each stream.
    """

    cancel_to_closed_ms: Distribution
    """From the decision to cancel an attempt to the closing of its socket."""

    @property
    def hedges_started(self) -> int:
        """Attempts that were started while another one ran."""
        return sum(self.attempts["hedge"].values())

    @property
    def hedges_won(self) -> int:
        """Hedges whose answer the caller got; one that broke after its commit failed."""
        return self.attempts["hedge"]["won"]


@attrs.frozen(kw_only=True)
class TargetStats(Aggregate):
    """How one target behaved, whatever model it was asked for."""

    standing: Standing
    """What is held of it at the moment of the snapshot."""

    after_s: float | None
    """What ``hedge.after_s = "auto"`` has learned: seconds; ``None`` until it has seen enough."""


@attrs.frozen(kw_only=True)
class Cohort:
    """What those calls got that were treated alike, since the gateway was opened.

    Calls that their callers left are in none: how they would have ended is not known.
    """

    calls: int
    failed: int
    """How many of them failed."""

    total_ms: Distribution
    """From the application's call to the end of the answer, of those that came whole."""

    ttft_ms: Distribution
    """From the application's call to the first content, of the same."""


@attrs.frozen(kw_only=True)
class ModelStats(Aggregate):
    """What those got who called one model."""

    outcomes: Mapping[CallOutcome, int]
    """Calls by what became of them; every outcome is there, and their sum is ``calls``."""

    hedges_refused: Mapping[RefusalReason, int]
    """Hedges that were due and did not start, by the reason why; every reason is there."""

    budget_level: float
    """Tokens that the model's purse holds for hedges and retries, at the moment of the snapshot:
    at most ``hedge.budget_burst``, and below 0 after failovers that could not be refused.
    """

    hedged: Cohort
    """The calls that could be hedged, whether they were or not: all but those of the holdout, and
    those with ``hedge.enabled = false``.
    """

    holdout: Cohort
    """The calls that ``hedge.holdout`` kept from being hedged. Chance alone chose them, so what
    sets them apart from ``hedged`` is what hedging does.
    """


@attrs.frozen(kw_only=True)
class GatewayStats:
    """What a gateway knows about its targets and models, at one moment."""

    targets: Mapping[str, TargetStats]
    """By name; every configured target is there, with zeros if it was not used."""

    models: Mapping[str, ModelStats]
    """By name; every configured model is there, with zeros if it was not used."""
