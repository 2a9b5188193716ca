"""The one clock: trio's, in integer nanoseconds, so that virtual time reaches everything."""

from __future__ import annotations

import math
import time

import trio

from ..core.units import ns


def now_ns() -> int:
    """Give the time of trio's clock in whole nanoseconds."""
    return ns(trio.current_time())


def trio_deadline(at_ns: int | None) -> float:
    """Give a time of this clock as a deadline for a cancel scope; ``None`` means never."""
    return math.inf if at_ns is None else at_ns / 1e9


def wall_s() -> float:
    """Give the time of day in seconds since 1970: only to read the dates that providers send."""
    return time.time()  # noqa: TID251 - dates are of no other clock
