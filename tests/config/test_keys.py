from __future__ import annotations

import pytest

from polygateway.config import resolve_key
from polygateway.errors import ConfigurationError
from polygateway.policies import Target
from polygateway.secret import Secret


def target(api_key_env: str | None) -> Target:
    return Target(
        dialect="openai-chat",
        base_url="https://example.invalid/v1",
        model="lyra-3",
        api_key_env=api_key_env,
    )


def message(api_key_env: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        resolve_key("eu", target(api_key_env))
    return str(caught.value)


def test_the_key_is_what_the_variable_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EU_KEY", "sk-1234")
    key = resolve_key("eu", target("EU_KEY"))
    assert key == Secret("sk-1234")


def test_without_a_variable_there_is_no_key() -> None:
    assert resolve_key("eu", target(None)) is None


def test_a_variable_that_is_not_set_is_told_with_its_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("EU_KEY", raising=False)
    assert message("EU_KEY") == "target 'eu': the variable EU_KEY is not set (api_key_env)"


def test_an_empty_variable_is_told_apart_from_a_missing_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EU_KEY", "")
    assert message("EU_KEY") == "target 'eu': the variable EU_KEY is empty (api_key_env)"


@pytest.mark.parametrize(
    ("key", "stray"),
    [
        ("sk-canary\n", "whitespace at position 10"),
        ("sk-canary\r", "whitespace at position 10"),
        (" sk-canary", "whitespace at position 1"),
        ("Bearer sk-canary", "whitespace at position 7"),
        ("sk-canary\u00a0", "whitespace at position 10"),
        ("sk-\tcanary", "whitespace at position 4"),
        ("sk-canary\x1b", "a control character at position 10"),
        ("\x7fsk-canary", "a control character at position 1"),
        ("sk\N{EN DASH}canary", "a character outside ASCII at position 3"),
        ("sk-canary\udcff", "a character outside ASCII at position 10"),
        ("\N{LEFT DOUBLE QUOTATION MARK}sk-canary", "a character outside ASCII at position 1"),
    ],
)
def test_a_stray_character_is_told_by_kind_and_position_only(
    key: str, stray: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EU_KEY", key)
    assert (
        message("EU_KEY")
        == f"target 'eu': the key in the variable EU_KEY has {stray} (api_key_env)"
    )


def test_a_key_put_where_its_variables_name_belongs_is_not_shown() -> None:
    assert message("gsk_canary") == (
        "target 'eu': the variable it names (in lower case, so not shown: it may be the key"
        " itself) is not set (api_key_env)"
    )
