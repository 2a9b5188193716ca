"""Healths in every state, brought there by what attempts teach."""

from __future__ import annotations

from typing import Literal, TypeAlias

from polygateway.core.breaker import PROBE_NS
from polygateway.core.health import Health
from tests.core.driver import SECOND, START

State: TypeAlias = Literal["healthy", "due", "degraded", "degraded, due", "resting", "open"]
"""``due``: it has failed, and a probe is due. ``resting``: it asked for a minute's wait."""

REST = 60 * SECOND


def fail(health: Health, now: int, count: int = 5) -> None:
    """Let so many attempts fail at once. Five open the breaker."""
    for _ in range(count):
        health.launched(now)
    for _ in range(count):
        health.failed(now, now, was_silent=False)


def fall_silent(health: Health, now: int, count: int = 10) -> None:
    """Let so many attempts fall silent at once. Ten make a target degraded."""
    for _ in range(count):
        health.launched(now)
    for _ in range(count):
        health.fell_silent(now, now)
        health.cancelled(now, was_silent=True)


def end_well(health: Health, now: int, count: int = 20) -> None:
    """Let so many attempts come to their proper end at once. Twenty make up for all before."""
    for _ in range(count):
        health.launched(now)
    for _ in range(count):
        health.ended(now, now, was_silent=False)


def health_of(state: State, now: int = START) -> Health:
    """Give a health that is in that state at *now*, and for 10 s (``resting`` for 60 s)."""
    health = Health()
    match state:
        case "due":
            fail(health, now - PROBE_NS)
        case "open":
            fail(health, now)
        case "degraded":
            fall_silent(health, now)
        case "degraded, due":
            fall_silent(health, now - PROBE_NS)
            health.called()
        case "resting":
            health.rest.ask(REST, now)
        case "healthy":
            pass
    return health
