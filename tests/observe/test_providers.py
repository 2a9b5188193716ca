"""The names are those that OpenTelemetry's conventions list for ``gen_ai.provider.name``."""

from __future__ import annotations

import pytest

from polygateway.observe.providers import provider_name


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("api.openai.com", "openai"),
        ("eu.api.openai.com", "openai"),
        ("my-resource.openai.azure.com", "azure.ai.openai"),
        ("my-resource.services.ai.azure.com", "azure.ai.inference"),
        ("models.inference.ai.azure.com", "azure.ai.inference"),
        ("api.anthropic.com", "anthropic"),
        ("generativelanguage.googleapis.com", "gcp.gemini"),
        ("aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("us-central1-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("bedrock-runtime.us-west-2.amazonaws.com", "aws.bedrock"),
        ("api.cohere.com", "cohere"),
        ("api.cohere.ai", "cohere"),
        ("api.deepseek.com", "deepseek"),
        ("api.groq.com", "groq"),
        ("us-south.ml.cloud.ibm.com", "ibm.watsonx.ai"),
        ("api.mistral.ai", "mistral_ai"),
        ("api.moonshot.ai", "moonshot_ai"),
        ("api.moonshot.cn", "moonshot_ai"),
        ("api.perplexity.ai", "perplexity"),
        ("api.x.ai", "x_ai"),
    ],
)
def test_a_provider_is_known_by_its_host(host: str, name: str) -> None:
    assert provider_name("openai-chat", host) == name


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "llm.example", "my-balancer.eu-west-1.elb.amazonaws.com"]
)
def test_elsewhere_it_is_the_provider_whose_dialect_is_spoken(host: str) -> None:
    assert provider_name("openai-chat", host) == "openai"
    assert provider_name("openai-responses", host) == "openai"
    assert provider_name("anthropic", host) == "anthropic"
    assert provider_name("gemini", host) == "gcp.gemini"


@pytest.mark.parametrize("host", ["api.openai.com.example", "notopenai.com", "fox.ai"])
def test_a_host_whose_name_only_looks_like_one_is_not_taken_for_it(host: str) -> None:
    assert provider_name("ollama", host) == "ollama"
