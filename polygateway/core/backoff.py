"""How long to wait before a target is tried again."""

from __future__ import annotations


def backoff_ns(retry: int, *, base_ns: int, most_ns: int, share: float) -> int:
    """Give the wait before the *retry*-th retry of a target (from 1).

    Half of d = min(*most_ns*, *base_ns* * 2^(retry-1)) is always waited, so that nothing hammers;
    the other half is drawn ("equal jitter"), so that callers that failed together do not return
    together.

    Args:
        retry: number of the retry, from 1.
        base_ns: d of the first retry.
        most_ns: the most that d can be.
        share: uniform random number from 0 to 1.
    """
    # The exponent is bounded: 2**retry would become a number of a thousand digits.
    d = min(most_ns, base_ns << min(retry - 1, 64))
    return d // 2 + round(d / 2 * share)
