from __future__ import annotations

import math
import pickle
from typing import TYPE_CHECKING

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
    WeightedTarget,
)

if TYPE_CHECKING:
    from polygateway.messages import JSON

EU = {"dialect": "openai-chat", "base_url": "https://example.invalid/v1", "model": "lyra-3"}
TARGET = Target(dialect="openai-chat", base_url="https://example.invalid/v1", model="lyra-3")
SILENCE = "a number at least 0.001 and at most 1,000,000,000 or 'auto'"
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
        ("after_s", "auto"),
        ("stall_after_s", 1e9),
        ("stall_after_s", "auto"),
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
        ("budget_tokens_per_hour", None),
        ("budget_tokens_per_hour", 0),
        ("budget_tokens_per_hour", 2_000_000),
        ("holdout", 0),
        ("holdout", 0.01),
        ("holdout", 1),
    ],
)
def test_a_hedge_policy_takes_what_fits_as_it_is(field: str, value: object) -> None:
    cls: type = HedgePolicy
    assert getattr(cls(**{field: value}), field) is value


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("after_s", 0, SILENCE),
        ("after_s", "3", SILENCE),
        ("after_s", True, SILENCE),
        ("after_s", None, SILENCE),
        ("after_s", "Auto", SILENCE),
        ("after_s", "", SILENCE),
        ("stall_after_s", -1, SILENCE),
        ("stall_after_s", "never", SILENCE),
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
        ("budget_burst", "auto", "a number at least 0 and at most 1,000,000,000"),
        ("budget_tokens_per_hour", -1, "a whole number at least 0"),
        ("budget_tokens_per_hour", 1e6, "a whole number at least 0"),
        ("budget_tokens_per_hour", True, "a whole number at least 0"),
        ("budget_tokens_per_hour", "auto", "a whole number at least 0"),
        ("holdout", -0.1, "a number at least 0 and at most 1"),
        ("holdout", 1.5, "a number at least 0 and at most 1"),
        ("holdout", 5, "a number at least 0 and at most 1"),
        ("holdout", math.nan, "a number at least 0 and at most 1"),
        ("holdout", None, "a number at least 0 and at most 1"),
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
        (StreamPolicy, "hold_back_s", 0, -0.1),
        (RetryPolicy, "max_retries", 0, -1),
        (RetryPolicy, "backoff_base_s", 0, -0.1),
        (RetryPolicy, "backoff_max_s", 0.5, -0.1),
        (RetryPolicy, "wait_for_target_s", 0, -0.1),
        (RetryPolicy, "retry_after_max_s", 0, -0.1),
        (Limits, "max_connections_per_target", 1, 0),
        (Limits, "admission_timeout_s", 0.001, 0),
        (Limits, "idle_timeout_s", 0, -1),
        (Limits, "connection_lifetime_s", 0.001, 0),
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


@pytest.mark.parametrize("recovery", ["raise", "restart", "continue", "continue-or-restart"])
def test_a_stream_policy_takes_every_recovery(recovery: str) -> None:
    cls: type = StreamPolicy
    assert cls(recovery=recovery).recovery == recovery


@pytest.mark.parametrize("recovery", ["retry", "Continue", "", None, True, "auto"])
def test_a_stream_policy_refuses_any_other_recovery(recovery: object) -> None:
    assert refusal(StreamPolicy, {"recovery": recovery}) == (
        "recovery must be 'raise' or 'restart' or 'continue' or 'continue-or-restart',"
        f" not {recovery!r}"
    )


@pytest.mark.parametrize(
    "proxy",
    [None, "direct", "http://proxy.example:3128", "http://10.0.0.1/", "HTTP://[fe80::1]:8080"],
)
def test_a_proxy_is_a_url_or_none_at_all(proxy: str | None) -> None:
    assert attrs.evolve(TARGET, proxy=proxy).proxy == proxy


@pytest.mark.parametrize(
    "proxy",
    [
        *("", "proxy.example:3128", "DIRECT", "https://proxy.example:3128", "socks5://proxy:1080"),
        *("http://", "http://proxy:0", "http://proxy:99999", "http://proxy/path", "http://proxy?x"),
        *("http://user:pw@proxy:3128", "http://user@proxy:3128", "http://@proxy:3128"),
        *("http://pro xy:3128", "http://proxy:3128\n", 3128, True, ["http://proxy:3128"]),
    ],
)
def test_a_proxy_that_cannot_be_one_or_holds_a_login_is_refused_and_not_shown(
    proxy: object,
) -> None:
    assert refusal(Target, {**EU, "proxy": proxy}) == (
        "proxy must be like http://host:port, without login or path, or 'direct'"
        " (what it holds is not shown)"
    )


LOCAL = {**EU, "base_url": "http://127.0.0.1:8080"}


def test_a_key_never_reaches_a_proxy_in_clear() -> None:
    # To a proxy elsewhere, 127.0.0.1 is its own machine, and all on the way there can be read.
    key_and_proxy = {"api_key_env": "EU_KEY", "proxy": "http://proxy.example:3128"}
    assert refusal(Target, {**LOCAL, **key_and_proxy}) == (
        "proxy: the key would reach the proxy in clear; base_url must be https"
    )


@pytest.mark.parametrize(
    "data",
    [
        {**LOCAL, "proxy": "http://proxy.example:3128"},
        {**LOCAL, "api_key_env": "EU_KEY", "proxy": "http://localhost:3128"},
        {**LOCAL, "api_key_env": "EU_KEY", "proxy": "direct"},
        {**EU, "api_key_env": "EU_KEY", "proxy": "http://proxy.example:3128"},
    ],
)
def test_a_proxy_is_taken_where_no_key_is_in_danger(data: dict[str, object]) -> None:
    cls: type = Target
    assert cls(**data).proxy == data["proxy"]


@pytest.mark.parametrize("prefill", [True, False, {"continue_final_message": True}])
def test_prefill_is_a_flag_or_what_its_requests_also_say(prefill: bool | dict[str, JSON]) -> None:
    assert attrs.evolve(TARGET, prefill=prefill).prefill == prefill


@pytest.mark.parametrize("prefill", [None, 1, "yes", [], ["a"], {}])
def test_prefill_is_nothing_else(prefill: object) -> None:
    # An empty table would be false where Python asks, though a table means yes.
    assert refusal(Target, {**EU, "prefill": prefill}) == (
        "prefill must be true, false or a table that is not empty (what it holds is not shown)"
    )


def test_prefill_may_set_what_any_extra_may() -> None:
    prefill = {"messages": "all", "stream": False, "a": math.inf}
    assert refusal(Target, {**EU, "prefill": prefill}).split("\n") == [
        "prefill may not set 'messages', which polygateway decides",
        "prefill may not set 'stream', which polygateway decides",
        (
            "prefill['a'] must be something that JSON can say: no date, nan, inf or half a"
            " surrogate pair (what it holds is not shown)"
        ),
    ]


@pytest.mark.parametrize("prefill", [True, {"a": 1}])
def test_there_is_no_prefill_where_the_api_has_none(prefill: object) -> None:
    data = {**EU, "dialect": "openai-responses"}
    assert refusal(Target, {**data, "prefill": prefill}) == (
        "prefill: with openai-responses an answer that was begun cannot be continued"
    )
    cls: type = Target
    assert cls(**data, prefill=False).prefill is False


def test_a_clients_certificate_may_hold_its_key_but_a_key_is_nothing_alone() -> None:
    cls: type = Target
    assert cls(**EU, client_cert_file="/c.pem").client_key_file is None
    assert (
        cls(**EU, client_cert_file="/c.pem", client_key_file="/k.pem").client_key_file == "/k.pem"
    )
    assert refusal(Target, {**EU, "client_key_file": "/k.pem"}) == (
        "client_key_file is of no use without client_cert_file"
    )


@pytest.mark.parametrize("field", ["ca_file", "client_cert_file"])
def test_a_file_is_a_path(field: str) -> None:
    assert refusal(Target, {**EU, field: ""}) == (
        f"{field} must be a string that is not empty, not ''"
    )


@pytest.mark.parametrize("value", ["2024-10-21", "v1beta", "2023-06-01"])
def test_a_version_is_one_that_a_provider_has(value: str) -> None:
    assert attrs.evolve(TARGET, api_version=value).api_version == value


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


@pytest.mark.parametrize("weight", [1e-9, 1, 2.5, 1_000_000])
def test_a_weight_is_any_number_over_nothing(weight: float) -> None:
    assert WeightedTarget(target="eu", weight=weight).weight == weight


@pytest.mark.parametrize("weight", [0, -1, 1_000_001, math.nan, math.inf, True, "3", None])
def test_a_weight_is_nothing_else(weight: object) -> None:
    assert refusal(WeightedTarget, {"target": "eu", "weight": weight}) == (
        f"weight must be a number over 0 and at most 1,000,000, not {weight!r}"
    )


@pytest.mark.parametrize("name", ["", " ", None, 5])
def test_a_weight_belongs_to_a_named_target(name: object) -> None:
    assert refusal(WeightedTarget, {"target": name, "weight": 1}) == (
        f"target must be a string that is not empty, not {name!r}"
    )


def weighted(**weights: float) -> list[WeightedTarget]:
    return [WeightedTarget(target=name, weight=weight) for name, weight in weights.items()]


def test_a_configuration_tells_the_names_and_weights_of_a_model() -> None:
    config = Config(
        targets={"eu": TARGET, "us": TARGET},
        models={"ordered": ["us", "eu"], "drawn": weighted(eu=3, us=0.5), "one": weighted(us=2)},
    )
    assert {model: config.names_of(model) for model in config.models} == {
        "ordered": ("us", "eu"),
        "drawn": ("eu", "us"),
        "one": ("us",),
    }
    assert {model: config.weights_of(model) for model in config.models} == {
        "ordered": None,
        "drawn": (3, 0.5),
        "one": (2,),
    }


def test_every_wrong_target_with_a_weight_is_told() -> None:
    models = {
        "drawn": [*weighted(eu=1, mars=2), *weighted(eu=3)],
        "mixed": ["eu", *weighted(eu=1)],
    }
    assert refusal(Config, {**WHOLE, "models": models}).split("\n") == [
        "models.drawn[1] must be the name of a target (known: eu), not 'mars'",
        "models.drawn[2] names 'eu' a second time",
        "models.mixed has targets with and without a weight; give every one a weight, or none",
        "models.mixed[1] names 'eu' a second time",
    ]


def test_a_configuration_takes_a_weight_as_an_object() -> None:
    models = {"fast": [{"target": "eu", "weight": 1}]}
    assert refusal(Config, {**WHOLE, "models": models}) == (
        "models.fast[0] must be the name of a target (known: eu), not a table of 2"
    )


CONTINUE = StreamPolicy(recovery="continue")


def test_a_stream_cannot_be_continued_if_no_model_has_a_target_for_that() -> None:
    begun = attrs.evolve(TARGET, prefill=True)
    text = "stream.recovery is 'continue', but no target of any model has prefill"
    assert refusal(Config, {**WHOLE, "stream": CONTINUE}) == text
    unused = {"eu": TARGET, "us": begun}
    assert refusal(Config, {**WHOLE, "targets": unused, "stream": CONTINUE}) == text


@pytest.mark.parametrize("prefill", [True, {"continue_final_message": True}])
def test_one_such_target_of_one_model_is_enough(prefill: bool | dict[str, JSON]) -> None:
    targets = {"eu": TARGET, "us": attrs.evolve(TARGET, prefill=prefill)}
    for lineup in (["eu", "us"], weighted(eu=1, us=1)):
        models = {"fast": lineup, "other": ["eu"]}
        assert Config(targets=targets, models=models, stream=CONTINUE).stream is CONTINUE


@pytest.mark.parametrize("recovery", ["raise", "restart", "continue-or-restart"])
def test_without_such_a_target_a_stream_can_still_begin_anew(recovery: str) -> None:
    cls: type = StreamPolicy
    policy = cls(recovery=recovery)
    assert attrs.evolve(CONFIG, stream=policy).stream is policy


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
    [CONFIG, TARGET, HedgePolicy(), StreamPolicy(), RetryPolicy(), Limits(), *weighted(eu=1)],
    ids=lambda value: type(value).__name__,
)
def test_every_value_is_frozen(value: attrs.AttrsInstance) -> None:
    name = attrs.fields(type(value))[0].name
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(value, name, getattr(value, name))


def test_a_configuration_survives_pickling() -> None:
    models = {"fast": weighted(eu=2)}
    config = attrs.evolve(CONFIG, models=models, hedge=HedgePolicy(after_s=3))
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 - made on the line itself
