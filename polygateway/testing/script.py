"""What a scripted provider does with one request, step by step.

A script is a sequence of steps. ``chunk``, ``silence``, ``cut`` and the like give one step;
``answer``, ``keepalives``, ``status`` and ``page`` give several, to be unpacked with ``*`` among
others or used as a whole script. The events are those of OpenAI's chat stream; ``raw`` sends
whatever else is wanted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from ..messages import JSON

_STREAM_HEADERS = {"content-type": "text/event-stream", "cache-control": "no-cache"}


@attrs.frozen
class Head:
    """Status and headers of the response, sent in a write of their own."""

    status: int
    headers: Mapping[str, str] = attrs.field(hash=False)  # a dict has no hash; status does
    """Names in lower case. Without a ``content-length`` the body is sent chunked."""


@attrs.frozen
class Send:
    """A piece of the body, sent in one write; the head goes with it if it has not gone before."""

    data: bytes

    content: int = 0
    """How many content chunks *data* completes: what a client's chunk count should rise by."""

    text: str = ""
    """The piece of the answer's text in *data*, so that an expected answer can be joined."""


def _check_seconds(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not value >= 0:  # nan is not either
        raise ValueError(f"{attribute.name} must be at least 0, not {value!r}")


@attrs.frozen
class Silence:
    """Nothing at all is sent."""

    seconds: float = attrs.field(validator=_check_seconds)
    """May be infinite: until the client leaves."""


@attrs.frozen
class Closing:
    """The connection ends in the middle of the reply."""

    how: Literal["cut", "reset"]


Step: TypeAlias = Head | Send | Silence | Closing
Script: TypeAlias = Sequence[Step]


def checked(script: Iterable[object]) -> tuple[Step, ...]:
    """Give *script* as a tuple, if it can be carried out.

    Raises:
        TypeError: something in it is no step.
        ValueError: the head comes after the first bytes, or steps follow an end.
    """
    steps = tuple(map(_step, script))
    for step in steps[:-1]:
        if isinstance(step, Closing) or step == hang():
            raise ValueError(f"{step} must be the last step: nothing after it can happen")
    writes = [step for step in steps if isinstance(step, Head | Send)]
    if any(isinstance(step, Head) for step in writes[1:]):
        raise ValueError("headers() must come before everything else that is sent")
    return steps


def _step(step: object) -> Step:
    if isinstance(step, Head | Send | Silence | Closing):
        return step
    raise TypeError(
        f"{step!r} is no step; what gives several steps is unpacked with *, as in"
        " [chunk('a'), *keepalives(5), cut()]"
    )


# ---------------------------------------------------------------- content


def chunk(text: str) -> Send:
    """Send a piece of the answer's text."""
    return _delta({"content": text}, content=bool(text), text=text)


def reasoning(text: str) -> Send:
    """Send a piece of the model's reasoning."""
    return _delta({"reasoning_content": text}, content=bool(text))


def refusal(text: str) -> Send:
    """Send a piece of a refusal."""
    return _delta({"refusal": text}, content=bool(text))


def tool_call(
    arguments: str = "", *, index: int = 0, id: str | None = None, name: str | None = None
) -> Send:
    """Send a piece of a tool call.

    Args:
        arguments: a piece of the arguments' JSON.
        index: which of the answer's tool calls it belongs to.
        id: the call's id; providers send it with the first piece only.
        name: the function's name; likewise.
    """
    function: dict[str, JSON] = {"arguments": arguments}
    call: dict[str, JSON] = {"index": index, "function": function}
    if id is not None:
        call |= {"id": id, "type": "function"}
    if name is not None:
        function["name"] = name
    return _delta({"tool_calls": [call]}, content=bool(arguments or name))


# ---------------------------------------------------------------- events that are no content


def role() -> Send:
    """Send the chunk with which OpenAI begins: a role and no text."""
    return _delta({"role": "assistant", "content": ""})


def empty() -> Send:
    """Send a delta without text, as some gateways do to keep a connection open."""
    return _delta({"content": ""})


def comment(text: str = "keep-alive") -> Send:
    """Send an SSE comment of one line."""
    return raw(f": {text}\n\n".encode())


def ping() -> Send:
    """Send Anthropic's keep-alive: an event named ``ping``."""
    return raw(b'event: ping\ndata: {"type": "ping"}\n\n')


def finish(reason: str = "stop") -> Send:
    """Send the finish reason. The answer is whole with it."""
    return _delta({}, finish_reason=reason)


def usage(input_tokens: int, output_tokens: int) -> Send:
    """Send the token counts, in an event without choices."""
    counts: dict[str, JSON] = {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    }
    return _event(_envelope([]) | {"usage": counts})


def done() -> Send:
    """Send the end marker, ``[DONE]``."""
    return raw(b"data: [DONE]\n\n")


def error_frame(message: str, *, type: str = "server_error", code: str | int | None = None) -> Send:
    """Send an error inside the stream."""
    return _event(_error(message, type, code))


def raw(data: bytes) -> Send:
    """Send *data* as they are."""
    return Send(data)


def together(*steps: Send) -> Send:
    """Send several pieces in one write."""
    return Send(
        b"".join(step.data for step in steps),
        content=sum(step.content for step in steps),
        text="".join(step.text for step in steps),
    )


# ---------------------------------------------------------------- the head, time, and ends


def headers(fields: Mapping[str, str] | None = None, *, status: int = 200) -> Head:
    """Send the head of the response at once, instead of with the first piece of the body.

    Args:
        fields: added to those of an event stream, or sent in their place.
        status: the HTTP status.
    """
    return Head(status, _STREAM_HEADERS | _lowered(fields))


def silence(seconds: float) -> Silence:
    """Send nothing at all for so long."""
    return Silence(seconds)


def hang() -> Silence:
    """Send nothing more until the client leaves."""
    return Silence(math.inf)


def cut() -> Closing:
    """Close the connection in the middle of the body: no last chunk, then the end of the stream."""
    return Closing("cut")


def reset() -> Closing:
    """Break the connection: what was sent may be read, then reading fails."""
    return Closing("reset")


# ---------------------------------------------------------------- several steps

KEEPALIVE = comment()


def keepalives(
    seconds: float, *, every_s: float = 0.05, step: Send = KEEPALIVE
) -> tuple[Send | Silence, ...]:
    """Be silent for so long, but for a keep-alive every *every_s* seconds.

    The last one is sent before the time is over, never at its end: ``keepalives(1, every_s=0.25)``
    sends three. So what follows ends the silence in a write of its own.

    Args:
        seconds: how long in all, to the nanosecond.
        every_s: time before each keep-alive.
        step: what is sent each time.
    """
    # Whole nanoseconds: in floats, 1.1 / 0.1 is more than 11, which would add a keep-alive.
    total, every = (round(duration * 1e9) for duration in (seconds, every_s))
    if every < 1:
        raise ValueError(f"every_s must be at least a nanosecond, not {every_s!r}")
    count = max(total - 1, 0) // every
    return (silence(every / 1e9), step) * count + (silence((total - count * every) / 1e9),)


def answer(*pieces: str, every_s: float = 0.0) -> tuple[Send | Silence, ...]:
    """Answer properly: role, pieces of text, finish reason, usage, end marker.

    Usage counts seven tokens of input, and each piece as one of output.

    Args:
        pieces: the texts of the content chunks.
        every_s: time before each piece.
    """
    wait = (silence(every_s),) if every_s else ()
    body = [step for piece in pieces for step in (*wait, chunk(piece))]
    return (role(), *body, finish(), usage(7, len(pieces)), done())


def status(
    code: int,
    body: str | bytes | Mapping[str, JSON] | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[Head, Send]:
    """Give a whole reply that is not a stream.

    Args:
        code: the HTTP status.
        body: a mapping is sent as JSON; None is an error object in OpenAI's shape.
        headers: added to content type and length, or sent in their place.
    """
    if body is None:
        body = _error(f"scripted status {code}", "scripted_error", None)
    kind = "application/json" if isinstance(body, Mapping) else "text/plain; charset=utf-8"
    data = _encoded(body)
    fields = {"content-type": kind, "content-length": str(len(data))}
    return Head(code, fields | _lowered(headers)), Send(data)


def page(html: str, *, code: int = 200) -> tuple[Head, Send]:
    """Give a web page, as a proxy or a login wall does in place of the provider."""
    return status(code, html, {"content-type": "text/html; charset=utf-8"})


# ---------------------------------------------------------------- bytes


def _encoded(body: str | bytes | Mapping[str, JSON]) -> bytes:
    if isinstance(body, bytes):
        return body
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return text.encode()


def _lowered(fields: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in (fields or {}).items()}


def _event(payload: Mapping[str, JSON], *, content: bool = False, text: str = "") -> Send:
    return Send(b"data: " + _encoded(payload) + b"\n\n", int(content), text)


def _delta(
    delta: Mapping[str, JSON],
    *,
    finish_reason: str | None = None,
    content: bool = False,
    text: str = "",
) -> Send:
    choice: dict[str, JSON] = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event(_envelope([choice]), content=content, text=text)


def _envelope(choices: Sequence[JSON]) -> dict[str, JSON]:
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "scripted",
        "choices": choices,
    }


def _error(message: str, type: str, code: str | int | None) -> dict[str, JSON]:
    return {"error": {"message": message, "type": type, "code": code}}
