"""What the user decides: targets, models and policies, each value checked when it is made.

Durations are seconds unless the name says otherwise. Every class raises
:class:`ConfigurationError` for a value that it cannot use.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, TypeVar, get_args
from urllib.parse import urlsplit

import attrs

from ._checks import (
    NOT_AVAILABLE,
    Instance,
    Number,
    OneOf,
    as_list,
    as_table,
    body_fields,
    dotted,
    flag,
    headers,
    nearest,
    refuse_all,
    text,
    variable,
    version,
    wrong,
)
from .errors import ConfigurationError
from .messages import JSON

T = TypeVar("T")

Winner = Literal["first-delivered", "first-complete"]

_MIB = 1024 * 1024

# Of durations: a millisecond is less than any network can keep, 30 years are as good as never, and
# between them every one is a whole number of nanoseconds that differs from 0.
_SILENCE = Number(least=1e-3, most=1e9, later=("auto",))
_LIMIT = Number(least=1e-3, most=1e9)
_WAIT = Number(least=0, most=1e9)

DialectName = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"]

# Visible ASCII without query and fragment. urlsplit alone is too kind: it drops line breaks, and
# does not tell an empty query from none.
_URL_CHARACTERS = re.compile(r"[^?#\\\x00-\x20\x7f-\U0010ffff]+")


def _base_url(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    if not isinstance(value, str) or not _is_url(value):
        wanted = "like https://host/path, without query, fragment, login or blanks"
        raise ConfigurationError(wrong(attribute.name, wanted, value))


def _is_url(value: str) -> bool:
    try:
        url = urlsplit(value)
        return (
            bool(_URL_CHARACTERS.fullmatch(value))
            and url.scheme in {"http", "https"}
            and bool((url.hostname or "").encode("idna"))
            and "@" not in url.netloc
            and url.port != 0
        )
    except ValueError:
        return False


def _not_in_clear(target: Target, attribute: attrs.Attribute[T], name: T) -> None:
    if name is not None and not _is_private(target.base_url):
        raise ConfigurationError(
            f"{attribute.name}: the key would cross the network in clear;"
            " base_url must be https, or http to a loopback host"
        )


def _is_private(base_url: str) -> bool:
    """Tell whether what is sent to *base_url* can be read by nobody on the way."""
    url = urlsplit(base_url)
    host = url.hostname or ""
    if url.scheme == "https" or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _variable_only(name: str | None) -> str:
    """Show the name of a variable, unless it may be a key that was put in its place."""
    return repr(name if name is None or name == name.upper() else "***")


def _names_only(values: Mapping[str, object]) -> str:
    """Show a mapping without its values: they may be secrets."""
    return repr(dict.fromkeys(values, "***"))


@attrs.frozen(kw_only=True)
class Target:
    """Where an attempt can go: dialect, base URL, model name and key."""

    dialect: DialectName = attrs.field(validator=OneOf(get_args(DialectName)))
    """The wire that it speaks."""

    base_url: str = attrs.field(validator=_base_url)
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

    after_s: float = attrs.field(default=5.0, validator=_SILENCE)
    """Hedge when an attempt has brought no content for so long after its start.

    About three times the usual time to first content (median 1.6 s): 3.0 would hedge 15 % of all
    calls, and the purse would then refuse a third of the rescues that matter more.
    """

    stall_after_s: float = attrs.field(default=5.0, validator=_SILENCE)
    """Hedge when the content of an attempt has stopped for so long.

    Harmless pauses are shorter (median 0.8 s), stalls are longer (median 55 s).
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


@attrs.frozen(kw_only=True)
class StreamPolicy:
    """How long an attempt may take, and what is counted as a stall."""

    connect_timeout_s: float = attrs.field(default=10.0, validator=_LIMIT)
    """To open a connection, TLS included."""

    ttft_timeout_s: float = attrs.field(default=60.0, validator=_LIMIT)
    """An attempt without content is given up so long after its start."""

    stall_timeout_s: float = attrs.field(default=120.0, validator=_LIMIT)
    """An attempt is given up after such a silence. Keep-alives do not end a silence."""

    stall_threshold_ms: float = attrs.field(default=2000.0, validator=Number(least=1e-6, most=1e12))
    """A gap of at least so many milliseconds is a stall in the figures. It triggers nothing."""

    recovery: Literal["raise"] = attrs.field(
        default="raise", validator=OneOf(("raise",), ("restart", "continue"))
    )
    """What a delivered stream does when it breaks: raise :class:`StreamBroken`."""


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
            yield wrong(dotted(place, name), "a Target", target)


def name_mistakes(place: str, name: object) -> Iterator[str]:
    """Give a line if *name*, in the table called *place*, can be no target's or model's name."""
    if not isinstance(name, str) or not name.strip():
        yield f"{place} has the name {name!r}; a name is a string that is not empty"


def _models(config: Config, attribute: attrs.Attribute[T], models: T) -> None:
    refuse_all(models_mistakes(attribute.name, models, config.targets))


def models_mistakes(place: str, models: object, targets: Collection[str]) -> Iterator[str]:
    """Give a line for each mistake in a table of models.

    Args:
        place: what to call the table.
        models: what should be lists of names of targets, by the model's name.
        targets: the names there are.
    """
    table = as_table(models)
    if not table:
        yield wrong(place, "a table of at least one model", models)
        return
    for model, names in table.items():
        yield from name_mistakes(place, model)
        yield from _model_mistakes(dotted(place, model), names, targets)


def _model_mistakes(place: str, names: object, targets: Collection[str]) -> Iterator[str]:
    listed = as_list(names)
    if not listed:
        yield wrong(place, "a list of at least one target's name", names)
        return
    for index, name in enumerate(listed):
        if as_table(name) is not None:
            yield f"{place}[{index}]: a target with a weight {NOT_AVAILABLE}"
        elif not isinstance(name, str) or name not in targets:
            yield wrong(f"{place}[{index}]", f"the name of a target {nearest(name, targets)}", name)
        elif name in listed[:index]:
            yield f"{place}[{index}] names {name!r} a second time"


@attrs.frozen(kw_only=True)
class Config:
    """Everything that a gateway is told."""

    targets: Mapping[str, Target] = attrs.field(validator=_targets)
    """By name."""

    models: Mapping[str, Sequence[str]] = attrs.field(validator=_models)
    """What the application asks for: an alias, and the names of its targets, the primary first."""

    hedge: HedgePolicy = attrs.field(factory=HedgePolicy, validator=Instance(HedgePolicy))
    stream: StreamPolicy = attrs.field(factory=StreamPolicy, validator=Instance(StreamPolicy))
    retry: RetryPolicy = attrs.field(factory=RetryPolicy, validator=Instance(RetryPolicy))
    limits: Limits = attrs.field(factory=Limits, validator=Instance(Limits))
