"""The way to one target: its address, its key, its dialect and its connections."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import attrs

from ._checks import sounds_like_key
from ._version import __version__
from .config import resolve_key
from .errors import ConfigurationError
from .net.connections import Connections, Endpoint
from .net.exchange import Post
from .policies import Target
from .secret import Secret
from .wire import DIALECTS
from .wire.dialect import Dialect, WireRequest
from .wire.posting import check_extra

if TYPE_CHECKING:
    from .messages import ChatRequest
    from .net.connections import Connect
    from .policies import Limits

_DEFAULT_PORTS = {"http": 80, "https": 443}


@attrs.frozen(kw_only=True)
class Route:
    """A target, ready to be used."""

    name: str
    target: Target
    dialect: Dialect
    key: Secret | None
    connections: Connections

    def encode(self, request: ChatRequest) -> WireRequest:
        """Put *request* into the words of this target's provider."""
        return self.dialect.encode(request, self.target, self.key)

    def post(self, wire: WireRequest) -> Post:
        """Put a request into the bytes that this target takes."""
        headers = {
            "host": self._host(),
            "accept-encoding": "identity",
            "user-agent": f"polygateway/{__version__}",
            **{name: _guarded(name, value) for name, value in wire.headers.items()},
            "content-length": str(len(wire.body)),
        }
        return Post(
            path=(_base_path(self.target) + wire.path).encode("ascii"),
            headers=[(name.encode("ascii"), value) for name, value in headers.items()],
            body=wire.body,
        )

    def scrub(self, text: str) -> str:
        """Take out of *text* what is secret of this target: its key, and keys in its headers."""
        guarded = (_guarded(name, value) for name, value in self.target.headers.items())
        for secret in (self.key, *guarded):
            if isinstance(secret, Secret):
                text = secret.scrub(text)
        return text

    def _host(self) -> str:
        where = self.connections.endpoint
        name = f"[{where.host}]" if ":" in where.host else where.host
        return name if where.port == _DEFAULT_PORTS[where.scheme] else f"{name}:{where.port}"


def open_route(name: str, target: Target, limits: Limits, connect: Connect) -> Route:
    """Make a target ready to be used.

    Args:
        name: the target's name, for errors.
        target: what is configured.
        limits: for its connections.
        connect: opens its streams.

    Raises:
        ConfigurationError: its key or its authorities cannot be had, or its ``extra`` sets what
            only the gateway may.
    """
    url = urlsplit(target.base_url)
    host = (url.hostname or "").encode("idna").decode("ascii")
    endpoint = Endpoint(
        scheme=url.scheme,
        host=host,
        port=url.port or _DEFAULT_PORTS[url.scheme],
        tls=_tls(name, target) if url.scheme == "https" else None,
    )
    dialect = DIALECTS[target.dialect]
    check_extra(target.extra, dialect.own_fields, f"targets.{name}.extra")
    return Route(
        name=name,
        target=target,
        dialect=dialect,
        key=resolve_key(name, target),
        connections=Connections(endpoint, slots=limits.max_connections_per_target, connect=connect),
    )


# A shorter value in a header that sounds like a key's is a word or a number.
_SHORTEST_KEY = 8


def _guarded(name: str, value: str | Secret) -> str | Secret:
    """Make a secret of what stands in a header for keys, without the scheme before it."""
    if isinstance(value, Secret) or not (sounds_like_key(name) or name.lower() == "cookie"):
        return value
    scheme, blank, key = value.rpartition(" ")
    return Secret(key, prefix=scheme + blank) if len(key) >= _SHORTEST_KEY else value


def _base_path(target: Target) -> str:
    path = urlsplit(target.base_url).path.rstrip("/")
    return quote(path, safe="/%:@!$&'()*+,;=~")


def _tls(name: str, target: Target) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=target.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"targets.{name}.ca_file: {target.ca_file!r} holds no usable certificates: {error}"
        ) from error
