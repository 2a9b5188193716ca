"""What a watcher sees, drawn to the character in virtual time."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import trio
from rich.console import Console

from polygateway import open_gateway
from polygateway.cli.picture import Look, Stage, summary
from polygateway.cli.scenarios import Result, Scenario, perform, scenarios
from polygateway.testing import run_virtual, serve_memory

if TYPE_CHECKING:
    from rich.console import RenderableType

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}


def paper(width: int = 80, encoding: str = "utf-8", *, terminal: bool = False) -> Console:
    """Give a console that writes into its own file."""
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    return Console(file=file, width=width, highlight=False, force_terminal=terminal)


def shown(console: Console, what: RenderableType) -> str:
    """Print something as the first thing on a console, and give what stands there then."""
    console.print(what)
    console.file.seek(0)
    return console.file.read()


def watched(name: str, console: Console, *, at: float) -> str:
    """Give the picture of a scenario so many seconds after its call."""

    async def main() -> str:
        scenario = SCENARIOS[name]
        providers = scenario.cast()
        async with serve_memory(providers) as network, trio.open_nursery() as nursery:

            async def call() -> None:
                async with open_gateway(scenario.config(network), connect=network.connect) as gw:
                    stage.result = await perform(scenario, gw, providers, stage.receive)

            stage = Stage(scenario, providers, Look.on(console))
            nursery.start_soon(call)
            await trio.sleep(at)
            picture = shown(console, stage)
            nursery.cancel_scope.cancel()
        return picture

    return run_virtual(main)


def test_a_hedged_stall_is_drawn_with_both_attempts_and_what_became_of_them() -> None:
    assert watched("stalled-hedged", paper(), at=60) == (
        "stalled-hedged\n"
        "The same, but after 0.5 s of silence us is asked too.\n"
        "  eu primary  ···━━━········· lost, closed in 0.0 ms\n"
        "  us hedge              ····━━━━━━━ won after 2.03 s\n"
        "  answer      The moon pulls the sea, and the earth turns beneath it in a day.\n"
    )


def test_while_it_lasts_a_silence_is_counted_and_the_application_has_nothing() -> None:
    # The last piece came after 0.57 s.
    assert watched("stalled-unhedged", paper(), at=2.57) == (
        "stalled-unhedged\n"
        "eu falls silent for 3 s in the middle of its answer. Hedging is off.\n"
        "  eu primary  ···━━━··················· silent for 2.0 s\n"
        "  answer      nothing yet\n"
    )


def test_a_short_pause_is_no_silence_worth_a_word() -> None:
    assert "silent for 0" not in watched("stalled-unhedged", paper(), at=0.8)


def test_a_loser_is_seen_to_be_closed_while_the_winner_goes_on() -> None:
    picture = watched("slow-start-hedged", paper(), at=1.2)
    assert "  eu primary  ········· closed\n" in picture
    assert "  answer      nothing yet\n" in picture


def test_keepalives_are_told_from_silence_and_from_text() -> None:
    assert "···━━━··~·~··~· lost" in watched("keepalives-hedged", paper(), at=60)


def test_a_stream_is_shown_as_the_application_receives_it() -> None:
    assert "  answer      The moo\n" not in watched("cut", paper(), at=0.3)
    assert "  answer      The moon\n" in watched("cut", paper(), at=0.4)


def test_a_cut_shows_the_error_beside_what_was_delivered() -> None:
    picture = watched("cut", paper(), at=60)
    assert "  eu primary  ···━━━ failed: Truncated\n" in picture
    assert "  answer      The moon pulls the sea, and\n" in picture
    assert "  error       StreamBroken: " in picture


def test_an_answer_that_goes_on_elsewhere_is_shown_as_one() -> None:
    picture = watched("cut-continued", paper(), at=60)
    assert "  eu primary  ···━━━ failed: Truncated\n" in picture
    assert "  us retry         ····━━━━ won after 1.26 s\n" in picture
    assert (
        "  answer      The moon pulls the sea, and the earth turns beneath it in a day.\n"
        in picture
    )


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    assert max(map(len, watched(name, paper(width), at=60).splitlines())) <= width


def test_a_narrow_terminal_gets_half_the_scale() -> None:
    assert "one column is 0.1 s" in shown(paper(80), Look.on(paper(80)).legend())
    assert "one column is 0.2 s" in shown(paper(60), Look.on(paper(60)).legend())


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_output_without_unicode_gets_ascii(name: str) -> None:
    assert watched(name, paper(encoding="ascii"), at=60).isascii()


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_output_that_is_no_terminal_gets_plain_lines(name: str) -> None:
    assert "\x1b" not in watched(name, paper(), at=60)


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    coloured = watched("cut", paper(terminal=True), at=60)
    monkeypatch.setenv("NO_COLOR", "1")  # https://no-color.org
    plain = watched("cut", paper(terminal=True), at=60)
    assert "\x1b[32m" in coloured
    assert "\x1b[32m" not in plain


def results() -> list[Result]:
    return [result_of(scenario) for scenario in SCENARIOS.values()]


def result_of(scenario: Scenario) -> Result:
    async def main() -> Result:
        providers = scenario.cast()
        async with (
            serve_memory(providers) as network,
            open_gateway(scenario.config(network), connect=network.connect) as gw,
        ):
            return await perform(scenario, gw, providers, lambda _: None)

    return run_virtual(main)


def test_the_table_tells_each_calls_figures() -> None:
    assert [line.rstrip() for line in shown(paper(), summary(results(), 80)).splitlines()] == [
        "                                       active                           loser",
        "scenario            total   stall  generation  attempts  winner        closed",
        "─" * 78,
        "stalled-unhedged   3.96 s  3.03 s      0.60 s         1  eu (primary)       -",
        "stalled-hedged     2.03 s  0.00 s      0.63 s         2  us (hedge)    0.0 ms",
        "keepalives-hedged  2.03 s  0.00 s      0.63 s         2  us (hedge)    0.0 ms",
        "slow-start-hedged  1.46 s  0.00 s      0.63 s         2  us (hedge)    0.0 ms",
        "cut                0.57 s  0.00 s      0.24 s         1  StreamBroken       -",
        "cut-continued      1.26 s  0.00 s      0.36 s         2  us (retry)         -",
    ]


def test_where_the_table_does_not_fit_each_call_gets_a_paragraph() -> None:
    told = " ".join(shown(paper(50), summary(results(), 50)).split())
    assert (
        "stalled-hedged: total 2.03 s, stall 0.00 s, active generation 0.63 s,"
        " attempts 2, winner us (hedge), loser closed 0.0 ms"
    ) in told
