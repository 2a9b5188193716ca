"""When a provider will take us again, in the forms in which providers say it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Plain decimals only: ``float`` also takes "nan", "inf", "1_0" and "1e9".
_DECIMAL = re.compile(r"\d+(?:\.\d+)?", re.ASCII)

# OpenAI and Groq write "try again in 1.5s", "in 20ms", "in 6m0s" (the Go form of durations), Azure
# "retry after 6 seconds".
_PROSE = re.compile(r"(?:try again|retry)\s+(?:in|after)\s+", re.IGNORECASE)
_PART = re.compile(
    r"(\d+(?:\.\d+)?)\s*"
    r"(?:(?P<ms>ms|milliseconds?)|(?P<s>s|secs?|seconds?)|(?P<m>m|mins?|minutes?)|(?P<h>h|hours?))"
    r"(?![a-z])\s*",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def retry_after_s(headers: Mapping[str, str], text: str) -> float | None:
    """Give the seconds to wait, by the most exact hint that is there; ``None`` if none is.

    ``x-ratelimit-reset-*`` is none: it is the time until the bucket is full again.

    Args:
        headers: the response's headers, names in lower case.
        text: what the provider said.
    """
    milliseconds = _decimal(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    seconds = _decimal(headers.get("retry-after", ""))
    return _in_prose(text) if seconds is None else seconds


def _decimal(text: str) -> float | None:
    text = text.strip()
    return _finite(float(text)) if _DECIMAL.fullmatch(text) else None


def _in_prose(text: str) -> float | None:
    hint = _PROSE.search(text)
    part = _PART.match(text, hint.end()) if hint else None
    if part is None:
        return None
    seconds = 0.0
    while part is not None:
        seconds += float(part[1]) * _SECONDS[part.lastgroup or ""]
        part = _PART.match(text, part.end())
    return _finite(seconds)


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
