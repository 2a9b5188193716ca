"""What the providers of a situation say. Times are seconds.

Unless it is about something else, an answer has its first token after one second, and sixty tokens
in three writes, a second apart. Every token names its provider and its place.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import attrs

from polygateway.testing import (
    Send,
    chunk,
    done,
    finish,
    headers,
    role,
    silence,
    status,
    together,
    usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polygateway.messages import JSON
    from polygateway.testing import Script, Step

TOKENS = 60
PER_WRITE = 20
FIRST_S = 1.0
EVERY_S = 1.0
ANSWER_S = FIRST_S + EVERY_S * (TOKENS / PER_WRITE - 1)
ENDING = (finish(), usage(7, TOKENS), done())


def text(who: str, stop: int = TOKENS) -> str:
    """Give the text of a provider's first tokens."""
    return "".join(f"{who}{place} " for place in range(stop))


@cache
def tokens(who: str, start: int, stop: int) -> Send:
    """Send tokens in one write."""
    return together(*(chunk(f"{who}{place} ") for place in range(start, stop)))


def speech(
    who: str, start: int = 0, stop: int = TOKENS, first_s: float = EVERY_S
) -> Iterator[Step]:
    """Send tokens at the usual pace, the first ones after *first_s*."""
    for at in range(start, stop, PER_WRITE):
        yield silence(first_s if at == start else EVERY_S)
        yield tokens(who, at, at + PER_WRITE)


def beginning(who: str, stop: int, first_s: float = FIRST_S) -> Script:
    """Begin to answer; the steps that follow say how it goes on."""
    return (role(), *speech(who, 0, stop, first_s))


def whole(*script: Step) -> Script:
    """Say at the beginning how long the body is, so that its last event is its end.

    Otherwise HTTP needs a few bytes more to say so, which over TCP come a moment later; and that
    moment does not shrink when a clock goes faster.
    """
    length = sum(len(step.data) for step in script if isinstance(step, Send))
    return (headers({"content-length": str(length)}), *script)


def reply(who: str, first_s: float = FIRST_S, *, model: str = "scripted") -> Script:
    """Answer properly."""
    return whole(*_from(model, (*beginning(who, TOKENS, first_s), *ENDING)))


def _from(model: str, script: Script) -> Iterator[Step]:
    name = f'"{model}"'.encode()
    for step in script:
        named = isinstance(step, Send) and attrs.evolve(
            step, data=step.data.replace(b'"scripted"', name)
        )
        yield named or step


def refused(
    code: int,
    kind: str = "server_error",
    *,
    word: str | None = None,
    retry_after_s: float | None = None,
) -> Script:
    """Refuse the request as OpenAI does.

    Args:
        code: the HTTP status.
        kind: the error's type.
        word: its code.
        retry_after_s: how long it asks to be left alone.
    """
    said: dict[str, JSON] = {"message": "refused by the script", "type": kind, "code": word}
    hint = {} if retry_after_s is None else {"retry-after": f"{retry_after_s:g}"}
    return status(code, {"error": said}, hint)
