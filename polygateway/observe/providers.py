"""Which provider a target belongs to, in the words of OpenTelemetry's conventions."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

# The providers that the conventions have a name for, by the hosts of their APIs.
_HOSTS = {
    "*.openai.com": "openai",
    "*.openai.azure.com": "azure.ai.openai",
    "*.ai.azure.com": "azure.ai.inference",
    "*.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "*aiplatform.googleapis.com": "gcp.vertex_ai",
    "bedrock*.amazonaws.com": "aws.bedrock",
    "*.cohere.com": "cohere",
    "*.cohere.ai": "cohere",
    "*.deepseek.com": "deepseek",
    "*.groq.com": "groq",
    "*.ml.cloud.ibm.com": "ibm.watsonx.ai",
    "*.mistral.ai": "mistral_ai",
    "*.moonshot.ai": "moonshot_ai",
    "*.moonshot.cn": "moonshot_ai",
    "*.perplexity.ai": "perplexity",
    "*.x.ai": "x_ai",
}
_DIALECTS = {"openai-chat": "openai", "openai-responses": "openai", "gemini": "gcp.gemini"}


@cache
def provider_name(dialect: str, host: str) -> str:
    """Give ``gen_ai.provider.name`` of a target.

    Of a host that is none of the known ones it is the provider whose dialect is spoken there, as
    an instrumentation of that provider's own SDK would say of a proxy.

    Args:
        dialect: the wire that the target speaks.
        host: where it is, in small letters.
    """
    for pattern, name in _HOSTS.items():
        if fnmatchcase(host, pattern):
            return name
    return _DIALECTS.get(dialect, dialect)
