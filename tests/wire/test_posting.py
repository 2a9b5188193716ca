from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from polygateway.errors import ConfigurationError
from polygateway.messages import ChatRequest
from polygateway.policies import Target
from polygateway.secret import Secret
from polygateway.wire.posting import check_extra, post_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway.messages import JSON
    from polygateway.wire.dialect import WireRequest

PROMPT: list[dict[str, JSON]] = [{"role": "user", "content": "Ahoi"}]


def posted(
    body: Mapping[str, JSON],
    target_extra: Mapping[str, JSON],
    extra: Mapping[str, JSON],
    headers: Mapping[str, str | Secret] | None = None,
) -> WireRequest:
    target = Target(
        dialect="ollama",
        base_url="http://[::1]",
        model="m",
        extra=target_extra,
        headers={"X-Team": "search", "X-Trace": "1"},
    )
    request = ChatRequest(messages=PROMPT, extra=extra, headers={"x-team": "sales"})
    return post_json("/p", body, headers or {}, request=request, target=target)


def test_the_request_s_extra_is_over_the_target_s_and_both_over_the_body() -> None:
    wire = posted({"a": 0, "b": 0, "c": 0}, {"b": 1, "c": 1}, {"c": 2, "d": [2]})
    assert wire.body == b'{"a":0,"b":1,"c":2,"d":[2]}'
    assert (wire.path, wire.left_out) == ("/p", ())


def test_objects_are_merged_however_deep_they_are_and_everything_else_is_replaced() -> None:
    wire = posted(
        {"o": {"a": {"x": 0, "y": 0}, "b": {"x": 0}, "c": [0], "d": 0}},
        {"o": {"a": {"y": 1}, "b": 1, "c": [1], "d": {"x": 1}}},
        {"o": {"a": {"z": 2}, "d": {"y": 2}}, "p": {"x": 2}},
    )
    assert json.loads(wire.body) == {
        "o": {"a": {"x": 0, "y": 1, "z": 2}, "b": 1, "c": [1], "d": {"x": 1, "y": 2}},
        "p": {"x": 2},
    }


def test_what_is_merged_stays_as_it_was_with_whoever_said_it() -> None:
    body: dict[str, JSON] = {"o": {"a": 0}}
    extra: dict[str, JSON] = {"o": {"b": 1}}
    assert posted(body, extra, extra).body == b'{"o":{"a":0,"b":1}}'
    assert (body, extra) == ({"o": {"a": 0}}, {"o": {"b": 1}})


@pytest.mark.parametrize(
    ("prefix", "body"),
    [("", '{"a":0,"b":1,"c":2,"o":{"x":1}}'), ("Ebb", '{"a":0,"b":3,"c":2,"o":{"x":1,"y":3}}')],
)
def test_what_a_begun_answer_needs_is_over_the_target_s_extra_and_in_no_other_request(
    prefix: str, body: str
) -> None:
    target = Target(
        dialect="ollama",
        base_url="http://[::1]",
        model="m",
        extra={"b": 1, "c": 1, "o": {"x": 1}},
        prefill={"b": 3, "c": 3, "o": {"y": 3}},
    )
    request = ChatRequest(messages=PROMPT, extra={"c": 2}, prefix=prefix)
    wire = post_json("/p", {"a": 0, "b": 0}, {}, request=request, target=target)
    assert wire.body == body.encode()


def test_a_target_that_needs_nothing_is_told_nothing_with_a_begun_answer() -> None:
    target = Target(dialect="ollama", base_url="http://[::1]", model="m", prefill=True)
    request = ChatRequest(messages=PROMPT, prefix="Ebb")
    assert post_json("/p", {"a": 0}, {}, request=request, target=target).body == b'{"a":0}'


def test_the_user_s_headers_are_over_the_dialect_s_whatever_their_case() -> None:
    wire = posted({}, {}, {}, {"X-Api-Key": Secret("k"), "x-trace": "0"})
    assert wire.headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "x-api-key": Secret("k"),
        "x-trace": "1",
        "x-team": "sales",
    }


def test_a_dialect_may_ask_for_another_type_and_say_what_it_left_out() -> None:
    wire = post_json(
        "/p",
        {},
        {},
        request=ChatRequest(messages=PROMPT),
        target=Target(dialect="ollama", base_url="http://[::1]", model="m"),
        accept="application/x-ndjson",
        left_out=("gemini",),
    )
    assert wire.headers["accept"] == "application/x-ndjson"
    assert wire.left_out == ("gemini",)


def test_what_json_cannot_say_is_refused_by_its_place() -> None:
    with pytest.raises(ConfigurationError, match=r"^o\.a is nan, which JSON cannot say"):
        posted({"o": {"a": float("nan")}}, {}, {})


def test_extra_may_not_set_what_a_dialect_decides() -> None:
    check_extra({"a": 1}, ("contents",), "targets.eu.extra")
    with pytest.raises(ConfigurationError) as caught:
        check_extra({"contents": []}, ("model", "contents"), "targets.eu.extra")
    assert str(caught.value) == "targets.eu.extra may not set 'contents', which polygateway decides"


def test_extra_is_json() -> None:
    with pytest.raises(ConfigurationError, match=r"^extra\.a is inf, which JSON cannot say"):
        check_extra({"a": float("inf")}, (), "extra")
