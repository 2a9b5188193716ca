from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from polygateway.errors import (
    AttemptError,
    AuthenticationFailed,
    ContentFiltered,
    ContextLengthExceeded,
    InvalidRequest,
    Overloaded,
    ProtocolViolation,
    QuotaExhausted,
    RateLimited,
    ServerError,
)
from polygateway.wire.faults import CODES, TYPES, WORDS, error_in, refused, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway.messages import JSON
    from polygateway.wire.dialect import Fault


def refusal(status: int, error: JSON, headers: Mapping[str, str] | None = None) -> Fault:
    return refused(status, headers or {}, json.dumps({"error": error}).encode())


# ---- classes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "error"),
    [
        ([400, 404, 405, 413, 422, 451], InvalidRequest),
        ([401, 403, 407], AuthenticationFailed),
        ([402], QuotaExhausted),
        ([408, 409, 425, 499, 500, 502, 504, 520, 524, 599], ServerError),
        ([429], RateLimited),
        ([503, 529], Overloaded),
        ([201, 204, 301, 302, 304, 307, 308], ProtocolViolation),
        ([600], ServerError),
    ],
)
def test_a_status_alone_gives_a_class(statuses: list[int], error: type[AttemptError]) -> None:
    for status in statuses:
        assert refused(status, {}, b"").error is error
        assert refused(status, {}, b"<html>rate limit, context length</html>").error is error


# As providers send them; the sources are in the tables, or beside.
@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"message": "Too long.", "code": "context_length_exceeded"}, ContextLengthExceeded),
        (400, {"message": "x", "type": "exceed_context_size_error"}, ContextLengthExceeded),
        (400, {"message": "prompt is too long: 2 tokens > 1 maximum"}, ContextLengthExceeded),
        (422, {"message": "`inputs` must have less than 9 tokens"}, ContextLengthExceeded),
        (500, {"message": "Context size has been exceeded."}, ContextLengthExceeded),
        (400, {"message": "no", "innererror": {"code": "content_filter"}}, ContentFiltered),
        (400, {"message": "no", "code": "Content_Filter"}, ContentFiltered),
        (403, {"code": 403, "message": "no", "metadata": {"reasons": ["x"]}}, ContentFiltered),
        (403, {"code": 403, "message": "no", "metadata": {"reasons": []}}, AuthenticationFailed),
        (403, {"code": 403, "message": "no", "metadata": {}}, AuthenticationFailed),
        (429, {"message": "no", "type": "insufficient_quota"}, QuotaExhausted),
        (400, {"message": "Your credit balance is too low"}, QuotaExhausted),
        (429, {"message": "Monthly spend limit reached"}, QuotaExhausted),
        (429, {"message": "You exceeded your current quota, check billing"}, QuotaExhausted),
        (429, {"message": "Limit 1000 requests per day"}, QuotaExhausted),
        (429, {"message": "Quota exceeded: requests per minute"}, RateLimited),
        (429, {"message": "Rate limit exceeded", "code": None}, RateLimited),
        (403, {"message": "Too many requests"}, RateLimited),
        (400, {"code": "Throttling.RateQuota", "message": "x"}, RateLimited),
        (429, {"type": "engine_overloaded_error", "message": "x"}, Overloaded),
        (500, {"message": "The model is overloaded."}, Overloaded),
        (400, {"message": "API key not valid."}, AuthenticationFailed),
        (400, {"message": "x", "code": "invalid_api_key"}, AuthenticationFailed),
        (400, {"message": "x", "code": "tool_use_failed", "type": "x"}, ServerError),
        # The code beats the text, the text the status, the status the type.
        (429, {"code": "insufficient_quota", "message": "rate limit"}, QuotaExhausted),
        (400, {"code": "over_capacity", "type": "content_filter", "message": "x"}, Overloaded),
        (503, {"type": "invalid_request_error", "message": "x"}, Overloaded),
        (400, {"type": "rate_limit_error", "message": "x"}, InvalidRequest),
        # A limit of a backend is no rate limit of ours (OmniRoute#8210).
        (502, {"code": 502, "message": "Worker request limit reached"}, ServerError),
    ],
)
def test_a_refusal_is_classified_by_what_is_most_specific(
    status: int, body: dict[str, JSON], error: type[AttemptError]
) -> None:
    assert refusal(status, body).error is error


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("engine dead", ServerError),
        ("server busy, please try again", Overloaded),
        ({"message": "x"}, ServerError),
        ({"message": "x", "type": "authentication_error"}, AuthenticationFailed),
        ({"message": "x", "type": "permission_error"}, AuthenticationFailed),
        ({"message": "x", "type": "BadRequestError"}, InvalidRequest),
        ({"message": "x", "type": "rate_limit_error"}, RateLimited),
        ({"message": "x", "type": "overloaded_error"}, Overloaded),
        ({"message": "x", "code": 401}, AuthenticationFailed),
        ({"message": "x", "code": "429"}, RateLimited),
        ({"message": "x", "status_code": 503, "code": 400}, Overloaded),
        ({"message": "x", "http_status_code": 422}, InvalidRequest),
        ({"message": "x", "status": 504, "type": "invalid_request_error"}, ServerError),
        ({"message": "x", "code": 200}, ServerError),
        ({"message": "x", "code": 1302}, ServerError),
        ({"message": "x", "code": "5xx"}, ServerError),
        ({"message": "x", "code": "4o1"}, ServerError),
        ({"message": "x", "code": 399}, ServerError),
        ({"message": "x", "code": 400}, InvalidRequest),
        ({"message": "x", "code": 499}, ServerError),
    ],
)
def test_an_error_in_a_stream_is_classified_without_a_status_of_its_own(
    body: JSON, error: type[AttemptError]
) -> None:
    assert reported(body, "raw").error is error


def test_who_says_when_it_takes_us_again_is_a_limit_and_no_exhausted_quota() -> None:
    # OmniRoute#9504: "per day" with a delay of 36 s is over after 36 s.
    text: JSON = {"message": "You exceeded your current quota. Please retry in 36s."}
    assert refusal(429, text).error is RateLimited
    assert refusal(429, text).retry_after_s == 36.0
    words: JSON = {"message": "You exceeded your current quota."}
    assert refusal(429, words, {"retry-after": "36"}).error is RateLimited
    assert refusal(402, words).error is QuotaExhausted
    code: JSON = {"message": "x", "code": "insufficient_quota"}
    assert refusal(429, code, {"retry-after": "36"}).error is QuotaExhausted


def test_the_tables_name_each_word_once_and_in_lower_case() -> None:
    for table in (CODES, WORDS, TYPES):
        words = [word for _, names in table for word in names]
        assert len(set(words)) == len(words)
        assert words == [word.lower() for word in words]


# ---- texts, codes and hints ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (b'{"error":{"message":"No.","type":"t","code":"c"}}', "No.", "c"),
        (b'{"error":{"message":"No.","type":"t","code":null}}', "No.", "t"),
        (b'{"error":{"message":"No.","code":""}}', "No.", None),
        (b'{"error":{"message":"No.","code":429}}', "No.", "429"),
        (b'{"error":{"message":"No.","code":[1]}}', "No.", None),
        (b'{"error":"No."}', "No.", None),
        (b'{"error":true,"message":"No."}', "No.", None),
        (b'{"error":{},"message":"No.","code":"c"}', "No.", "c"),
        (b'{"object":"error","message":"No.","code":400}', "No.", "400"),
        (b'{"message":"No."}', "No.", None),
        (b'{"detail":"Not Found"}', "Not Found", None),
        (b'{"msg":" No. "}', "No.", None),
        (b'{"detail":[{"msg":"x"}]}', '{"detail":[{"msg":"x"}]}', None),
        (b'{"error":{"code":7}}', '{"error":{"code":7}}', "7"),
        (b'[{"error":{"message":"No."}}]', "No.", None),  # gemini-cli#6454
        (b"[]", "[]", None),
        (b"7", "7", None),
        (b'data: {"error":{"message":"No."}}\n\ndata: [DONE]\n\n', "No.", None),
        (b'event: error\r\ndata: {"message":"No."}', "No.", None),
        (b"upstream connect error", "upstream connect error", None),
        (b"\xff no \xff", "\ufffd no \ufffd", None),
        (b'{"error": {"message": "cut', '{"error": {"message": "cut', None),
        (b"", "HTTP 418 without a body", None),
        (b" \n", "HTTP 418 without a body", None),
        (b"<html>Teapot</html>", "HTTP 418 with a page: '<html>Teapot</html>'", None),
    ],
)
def test_a_refusal_quotes_what_the_provider_said(
    body: bytes, message: str, code: str | None
) -> None:
    fault = refused(418, {}, body)
    assert (fault.message, fault.code, fault.error) == (message, code, InvalidRequest)


def test_an_error_without_a_text_is_quoted_as_it_came() -> None:
    assert reported({"code": 500}, '{"code": 500}').message == '{"code": 500}'


def test_what_is_quoted_is_cut() -> None:
    assert len(refusal(400, {"message": "x" * 9000}).message) == 500
    assert len(refused(400, {}, b"x" * 9000).message) == 500
    assert len(refused(400, {}, b"<" * 9000).message) < 250
    assert len(refused(307, {"location": "x" * 9000}, b"").message) < 300


def test_a_word_far_behind_in_a_long_text_still_counts() -> None:
    assert refusal(400, {"message": "x" * 9000 + " context length"}).error is ContextLengthExceeded


def test_a_redirect_is_named_and_not_followed() -> None:
    fault = refused(307, {"location": "/elsewhere"}, b"{}")
    assert fault.message == "HTTP 307 to '/elsewhere': redirects are not followed"
    assert refused(304, {}, b"").message == "HTTP 304 where 200 was expected"


def test_the_wait_comes_from_the_headers_and_else_from_the_text() -> None:
    text: JSON = {"message": "Please try again in 9s."}
    assert refusal(429, text, {"retry-after": "2"}).retry_after_s == 2.0
    assert refusal(429, text).retry_after_s == 9.0
    assert refused(503, {"retry-after-ms": "1500"}, b"").retry_after_s == 1.5
    assert refused(503, {}, b"").retry_after_s is None
    assert reported("try again in 1.5s", "").retry_after_s == 1.5


@pytest.mark.parametrize(
    ("value", "is_asked"), [("false", True), (" False ", True), ("true", False), ("", False)]
)
def test_a_provider_can_ask_not_to_be_tried_again(value: str, is_asked: bool) -> None:
    assert refused(503, {"x-should-retry": value}, b"").do_not_retry is is_asked
    assert refused(503, {}, b"").do_not_retry is False


# ---- what an error looks like -------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"error": None},
        {"error": {}},
        {"error": ""},
        {"error": False, "message": "all is well"},
        {"choices": [], "message": "m", "code": 1},
        {"message": "m"},
        {"message": "success", "code": 0},
        {"message": {}, "code": 1},
        {"code": 1},
        {"object": "chat.completion.chunk", "type": "ping"},
        {"object": ["error"], "type": {"error": 1}},
    ],
)
def test_these_are_no_errors(value: dict[str, JSON]) -> None:
    assert error_in(value) is None


ERRORS: list[tuple[dict[str, JSON], JSON]] = [
    ({"error": "x", "choices": [{}]}, "x"),
    ({"error": {"code": 1}}, {"code": 1}),
    ({"error": 1, "message": "m"}, {"error": 1, "message": "m"}),
    ({"object": "error"}, {"object": "error"}),
    ({"type": "error", "code": "c"}, {"type": "error", "code": "c"}),
    ({"message": "m", "code": 504}, {"message": "m", "code": 504}),
    (
        {"message": "m", "code": "InvalidParameter"},
        {"message": "m", "code": "InvalidParameter"},
    ),
]


@pytest.mark.parametrize(("value", "error"), ERRORS)
def test_these_are_errors(value: dict[str, JSON], error: JSON) -> None:
    assert error_in(value) == error


NAMES = [
    *("error", "message", "code", "type", "object", "status", "metadata", "reasons", "choices"),
    *("innererror", "detail", "status_code"),
]

# JSON texts, mostly of the names that errors have, in places where they do not have them.
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=10,
).map(json.dumps)


@settings(deadline=None)
@given(st.integers(100, 999), anything.map(str.encode) | st.binary())
def test_no_refusal_is_too_strange_to_be_classified(status: int, body: bytes) -> None:
    fault = refused(status, {"retry-after": "x", "x-should-retry": "x"}, body)
    assert issubclass(fault.error, AttemptError)
    assert 0 < len(fault.message) <= 500
    assert fault.message.encode()
