"""Recorded calls drawn with characters, compared character by character."""

# ruff: noqa: RUF001 - what looks like a letter here is a shape

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from polygateway.cli.console import Console
from polygateway.cli.timeline_terminal import Sheet
from polygateway.observe.drawing.words import columns
from tests.observe.gallery import GALLERY
from tests.observe.staged import Content, attempt, call, seam

if TYPE_CHECKING:
    from polygateway.observe.records import RecordedCall
    from polygateway.stats import ContentKind


def paper(width: int = 80, encoding: str = "utf-8", *, colour: bool = False) -> Console:
    """Give a console that writes into its own file."""
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    return Console(file=file, width=width, highlight=False, force_terminal=colour)


def shown(recorded: RecordedCall, console: Console) -> list[str]:
    for line in Sheet.on(console, recorded).lines():
        console.print(line, soft_wrap=True)
    console.file.seek(0)
    return [line.rstrip() for line in console.file.read().splitlines()]


def test_a_hedged_stall_is_drawn_to_the_column() -> None:
    # The lanes have 60 columns, from 0 to 59: one of them is a second.
    stalled = attempt(
        0,
        [Content(at) for at in range(2, 11)],
        30,
        outcome="lost",
        end_kind="cancelled",
        cancel_reason="lost a duel",
        closing_ms=0.8,
    )
    hedge = attempt(
        1,
        [*(Content(at) for at in range(30, 41)), Content(46, keepalives=3), Content(47)],
        59,
        started=15,
        target="us",
        kind="hedge",
        reason="stall",
    )
    lines = shown(call(stalled, hedge, total=59, commit=30), paper(79))
    assert lines[:9] == [
        "fast: complete after 59.0 s",
        "2026-03-04T05:06:07.890Z · stream · call 17 of run 5f3a9c · lyra-3 · finish re…",
        "",
        "0 eu primary       ▸·█████████╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱×",
        "1 us hedge (stall)                ▸··············███████████∴∴∴∴∴██···········✓",
        "                   0                   20 s                40 s",
        "                                                 ^ commit 30.0 s",
        "▸ launch   · wait   █ text   ╱ stall: nothing came   ∴ stall: only keep-alives",
        "✓ won   × lost",
    ]


def test_a_seam_is_marked_in_the_lane_of_the_attempt_that_took_over() -> None:
    # The lanes have 60 columns, from 0 to 59: one of them is a second.
    stalled = attempt(
        0,
        [Content(at) for at in range(2, 11)],
        30,
        outcome="lost",
        end_kind="cancelled",
        cancel_reason="lost the race",
    )
    broken = attempt(
        1,
        [Content(at) for at in range(30, 41)],
        41,
        started=15,
        target="us",
        kind="hedge",
        reason="stall",
        outcome="failed",
        end_kind="cut",
    )
    whole = attempt(2, [Content(at) for at in range(44, 58)], 59, started=41, kind="retry")
    seams = [seam("restart", 0, 1, 30), seam("continue", 1, 2, 44)]
    lines = shown(call(stalled, broken, whole, total=59, commit=2, seams=seams), paper(79))
    assert lines[3:12] == [
        "0 eu primary       ▸·█████████╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱╱×",
        "1 us hedge (stall)                ▸··············↻██████████!",
        "2 eu retry                                                  ▸··»█████████████·✓",
        "                   0                   20 s                40 s",
        "                     ^ commit 2.00 s",
        "                                                 ^ seam 30.0 s",
        "                                                               ^ seam 44.0 s",
        "▸ launch   · wait   █ text   ╱ stall: nothing came   » seam: went on",
        "↻ seam: began anew   ✓ won   × lost   ! failed",
    ]


def test_kinds_of_content_and_backpressure_have_characters_of_their_own() -> None:
    # 13 columns of label, and 60 for 59 s.
    kinds: tuple[ContentKind, ...] = ("reasoning", "reasoning", "text", "tool_call", "refusal")
    content = [Content(2 * at, kind) for at, kind in enumerate(kinds, 2)]
    only = attempt(
        0,
        [*content, Content(20, held=8), Content(24, held=0)],
        59,
        outcome="failed",
        end_kind="cut",
        threshold=6,
    )
    lines = shown(call(only, total=59, outcome="failed"), paper(73))
    assert lines[3] == "0 eu primary ▸···▄─▄─█─▀─▞_______█───█╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳!"
    assert lines[5:8] == [
        "▸ launch   · wait   ─ between content   █ text   ▄ reasoning",
        "▀ tool call   ▞ refusal   ╳ silence, then cut off   _ backpressure",
        "! failed",
    ]


def test_a_stall_is_seen_however_long_the_call() -> None:
    content = [*(Content(at) for at in range(1, 300)), Content(301.5), Content(302)]
    lines = shown(call(attempt(0, content, 600, threshold=2.5), total=600), paper(80))
    assert lines[3].count("╱") == 1


def test_an_attempt_still_running_has_no_end() -> None:
    lines = shown(call(attempt(0, [Content(1)], 2, outcome=None), total=2), paper(40))
    assert lines[3] == "0 eu primary ▸············█············"


def test_figures_stand_in_a_column_for_the_call_and_for_each_attempt() -> None:
    lines = shown(GALLERY["rescued"](), paper(80))
    start = lines.index("              call         0 eu       1 us")
    assert lines[start + 1 : start + 11] == [
        "ttft          50.0 s       1.60 s     1.80 s",
        "generation    8.98 s       7.80 s     8.98 s",
        "stall         2.60 s       0 ms       2.60 s",
        "active        6.38 s       7.80 s     6.38 s",
        "backpressure  0 ms         0 ms       0 ms",
        "longest gap   2.60 s       50.0 ms    2.60 s",
        "tail          1.02 s       40.6 s     1.02 s",
        "total         60.0 s       50.0 s     11.8 s",
        "tokens        400          -          400",
        "tokens/s      61.9 active  truncated  61.9 active",
    ]


def test_where_the_columns_do_not_fit_figures_are_told_in_paragraphs() -> None:
    told = " ".join(shown(GALLERY["odyssey"](), paper(60)))
    assert "1 us: ttft 3.00 s, generation 41.8 s, stall 0 ms, active 41.8 s," in told


def test_notes_stand_at_the_end() -> None:
    lines = shown(GALLERY["rescued"](), paper(120))
    assert lines[-2:] == [
        (
            "0 eu cancelled (lost a duel), closed 0.80 ms later;"
            " cost in vain: tokens 12 in, 157 out (estimate), 628 characters"
        ),
        "saved by the hedge, an estimate: 40.6 s",
    ]


def test_a_late_commit_is_named_on_its_left() -> None:
    lines = shown(GALLERY["rescued"](), paper(80))
    (line,) = [line for line in lines if "^" in line]
    assert line.endswith("commit 60.0 s ^")
    assert len(line) == 80


@pytest.mark.parametrize("name", GALLERY)
@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 300])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    # Below 40 columns nothing can be read any more, and above 140 eyes lose the line.
    lines = shown(GALLERY[name](), paper(width))
    assert max(map(columns, lines)) <= min(max(width, 40), 140)


@pytest.mark.parametrize("name", GALLERY)
def test_an_output_without_unicode_gets_ascii(name: str) -> None:
    assert all(line.isascii() for line in shown(GALLERY[name](), paper(encoding="ascii")))


def test_in_ascii_marks_can_still_be_told_apart() -> None:
    lines = shown(GALLERY["odyssey"](), paper(100, "ascii"))
    assert lines[4].split("(stall)")[1].strip() == ">==####::::::::::::::::::x"


def test_an_output_that_is_no_terminal_gets_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    recorded = GALLERY["rescued"]()
    assert any("\x1b[31m" in line for line in shown(recorded, paper(colour=True)))
    assert not any("\x1b" in line for line in shown(recorded, paper()))


def test_hostile_text_cannot_move_the_cursor() -> None:
    text = "\x1b[2J\x07\u202e\r\n[red]x[/red]"
    failed = attempt(0, [], 2, target=text, outcome="failed", error=("transient", text))
    lines = shown(call(failed, total=2, outcome="failed", error=(text, text), model=text), paper())
    assert all(line.isprintable() for line in lines)
    assert "[red]x[/red]" in " ".join(lines)
