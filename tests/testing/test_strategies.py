from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import pytest
import trio
from hypothesis import Phase, find, given, settings, strategies as st

from polygateway.testing import (
    Closing,
    Exchange,
    Head,
    ScriptedProvider,
    Send,
    Silence,
    Step,
    cut,
    done,
    finish,
    hang,
    reset,
    run_virtual,
    serve_memory,
)
from polygateway.testing.script import checked
from polygateway.testing.strategies import answers, gaps_ns, scripts

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

THRESHOLD = 2_000_000_000
Steps = tuple[Step, ...]

ENDS: dict[Step | None, str] = {cut(): "cut", reset(): "reset", hang(): "client closed"}

REQUEST = b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


T = TypeVar("T")
SEARCH = settings(
    derandomize=True, database=None, max_examples=2000, phases=[Phase.generate], deadline=None
)


def found(strategy: SearchStrategy[T], condition: Callable[[T], bool]) -> T:
    return find(strategy, condition, settings=SEARCH)


def last(script: Steps) -> Step | None:
    return script[-1] if script else None


def content(script: Steps) -> int:
    return sum(step.content for step in script if isinstance(step, Send))


def played(script: Steps, patience_s: float) -> tuple[Exchange, bytes]:
    """Play *script* for a client that leaves after *patience_s*, or when the server does."""
    provider = ScriptedProvider(script, keep_alive_s=0)
    received = bytearray()

    async def main() -> None:
        async with serve_memory({"eu": provider}) as network:
            async with await network.connect("eu.invalid", 80, None) as stream:
                await stream.send_all(REQUEST)
                with trio.move_on_after(patience_s), suppress(trio.BrokenResourceError):
                    while data := await stream.receive_some():
                        received.extend(data)
            assert network.open_connections == 0
            await trio.testing.wait_all_tasks_blocked()

    run_virtual(main, limit_s=1e9)
    (exchange,) = provider.log
    return exchange, bytes(received)


@settings(deadline=None, max_examples=200)
@given(script=scripts(), patience_s=st.sampled_from([10.0, 1e8]))
def test_every_script_can_be_played_and_ends_as_it_says(script: Steps, patience_s: float) -> None:
    exchange, _ = played(script, patience_s)
    expected = ENDS.get(last(script), "done")
    assert exchange.ended in ({expected} if patience_s == 1e8 else {expected, "client closed"})
    if exchange.ended == "done":
        assert content(tuple(step for _, step in exchange.sent)) == content(script)


@settings(deadline=None)
@given(answers())
def test_an_answer_has_content_and_arrives_whole(script: Steps) -> None:
    assert content(script) > 0
    assert not any(isinstance(step, Closing) for step in script)
    exchange, received = played(script, 1e8)
    assert exchange.ended == "done"
    assert received.endswith(b"0\r\n\r\n")
    assert all(step.data in received for step in script if isinstance(step, Send))


@given(scripts())
def test_scripts_are_valid_and_their_times_are_whole_milliseconds(script: Steps) -> None:
    assert checked(script) == script
    silences = [step.seconds for step in script if isinstance(step, Silence) and step != hang()]
    assert all(abs(seconds * 1000 - round(seconds * 1000)) < 1e-6 for seconds in silences)


@pytest.mark.parametrize("gap", [0, THRESHOLD - 1, THRESHOLD, THRESHOLD + 1])
def test_gaps_on_each_side_of_the_threshold_are_drawn(gap: int) -> None:
    assert found(gaps_ns(THRESHOLD), lambda gaps: gap in gaps)


def test_gaps_are_also_small_and_large() -> None:
    assert found(gaps_ns(THRESHOLD), lambda gaps: any(0 < gap < 10**6 for gap in gaps))
    assert found(gaps_ns(THRESHOLD), lambda gaps: any(gap > 10**11 for gap in gaps))


@given(st.integers(1, 10**12).flatmap(gaps_ns))
def test_gaps_are_whole_nanoseconds_up_to_a_bound(gaps: list[int]) -> None:
    assert all(0 <= gap <= 10**12 + 1 for gap in gaps)


@pytest.mark.parametrize("step", [cut(), reset(), hang(), done(), finish()])
def test_every_way_to_end_is_drawn(step: Step) -> None:
    assert found(scripts(), lambda script: last(script) == step)


def test_replies_that_are_no_streams_are_drawn() -> None:
    assert found(scripts(), lambda script: any(_is_status(step, 429) for step in script))


def _is_status(step: Step, code: int) -> bool:
    return isinstance(step, Head) and step.status == code


def test_hypothesis_is_needed_for_the_strategies_only() -> None:
    code = "import sys, polygateway.testing; sys.exit('hypothesis' in sys.modules)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)  # noqa: S603 - ours
