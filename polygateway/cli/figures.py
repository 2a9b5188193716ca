"""Figures in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..stats import AttemptStats, CallStats, Seam, StreamFigures
    from ..usage import Usage

NONE = "-"
"""What is shown where a figure does not exist."""


def seconds(ms: float | None) -> str:
    """Write a duration as seconds."""
    return NONE if ms is None else f"{ms / 1000:.2f} s"


def milliseconds(ms: float | None) -> str:
    """Write a short duration."""
    return NONE if ms is None else f"{ms:.1f} ms"


def winner(attempts: Iterable[AttemptStats]) -> AttemptStats | None:
    """Give the attempt that won; ``None`` if none did."""
    return next((attempt for attempt in attempts if attempt.outcome == "won"), None)


def call_lines(stats: CallStats, usage: Usage) -> list[str]:
    """Tell where a call's time went."""
    times = {
        "total": stats.total_ms,
        "ttft": stats.ttft_ms,
        "generation": stats.generation_ms,
        "stall": stats.stall_ms,
    }
    return [
        "   ".join([*(f"{name} {seconds(ms)}" for name, ms in times.items()), *speed(stats)]),
        f"{attempts_line(stats.attempts)}{_seams(stats.seams)}{_tokens(usage)}",
    ]


def speed(figures: StreamFigures) -> Iterator[str]:
    """Write the rate, if there is one."""
    if figures.tokens_per_s is not None:
        bound = "at least " if figures.rate_basis == "wall_lower_bound" else ""
        yield f"speed {bound}{figures.tokens_per_s:.1f} tokens/s"


def attempts_line(attempts: Sequence[AttemptStats]) -> str:
    """Tell what became of the attempts."""
    won = winner(attempts)
    name = NONE if won is None else f"{won.target} ({won.kind})"
    return f"attempts {len(attempts)}: {', '.join(map(_fate, attempts))}   winner {name}"


def _fate(attempt: AttemptStats) -> str:
    """Say of one attempt where it went, and how it ended."""
    why = attempt.error_kind or attempt.cancel_reason
    end = attempt.outcome or "running"
    return f"{attempt.target} {end}" + (f" ({why})" if why else "")


def _seams(seams: Sequence[Seam]) -> str:
    return f"   seams {len(seams)}: {', '.join(seam.kind for seam in seams)}" if seams else ""


def _tokens(usage: Usage) -> str:
    counts = {"in": usage.input_tokens, "out": usage.output_tokens}
    known = [f"{count} {way}" for way, count in counts.items() if count is not None]
    return f"   tokens {', '.join(known)}" if known else ""
