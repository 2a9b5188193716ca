"""Whether the figures are true: measured by polygateway, against what a server truly wrote.

The server (``upstream.py``) is a process of its own and logs each write, by the same clock. Every
schedule is asked for by ``complete()`` and by ``stream()``; then by a consumer that takes a second
for each chunk, by one that computes in a silence, beside a task that blocks the event loop for a
second, and in a race. ``python benchmarks/check_accuracy.py [--rounds N]`` takes three minutes; it
prints what was measured, what is true, and their difference, each at the median of the rounds. The
exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs
import trio

from polygateway import (
    AttemptStats,
    CallStats,
    Config,
    Gateway,
    GatewayError,
    HedgePolicy,
    RetryPolicy,
    StreamPolicy,
    Target,
    open_gateway,
)
from polygateway.observe import Journal, RecordedCall, figures_of, read_journal
from polygateway.stats import StreamFigures

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

Manner = Literal["complete", "stream", "slow consumer", "busy consumer", "blocked loop", "race"]
Work: TypeAlias = Callable[[int], float]
"""What a consumer does when so many chunks have come. Gives how long it then sleeps, in seconds."""

THRESHOLD_MS = 500
GOALS_MS = {"decode": 5.0, "first content": 10.0, "stalls": 15.0}

PLAIN = (
    *("no-chunk", "one-chunk", "two-in-one-write", "five-tokens-a-chunk", "reasoning-first"),
    *("usage-at-the-end", "steady-20", "steady-50", "one-stall", "two-stalls"),
    *("stalled-then-ended", "stalled-then-cut", "stalled-but-alive", "mixed"),
)
SLOWLY = ("every-500", "every-500-but-once")
BLOCKED = ("steady-20", "silent-later")
RACES = {"race": "hanging", "race-counting": "hanging-and-counting"}

CHUNKS_BEFORE_SILENCE = 75
"""Of the schedule ``silent-later``."""


@attrs.frozen
class Write:
    """A line of the server's log; see ``upstream.py``."""

    request: str
    model: str
    at_ns: int
    content: int
    characters: int
    ended: str | None


@attrs.frozen
class Call:
    """What polygateway says of a call."""

    schedule: str
    manner: Manner
    called_ns: int
    asked_ns: Sequence[int]
    """When the consumer asked for each chunk; empty if it did at once."""

    figures: CallStats | AttemptStats
    """Those of its attempt, if the call failed."""

    attempts: Sequence[AttemptStats]


@attrs.frozen
class Seen:
    """The figures of a stream: measured, or true."""

    decode: float | None
    first_content: float | None
    stalls: Mapping[tuple[int, bool], float]
    """How long, by the position of the chunk before it, and whether it is open."""


# ---------------------------------------------------------------- what is true


def truth(writes: Sequence[Write], call: Call) -> Seen:
    """Give the figures of a stream as the server knows them."""
    content = [write for write in writes if write.content]
    if not content:
        return Seen(None, None, {})
    first, last = content[0].at_ns, content[-1].at_ns
    decode = (last - first) / 1e6 if sum(write.content for write in content) > 1 else None
    return Seen(decode, (first - call.called_ns) / 1e6, dict(_stalls(writes, call.asked_ns)))


def _stalls(
    writes: Sequence[Write], asked_ns: Sequence[int]
) -> Iterator[tuple[tuple[int, bool], float]]:
    """Find the gaps in which the consumer had to wait for at least the threshold."""
    chunks, before_ns = 0, math.inf
    for write in writes:
        is_open = write.ended == "cut"
        if write.content or is_open:
            since_ns = max(before_ns, asked_ns[chunks] if asked_ns else 0)
            waited_ms = (write.at_ns - since_ns) / 1e6
            if waited_ms >= THRESHOLD_MS:
                yield (chunks - 1, is_open), waited_ms
            chunks, before_ns = chunks + write.content, write.at_ns


def measured(call: Call) -> Seen:
    """Give the same figures as polygateway has them."""
    figures = call.figures
    stalls = {(stall.after_chunk, stall.open): stall.duration_ms for stall in figures.stalls}
    return Seen(figures.generation_ms, figures.ttft_ms, stalls)


def differences(found: Seen, true: Seen) -> dict[str, float]:
    """Give how far off each figure is, in milliseconds; infinitely if it was invented or missed."""
    off = math.inf
    if found.stalls.keys() == true.stalls.keys():
        off = max([abs(found.stalls[key] - true.stalls[key]) for key in true.stalls], default=0)
    return {
        "decode": _difference(found.decode, true.decode),
        "first content": _difference(found.first_content, true.first_content),
        "stalls": off,
    }


def _difference(found: float | None, true: float | None) -> float:
    if found is None or true is None:
        return 0 if found is true else math.inf
    return abs(found - true)


# ---------------------------------------------------------------- calls


class Caller:
    """Makes calls, and keeps what is said of them."""

    def __init__(self, gw: Gateway) -> None:
        self._gw = gw
        self.calls: list[Call] = []

    async def complete(self, schedule: str, manner: Manner = "complete") -> None:
        """Ask for a whole answer."""
        called = time.monotonic_ns()
        try:
            stats = (await self._gw.complete("x", model=schedule)).stats
        except GatewayError as error:
            self._keep(schedule, manner, called, error.attempts[-1], error.attempts)
        else:
            self._keep(schedule, manner, called, stats, stats.attempts)

    async def stream(
        self, schedule: str, manner: Manner = "stream", work: Work | None = None
    ) -> None:
        """Take an answer chunk by chunk, and do some *work* after each of them."""
        called = time.monotonic_ns()
        asked = [called] if work else []
        async with self._gw.stream("x", model=schedule) as stream:
            try:
                async for _ in stream:
                    if work:
                        if pause_s := work(stream.stats.chunk_count):
                            await trio.sleep(pause_s)
                        asked.append(time.monotonic_ns())
            except GatewayError:
                pass
        self._keep(schedule, manner, called, stream.stats, stream.stats.attempts, asked)

    async def race(self, model: str) -> None:
        """Ask a target that hangs, and be rescued by another."""
        called = time.monotonic_ns()
        policy = HedgePolicy(stall_after_s=0.6)
        stats = (await self._gw.complete("x", model=model, hedge_policy=policy)).stats
        self._keep(model, "race", called, stats, stats.attempts)

    def _keep(
        self,
        schedule: str,
        manner: Manner,
        called_ns: int,
        figures: CallStats | AttemptStats,
        attempts: Sequence[AttemptStats],
        asked_ns: Sequence[int] = (),
    ) -> None:
        self.calls.append(Call(schedule, manner, called_ns, asked_ns, figures, attempts))


def rest(_: int) -> float:
    """Take a second for every chunk."""
    return 1.0


def compute(chunks: int) -> float:
    """Block the loop when so many chunks have come that a silence has begun."""
    if chunks == CHUNKS_BEFORE_SILENCE:
        block(0.4)
    return 0.0


def block(seconds: float) -> None:
    """Keep the event loop from everything else."""
    time.sleep(seconds)


async def call_all(gw: Gateway, rounds: int) -> Sequence[Call]:
    """Make every call so often: the same one never twice at a time."""
    caller = Caller(gw)

    async def again(schedule: str, delay_s: float) -> None:
        await trio.sleep(delay_s)
        for _ in range(rounds):
            if schedule in SLOWLY:
                await caller.stream(schedule, "slow consumer", rest)
            elif schedule in RACES:
                await caller.race(schedule)
            else:
                await caller.complete(schedule)
                await caller.stream(schedule)

    async with trio.open_nursery() as nursery:
        for number, schedule in enumerate([*PLAIN, *SLOWLY, *RACES]):
            nursery.start_soon(again, schedule, number / 10)
    # Alone, for a blocked loop is late for everybody.
    for _ in range(rounds):
        async with trio.open_nursery() as nursery:
            for schedule in BLOCKED:
                nursery.start_soon(caller.stream, schedule, "blocked loop")
                nursery.start_soon(caller.complete, schedule, "blocked loop")
            await trio.sleep(0.5)
            block(1.0)
        await caller.stream("silent-later", "busy consumer", compute)
    return caller.calls


# ---------------------------------------------------------------- verdicts


@attrs.frozen
class Verdict:
    """What became of a goal."""

    what: str
    manner: str
    figure: str
    measured: str
    true: str
    difference: str
    goal: str
    is_met: bool


def judge(calls: Iterable[Call], log: Mapping[str, Sequence[Write]]) -> Iterator[Verdict]:
    """Compare all calls with the log, of each kind together."""
    kinds: dict[tuple[str, Manner], list[Call]] = defaultdict(list)
    for call in calls:
        kinds[call.schedule, call.manner].append(call)
    for (schedule, manner), alike in sorted(kinds.items()):
        found = [measured(call) for call in alike]
        true = [truth(log[_answering(call).request_id or ""], call) for call in alike]
        off = [differences(*both) for both in zip(found, true, strict=True)]
        for figure, goal in GOALS_MS.items():
            # When the last chunk is read is up to a slow consumer.
            if (manner, figure) != ("slow consumer", "decode"):
                difference = statistics.median(each[figure] for each in off)
                yield Verdict(
                    what=schedule,
                    manner=manner,
                    figure=figure,
                    measured=_middle(found, figure),
                    true=_middle(true, figure),
                    difference=f"{difference:.2f}",
                    goal=f"{goal:.0f}",
                    is_met=difference <= goal,
                )


def _answering(call: Call) -> AttemptStats:
    """Give the attempt whose figures are the call's."""
    figures = call.figures
    return call.attempts[figures.front] if isinstance(figures, CallStats) else figures


def _middle(seen: Sequence[Seen], figure: str) -> str:
    """Show a figure, at the median where there is one; of the stalls, those of the first round."""
    if figure == "stalls":
        rounds = [[each.stalls.get(key) for each in seen] for key in seen[0].stalls]
        return " + ".join(map(_median, rounds)) or "-"
    return _median([each.decode if figure == "decode" else each.first_content for each in seen])


def _median(values: Sequence[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return f"{statistics.median(numbers):.2f}" if numbers else "-"


def judge_races(calls: Iterable[Call], log: Mapping[str, Sequence[Write]]) -> Iterator[Verdict]:
    """Tell whether what losers brought is in their waste, and in no figure of the call."""
    for model, hanging in RACES.items():
        races = [call for call in calls if call.schedule == model]
        for figure, held in {
            "chunks are the winner's": [_has_winners_chunks(call, log) for call in races],
            "waste is the loser's": [_has_losers_waste(call, log, hanging) for call in races],
        }.items():
            yield _all_of(model, figure, held)


def _has_winners_chunks(call: Call, log: Mapping[str, Sequence[Write]]) -> bool:
    written = log[_answering(call).request_id or ""]
    return call.figures.chunk_count == sum(write.content for write in written)


def _has_losers_waste(call: Call, log: Mapping[str, Sequence[Write]], schedule: str) -> bool:
    loser = call.attempts[0]
    written = log[loser.request_id or ""]
    # Every chunk of these schedules is one word, and one token.
    words = sum(write.content for write in written)
    wasted = loser.wasted
    return wasted is not None and (wasted.characters, wasted.output_tokens, wasted.confidence) == (
        sum(write.characters for write in written),
        words,
        "at_least" if schedule == "hanging-and-counting" else "estimate",
    )


def judge_journal(calls: Iterable[Call], journal: Path) -> Verdict:
    """Tell whether the figures computed from the journal are those that were returned."""
    recorded = {call.stats.attempts[-1].request_id: call for call in read_journal(journal).calls}
    held = [_is_recomputed(call, recorded[call.attempts[-1].request_id]) for call in calls]
    return _all_of("everything", "figures from the journal", held)


def _is_recomputed(call: Call, recorded: RecordedCall) -> bool:
    traces = [attempt.trace for attempt in recorded.attempts]
    pairs: list[tuple[StreamFigures, StreamFigures]] = [
        (each, figures_of(trace)) for each, trace in zip(call.attempts, traces, strict=True)
    ]
    if isinstance(call.figures, CallStats):
        trace = traces[call.figures.front]
        of_call = figures_of(trace, since_ns=recorded.started_ns, until_ns=recorded.ended_ns)
        pairs.append((call.figures, of_call))
    return all(
        getattr(returned, field.name) == getattr(computed, field.name)
        for returned, computed in pairs
        for field in attrs.fields(StreamFigures)
    )


def _all_of(what: str, figure: str, held: Sequence[bool]) -> Verdict:
    return Verdict(
        what=what,
        manner="",
        figure=figure,
        measured=f"{sum(held)} of {len(held)}",
        true="",
        difference="",
        goal="all",
        is_met=all(held),
    )


# ---------------------------------------------------------------- all of it


@contextmanager
def serving(log: Path) -> Generator[str]:
    """Run the server, and give its base URL."""
    command = [sys.executable, str(Path(__file__).with_name("upstream.py")), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - ours
        assert server.stdout is not None  # noqa: S101 - it is a pipe
        try:
            yield json.loads(server.stdout.readline())["base_url"]
        finally:
            server.kill()


def config(base_url: str) -> Config:
    """Give a configuration in which each schedule is a model, and so is each race."""
    schedules = [*PLAIN, *SLOWLY, *BLOCKED, *RACES.values()]
    targets = {
        name: Target(dialect="openai-chat", base_url=base_url, model=name) for name in schedules
    }
    return Config(
        targets=targets,
        models={
            **{name: (name,) for name in targets},
            **{model: (hanging, "steady-50") for model, hanging in RACES.items()},
        },
        hedge=HedgePolicy(enabled=False),
        retry=RetryPolicy(max_retries=0),
        stream=StreamPolicy(stall_threshold_ms=THRESHOLD_MS),
    )


def read_log(path: Path) -> Mapping[str, Sequence[Write]]:
    """Give the writes of each request."""
    log: dict[str, list[Write]] = defaultdict(list)
    for line in path.read_bytes().splitlines():
        write = Write(**json.loads(line))
        log[write.request].append(write)
    return log


async def measure(base_url: str, journal: Path, rounds: int) -> Sequence[Call]:
    """Make all calls, and keep a journal of them."""
    with Journal(journal) as instrument:
        async with open_gateway(config(base_url), instruments=[instrument]) as gw:
            return await call_all(gw, rounds)


def run(rounds: int) -> Sequence[Verdict]:
    """Measure and judge."""
    with tempfile.TemporaryDirectory() as folder:
        log, journal = Path(folder, "log.jsonl"), Path(folder, "journal.jsonl")
        with serving(log) as base_url:
            calls = trio.run(measure, base_url, journal, rounds)
        written = read_log(log)
        return [
            *judge(calls, written),
            *judge_races(calls, written),
            judge_journal(calls, journal),
        ]


def main() -> int:
    """Print the verdicts as a table, and tell whether all are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="default: 10")
    verdicts = run(parser.parse_args().rounds)
    heads = ("schedule", "call", "figure", "measured", "true", "difference", "goal", "met")
    rows = [
        (*attrs.astuple(verdict)[:-1], "yes" if verdict.is_met else "NO") for verdict in verdicts
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, ["-" * width for width in widths], *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print(f"| {' | '.join(cells)} |")
    return 0 if all(verdict.is_met for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
