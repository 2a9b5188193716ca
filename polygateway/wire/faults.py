"""Which error a provider's error is: tables that all dialects share.

Providers agree on little: the same exhausted quota is a 429, a 402, a 403 or a 400, its code a
word, a number or absent. So what is most specific is asked first: the provider's own word for it,
then what its text says, then the status, then the broad type.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ..errors import (
    AttemptError,
    AuthenticationFailed,
    ContentFiltered,
    ContextLengthExceeded,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    QuotaExhausted,
    RateLimited,
    ServerError,
)
from .dialect import Fault
from .hints import retry_after_s
from .jsontext import as_object, as_text, from_json
from .malformed import Malformed, excerpt
from .sse import SSEDecoder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..messages import JSON

Table: TypeAlias = tuple[tuple[type[AttemptError], tuple[str, ...]], ...]

MOST_CHARACTERS = 500
"""How much of a provider's text an error keeps."""

# 1. Codes and types that mean one thing only; compared whole, in lower case.
CODES: Table = (
    (ContextLengthExceeded, (
        "context_length_exceeded",  # OpenAI
        "exceed_context_size_error",  # llama.cpp
    )),
    (ContentFiltered, (
        "content_filter",  # Azure
        "content_policy_violation",  # OpenAI
        "data_inspection_failed",  # Qwen
        "metadata.reasons",  # not a code: OpenRouter's 403 lists there why it moderated
    )),
    (QuotaExhausted, (
        "insufficient_quota",  # OpenAI
        "billing_hard_limit_reached",  # OpenAI
        "enforced_spend_limit_reached",  # Anthropic
        "exceeded_current_quota_error",  # Moonshot
        "arrearage",  # Qwen
    )),
    (RateLimited, (
        "rate_limit_exceeded",  # OpenAI, Groq
        "rate_limit_reached_error",  # Moonshot
        "throttling",  # Qwen, as the next two
        "throttling.ratequota",
        "throttling.allocationquota",  # tokens a minute, whatever it sounds like
    )),
    (Overloaded, (
        "over_capacity",  # Groq
        "overloaded_error",  # Anthropic
        "engine_overloaded_error",  # Moonshot
        "unavailable_error",  # llama.cpp, while it loads the model
    )),
    (ServerError, (
        "tool_use_failed",  # Groq: the generation was bad, not the request; another may be good
    )),
    (AuthenticationFailed, (
        "invalid_api_key",  # OpenAI
    )),
    (InvalidRequest, (
        "model_not_found",  # OpenAI
    )),
)  # fmt: skip

# 2. What the text says; found anywhere in it, in lower case, the first line that fits.
WORDS: Table = (
    (ContextLengthExceeded, (
        "context length", "context size", "context window", "prompt is too long",
        "input is too long", "must have less than", "range of input length",
        "maximum number of tokens allowed", "reduce the length of the messages",
    )),
    (ContentFiltered, (
        "content management policy", "content policy", "safety system", "was flagged",
        "inappropriate content",
    )),
    # Of a minute: they sound like a quota, and are over soon (oh-my-pi#8476).
    (RateLimited, ("allocated quota exceeded", "per minute", "per-minute")),
    (QuotaExhausted, (
        "exceeded your current quota", "quota has been exhausted", "quota exhausted",
        "insufficient balance", "insufficient credits", "insufficient quota", "credit balance",
        "spend limit", "per day", "per-day",
    )),
    (RateLimited, ("rate limit", "too many requests", "throttl")),
    (Overloaded, ("overloaded", "over capacity", "at capacity", "server busy", "server is busy")),
    (AuthenticationFailed, ("api key not valid", "invalid api key", "incorrect api key")),
)  # fmt: skip

# 3. The status, where it says more than its hundred does.
STATUSES: Mapping[int, type[AttemptError]] = {
    401: AuthenticationFailed,
    402: QuotaExhausted,
    403: AuthenticationFailed,
    407: AuthenticationFailed,
    408: ServerError,
    409: ServerError,
    425: ServerError,
    429: RateLimited,
    499: ServerError,  # somebody on the way gave up waiting
    503: Overloaded,
    529: Overloaded,
}
HUNDREDS: Mapping[int, type[AttemptError]] = {4: InvalidRequest, 5: ServerError}

# 4. Broad types; compared whole, in lower case.
TYPES: Table = (
    (AuthenticationFailed, ("authentication_error", "permission_error")),
    (InvalidRequest, ("invalid_request_error", "badrequesterror", "not_found_error")),
    (RateLimited, ("rate_limit_error",)),
)


@attrs.frozen(kw_only=True)
class _Report:
    """What a provider says about an error, whatever shape that has."""

    text: str
    code: str = ""
    type: str = ""
    words: tuple[str, ...] = ()
    """Everything in it that :data:`CODES` may know, the most specific first."""

    status: int | None = None
    """The HTTP status that it would have had, where it is in the stream of a 200."""


def error_in(value: Mapping[str, JSON]) -> JSON:
    """Give what in *value* is an error, an object or a text; ``None`` if nothing is."""
    error = value.get("error")
    if error and isinstance(error, (dict, str)):
        return error
    if error or "error" in (value.get("object"), value.get("type")):  # vLLM; Responses
        return value
    is_flat = "choices" not in value and isinstance(value.get("message"), str)
    return value if is_flat and value.get("code") else None


def reported(error: JSON, raw: str) -> Fault:
    """Classify an error that came inside the stream of a 200.

    Args:
        error: what :func:`error_in` gave.
        raw: the text of its event, quoted where the error itself has none.
    """
    report = _report(error, raw)
    return _fault(report, report.status, {})


def refused(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """Classify a reply whose status is not 200.

    Args:
        status: the HTTP status.
        headers: the response's headers, names in lower case.
        body: as much of the body as was kept.
    """
    if status < 400:
        return _no_refusal(status, headers)
    text = body.decode(errors="replace").strip()
    fault = _fault(_report_in(text), status, headers)
    if fault.message:
        return fault
    what = f"with a page: {excerpt(text)!r}" if text else "without a body"
    return attrs.evolve(fault, message=f"HTTP {status} {what}")


def _no_refusal(status: int, headers: Mapping[str, str]) -> Fault:
    """Say what is wrong with a reply that is neither a 200 nor an error."""
    message = f"HTTP {status} where 200 was expected"
    if location := headers.get("location"):
        message = f"HTTP {status} to {excerpt(location)!r}: redirects are not followed"
    return Fault(error=ProtocolViolation, message=message)


def _fault(report: _Report, status: int | None, headers: Mapping[str, str]) -> Fault:
    wait = retry_after_s(headers, report.text)
    return Fault(
        error=_classify(report, status, wait),
        message=excerpt(report.text, MOST_CHARACTERS),
        code=report.code or report.type or None,
        retry_after_s=wait,
        do_not_retry=headers.get("x-should-retry", "").strip().lower() == "false",
    )


# ---- classifying --------------------------------------------------------------------------------


def _classify(report: _Report, status: int | None, wait: float | None) -> type[AttemptError]:
    return (
        _named(CODES, report.words)
        or _said(report.text, wait)
        or _by_status(status)
        or _named(TYPES, (report.type,))
        or ServerError
    )


def _named(table: Table, words: tuple[str, ...]) -> type[AttemptError] | None:
    lowered = (word.lower() for word in words)
    return next((error for word in lowered for error, names in table if word in names), None)


def _said(text: str, wait: float | None) -> type[AttemptError] | None:
    lowered = text.lower()
    error = next((error for error, words in WORDS if any(word in lowered for word in words)), None)
    # Who says when it will take us again has not run out for good (OmniRoute#9504).
    return RateLimited if error is QuotaExhausted and wait is not None else error


def _by_status(status: int | None) -> type[AttemptError] | None:
    return None if status is None else STATUSES.get(status) or HUNDREDS.get(status // 100)


# ---- reading ------------------------------------------------------------------------------------


def _report_in(text: str) -> _Report:
    """Read a refusal's body; an empty report if there is nothing that can be quoted."""
    value = _json_in(text)
    if isinstance(value, list):  # Gemini, also behind its OpenAI wire (gemini-cli#6454)
        value = next(iter(value), None)
    if isinstance(value, dict):
        return _report(error_in(value) or value, text)
    return _Report(text="" if text.startswith("<") else text)


def _json_in(text: str) -> JSON:
    """Give the JSON of *text*, or of its first event if it is a stream; ``None`` if it is none."""
    stream = SSEDecoder(max_event_bytes=4 * len(text) + 2)
    events = stream.feed(f"{text}\n\n".encode())
    for data in chain([text], (event.data for event in events)):
        try:
            return from_json(data)
        except Malformed:
            continue
    return None


def _report(error: JSON, raw: str) -> _Report:
    if isinstance(error, str):
        return _Report(text=error)
    fields = as_object(error)
    code, type_ = _word(fields.get("code")), _word(fields.get("type"))
    inner = _word(as_object(fields.get("innererror")).get("code"))  # Azure
    reasons = as_object(fields.get("metadata")).get("reasons")  # OpenRouter
    return _Report(
        text=_text_of(fields) or raw,
        code=code,
        type=type_,
        words=(code, inner, type_, "metadata.reasons" if reasons else ""),
        status=_status_of(fields),
    )


def _text_of(fields: Mapping[str, JSON]) -> str:
    texts = (as_text(fields.get(name)).strip() for name in ("message", "detail", "msg"))
    return next(filter(None, texts), "")


def _word(value: JSON) -> str:
    """Give a code as text: providers send numbers and words (litellm#40566)."""
    return str(value) if isinstance(value, (str, int)) else ""


def _status_of(fields: Mapping[str, JSON]) -> int | None:
    for name in ("status_code", "http_status_code", "status", "code"):
        word = _word(fields.get(name))
        if len(word) == 3 and word.isdecimal() and "400" <= word <= "599":
            return int(word)
    return None
