"""What the environment says about proxies, and how others understand the same words."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING
from urllib.request import proxy_bypass

import pytest
from hypothesis import given, strategies as st

from polygateway import ConfigurationError
from polygateway.config.proxies import Proxy, as_proxy, authority, environment_proxy
from polygateway.secret import Secret
from tests.frames import is_ours

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLES = ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "ALL_PROXY", "HTTP_PROXY")
HOST = "api.example.com"
PASSWORD = "canary-7f3a"  # noqa: S105 - to be looked for


@pytest.fixture(autouse=True)
def environment() -> Iterator[pytest.MonkeyPatch]:
    """Give a way to set variables, after those of the machine are gone."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in VARIABLES:
            patch.delenv(variable, raising=False)
        yield patch


def proxy_for(host: str, port: int = 443) -> str | None:
    proxy = environment_proxy(host, port)
    return None if proxy is None else str(proxy)


# ---------------------------------------------------------------- HTTPS_PROXY


def test_without_a_variable_there_is_no_proxy() -> None:
    assert environment_proxy(HOST, 443) is None


@pytest.mark.parametrize(
    ("value", "proxy"),
    [
        ("http://proxy.corp:3128", "proxy.corp:3128"),
        ("http://proxy.corp:3128/", "proxy.corp:3128"),
        ("HTTP://Proxy.Corp:3128", "proxy.corp:3128"),
        (" http://proxy.corp:3128 ", "proxy.corp:3128"),
        ("http://proxy.corp", "proxy.corp:80"),
        ("http://10.0.0.1:3128", "10.0.0.1:3128"),
        ("http://[2001:db8::1]:3128", "[2001:db8::1]:3128"),
        # curl, Go and urllib take a proxy without scheme for an HTTP one.
        ("proxy.corp:3128", "proxy.corp:3128"),
        ("proxy.corp", "proxy.corp:80"),
        ("user:pass@proxy.corp:3128", "proxy.corp:3128"),
    ],
)
def test_the_variable_holds_the_url_of_a_proxy(
    environment: pytest.MonkeyPatch, value: str, proxy: str
) -> None:
    environment.setenv("HTTPS_PROXY", value)
    assert proxy_for(HOST) == proxy


@pytest.mark.parametrize(
    ("login", "sent"),
    [
        # RFC 7617, sections 2 and 2.1, have these two pairs.
        ("Aladdin:open%20sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("test:123%C2%A3", "Basic dGVzdDoxMjPCow=="),
        ("user:a%3Ab%40c%2Fd", "Basic dXNlcjphOmJAYy9k"),  # user:a:b@c/d
        ("user:a:b@c", "Basic dXNlcjphOmJAYw=="),  # not escaped, and yet clear
        ("user:", "Basic dXNlcjo="),
        ("user", "Basic dXNlcjo="),
        (":word", "Basic OndvcmQ="),
    ],
)
def test_a_login_is_what_the_proxy_is_sent(
    environment: pytest.MonkeyPatch, login: str, sent: str
) -> None:
    environment.setenv("HTTPS_PROXY", f"http://{login}@proxy.corp:3128")
    proxy = environment_proxy(HOST, 443)
    assert proxy is not None
    assert (proxy.host, proxy.port) == ("proxy.corp", 3128)
    assert isinstance(proxy.authorization, Secret)
    assert proxy.authorization.reveal() == sent


def test_a_login_of_bytes_that_are_no_utf8_is_sent_as_it_is(
    environment: pytest.MonkeyPatch,
) -> None:
    # What a variable holds beyond the file system's encoding, Python keeps as lone surrogates.
    environment.setenv(
        "HTTPS_PROXY", b"http://user:\xe9@proxy.corp".decode("utf-8", "surrogateescape")
    )
    proxy = environment_proxy(HOST, 443)
    assert proxy is not None
    assert proxy.authorization is not None
    assert proxy.authorization.reveal() == "Basic dXNlcjrp"


@pytest.mark.parametrize("login", ["", "@"])
def test_without_a_login_nothing_is_sent(environment: pytest.MonkeyPatch, login: str) -> None:
    environment.setenv("HTTPS_PROXY", f"http://{login}proxy.corp:3128")
    assert environment_proxy(HOST, 443) == Proxy("proxy.corp", 3128)


def test_the_variable_in_lower_case_comes_first(environment: pytest.MonkeyPatch) -> None:
    # As in curl, urllib and requests; Go has it the other way round.
    environment.setenv("HTTPS_PROXY", "http://upper:1")
    environment.setenv("https_proxy", "http://lower:2")
    assert proxy_for(HOST) == "lower:2"


def test_a_variable_that_holds_nothing_is_not_set(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTPS_PROXY", "http://upper:1")
    environment.setenv("https_proxy", "")
    assert proxy_for(HOST) == "upper:1"
    environment.setenv("HTTPS_PROXY", " ")
    assert proxy_for(HOST) is None


def test_other_variables_are_not_read(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTP_PROXY", "http://http.corp:3128")
    environment.setenv("ALL_PROXY", "http://all.corp:3128")
    assert proxy_for(HOST) is None


BAD = [
    "socks5://user:canary-7f3a@proxy.corp:1080",
    "https://user:canary-7f3a@proxy.corp:3128",
    "ftp://canary-7f3a",
    "://user:canary-7f3a@proxy.corp",
    "user:canary-7f3a://proxy.corp",
    "http://user:canary-7f3a@",
    "http://user:canary-7f3a@:3128",
    "http://user:canary-7f3a@proxy.corp:port",
    "http://user:canary-7f3a@proxy.corp:70000",
    "http://user:canary-7f3a@proxy.corp:0",
    "http://user:canary-7f3a@[2001:db8::1",
    "http://user:canary-7f3a@proxy.corp/path",
    "http://user:canary-7f3a@proxy.corp?query",
    "http://user:canary-7f3a@proxy corp",
    "http://user:canary-7f3a@pr\u2100xy.corp",  # of which urlsplit's error quotes all
    "http://proxy.corp/canary-7f3a",
    # Here some would take "user" or "proxy.corp" for the host, and some "other.corp".
    "http://user:canary-7f3a/x@other.corp",
    "http://proxy.corp/canary-7f3a@other.corp",
    "http://proxy.corp?canary-7f3a@other.corp",
    "http://proxy.corp#canary-7f3a@other.corp",
    "http://proxy.corp\\canary-7f3a@other.corp",
]


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
@pytest.mark.parametrize("value", BAD)
def test_what_is_no_http_proxy_is_refused_by_the_name_of_its_variable_alone(
    environment: pytest.MonkeyPatch, value: str, variable: str
) -> None:
    environment.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=f"^{variable} must be like http://") as caught:
        environment_proxy(HOST, 443)
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [frame for frame in told.stack if is_ours(frame.filename)]
    assert ours
    shown = [str(caught.value), *(str(frame.locals) for frame in ours)]
    assert PASSWORD in value
    assert not [text for text in shown if PASSWORD in text]
    assert caught.value.__context__ is None


def test_what_is_no_http_proxy_does_no_harm_to_a_host_that_is_left_out(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("HTTPS_PROXY", "socks5://proxy.corp:1080")
    environment.setenv("NO_PROXY", "example.com")
    assert proxy_for(HOST) is None
    assert proxy_for("localhost") is None
    with pytest.raises(ConfigurationError, match=r"example\.org:443 goes through it"):
        proxy_for("example.org")


def test_a_proxy_shows_its_address_and_no_login(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTPS_PROXY", f"http://user:{PASSWORD}@proxy.corp:3128")
    proxy = environment_proxy(HOST, 443)
    assert str(proxy) == "proxy.corp:3128"
    assert repr(proxy) == "Proxy(host='proxy.corp', port=3128, authorization=Secret('***'))"


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://proxy.corp:3128", Proxy("proxy.corp", 3128)),
        ("http://Proxy.Corp", Proxy("proxy.corp", 80)),
        ("http://[::1]:8080/", Proxy("::1", 8080)),
    ],
)
def test_a_configured_proxy_is_read_alike(url: str, proxy: Proxy) -> None:
    assert as_proxy(url) == proxy


@pytest.mark.parametrize(
    ("host", "written"),
    [("h.example", "h.example:443"), ("10.0.0.1", "10.0.0.1:443"), ("::1", "[::1]:443")],
)
def test_host_and_port_are_written_as_in_urls(host: str, written: str) -> None:
    assert authority(host, 443) == written


# ---------------------------------------------------------------- NO_PROXY


LEFT_OUT = [
    # Everything (curl, Go, urllib, httpx), also beside other entries (Go, httpx).
    ("*", HOST),
    ("corp, *", HOST),
    # A name means itself and what is below it (curl, Go, urllib, requests, httpx).
    ("example.com", "example.com"),
    ("example.com", HOST),
    ("com", HOST),
    ("API.Example.COM", HOST),
    # With a dot before it as well (curl, urllib, requests; Go and httpx: only what is below).
    (".example.com", HOST),
    (".example.com", "example.com"),
    ("*.example.com", HOST),
    # A dot at the end means nothing (curl).
    ("example.com.", HOST),
    ("example.com", "api.example.com."),
    # Lists: commas, blanks around them (Go, urllib), blanks alone (libwww).
    ("corp,example.com", HOST),
    ("corp , example.com ,", HOST),
    ("corp example.com", HOST),
    ("corp\texample.com", HOST),
    # Ports (Go, requests).
    ("example.com:443", HOST),
    (".example.com:443", HOST),
    ("10.0.0.1:443", "10.0.0.1"),
    ("[2001:db8::1]:443", "2001:db8::1"),
    # Addresses (all), also in another spelling.
    ("10.0.0.1", "10.0.0.1"),
    ("2001:db8::1", "2001:db8::1"),
    ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
    ("[2001:db8::1]", "2001:db8::1"),
    # Networks (curl since 7.86, Go, requests).
    ("10.0.0.0/8", "10.200.3.4"),
    ("10.1.2.3/8", "10.200.3.4"),
    ("10.0.0.1/32", "10.0.0.1"),
    ("0.0.0.0/0", "192.0.2.1"),
    ("2001:db8::/32", "2001:db8:ffff::1"),
    # What is on our side of any proxy (Go).
    ("", "localhost"),
    ("", "app.localhost"),
    ("", "127.0.0.1"),
    ("", "127.8.9.10"),
    ("", "::1"),
]

PROXIED = [
    ("", HOST),
    (" , ,", HOST),
    # Only whole labels count (as curl's manual says of local.com and www.notlocal.com).
    ("example.com", "notexample.com"),
    ("ample.com", HOST),
    ("example.com", "example.com.evil.org"),
    ("api.example.com", "example.com"),
    ("e*.com", HOST),
    # Ports.
    ("example.com:8443", HOST),
    ("10.0.0.1:80", "10.0.0.1"),
    ("[2001:db8::1]:80", "2001:db8::1"),
    (":443", HOST),
    # Addresses and networks.
    ("10.0.0.1", "10.0.0.11"),
    ("0.0.1", "10.0.0.1"),
    ("10.0.0.0/8", "11.0.0.1"),
    ("10.0.0.0/8", "2001:db8::1"),
    ("2001:db8::/32", "2001:db9::1"),
    ("2001:db8::/32", "10.0.0.1"),
    ("10.0.0.0/8", HOST),  # no name is looked up
    # What means nothing (all of them take no notice of it).
    ("10.0.0.0/33", "10.0.0.1"),
    ("10.0.0", "10.0.0.1"),
    (".", HOST),
    ("*.", HOST),
    ("http://example.com", HOST),
    ("<local>", HOST),
    # What only sounds like this machine.
    ("", "localhost.example.com"),
    ("", "mylocalhost"),
    ("", "128.0.0.1"),
    ("", "::2"),
]


@pytest.mark.parametrize(("no_proxy", "host"), LEFT_OUT)
def test_a_host_that_no_proxy_means_is_reached_directly(
    environment: pytest.MonkeyPatch, no_proxy: str, host: str
) -> None:
    environment.setenv("HTTPS_PROXY", "http://proxy.corp:3128")
    environment.setenv("NO_PROXY", no_proxy)
    assert proxy_for(host) is None


@pytest.mark.parametrize(("no_proxy", "host"), PROXIED)
def test_any_other_host_is_reached_through_the_proxy(
    environment: pytest.MonkeyPatch, no_proxy: str, host: str
) -> None:
    environment.setenv("HTTPS_PROXY", "http://proxy.corp:3128")
    environment.setenv("NO_PROXY", no_proxy)
    assert proxy_for(host) == "proxy.corp:3128"


def test_no_proxy_in_lower_case_comes_first(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTPS_PROXY", "http://proxy.corp:3128")
    environment.setenv("NO_PROXY", "example.com")
    environment.setenv("no_proxy", "example.org")
    assert proxy_for("example.com") == "proxy.corp:3128"
    assert proxy_for("example.org") is None


LABELS = st.sampled_from(["a", "b", "corp", "example"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
ENTRIES = st.builds("".join, st.tuples(st.sampled_from(["", ".", " "]), NAMES))


@given(entries=st.lists(ENTRIES, max_size=4), host=NAMES)
def test_of_names_the_same_are_left_out_as_by_urllib(entries: list[str], host: str) -> None:
    no_proxy = ",".join(entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTPS_PROXY", "http://proxy.corp:3128")
        patch.setenv("NO_PROXY", no_proxy)
        assert (proxy_for(host) is None) == bool(proxy_bypass(host))
