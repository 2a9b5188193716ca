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
)
from tests.config.examples import minimal, target, told


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
        after_s=5.0,
        stall_after_s=5.0,
        max_attempts=3,
        winner="first-delivered",
        same_target=True,
        budget_ratio=0.2,
        budget_burst=10.0,
    )
    assert config.stream == StreamPolicy(
        connect_timeout_s=10.0,
        ttft_timeout_s=60.0,
        stall_timeout_s=120.0,
        stall_threshold_ms=2000.0,
        recovery="raise",
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
                    stream_usage=False,
                ),
                "us": target(model="lyra-4"),
            },
            "models": {"fast": ["eu", "us"], "slow": ["us"]},
            "hedge": {"after_s": 3, "max_attempts": 5, "winner": "first-complete"},
            "stream": {"stall_threshold_ms": 1500.5},
            "retry": {"max_retries": 0},
            "limits": {"max_event_bytes": 1},
        }
    )
    assert config.targets["eu"].api_key_env == "EU_KEY"
    assert config.targets["eu"].headers == {"x-team": "search"}
    assert config.targets["eu"].extra == {"metadata": {"tags": ["a", 1, None, True, 0.5]}}
    assert config.targets["eu"].ca_file == "/etc/ca.pem"
    assert config.targets["eu"].stream_usage is False
    assert config.targets["us"].model == "lyra-4"
    assert {name: tuple(targets) for name, targets in config.models.items()} == {
        "fast": ("eu", "us"),
        "slow": ("us",),
    }
    assert config.hedge == HedgePolicy(after_s=3.0, max_attempts=5, winner="first-complete")
    assert config.stream == StreamPolicy(stall_threshold_ms=1500.5)
    assert config.retry == RetryPolicy(max_retries=0)
    assert config.limits == Limits(max_event_bytes=1)


def test_a_whole_number_does_where_a_number_is_wanted() -> None:
    after_s = load_config(minimal(hedge={"after_s": 3})).hedge.after_s
    assert (after_s, type(after_s)) == (3.0, float)


def test_changing_the_mapping_afterwards_changes_nothing() -> None:
    tags = ["a"]
    headers = {"x-team": "search"}
    names = ["eu"]
    config = load_config(
        {
            "targets": {"eu": target(headers=headers, extra={"metadata": {"tags": tags}})},
            "models": {"fast": names},
        }
    )
    tags.append("b")
    headers["x-team"] = "ads"
    names.append("us")
    assert config.targets["eu"].extra == {"metadata": {"tags": ["a"]}}
    assert config.targets["eu"].headers == {"x-team": "search"}
    assert list(config.models["fast"]) == ["eu"]


def test_any_mapping_and_a_tuple_will_do() -> None:
    data = MappingProxyType(
        {
            "targets": MappingProxyType({"eu": MappingProxyType(target())}),
            "models": MappingProxyType({"fast": ("eu",)}),
        }
    )
    assert load_config(data) == load_config(minimal())


def test_the_mapping_itself_is_left_as_it_is() -> None:
    data = minimal(hedge={"after_s": 3})
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
    targets: dict[str, Target], hedge: HedgePolicy, limits: Limits, stream: StreamPolicy
) -> Config:
    models = {"all": tuple(targets), "first": (next(iter(targets)),)}
    return Config(targets=targets, models=models, hedge=hedge, limits=limits, stream=stream)


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
            extra=st.dictionaries(
                st.text().filter(lambda name: name not in {"model", "messages", "stream", "n"}),
                st.recursive(
                    st.none() | st.booleans() | st.integers() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
                    max_leaves=5,
                ),
                max_size=3,
            ),
            stream_usage=st.booleans(),
        ),
        min_size=1,
        max_size=3,
    ),
    hedge=st.builds(
        HedgePolicy,
        after_s=numbers(0.001, 1e6),
        max_attempts=st.integers(1, 5),
        winner=st.sampled_from(["first-delivered", "first-complete"]),
    ),
    limits=st.builds(Limits, max_event_bytes=st.integers(1)),
    stream=st.builds(StreamPolicy, stall_timeout_s=numbers(0.001, 1e6)),
)


@settings(deadline=None)
@given(configs)
def test_a_configuration_taken_apart_is_loaded_as_it_was(whole: Config) -> None:
    assert load_config(attrs.asdict(whole)) == whole


def test_every_section_of_the_configuration_is_checked() -> None:
    assert {*POLICIES, "targets", "models"} == set(attrs.fields_dict(Config))


@pytest.mark.parametrize("cls", [Config, Target, *POLICIES.values()])
def test_every_field_has_a_rule(cls: type[attrs.AttrsInstance]) -> None:
    assert [field.name for field in attrs.fields(cls) if field.validator is None] == []
