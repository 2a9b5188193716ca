"""What providers' codes, words and statuses for errors mean: the data of :mod:`.faults`.

One set of tables serves all dialects, because gateways relay each other's words. Everything is in
lower case. What no table names is decided by the status, so the first three hold what the status
would get wrong. ``docs/reference/errors.md`` shows the same tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from ..errors import (
    AttemptError,
    AuthenticationFailed,
    ContentFiltered,
    ContextLengthExceeded,
    InvalidRequest,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    ServerError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

Names: TypeAlias = tuple[tuple[type[AttemptError], tuple[str, ...]], ...]

# 1. Codes and types that mean one thing only; compared whole.
CODES: Names = (
    # OpenAI: error codes guide; help article 6614457 (billing); ResponseError of openai 3.57.
    (ContextLengthExceeded, ("context_length_exceeded",)),
    (ContentFiltered, (
        "content_policy_violation", "image_content_policy_violation", "bio_policy",
        "cyber_policy", "misalignment_policy_violation",
    )),
    (QuotaExhausted, (
        "insufficient_quota", "billing_hard_limit_reached", "billing_not_active",
        "credit_balance_exhausted", "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded", "organization_usage_limit_exceeded",
    )),
    (RateLimited, ("rate_limit_exceeded", "slow_down")),
    (Overloaded, ("server_is_overloaded",)),
    (AuthenticationFailed, ("invalid_api_key",)),
    (InvalidRequest, ("model_not_found",)),
    # Azure: content filtering concepts. Its code is also Moonshot's type.
    (ContentFiltered, ("content_filter", "responsibleaipolicyviolation")),
    # Anthropic: errors page; ErrorDetails of anthropic 2.14.
    (QuotaExhausted, (
        "enforced_spend_limit_reached", "contract_spend_limit_reached",
        "linked_organization_spend_limit_reached", "linked_organization_billing_unavailable",
    )),
    (RateLimited, ("ramp_limit_exceeded",)),
    (Overloaded, ("overloaded_error",)),
    (AuthenticationFailed, ("organization_on_hold",)),
    # Gemini: google/api/error_reason.proto; the last is of its Code Assist API.
    (AuthenticationFailed, ("api_key_invalid",)),
    (QuotaExhausted, ("billing_disabled", "quota_exhausted")),
    # OpenRouter: APIErrorType and the errors guide. A budget in flight is free again when the
    # requests that hold it end.
    (ContentFiltered, ("metadata.reasons", "refusal")),  # the first: a list, not a code
    (RateLimited, ("in_flight_budget_exhausted", "openrouter_in_flight_budget")),
    (Overloaded, ("provider_overloaded",)),
    # Qwen: Model Studio's error codes. AllocationQuota is of tokens a minute, whatever it sounds
    # like (oh-my-pi#8476).
    (ContentFiltered, ("data_inspection_failed", "datainspectionfailed")),
    (QuotaExhausted, (
        "arrearage", "prepaidbilloverdue", "postpaidbilloverdue", "commoditynotpurchased",
        "allocationquota.freetieronly",
    )),
    (RateLimited, ("throttling", "throttling.ratequota", "throttling.allocationquota")),
    # Moonshot: errors page.
    (QuotaExhausted, ("exceeded_current_quota_error",)),
    (RateLimited, ("rate_limit_reached_error",)),
    (Overloaded, ("engine_overloaded_error",)),
    # Zhipu, Z.ai: error codes page. Not 1300, which is Mistral's rate limit.
    (ContextLengthExceeded, ("1261",)),
    (ContentFiltered, ("1301",)),
    (QuotaExhausted, ("1113", "1304", "1308", "1309", "1310")),
    (RateLimited, ("1302", "1303", "1305")),
    (Overloaded, ("1312",)),
    # Mistral: what its API answers with status 429 when a tier has no capacity.
    (Overloaded, ("service_tier_capacity_exceeded", "3505")),
    # Groq: errors and flex processing pages. In the last two the generation was bad, not the
    # request: another one may be good.
    (Overloaded, ("over_capacity", "capacity_exceeded")),
    (ServerError, ("tool_use_failed", "json_validate_failed")),
    # llama.cpp: server-common.cpp. The second is said while the model is loaded.
    (ContextLengthExceeded, ("exceed_context_size_error",)),
    (Overloaded, ("unavailable_error",)),
    # TGI: InferError in router/src/infer.
    (Overloaded, ("overloaded",)),
    # LiteLLM: ProxyErrorTypes of 1.110; one-api.
    (QuotaExhausted, ("budget_exceeded", "insufficient_user_quota")),
    (AuthenticationFailed, ("expired_key",)),
)  # fmt: skip


@attrs.frozen
class Wording:
    """What a text means that has one of some words anywhere in it."""

    error: type[AttemptError]
    statuses: frozenset[int] | None
    """The statuses under which it means that: a refusal may quote the request, and with it any
    word. ``None`` for every status. Where no status is known, every wording counts.
    """

    words: tuple[str, ...]

    def fits(self, text: str, status: int | None) -> bool:
        """Tell whether *text*, in lower case and without backticks, means it under *status*."""
        counts = status is None or self.statuses is None or status in self.statuses
        return counts and any(word in text for word in self.words)


_BROKEN = frozenset(range(500, 600))  # a gateway's word for whatever it was answered
_REFUSED = frozenset({400, 413, 422}) | _BROKEN
_UNWELCOME = frozenset({400, 403, 422, 451}) | _BROKEN
_SPENT = frozenset({402, 403, 429}) | _BROKEN
_BUSY = frozenset({429, 498}) | _BROKEN

# 2. Words that say more than a code: Qwen's and Gemini's have the same code for limits that are
# over in a minute and for those that are not. The first line that fits counts.
EXACT_WORDS: tuple[Wording, ...] = (
    # Qwen: Model Studio's error codes, Coding Plan FAQ.
    Wording(QuotaExhausted, None, (
        "free allocated quota exceeded", "hour allocated quota exceeded",
        "week allocated quota exceeded", "month allocated quota exceeded",
    )),
    Wording(RateLimited, None, ("allocated quota exceeded",)),
    # Gemini: the quotaId of a QuotaFailure, as GenerateRequestsPerDayPerProjectPerModel.
    Wording(QuotaExhausted, None, ("perday",)),
    Wording(RateLimited, None, ("perminute",)),
)  # fmt: skip

# 3. What the text says. The first line that fits counts.
WORDS: tuple[Wording, ...] = (
    Wording(ContextLengthExceeded, _REFUSED, (
        # OpenAI, Mistral, DeepSeek, OpenRouter, Together, vLLM, SGLang, LM Studio, Ollama
        "context length", "context_length_exceeded",
        "context window",  # OpenAI's Responses, MiniMax
        "context size",  # llama.cpp
        "context limit", "prompt is too long",  # Anthropic
        "input token count", "maximum number of tokens allowed",  # Gemini
        "prompt token count",  # GitHub Copilot
        "maximum prompt length",  # xAI
        "reduce the length of the messages",  # Groq
        "model token limit", "input token length too long",  # Moonshot
        "range of input length",  # Qwen
        "prompt exceeds max length",  # Z.ai
        "maximum allowed input length",  # Poolside
        "maximum model length",  # vLLM
        "prompt too long",  # Ollama
        "inputs must have less than", "inputs tokens + max_new_tokens must be",  # TGI
        "input is too long", "too many input tokens",  # Bedrock
    )),
    Wording(ContentFiltered, _UNWELCOME, (
        "safety system", "violating our usage policy", "content policy",  # OpenAI
        "content management policy",  # Azure
        "content filtering policy",  # Anthropic
        "input was flagged",  # OpenRouter
        "content exists risk",  # DeepSeek
        "inappropriate content",  # Qwen
        "considered high risk",  # Moonshot
        "violates usage guidelines",  # xAI
    )),
    Wording(AuthenticationFailed, frozenset({400, 422}), (
        "api key not valid", "api key expired",  # Gemini, as the next two
        "user location is not supported", "is not available in your country",
        "organization has been disabled",  # Anthropic
        "incorrect api key",  # xAI: 400 and no word of its own
        "invalid api key",
    )),
    # Of a minute: they sound like a quota, and are over soon.
    Wording(RateLimited, frozenset({403, 429}) | _BROKEN, ("per minute", "per-minute")),
    Wording(QuotaExhausted, _SPENT, (
        "current quota",  # OpenAI, Gemini
        "credits are depleted", "spending cap",  # Gemini
        "credit balance", "spend limit",  # Anthropic
        "spending limit",  # xAI
        "insufficient balance",  # DeepSeek, Moonshot, Z.ai
        "insufficient credits", "key limit exceeded",  # OpenRouter
        "quota has been exhausted",  # Qwen
        "your usage limit", "your weekly usage limit", "your session usage limit",  # Ollama, Kimi
        "usage limit reached for",  # Z.ai
        "insufficient quota", "quota exhausted",
    )),
    # 400 stands for the request itself, so what means something else must be unmistakable.
    Wording(QuotaExhausted, frozenset({400}), (
        "credit balance is too low", "specified api usage limits",  # Anthropic
    )),
    Wording(QuotaExhausted, frozenset({429}), (
        "per day", "per-day",  # OpenRouter's free models
        "daily limit", "daily quota", "monthly limit", "monthly quota",
    )),
    Wording(RateLimited, frozenset({403, 429}) | _BROKEN, (
        "rate limit", "rate-limit", "too many requests", "throttl",
    )),
    Wording(Overloaded, _BUSY, (
        "overloaded",  # OpenAI, Gemini, TGI and others
        "experiencing high demand",  # Gemini, Azure
        "over capacity", "capacity exceeded",  # Groq, Mistral
        "at capacity",  # OpenAI, xAI
        "server busy",  # Ollama
        "is too busy",  # DeepSeek
    )),
)  # fmt: skip

# 4. The status, where it says more than its hundred does.
STATUSES: Mapping[int, type[AttemptError]] = {
    401: AuthenticationFailed,
    402: QuotaExhausted,
    403: AuthenticationFailed,
    407: AuthenticationFailed,
    408: ServerError,
    409: ServerError,
    424: ServerError,  # TGI and Bedrock: the generation failed
    425: ServerError,
    429: RateLimited,
    498: Overloaded,  # Groq: the flex tier has no capacity
    499: ServerError,  # somebody on the way gave up waiting
    503: Overloaded,
    529: Overloaded,
}
HUNDREDS: Mapping[int, type[AttemptError]] = {4: InvalidRequest, 5: ServerError}

# 5. Broad types, for what comes without a status; compared whole. Everything else is the server's
# error.
TYPES: Names = (
    # OpenAI and Anthropic.
    (InvalidRequest, (
        "invalid_request_error", "not_found_error", "request_too_large", "invalid_prompt",
        "data_residency_mismatch", "invalid_image", "invalid_image_format",
        "invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small",
        "image_parse_error", "invalid_image_mode", "image_file_too_large",
        "unsupported_image_media_type", "empty_image_file", "failed_to_download_image",
        "image_file_not_found",
    )),
    (AuthenticationFailed, ("authentication_error", "permission_error")),
    (RateLimited, ("rate_limit_error",)),
    (QuotaExhausted, ("billing_error",)),
    (Overloaded, ("service_unavailable_error",)),
    # Gemini: google/rpc/code.proto.
    (InvalidRequest, (
        "invalid_argument", "failed_precondition", "out_of_range", "not_found", "unimplemented",
    )),
    (AuthenticationFailed, ("unauthenticated", "permission_denied")),
    (RateLimited, ("resource_exhausted",)),
    (Overloaded, ("unavailable",)),
    # OpenRouter: its APIErrorType.
    (InvalidRequest, (
        "invalid_request", "max_tokens_exceeded", "token_limit_exceeded", "string_too_long",
        "precondition_failed", "payload_too_large", "unprocessable", "unsupported_image_format",
        "image_not_found", "image_download_failed",
    )),
    (AuthenticationFailed, ("authentication",)),
    (QuotaExhausted, ("payment_required",)),
    # Mistral, Moonshot, Qwen, vLLM, llama.cpp, TGI and LiteLLM.
    (InvalidRequest, (
        "resource_not_found_error", "invalidparameter", "badrequesterror", "notfounderror",
        "not_supported_error", "validation", "template_error", "bad_request_error",
    )),
    (AuthenticationFailed, (
        "invalid_authentication_error", "incorrect_api_key_error", "permission_denied_error",
        "auth_error",
    )),
    (RateLimited, ("rate_limited",)),
)  # fmt: skip
