from __future__ import annotations

import pickle

import attrs
import pytest

from polygateway.errors import ConfigurationError
from polygateway.policies import (
    Config,
    HedgePolicy,
    Limits,
    RetryPolicy,
    StreamPolicy,
    Target,
)

EU = {"dialect": "openai-chat", "base_url": "https://example.invalid/v1", "model": "lyra-3"}
TARGET = Target(dialect="openai-chat", base_url="https://example.invalid/v1", model="lyra-3")
WHOLE = {"targets": {"eu": TARGET}, "models": {"fast": ["eu"]}}
CONFIG = Config(targets={"eu": TARGET}, models={"fast": ["eu"]})


def refusal(cls: type, values: dict[str, object]) -> str:
    """What the error says that making it raises."""
    with pytest.raises(ConfigurationError) as caught:
        cls(**values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("after_s", 0.001),
        ("after_s", 3),
        ("stall_after_s", 1e9),
        ("max_attempts", 1),
        ("max_attempts", 5),
        ("winner", "first-delivered"),
        ("winner", "first-complete"),
        ("enabled", False),
        ("same_target", False),
        ("budget_ratio", 0),
        ("budget_ratio", 10),
        ("budget_burst", 0),
        ("budget_burst", 2.5),
    ],
)
def test_a_hedge_policy_takes_what_fits_as_it_is(field: str, value: object) -> None:
    cls: type = HedgePolicy
    assert getattr(cls(**{field: value}), field) is value


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("after_s", 0, "a number at least 0.001 and at most 1,000,000,000"),
        ("after_s", "3", "a number at least 0.001 and at most 1,000,000,000"),
        ("after_s", True, "a number at least 0.001 and at most 1,000,000,000"),
        ("after_s", None, "a number at least 0.001 and at most 1,000,000,000"),
        ("stall_after_s", -1, "a number at least 0.001 and at most 1,000,000,000"),
        ("max_attempts", 0, "a whole number at least 1 and at most 5"),
        ("max_attempts", 6, "a whole number at least 1 and at most 5"),
        ("max_attempts", 2.5, "a whole number at least 1 and at most 5"),
        ("winner", "first", "'first-delivered' or 'first-complete'"),
        ("winner", None, "'first-delivered' or 'first-complete'"),
        ("enabled", 1, "true or false"),
        ("same_target", "no", "true or false"),
        ("budget_ratio", -0.1, "a number at least 0 and at most 10"),
        ("budget_ratio", 10.1, "a number at least 0 and at most 10"),
        ("budget_burst", -1, "a number at least 0 and at most 1,000,000,000"),
    ],
)
def test_a_hedge_policy_refuses_what_does_not_fit(field: str, value: object, wanted: str) -> None:
    assert refusal(HedgePolicy, {field: value}) == f"{field} must be {wanted}, not {value!r}"


@pytest.mark.parametrize(
    ("cls", "field", "least", "under"),
    [
        (StreamPolicy, "connect_timeout_s", 0.001, 0),
        (StreamPolicy, "ttft_timeout_s", 0.001, 0),
        (StreamPolicy, "stall_timeout_s", 0.001, 0),
        (StreamPolicy, "stall_threshold_ms", 0.001, 0),
        (RetryPolicy, "max_retries", 0, -1),
        (RetryPolicy, "backoff_base_s", 0, -0.1),
        (RetryPolicy, "backoff_max_s", 0.5, -0.1),
        (RetryPolicy, "wait_for_target_s", 0, -0.1),
        (RetryPolicy, "retry_after_max_s", 0, -0.1),
        (Limits, "max_connections_per_target", 1, 0),
        (Limits, "admission_timeout_s", 0.001, 0),
        (Limits, "max_event_bytes", 1, 0),
        (Limits, "max_body_bytes", 1, 0),
        (Limits, "max_answer_bytes", 1, 0),
    ],
)
def test_a_number_has_its_lower_bound(cls: type, field: str, least: float, under: float) -> None:
    assert getattr(cls(**{field: least}), field) == least
    text = refusal(cls, {field: under})
    assert text.startswith(f"{field} must be")
    assert text.endswith(f", not {under}")


def test_the_first_backoff_cannot_be_over_the_longest() -> None:
    assert RetryPolicy(backoff_base_s=8, backoff_max_s=8).backoff_base_s == 8
    assert refusal(RetryPolicy, {"backoff_base_s": 9}) == (
        "backoff_max_s (8) is under backoff_base_s (9)"
    )


def test_what_comes_later_is_refused_by_name() -> None:
    assert refusal(StreamPolicy, {"recovery": "restart"}) == (
        "recovery = 'restart' is not available in this version of polygateway"
    )


@pytest.mark.parametrize("value", ["", "2024-10-21 ", "v1/../v2", "v1?x=1", "v1\n", 2024])
def test_a_version_must_fit_into_a_url_and_a_header(value: object) -> None:
    assert refusal(Target, {**EU, "api_version": value}) == (
        f"api_version must be a version: letters, digits, points and hyphens, not {value!r}"
    )


def test_a_key_over_plain_http_is_refused_except_on_this_machine() -> None:
    attrs.evolve(TARGET, base_url="http://127.0.0.1:1", api_key_env="EU_KEY")
    text = refusal(Target, {**EU, "base_url": "http://10.0.0.1", "api_key_env": "EU_KEY"})
    assert "cross the network in clear" in text


def test_every_wrong_header_is_told() -> None:
    text = refusal(Target, {**EU, "headers": {"x y": "1", "x-a": "ok", "x-b": "1\n"}})
    assert [line[:13] for line in text.split("\n")] == ["headers has '", "headers['x-b'"]


def test_a_configuration_needs_a_model() -> None:
    assert refusal(Config, {**WHOLE, "models": {}}) == (
        "models must be a table of at least one model, not a table of 0"
    )


def test_every_wrong_name_in_models_is_told() -> None:
    text = refusal(Config, {**WHOLE, "models": {"fast": ["eu", "us1"], "slow": ["mars"]}})
    assert text.split("\n") == [
        "models.fast[1] must be the name of a target (known: eu), not 'us1'",
        "models.slow[0] must be the name of a target (known: eu), not 'mars'",
    ]


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        ("hedge", "a HedgePolicy"),
        ("stream", "a StreamPolicy"),
        ("retry", "a RetryPolicy"),
        ("limits", "a Limits"),
    ],
)
def test_a_policy_is_an_object_of_its_class(section: str, wanted: str) -> None:
    assert refusal(Config, {**WHOLE, section: {"after_s": 3}}) == (
        f"{section} must be {wanted}, not a table of 1"
    )


def test_targets_are_objects_by_name() -> None:
    assert refusal(Config, {**WHOLE, "targets": {"eu": EU, "": TARGET}}).split("\n") == [
        "targets.eu must be a Target, not a table of 3",
        "targets has the name ''; a name is a string that is not empty",
    ]
    assert refusal(Config, {**WHOLE, "targets": [TARGET]}) == (
        "targets must be a table of targets, not a list of 1"
    )


@pytest.mark.parametrize(
    "value",
    [CONFIG, TARGET, HedgePolicy(), StreamPolicy(), RetryPolicy(), Limits()],
    ids=lambda value: type(value).__name__,
)
def test_every_value_is_frozen(value: attrs.AttrsInstance) -> None:
    name = attrs.fields(type(value))[0].name
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(value, name, getattr(value, name))


def test_a_configuration_survives_pickling() -> None:
    config = attrs.evolve(CONFIG, hedge=HedgePolicy(after_s=3))
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 - made on the line itself
