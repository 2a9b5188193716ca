"""Which error a provider's error is, told by the tables that all dialects share.

Providers agree on little: the same exhausted quota is a 429, a 402, a 403 or a 400, its code a
word, a number or absent. So what is most specific is asked first: the provider's own word for it,
then what its text says, then the status, then the broad type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from ..errors import (
    AttemptError,
    ContentFiltered,
    ContextLengthExceeded,
    ProtocolViolation,
    QuotaExhausted,
    RateLimited,
    ServerError,
)
from .dialect import Fault
from .fault_tables import CODES, EXACT_WORDS, HUNDREDS, STATUSES, TYPES, WORDS, Names, Wording
from .hints import retry_after_s
from .malformed import excerpt
from .reports import error_in, report_in, report_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..messages import JSON
    from .reports import Report

__all__ = ["error_in", "refused", "reported"]

MOST_CHARACTERS = 500
"""How much of a provider's text an error keeps."""

# What a provider writes may be any length.
_MOST_SEARCHED = 65536

_TITLE = re.compile(r"<title[^<>]{0,100}>([^<]{1,200})", re.IGNORECASE)


def reported(error: JSON, raw: str) -> Fault:
    """Classify an error that came inside the stream of a 200.

    Args:
        error: what :func:`error_in` gave.
        raw: the text of its event, quoted where the error itself has none.
    """
    report = report_of(error, raw)
    fault = _fault(report, report.status, {}, now_s=0.0)
    return fault if fault.message else attrs.evolve(fault, message=fault.code or "an error")


def refused(status: int, headers: Mapping[str, str], body: bytes, *, now_s: float) -> Fault:
    """Classify a reply whose status is not 200.

    Args:
        status: the HTTP status.
        headers: the response's headers, names in lower case.
        body: as much of the body as was kept.
        now_s: the time of day in seconds since 1970.
    """
    if status < 400:
        return _no_refusal(headers)
    text = body.decode("utf-8-sig", errors="replace").strip()
    fault = _fault(report_in(text), status, headers, now_s=now_s)
    return fault if fault.message else attrs.evolve(fault, message=_wordless(text))


def _no_refusal(headers: Mapping[str, str]) -> Fault:
    """Say what is wrong with a reply that is neither a 200 nor an error."""
    message = "neither an answer nor an error"
    if location := headers.get("location"):
        message = f"a redirect to {excerpt(location)!r}: redirects are not followed"
    return Fault(error=ProtocolViolation, message=message)


def _wordless(page: str) -> str:
    if not page:
        return "no body"
    title = _TITLE.search(page)  # Cloudflare's pages begin with a screenful for old browsers
    return f"a page: {excerpt(title[1].strip() if title else page)!r}"


def _fault(
    report: Report, status: int | None, headers: Mapping[str, str], *, now_s: float
) -> Fault:
    wait = retry_after_s(headers, report.wait_s, report.message, now_s=now_s)
    return Fault(
        error=_classify(report, status, wait),
        message=excerpt(report.message, MOST_CHARACTERS),
        code=report.code or None,
        retry_after_s=wait,
        # "true" changes nothing: the SDKs that obey it hammer exhausted accounts.
        do_not_retry=headers.get("x-should-retry", "").partition(",")[0].strip().lower() == "false",
    )


# ---- classifying --------------------------------------------------------------------------------


def _by_name(table: Names) -> Mapping[str, type[AttemptError]]:
    return {name: error for error, names in table for name in names}


_CODES = _by_name(CODES)
_TYPES = _by_name(TYPES)

# A gateway's provider says how it is with the gateway's account, which is not ours. What it says
# of the request is as true of ours.
_OF_THE_REQUEST = (ContextLengthExceeded, ContentFiltered)


def _classify(report: Report, status: int | None, wait: float | None) -> type[AttemptError]:
    said = f"{report.text[:_MOST_SEARCHED]} {report.clues[:_MOST_SEARCHED]}"
    said = said.lower().replace("`", "")
    exact = _said(EXACT_WORDS, said, status)
    coded = _named(_CODES, report.words)
    if exact is None and coded is not None:
        return coded
    error = (
        exact
        or _relayed(report.relayed)
        or _said(WORDS, said, status)
        or _by_status(status)
        or _named(_TYPES, report.words)
        or ServerError
    )
    # Who says when it will take us again has not run out for good (OmniRoute#9504).
    return RateLimited if error is QuotaExhausted and wait is not None else error


def _named(
    table: Mapping[str, type[AttemptError]], words: Sequence[str]
) -> type[AttemptError] | None:
    return next(filter(None, (table.get(word.lower()) for word in words)), None)


def _said(table: Sequence[Wording], text: str, status: int | None) -> type[AttemptError] | None:
    return next((each.error for each in table if each.fits(text, status)), None)


def _relayed(report: Report | None) -> type[AttemptError] | None:
    if report is None:
        return None
    error = _classify(report, report.status, None)
    return error if error in _OF_THE_REQUEST else None


def _by_status(status: int | None) -> type[AttemptError] | None:
    return None if status is None else STATUSES.get(status) or HUNDREDS.get(status // 100)
