from __future__ import annotations

import copy
from types import MappingProxyType

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from polygateway.config import load_config
from polygateway.config.structure import POLICIES
from polygateway.policies import (
    Config,
    HedgePolicy,
    Limits,
    RetryPolicy,
    StreamPolicy,
    Target,
    WeightedTarget,
)
from tests.config.examples import minimal, target, told

WEIGHTED: dict[str, object] = {"target": "eu", "weight": 1}


def test_targets_and_models_are_all_that_is_needed() -> None:
    assert load_config(minimal()) == Config(
        targets={
            "eu": Target(
                dialect="openai-chat", base_url="https://example.invalid/v1", model="lyra-3"
            )
        },
        models={"fast": ("eu",)},
    )


def test_what_is_not_said_has_the_documented_default() -> None:
    config = load_config(minimal())
    assert config.hedge == HedgePolicy(
        enabled=True,
        after_s="auto",
        stall_after_s=5.0,
        max_attempts=3,
        winner="first-delivered",
        same_target=True,
        budget_ratio=0.2,
        budget_burst=10.0,
        budget_tokens_per_hour=None,
        holdout=0.0,
    )
    assert config.stream == StreamPolicy(
        connect_timeout_s=10.0,
        ttft_timeout_s=60.0,
        stall_timeout_s=120.0,
        stall_threshold_ms=2000.0,
        recovery="raise",
        hold_back_s=0.0,
    )
    assert config.retry == RetryPolicy(
        max_retries=2,
        backoff_base_s=0.5,
        backoff_max_s=8.0,
        wait_for_target_s=2.0,
        retry_after_max_s=60.0,
    )
    assert config.limits == Limits(
        max_connections_per_target=1000,
        admission_timeout_s=30.0,
        idle_timeout_s=50.0,
        connection_lifetime_s=600.0,
        max_event_bytes=8_388_608,
        max_body_bytes=16_777_216,
        max_answer_bytes=16_777_216,
    )


def test_every_setting_arrives() -> None:
    config = load_config(
        {
            "targets": {
                "eu": target(
                    api_key_env="EU_KEY",
                    headers={"x-team": "search"},
                    extra={"metadata": {"tags": ["a", 1, None, True, 0.5]}},
                    ca_file="/etc/ca.pem",
                    client_cert_file="/etc/client.pem",
                    client_key_file="/etc/client-key.pem",
                    proxy="http://proxy.example:3128",
                    prefill={"continue_final_message": True},
                    stream_usage=False,
                ),
                "us": target(model="lyra-4", proxy="direct", prefill=True),
            },
            "models": {
                "fast": ["eu", "us"],
                "slow": ["us"],
                "even": [{"target": "eu", "weight": 3}, {"target": "us", "weight": 0.5}],
            },
            "hedge": {
                "after_s": 3,
                "stall_after_s": "auto",
                "max_attempts": 5,
                "winner": "first-complete",
                "budget_tokens_per_hour": 2_000_000,
                "holdout": 0.01,
            },
            "stream": {
                "stall_threshold_ms": 1500.5,
                "recovery": "continue",
                "hold_back_s": 2,
            },
            "retry": {"max_retries": 0},
            "limits": {"max_event_bytes": 1, "idle_timeout_s": 0, "connection_lifetime_s": 60},
        }
    )
    assert config.targets["eu"].api_key_env == "EU_KEY"
    assert config.targets["eu"].headers == {"x-team": "search"}
    assert config.targets["eu"].extra == {"metadata": {"tags": ["a", 1, None, True, 0.5]}}
    assert config.targets["eu"].ca_file == "/etc/ca.pem"
    assert config.targets["eu"].client_cert_file == "/etc/client.pem"
    assert config.targets["eu"].client_key_file == "/etc/client-key.pem"
    assert config.targets["eu"].proxy == "http://proxy.example:3128"
    assert config.targets["eu"].prefill == {"continue_final_message": True}
    assert config.targets["eu"].stream_usage is False
    assert config.targets["us"] == Target(
        dialect="openai-chat",
        base_url="https://example.invalid/v1",
        model="lyra-4",
        proxy="direct",
        prefill=True,
    )
    assert config.models == {
        "fast": ("eu", "us"),
        "slow": ("us",),
        "even": (
            WeightedTarget(target="eu", weight=3.0),
            WeightedTarget(target="us", weight=0.5),
        ),
    }
    assert config.hedge == HedgePolicy(
        after_s=3.0,
        stall_after_s="auto",
        max_attempts=5,
        winner="first-complete",
        budget_tokens_per_hour=2_000_000,
        holdout=0.01,
    )
    assert config.stream == StreamPolicy(
        stall_threshold_ms=1500.5, recovery="continue", hold_back_s=2.0
    )
    assert config.retry == RetryPolicy(max_retries=0)
    assert config.limits == Limits(
        max_event_bytes=1, idle_timeout_s=0.0, connection_lifetime_s=60.0
    )


def test_a_whole_number_does_where_a_number_is_wanted() -> None:
    weights = {"fast": [{"target": "eu", "weight": 3}]}
    config = load_config(minimal(hedge={"after_s": 3}, stream={"hold_back_s": 3}, models=weights))
    numbers = (config.hedge.after_s, config.stream.hold_back_s, *(config.weights_of("fast") or ()))
    assert [(number, type(number)) for number in numbers] == [(3.0, float)] * 3


def test_changing_the_mapping_afterwards_changes_nothing() -> None:
    tags = ["a"]
    headers = {"x-team": "search"}
    names = ["eu"]
    weight = {"target": "eu", "weight": 1}
    fields = {"extra": {"metadata": {"tags": tags}}, "prefill": {"tags": tags}}
    config = load_config(
        {
            "targets": {"eu": target(headers=headers, **fields)},
            "models": {"fast": names, "drawn": [weight]},
        }
    )
    tags.append("b")
    headers["x-team"] = "ads"
    names.append("us")
    weight["weight"] = 2
    assert config.targets["eu"].extra == {"metadata": {"tags": ["a"]}}
    assert config.targets["eu"].prefill == {"tags": ["a"]}
    assert config.targets["eu"].headers == {"x-team": "search"}
    assert config.models == {"fast": ("eu",), "drawn": (WeightedTarget(target="eu", weight=1),)}


def test_any_mapping_and_a_tuple_will_do() -> None:
    models: dict[str, object] = {"fast": ("eu",), "drawn": (MappingProxyType(WEIGHTED),)}
    data: dict[str, object] = {
        "targets": MappingProxyType({"eu": MappingProxyType(target())}),
        "models": MappingProxyType(models),
    }
    assert load_config(MappingProxyType(data)) == load_config(
        minimal(models={"fast": ["eu"], "drawn": [WEIGHTED]})
    )


def test_the_mapping_itself_is_left_as_it_is() -> None:
    data = minimal(hedge={"after_s": 3}, models={"fast": [WEIGHTED]})
    before = copy.deepcopy(data)
    load_config(data)
    assert data == before


def test_all_mistakes_are_told_at_once_sorted_by_place() -> None:
    data: dict[str, object] = {
        "targets": {
            "eu": target(dialect="morse", base_url="http://example.invalid", api_key_env="K"),
            "us": {"modle": "lyra-3", "headers": {"x y": "1"}, "extra": {"n": 1}},
        },
        "models": {"fast": ["eu", "uss"], "slow": "eu"},
        "hedge": {"after_s": -1, "max_attempts": 0, "speed": 9},
        "retry": {"backoff_base_s": 20, "max_retries": "many"},
        "stream": [],
    }
    lines = told(data)
    assert [line.split(" ")[0].rstrip(":") for line in lines] == [
        "hedge.after_s",
        "hedge.max_attempts",
        "hedge.speed",
        "models.fast[1]",
        "models.slow",
        "retry.backoff_max_s",
        "retry.max_retries",
        "stream",
        "targets.eu.api_key_env",
        "targets.eu.dialect",
        "targets.us.base_url",
        "targets.us.dialect",
        "targets.us.extra",
        "targets.us.headers",
        "targets.us.model",
        "targets.us.modle",
    ]


def test_a_rule_about_two_fields_waits_until_both_are_right() -> None:
    lines = told(minimal(retry={"backoff_base_s": "x", "backoff_max_s": 0.1}))
    assert lines == [
        "retry.backoff_base_s must be a number at least 0 and at most 1,000,000,000, not 'x'"
    ]


def test_a_models_names_are_checked_though_its_target_has_mistakes() -> None:
    lines = told(minimal(targets={"eu": target(model=1)}, models={"fast": ["eu", "us"]}))
    assert lines == [
        "models.fast[1] must be the name of a target (known: eu), not 'us'",
        "targets.eu.model must be a string that is not empty, not 1",
    ]


def test_a_long_value_is_cut() -> None:
    (line,) = told(minimal(hedge={"winner": "x" * 1000}))
    assert len(line) < 200


def test_a_mistake_stays_on_its_line_whatever_its_name_is() -> None:
    lines = told(minimal(models={"a\nb": [], "c\n": ["x\ny"]}))
    assert lines == [
        r"models.'a\nb' must be a list of at least one target's name, not a list of 0",
        r"models.'c\n'[0] must be the name of a target (known: eu), not 'x\ny'",
    ]


def numbers(least: float, most: float) -> st.SearchStrategy[float]:
    return st.floats(least, most, allow_nan=False)


def config(
    targets: dict[str, Target],
    weights: list[float],
    hedge: HedgePolicy,
    limits: Limits,
    stream: StreamPolicy,
) -> Config:
    models: dict[str, tuple[str, ...] | tuple[WeightedTarget, ...]] = {
        "all": tuple(targets),
        "first": (next(iter(targets)),),
        "drawn": tuple(
            WeightedTarget(target=name, weight=weight)
            for name, weight in zip(targets, weights, strict=False)
        ),
    }
    return Config(targets=targets, models=models, hedge=hedge, limits=limits, stream=stream)


json_tables = st.dictionaries(
    st.text().filter(lambda name: name not in {"model", "messages", "stream", "n"}),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
    max_size=3,
)
silences = numbers(0.001, 1e6) | st.just("auto")

configs = st.builds(
    config,
    targets=st.dictionaries(
        st.text(min_size=1, max_size=5).filter(str.strip),
        st.builds(
            Target,
            dialect=st.just("openai-chat"),
            base_url=st.sampled_from(["https://example.invalid/v1", "http://localhost:1"]),
            model=st.text(min_size=1).filter(str.strip),
            api_key_env=st.none() | st.just("EU_KEY"),
            headers=st.dictionaries(st.sampled_from(["x-a", "x-b"]), st.just("value")),
            extra=json_tables,
            prefill=st.booleans() | json_tables.filter(bool),
            proxy=st.sampled_from([None, "direct", "http://localhost:3128"]),
            client_cert_file=st.just("/etc/client.pem"),
            client_key_file=st.none() | st.just("/etc/client-key.pem"),
            stream_usage=st.booleans(),
        ),
        min_size=1,
        max_size=3,
    ),
    weights=st.lists(numbers(1e-6, 1e6), min_size=3, max_size=3),
    hedge=st.builds(
        HedgePolicy,
        after_s=silences,
        stall_after_s=silences,
        budget_tokens_per_hour=st.none() | st.integers(0),
        holdout=numbers(0, 1),
        max_attempts=st.integers(1, 5),
        winner=st.sampled_from(["first-delivered", "first-complete"]),
    ),
    limits=st.builds(Limits, max_event_bytes=st.integers(1), idle_timeout_s=numbers(0, 1e6)),
    stream=st.builds(
        StreamPolicy,
        stall_timeout_s=numbers(0.001, 1e6),
        recovery=st.sampled_from(["raise", "restart", "continue-or-restart"]),
        hold_back_s=numbers(0, 60),
    ),
)


@settings(deadline=None)
@given(configs)
def test_a_configuration_taken_apart_is_loaded_as_it_was(whole: Config) -> None:
    assert load_config(attrs.asdict(whole)) == whole


def test_every_section_of_the_configuration_is_checked() -> None:
    assert {*POLICIES, "targets", "models"} == set(attrs.fields_dict(Config))


@pytest.mark.parametrize("cls", [Config, Target, WeightedTarget, *POLICIES.values()])
def test_every_field_has_a_rule(cls: type[attrs.AttrsInstance]) -> None:
    assert [field.name for field in attrs.fields(cls) if field.validator is None] == []
