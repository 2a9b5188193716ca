"""``polygateway probe``: what it prints where, its exit code, and what survives an end too soon."""

from __future__ import annotations

import io
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from polygateway import ConfigurationError
from polygateway.cli.probe import measure, probe
from polygateway.cli.probing.options import How, Where
from polygateway.instrument import Instrument
from polygateway.observe.reading import read_journal
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    hang,
    page,
    run_virtual,
    serve_memory,
    serve_tcp,
    silence,
    status,
)
from tests.cli.probes import QUICKLY, each_by_itself

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from polygateway.cli.probing.load import Plan
    from polygateway.cli.probing.result import Result
    from polygateway.instrument import AttemptStarted
    from polygateway.testing import Request, Script

RIVERS = answer("Rhine, ", "Nile, ", "Po.")
THRICE = How(requests=3, warmup=0)


@asynccontextmanager
async def configured(folder: Path, **providers: ScriptedProvider) -> AsyncGenerator[Where]:
    """Serve providers, and give where they can be measured."""
    async with serve_tcp(providers) as served:
        lines = [
            f'targets.{name} = {{ dialect = "openai-chat", base_url = "{url}", model = "x" }}'
            for name, url in served.base_urls.items()
        ]
        lines.append(f"models.m = {list(providers)}")
        (folder / "config.toml").write_text("\n".join(lines), "utf-8")
        yield Where(config=folder / "config.toml")


# ---------------------------------------------------------------- the whole command, over sockets


async def test_targets_that_fail_have_a_line_each_and_the_others_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}
    async with configured(
        tmp_path,
        closed=ScriptedProvider(RIVERS, refuses=True),
        locked=ScriptedProvider(status(401, secret)),
        website=ScriptedProvider(page("<html>Welcome</html>")),
        eu=ScriptedProvider(RIVERS),
    ) as where:
        code = await probe(where=where, how=How(requests=5, warmup=0))
    out, err = capsys.readouterr()
    assert code == 1
    closed, locked, website = err.splitlines()
    start = "no whole answer to 3 requests: "
    end = " (2 more called off)"
    assert closed.startswith(f"polygateway: closed: {start}ConnectFailed: ")
    assert "refused" in closed.lower()
    assert locked == (
        f"polygateway: locked: {start}AuthenticationFailed: target 'locked' answered 401:"
        f" Incorrect API key{end}"
    )
    assert website.startswith(f"polygateway: website: {start}ProtocolViolation: ")
    assert "text/html" in website
    assert out.startswith("eu   x (openai-chat) at http://127.0.0.1:")
    assert "5 of 5 requests, 1 at once, after 0 for warm-up, in " in out
    assert out.count("requests, ") == 1  # no table for the others


async def test_a_base_url_is_measured_without_a_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with serve_tcp({"eu": ScriptedProvider(RIVERS)}) as served:
        where = Where(base_url=served.base_urls["eu"], model="lyra-3")
        assert await probe(where=where, how=THRICE) == 0
    out, err = capsys.readouterr()
    assert out.startswith("lyra-3   lyra-3 (openai-chat) at http://127.0.0.1:")
    assert "Percentiles are by nearest rank" in out
    assert err == ""


async def test_json_is_all_there_is_on_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(
        tmp_path, eu=ScriptedProvider(RIVERS), us=ScriptedProvider(status(500))
    ) as where:
        assert await probe(where=where, how=THRICE, as_json=True) == 1
    out, err = capsys.readouterr()
    eu, us = json.loads(out)["targets"]
    assert (eu["target"], eu["verdict"], len(eu["samples"])) == ("eu", None, 3)
    assert us["verdict"].startswith("no whole answer to 3 requests: ServerError: ")
    assert err == f"polygateway: us: {us['verdict']}\n"


async def test_the_journal_has_every_request_the_warm_up_included(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "probe.jsonl"
    async with configured(tmp_path, eu=ScriptedProvider(RIVERS)) as where:
        how = How(requests=3, warmup=2)
        await probe(where=where, how=how, as_json=True, journal=file)
    calls = read_journal(file).calls
    assert [call.model for call in calls] == ["eu"] * 5
    (told,) = json.loads(capsys.readouterr().out)["targets"]
    counted = [sample["stats"]["ttft_ms"] for sample in told["samples"]]
    assert [call.stats.ttft_ms for call in calls[2:]] == counted


# ---------------------------------------------------------------- refusals


async def test_a_mistake_is_found_before_anything_is_sent(tmp_path: Path) -> None:
    provider = ScriptedProvider(RIVERS)
    async with configured(tmp_path, eu=provider) as where:
        for how in (How(prompt=""), How(deadline=-1.0)):
            with pytest.raises(ConfigurationError):
                await probe(where=where, how=how)
        with pytest.raises(ConfigurationError, match=r"cannot write to .*: Is a directory"):
            await probe(where=where, how=THRICE, journal=tmp_path)
    assert provider.log == []


async def test_a_key_that_is_not_set_is_a_mistake_and_nothing_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    where = Where(base_url="https://api.invalid/v1", model="x", api_key_env="NO_SUCH_KEY")
    for as_json in (False, True):
        with pytest.raises(ConfigurationError, match="NO_SUCH_KEY is not set"):
            await probe(where=where, as_json=as_json)
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------- the verdict


def probed(plan: Plan = QUICKLY, **providers: ScriptedProvider) -> list[Result]:
    """Measure providers in virtual time."""

    async def main() -> None:
        async with serve_memory(providers) as network:
            config = each_by_itself(network.config())
            await measure(config, plan, found.append, connect=network.connect)

    found: list[Result] = []
    run_virtual(main)
    return found


def test_targets_are_measured_one_after_the_other() -> None:
    slow = [silence(1), *RIVERS]
    eu, us = ScriptedProvider(slow), ScriptedProvider(slow)
    assert [result.load.target for result in probed(eu=eu, us=us)] == ["eu", "us"]
    ended = [exchange.ended_at for exchange in eu.log]
    assert us.log[0].started_at >= (ended[-1] or 0.0) > 3


def test_a_target_that_answers_once_has_answered() -> None:
    (result,) = probed(eu=ScriptedProvider(status(500), RIVERS, status(500)))
    assert result.verdict is None


def test_the_verdict_names_the_most_frequent_failure_and_how_often_it_was() -> None:
    (result,) = probed(eu=ScriptedProvider([chunk("R"), cut()], status(500)))
    assert result.verdict == (
        "no whole answer to 4 requests: ServerError (3 times): target 'eu' answered 500:"
        " scripted status 500"
    )
    assert result.has_content


def test_a_warm_up_that_was_answered_does_not_count() -> None:
    plan = attrs.evolve(QUICKLY, warmup=1, requests=1)
    (result,) = probed(plan, eu=ScriptedProvider(RIVERS, status(500)))
    assert result.verdict is not None
    assert result.verdict.startswith("no whole answer to 1 request: ServerError: ")


async def test_a_target_of_which_only_pieces_came_has_a_table_and_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with configured(tmp_path, eu=ScriptedProvider([chunk("Rhi"), cut()])) as where:
        assert await probe(where=where, how=THRICE) == 1
    out, err = capsys.readouterr()
    assert "truncated    3 of 3" in out
    assert err.startswith("polygateway: eu: no whole answer to 3 requests: Truncated: ")


# ---------------------------------------------------------------- Ctrl-C


@attrs.define
class Interrupting(Instrument):
    """Does what Python does at Ctrl-C, at the start of the n-th attempt."""

    at: int
    seen: int = 0

    def attempt_started(self, event: AttemptStarted) -> None:
        self.seen += 1
        if self.seen == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [1, 3, 6])
def test_ctrl_c_shows_what_there_is_of_the_targets_that_were_begun(at: int) -> None:
    async def main() -> None:
        providers = {"eu": ScriptedProvider(RIVERS), "us": ScriptedProvider(RIVERS)}
        async with serve_memory(providers) as network:
            config = each_by_itself(network.config())
            await measure(
                config,
                QUICKLY,
                found.append,
                connect=network.connect,
                instruments=[Interrupting(at)],
            )

    found: list[Result] = []
    with pytest.raises(BaseExceptionGroup) as raised:
        run_virtual(main)
    assert raised.group_contains(KeyboardInterrupt)
    assert sum(result.summary.whole.count for result in found) == at - 1
    assert sum(result.summary.unfinished for result in found) == 1
    assert len(found) == 1 + (at > 4)


async def test_what_was_cancelled_is_printed_as_far_as_it_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def second(_: Request) -> Script:
        arrived.set()
        return [hang()]

    arrived = trio.Event()
    async with (
        configured(tmp_path, eu=ScriptedProvider(RIVERS, second)) as where,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(lambda: probe(where=where, how=THRICE, as_json=True))
        await arrived.wait()
        nursery.cancel_scope.cancel()
    (told,) = json.loads(capsys.readouterr().out)["targets"]
    assert [sample["outcome"] for sample in told["samples"]] == ["whole", "unfinished"]
    assert told["unfinished"] == 1


# ---------------------------------------------------------------- progress


class Terminal(io.StringIO):
    """An error output that somebody watches."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("watched", [True, False])
def test_progress_is_shown_on_standard_error_and_to_watchers_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, watched: bool
) -> None:
    screen = Terminal() if watched else io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen)
    probed(eu=ScriptedProvider([silence(0.4), *RIVERS]))
    assert ("0 of 4 requests   1 running   0.2 s" in screen.getvalue()) == watched
    assert ("3 of 4 requests   1 running   3 whole   1.5 s" in screen.getvalue()) == watched
    assert capsys.readouterr() == ("", "")


async def test_whoever_closes_the_pipe_is_left_in_peace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    async with configured(tmp_path, eu=ScriptedProvider(RIVERS)) as where:
        monkeypatch.setattr(sys, "stdout", Closed())
        with pytest.raises(BrokenPipeError):
            await probe(where=where, how=THRICE)
    assert capsys.readouterr().err == ""
