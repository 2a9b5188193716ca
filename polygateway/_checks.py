"""Validators for the values' fields: what is wanted, said in the error when it is not met.

They are called as attrs calls a validator, and name what they refuse by ``attribute.name``. Where
one value can hold several mistakes, the error has a line for each. A value is shown only where it
cannot be a secret.
"""

from __future__ import annotations

import ipaddress
import math
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from functools import lru_cache
from typing import TypeGuard, TypeVar, cast
from urllib.parse import urlsplit

import attrs

from .errors import ConfigurationError

T = TypeVar("T")

# RFC 9110, sections 5.6.2 (token) and 5.5 (field value: no blanks around it). Its obsolete
# characters above ASCII are left out: servers disagree on what they mean.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"([\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?)?")

# POSIX, Base Definitions, 3.216 (Name): what environment variables are called.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_VERSION = re.compile(r"[A-Za-z0-9.-]+")

# Visible ASCII without query, fragment and backslash. urlsplit alone is too kind: it drops line
# breaks, and does not tell an empty query from none.
_URL_CHARACTERS = re.compile(r"[!\"$->@-\[\]-~]+")

# What the connection itself decides; a second value would contradict the first.
_OWN_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "transfer-encoding"}
)

# What the gateway itself decides: the prompt, the target, one answer a call, and that it streams.
_OWN_BODY_FIELDS = ("messages", "model", "n", "stream")

# "tokens", in the plural, are counts.
_KEY_LIKE = re.compile(r"key|token(?!s)|secret|passw|pwd|auth|credential|bearer", re.IGNORECASE)
_FREE_FORM = re.compile(r"headers|extra|prefill|base_url|proxy", re.IGNORECASE)

# What TOML lets stand without quotes in a dotted name.
_BARE = re.compile(r"[A-Za-z0-9_-]+")

_SHOWN_CHARACTERS = 60
_SHOWN_BITS = 64


def dotted(*names: str | int) -> str:
    """Write a setting's place as TOML does, and a position in a list in brackets."""
    return "".join(map(_step, names)).removeprefix(".")


def _step(name: str | int) -> str:
    if isinstance(name, int):
        return f"[{name}]"
    return f".{name if _BARE.fullmatch(name) else repr(name)}"


@lru_cache(maxsize=1000)  # asked of every header of every request
def sounds_like_key(name: str) -> bool:
    """Tell whether a setting of that name would hold a key."""
    return bool(_KEY_LIKE.search(name))


def wrong(name: str, wanted: str, value: object) -> str:
    """Say that *value* is not what is *wanted* for *name*.

    Where any part of a dotted *name* sounds like a secret, the value is not shown.
    """
    if sounds_like_key(name) or _FREE_FORM.search(name):
        return f"{name} must be {wanted} (what it holds is not shown)"
    return f"{name} must be {wanted}, not {_brief(value)}"


def _brief(value: object) -> str:
    """Show a plain value on one line; of anything else the type, for a secret may be inside."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    kind = "table" if as_table(value) is not None else type(value).__name__
    size = f" of {len(value)}" if isinstance(value, Sized) else ""
    return f"a {kind}{size}"


def nearest(name: object, known: Collection[str]) -> str:
    """Say, in brackets, which of the *known* names is nearest; all of them if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only who has a mistake waits for it

    spellings = {folded(spelling): spelling for spelling in known}
    near = get_close_matches(folded(str(name)), spellings, n=1)
    if near:
        return f"(nearest: {spellings[near[0]]})"
    return f"(known: {', '.join(sorted(known)) or 'none'})"


def folded(name: str) -> str:
    """Give what names have in common that differ in case, or in ``-`` and ``_``, only."""
    return name.lower().replace("-", "_")


def as_table(value: object) -> Mapping[object, object] | None:
    """Give *value* if it is a table, whatever is in it; else ``None``."""
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else None


def as_list(value: object) -> Sequence[object] | None:
    """Give *value* if it is a list, whatever is in it; else ``None``."""
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else None


def refuse_all(mistakes: Iterable[str]) -> None:
    """Raise one error with a line for each of the mistakes, if there are any.

    Raises:
        ConfigurationError: there is at least one.
    """
    lines = list(mistakes)
    if lines:
        raise ConfigurationError("\n".join(lines))


@attrs.frozen(kw_only=True)
class Number:
    """A finite number within bounds. A bool is no number."""

    over: float = -math.inf
    least: float = -math.inf
    most: float = sys.float_info.max
    whole: bool = False
    words: Sequence[str] = ()
    """What may stand instead of a number."""

    def __call__(self, _: object, attribute: attrs.Attribute[T], value: T) -> None:
        if not self._fits(value) and not (isinstance(value, str) and value in self.words):
            raise ConfigurationError(wrong(attribute.name, self._wanted(), value))

    def _fits(self, value: object) -> bool:
        kinds = (int,) if self.whole else (int, float)
        return (
            isinstance(value, kinds)
            and not isinstance(value, bool)
            and self.over < value
            and self.least <= value <= self.most
        )

    def _wanted(self) -> str:
        bounds = [
            f"{word} {bound:,.15g}"
            for word, bound, unbounded in (
                ("over", self.over, -math.inf),
                ("at least", self.least, -math.inf),
                ("at most", self.most, sys.float_info.max),
            )
            if bound != unbounded
        ]
        number = "a whole number" if self.whole else "a number"
        numbers = " ".join([number, *filter(None, [" and ".join(bounds)])])
        return " or ".join([numbers, *map(repr, self.words)])


@attrs.frozen
class OneOf:
    """One of a fixed set of words."""

    words: Sequence[str]

    def __call__(self, _: object, attribute: attrs.Attribute[T], value: T) -> None:
        if value not in self.words:
            wanted = " or ".join(map(repr, self.words))
            raise ConfigurationError(wrong(attribute.name, wanted, value))


@attrs.frozen
class Instance:
    """An object of one class."""

    of: type

    def __call__(self, _: object, attribute: attrs.Attribute[T], value: T) -> None:
        if not isinstance(value, self.of):
            raise ConfigurationError(wrong(attribute.name, f"a {self.of.__name__}", value))


def flag(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept true and false only."""
    if not isinstance(value, bool):
        raise ConfigurationError(wrong(attribute.name, "true or false", value))


def text(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept a string that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(wrong(attribute.name, "a string that is not empty", value))


def variable(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept the name of an environment variable."""
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        wanted = "the name of an environment variable: letters, digits and underscores"
        raise ConfigurationError(wrong(attribute.name, wanted, value))


def version(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept what can stand in a URL and in a header as it is."""
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        wanted = "a version: letters, digits, points and hyphens"
        raise ConfigurationError(wrong(attribute.name, wanted, value))


def base_url(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept a URL that paths can be put behind."""
    if not _is_url(value):
        wanted = "like https://host/path, without query, fragment, login or blanks"
        raise ConfigurationError(wrong(attribute.name, wanted, value))


def is_proxy_url(value: object) -> TypeGuard[str]:
    """Tell whether *value* names a proxy, and no login."""
    return _is_url(value) and urlsplit(value).scheme == "http" and urlsplit(value).path in {"", "/"}


def _is_url(value: object) -> TypeGuard[str]:
    if not isinstance(value, str):
        return False
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


def is_private(url: str) -> bool:
    """Tell whether what is sent to *url* can be read by nobody on the way."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def headers(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept a mapping of header names to values that can be sent as they are."""
    refuse_all(_header_mistakes(attribute.name, value))


def _header_mistakes(place: str, value: object) -> Iterator[str]:
    table = as_table(value)
    if table is None:
        yield wrong(place, "a table of names and values", value)
        return
    for name, content in table.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            yield f"{place} has {_header_start(name)}, which is no header name"
        elif name.lower() in _OWN_HEADERS:
            yield f"{place} has {name!r}, which the connection sets"
        elif not isinstance(content, str) or not _FIELD_VALUE.fullmatch(content):
            wanted = "a string of visible ASCII characters, without blanks around it"
            yield wrong(f"{place}[{name!r}]", wanted, content)


def _header_start(name: object) -> str:
    """Show the good start of a bad header name: what follows may be the value, and secret."""
    start = _TOKEN.match(name) if isinstance(name, str) else None
    return f"{start[0]!r} with something after it" if start else "something"


def body_fields(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept a mapping that JSON can say and that leaves the gateway its own fields."""
    refuse_all(_body_mistakes(attribute.name, value))


def _body_mistakes(place: str, value: object) -> Iterator[str]:
    table = as_table(value)
    if table is None:
        yield wrong(place, "a table of names and values", value)
        return
    if not table:  # as in most calls
        return
    for name in _OWN_BODY_FIELDS:
        if name in table:
            yield f"{place} may not set {name!r}, which polygateway decides"
    try:
        yield from _unsayable(place, table)
    except RecursionError:
        yield f"{place} is nested too deeply, or holds itself"


def _unsayable(place: str, value: object) -> Iterator[str]:
    """Give a line for whatever JSON cannot say, anywhere in *value*."""
    for name, inner in (as_table(value) or {}).items():
        if not isinstance(name, str):
            yield f"{place} has the name {_brief(name)}, which is no string"
        yield from _unsayable(f"{place}[{_brief(name)}]", inner)
    for index, inner in enumerate(as_list(value) or ()):
        yield from _unsayable(f"{place}[{index}]", inner)
    if not _is_json(value):
        yield wrong(
            place, "something that JSON can say: no date, nan, inf or half a surrogate pair", value
        )


def _is_json(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return _is_text(value)
    return value is None or isinstance(value, bool | int | str | list | tuple | Mapping)


def _is_text(value: str) -> bool:
    """Tell whether *value* can be sent: half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
