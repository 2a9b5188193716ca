"""A journal holds what the caller was told and what it follows from, and harms no call."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
import pytest
import trio
from hypothesis import given, strategies as st

from polygateway import GatewayError, HedgePolicy, RetryPolicy, open_gateway
from polygateway.core.figures import figures_of
from polygateway.instrument import AttemptEnded, CallEnded, Instrument
from polygateway.observe.journal import Journal
from polygateway.observe.reading import read_journal
from polygateway.stats import StreamFigures
from polygateway.testing import ScriptedProvider, answer, run_virtual, serve_memory, status
from polygateway.testing.strategies import scripts
from tests.observe.recorded import calls, end, plain, tell, without_text
from tests.observe.scenes import SCENES, show

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from polygateway import Gateway
    from polygateway.observe.records import RecordedCall
    from polygateway.testing import Script


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def read_one(path: Path) -> RecordedCall:
    """Read a journal that must hold one call, and nothing else."""
    found = read_journal(path)
    assert (found.problems, found.unfinished) == ((), ())
    (call,) = found.calls
    return call


def without_chance(call: RecordedCall) -> RecordedCall:
    """Give a call without what the journal adds of itself."""
    return attrs.evolve(call, run="r", started_at="")


# ---------------------------------------------------------------- there and back


@given(st.tuples(calls(number=1), calls(number=2)) | calls().map(lambda call: (call,)))
def test_what_a_journal_was_told_is_read_from_it(
    tmp_path_factory: pytest.TempPathFactory, told: tuple[RecordedCall, ...]
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    with Journal(folder / "bare") as silent, Journal(folder / "whole", text=True) as talkative:
        tell(silent, *told)
        tell(talkative, *told)
    for name, expected in {"bare": map(without_text, told), "whole": told}.items():
        found = read_journal(folder / name)
        assert (found.problems, found.unfinished) == ((), ())
        assert [*map(without_chance, reversed(found.calls))] == [*map(without_chance, expected)]


def test_a_call_is_dated_by_the_wall_clock_in_utc(path: Path) -> None:
    before = datetime.now(UTC)
    with Journal(path) as journal:
        tell(journal, plain())
    started_at = datetime.fromisoformat(read_one(path).started_at)
    assert 0 <= (started_at - before).total_seconds() + 0.001 < 60
    assert started_at.utcoffset() == before.utcoffset()


def test_every_journal_is_a_run_of_its_own(path: Path) -> None:
    runs: list[str] = []
    for _ in range(2):
        with Journal(path) as journal:
            tell(journal, plain())
            runs.append(journal.run)
    assert [call.run for call in read_journal(path).calls] == runs
    assert len(set(runs)) == 2


def test_journals_that_write_into_one_file_at_a_time_do_not_disturb_each_other(path: Path) -> None:
    with Journal(path) as one, Journal(path) as other:
        tell(one, plain(1))
        tell(other, plain(1))
        tell(one, plain(2))
    found = read_journal(path)
    assert not found.problems
    assert [call.call for call in found.calls] == [1, 1, 2]


# ---------------------------------------------------------------- the file


def test_a_new_journal_is_its_owners_only(path: Path) -> None:
    with Journal(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_rights_of_a_file_that_is_there_stay(path: Path) -> None:
    path.touch(0o640)
    path.chmod(0o640)
    with Journal(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_journal_in_a_folder_that_is_not_there_fails_at_once(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"calls\.jsonl"):
        Journal(path / "calls.jsonl")


def test_nothing_waits_in_a_buffer(path: Path) -> None:
    with Journal(str(path)) as journal:
        tell(journal, plain())
        assert read_one(path).call == 1


def test_a_line_takes_one_system_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    real = os.write

    def write(file: int, data: memoryview) -> int:
        written.append(bytes(data))
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    with Journal(path) as journal:
        tell(journal, plain(attempts=3))
    assert [line.count(b"\n") for line in written] == [1, 1, 1, 1]
    assert b"".join(written) == path.read_bytes()


def test_behind_a_line_that_was_cut_off_a_new_one_begins(path: Path) -> None:
    path.write_bytes(b'{"v":1,"type":"atte')
    with Journal(path) as journal:
        tell(journal, plain())
    found = read_journal(path)
    assert len(found.calls) == 1
    assert [problem.line for problem in found.problems] == [1]


def test_a_journal_goes_on_behind_a_whole_line_without_a_gap(path: Path) -> None:
    for _ in range(2):
        with Journal(path) as journal:
            tell(journal, plain())
    assert len(path.read_bytes().split(b"\n")) == 5


def test_a_journal_may_be_a_pipe(path: Path) -> None:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Journal(path) as journal:
            tell(journal, plain())
        lines = os.read(reader, 10**6).splitlines()
    finally:
        os.close(reader)
    assert [json.loads(line)["type"] for line in lines] == ["attempt", "call"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a full disk at hand")
def test_a_full_disk_is_an_error_that_says_so() -> None:
    with Journal("/dev/full") as journal, pytest.raises(OSError, match="No space left") as full:
        tell(journal, plain())
    assert full.value.errno == errno.ENOSPC


def test_what_fits_on_a_disk_that_fills_up_is_kept_and_the_rest_begins_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 500
    real = os.write

    def write(file: int, data: memoryview) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(file, data[:room])
        room -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with Journal(path) as journal:
        with pytest.raises(OSError, match="No space left"):
            tell(journal, plain(1))
        room = 10**6
        end(journal, plain(1))
        tell(journal, plain(2))
    found = read_journal(path)
    assert [problem.line for problem in found.problems] == [1, 2]
    assert found.problems[0].why.startswith("cut off, or no JSON")
    assert found.problems[1].why == "attempt 0 of this call has no line"
    assert [call.call for call in found.calls] == [1, 2]


def test_a_closed_journal_says_that_it_was_left_too_early(path: Path) -> None:
    with Journal(path) as journal:
        pass
    with pytest.raises(OSError, match=r"closed before the gateway.*calls\.jsonl") as closed:
        tell(journal, plain())
    assert closed.value.errno == errno.EBADF
    journal.close()
    assert path.read_bytes() == b""


def test_a_journal_is_named_by_its_file(path: Path) -> None:
    with Journal(str(path)) as journal:
        assert repr(journal) == f"Journal({str(path)!r})"


def test_an_attempt_without_its_trace_is_a_mistake_of_whoever_passed_it_on(path: Path) -> None:
    call = plain()
    with Journal(path) as journal:
        tell(journal, attrs.evolve(call, attempts=()))
        with pytest.raises(TypeError, match="trace is None"):
            journal.attempt_ended(
                AttemptEnded(call=1, at_ns=0, stats=call.attempts[0].stats, trace=None)
            )


# ---------------------------------------------------------------- whole calls


class Ear(Instrument):
    """Keeps the ends that were told."""

    def __init__(self) -> None:
        self.calls: list[CallEnded] = []

    def call_ended(self, event: CallEnded) -> None:
        self.calls.append(event)


@asynccontextmanager
async def gateway_to(*scripts: Script, watched_by: Sequence[Instrument]) -> AsyncGenerator[Gateway]:
    """Open a gateway that hedges after half a second, to a provider for each script."""
    providers = {f"eu-{i}": ScriptedProvider(script) for i, script in enumerate(scripts)}
    async with serve_memory(providers) as network:
        config = network.config(hedge=HedgePolicy(after_s=0.5, stall_after_s=0.5))
        async with open_gateway(config, connect=network.connect, instruments=watched_by) as gw:
            yield gw


def figures(stats: StreamFigures) -> StreamFigures:
    """Give the figures of a record, without the rest of it."""
    names = [field.name for field in attrs.fields(StreamFigures)]
    return StreamFigures(**{name: getattr(stats, name) for name in names})


def check(call: RecordedCall, told: CallEnded) -> None:
    """Make sure that a recorded call is the one that was told, and that its figures follow."""
    assert call.stats == told.stats
    assert (call.outcome, call.usage) == (told.outcome, told.usage)
    for attempt in call.attempts:
        assert figures(attempt.stats) == figures_of(attempt.trace)
    assert figures(call.stats) == figures_of(
        call.attempts[call.stats.front].trace,
        since_ns=call.started_ns,
        until_ns=call.ended_ns,
    )


@pytest.mark.parametrize("name", SCENES)
def test_the_figures_of_a_call_follow_from_the_journal(path: Path, name: str) -> None:
    with Journal(path) as journal:
        shown = show(name, journal)
    call = read_one(path)
    check(call, shown.event)
    assert [attempt.stats for attempt in call.attempts] == [*shown.stats.attempts]


@given(
    st.lists(scripts(), min_size=1, max_size=3),
    st.sampled_from(["complete", "stream"]),
    st.none() | st.sampled_from([0.0, 0.5, 1.0, 5.0, 70.0]),
)
def test_the_figures_of_any_calls_follow_from_the_journal(
    tmp_path_factory: pytest.TempPathFactory, played: Sequence[Script], way: str, left: float | None
) -> None:
    path, ear = tmp_path_factory.mktemp("journal") / "calls.jsonl", Ear()

    async def call(gw: Gateway) -> None:
        with trio.move_on_after(float("inf") if left is None else left):
            if way == "complete":
                await gw.complete("x", model="m")
            else:
                async with gw.stream("x", model="m") as stream:
                    async for _ in stream:
                        await trio.sleep(0.3)

    async def main() -> None:
        async with gateway_to(*played, watched_by=[journal, ear]) as gw:
            with suppress(GatewayError):
                await call(gw)

    with Journal(path) as journal:
        run_virtual(main)
    check(read_one(path), *ear.calls)


def test_calls_that_run_at_the_same_time_share_a_journal(path: Path) -> None:
    ear = Ear()

    async def main() -> None:
        script = answer("The ", "tide ", "turns.", every_s=0.1)
        async with (
            gateway_to(script, watched_by=[journal, ear]) as gw,
            trio.open_nursery() as nursery,
        ):
            for i in range(20):
                nursery.start_soon(ask, gw, i)

    async def ask(gw: Gateway, i: int) -> None:
        await trio.sleep(i / 50)
        await gw.complete("x", model="m")

    with Journal(path) as journal:
        run_virtual(main)
    found = read_journal(path)
    assert not found.problems
    assert len(found.calls) == 20
    for call, told in zip(found.calls, ear.calls, strict=True):
        check(call, told)


# ---------------------------------------------------------------- what a journal must not do

KEY = "sk-a-key-that-nobody-may-see"
ANSWER = "a secret answer"


def keep_call(path: Path, monkeypatch: pytest.MonkeyPatch, script: Script, *, text: bool) -> str:
    """Make a call with a key, and give its journal."""
    monkeypatch.setenv("EU_KEY", KEY)

    async def main() -> None:
        async with serve_memory({"eu": ScriptedProvider(script)}) as network:
            plain = network.config(retry=RetryPolicy(max_retries=0))
            target = attrs.evolve(
                plain.targets["eu"], base_url="https://eu.invalid/v1", api_key_env="EU_KEY"
            )
            config = attrs.evolve(plain, targets={"eu": target})
            async with open_gateway(config, connect=network.connect, instruments=[journal]) as gw:
                with suppress(GatewayError):
                    await gw.complete("a secret question", model="m")

    with Journal(path, text=text) as journal:
        run_virtual(main)
    assert read_one(path).model == "m"
    return path.read_text()


def test_an_answer_is_in_the_journal_only_if_it_was_asked_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = keep_call(path, monkeypatch, answer(ANSWER), text=False)
    assert ANSWER not in told
    path.unlink()
    assert ANSWER in keep_call(path, monkeypatch, answer(ANSWER), text=True)


def test_neither_key_nor_prompt_is_in_the_journal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = keep_call(path, monkeypatch, status(401, f"bad key {KEY}"), text=True)
    assert "AuthenticationFailed" in told
    assert KEY not in told
    assert "a secret question" not in told


def test_a_journal_that_cannot_be_written_harms_no_call(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear()

    async def main() -> str:
        async with gateway_to(answer("The ", "tide."), watched_by=[journal, ear]) as gw:
            return (await gw.complete("x", model="m")).text

    with Journal(path) as journal:
        pass
    with caplog.at_level(logging.WARNING, "polygateway"):
        assert run_virtual(main) == "The tide."
    assert len(ear.calls) == 1
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{journal!r} raised")
    assert "closed before the gateway" in caplog.text
