"""``polygateway timeline`` on journals that a real gateway wrote, in virtual time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from polygateway import open_gateway
from polygateway.cli.app import run
from polygateway.cli.scenarios import perform, scenarios
from polygateway.observe.journal import Journal
from polygateway.testing import run_virtual, serve_memory
from tests.observe.geometry import of_class, read, rectangle, subpaths, title

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}


def write(path: Path, names: Iterable[str]) -> str:
    """Play scenarios in a run of their own, and give its name. Their calls are numbered from 1."""

    async def main() -> str:
        with Journal(path) as journal:
            for name in names:
                scenario = SCENARIOS[name]
                providers = scenario.cast()
                async with (
                    serve_memory(providers) as network,
                    open_gateway(
                        scenario.config(network), connect=network.connect, instruments=[journal]
                    ) as gw,
                ):
                    await perform(scenario, gw, providers, lambda _: None)
            return journal.run

    name = run_virtual(main)
    number_from_1(path, name)
    return name


def number_from_1(path: Path, name: str) -> None:
    """Number the calls of a run as they are in a process that made no calls before."""
    lines = [json.loads(line) for line in path.read_text("ascii").splitlines()]
    numbers = sorted({line["call"] for line in lines if line["run"] == name})
    for line in lines:
        if line["run"] == name:
            line["call"] = numbers.index(line["call"]) + 1
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "ascii")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "calls.jsonl"
    write(path, SCENARIOS)
    return path


@pytest.fixture(autouse=True)
def _a_wide_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Give the lines on standard output; nothing was said on standard error."""
    out, err = capsys.readouterr()
    assert err == ""
    return [line.rstrip() for line in out.splitlines()]


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """Give what was said on standard error; nothing was said on standard output."""
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_it_lists_all_calls_and_draws_the_last(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["timeline", str(journal)]) == 0
    lines = said(capsys)
    assert lines[0].split() == [
        *("call", "started", "model", "outcome", "total", "ttft", "stall", "attempts"),
    ]
    assert [line.split()[0] for line in lines[1:7]] == ["1", "2", "3", "4", "5", "6"]
    assert lines[1].endswith("m      complete            3.96 s  330 ms  3.03 s  eu won")
    assert lines[2].endswith("2.03 s  1.40 s  0 ms    eu lost, us won")
    assert lines[6].endswith("1.26 s  900 ms  0 ms    eu failed (transient), us won")
    assert lines[7:9] == ["", "m: complete after 1.26 s"]


def test_one_call_can_be_drawn_alone(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["timeline", str(journal), "--call", "2"]) == 0
    lines = said(capsys)
    assert lines[0] == "m: complete after 2.03 s"
    # The primary begins at 0.33 s and falls silent at 0.57; the hedge starts half a second later.
    assert lines[3].startswith("0 eu primary")
    assert lines[4].startswith("1 us hedge (stall)")


def test_svg_and_html_are_written_and_named(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg, html = tmp_path / "call.svg", tmp_path / "calls.html"
    assert run(["timeline", str(journal), "--svg", str(svg), "--html", str(html)]) == 0
    first, second = said(capsys)
    assert first.startswith(f"{svg}: call 6 of run ")
    assert second == f"{html}: 6 calls"
    assert svg.read_text("utf-8").startswith("<svg ")
    assert html.read_text("utf-8").count("<section") == 6


def test_a_chosen_call_is_the_one_in_the_file(journal: Path, tmp_path: Path) -> None:
    svg, html = tmp_path / "call.svg", tmp_path / "calls.html"
    chosen = ["timeline", str(journal), "--call", "1"]
    assert run([*chosen, "--svg", str(svg)]) == run([*chosen, "--html", str(html)]) == 0
    assert "complete after 3.96 s" in svg.read_text("utf-8")
    assert html.read_text("utf-8").count("<section") == 1


def test_what_a_real_call_went_through_is_drawn_where_it_was(journal: Path, tmp_path: Path) -> None:
    # The primary's last content comes after 0.57 s. After 0.5 s of silence the hedge is launched,
    # and its first content, 0.33 s later, decides the duel. The answer is whole after 2.03 s.
    svg = tmp_path / "call.svg"
    assert run(["timeline", str(journal), "--call", "2", "--svg", str(svg)]) == 0
    primary, hedge = of_class(read(svg.read_text("utf-8")), "lane")

    def at(seconds: float) -> float:
        return 206 + 714 * seconds / 2.03

    (silence,) = of_class(primary, "stall")
    box = rectangle(silence)
    assert (box.left, box.right) == pytest.approx((at(0.57), at(1.4)), abs=0.02)
    assert silence.get("stroke-dasharray") == "4 3"
    (launch,) = of_class(hedge, "launch")
    assert subpaths(launch.attrib["d"])[0].left == pytest.approx(at(1.07), abs=0.02)
    assert [title(end) for lane in (primary, hedge) for end in of_class(lane, "end")] == [
        "lost after 1.40 s",
        "won after 2.03 s",
    ]


def test_several_runs_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "calls.jsonl"
    first, second = write(path, ["cut"]), write(path, ["cut", "stalled-hedged"])
    assert run(["timeline", str(path)]) == 0
    lines = said(capsys)
    assert lines[0].split()[:2] == ["run", "call"]
    assert [line.split()[:2] for line in lines[1:4]] == [[first, "1"], [second, "1"], [second, "2"]]
    assert run(["timeline", str(path), "--run", second[:6]]) == 0
    assert [line.split()[0] for line in said(capsys)[1:3]] == ["1", "2"]


def test_a_number_that_several_runs_have_is_not_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "calls.jsonl"
    first, second = write(path, ["cut"]), write(path, ["stalled-hedged"])
    assert run(["timeline", str(path), "--call", "1"]) == 2
    assert complaint(capsys) == (
        f"polygateway: 2 runs have a call 1: choose one with --run, as of {first}, {second}\n"
    )
    assert run(["timeline", str(path), "--call", "1", "--run", second]) == 0
    assert said(capsys)[0].startswith("m: complete")


def test_lines_that_cannot_be_read_are_told_and_the_rest_is_drawn(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[2:2] = [b'{"v": 99, "type": "call"}\n', b"\x1b[2J\n"]
    journal.write_bytes(b"".join(lines) + lines[-1][:40])
    assert run(["timeline", str(journal)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[6].split()[0] == "6"
    told = err.splitlines()
    assert [line.split(":")[1] for line in told] == [
        " line 3",
        " line 4",
        f" line {len(lines) + 1}",
    ]
    assert all(line.startswith(f"{journal}: line ") for line in told)
    assert "\x1b" not in err


def test_a_call_whose_process_died_is_told(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *lines, _ = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines))
    assert run(["timeline", str(journal)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[5].split()[0] == "5"
    assert err.startswith(f"{journal}: call 6 of run ")
    assert err.endswith(" has not ended, or its process died in it\n")


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ([], "call"),
        (["--call", "9"], "call 9"),
        (["--run", "zz"], "call of a run zz"),
        (["--run", "zz", "--call", "9"], "call 9 of a run zz"),
    ],
)
def test_a_call_that_is_not_there_is_the_users_to_mend(
    journal: Path, capsys: pytest.CaptureFixture[str], options: list[str], missing: str
) -> None:
    if not options:
        journal.write_bytes(b"")
    assert run(["timeline", str(journal), *options]) == 2
    told = f"polygateway: {journal} tells of no {missing} that has ended\n"
    assert complaint(capsys) == told


def test_a_journal_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "calls.jsonl"
    assert run(["timeline", str(path)]) == 2
    assert complaint(capsys) == f"polygateway: cannot read {path}: No such file or directory\n"


@pytest.mark.parametrize("option", ["--svg", "--html"])
def test_a_file_that_cannot_be_written_is_named(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert run(["timeline", str(journal), option, str(tmp_path)]) == 2
    assert complaint(capsys) == f"polygateway: cannot write {tmp_path}: Is a directory\n"


def test_a_pipe_gets_lines_of_any_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = tmp_path / "calls.jsonl"
    write(path, ["stalled-hedged", "cut"])
    assert run(["timeline", str(path)]) == 0
    assert said(capsys)[1].endswith("eu lost, us won")
