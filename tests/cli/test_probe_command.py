"""The command line of ``polygateway probe``, and its process."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest
import trio

import polygateway
from polygateway.cli.app import run
from polygateway.testing import ScriptedProvider, answer, hang, serve_tcp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway.testing import Request, Script

COMMAND = [sys.executable, "-W", "error", "-c", "from polygateway.cli import main; main()"]
RIVERS = answer("Rhine, ", "Nile, ", "Po.")


@pytest.fixture(autouse=True)
def _the_package_under_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(polygateway.__file__).parents[1]))


def test_the_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--help"]) == 0
    options = {word for word in capsys.readouterr().out.split() if word.startswith("--")}
    assert options >= {
        *("--config", "--target", "--base-url", "--model", "--dialect", "--api-key-env"),
        *("--requests", "--warmup", "--concurrency", "--rate", "--prompt", "--max-tokens"),
        *("--deadline", "--json", "--journal"),
    }


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["surplus"], "surplus"),
        (["--requests", "many"], "many"),
        (["--requests", "0"], "requests must be"),
        (["--rate", "-1"], "rate must be"),
        (["--base-url", "https://api.invalid/v1"], "--base-url needs --model"),
        (["--no-json"], "--no-json"),
        (["--config", "nowhere.toml"], "cannot read nowhere.toml"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str], culprit: str
) -> None:
    assert run(["probe", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("polygateway: ")
    assert culprit in err


async def test_a_target_that_answers_has_exit_code_0_and_one_that_does_not_1(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config.toml"
    providers = {
        "eu": ScriptedProvider(RIVERS),
        "closed": ScriptedProvider(RIVERS, refuses=True),
    }
    async with serve_tcp(providers) as served:
        config.write_text(
            "\n".join(
                f'targets.{name} = {{ dialect = "openai-chat", base_url = "{url}", model = "x" }}'
                for name, url in served.base_urls.items()
            )
            + '\nmodels.m = ["eu"]',
            "utf-8",
        )
        command = [*COMMAND, "probe", "--config", str(config), "--requests", "2", "--json"]
        both = await trio.run_process(
            command, check=False, capture_stdout=True, capture_stderr=True
        )
        one = await trio.run_process(
            [*command, "--target", "eu"], capture_stdout=True, capture_stderr=True
        )
    assert both.returncode == 1
    assert both.stderr.startswith(b"polygateway: closed: no whole answer to ")
    assert [each["target"] for each in json.loads(both.stdout)["targets"]] == ["eu", "closed"]
    assert one.stderr == b""
    assert [each["target"] for each in json.loads(one.stdout)["targets"]] == ["eu"]


async def test_ctrl_c_prints_what_there_is_and_has_exit_code_130() -> None:
    def second(_: Request) -> Script:
        process.send_signal(signal.SIGINT)
        return [hang()]

    async with serve_tcp({"eu": ScriptedProvider(RIVERS, second)}) as served:
        process = await trio.lowlevel.open_process(
            [*COMMAND, "probe", "--base-url", served.base_urls["eu"], "--model", "x", "--warmup=0"],
            stdout=PIPE,
            stderr=PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with trio.fail_after(60):
            out = b"".join([data async for data in process.stdout])
            err = b"".join([data async for data in process.stderr])
            assert await process.wait() == 130
    assert b"1 of 20 requests" in out
    assert b"1 x not finished when the probe stopped" in out
    assert err == b""
