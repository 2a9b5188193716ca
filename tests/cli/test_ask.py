"""``polygateway ask``: the answer on one output, everything about it on the other."""

from __future__ import annotations

import io
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from polygateway import ConfigurationError, InvalidRequest, StreamBroken
from polygateway.cli.ask import ask
from polygateway.testing import (
    Script,
    ScriptedProvider,
    answer,
    chunk,
    cut,
    done,
    finish,
    reasoning,
    refusal,
    serve_tcp,
    status,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

RIVERS = answer("Rhine, ", "Nile, ", "Po.")


@asynccontextmanager
async def configured(
    folder: Path, *settings: str, **scripts: Script
) -> AsyncGenerator[dict[str, ScriptedProvider]]:
    """Serve providers, and write a configuration with the model ``m`` of all of them."""
    providers = {name: ScriptedProvider(script) for name, script in scripts.items()}
    async with serve_tcp(providers) as served:
        lines = [
            f'targets.{name} = {{ dialect = "openai-chat", base_url = "{url}", model = "x",'
            " prefill = true }"
            for name, url in served.base_urls.items()
        ]
        lines += [f"models.m = {list(providers)}", "retry.backoff_base_s = 0", *settings]
        (folder / "config.toml").write_text("\n".join(lines), "utf-8")
        yield providers


class Terminal(io.StringIO):
    """An output that somebody watches."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def watch(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make both outputs one terminal."""
    screen = Terminal()
    monkeypatch.setenv("TERM", "dumb")  # no styles: they are rich's affair
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def pipe_in(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))


async def test_the_answer_alone_goes_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(tmp_path, eu=RIVERS):
        await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    assert capsys.readouterr().out == "Rhine, Nile, Po.\n"


async def test_the_figures_go_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(tmp_path, eu=RIVERS):
        await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    times, attempts = capsys.readouterr().err.splitlines()
    words = times.split()
    assert words[::3] == ["total", "ttft", "generation", "stall"]
    assert all(float(number) < 60 for number in words[1::3])
    # The script's usage: seven tokens in, one for each piece out.
    assert attempts == "attempts 1: eu won   winner eu (primary)   tokens 7 in, 3 out"


async def test_what_is_asked_is_what_was_said(tmp_path: Path) -> None:
    async with configured(tmp_path, eu=RIVERS) as providers:
        await ask(
            "Name three rivers.",
            model="m",
            system="Be brief.",
            temperature=0.5,
            max_tokens=9,
            config=tmp_path / "config.toml",
        )
    body = providers["eu"].log[0].request.body
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Name three rivers."},
    ]
    assert body["temperature"] == 0.5
    assert 9 in (body.get("max_tokens"), body.get("max_completion_tokens"))


async def test_what_is_not_said_is_not_sent(tmp_path: Path) -> None:
    async with configured(tmp_path, eu=RIVERS) as providers:
        await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    body = providers["eu"].log[0].request.body
    assert body["messages"] == [{"role": "user", "content": "Name three rivers."}]
    assert body.keys().isdisjoint({"temperature", "max_tokens", "max_completion_tokens"})


@pytest.mark.parametrize("piped", [True, False])
async def test_the_prompt_can_be_piped_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, piped: bool
) -> None:
    pipe_in(monkeypatch, "Größter Fluß?\n".encode())
    async with configured(tmp_path, eu=RIVERS) as providers:
        await ask(piped=piped, model="m", config=tmp_path / "config.toml")
    body = providers["eu"].log[0].request.body
    assert body["messages"] == [{"role": "user", "content": "Größter Fluß?\n"}]


async def test_a_prompt_that_is_given_leaves_standard_input_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe_in(monkeypatch, b"not this")
    async with configured(tmp_path, eu=RIVERS):
        await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    assert sys.stdin.read() == "not this"


async def test_two_prompts_are_one_too_many() -> None:
    with pytest.raises(ConfigurationError, match="there are two prompts"):
        await ask("Name three rivers.", piped=True, model="m")


async def test_without_a_prompt_a_terminal_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(ConfigurationError, match="no prompt"):
        await ask(model="m")


@pytest.mark.parametrize("system", [None, "Be brief."])
async def test_an_empty_prompt_is_refused(
    monkeypatch: pytest.MonkeyPatch, system: str | None
) -> None:
    pipe_in(monkeypatch, b" \n")
    with pytest.raises(ConfigurationError, match="the prompt is empty"):
        await ask(model="m", system=system)


async def test_a_prompt_that_is_no_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe_in(monkeypatch, b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"cannot read standard input: .*position 0"):
        await ask(model="m")


async def test_a_cut_answer_is_printed_with_its_figures_and_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(tmp_path, eu=[chunk("Rhine, "), chunk("Ni"), cut()]):
        with pytest.raises(StreamBroken):
            await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    out, err = capsys.readouterr()
    assert out == "Rhine, Ni\n"
    assert "attempts 1: eu failed (transient)   winner -\n" in err


CUT_OFF: Script = [chunk("Rhine, "), chunk("Ni"), cut()]


async def test_an_answer_that_begins_anew_does_so_on_a_line_of_its_own_and_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(tmp_path, 'stream.recovery = "restart"', eu=CUT_OFF, us=RIVERS):
        await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    out, err = capsys.readouterr()
    assert out == "Rhine, Ni\nRhine, Nile, Po.\n"
    note, _, attempts = err.splitlines()
    assert note == "the answer begins anew: what came before is void"
    assert attempts == (
        "attempts 2: eu failed (transient), us won   winner us (retry)   seams 1: restart"
        "   tokens 7 in, 3 out"
    )


async def test_an_answer_that_goes_on_elsewhere_is_one_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = answer("le, ", "Po.")
    async with configured(tmp_path, 'stream.recovery = "continue"', eu=CUT_OFF, us=rest):
        await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    out, err = capsys.readouterr()
    assert out == "Rhine, Nile, Po.\n"
    _, attempts = err.splitlines()
    assert "   seams 1: continue   tokens " in attempts


async def test_of_a_call_without_any_content_the_attempts_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(tmp_path, eu=status(500), us=status(400)):
        with pytest.raises(InvalidRequest):
            await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    assert capsys.readouterr().err == (
        "attempts 3: eu failed (transient), eu failed (transient), us failed (invalid_request)"
        "   winner -\n"
    )


async def test_reasoning_is_shown_to_watchers_and_kept_out_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(tmp_path, eu=[reasoning("Let me see."), *RIVERS]):
        await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    out, err = capsys.readouterr()
    assert out == "Rhine, Nile, Po.\n"
    assert "Let me see." not in err


async def test_on_a_terminal_reasoning_and_answer_have_lines_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = watch(monkeypatch)
    script = [reasoning("Let me"), reasoning(" see."), *RIVERS[:2], reasoning("Hm."), *RIVERS[2:]]
    async with configured(tmp_path, eu=script):
        await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    lines = terminal.getvalue().splitlines()
    assert lines[:4] == ["Let me see.", "Rhine, ", "Hm.", "Nile, Po."]
    assert lines[4].startswith("total ")


async def test_a_refusal_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with configured(tmp_path, eu=[refusal("I must not."), finish(), done()]):
        await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("I must not.\ntotal ")


async def test_an_answer_that_ends_its_line_gets_no_empty_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(tmp_path, eu=answer("Rhine\n", "Po\n")):
        await ask("Name two rivers.", model="m", config=tmp_path / "config.toml")
    assert capsys.readouterr().out == "Rhine\nPo\n"


EVIL = "\x1b]0;title\x07Po"


async def test_an_answer_cannot_work_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = watch(monkeypatch)
    async with configured(tmp_path, eu=[reasoning(EVIL), *answer(EVIL)]):
        await ask("Name a river.", model="m", config=tmp_path / "config.toml")
    assert "\x1b" not in terminal.getvalue()
    assert terminal.getvalue().count("\\x1b]0;title\\x07Po") == 2


async def test_a_file_gets_the_answer_as_it_was_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(tmp_path, eu=answer(EVIL)):
        await ask("Name a river.", model="m", config=tmp_path / "config.toml")
    assert capsys.readouterr().out == f"{EVIL}\n"


async def test_whoever_closes_the_pipe_gets_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    async with configured(tmp_path, eu=RIVERS):
        with pytest.raises(BrokenPipeError):
            await ask("Name three rivers.", model="m", config=tmp_path / "config.toml")
    assert capsys.readouterr().err == ""
