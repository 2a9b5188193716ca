"""The command as a process: what only a real one can show."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest
import trio

import polygateway
from polygateway.testing import Script, ScriptedProvider, answer, chunk, hang, serve_tcp, status

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

COMMAND = [sys.executable, "-W", "error", "-c", "from polygateway.cli import main; main()"]
CONFIG = """
[targets]
eu = {{ dialect = "openai-chat", base_url = "{eu}", model = "x" }}
[models]
m = ["eu"]
[retry]
max_retries = 0
"""


@pytest.fixture(autouse=True)
def _the_package_under_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(polygateway.__file__).parents[1]))


@asynccontextmanager
async def asking(folder: Path, script: Script) -> AsyncGenerator[list[str]]:
    """Serve a provider, and give the command line that asks it."""
    path = folder / "config.toml"
    async with serve_tcp({"eu": ScriptedProvider(script)}) as served:
        path.write_text(CONFIG.format_map(served.base_urls), "utf-8")
        yield [*COMMAND, "ask", "--model", "m", "--config", str(path), "Name a river."]


async def test_an_answer_has_exit_code_0(tmp_path: Path) -> None:
    async with asking(tmp_path, answer("Rhine, ", "Nile")) as command:
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True)
    assert done.stdout.decode().splitlines() == ["Rhine, Nile"]
    assert b"winner eu" in done.stderr


async def test_a_failing_provider_has_exit_code_1_and_no_traceback(tmp_path: Path) -> None:
    async with asking(tmp_path, status(500)) as command:
        done = await trio.run_process(
            command, check=False, capture_stdout=True, capture_stderr=True
        )
    assert done.returncode == 1
    assert done.stdout == b""
    attempts, line = done.stderr.decode().splitlines()
    assert attempts.startswith("attempts 1: ")
    assert line.startswith("polygateway: ServerError: ")


async def test_ctrl_c_prints_the_figures_there_are_and_has_exit_code_130(tmp_path: Path) -> None:
    async with asking(tmp_path, [chunk("Rhine, "), hang()]) as command:
        process = await trio.lowlevel.open_process(command, stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        assert await process.stdout.receive_some() == b"Rhine, "
        process.send_signal(signal.SIGINT)
        with trio.fail_after(60):
            figures = b"".join([data async for data in process.stderr])
            assert await process.wait() == 130
    assert b"eu cancelled (caller)" in figures
    assert b"Traceback" not in figures


async def test_a_closed_pipe_ends_the_command_without_a_word(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    async with asking(tmp_path, [chunk("Rhine, "), hang()]) as command:
        done = await trio.run_process(command, check=False, stdout=writer, capture_stderr=True)
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""


async def test_an_output_that_cannot_say_it_gets_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    async with asking(tmp_path, answer("Größe")) as command:
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True)
    assert done.stdout.decode("ascii").splitlines() == ["Gr\\xf6\\xdfe"]
