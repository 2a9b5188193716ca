"""Figures in words, each with its unit; what does not exist is a dash and never a zero."""

from __future__ import annotations

import textwrap
import unicodedata
from typing import TYPE_CHECKING

from .markup import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...stats import AttemptStats, StreamFigures
    from ..records import RecordedCall

NONE = "-"

COLUMNS = (
    *("ttft", "generation", "stall", "active", "backpressure", "longest gap", "tail", "total"),
    *("tokens", "tokens/s"),
)
"""Names of the figures that pictures and pages show, in order."""

_LONGEST = 40
"""Columns of text for a word that was read from somewhere."""

_MINUTE = 60
_HOUR = 3600


def duration(ms: float | None) -> str:
    """Write a duration with three digits, or from two minutes on in whole seconds."""
    if ms is None:
        return NONE
    if ms < 999.5:
        return f"{_digits(ms)} ms"
    if ms < 119_500:
        return f"{_digits(ms / 1000)} s"
    return clock(round(ms / 1000))


def clock(seconds: int) -> str:
    """Write whole seconds as hours, minutes and seconds, without those that are 0."""
    parts = {
        "h": seconds // _HOUR,
        "min": seconds % _HOUR // _MINUTE,
        "s": seconds % _MINUTE,
    }
    return " ".join(f"{count} {unit}" for unit, count in parts.items() if count) or "0"


def _digits(value: float) -> str:
    if not value:
        return "0"
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def figures(stats: StreamFigures) -> Mapping[str, str]:
    """Give the cells of a row by column."""
    cells = (
        duration(stats.ttft_ms),
        duration(stats.generation_ms),
        duration(stats.stall_ms),
        duration(stats.active_generation_ms),
        duration(stats.backpressure_ms),
        duration(stats.max_gap_ms),
        duration(stats.tail_ms),
        duration(stats.total_ms),
        NONE if stats.output_tokens is None else str(stats.output_tokens),
        rate(stats),
    )
    return dict(zip(COLUMNS, cells, strict=True))


def rate(stats: StreamFigures) -> str:
    """Write the speed with what it is based on, or why there is none."""
    per_s = stats.tokens_per_s
    if per_s is None:
        return spaced(stats.rate_reason or NONE)
    digits = f"{per_s:.{0 if per_s >= 99.95 else 1}f}"
    return f"{digits} active" if stats.rate_basis == "active" else f"≥ {digits} wall"


def counted(calls: int) -> str:
    """Write how many calls there are."""
    return f"{calls} call{'' if calls == 1 else 's'}"


def spaced(name: str) -> str:
    """Write a name of ours as words."""
    return name.replace("_", " ")


def kind(attempt: AttemptStats) -> str:
    """Say what an attempt was made for."""
    return f"{attempt.kind} ({attempt.reason})" if attempt.reason else attempt.kind


def fate(attempt: AttemptStats) -> str:
    """Say what became of an attempt."""
    why = attempt.error_kind or (attempt.cancel_reason if attempt.outcome == "cancelled" else None)
    end = attempt.outcome or "running"
    return f"{end} ({cut(spaced(why), _LONGEST)})" if why else end


def outcome(call: RecordedCall) -> str:
    """Say what became of a call."""
    why = call.error_kind
    return f"{call.outcome} ({cut(spaced(why), _LONGEST)})" if why else call.outcome


def cut(text: str, most: int) -> str:
    """Shorten a text to so many columns; wide characters take two."""
    text = plain(text)
    if columns(text) <= most:
        return text
    text = text[:most]
    while columns(text) > most - 1:
        text = text[:-1]
    return f"{text}…"


def wrapped(text: str, most: int) -> list[str]:
    """Break a text into lines of at most so many columns."""
    text = plain(text)
    return textwrap.wrap(text, most if columns(text) == len(text) else most // 2)


def columns(text: str) -> int:
    """Tell how many columns a text takes."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
