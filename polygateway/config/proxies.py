"""The proxy that the environment names for a host: ``HTTPS_PROXY`` and ``NO_PROXY``."""

# There is no standard for these variables. docs/how-to/go-through-a-proxy.md says what is read of
# them, and where others read them differently.
#
# HTTPS_PROXY may hold a login. No function that raises, or that calls one that may, has it in a
# variable: tracebacks show those.

from __future__ import annotations

import os
import re
from base64 import b64encode
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

import attrs

from .._checks import is_proxy_url
from ..errors import ConfigurationError
from ..secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_DEFAULT_PORT = 80  # that of the URL's own scheme

# A proxy cannot reach what is on our side of it.
_NEVER_PROXIED = "localhost, 127.0.0.0/8, ::1"

# With one of these in it, others would take a login for the end of the host.
_NO_LOGIN = re.compile(r"[/?#\\]")

_BRACKETS = str.maketrans("", "", "[]")


@attrs.frozen
class Proxy:
    """An HTTP proxy."""

    host: str
    port: int
    authorization: Secret | None = None
    """What it is sent as ``Proxy-Authorization``; ``None``: nothing."""

    def __str__(self) -> str:
        return authority(self.host, self.port)


def authority(host: str, port: int) -> str:
    """Write host and port as URLs do."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def as_proxy(url: str, authorization: Secret | None = None) -> Proxy:
    """Give the proxy that *url* names, for which :func:`is_proxy_url` holds."""
    parts = urlsplit(url)
    return Proxy(parts.hostname or "", parts.port or _DEFAULT_PORT, authorization)


def environment_proxy(host: str, port: int) -> Proxy | None:
    """Give the proxy through which the environment wants an https host to be reached.

    Args:
        host: in lower case; an IPv6 address without brackets.
        port: of the host.

    Returns:
        The proxy; ``None`` if the host is to be reached directly.

    Raises:
        ConfigurationError: the variable names something else than an HTTP proxy. The text names
            the variable and shows nothing of it.
    """
    variable = _first_set("https_proxy", "HTTPS_PROXY")
    if variable is None or _is_left_out(host, port):
        return None
    if proxy := _parsed(variable):
        return proxy
    raise ConfigurationError(
        f"{variable} must be like http://host:port or http://user:password@host:port, with the"
        " login escaped as in URLs, for no other kind of proxy is spoken to (what it holds is not"
        f" shown); {authority(host, port)} goes through it, unless NO_PROXY or the target's proxy"
        " says otherwise"
    )


def _first_set(*variables: str) -> str | None:
    """Give the first of the variables that is set, and not to nothing."""
    return next((name for name in variables if os.environ.get(name, "").strip()), None)


def _parsed(variable: str) -> Proxy | None:
    """Read what *variable* holds; ``None`` if that is no HTTP proxy."""
    scheme, separator, rest = os.environ[variable].strip().partition("://")
    if not separator:
        scheme, rest = "http", scheme
    login, _, address = rest.rpartition("@")
    url = f"{scheme}://{address}"
    if _NO_LOGIN.search(login) or not is_proxy_url(url):
        return None
    return as_proxy(url, _basic(login))


def _basic(login: str) -> Secret | None:
    """Give a login, escaped as in URLs, as HTTP's scheme Basic sends it (RFC 7617)."""
    if not login:
        return None
    user, colon, password = login.partition(":")
    plain = unquote_to_bytes(os.fsencode(f"{user}{colon or ':'}{password}"))
    return Secret(b64encode(plain).decode("ascii"), prefix="Basic ")


def _is_left_out(host: str, port: int) -> bool:
    """Tell whether a host is to be reached without a proxy."""
    variable = _first_set("no_proxy", "NO_PROXY")
    entries = f"{_NEVER_PROXIED}, {os.environ[variable] if variable else ''}"
    return any(_is_meant(entry, host, port) for entry in re.split(r"[,\s]+", entries.lower()))


def _is_meant(entry: str, host: str, port: int) -> bool:
    """Tell whether an entry of ``NO_PROXY``, in lower case, means this host and port."""
    if entry == "*":
        return True
    name, wanted = _name_and_port(entry)
    if wanted not in {"", str(port)}:
        return False
    if address := _or_none(ip_address, host):
        network = _or_none(_network, name)
        return network is not None and address in network
    domain = name.removeprefix("*").strip(".")
    return bool(domain) and f".{host.rstrip('.')}".endswith(f".{domain}")


def _name_and_port(entry: str) -> tuple[str, str]:
    """Take an entry's port off, and the brackets; the port is empty if there is none."""
    name, _, port = entry.rpartition(":")
    if not port.isdecimal() or (":" in name and not name.endswith("]")):
        name, port = entry, ""
    return name.translate(_BRACKETS), port


def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text, strict=False)  # 10.1.2.3/8 means what 10.0.0.0/8 does


def _or_none(parse: Callable[[str], T], text: str) -> T | None:
    try:
        return parse(text)
    except ValueError:
        return None
