"""When a provider will take us again, in the forms in which providers say it.

From the most exact to the least: the header ``retry-after-ms`` (OpenAI, Azure), the header
``Retry-After`` (RFC 9110, section 10.2.3: seconds or a date), a field of the error
(google.rpc.RetryInfo, OpenRouter's ``retry_after_seconds``), its text.

No hint is what says when a bucket is full again: ``x-ratelimit-reset-*`` (OpenAI, Groq; -1 or 0 on
Azure) and ``anthropic-ratelimit-*-reset``. A request of ordinary size is taken long before.
"""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..messages import JSON

# Plain decimals only: ``float`` also takes "nan", "inf", "1_0" and "1e9".
_DECIMAL = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)s", re.ASCII)

# OpenAI and Groq write "try again in 1.5s", "in 20ms", "in 6m0s" (the Go form of durations), Azure
# "retry after 6 seconds", Gemini "retry in 7.5s", GitHub "wait 46 seconds before retrying".
_PROSE = re.compile(
    r"\b(?:(?:try again|retry|will reset)\s+(?:in|after)|please wait)\s+(?:about\s+)?",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(\d{1,12}(?:\.\d{1,12})?)\s*"
    r"(?:(?P<ms>ms|milliseconds?)|(?P<s>s|secs?|seconds?)|(?P<m>m|mins?|minutes?)"
    r"|(?P<h>h|hrs?|hours?)|(?P<d>d|days?))"
    r"(?![a-z])[\s,]*(?:and\s+)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MOST_SEARCHED = 65536


def retry_after_s(
    headers: Mapping[str, str], told_s: float | None, text: str, *, now_s: float
) -> float | None:
    """Give the seconds to wait, by the most exact hint that is there; ``None`` if none is.

    Args:
        headers: the response's headers, names in lower case.
        told_s: what a field of the error says; ``None`` if none does.
        text: what the provider said.
        now_s: the time of day in seconds since 1970.
    """
    stated = _in_headers(headers, now_s)
    if stated is None:
        stated = told_s
    return _in_prose(text[:_MOST_SEARCHED]) if stated is None else stated


def duration_s(value: JSON) -> float | None:
    """Give the seconds of a google.protobuf.Duration, as "7.5s"; ``None`` if it is none."""
    duration = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return _finite(float(duration[1])) if duration else None


def seconds(value: JSON) -> float | None:
    """Give a number of seconds; ``None`` if *value* is none, or one that cannot be waited."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # JSON's numbers have no bound, but floats do.
    return float(value) if 0 <= value <= sys.float_info.max else None


def _in_headers(headers: Mapping[str, str], now_s: float) -> float | None:
    milliseconds = _decimal(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    stated = headers.get("retry-after", "")
    wait = _decimal(stated)
    return _until(stated, headers.get("date", ""), now_s) if wait is None else wait


def _until(date: str, sent: str, now_s: float) -> float | None:
    """Give the seconds until *date*, 0 if it is past; ``None`` if it is none.

    It counts from when the response was *sent* by the clock that made it, which need not be ours.
    """
    at_s = _date(date)
    if at_s is None:
        return None
    sent_s = _date(sent)
    return max(0.0, at_s - (now_s if sent_s is None else sent_s))


def _date(text: str) -> float | None:
    """Give an HTTP date in seconds since 1970; ``None`` if it is none.

    RFC 9110 (section 5.6.7) knows three forms, one of them without a zone; all mean UTC.
    """
    # Within, for email is no small package, and few programs are ever told a date.
    from calendar import timegm  # noqa: PLC0415
    from email.utils import parsedate_tz  # noqa: PLC0415

    try:
        parts = parsedate_tz(text)
        return None if parts is None else timegm(parts[:6]) - float(parts[9] or 0)
    except (ValueError, OverflowError):  # one that no calendar has
        return None


def _decimal(text: str) -> float | None:
    text = text.partition(",")[0].strip()  # a header that came twice
    return _finite(float(text)) if _DECIMAL.fullmatch(text) else None


def _in_prose(text: str) -> float | None:
    parts = (_PART.match(text, hint.end()) for hint in _PROSE.finditer(text))
    part = next(filter(None, parts), None)
    if part is None:
        return None
    wait = 0.0
    while part is not None:
        wait += float(part[1]) * _SECONDS[part.lastgroup or ""]
        part = _PART.match(text, part.end())
    return wait


def _finite(wait: float) -> float | None:
    return wait if math.isfinite(wait) else None
