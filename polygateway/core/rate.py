"""Tokens per second: a figure, what it is based on, and if there is none, why."""

# Theory of operation
# ===================
#
# Rule 1: a rate needs a proper end and a count of tokens that the provider gave. Without either
#         there is none, and the reason says so.
# Rule 2: the best basis is flowing time: the tokens that came at the end of gaps that flowed, over
#         the generation less its stalls. Tokens that ended a stall are not counted: they took no
#         flowing time, and with them a true 50 tokens a second would read 55.6.
# Rule 3: backpressure is never deducted. What a slow consumer finds waiting took the provider no
#         time that was seen, so a true 50 would read 1000. With much of it, rule 4 holds.
# Rule 4: else all tokens after the first arrival over the whole generation: the true rate was at
#         least that.

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..stats import RateBasis, RateReason

if TYPE_CHECKING:
    from ..usage import Usage
    from .tally import Share, Tally

_SHORTEST_NS = 200_000_000
"""Over less than 200 ms, jitter of the network decides."""

_FEWEST_GAPS = 5
_SHORTEST_MEAN_GAP_NS = 1_000_000
"""Gaps of less than 1 ms on average tell how a burst was cut, not how it was generated."""

_MOST_PER_S = 10_000
"""No server generates one answer so fast: the tokens were there before."""


@attrs.frozen
class Rate:
    """Tokens per second."""

    per_s: float | None
    basis: RateBasis | None
    reason: RateReason | None
    """Why there is none; ``None`` if there is one."""


def rate(tally: Tally, usage: Usage, *, ended: bool) -> Rate:
    """Give the rate of one streamed answer.

    Args:
        tally: what its arrivals add up to.
        usage: what its provider counted.
        ended: whether it ended properly.
    """
    if tally.chunk_count == 0:
        return _none("empty")
    if tally.chunk_count == 1:
        return _none("single_chunk")
    generation_ns = (tally.last_ns or 0) - (tally.first_ns or 0)
    if generation_ns < _SHORTEST_NS:
        return _none("burst")
    if not ended:
        return _none("truncated")
    if usage.output_tokens is None:
        return _none("no_token_count")
    return (
        _active(tally, usage, usage.output_tokens, generation_ns)
        or _per_second(
            "wall_lower_bound", _decoded(tally, usage, usage.output_tokens), generation_ns
        )
        or _none("implausible")
    )


def _none(reason: RateReason) -> Rate:
    return Rate(None, None, reason)


def _active(tally: Tally, usage: Usage, count: int, generation_ns: int) -> Rate | None:
    active_ns = generation_ns - tally.stall_ns
    backpressure_ns = generation_ns - tally.waited_ns
    usable = (
        tally.flowing_gap_count >= _FEWEST_GAPS
        and tally.flowing_ns >= _SHORTEST_MEAN_GAP_NS * tally.flowing_gap_count
        and active_ns >= _SHORTEST_NS
        and tally.stall_ns < active_ns
        and 10 * backpressure_ns <= active_ns
    )
    if not usable:
        return None
    return _per_second("active", _tokens_of(tally.flowing, tally, usage, count), active_ns)


def _decoded(tally: Tally, usage: Usage, count: int) -> float:
    """Give the tokens after the first arrival."""
    return sum(_tokens_of(share, tally, usage, count) for share in (tally.flowing, tally.resuming))


def _tokens_of(share: Share, tally: Tally, usage: Usage, count: int) -> float:
    """Give the tokens of a part of the content, of *count* in all."""
    if tally.counts_tokens and tally.output_tokens == count:
        return share.output_tokens
    hidden = 0 if tally.has_reasoning else usage.reasoning_tokens or 0
    if tally.characters:
        return (count - hidden) * share.characters / tally.characters
    return (count - hidden) * share.chunk_count / tally.chunk_count


def _per_second(basis: RateBasis, tokens: float, duration_ns: int) -> Rate | None:
    """Give a rate, if it is plausible."""
    per_s = tokens * 1e9 / duration_ns
    return Rate(per_s, basis, None) if 0 < per_s <= _MOST_PER_S else None
