"""The way to a target: what is sent there, and what of it is secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway import Limits, Target
from polygateway.messages import ChatRequest
from polygateway.route import Route, open_route
from polygateway.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    import trio

KEY = "sk-canary-0123456789"
QUESTION = ({"role": "user", "content": "How is the tide?"},)


async def connect(*_: object) -> trio.abc.Stream:
    raise AssertionError("nothing is sent here")


def route_with(headers: Mapping[str, str], api_key_env: str | None = None) -> Route:
    target = Target(
        dialect="openai-chat",
        base_url="https://eu.invalid/v1",
        model="lyra-3",
        headers=headers,
        api_key_env=api_key_env,
    )
    return open_route("eu", target, Limits(), connect)


def sent_by(route: Route, headers: Mapping[str, str] | None = None) -> Mapping[bytes, str | Secret]:
    request = ChatRequest(messages=QUESTION, headers=headers or {})
    return dict(route.post(route.encode(request)).headers)


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
