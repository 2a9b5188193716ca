"""Calls of every sort, as pictures must be able to show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.observe.staged import Content, attempt, call, flow, seam

if TYPE_CHECKING:
    from polygateway.observe.records import RecordedCall


def quick() -> RecordedCall:
    """A call of a tenth of a second."""
    only = attempt(0, flow(0.031, 0.091, 0.004), 0.1, tokens=30)
    return call(only, total=0.1, commit=0.031)


def hedged_start() -> RecordedCall:
    """A first content that is late, and a hedge that is not."""
    late = attempt(
        0,
        [],
        1.9,
        outcome="lost",
        end_kind="cancelled",
        cancel_reason="lost the race",
        closing_ms=0.4,
    )
    hedge = attempt(
        1, flow(1.9, 2.9, 0.02), 3, started=1, target="us", kind="hedge", reason="ttft", tokens=90
    )
    return call(late, hedge, total=3, commit=1.9, saved_ms=1900)


def rescued() -> RecordedCall:
    """A long stall, and a hedge that wins the duel."""
    stalled = attempt(
        0,
        flow(1.6, 9.4, 0.05),
        50,
        outcome="lost",
        end_kind="cancelled",
        cancel_reason="lost a duel",
        closing_ms=0.8,
    )
    hedge = attempt(
        1,
        [*flow(50, 53, 0.04), Content(55.6, keepalives=3), *flow(55.7, 59, 0.04)],
        60,
        started=48.2,
        target="us",
        kind="hedge",
        reason="stall",
        tokens=400,
    )
    return call(stalled, hedge, total=60, commit=60, saved_ms=40_600)


def odyssey() -> RecordedCall:
    """Ten minutes, five attempts, every sort of trouble."""
    silent = "StallTimeout: target 'eu' sent no content for 120.0 s (stream.stall_timeout_s)"
    return call(
        attempt(
            0,
            [*flow(3, 40, 0.5), *flow(70, 100, 0.5)],
            220,
            end_kind="watchdog",
            outcome="failed",
            error=("transient", silent),
        ),
        attempt(
            1,
            [*flow(108, 130, 0.4, "reasoning"), *flow(131, 150, 0.4)],
            290,
            started=105,
            target="us",
            kind="hedge",
            reason="stall",
            last_keepalives=28,
            closing_ms=2.5,
            outcome="lost",
            end_kind="cancelled",
            cancel_reason="lost a duel",
        ),
        attempt(
            2,
            flow(165, 200, 1),
            260,
            started=160,
            target="ap",
            kind="hedge",
            reason="stall",
            outcome="failed",
            end_kind="cut",
            error=("transient", "Truncated: target 'ap' ended the stream after 36 chunks"),
        ),
        attempt(
            3,
            [],
            290,
            started=266,
            target="eu",
            kind="hedge",
            reason="stall",
            outcome="failed",
            end_kind="error",
            error=("overloaded", "Overloaded: target 'eu' answered 503: no capacity"),
        ),
        attempt(
            4,
            [
                *flow(292, 400, 0.3),
                *(Content(400 + 6 * i, held=5.5) for i in range(1, 14)),
                *flow(480, 590, 0.3),
            ],
            600,
            started=290,
            target="sa",
            kind="retry",
            tokens=900,
        ),
        total=600,
        commit=292,
        refused=3,
    )


def torrent() -> RecordedCall:
    """Thousands of chunks."""
    only = attempt(0, flow(0.8, 44.8, 0.004), 45, tokens=12_000)
    return call(only, total=45, commit=0.8)


def kinds() -> RecordedCall:
    """Reasoning, then text, then tool calls; and a refusal beside it."""
    only = attempt(
        0,
        [
            *flow(0.9, 4, 0.09, "reasoning"),
            *flow(6.3, 9, 0.07),
            *flow(9.4, 11, 0.11, "tool_call"),
            *flow(11.2, 11.9, 0.1, "refusal"),
        ],
        12.4,
        tokens=150,
    )
    return call(only, total=12.4, commit=0.9)


def failed() -> RecordedCall:
    """A call that failed, after a retry."""
    refused = ("overloaded", "Overloaded: target 'eu' answered 503: all workers are busy")
    cut = ("transient", "Truncated: target 'us' ended the stream after 9 chunks without an end")
    return call(
        attempt(0, [], 0.35, outcome="failed", end_kind="error", error=refused),
        attempt(
            1,
            flow(1.6, 2.5, 0.11),
            5.1,
            started=0.4,
            target="us",
            kind="retry",
            outcome="failed",
            end_kind="cut",
            error=cut,
        ),
        total=5.1,
        outcome="failed",
        error=cut,
    )


def slow_consumer() -> RecordedCall:
    """A consumer that takes its time, a true stall, and a caller who leaves."""
    only = attempt(
        0,
        [
            *(Content(1 + 0.05 * i, held=0.02) for i in range(60)),
            *(Content(4 + 1.1 * i, held=1) for i in range(1, 6)),
            Content(14.5, held=2, keepalives=2),
            *flow(14.6, 16, 0.05),
        ],
        21,
        outcome="cancelled",
        end_kind="cancelled",
        cancel_reason="caller",
        closing_ms=1.2,
    )
    return call(only, total=21, commit=1, outcome="cancelled")


def recovered() -> RecordedCall:
    """A stream that stalls and goes on elsewhere, breaks there, and begins anew."""
    stalled = attempt(
        0,
        flow(1.6, 9.4, 0.05),
        17,
        outcome="lost",
        end_kind="cancelled",
        cancel_reason="lost the race",
        closing_ms=0.8,
    )
    broken = attempt(
        1,
        flow(17, 21, 0.04),
        24.5,
        started=15.2,
        target="us",
        kind="hedge",
        reason="stall",
        outcome="failed",
        end_kind="cut",
        error=("transient", "Truncated: target 'us' ended the stream after 101 chunks"),
    )
    whole = attempt(2, flow(26, 38, 0.04), 39, started=24.5, target="ap", kind="retry", tokens=400)
    seams = [seam("continue", 0, 1, 17, 628), seam("restart", 1, 2, 26, 1032)]
    return call(stalled, broken, whole, total=39, commit=1.6, seams=seams)


def held_out() -> RecordedCall:
    """A call that stalled, and was not to be hedged."""
    only = attempt(0, [*flow(1.6, 5, 0.05), *flow(30, 38, 0.05)], 38.4, tokens=240)
    return call(only, total=38.4, commit=1.6, holdout=True)


GALLERY = {
    made.__name__: made
    for made in (
        *(quick, hedged_start, rescued, odyssey, torrent, kinds, failed, slow_consumer),
        *(recovered, held_out),
    )
}
