"""Exit codes and error lines: 2 for what the user can mend, 1 for what the providers did."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from polygateway import ConnectFailed, __version__
from polygateway.cli import app, main
from polygateway.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CONFIG = """
[targets]
eu = { dialect = "openai-chat", base_url = "https://eu.invalid/v1", model = "x" }
[models]
m = ["eu"]
"""


def configured(folder: Path) -> str:
    """Write a configuration with the model ``m``, and give its path."""
    path = folder / "config.toml"
    path.write_text(CONFIG, "utf-8")
    return str(path)


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Give the one line on standard error; nothing else was said."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("polygateway: ")
    assert err.endswith("\n")
    line = err.removeprefix("polygateway: ").removesuffix("\n")
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["ask", "-m", "m", "--confg", "x", "hi"], "--confg"),
        (["ask", "-m", "m", "one", "two"], "two"),
        (["ask", "hi"], "--model"),
        (["ask", "-m", "m", "--max-tokens", "few", "hi"], "few"),
        (["dmo"], "dmo"),
        (["demo", "--no-json"], "--no-json"),
    ],
)
def test_what_cannot_be_understood_is_named_in_one_line_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str], culprit: str
) -> None:
    assert run(arguments) == 2
    assert culprit in error_line(capsys)


def test_a_missing_configuration_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["ask", "-m", "m", "--config", "nowhere.toml", "hi"]) == 2
    assert error_line(capsys) == "cannot read nowhere.toml: No such file or directory"


def test_an_unknown_model_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["ask", "-m", "fast", "--config", configured(tmp_path), "hi"]) == 2
    assert error_line(capsys).startswith("model 'fast' is not configured")


def test_a_value_that_no_call_can_have_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["ask", "-m", "m", "--temperature=-1", "--config", configured(tmp_path), "hi"]
    assert run(arguments) == 2
    assert error_line(capsys).startswith("temperature must be")


def test_a_configuration_with_mistakes_has_a_line_for_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[models]\nm = ['eu']\n[hedge]\nafter_s = 'soon'\n[retries]\n", "utf-8")
    assert run(["ask", "-m", "m", "--config", str(path), "hi"]) == 2
    first, *mistakes = capsys.readouterr().err.splitlines()
    assert first == f"polygateway: {len(mistakes)} mistakes in {path}:"
    assert {"hedge.after_s", "models.m[0]", "retries"} <= {line.split()[0] for line in mistakes}


class Outcome:
    """A command line whose command ends with an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, *_: object, **__: object) -> None:
        raise self.error


def test_what_the_providers_did_is_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ConnectFailed("target 'eu' said \x1b[31m:\n  never\n  mind", target="eu", attempt=0)
    monkeypatch.setattr(app, "APP", Outcome(error))
    assert run([]) == 1
    assert error_line(capsys) == "ConnectFailed: target 'eu' said \\x1b[31m: never mind"


# Shells report a death by a signal as 128 and its number: SIGINT is 2, SIGPIPE 13.
@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), 141)])
def test_nurseries_do_not_hide_how_a_command_ended(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
) -> None:
    group = BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [error])])
    monkeypatch.setattr(app, "_let_go_of_stdout", lambda: None)
    for raised in (error, group):
        monkeypatch.setattr(app, "APP", Outcome(raised))
        assert run([]) == code
    assert capsys.readouterr() == ("", "")


def test_a_defect_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "APP", Outcome(ZeroDivisionError("of ours")))
    with pytest.raises(ZeroDivisionError):
        run([])


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr() == (f"{__version__}\n", "")


def test_main_takes_the_arguments_of_the_process_and_exits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["polygateway", "demo", "surplus"])
    with pytest.raises(SystemExit) as exiting:
        main()
    assert exiting.value.code == 2
    assert "surplus" in error_line(capsys)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_help_names_every_subcommand(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str]
) -> None:
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert {"ask", "demo", "--version"} <= set(out.split())
    assert err == ""


def test_the_help_of_a_subcommand_names_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "--help"]) == 0
    words = set(capsys.readouterr().out.split())
    assert {
        "--model",
        "--system",
        "--temperature",
        "--max-tokens",
        "--deadline",
        "--config",
    } <= words


@pytest.mark.parametrize("package", ["cyclopts", "rich"])
def test_without_the_extra_one_line_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as exiting:
        main()
    assert exiting.value.code == 2
    assert error_line(capsys).endswith(": pip install 'polygateway[cli]'")
