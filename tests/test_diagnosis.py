"""What a provider said, in the texts and fields of the errors that callers get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from polygateway import Limits, RateLimited, StreamPolicy, Target, Truncated
from polygateway.diagnosis import Diagnosis
from polygateway.net.http import ResponseHead
from polygateway.net.tls import Contexts
from polygateway.route import open_route
from polygateway.testing import ScriptedProvider, Step, chunk, cut, raw, reset
from polygateway.wire.faults import refused, reported
from tests.scenario import NO_RETRY, run_complete

if TYPE_CHECKING:
    import trio

KEY = "sk-canary/0123+4567=="


async def connect(*_: object) -> trio.abc.Stream:
    raise AssertionError("nothing is sent here")


@pytest.fixture
def diagnosis(monkeypatch: pytest.MonkeyPatch) -> Diagnosis:
    monkeypatch.setenv("EU_KEY", KEY)
    target = Target(
        dialect="openai-chat",
        base_url="https://eu.invalid/v1",
        model="lyra-3",
        api_key_env="EU_KEY",
    )
    route = open_route("eu", target, Limits(), connect, Contexts())
    return Diagnosis(route, 2, StreamPolicy(), Limits())


def test_a_refusal_names_its_target_its_status_and_the_wait(diagnosis: Diagnosis) -> None:
    diagnosis.head = ResponseHead(429, {"retry-after": "7", "x-request-id": "req-1"})
    body = b'{"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}'
    error = diagnosis.refused(refused(429, diagnosis.head.headers, body, now_s=0))
    assert type(error) is RateLimited
    assert str(error) == "target 'eu' answered 429: Slow down. (again in 7 s)"
    assert (error.status, error.code, error.request_id) == (429, "rate_limit_exceeded", "req-1")
    assert (error.target, error.attempt, error.retry_after_s) == ("eu", 2, 7.0)
    assert error.retryable


def test_a_refusal_without_words_is_told_once(diagnosis: Diagnosis) -> None:
    diagnosis.head = ResponseHead(502, {})
    page = refused(502, {}, b"<title>Bad gateway</title>", now_s=0)
    assert str(diagnosis.refused(page)) == "target 'eu' answered 502: a page: 'Bad gateway'"
    empty = refused(502, {}, b"", now_s=0)
    assert str(diagnosis.refused(empty)) == "target 'eu' answered 502: no body"


def test_who_asks_not_to_be_tried_again_is_not_retryable(diagnosis: Diagnosis) -> None:
    fault = reported("overloaded", "")
    assert diagnosis.broken_off(fault).retryable
    assert not diagnosis.broken_off(attrs.evolve(fault, do_not_retry=True)).retryable


# Whole, escaped as JSON and URLs do, and cut off at every place where a text can be cut.
@pytest.mark.parametrize(
    "echo",
    [
        KEY,
        KEY.replace("/", r"\/"),
        KEY.replace("+", r"\u002B").replace("=", r"\u003d"),
        KEY.replace("/", "%2F").replace("+", "%2b").replace("=", "%3D"),
    ],
)
def test_no_part_of_a_key_that_a_provider_echoes_is_left(diagnosis: Diagnosis, echo: str) -> None:
    for before in range(460, 500):
        text = diagnosis.broken_off(reported("x" * before + echo + "y" * 90, ""))
        code = "x" * (before - 400) + echo + "y" * 90
        coded = diagnosis.broken_off(reported({"message": "m", "code": code}, ""))
        shown = f"{text} {coded.code}"
        assert "canary" not in shown
        assert "0123" not in shown
        assert "4567" not in shown


def test_an_id_of_a_request_is_cut_and_scrubbed(diagnosis: Diagnosis) -> None:
    diagnosis.head = ResponseHead(500, {"x-request-id": KEY + "x" * 100_000})
    request_id = diagnosis.request_id or ""
    assert request_id.startswith("***x")
    assert len(request_id) <= 200


# What a proxy writes when it loses its provider (agenc-core#2492).
@pytest.mark.parametrize("end", [[], [cut()], [reset()]])
@pytest.mark.parametrize(
    "line", ["upstream connect error: reset", "upstream connect error: reset\n"]
)
def test_what_a_proxy_appends_to_a_cut_answer_is_told_with_it(line: str, end: list[Step]) -> None:
    eu = ScriptedProvider([chunk("Ebb."), raw(line.encode()), *end])
    failure = run_complete({"eu": eu}, retry=NO_RETRY).failure
    assert type(failure) is Truncated
    assert "; it holds 'upstream connect error: reset', which is no event" in str(failure)
    assert failure.partial is not None
    assert failure.partial.text == "Ebb."


def test_of_an_answer_that_was_only_cut_nothing_else_is_told() -> None:
    eu = ScriptedProvider([chunk("Ebb."), raw(b"id: 7\nretry: 10\n: x\n\n"), cut()])
    failure = run_complete({"eu": eu}, retry=NO_RETRY).failure
    assert type(failure) is Truncated
    assert "it holds" not in str(failure)
