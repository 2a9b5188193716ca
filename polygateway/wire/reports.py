"""What a provider says about an error, read out of whatever shape it says it in."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import attrs

from .hints import duration_s, seconds
from .jsontext import as_object, as_objects, as_text, from_json
from .malformed import Malformed, excerpt
from .sse import SSEDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..messages import JSON

# Gateways wrap the errors of gateways that wrap a provider's.
_MOST_LAYERS = 6
_MOST_OF_A_CODE = 100


@attrs.frozen(kw_only=True)
class Report:
    """What a provider says about an error."""

    text: str
    """Its own words; empty if there is nothing to be quoted."""

    code: str = ""
    """Its code or, where there is none, its type; cut to a bound, empty if it has neither."""

    words: tuple[str, ...] = ()
    """Everything in it that a table of codes may know, the most exact first."""

    clues: str = ""
    """Names in it that tell as much as its text does."""

    status: int | None = None
    """The HTTP status that it would have had, where it is in the stream of a 200."""

    wait_s: float | None = None
    """Seconds until the provider will take us again; ``None`` if no field says so."""

    relayed: Report | None = None
    """What a gateway quotes of the provider behind it; ``None`` if nothing."""

    @property
    def message(self) -> str:
        """All that it says for people; empty if that is nothing."""
        relayed = "" if self.relayed is None else self.relayed.message
        return ": ".join(filter(None, (self.text, relayed)))


def error_in(value: Mapping[str, JSON]) -> JSON:
    """Give what in *value* is an error, an object or a text; ``None`` if nothing is."""
    error = value.get("error")
    if error and isinstance(error, str):  # xAI and TGI have its code beside it
        return value if "code" in value or "error_type" in value else error
    if error and isinstance(error, dict):
        return error
    if error or "error" in (value.get("object"), value.get("type")):  # vLLM; Responses
        return value
    is_flat = "choices" not in value and isinstance(value.get("message"), str)
    return value if is_flat and value.get("code") else None


def report_of(error: JSON, raw: str) -> Report:
    """Read an error.

    Args:
        error: an object or a text.
        raw: the text that it was read from, quoted where the error itself has none.
    """
    if isinstance(error, str):
        return Report(text=error)
    layers = list(_layers(error))[::-1]
    codes, types = _all(layers, _codes), _all(layers, _types)
    relayed = next(chain.from_iterable(map(_relayed, layers)), None)
    return Report(
        # The raw text has what is quoted in it.
        text=next(chain.from_iterable(map(_texts, layers)), raw if relayed is None else ""),
        code=excerpt(next(iter((*codes, *types)), ""), _MOST_OF_A_CODE),
        words=(*codes, *_all(layers, _causes), *types),
        clues=" ".join(_all(layers, _quotas)),
        status=next(chain.from_iterable(map(_statuses, layers)), None),
        wait_s=next(chain.from_iterable(map(_waits, layers)), None),
        relayed=relayed,
    )


def report_in(text: str) -> Report:
    """Read a refusal's body."""
    value = _json_in(text)
    if isinstance(value, list):  # Gemini, also behind its OpenAI wire (gemini-cli#6454)
        value = next(iter(value), None)
    if isinstance(value, dict):
        return report_of(error_in(value) or value, text)
    if isinstance(value, str):
        return Report(text=value)
    return Report(text="" if text.startswith("<") else text)


def _json_in(text: str) -> JSON:
    """Give the JSON of *text*, or that of its events if it is a stream: an error, if one is."""
    stream = SSEDecoder(max_event_bytes=4 * len(text) + 2)
    events = (event.data for event in stream.feed(f"{text}\n\n".encode()))
    values = [value for each in chain([text], events) if (value := _parsed(each)) is not None]
    errors = [value for value in values if isinstance(value, dict) and error_in(value)]
    return next(iter((*errors, *values)), None)


def _parsed(text: str) -> JSON:
    try:
        return from_json(text)
    except Malformed:
        return None


# ---- layers: an error, the error in it, and so on -----------------------------------------------


def _layers(error: JSON) -> Iterator[Mapping[str, JSON]]:
    """Give the objects of an error, from the outermost to the innermost."""
    layer = as_object(error)
    for _ in range(_MOST_LAYERS):
        if not layer:
            return
        yield layer
        layer = _within(layer)


def _within(layer: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Give the error that an error holds; empty if it holds none."""
    for name in ("error", "errors", "detail"):  # the last two: Cloudflare, FastAPI
        if inner := _only_object(layer.get(name)):
            return inner
    message = as_text(layer.get("message")).strip()
    # Gemini's error behind a proxy that makes a text of it.
    return _only_object(_parsed(message)) if message.startswith(("{", "[")) else {}


def _only_object(value: JSON) -> Mapping[str, JSON]:
    """Give an object or the first of an array, unless that is one of FastAPI's flaws."""
    value = next(iter(value), None) if isinstance(value, list) else value
    return {} if "msg" in as_object(value) else as_object(value)


def _all(
    layers: list[Mapping[str, JSON]], read: Callable[[Mapping[str, JSON]], Iterator[str]]
) -> list[str]:
    return [found for found in chain.from_iterable(map(read, layers)) if found]


# ---- what one layer says ------------------------------------------------------------------------


def _codes(layer: Mapping[str, JSON]) -> Iterator[str]:
    yield _word(layer.get("code"))
    yield _word(layer.get("error_code"))
    yield _word(as_object(layer.get("details")).get("error_code"))  # Anthropic


def _causes(layer: Mapping[str, JSON]) -> Iterator[str]:
    yield _word(as_object(layer.get("innererror")).get("code"))  # Azure
    for detail in as_objects(layer.get("details")):  # Gemini
        yield _word(detail.get("reason"))
    metadata = as_object(layer.get("metadata"))  # OpenRouter
    for name in ("error_type", "reason", "limit_source"):
        yield _word(metadata.get(name))
    yield "metadata.reasons" if metadata.get("reasons") else ""


def _types(layer: Mapping[str, JSON]) -> Iterator[str]:
    yield _word(layer.get("error_type"))  # TGI
    type_ = _word(layer.get("type"))
    yield "" if type_ == "error" else type_
    status = _word(layer.get("status"))  # Gemini
    yield "" if status.isdecimal() else status


def _quotas(layer: Mapping[str, JSON]) -> Iterator[str]:
    for detail in as_objects(layer.get("details")):
        for violation in as_objects(detail.get("violations")):
            yield as_text(violation.get("quotaId"))


def _texts(layer: Mapping[str, JSON]) -> Iterator[str]:
    yield from filter(None, (as_text(layer.get(name)).strip() for name in ("message", "detail")))
    if flaws := "; ".join(map(_flaw, as_objects(layer.get("detail")))):
        yield flaws
    yield from filter(None, (as_text(layer.get(name)).strip() for name in ("msg", "error")))


def _flaw(flaw: Mapping[str, JSON]) -> str:
    """Give one of FastAPI's flaws without what it quotes of the request."""
    place = flaw.get("loc")
    where = ".".join(map(_word, place)) if isinstance(place, list) else ""
    what = as_text(flaw.get("msg"))
    return f"{where}: {what}" if where else what


def _relayed(layer: Mapping[str, JSON]) -> Iterator[Report]:
    if raw := as_text(as_object(layer.get("metadata")).get("raw")).strip():  # OpenRouter
        yield report_in(raw)


def _statuses(layer: Mapping[str, JSON]) -> Iterator[int]:
    for name in ("status_code", "http_status_code", "status", "code"):
        word = _word(layer.get(name))
        if len(word) == 3 and word.isdecimal() and "400" <= word <= "599":
            yield int(word)


def _waits(layer: Mapping[str, JSON]) -> Iterator[float]:
    told = [duration_s(each.get("retryDelay")) for each in as_objects(layer.get("details"))]
    told.append(seconds(as_object(layer.get("metadata")).get("retry_after_seconds")))
    yield from (wait for wait in told if wait is not None)


def _word(value: JSON) -> str:
    """Give a code as text: providers send numbers and words (litellm#40566)."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
