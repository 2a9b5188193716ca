"""The way to one target: its address, its key, its dialect and its connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import attrs

from ._checks import sounds_like_key
from ._version import __version__
from .config import resolve_key
from .config.proxies import as_proxy, environment_proxy
from .net.connections import Connections
from .net.dial import Endpoint, connect_tcp
from .net.exchange import Post
from .net.head import Head
from .policies import DIRECT, Target
from .secret import Secret
from .wire import DIALECTS
from .wire.dialect import Dialect, WireRequest
from .wire.posting import check_extra

if TYPE_CHECKING:
    from .messages import ChatRequest
    from .net.dial import Connect
    from .net.tls import Contexts
    from .policies import Limits

_DEFAULT_PORTS = {"http": 80, "https": 443}

# Nearly all requests to a target have the same headers.
_HEADS = 8


@attrs.frozen(kw_only=True)
class Route:
    """A target, ready to be used."""

    name: str
    target: Target
    dialect: Dialect
    key: Secret | None
    connections: Connections
    head: Callable[[str, tuple[tuple[str, str | Secret], ...]], Head] = attrs.field(repr=False)
    """Makes the head of a request out of the path and the headers that its dialect gives it."""

    @property
    def account(self) -> object:
        """What its provider counts requests by: a model at a place with a key.

        Equal for two targets that are counted together.
        """
        if self.key is None:
            return self.name
        where = self.connections.endpoint
        return where.host, where.port, self.target.model, self.key

    def encode(self, request: ChatRequest) -> WireRequest:
        """Put *request* into the words of this target's provider."""
        return self.dialect.encode(request, self.target, self.key)

    def post(self, wire: WireRequest) -> Post:
        """Put a request into the bytes that this target takes."""
        return Post(head=self.head(wire.path, tuple(wire.headers.items())), body=wire.body)

    def scrub(self, text: str) -> str:
        """Take out of *text* what is secret of this target: keys, and the login of its proxy.

        A proxy that inspects TLS can answer in the target's place.
        """
        guarded = (_guarded(name, value) for name, value in self.target.headers.items())
        proxy = self.connections.endpoint.proxy
        for secret in (self.key, proxy and proxy.authorization, *guarded):
            if isinstance(secret, Secret):
                text = secret.scrub(text)
        return text


def open_route(
    name: str, target: Target, limits: Limits, connect: Connect | None, contexts: Contexts
) -> Route:
    """Make a target ready to be used.

    Args:
        name: the target's name, for errors.
        target: what is configured.
        limits: for its connections.
        connect: opens its streams, to its proxy if it has one; of the environment no proxy is
            taken then. ``None``: they are sockets.
        contexts: the gateway's.

    Raises:
        ConfigurationError: its key, its certificates or its proxy cannot be had, or its ``extra``
            sets what only the gateway may.
    """
    dialect = DIALECTS[target.dialect]
    check_extra(target.extra, dialect.own_fields, f"targets.{name}.extra")
    if isinstance(target.prefill, Mapping):
        check_extra(target.prefill, dialect.own_fields, f"targets.{name}.prefill")
    where = _endpoint(name, target, contexts, replaced=connect is not None)
    return Route(
        name=name,
        target=target,
        dialect=dialect,
        key=resolve_key(name, target),
        connections=Connections(where, limits, connect or connect_tcp),
        head=lru_cache(_HEADS)(partial(_head, where, _base_path(target))),
    )


def _endpoint(name: str, target: Target, contexts: Contexts, *, replaced: bool) -> Endpoint:
    url = urlsplit(target.base_url)
    host = (url.hostname or "").encode("idna").decode("ascii")
    port = url.port or _DEFAULT_PORTS[url.scheme]
    in_clear = url.scheme == "http"
    if target.proxy is not None:
        proxy = None if target.proxy == DIRECT else as_proxy(target.proxy)
    else:
        proxy = None if in_clear or replaced else environment_proxy(host, port)
    tls = None if in_clear else contexts.of(name, target)
    return Endpoint(url.scheme, host, port, tls, proxy)


# A shorter value in a header that sounds like a key's is a word or a number.
_SHORTEST_KEY = 8


def _guarded(name: str, value: str | Secret) -> str | Secret:
    """Make a secret of what stands in a header for keys, without the scheme before it."""
    if isinstance(value, Secret) or not (sounds_like_key(name) or name.lower() == "cookie"):
        return value
    scheme, blank, key = value.rpartition(" ")
    return Secret(key, prefix=scheme + blank) if len(key) >= _SHORTEST_KEY else value


def _head(
    where: Endpoint, base_path: str, path: str, headers: tuple[tuple[str, str | Secret], ...]
) -> Head:
    sent = {
        "host": where.authority.removesuffix(f":{_DEFAULT_PORTS[where.scheme]}"),
        "accept-encoding": "identity",
        "user-agent": f"polygateway/{__version__}",
        **{name: _guarded(name, value) for name, value in headers},
    }
    return Head.of(
        (base_path + path).encode("ascii"),
        [(name.encode("ascii"), value) for name, value in sent.items()],
    )


def _base_path(target: Target) -> str:
    path = urlsplit(target.base_url).path.rstrip("/")
    return quote(path, safe="/%:@!$&'()*+,;=~")
