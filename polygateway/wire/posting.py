"""What the requests of all dialects have in common: a JSON body, and who may put what into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from ..errors import ConfigurationError
from .dialect import WireRequest
from .jsontext import to_json

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..messages import JSON, ChatRequest
    from ..policies import Target
    from ..secret import Secret

ACCEPT = "text/event-stream"
"""What most streams are called."""


def check_extra(extra: Mapping[str, JSON], own_fields: Collection[str], place: str) -> None:
    """Make sure that *extra* can be merged into a body.

    Args:
        extra: the fields that somebody wants in it.
        own_fields: those that the dialect sets itself, from the prompt and the target.
        place: how errors call *extra*.

    Raises:
        ConfigurationError: JSON cannot say it, or it sets one of *own_fields*.
    """
    if not extra:
        return
    for name in own_fields:
        if name in extra:
            raise ConfigurationError(f"{place} may not set {name!r}, which polygateway decides")
    to_json(extra, place)


def post_json(
    path: str,
    body: Mapping[str, JSON],
    headers: Mapping[str, str | Secret],
    *,
    request: ChatRequest,
    target: Target,
    accept: str = ACCEPT,
    left_out: Sequence[str] = (),
) -> WireRequest:
    """Make a request out of what a dialect says and what the user wants besides.

    Objects in ``extra`` are merged into those of the body, everything else replaces what is there:
    one sampling option more does not lose the others that a wire keeps in the same object. So it is
    with a table in ``prefill``, where the request has a ``prefix``.

    Args:
        path: see :class:`WireRequest`.
        body: what the dialect says.
        headers: what the dialect authenticates with, and its own.
        request: whose ``extra`` and ``headers`` go over the target's.
        target: whose ``prefill`` goes over its ``extra``, and that and ``headers`` over the
            dialect's.
        accept: the content type that is asked for.
        left_out: see :class:`WireRequest`.

    Raises:
        ConfigurationError: JSON cannot say it.
    """
    sent: dict[str, str | Secret] = {"content-type": "application/json", "accept": accept}
    for name, value in (*headers.items(), *target.headers.items(), *request.headers.items()):
        sent[name.lower()] = value
    for extra in filter(None, (target.extra, _prefill(request, target), request.extra)):
        body = _merged(body, extra)
    return WireRequest(path=path, headers=sent, body=to_json(body), left_out=left_out)


def _prefill(request: ChatRequest, target: Target) -> Mapping[str, JSON]:
    """Give what *target* wants to be told if its model shall go on with an answer."""
    return target.prefill if request.prefix and isinstance(target.prefill, Mapping) else {}


def _merged(body: Mapping[str, JSON], extra: Mapping[str, JSON]) -> Mapping[str, JSON]:
    merged = dict(body)
    for name, value in extra.items():
        there = merged.get(name)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(_object(there), _object(value)) if both else value
    return merged


def _object(value: JSON) -> Mapping[str, JSON]:
    return cast("Mapping[str, JSON]", value)
