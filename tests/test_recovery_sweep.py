"""Interrupted at any moment, a rescued stream has delivered what it says it has."""

from __future__ import annotations

import json
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from polygateway import (
    Chunk,
    CompletionStream,
    Config,
    DeadlineExceeded,
    GatewayError,
    HedgePolicy,
    InternalError,
    RetryPolicy,
    StreamBroken,
    StreamPolicy,
    Target,
    open_gateway,
)
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    done,
    error_frame,
    finish,
    hang,
    headers,
    raw,
    reasoning,
    run_virtual,
    serve_memory,
    silence,
    status,
    together,
    tool_call,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from typing import TypeAlias

    from polygateway import Gateway
    from polygateway.policies import DialectName, Recovery
    from polygateway.testing import Script, Step
    from polygateway.testing.script import Send

    Scripts: TypeAlias = Mapping[str, Sequence[Script]]

FIRST, SECOND = "Once upon a time ", "there was a river. "
STORY = FIRST + SECOND
BREAKS = together(chunk(SECOND), error_frame("out of memory"))
"""Content and an error in one write: the client has both from one read."""

REST = answer("It was ", "long.", every_s=1)
ONE_RETRY = RetryPolicy(max_retries=1, backoff_base_s=0.2)


@asynccontextmanager
async def rescuing(
    scripts: Scripts,
    recovery: Recovery,
    *,
    hedge: HedgePolicy | None = None,
    retry: RetryPolicy = ONE_RETRY,
) -> AsyncGenerator[Gateway]:
    """Open a gateway whose silences and breaks are rescued; nothing may be left open behind it."""
    providers = {name: ScriptedProvider(*script) for name, script in scripts.items()}
    async with serve_memory(providers) as network:
        config = network.config(
            prefill=tuple(providers),
            hedge=hedge or HedgePolicy(after_s=5, stall_after_s=5),
            stream=StreamPolicy(recovery=recovery),
            retry=retry,
        )
        async with open_gateway(config, connect=network.connect) as gw:
            yield gw
            assert not gw._calls
            assert all(route.connections.free_slots == 1000 for route in gw._routes.values())
        assert network.open_connections == 0


def kept(chunks: Sequence[Chunk]) -> str:
    """Give the text that an application has which does what the seams tell it."""
    restarts = [at for at, each in enumerate(chunks) if each.seam_kind == "restart"]
    return "".join(each.text for each in chunks[restarts[-1] if restarts else 0 :])


def seams_in(chunks: Sequence[Chunk]) -> list[tuple[str, int, int]]:
    """Give kind, attempt before and attempt after of each seam that was delivered."""
    return [
        (str(each.seam_kind), chunks[at - 1].attempt, each.attempt)
        for at, each in enumerate(chunks)
        if each.kind == "seam"
    ]


async def read_on(stream: CompletionStream, chunks: list[Chunk]) -> GatewayError | None:
    """Read to the end or to an error, which is given."""
    try:
        while True:
            chunks.append(await anext(stream))
    except StopAsyncIteration:
        return None
    except GatewayError as error:
        return error


# ---------------------------------------------------------------- struck at every step


@attrs.define(eq=False)
class _Strike(trio.abc.Instrument):
    """Cancels the wait for a chunk before step number *at* of the reader or of its children."""

    at: int
    steps: int = 0
    reader: trio.lowlevel.Task | None = None
    scope: trio.CancelScope | None = None
    """Around the wait; ``None`` between two waits."""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.reader is not None and (task is self.reader or _is_child(task, self.reader)):
            self.steps += 1
            if self.steps == self.at and self.scope is not None:
                self.scope.cancel(reason="struck")


def _is_child(task: trio.lowlevel.Task, of: trio.lowlevel.Task) -> bool:
    parent = task.parent_nursery
    return parent is not None and parent.parent_task is of


async def _asked(stream: CompletionStream, strike: _Strike) -> Chunk | None:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return None
    finally:
        strike.scope = None


async def _next(stream: CompletionStream, strike: _Strike) -> Chunk | None:
    """Give the next chunk, asked for once more if that was cancelled; ``None`` at the end."""
    while True:
        with trio.CancelScope() as scope:
            strike.scope = scope
            return await _asked(stream, strike)
        assert not trio.lowlevel.current_task().child_nurseries


async def _read_struck(stream: CompletionStream, strike: _Strike) -> None:
    chunks: list[Chunk] = []
    error: GatewayError | None = None
    try:
        while (each := await _next(stream, strike)) is not None:
            chunks.append(each)
            # What was read together is delivered piece by piece.
            assert stream.completion.text.startswith(kept(chunks))
    except GatewayError as raised:
        error = raised
    assert not isinstance(error, InternalError)
    if isinstance(error, StreamBroken):
        assert error.partial is not None
        assert error.partial.text == kept(chunks)
    else:
        assert chunks[-1].kind == "end"
    assert stream.completion.text == kept(chunks)
    told = [(seam.kind, seam.before, seam.after) for seam in stream.stats.seams]
    assert told == seams_in(chunks)
    assert all(each.outcome is not None for each in stream.stats.attempts)
    # A delivered attempt that failed has failed, whoever was cancelled when it did.
    assert (stream.stats.attempts[0].outcome == "failed") == (
        stream.stats.attempts[0].end_kind not in {"cancelled", "complete"}
    )


async def _struck(scripts: Scripts, recovery: Recovery, at: int) -> bool:
    """Read a stream, struck at step number *at*; tell whether it took so many."""
    strike = _Strike(at)

    async def use(gw: Gateway) -> None:
        strike.reader = trio.lowlevel.current_task()
        async with gw.stream("x", model="m", deadline_s=1000) as stream:
            await _read_struck(stream, strike)

    async with rescuing(scripts, recovery) as gw:
        with ExitStack() as after:
            trio.lowlevel.add_instrument(strike)
            after.callback(trio.lowlevel.remove_instrument, strike)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(use, gw)
    return strike.steps >= at


LATE_BREAK: list[Step] = [chunk(FIRST), silence(6), BREAKS]

SCENARIOS: dict[str, Scripts] = {
    "cut": {"eu": [[chunk(FIRST), cut()]], "us": [REST]},
    "broken beside its rival": {"eu": [LATE_BREAK], "us": [[silence(3), *REST]]},
    "broken, and nobody else": {"eu": [LATE_BREAK, status(503)], "us": [status(503)] * 2},
    "silent": {"eu": [[chunk(STORY), hang()]], "us": [[silence(2), *REST]]},
    "one target": {"eu": [[chunk(STORY), hang()], REST]},
    "both at the same instant": {
        "eu": [[chunk(FIRST), silence(6), chunk(SECOND), silence(1), finish(), done()]],
        "us": [[silence(1), *REST]],
    },
    "whole as its rival speaks": {
        "eu": [[chunk(FIRST), silence(6), together(chunk(SECOND), finish(), done())]],
        "us": [[silence(1), *REST]],
    },
    "said again": {"eu": [[chunk(STORY), cut()]], "us": [answer(FIRST, f"{SECOND}So.", every_s=1)]},
    "an empty rest": {"eu": [[chunk(STORY), cut()]], "us": [answer()]},
    "anew behind reasoning": {
        "eu": [[chunk(STORY), cut()]],
        "us": [[reasoning("Hm."), silence(1), *answer(f"{FIRST}there was a road. ", "So.")]],
    },
}


@pytest.mark.parametrize("recovery", ["restart", "continue-or-restart"])
@pytest.mark.parametrize("scripts", SCENARIOS.values(), ids=SCENARIOS)
def test_cancelled_at_any_step_a_stream_goes_on_as_if_it_had_not_been(
    scripts: Scripts, recovery: Recovery
) -> None:
    at = 1
    while run_virtual(_struck, scripts, recovery, at):
        at += 1
    # The scenario ran to its end once, uncancelled, and took more than a handful of steps.
    assert at > 10


# ---------------------------------------------------------------- what came last


@pytest.mark.parametrize("recovery", ["restart", "continue"])
def test_the_last_words_of_an_attempt_that_nobody_can_replace_are_delivered(
    recovery: Recovery,
) -> None:
    async def main() -> None:
        scripts: Scripts = {"eu": [LATE_BREAK, status(503)], "us": [status(503)] * 2}
        chunks: list[Chunk] = []
        async with (
            rescuing(scripts, recovery) as gw,
            gw.stream("x", model="m") as stream,
        ):
            error = await read_on(stream, chunks)
        assert kept(chunks) == STORY
        assert isinstance(error, StreamBroken)
        assert error.partial is not None
        assert error.partial.text == STORY

    run_virtual(main)


def test_and_are_not_part_of_an_answer_that_goes_on_from_before_them() -> None:
    async def main() -> None:
        scripts: Scripts = {"eu": [LATE_BREAK], "us": [[silence(3), *answer("it rained.")]]}
        chunks: list[Chunk] = []
        async with (
            rescuing(scripts, "continue") as gw,
            gw.stream("x", model="m") as stream,
        ):
            assert await read_on(stream, chunks) is None
            assert stream.completion.text == kept(chunks) == f"{FIRST}it rained."
            assert [each.characters for each in stream.completion.seams] == [len(FIRST)]

    run_virtual(main)


# ---------------------------------------------------------------- ended from outside


@pytest.mark.parametrize("most", [2, 3], ids=["nothing is due any more", "a hedge is due"])
def test_a_block_that_another_task_leaves_ends_the_rescue_at_once(most: int) -> None:
    async def read(stream: CompletionStream, ended: list[tuple[str, float]]) -> None:
        try:
            async for _ in stream:
                pass
        except trio.ClosedResourceError as error:
            ended.append((str(error), trio.current_time()))

    async def main() -> None:
        scripts: Scripts = {"eu": [[chunk(FIRST), hang()]], "us": [[hang()]]}
        ended: list[tuple[str, float]] = []
        hedge = HedgePolicy(after_s=5, stall_after_s=5, max_attempts=most)
        async with (
            rescuing(scripts, "restart", hedge=hedge) as gw,
            trio.open_nursery() as nursery,
            gw.stream("x", model="m") as stream,
        ):
            nursery.start_soon(read, stream, ended)
            await trio.sleep(7)
        assert ended == [("the block of this stream was left", 7.0)]

    run_virtual(main, limit_s=100)


def test_a_deadline_in_the_instant_of_the_silence_starts_no_hedge() -> None:
    async def main() -> None:
        scripts: Scripts = {"eu": [[chunk(FIRST), hang()]], "us": [REST]}
        chunks: list[Chunk] = []
        async with (
            rescuing(scripts, "restart") as gw,
            gw.stream("x", model="m", deadline_s=5) as stream,
        ):
            error = await read_on(stream, chunks)
        assert isinstance(error, DeadlineExceeded)
        assert [each.kind for each in error.attempts] == ["primary"]
        assert gw.stats().models["m"].budget_level == 10

    run_virtual(main)


@pytest.mark.parametrize("deadline_s", [5.5, 6.0, 6.5])
def test_a_deadline_in_a_rescue_keeps_what_was_delivered(deadline_s: float) -> None:
    async def main() -> None:
        scripts: Scripts = {"eu": [LATE_BREAK], "us": [[hang()]]}
        chunks: list[Chunk] = []
        async with (
            rescuing(scripts, "restart") as gw,
            gw.stream("x", model="m", deadline_s=deadline_s) as stream,
        ):
            error = await read_on(stream, chunks)
        assert isinstance(error, DeadlineExceeded)
        assert error.partial is not None
        assert error.partial.text == kept(chunks)
        assert trio.current_time() == deadline_s

    run_virtual(main)


def test_an_error_is_raised_again_by_whoever_asks_again() -> None:
    async def main() -> None:
        scripts: Scripts = {"eu": [LATE_BREAK, status(503)], "us": [status(503)] * 2}
        async with (
            rescuing(scripts, "restart") as gw,
            gw.stream("x", model="m") as stream,
        ):
            first = await read_on(stream, [])
            assert first is not None
            assert await read_on(stream, []) is first
            with suppress(GatewayError):
                await anext(stream)
            assert first.attempts == stream.stats.attempts

    run_virtual(main)


# ---------------------------------------------------------------- what a continuation says first


def test_what_a_model_reasons_before_it_goes_on_comes_behind_the_seam() -> None:
    async def main() -> None:
        rest = [reasoning("Hm."), silence(1), *answer(FIRST, f"{SECOND}So.")]
        chunks: list[Chunk] = []
        async with (
            rescuing({"eu": [[chunk(STORY), cut()]], "us": [rest]}, "continue") as gw,
            gw.stream("x", model="m") as stream,
        ):
            assert await read_on(stream, chunks) is None
            assert stream.completion.text == f"{STORY}So."
        assert [each.kind for each in chunks] == ["text", "seam", "reasoning", "text", "end"]

    run_virtual(main)


def test_a_tool_call_may_be_all_that_was_missing() -> None:
    async def main() -> None:
        rest: list[Step] = [tool_call("{}", id="c", name="f"), finish("tool_calls"), done()]
        chunks: list[Chunk] = []
        async with (
            rescuing({"eu": [[chunk(STORY), cut()]], "us": [rest]}, "continue") as gw,
            gw.stream("x", model="m") as stream,
        ):
            assert await read_on(stream, chunks) is None
            assert stream.completion.text == STORY
            assert [each.name for each in stream.completion.tool_calls] == ["f"]
        assert [each.kind for each in chunks] == ["text", "seam", "tool_call", "end"]

    run_virtual(main)


def test_half_a_character_wins_no_race() -> None:
    # JSON writes U+1F600 as two halves. One of them can be delivered to nobody.
    half = raw(rb'data: {"choices": [{"index": 0, "delta": {"content": "\ud83d"}}]}' + b"\n\n")

    async def main() -> None:
        chunks: list[Chunk] = []
        async with (
            rescuing({"eu": [[half, cut()]], "us": [answer("Hi")]}, "restart") as gw,
            gw.stream("x", model="m") as stream,
        ):
            assert await read_on(stream, chunks) is None
        assert [each.kind for each in chunks] == ["text", "end"]

    run_virtual(main)


# ---------------------------------------------------------------- from one dialect to another


def _sse(*events: object) -> list[Send]:
    return [raw(b"data: " + json.dumps(event).encode() + b"\n\n") for event in events]


def _anthropic(*pieces: str) -> list[Send]:
    return _sse(
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": each},
            }
            for each in pieces
        ),
    )


_ANTHROPIC_END = _sse(
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
)


def _gemini(*pieces: str) -> list[Send]:
    return _sse(*({"candidates": [{"content": {"parts": [{"text": each}]}}]} for each in pieces))


_GEMINI_END = _sse({"candidates": [{"finishReason": "STOP"}]})


def _ollama(*pieces: str) -> list[Step]:
    lines = ({"message": {"content": each}, "done": False} for each in pieces)
    head = headers({"content-type": "application/x-ndjson"})
    return [head, *(raw(json.dumps(line).encode() + b"\n") for line in lines)]


_OLLAMA_END = [raw(b'{"message": {"content": ""}, "done": true, "done_reason": "stop"}\n')]

BEGINNINGS: Mapping[DialectName, Script] = {
    "openai-chat": [chunk(FIRST)],
    "anthropic": _anthropic(FIRST),
    "gemini": _gemini(FIRST),
    "ollama": _ollama(FIRST),
}
RESTS: Mapping[DialectName, Script] = {
    "openai-chat": answer(FIRST, SECOND),
    "anthropic": [*_anthropic(FIRST, SECOND), *_ANTHROPIC_END],
    "gemini": [*_gemini(FIRST, SECOND), *_GEMINI_END],
    "ollama": [*_ollama(FIRST, SECOND), *_OLLAMA_END],
}


@pytest.mark.parametrize("after", RESTS)
@pytest.mark.parametrize("before", BEGINNINGS)
def test_an_answer_begun_in_one_dialect_is_continued_in_another(
    before: DialectName, after: DialectName
) -> None:
    providers = {
        "eu": ScriptedProvider([*BEGINNINGS[before], cut()]),
        "us": ScriptedProvider(RESTS[after]),
    }

    dialects: Mapping[str, DialectName] = {"eu": before, "us": after}

    async def main() -> None:
        chunks: list[Chunk] = []
        async with serve_memory(providers) as network:
            targets = {
                name: Target(
                    dialect=dialect, base_url=network.base_urls[name], model="x", prefill=True
                )
                for name, dialect in dialects.items()
            }
            config = Config(
                targets=targets,
                models={"m": ("eu", "us")},
                stream=StreamPolicy(recovery="continue"),
                retry=ONE_RETRY,
            )
            async with (
                open_gateway(config, connect=network.connect) as gw,
                gw.stream("x", model="m", max_tokens=50) as stream,
            ):
                assert await read_on(stream, chunks) is None
                assert stream.completion.text == kept(chunks) == STORY
                assert stream.completion.message == {"role": "assistant", "content": STORY}
        assert seams_in(chunks) == [("continue", 0, 1)]
        assert FIRST.rstrip() in json.dumps(providers["us"].log[0].request.body)

    run_virtual(main)
