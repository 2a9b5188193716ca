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
from polygateway.wire.fault_tables import CODES, EXACT_WORDS, TYPES, WORDS
from polygateway.wire.faults import refused, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway.messages import JSON
    from polygateway.wire.dialect import Fault


def refusal(status: int, error: JSON, headers: Mapping[str, str] | None = None) -> Fault:
    return refused(status, headers or {}, json.dumps({"error": error}).encode(), now_s=0)


def said(status: int, text: str) -> type[AttemptError]:
    return refusal(status, {"message": text}).error


# ---- classes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "error"),
    [
        ([400, 404, 405, 413, 422, 451], InvalidRequest),
        ([401, 403, 407], AuthenticationFailed),
        ([402], QuotaExhausted),
        ([408, 409, 424, 425, 499, 500, 502, 504, 520, 524, 599], ServerError),
        ([429], RateLimited),
        ([498, 503, 529], Overloaded),
        ([201, 204, 301, 302, 304, 307, 308], ProtocolViolation),
        ([600], ServerError),
    ],
)
def test_a_status_alone_gives_a_class(statuses: list[int], error: type[AttemptError]) -> None:
    for status in statuses:
        assert refused(status, {}, b"", now_s=0).error is error
        page = b"<html>rate limit, context length, insufficient balance</html>"
        assert refused(status, {}, page, now_s=0).error is error


SPENT_UPSTREAM = (
    '{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}'
)
LONG_UPSTREAM = '{"type":"error","error":{"message":"prompt is too long: 3 tokens > 2 maximum"}}'
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
PER_MINUTE = "GenerateContentInputTokensPerModelPerMinute-FreeTier"


def quota_failure(*ids: str) -> dict[str, JSON]:
    violations: list[JSON] = [{"quotaId": each} for each in ids]
    text = "You exceeded your current quota, please check your plan and billing details."
    return {"code": 429, "message": text, "details": [{"violations": violations}]}


# As providers send them, but for what is said of names; the sources are in the tables.
@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        # OpenAI
        (400, {"message": "Too long.", "code": "context_length_exceeded"}, ContextLengthExceeded),
        (429, {"message": "x", "type": "insufficient_quota", "code": None}, QuotaExhausted),
        (
            429,
            {"message": "x", "type": "insufficient_quota", "code": "project_spend_limit_exceeded"},
            QuotaExhausted,
        ),
        (429, {"message": "x", "code": "credit_balance_exhausted"}, QuotaExhausted),
        (429, {"message": "x", "type": "rate_limit_error", "code": "slow_down"}, RateLimited),
        (
            429,
            {"message": "Limit 9 tokens per day (TPD): used 9.", "code": "rate_limit_exceeded"},
            RateLimited,
        ),
        (503, {"type": "service_unavailable_error", "code": "server_is_overloaded"}, Overloaded),
        (
            400,
            {
                "message": "flagged as potentially violating our usage policy",
                "code": "invalid_prompt",
            },
            ContentFiltered,
        ),
        (400, {"message": "No such role.", "code": "invalid_prompt"}, InvalidRequest),
        (400, {"message": "x", "code": "cyber_policy"}, ContentFiltered),
        (403, {"message": "x", "code": "unsupported_country"}, AuthenticationFailed),
        (
            401,
            {"message": "Incorrect API key provided", "code": "invalid_api_key"},
            AuthenticationFailed,
        ),
        (404, {"message": "x", "code": "model_not_found"}, InvalidRequest),
        # Azure
        (400, {"message": "x", "code": "content_filter"}, ContentFiltered),
        (
            400,
            {"message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}},
            ContentFiltered,
        ),
        (
            429,
            {
                "code": "429",
                "message": "exceeded call rate limit; see https://x.invalid/quotaincrease",
            },
            RateLimited,
        ),
        (429, {"code": "429", "message": "The system is experiencing high demand."}, Overloaded),
        (404, {"code": "DeploymentNotFound", "message": "Wait 5 minutes"}, InvalidRequest),
        # Anthropic
        (400, {"message": "prompt is too long: 2 tokens > 1 maximum"}, ContextLengthExceeded),
        (
            400,
            {"message": "input length and `max_tokens` exceed context limit: 3 + 4 > 6"},
            ContextLengthExceeded,
        ),
        (400, {"message": "Output blocked by content filtering policy"}, ContentFiltered),
        (400, {"message": "Your credit balance is too low to access the API."}, QuotaExhausted),
        (400, {"message": "You have reached your specified API usage limits."}, QuotaExhausted),
        (
            429,
            {"type": "rate_limit_error", "details": {"error_code": "contract_spend_limit_reached"}},
            QuotaExhausted,
        ),
        (
            429,
            {"type": "rate_limit_error", "details": {"error_code": "ramp_limit_exceeded"}},
            RateLimited,
        ),
        (429, {"type": "rate_limit_error", "details": None, "message": "x"}, RateLimited),
        (400, {"details": {"error_code": "organization_on_hold"}}, AuthenticationFailed),
        (400, {"message": "This organization has been disabled."}, AuthenticationFailed),
        (402, {"type": "billing_error", "message": "x"}, QuotaExhausted),
        (413, {"type": "request_too_large", "message": "x"}, InvalidRequest),
        (504, {"type": "timeout_error", "message": "x"}, ServerError),
        # Gemini
        (
            400,
            {"message": "x", "details": [{}, {"reason": "API_KEY_INVALID"}]},
            AuthenticationFailed,
        ),
        (400, {"message": "API key expired. Please renew it."}, AuthenticationFailed),
        (
            400,
            {"message": "User location is not supported for the API use.", "status": "x"},
            AuthenticationFailed,
        ),
        (400, {"message": "x", "status": "FAILED_PRECONDITION"}, InvalidRequest),
        (403, {"message": "x", "details": [{"reason": "BILLING_DISABLED"}]}, QuotaExhausted),
        (403, {"message": "x", "details": [{"reason": "SERVICE_DISABLED"}]}, AuthenticationFailed),
        (429, quota_failure(PER_DAY), QuotaExhausted),
        (429, quota_failure(PER_MINUTE), RateLimited),
        (429, quota_failure(PER_MINUTE, PER_DAY), QuotaExhausted),
        (429, quota_failure(), QuotaExhausted),
        (429, {"message": "Resource has been exhausted (e.g. check quota)."}, RateLimited),
        (429, {"message": "Quota exceeded for requests per minute."}, RateLimited),
        (429, {"message": "Your prepayment credits are depleted."}, QuotaExhausted),
        (429, {"message": "Your project has exceeded its monthly spending cap."}, QuotaExhausted),
        (
            400,
            {"message": "The input token count (9) exceeds the maximum number."},
            ContextLengthExceeded,
        ),
        # OpenRouter
        (403, {"code": 403, "message": "x", "metadata": {"reasons": ["x"]}}, ContentFiltered),
        (403, {"code": 403, "message": "x", "metadata": {"reasons": []}}, AuthenticationFailed),
        (403, {"code": 403, "message": "x", "metadata": {}}, AuthenticationFailed),
        (403, {"code": 403, "message": "Key limit exceeded (total limit)"}, QuotaExhausted),
        (
            402,
            {"code": 402, "metadata": {"limit_source": "openrouter_in_flight_budget"}},
            RateLimited,
        ),
        (402, {"code": 402, "metadata": {"reason": "in_flight_budget_exhausted"}}, RateLimited),
        (402, {"code": 402, "metadata": {"limit_source": "openrouter_credits"}}, QuotaExhausted),
        (502, {"code": 502, "metadata": {"error_type": "provider_overloaded"}}, Overloaded),
        (429, {"message": "Rate limit exceeded: free-models-per-day"}, QuotaExhausted),
        (429, {"message": "Rate limit exceeded: free-models-per-min"}, RateLimited),
        (429, {"message": "You have reached your daily limit."}, QuotaExhausted),
        (400, {"message": "x", "metadata": {"raw": LONG_UPSTREAM}}, ContextLengthExceeded),
        # That gateway's account is not ours.
        (429, {"message": "x", "metadata": {"raw": SPENT_UPSTREAM}}, RateLimited),
        (502, {"message": "x", "metadata": {"raw": "Invalid API key"}}, ServerError),
        # A limit of a backend is no rate limit of ours (OmniRoute#8210).
        (502, {"code": 502, "message": "Worker request limit reached"}, ServerError),
        # DeepSeek
        (402, {"message": "x", "code": "invalid_request_error"}, QuotaExhausted),
        (400, {"message": "Content Exists Risk", "code": "invalid_request_error"}, ContentFiltered),
        # Qwen
        (400, {"code": "Arrearage", "message": "x"}, QuotaExhausted),
        (400, {"code": "Throttling.RateQuota", "message": "x"}, RateLimited),
        (403, {"code": "AllocationQuota.FreeTierOnly", "message": "x"}, QuotaExhausted),
        (
            429,
            {"code": "insufficient_quota", "message": "Allocated quota exceeded, increase it."},
            RateLimited,
        ),
        (
            429,
            {"code": "Throttling.AllocationQuota", "message": "Free allocated quota exceeded."},
            QuotaExhausted,
        ),
        (429, {"code": "throttling", "message": "week allocated quota exceeded."}, QuotaExhausted),
        (
            429,
            {"code": "throttling", "message": "concurrency allocated quota exceeded."},
            RateLimited,
        ),
        (400, {"message": "Range of input length should be [1, 9]"}, ContextLengthExceeded),
        # Moonshot, and its coding plan
        (429, {"type": "exceeded_current_quota_error", "message": "x"}, QuotaExhausted),
        (429, {"type": "engine_overloaded_error", "message": "x"}, Overloaded),
        (429, {"type": "rate_limit_reached_error", "message": "x"}, RateLimited),
        (400, {"type": "content_filter", "message": "x"}, ContentFiltered),
        (400, {"message": "Your request exceeded model token limit: 9"}, ContextLengthExceeded),
        (
            403,
            {"message": "You've reached your usage limit for this billing cycle."},
            QuotaExhausted,
        ),
        # Zhipu and Z.ai: texts and numbers, with and without a type
        (429, {"code": "1113", "message": "x"}, QuotaExhausted),
        (429, {"code": 1113, "type": "rate_limit_error", "message": "x"}, QuotaExhausted),
        (429, {"code": "1302", "message": "x"}, RateLimited),
        (429, {"code": "1308", "message": "Usage limit reached for 5 hour."}, QuotaExhausted),
        (429, {"code": "1312", "message": "x"}, Overloaded),
        (400, {"code": "1261", "message": "x"}, ContextLengthExceeded),
        (400, {"code": "1301", "message": "x"}, ContentFiltered),
        (401, {"code": "1002", "message": "x"}, AuthenticationFailed),
        # Mistral
        (429, {"code": "3505", "type": "service_tier_capacity_exceeded"}, Overloaded),
        (429, {"code": "1300", "type": "rate_limited", "message": "x"}, RateLimited),
        # Groq
        (498, {"code": "capacity_exceeded", "message": "x"}, Overloaded),
        (400, {"code": "tool_use_failed", "type": "invalid_request_error"}, ServerError),
        (400, {"code": "json_validate_failed", "type": "invalid_request_error"}, ServerError),
        (400, {"message": "Please reduce the length of the messages."}, ContextLengthExceeded),
        # vLLM, SGLang, llama.cpp, TGI
        (400, {"message": "This model's maximum context length is 9."}, ContextLengthExceeded),
        (400, {"type": "exceed_context_size_error", "message": "x"}, ContextLengthExceeded),
        (500, {"message": "Context size has been exceeded."}, ContextLengthExceeded),
        (422, {"message": "`inputs` must have less than 9 tokens"}, ContextLengthExceeded),
        (
            422,
            {"message": "`inputs` tokens + `max_new_tokens` must be <= 9."},
            ContextLengthExceeded,
        ),
        # LiteLLM, one-api
        (400, {"type": "budget_exceeded", "code": "400", "message": "x"}, QuotaExhausted),
        (403, {"code": "insufficient_user_quota", "message": "x"}, QuotaExhausted),
        (400, {"type": "expired_key", "code": "400", "message": "x"}, AuthenticationFailed),
        # The code beats the text, the text the status, the status the type.
        (429, {"code": "insufficient_quota", "message": "rate limit"}, QuotaExhausted),
        (400, {"code": "over_capacity", "type": "content_filter", "message": "x"}, Overloaded),
        (429, {"type": "invalid_request_error", "message": "Model overloaded."}, Overloaded),
        (503, {"type": "invalid_request_error", "message": "x"}, Overloaded),
        (400, {"type": "rate_limit_error", "message": "x"}, InvalidRequest),
    ],
)
def test_a_refusal_is_classified_by_what_is_most_specific(
    status: int, body: dict[str, JSON], error: type[AttemptError]
) -> None:
    assert refusal(status, body).error is error


# What has no object of its own for its error.
@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        # xAI
        (
            400,
            {"code": "invalid-argument", "error": "Incorrect API key: xa***."},
            AuthenticationFailed,
        ),
        (
            403,
            {
                "code": "permission-denied",
                "error": "Your team has reached its monthly spending limit.",
            },
            QuotaExhausted,
        ),
        (
            403,
            {"code": "permission-denied", "error": "Content violates usage guidelines."},
            ContentFiltered,
        ),
        # Ollama
        (503, {"error": "server busy, please try again."}, Overloaded),
        (429, {"error": "you have reached your weekly usage limit, upgrade"}, QuotaExhausted),
        (404, {"error": "model 'm' not found"}, InvalidRequest),
        # TGI
        (429, {"error": "Model is overloaded", "error_type": "overloaded"}, Overloaded),
        (
            424,
            {"error": "Request failed during generation", "error_type": "generation"},
            ServerError,
        ),
        # Qwen's own wire, vLLM's older one, Mistral
        (400, {"code": "DataInspectionFailed", "message": "x"}, ContentFiltered),
        (
            400,
            {"object": "error", "message": "maximum context length", "code": 400},
            ContextLengthExceeded,
        ),
        (
            429,
            {"object": "error", "message": "x", "type": "rate_limited", "code": "1300"},
            RateLimited,
        ),
        # Cloudflare's gateway, FastAPI
        (
            429,
            {"success": False, "error": [{"code": 1, "message": "credit balance"}]},
            QuotaExhausted,
        ),
        (422, {"detail": [{"loc": ["body"], "msg": "bad", "input": "rate limit"}]}, InvalidRequest),
        (403, {"detail": "Your account has insufficient credits"}, QuotaExhausted),
    ],
)
def test_an_error_without_an_object_of_its_own_is_classified_as_well(
    status: int, body: dict[str, JSON], error: type[AttemptError]
) -> None:
    assert refused(status, {}, json.dumps(body).encode(), now_s=0).error is error


# A guess that is wrong is worse than none: words stand in unrelated texts, above all in refusals
# that quote the request.
@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (400, "Unknown field 'limit', allowed is a number per day.", InvalidRequest),
        (400, "messages[0].content: 'Insufficient balance, what now?' has no role", InvalidRequest),
        (400, "Invalid value 'overloaded' for 'state'", InvalidRequest),
        (400, "Too many requests in one batch", InvalidRequest),
        (400, "max_tokens is too large: 9. At most 8 completion tokens.", InvalidRequest),
        (400, "max_tokens: 9 > 8, the maximum allowed number of output tokens", InvalidRequest),
        (
            401,
            "Wrong key. Our rate limit and the context length are in the guide.",
            AuthenticationFailed,
        ),
        (401, "Your credit balance cannot be read with this key.", AuthenticationFailed),
        (404, "No model 'context window'; rate limit", InvalidRequest),
        (408, "Upstream is overloaded or at capacity", ServerError),
        (429, "Too many tokens for the context length of your tier", RateLimited),
        (429, "See our content policy", RateLimited),
        (429, "Invalid API key limit", RateLimited),
        (403, "It is 7 per day", AuthenticationFailed),
    ],
)
def test_a_word_that_does_not_belong_to_a_status_means_nothing(
    status: int, text: str, error: type[AttemptError]
) -> None:
    assert said(status, text) is error


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
        ({"message": "x", "type": "billing_error"}, QuotaExhausted),
        ({"message": "x", "type": "api_error"}, ServerError),
        ({"message": "x", "type": "timeout_error"}, ServerError),
        # The codes of a failed response (openai 3.57)
        ({"message": "x", "code": "server_error"}, ServerError),
        ({"message": "x", "code": "rate_limit_exceeded"}, RateLimited),
        ({"message": "x", "code": "vector_store_timeout"}, ServerError),
        ({"message": "x", "code": "invalid_prompt"}, InvalidRequest),
        ({"message": "x", "code": "invalid_image_url"}, InvalidRequest),
        ({"message": "x", "code": "image_content_policy_violation"}, ContentFiltered),
        ({"message": "x", "code": "bio_policy"}, ContentFiltered),
        # google.rpc.Code
        ({"message": "x", "status": "RESOURCE_EXHAUSTED"}, RateLimited),
        ({"message": "x", "status": "UNAVAILABLE"}, Overloaded),
        ({"message": "x", "status": "INVALID_ARGUMENT"}, InvalidRequest),
        ({"message": "x", "status": "UNAUTHENTICATED"}, AuthenticationFailed),
        ({"message": "x", "status": "DEADLINE_EXCEEDED"}, ServerError),
        ({"message": "x", "status": "INTERNAL"}, ServerError),
        ({"message": "x", "status": "CANCELLED"}, ServerError),
        # Statuses
        ({"message": "x", "code": 401}, AuthenticationFailed),
        ({"message": "x", "code": "429"}, RateLimited),
        ({"message": "x", "code": 429.0}, RateLimited),
        ({"message": "x", "status_code": 503, "code": 400}, Overloaded),
        ({"message": "x", "http_status_code": 422}, InvalidRequest),
        ({"message": "x", "status": 504, "type": "invalid_request_error"}, ServerError),
        ({"message": "x", "code": 200}, ServerError),
        ({"message": "x", "code": 1302}, RateLimited),
        ({"message": "x", "code": "5xx"}, ServerError),
        ({"message": "x", "code": "4o1"}, ServerError),
        ({"message": "x", "code": 399}, ServerError),
        ({"message": "x", "code": 400}, InvalidRequest),
        ({"message": "x", "code": 499}, ServerError),
        ({"message": "x", "code": 10**400}, ServerError),
        ({"message": "x", "code": True, "type": 7.5, "status": [429]}, ServerError),
        ({"message": "Rate limit", "code": 401}, AuthenticationFailed),
        ({"error": {"error": {"message": "x", "code": 429}}}, RateLimited),
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
    assert refused(402, {"retry-after": "3"}, b"", now_s=0).error is RateLimited
    delay: JSON = {"retryDelay": "36s"}
    quota = quota_failure(PER_DAY)
    assert refusal(429, {**quota, "details": [quota["details"], delay]}).error is RateLimited


def test_a_code_that_says_exhausted_is_believed_whatever_wait_is_named() -> None:
    code: JSON = {"message": "x", "code": "insufficient_quota"}
    assert refusal(429, code, {"retry-after": "36"}).error is QuotaExhausted


def test_the_tables_name_each_word_once_and_in_lower_case() -> None:
    codes = [word for _, names in (*CODES, *TYPES) for word in names]
    words = [word for each in (*EXACT_WORDS, *WORDS) for word in each.words]
    for names in (codes, words):
        assert len(set(names)) == len(names)
        assert names == [name.lower() for name in names]
    assert not any("`" in word for word in words)


# Behind a word of another class that is part of it, a word could never be found.
def test_no_word_hides_another_one() -> None:
    for table in (EXACT_WORDS, WORDS):
        for at, later in enumerate(table):
            for earlier in table[:at]:
                if earlier.error is later.error or not _overlap(earlier.statuses, later.statuses):
                    continue
                hidden = [w for w in later.words if any(e in w for e in earlier.words)]
                assert hidden == []


def _overlap(one: frozenset[int] | None, other: frozenset[int] | None) -> bool:
    return one is None or other is None or bool(one & other)


# ---- texts, codes and hints ---------------------------------------------------------------------


def test_what_is_quoted_is_cut() -> None:
    assert len(refusal(400, {"message": "x" * 9000}).message) == 500
    assert len(refusal(400, {"message": "x", "code": "x" * 9000}).code or "") == 100
    assert len(refused(400, {}, b"x" * 9000, now_s=0).message) == 500
    assert len(refused(400, {}, b"<" * 9000, now_s=0).message) < 250
    assert len(refused(400, {}, b"<title>" + b"x" * 9000, now_s=0).message) < 250
    assert len(refused(307, {"location": "x" * 9000}, b"", now_s=0).message) < 300


def test_a_word_far_behind_in_a_long_text_still_counts() -> None:
    assert said(400, "x" * 9000 + " context length") is ContextLengthExceeded


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no body"),
        (b" \n", "no body"),
        (b"\xef\xbb\xbf", "no body"),
        (b"<html>Teapot</html>", "a page: '<html>Teapot</html>'"),
        (
            b"<!DOCTYPE html>\n<!--[if IE 7]><![endif]-->\n<TITLE lang=en>\n502: Bad\n</TITLE>",
            "a page: '502: Bad'",
        ),
    ],
)
def test_a_refusal_without_words_is_told_by_what_it_is(body: bytes, message: str) -> None:
    assert refused(502, {}, body, now_s=0).message == message


def test_an_error_in_a_stream_that_says_nothing_is_told_by_its_code() -> None:
    assert reported({"code": 500}, '{"code": 500}').message == '{"code": 500}'
    assert reported({"code": 500}, "").message == "500"
    assert reported({"message": ""}, "").message == "an error"


def test_a_redirect_is_named_and_not_followed() -> None:
    fault = refused(307, {"location": "/elsewhere"}, b"{}", now_s=0)
    assert fault.message == "a redirect to '/elsewhere': redirects are not followed"
    assert refused(304, {}, b"", now_s=0).message == "neither an answer nor an error"


def test_the_wait_comes_from_the_headers_else_from_a_field_else_from_the_text() -> None:
    text: dict[str, JSON] = {"message": "Please try again in 9s."}
    field: dict[str, JSON] = {"details": [{"retryDelay": "7.5s"}]}
    assert refusal(429, {**text, **field}, {"retry-after": "2"}).retry_after_s == 2.0
    assert refusal(429, {**text, **field}).retry_after_s == 7.5
    assert refusal(429, text).retry_after_s == 9.0
    assert refused(503, {"retry-after-ms": "1500"}, b"", now_s=0).retry_after_s == 1.5
    assert refused(503, {}, b"", now_s=0).retry_after_s is None
    assert reported({**text, **field}, "").retry_after_s == 7.5
    assert reported("try again in 1.5s", "").retry_after_s == 1.5


# "true" does not make a class retryable: the SDKs that obey it go on at exhausted accounts.
@pytest.mark.parametrize(
    ("value", "is_asked"), [("false", True), (" False , true", True), ("true", False), ("", False)]
)
def test_a_provider_can_ask_not_to_be_tried_again(value: str, is_asked: bool) -> None:
    assert refused(503, {"x-should-retry": value}, b"", now_s=0).do_not_retry is is_asked
    assert refused(503, {}, b"", now_s=0).do_not_retry is False


# ---- whatever comes -----------------------------------------------------------------------------

NAMES = [
    *("error", "errors", "message", "code", "type", "object", "status", "metadata", "reasons"),
    *("choices", "innererror", "detail", "details", "status_code", "raw", "violations", "quotaId"),
    *("retryDelay", "retry_after_seconds", "reason", "loc", "msg", "error_type", "error_code"),
]
TEXTS = ["{", '{"error": {"message": "x"}}', "7.5s", "429", "try again in 5s", "\ud800", "\0"]

# JSON texts, mostly of the names that errors have, in places where they do not have them.
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([10**400, -(10**400)])
    | st.sampled_from(TEXTS)
    | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=10,
)


def check_that_it_is_sound(fault: Fault) -> None:
    assert issubclass(fault.error, AttemptError)
    assert 0 < len(fault.message) <= 500
    assert len(fault.code or "x") <= 100
    assert f"{fault.message}{fault.code}".isprintable()
    assert f"{fault.message}{fault.code}".encode()
    assert fault.retry_after_s is None or 0 <= fault.retry_after_s < float("inf")


@settings(deadline=None)
@given(st.integers(100, 999), anything.map(json.dumps).map(str.encode) | st.binary())
def test_no_refusal_is_too_strange_to_be_classified(status: int, body: bytes) -> None:
    headers = {"retry-after": "x", "x-should-retry": "x"}
    check_that_it_is_sound(refused(status, headers, body, now_s=0))


@settings(deadline=None)
@given(anything, st.text(st.characters(), max_size=5))
def test_no_error_in_a_stream_is_too_strange_to_be_classified(error: JSON, raw: str) -> None:
    check_that_it_is_sound(reported(error, raw))


# Quoted errors in quoted errors, as deep as a body can hold them.
def test_errors_in_errors_are_read_as_far_as_anybody_nests_them() -> None:
    deep: JSON = {"code": 429, "message": "deepest"}
    for _ in range(900):
        deep = {"error": deep}
    assert refused(500, {}, json.dumps(deep).encode(), now_s=0).error is ServerError
    text = "deepest"
    for _ in range(12):
        text = json.dumps({"error": {"message": "m", "metadata": {"raw": text}}})
    fault = refused(500, {}, text.encode(), now_s=0)
    assert fault.message.startswith("m: m: m: m:")
    assert fault.message.endswith("m: deepest")


def test_a_giant_error_is_classified_at_once() -> None:
    giant = json.dumps({"error": {"message": "retry " * 10_000_00, "code": "9" * 4000}})
    assert reported(json.loads(giant)["error"], giant).error is ServerError
