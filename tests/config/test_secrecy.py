"""What may be a secret is shown in no error and in no repr."""

from __future__ import annotations

from itertools import chain
from typing import cast

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from polygateway.config import load_config
from polygateway.config.structure import POLICIES
from polygateway.errors import ConfigurationError
from polygateway.policies import Target, WeightedTarget
from tests.config.examples import CANARY, minimal, one_target, told

SECRET_PARTS = (
    *("api_key", "key", "token", "secret", "password", "authorization"),
    *("headers", "extra", "prefill", "base_url", "proxy"),
)


@pytest.mark.parametrize(
    "data",
    [
        minimal(models={"api_key": CANARY}),
        minimal(models={"secret": [CANARY]}),
        minimal(targets={"token": CANARY}),
        minimal(hedge={"after_s": {"password": CANARY}}),
        minimal(hedge={"after_s": [CANARY]}),
        minimal(hedge={"pat": CANARY}),
        minimal(authorization=CANARY),
        one_target(model={"key": CANARY}),
        minimal(targets=[{"api_key": CANARY}]),
        one_target(proxy=f"http://user:{CANARY}@proxy.example:3128"),
        one_target(proxy=CANARY),
        one_target(prefill=CANARY),
        one_target(prefill={"user": {CANARY}}),
        minimal(models={"fast": [{"api_key": CANARY}]}),
        minimal(models={"fast": [{"target": [CANARY], "weight": {"key": CANARY}}]}),
    ],
)
def test_a_secret_is_shown_nowhere(data: dict[str, object]) -> None:
    assert CANARY not in "\n".join(told(data))


def test_the_repr_of_a_configuration_shows_no_header_and_no_extra_value() -> None:
    data = one_target(headers={"x-team": CANARY}, extra={"user": CANARY}, prefill={"tag": CANARY})
    text = repr(load_config(data))
    assert CANARY not in text
    assert "headers={'x-team': '***'}, extra={'user': '***'}" in text
    assert "prefill={'tag': '***'}" in text


@pytest.mark.parametrize("prefill", [True, False])
def test_the_repr_of_a_configuration_shows_a_flag(prefill: bool) -> None:
    assert f"prefill={prefill}" in repr(load_config(one_target(prefill=prefill)))


CLASSES: list[type[attrs.AttrsInstance]] = [Target, WeightedTarget, *POLICIES.values()]
FIELDS = {cls: [field.name for field in attrs.fields(cls)] for cls in CLASSES}

names = st.sampled_from([*chain(*FIELDS.values()), *POLICIES, *SECRET_PARTS, "eu"]) | st.text(
    max_size=8
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=20,
)


def tables(fields: list[str]) -> st.SearchStrategy[object]:
    """Tables with these fields, more or less."""
    return st.dictionaries(st.sampled_from(fields) | names, json_values, max_size=6) | json_values


configurations = st.dictionaries(names, json_values) | st.fixed_dictionaries(
    {},
    optional={
        **{section: tables(FIELDS[policy]) for section, policy in POLICIES.items()},
        "targets": st.dictionaries(names, tables(FIELDS[Target]), max_size=3),
        "models": st.dictionaries(
            names,
            st.lists(names | tables(FIELDS[WeightedTarget]), max_size=3) | json_values,
            max_size=3,
        ),
    },
)


def poisoned(value: object, *, secret: bool = False) -> object:
    """The same value with the canary in place of whatever may be a secret."""
    if isinstance(value, dict):
        return poisoned_table(cast("dict[str, object]", value), secret=secret)
    if isinstance(value, list):
        return [poisoned(inner, secret=secret) for inner in cast("list[object]", value)]
    return CANARY if secret else value


def poisoned_table(table: dict[str, object], *, secret: bool = False) -> dict[str, object]:
    return {
        name: poisoned(inner, secret=secret or may_hold_a_key(name))
        for name, inner in table.items()
    }


def may_hold_a_key(name: str) -> bool:
    # "tokens" are counted: no key is called so.
    return any(part in name.replace("tokens", "") for part in SECRET_PARTS)


@settings(deadline=None, max_examples=150)
@given(configurations)
def test_no_mapping_gets_through_wrong_and_no_secret_out(data: dict[str, object]) -> None:
    error: ConfigurationError | None = None
    try:
        load_config(poisoned_table(data))
    except ConfigurationError as caught:
        error = caught
    if error is not None:
        assert CANARY not in f"{error} {error!r}"
        assert (error.__cause__, error.__context__) == (None, None)
