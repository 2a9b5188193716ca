"""Seconds, as people write them, and whole nanoseconds, as everything here counts."""

from __future__ import annotations


def ns(seconds: float) -> int:
    """Give *seconds* in whole nanoseconds."""
    return round(seconds * 1e9)
