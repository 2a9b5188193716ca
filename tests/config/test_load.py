from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import platformdirs
import pytest

from polygateway.config import load_config
from polygateway.errors import ConfigurationError
from polygateway.policies import Config, HedgePolicy, Limits, StreamPolicy, Target

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

FILE = """\
[targets.eu]
dialect = "openai-chat"
base_url = "https://example.invalid/v1"
model = "lyra-3"

[models]
fast = ["eu"]
"""
CONFIG = Config(
    targets={
        "eu": Target(dialect="openai-chat", base_url="https://example.invalid/v1", model="lyra-3")
    },
    models={"fast": ("eu",)},
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration folder for polygateway, empty."""
    folder = tmp_path / "user" / "polygateway"
    folder.mkdir(parents=True)

    def user_config_path(name: str, *, appauthor: bool) -> Path:
        assert (name, appauthor) == ("polygateway", False)
        return folder

    monkeypatch.setattr(platformdirs, "user_config_path", user_config_path)
    return folder


def message(config: Mapping[str, object] | str | os.PathLike[str] | None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_config(config)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_a_config_is_taken_as_it_is() -> None:
    assert load_config(CONFIG) is CONFIG


def test_a_path_names_a_toml_file(file: Path) -> None:
    assert load_config(file) == CONFIG
    assert load_config(str(file)) == CONFIG


def test_none_is_the_file_that_the_variable_names(
    file: Path, user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user_folder / "config.toml").write_text("")
    monkeypatch.setenv("POLYGATEWAY_CONFIG", str(file))
    assert load_config(None) == CONFIG


@pytest.mark.parametrize("variable", [None, ""])
def test_none_is_else_the_users_own_file(
    variable: str | None, user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user_folder / "config.toml").write_text(FILE)
    if variable is not None:
        monkeypatch.setenv("POLYGATEWAY_CONFIG", variable)
    assert load_config(None) == CONFIG


def test_a_file_of_the_working_folder_is_never_taken_in_silence(
    tmp_path: Path, user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloned = tmp_path / "cloned"
    for name in ("polygateway.toml", "config.toml", "polygateway/config.toml"):
        (cloned / name).parent.mkdir(parents=True, exist_ok=True)
        (cloned / name).write_text(FILE)
    monkeypatch.chdir(cloned)
    assert message(None).startswith(f"cannot read {user_folder / 'config.toml'} ")


def test_a_users_folder_that_is_relative_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # What platformdirs gives where the home folder is unknown: it would lie in the working folder.
    def user_config_path(name: str, *, appauthor: bool) -> Path:
        return Path("~/.config", str(appauthor), name)

    monkeypatch.setattr(platformdirs, "user_config_path", user_config_path)
    assert "configuration folder is cannot be told (~" in message(None)


def test_no_configuration_at_all_says_where_one_was_looked_for(user_folder: Path) -> None:
    path = user_folder / "config.toml"
    assert message(None) == (
        f"cannot read {path} (none was given, and POLYGATEWAY_CONFIG is not set):"
        " No such file or directory"
    )


def test_a_missing_file_is_told_with_its_path_and_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "missing.toml"
    assert message(path) == f"cannot read {path}: No such file or directory"
    monkeypatch.setenv("POLYGATEWAY_CONFIG", str(path))
    assert message(None) == (
        f"cannot read {path} (named by POLYGATEWAY_CONFIG): No such file or directory"
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert message(tmp_path).startswith(f"cannot read {tmp_path}: ")


def test_a_path_that_none_can_be_is_told() -> None:
    assert message("a\0b").startswith("cannot read a\0b: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"[hedge]\nafter_s = soon\n", r"is not TOML: .*\(at line 2, column 11\)"),
        (b"[hedge\n", r"is not TOML: .*\(at line 1, column 7\)"),
        (b"a = 1\n\nb = '\xff'\n", r"is not UTF-8 \(at line 3\)"),
        (b"\xef\xbb\xbfa = 1\nb = '\xff'\n", r"is not UTF-8 \(at line 2\)"),
        (b"a = " + b"[" * 100_000, "is not TOML: "),
        (b"a = " + b"9" * 5000, "is not TOML: "),
    ],
)
def test_what_is_no_toml_is_told_with_path_and_line(
    text: bytes, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(text)
    assert re.match(f"{re.escape(str(path))} {problem}", message(path))


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "bom.toml"
    path.write_bytes(b"\xef\xbb\xbf" + FILE.encode())
    assert load_config(path) == CONFIG


def test_windows_line_ends_are_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "crlf.toml"
    path.write_bytes(FILE.replace("\n", "\r\n").encode())
    assert load_config(path) == CONFIG


@pytest.mark.parametrize("config", [42, b"some.toml", ["some.toml"]])
def test_anything_else_is_told(config: object) -> None:
    with pytest.raises(ConfigurationError, match=f"not a {type(config).__name__}$"):
        load_config(config)  # type: ignore[arg-type] # the mistake that is made here


def test_variables_go_on_top_of_a_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYGATEWAY_TARGETS__EU__MODEL", "lyra-4")
    monkeypatch.setenv("POLYGATEWAY_HEDGE__AFTER_S", "3")
    config = load_config(file)
    assert config.targets["eu"].model == "lyra-4"
    assert config.hedge.after_s == 3.0
    assert attrs.evolve(config.targets["eu"], model="lyra-3") == CONFIG.targets["eu"]


def test_no_variable_goes_on_top_of_what_code_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYGATEWAY_TARGETS__EU__MODEL", "lyra-4")
    monkeypatch.setenv("POLYGATEWAY_HEDGE__SPEED", "wrong")
    assert load_config(CONFIG) is CONFIG
    assert load_config(attrs.asdict(CONFIG)) == CONFIG


def test_the_mistakes_of_file_and_variables_are_told_together(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(FILE + "[retry]\nmax_retries = -1\n")
    monkeypatch.setenv("POLYGATEWAY_HEDGE__AFTER_S", "soon")
    monkeypatch.setenv("POLYGATEWAY_HEDGE__", "1")
    monkeypatch.setenv("POLYGATEWAY_TARGETS__US__MODEL", "lyra-4")
    monkeypatch.setenv("POLYGATEWAY_TARGETS__EU__API_KEY", "sk-canary")
    assert message(file) == (
        f"6 mistakes in {file}:\n"
        "  POLYGATEWAY_HEDGE__ has an empty part between or after its underscores\n"
        "  hedge.after_s must be a number at least 0.001 and at most 1,000,000,000 or 'auto', not"
        " 'soon' (set by POLYGATEWAY_HEDGE__AFTER_S)\n"
        "  retry.max_retries must be a whole number at least 0, not -1\n"
        "  targets.eu.api_key: a file never holds a key; name its variable with api_key_env"
        " (set by POLYGATEWAY_TARGETS__EU__API_KEY)\n"
        "  targets.us.base_url is missing (set by POLYGATEWAY_TARGETS__US__MODEL)\n"
        "  targets.us.dialect is missing (set by POLYGATEWAY_TARGETS__US__MODEL)"
    )


def test_a_model_that_a_variable_sets_names_only_its_own(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYGATEWAY_MODELS__SLOW", "['mars']")
    monkeypatch.setenv("POLYGATEWAY_MODELS__OTHER", "['eu']")
    assert message(file) == (
        f"1 mistake in {file}:\n"
        "  models.slow[0] must be the name of a target (known: eu), not 'mars'"
        " (set by POLYGATEWAY_MODELS__SLOW)"
    )


def test_every_setting_may_come_from_a_variable(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "HEDGE__AFTER_S": "auto",
        "HEDGE__STALL_AFTER_S": '"auto"',
        "HEDGE__HOLDOUT": "0.01",
        "HEDGE__BUDGET_TOKENS_PER_HOUR": "2_000_000",
        "STREAM__RECOVERY": "continue",
        "STREAM__HOLD_BACK_S": "2.5",
        "LIMITS__IDLE_TIMEOUT_S": "20",
        "TARGETS__EU__PROXY": "http://proxy.example:3128",
        "TARGETS__EU__PREFILL__CONTINUE_FINAL_MESSAGE": "true",
        "MODELS__DRAWN": "[{ target = 'eu', weight = 2 }]",
    }.items():
        monkeypatch.setenv(f"POLYGATEWAY_{name}", text)
    config = load_config(file)
    assert config.hedge == HedgePolicy(
        after_s="auto", stall_after_s="auto", holdout=0.01, budget_tokens_per_hour=2_000_000
    )
    assert config.stream == StreamPolicy(recovery="continue", hold_back_s=2.5)
    assert config.limits == Limits(idle_timeout_s=20.0)
    assert config.targets["eu"].proxy == "http://proxy.example:3128"
    assert config.targets["eu"].prefill == {"continue_final_message": True}
    assert config.weights_of("drawn") == (2.0,)


def test_mistakes_in_settings_from_variables_are_told_with_them_and_no_login(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYGATEWAY_HEDGE__HOLDOUT", "1 %")
    monkeypatch.setenv("POLYGATEWAY_TARGETS__EU__PROXY", "http://user:sk-canary@proxy:3128")
    monkeypatch.setenv("POLYGATEWAY_TARGETS__EU__PREFILL", "sk-canary")
    monkeypatch.setenv("POLYGATEWAY_MODELS__DRAWN", "[{ target = 'eu', weight = 0 }]")
    assert message(file) == (
        f"4 mistakes in {file}:\n"
        "  hedge.holdout must be a number at least 0 and at most 1, not '1 %'"
        " (set by POLYGATEWAY_HEDGE__HOLDOUT)\n"
        "  models.drawn[0].weight must be a number over 0 and at most 1,000,000, not 0"
        " (set by POLYGATEWAY_MODELS__DRAWN)\n"
        "  targets.eu.prefill must be true, false or a table that is not empty (what it holds is"
        " not shown) (set by POLYGATEWAY_TARGETS__EU__PREFILL)\n"
        "  targets.eu.proxy must be like http://host:port, without login or path, or 'direct'"
        " (what it holds is not shown) (set by POLYGATEWAY_TARGETS__EU__PROXY)"
    )


def test_a_recovery_for_which_there_is_no_target_is_told_like_any_mistake(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYGATEWAY_STREAM__RECOVERY", "continue")
    assert message(file) == (
        f"1 mistake in {file}:\n"
        "  stream.recovery is 'continue', but no target of any model has prefill"
        " (set by POLYGATEWAY_STREAM__RECOVERY)"
    )
