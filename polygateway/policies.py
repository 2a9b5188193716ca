"""What the user decides: targets, models and policies, each value checked when it is made.

Durations are seconds unless the name says otherwise. Every class raises
:class:`ConfigurationError` for a value that it cannot use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeVar, get_args
from urllib.parse import urlsplit

import attrs

from ._checks import (
    Instance,
    Number,
    OneOf,
    as_table,
    base_url,
    body_fields,
    dotted,
    flag,
    headers,
    is_private,
    is_proxy_url,
    refuse_all,
    text,
    variable,
    version,
    wrong,
)
from ._models import models_mistakes, name_mistakes
from .errors import ConfigurationError
from .messages import JSON

T = TypeVar("T")

Winner = Literal["first-delivered", "first-complete"]
Recovery = Literal["raise", "restart", "continue", "continue-or-restart"]

Auto = Literal["auto"]
"""Learned from what the target did lately."""

DIRECT = "direct"
"""A target's ``proxy`` that means none."""

_MIB = 1024 * 1024

# Of durations: a millisecond is less than any network can keep, 30 years are as good as never, and
# between them every one is a whole number of nanoseconds that differs from 0.
_SILENCE = Number(least=1e-3, most=1e9, words=("auto",))
_LIMIT = Number(least=1e-3, most=1e9)
_WAIT = Number(least=0, most=1e9)

DialectName = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"]


def _not_in_clear(target: Target, attribute: attrs.Attribute[T], name: T) -> None:
    if name is not None and not is_private(target.base_url):
        raise ConfigurationError(
            f"{attribute.name}: the key would cross the network in clear;"
            " base_url must be https, or http to a loopback host"
        )


def _only_with_certificate(target: Target, attribute: attrs.Attribute[T], name: T) -> None:
    if name is not None and target.client_cert_file is None:
        raise ConfigurationError(f"{attribute.name} is of no use without client_cert_file")


def _proxy(target: Target, attribute: attrs.Attribute[T], value: T) -> None:
    if value == DIRECT:
        return
    if not is_proxy_url(value):
        wanted = f"like http://host:port, without login or path, or {DIRECT!r}"
        raise ConfigurationError(wrong(attribute.name, wanted, value))
    in_clear = urlsplit(target.base_url).scheme == "http"
    if in_clear and target.api_key_env is not None and not is_private(value):
        raise ConfigurationError(
            f"{attribute.name}: the key would reach the proxy in clear; base_url must be https"
        )


def _prefill(target: Target, attribute: attrs.Attribute[T], value: T) -> None:
    if not isinstance(value, bool):
        if not as_table(value):
            wanted = "true, false or a table that is not empty"
            raise ConfigurationError(wrong(attribute.name, wanted, value))
        body_fields(target, attribute, value)
    if value and target.dialect == "openai-responses":
        raise ConfigurationError(
            f"{attribute.name}: with {target.dialect} an answer that was begun cannot be continued"
        )


def _variable_only(name: str | None) -> str:
    """Show the name of a variable, unless it may be a key that was put in its place."""
    return repr(name if name is None or name == name.upper() else "***")


def _names_only(value: object) -> str:
    """Show a mapping without its values: they may be secrets."""
    table = as_table(value)
    return repr(value if table is None else dict.fromkeys(table, "***"))


@attrs.frozen(kw_only=True)
class Target:
    """Where an attempt can go: dialect, base URL, model name and key."""

    dialect: DialectName = attrs.field(validator=OneOf(get_args(DialectName)))
    """The wire that it speaks."""

    base_url: str = attrs.field(validator=base_url)
    """As the provider's own SDK takes it: OpenAI's with the ``/v1``, the others' without."""

    model: str = attrs.field(validator=text)
    """The model's name there."""

    api_key_env: str | None = attrs.field(
        default=None,
        validator=[attrs.validators.optional(variable), _not_in_clear],
        repr=_variable_only,
    )
    """Name of the environment variable that holds the key. Without it no key is sent."""

    headers: Mapping[str, str] = attrs.field(
        factory=dict[str, str], validator=headers, repr=_names_only
    )
    """Sent with every request to this target."""

    extra: Mapping[str, JSON] = attrs.field(
        factory=dict[str, JSON], validator=body_fields, repr=_names_only
    )
    """Merged into the body of every request to this target."""

    ca_file: str | None = attrs.field(default=None, validator=attrs.validators.optional(text))
    """A PEM file of the authorities to trust instead of the system's."""

    client_cert_file: str | None = attrs.field(
        default=None, validator=attrs.validators.optional(text)
    )
    """A PEM file with the certificate to show to servers that ask for one, and the chain to its
    authority.
    """

    client_key_file: str | None = attrs.field(
        default=None, validator=[attrs.validators.optional(text), _only_with_certificate]
    )
    """A PEM file with that certificate's private key, not encrypted. ``None``: it is in
    ``client_cert_file``.
    """

    proxy: str | None = attrs.field(default=None, validator=attrs.validators.optional(_proxy))
    """The HTTP proxy that is asked for a tunnel, like ``http://host:3128``, or ``direct`` for none.
    ``None``: of an https target, what ``HTTPS_PROXY`` and ``NO_PROXY`` say; of an http one, none. A
    login stands in ``HTTPS_PROXY`` only: a file never holds a password.
    """

    prefill: bool | Mapping[str, JSON] = attrs.field(
        default=False, validator=_prefill, repr=_names_only
    )
    """Whether the model there goes on with an answer that has been begun, so that
    ``stream.recovery = "continue"`` may use it; ``openai-responses`` has no way to ask for that. A
    table means yes, and is merged into the body of such requests: vLLM wants
    ``{ continue_final_message = true, add_generation_prompt = false }``.
    """

    api_version: str | None = attrs.field(
        default=None, validator=attrs.validators.optional(version)
    )
    """Which version of its API to ask for. For OpenAI's dialects this means Azure: its deployment
    paths, ``api-version`` and way to send the key. ``None``: Anthropic's ``2023-06-01``, Gemini's
    ``v1beta``, and no Azure.
    """

    stream_usage: bool = attrs.field(default=True, validator=flag)
    """Whether to ask for token counts in the stream; a few servers refuse the question."""

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(OneOf(("max_tokens", "max_completion_tokens"))),
    )
    """What ``openai-chat`` calls the longest answer. ``None``: ``max_completion_tokens`` at OpenAI
    and on Azure, whose reasoning models refuse the older name; ``max_tokens`` everywhere else.
    """


@attrs.frozen(kw_only=True)
class HedgePolicy:
    """When a second attempt starts beside the first."""

    enabled: bool = attrs.field(default=True, validator=flag)
    """Whether anything is hedged at all."""

    after_s: float | Auto = attrs.field(default="auto", validator=_SILENCE)
    """Hedge when an attempt has brought no content for so long after its start.

    ``auto``: what 95 % of the target's first contents take at most, but no less than three times
    their median, from 0.5 to 30 s, once 60 of its attempts have been seen; 5.0 before. With the
    usual median of 1.6 s, 3.0 would hedge 15 % of all calls, and the purse would then refuse a
    third of the rescues that matter more.
    """

    stall_after_s: float | Auto = attrs.field(default=5.0, validator=_SILENCE)
    """Hedge when the content of an attempt has stopped for so long.

    Harmless pauses are shorter (median 0.8 s), stalls are longer (median 55 s). ``auto``: from 2 to
    10 s, as soon as half of the target's silences that lasted so long went on for longer than a
    new start would cost; 5.0 before enough of them have been seen.
    """

    max_attempts: int = attrs.field(default=3, validator=Number(least=1, most=5, whole=True))
    """No hedge starts when the call has had so many attempts, of every kind."""

    winner: Winner = attrs.field(
        default="first-delivered", validator=OneOf(("first-delivered", "first-complete"))
    )
    """Who wins a duel of ``complete()``: the first to bring content after the hedge's launch, so
    that a primary that resumes keeps its progress, or the first to bring a whole answer.
    """

    same_target: bool = attrs.field(default=True, validator=flag)
    """Whether a hedge may go to a target that the call has used, when no other is left. A stall
    belongs to one request more often than to its target.
    """

    budget_ratio: float = attrs.field(default=0.2, validator=Number(least=0, most=10))
    """Tokens that each call puts into its model's purse; a hedge or a retry takes one."""

    budget_burst: float = attrs.field(default=10.0, validator=Number(least=0, most=1e9))
    """What the purse holds at most, and at the start."""

    budget_tokens_per_hour: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(Number(least=0, whole=True))
    )
    """How many tokens of the provider's, prompts included, the hedges of each model may waste in an
    hour. None starts when so many are wasted; what those that already run waste comes on top.
    ``None``: any number.
    """

    holdout: float = attrs.field(default=0.0, validator=Number(least=0, most=1))
    """Share of the calls, drawn at random, that is never hedged, so that :meth:`Gateway.stats` can
    tell what hedging does from what would have happened without. From 0 to 1.
    """


@attrs.frozen(kw_only=True)
class StreamPolicy:
    """How long an attempt may take, what is counted as a stall, and what a broken stream does."""

    connect_timeout_s: float = attrs.field(default=10.0, validator=_LIMIT)
    """To open a connection, TLS included."""

    ttft_timeout_s: float = attrs.field(default=60.0, validator=_LIMIT)
    """An attempt without content is given up so long after its start."""

    stall_timeout_s: float = attrs.field(default=120.0, validator=_LIMIT)
    """An attempt is given up after such a silence. Keep-alives do not end a silence."""

    stall_threshold_ms: float = attrs.field(default=2000.0, validator=Number(least=1e-6, most=1e12))
    """A gap of at least so many milliseconds is a stall in the figures. It triggers nothing."""

    recovery: Recovery = attrs.field(default="raise", validator=OneOf(get_args(Recovery)))
    """What :meth:`Gateway.stream` does when the answer breaks, or falls silent for
    ``hedge.stall_after_s``, after content was delivered. ``raise``: nothing for a silence, and
    :class:`StreamBroken` for a break. ``restart``: another attempt begins anew, and a chunk of kind
    ``seam`` tells the application to discard what it has. ``continue``: another attempt goes on
    where this one stopped, at a target with ``prefill``, and a seam marks the place; where that
    cannot be, as ``raise``. ``continue-or-restart``: where it cannot be, as ``restart``.
    """

    hold_back_s: float = attrs.field(default=0.0, validator=_WAIT)
    """:meth:`Gateway.stream` delivers nothing until content comes so long after the attempt's first
    one, so that a stall in between can still be raced. The end of the answer delivers it in any
    case.
    """


def _not_under_base(policy: RetryPolicy, attribute: attrs.Attribute[float], most: float) -> None:
    if most < policy.backoff_base_s:
        raise ConfigurationError(
            f"{attribute.name} ({most:g}) is under backoff_base_s ({policy.backoff_base_s:g})"
        )


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """What happens when no attempt of a call is left."""

    max_retries: int = attrs.field(default=2, validator=Number(least=0, whole=True))
    """Retries of one call, failovers to another target included. 0: neither."""

    backoff_base_s: float = attrs.field(default=0.5, validator=_WAIT)
    """The k-th retry of a target waits d/2 to d, where d = base * 2^(k-1)."""

    backoff_max_s: float = attrs.field(default=8.0, validator=[_WAIT, _not_under_base])
    """The most that d can be."""

    wait_for_target_s: float = attrs.field(default=2.0, validator=_WAIT)
    """A target that will take us again within so long is waited for: that is about what another
    target's first content costs.
    """

    retry_after_max_s: float = attrs.field(default=60.0, validator=_WAIT)
    """The longest ``Retry-After`` that is slept; a longer one sends the call elsewhere."""


@attrs.frozen(kw_only=True)
class Limits:
    """What is bounded, whatever a provider does."""

    max_connections_per_target: int = attrs.field(
        default=1000, validator=Number(least=1, whole=True)
    )
    """Connections open to one target at once."""

    admission_timeout_s: float = attrs.field(default=30.0, validator=_LIMIT)
    """How long an attempt waits for a connection slot."""

    idle_timeout_s: float = attrs.field(default=50.0, validator=_WAIT)
    """A connection that has been idle for so long is not used again: load balancers close those,
    the usual ones after 60 s or more. 0: none is ever used again.
    """

    connection_lifetime_s: float = attrs.field(default=600.0, validator=_LIMIT)
    """A connection that has been open for so long is not used again, so that a change of its host's
    addresses is noticed.
    """

    max_event_bytes: int = attrs.field(default=8 * _MIB, validator=Number(least=1, whole=True))
    """One line or event of a stream. Images come inline as base64 in a single event."""

    max_body_bytes: int = attrs.field(default=16 * _MIB, validator=Number(least=1, whole=True))
    """A reply that is not a stream."""

    max_answer_bytes: int = attrs.field(default=16 * _MIB, validator=Number(least=1, whole=True))
    """Text, reasoning and tool arguments of one answer together, as they are held: one, two or four
    bytes for each character, whatever the widest one of its text needs.
    """


def _targets(_: object, attribute: attrs.Attribute[T], targets: T) -> None:
    refuse_all(_targets_mistakes(attribute.name, targets))


def _targets_mistakes(place: str, targets: object) -> Iterator[str]:
    table = as_table(targets)
    if table is None:
        yield wrong(place, "a table of targets", targets)
        return
    for name, target in table.items():
        yield from name_mistakes(place, name)
        if not isinstance(target, Target):
            yield wrong(dotted(place, str(name)), "a Target", target)


@attrs.frozen(kw_only=True)
class WeightedTarget:
    """A target of a model, and how often it is to be the primary."""

    target: str = attrs.field(validator=text)
    """The target's name."""

    weight: float = attrs.field(validator=Number(over=0, most=1e6))
    """It is the primary of as large a share of the calls as this is of the sum of the model's
    weights, as long as all of them are healthy.
    """


def _models(config: Config, attribute: attrs.Attribute[T], models: T) -> None:
    refuse_all(models_mistakes(attribute.name, models, config.targets, _name_with_weight))


def _name_with_weight(entry: object) -> str | None:
    return entry.target if isinstance(entry, WeightedTarget) else None


def _recovery(config: Config, attribute: attrs.Attribute[T], stream: StreamPolicy) -> None:
    names = {name for model in config.models for name in config.names_of(model)}
    if stream.recovery == "continue" and not any(config.targets[name].prefill for name in names):
        raise ConfigurationError(
            f"{attribute.name}.recovery is 'continue', but no target of any model has prefill"
        )


@attrs.frozen(kw_only=True)
class Config:
    """Everything that a gateway is told."""

    targets: Mapping[str, Target] = attrs.field(validator=_targets)
    """By name."""

    models: Mapping[str, Sequence[str] | Sequence[WeightedTarget]] = attrs.field(validator=_models)
    """What the application asks for: an alias, and its targets, either by their names, the primary
    first, or each with a weight, so that every call draws its order by them.
    """

    hedge: HedgePolicy = attrs.field(factory=HedgePolicy, validator=Instance(HedgePolicy))
    stream: StreamPolicy = attrs.field(
        factory=StreamPolicy, validator=[Instance(StreamPolicy), _recovery]
    )
    retry: RetryPolicy = attrs.field(factory=RetryPolicy, validator=Instance(RetryPolicy))
    limits: Limits = attrs.field(factory=Limits, validator=Instance(Limits))

    def names_of(self, model: str) -> tuple[str, ...]:
        """Give the names of a model's targets, in the order in which they stand."""
        return tuple(
            entry.target if isinstance(entry, WeightedTarget) else entry
            for entry in self.models[model]
        )

    def weights_of(self, model: str) -> tuple[float, ...] | None:
        """Give the weights of a model's targets in that order; ``None`` if they have none."""
        entries = self.models[model]
        return tuple(each.weight for each in entries if isinstance(each, WeightedTarget)) or None
