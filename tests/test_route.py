"""The way to a target: what is sent there, and what of it is secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from polygateway import ConfigurationError, Limits, Target
from polygateway.messages import ChatRequest
from polygateway.net.tls import Contexts
from polygateway.route import Route, open_route
from polygateway.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import trio

KEY = "sk-canary-0123456789"
QUESTION = ({"role": "user", "content": "How is the tide?"},)


async def connect(*_: object) -> trio.abc.Stream:
    raise AssertionError("nothing is sent here")


def route_to(base_url: str, *, replaced: bool = True, proxy: str | None = None) -> Route:
    target = Target(dialect="openai-chat", base_url=base_url, model="lyra-3", proxy=proxy)
    return open_route("eu", target, Limits(), connect if replaced else None, Contexts())


def route_with(headers: Mapping[str, str], api_key_env: str | None = None) -> Route:
    target = Target(
        dialect="openai-chat",
        base_url="https://eu.invalid/v1",
        model="lyra-3",
        headers=headers,
        api_key_env=api_key_env,
    )
    return open_route("eu", target, Limits(), connect, Contexts())


def sent_by(route: Route, headers: Mapping[str, str] | None = None) -> Mapping[bytes, str | Secret]:
    request = ChatRequest(messages=QUESTION, headers=headers or {})
    head = route.post(route.encode(request)).head
    secrets = head.secrets
    return {
        name: secrets[value] if value in secrets else value.decode()
        for name, value in head.request.headers
    }


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("authorization", "Bearer crumb-0123", "crumb-0123"),
        ("x-api-key", "crumb-0123", "crumb-0123"),
        ("Cookie", "session=crumb-0123", "session=crumb-0123"),
        ("cf-aig-authorization", "Bearer crumb-0123", "crumb-0123"),
    ],
)
def test_a_header_that_holds_a_key_is_as_secret_as_the_key(
    name: str, value: str, secret: str
) -> None:
    route = route_with({name: value})
    held = sent_by(route)[name.lower().encode()]
    assert isinstance(held, Secret)
    assert held.reveal() == value
    assert sent_by(route_with({}), {name: value})[name.lower().encode()] == held
    assert route.scrub(f"you sent {secret}, didn't you") == "you sent ***, didn't you"


def test_each_request_has_the_headers_that_it_was_given() -> None:
    route = route_with({"x-team": "tide"})
    for value in ("one", "two", "one"):
        sent = sent_by(route, {"x-request": value})
        assert (sent[b"x-team"], sent[b"x-request"]) == ("tide", value)
    assert b"x-request" not in sent_by(route)


@pytest.mark.parametrize(
    ("name", "value"),
    [("x-team", "search-and-more"), ("x-token-limit", "1000"), ("x-auth-type", "basic")],
)
def test_any_other_header_is_a_plain_text(name: str, value: str) -> None:
    route = route_with({name: value})
    assert sent_by(route)[name.encode()] == value
    assert route.scrub(f"no {value}") == f"no {value}"


def test_all_secrets_of_a_target_are_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EU_KEY", KEY)
    route = route_with({"cookie": "crumb-0123"}, "EU_KEY")
    assert route.scrub(f"{KEY} and crumb-0123") == "*** and ***"


def test_what_is_sent_is_shown_without_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EU_KEY", KEY)
    route = route_with({"x-team": "crumb-0123"}, "EU_KEY")
    request = ChatRequest(messages=QUESTION, headers={"x-more": "crumb-0123"})
    wire = route.encode(request)
    shown = repr([route, request, wire, route.post(wire)])
    assert "crumb" not in shown
    assert KEY not in shown


@pytest.mark.parametrize(
    ("base_url", "host"),
    [
        ("https://eu.invalid/v1", "eu.invalid"),
        ("https://EU.invalid:443/v1", "eu.invalid"),
        ("https://eu.invalid:8443/v1", "eu.invalid:8443"),
        ("http://eu.invalid/v1", "eu.invalid"),
        ("http://eu.invalid:443/v1", "eu.invalid:443"),
        ("http://[2001:db8::1]/v1", "[2001:db8::1]"),
        ("http://[2001:db8::1]:8080/v1", "[2001:db8::1]:8080"),
    ],
)
@pytest.mark.parametrize("proxy", [None, "http://proxy.corp:3128"])
def test_the_host_that_is_named_is_the_target_s_whatever_the_way(
    base_url: str, host: str, proxy: str | None
) -> None:
    assert sent_by(route_to(base_url, proxy=proxy))[b"host"] == host


# ---------------------------------------------------------------- the way there


@pytest.fixture
def environment() -> Iterator[pytest.MonkeyPatch]:
    """Have a proxy in the environment, and no other word on proxies."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("https_proxy", "no_proxy", "NO_PROXY"):
            patch.delenv(variable, raising=False)
        patch.setenv("HTTPS_PROXY", "http://env.corp:3128")
        yield patch


@pytest.mark.parametrize(
    ("base_url", "own", "proxy"),
    [
        ("https://eu.invalid", None, "env.corp:3128"),
        ("https://eu.invalid", "http://own.corp:8080", "own.corp:8080"),
        ("https://eu.invalid", "direct", "None"),
        ("https://localhost:8443", None, "None"),
        ("https://localhost:8443", "http://own.corp:8080", "own.corp:8080"),
        # What is not encrypted, proxies of the environment do not get to see.
        ("http://eu.invalid", None, "None"),
        ("http://eu.invalid", "http://own.corp:8080", "own.corp:8080"),
        ("http://eu.invalid", "direct", "None"),
    ],
)
def test_a_target_goes_through_its_own_proxy_or_else_that_of_the_environment(
    environment: pytest.MonkeyPatch, base_url: str, own: str | None, proxy: str
) -> None:
    route = route_to(base_url, replaced=False, proxy=own)
    assert str(route.connections.endpoint.proxy) == proxy


def test_no_proxy_says_which_targets_go_directly(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("NO_PROXY", "eu.invalid:443")
    for base_url, proxy in (
        ("https://eu.invalid", "None"),
        ("https://eu.invalid:8443", "env.corp:3128"),
    ):
        route = route_to(base_url, replaced=False)
        assert str(route.connections.endpoint.proxy) == proxy


@pytest.mark.parametrize("value", ["http://env.corp:3128", "socks5://env.corp:1080"])
def test_who_replaces_the_sockets_is_not_sent_through_the_environment_s_proxy(
    environment: pytest.MonkeyPatch, value: str
) -> None:
    environment.setenv("HTTPS_PROXY", value)
    assert route_to("https://eu.invalid").connections.endpoint.proxy is None
    own = route_to("https://eu.invalid", proxy="http://own.corp:8080")
    assert str(own.connections.endpoint.proxy) == "own.corp:8080"


def test_a_proxy_that_cannot_be_spoken_to_is_refused_when_the_way_is_opened(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("HTTPS_PROXY", "socks5://user:crumb-0123@env.corp:1080")
    with pytest.raises(ConfigurationError, match=r"^HTTPS_PROXY must be like") as caught:
        route_to("https://eu.invalid", replaced=False)
    assert "crumb" not in str(caught.value)
    route_to("https://eu.invalid", replaced=False, proxy="direct")


def test_a_route_shows_no_login_of_its_proxy(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTPS_PROXY", "http://user:crumb-0123@env.corp:3128")
    route = route_to("https://eu.invalid", replaced=False)
    proxy = route.connections.endpoint.proxy
    assert proxy is not None
    assert proxy.authorization is not None
    login = proxy.authorization.reveal().removeprefix("Basic ")
    shown = repr([route, vars(route.connections), attrs.asdict(route.connections.endpoint)])
    assert "crumb" not in shown
    assert login not in shown
    # A proxy that inspects TLS answers in the target's place, and may quote it.
    assert route.scrub(f"Basic {login} is blocked") == "Basic *** is blocked"
