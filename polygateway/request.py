"""What an application may say with a call, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict, TypeVar

import attrs
from attrs.validators import optional

from ._checks import Instance, Number, nearest
from .errors import ConfigurationError
from .messages import JSON, ChatRequest, Message
from .policies import HedgePolicy, RetryPolicy, StreamPolicy

V = TypeVar("V")

Prompt: TypeAlias = str | Sequence[Message]
"""A question, or the messages of a conversation."""


class CallOptions(TypedDict, total=False):
    """The keyword arguments of :meth:`Gateway.complete` and :meth:`Gateway.stream`."""

    temperature: float | None
    """Randomness of the answer, from 0."""

    top_p: float | None
    """Share of the probability that is sampled from, over 0 to 1."""

    max_tokens: int | None
    """The longest answer, in tokens, from 1."""

    stop: str | Sequence[str] | None
    """Where the answer shall stop."""

    seed: int | None
    """For answers that can be repeated, where the provider can."""

    tools: Sequence[Mapping[str, JSON]] | None
    """Functions that the model may ask for, in the shape of OpenAI's chat API."""

    tool_choice: str | Mapping[str, JSON] | None
    """Which of them it must or must not ask for; only with ``tools``."""

    response_format: Mapping[str, JSON] | None
    """The form of the answer, such as a JSON schema."""

    reasoning_effort: str | None
    """How much it shall think, in the provider's words."""

    extra: Mapping[str, JSON] | None
    """Merged into the body as it is; may not set ``model``, ``messages``, ``stream`` or ``n``."""

    headers: Mapping[str, str] | None
    """Sent besides the target's own."""

    deadline_s: float | None
    """Seconds that the call may take on the wall clock, the consumer's time included."""

    hedge_policy: HedgePolicy | None
    """Instead of the configured one, for this call; the purse stays the model's."""

    retry_policy: RetryPolicy | None
    """Instead of the configured one, for this call."""

    stream_policy: StreamPolicy | None
    """Instead of the configured one, for this call."""


@attrs.frozen(kw_only=True)
class CallPolicies:
    """What a call says about how it is to be had. ``None``: as configured."""

    deadline_s: float | None = attrs.field(
        default=None, validator=optional(Number(over=0, most=1e9))
    )
    hedge_policy: HedgePolicy | None = attrs.field(
        default=None, validator=optional(Instance(HedgePolicy))
    )
    retry_policy: RetryPolicy | None = attrs.field(
        default=None, validator=optional(Instance(RetryPolicy))
    )
    stream_policy: StreamPolicy | None = attrs.field(
        default=None, validator=optional(Instance(StreamPolicy))
    )


_NO_POLICIES = CallPolicies()


def build_request(prompt: Prompt, options: CallOptions) -> tuple[ChatRequest, CallPolicies]:
    """Check what the application said, and sort it by whom it concerns.

    Raises:
        ConfigurationError: something cannot be meant; the text says what and where.
    """
    if not options:
        return ChatRequest(messages=_conversation(prompt)), _NO_POLICIES
    for name in options.keys() - CallOptions.__annotations__.keys():
        raise ConfigurationError(_unknown(name))
    stop = options.get("stop")
    request = ChatRequest(
        messages=_conversation(prompt),
        temperature=options.get("temperature"),
        top_p=options.get("top_p"),
        max_tokens=options.get("max_tokens"),
        stop=(stop,) if isinstance(stop, str) else stop,
        seed=options.get("seed"),
        tools=options.get("tools"),
        tool_choice=options.get("tool_choice"),
        response_format=options.get("response_format"),
        reasoning_effort=options.get("reasoning_effort"),
        extra=_or_none_at_all(options.get("extra")),
        headers=_or_none_at_all(options.get("headers")),
    )
    policies = CallPolicies(
        deadline_s=options.get("deadline_s"),
        hedge_policy=options.get("hedge_policy"),
        retry_policy=options.get("retry_policy"),
        stream_policy=options.get("stream_policy"),
    )
    return request, policies


def _or_none_at_all(table: Mapping[str, V] | None) -> Mapping[str, V]:
    return {} if table is None else table


def _unknown(name: str) -> str:
    if name == "stream":
        return (
            "stream=True is not needed: gw.stream(...) gives chunks, gw.complete(...) whole answers"
        )
    return f"{name!r} is no option of a call {nearest(name, CallOptions.__annotations__)}"


def _conversation(prompt: Prompt) -> Sequence[Message]:
    if not isinstance(prompt, str):
        return prompt
    if not prompt.strip():
        raise ConfigurationError("the prompt is empty")
    return ({"role": "user", "content": prompt},)
