"""What a reader sees, to the character, and what a program reads."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import attrs
import pytest
import trio
from rich.console import Console

from polygateway import open_gateway
from polygateway.cli.probing.load import Load
from polygateway.cli.probing.progress import Progress
from polygateway.cli.probing.record import record
from polygateway.cli.probing.result import result
from polygateway.cli.probing.table import method, report
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    hang,
    run_virtual,
    serve_memory,
    silence,
    status,
)
from tests.cli.probes import QUICKLY, each_by_itself, measured

if TYPE_CHECKING:
    from rich.console import RenderableType

    from polygateway.cli.probing.result import Result
    from polygateway.testing import Script

PIECES = tuple("abcdefghijk")
GOOD = (silence(0.5), *answer(*PIECES, every_s=0.1))
"""Its first content comes after 0.6 s, and then ten tokens in a second."""

STALLS = (*GOOD[:10], silence(2.9), *GOOD[10:])
"""The same, but for a gap of 3 s."""


def shown(what: RenderableType, width: int = 80) -> str:
    """Print something, and give what stands there without the blanks at the ends of lines."""
    file = io.StringIO()
    Console(file=file, width=width, highlight=False).print(what)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def twenty() -> Result:
    scripts = [*[GOOD] * 17, STALLS, (silence(0.5), chunk("a"), chunk("b"), cut()), status(500)]
    plan = attrs.evolve(QUICKLY, requests=20, warmup=1)
    return measured(ScriptedProvider(GOOD, *scripts), plan)


def test_a_target_is_told_of_in_eighty_columns() -> None:
    assert (
        shown(report(twenty(), 80))
        == """\
eu   scripted (openai-chat) at http://eu.invalid/v1
20 of 20 requests, 1 at once, after 1 for warm-up, in 32.2 s

whole        18 of 20  90.0%  69.9-97.2%
truncated     1 of 20   5.0%   0.9-23.6%  content, but no proper end
failed        1 of 20   5.0%   0.9-23.6%  no content
stalled       1 of 19   5.3%   0.9-24.6%  silent for 2 s or more
stall share            14.4%              of the time of generation

                     n          p50      p90     p95      p99  worst
─────────────────────────────────────────────────────────────────────
first content, s    19        0.600    0.600       -        -  0.600
                        0.600-0.600  0.600-?  n < 20  n < 100
whole answer, s     18         1.60     1.60       -        -   4.50
                          1.60-1.60   1.60-?  n < 20  n < 100
longest silence, s  19        0.100    0.100       -        -   3.00
                        0.100-0.100  0.100-?  n < 20  n < 100
tokens/s, active    17         10.0     10.0       -        -   10.0
                          10.0-10.0   ?-10.0  n < 20  n < 100
tokens/s, at least   1            -        -       -        -   2.56
                              n < 2   n < 10  n < 20  n < 100
tokens/s by basis, or why there is none: 17 active, 1 wall_lower_bound, 1 burst,
  1 empty
1 x Truncated: target 'eu' cut its answer after 2 chunks, without its proper
  end: closed by the peer
1 x ServerError: target 'eu' answered 500: scripted status 500
load generator: 0% of a core
"""
    )


def test_where_the_table_does_not_fit_there_are_sentences() -> None:
    lines = shown(report(twenty(), 60), 60)
    assert "first content, s: n 19, p50 0.600 (0.600-0.600), p90 0.600\n" in lines
    assert "(0.600-?), p95 - (n < 20), p99 - (n < 100), worst 0.600\n" in lines
    assert max(map(len, lines.splitlines())) <= 60


def test_no_line_is_longer_than_the_terminal_is_wide() -> None:
    result = twenty()
    for width in (40, 78, 80, 120):
        assert max(map(len, shown(report(result, width), width).splitlines())) <= width


def told_of(label: str, result: Result) -> tuple[list[str], list[str]]:
    """Give the words of a row of the table, and of the row of intervals below it."""
    lines = shown(report(result, 80)).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith(label))
    return lines[at].removeprefix(label).split(), lines[at + 1].split()


def test_times_from_the_due_time_are_told_where_they_are_others() -> None:
    provider = ScriptedProvider(GOOD)
    at_ease = measured(provider, attrs.evolve(QUICKLY, rate=0.5, slots=9))
    behind = measured(provider, attrs.evolve(QUICKLY, rate=5.0))
    assert "from its due time" not in shown(report(at_ease, 80))
    told = shown(report(behind, 80))
    assert told.count("  from its due time, s  4  ") == 2
    assert (
        "the load generator was a bottleneck: 3 of 4 requests waited for one of 1 slots,\n"
        "  the longest for 4.20 s\n"
        "load generator: 0% of a core, latest start 0.0 ms after it was due\n"
    ) in told


def test_times_under_a_second_are_milliseconds() -> None:
    quick = measured(ScriptedProvider(answer("a", "b", every_s=0.01)), QUICKLY)
    values, intervals = told_of("whole answer, ms", quick)
    assert values == ["4", "20.0", "-", "-", "-", "20.0"]
    assert " ".join(intervals) == "? n < 10 n < 20 n < 100"


def test_what_was_given_up_is_marked_and_bounds_the_tail_from_below_only() -> None:
    provider = ScriptedProvider(*[GOOD] * 5, *[[hang()]] * 5)
    plan = attrs.evolve(QUICKLY, requests=10, options={"deadline_s": 60.0})
    values, intervals = told_of("first content, s", measured(provider, plan))
    assert values == ["10", "0.600", ">=60.0", "-", "-", ">=60.0"]
    assert intervals[:2] == ["0.600-?", "60.0-?"]


def test_an_endpoint_that_sends_whole_documents_has_a_latency_and_no_speed() -> None:
    document = status(200, {"choices": [{"index": 0, "message": {"content": "Yes."}}]})
    told = shown(report(measured(ScriptedProvider((silence(1), *document)), QUICKLY), 80))
    assert "whole answer, s  4  " in told
    assert "first content" not in told
    assert "tokens/s by basis, or why there is none: 4 not_streamed" in told


def test_without_any_content_there_is_no_table_of_times() -> None:
    told = shown(report(measured(ScriptedProvider(status(500)), QUICKLY), 80))
    assert "failed       4 of 4  100.0%  51.0-100.0%" in told
    assert "stalled      0 of 0       -" in told
    assert "p50" not in told


def stopped(after_s: float, *, warmup: int = 0) -> Result:
    """Give what is known of a load that was stopped."""

    async def main() -> Result:
        async with serve_memory({"eu": ScriptedProvider(GOOD, [chunk("a"), hang()])}) as network:
            config = each_by_itself(network.config())
            async with open_gateway(config, connect=network.connect) as gateway:
                load = Load(gateway, "eu", attrs.evolve(QUICKLY, warmup=warmup), lambda: 0.0)
                with trio.move_on_after(after_s):
                    await load.run()
        return result(load, config)

    return run_virtual(main)


def test_of_what_was_stopped_it_is_told_how_long_it_had_run() -> None:
    told = shown(report(stopped(57.6), 80))
    assert "1 of 4 requests, 1 at once, after 0 for warm-up, in 57.6 s\n" in told
    assert "whole        1 of 1  100.0%" in told
    assert "1 x not finished when the probe stopped, the longest after 56.0 s; not counted" in told


@pytest.mark.parametrize("warmup", [2, 0])
def test_before_the_first_end_there_is_no_table(warmup: int) -> None:
    told = shown(report(stopped(0.3 if not warmup else 30.0, warmup=warmup), 80)).splitlines()
    when = "stopped before the first" if warmup else "in 0.3 s"
    assert told[1] == f"0 of 4 requests, 1 at once, after {warmup} for warm-up, {when}"
    assert told[2].startswith("1 x not finished when the probe stopped, the longest after ")
    assert not any("whole" in line for line in told)


def test_a_hostile_provider_cannot_work_the_terminal() -> None:
    evil = status(500, {"error": {"message": "\x1b]0;title\x07 [red]no"}})
    provider = ScriptedProvider(GOOD, evil)
    told = shown(report(measured(provider, QUICKLY), 200), 200)
    assert "\x1b" not in told
    assert "\x07" not in told
    assert "[red]no" in told


def test_the_method_names_how_percentiles_and_intervals_were_computed() -> None:
    told = shown(method(80))
    for word in ("nearest rank", "order statistics", "Wilson", "95%"):
        assert word in told


# ---------------------------------------------------------------- JSON


def test_json_has_everything_and_no_number_that_is_none() -> None:
    (told,) = json.loads(json.dumps(record([twenty()]), allow_nan=False))["targets"]
    assert (told["target"], told["model"], told["dialect"]) == ("eu", "scripted", "openai-chat")
    assert told["base_url"] == "http://eu.invalid/v1"
    assert (told["plan"]["requests"], told["plan"]["warmup"], told["plan"]["slots"]) == (20, 1, 1)
    assert told["shares"]["truncated"]["count"] == 1
    assert told["shares"]["whole"]["interval"] == pytest.approx([0.699, 0.972], abs=5e-4)
    ttft = told["figures"]["ttft_ms"]
    assert (ttft["n"], ttft["p95"], ttft["p99"]) == (19, None, None)
    assert ttft["p50"] == {"value": 600.0, "at_least": False, "low": 600.0, "high": 600.0}
    assert ttft["p90"]["high"] is None
    assert told["speeds"] == {"active": 17, "wall_lower_bound": 1, "burst": 1, "empty": 1}
    assert told["verdict"] is None
    assert told["generator"]["bottleneck"] == []


def test_json_has_the_figures_of_every_request() -> None:
    (told,) = json.loads(json.dumps(record([twenty()])))["targets"]
    assert [each["index"] for each in told["samples"]] == list(range(20))
    whole, stalled, cut_off, refused = (told["samples"][index] for index in (0, 17, 18, 19))
    assert (whole["outcome"], whole["finish_reason"]) == ("whole", "stop")
    assert whole["stats"]["generation_ms"] == pytest.approx(1000)
    assert stalled["stats"]["stall_ms"] == pytest.approx(3000)
    assert (cut_off["outcome"], cut_off["error"]) == ("truncated", "Truncated")
    assert refused["error_text"] == "target 'eu' answered 500: scripted status 500"
    assert refused["stats"]["status"] == 500


# ---------------------------------------------------------------- progress


def progress(*scripts: Script, at: float, warmup: int = 0) -> str:
    """Give what a watcher sees so many seconds after the begin."""

    async def main() -> str:
        async with serve_memory({"eu": ScriptedProvider(*scripts)}) as network:
            config = each_by_itself(network.config())
            async with (
                open_gateway(config, connect=network.connect) as gateway,
                trio.open_nursery() as nursery,
            ):
                load = Load(gateway, "eu", attrs.evolve(QUICKLY, warmup=warmup, slots=2))
                nursery.start_soon(load.run)
                await trio.sleep(at)
                line = shown(Progress(load))
                nursery.cancel_scope.cancel()
        return line

    return run_virtual(main)


def test_a_watcher_sees_how_far_it_is() -> None:
    scripts = (GOOD, status(500), GOOD)
    assert progress(*scripts, at=1.7) == (
        "eu   3 of 4 requests   1 running   1 failed, 2 whole   1.7 s"
    )
    assert progress([hang()], at=55.0) == "eu   0 of 4 requests   2 running   55.0 s"


def test_a_watcher_sees_that_it_is_only_the_warm_up() -> None:
    assert progress([hang()], at=3.0, warmup=1) == "eu   0 of 1 for warm-up   1 running   3.0 s"
    assert progress(GOOD, at=2.0, warmup=1) == "eu   0 of 4 requests   2 running   0.4 s"
