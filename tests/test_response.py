"""Delivered streams: what an application sees of them, and what is left when it goes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from polygateway import (
    Chunk,
    CompletionStream,
    ConfigurationError,
    DeadlineExceeded,
    FirstContentTimeout,
    Gateway,
    GatewayClosed,
    HedgePolicy,
    InternalError,
    InvalidRequest,
    RateLimited,
    ServerError,
    StallTimeout,
    StreamBroken,
    StreamPolicy,
    Truncated,
    open_gateway,
)
from polygateway.net.exchange import Exchange
from polygateway.testing import (
    MemoryNetwork,
    ScriptedProvider,
    answer,
    chunk,
    cut,
    done,
    error_frame,
    finish,
    hang,
    headers,
    keepalives,
    reasoning,
    run_virtual,
    serve_memory,
    silence,
    status,
    together,
    tool_call,
    usage,
)
from tests.scenario import NO_RETRY, gateway_to

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

    from polygateway.testing import Step

STORY = ("Once ", "upon ", "a ", "time.")


def virtually(
    body: Callable[[Gateway, MemoryNetwork], Awaitable[None]],
    providers: Mapping[str, ScriptedProvider],
    *,
    hedge: HedgePolicy | None = None,
    stream: StreamPolicy | None = None,
) -> None:
    """Run *body* with a gateway to *providers*, without retries."""

    async def main() -> None:
        async with gateway_to(
            providers, hedge=hedge or HedgePolicy(), stream=stream or StreamPolicy(), retry=NO_RETRY
        ) as (gw, network):
            await body(gw, network)

    run_virtual(main)


async def all_of(stream: CompletionStream) -> list[Chunk]:
    return [each async for each in stream]


def test_every_chunk_comes_in_order_when_it_comes_and_then_the_end() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        times: list[float] = []
        async with gw.stream("Tell me a story.", model="m") as stream:
            assert stream.target == "eu"
            async for each in stream:
                times.append(trio.current_time())
                if each.kind == "end":
                    assert (each.text, each.delta) == ("", "")
        assert times == pytest.approx([1, 2, 3, 4, 4])
        assert stream.completion.text == "Once upon a time."
        assert stream.completion.finish_reason == "stop"
        assert stream.completion.usage.output_tokens == 4
        assert stream.stats.generation_ms == pytest.approx(3000)
        assert stream.stats.total_ms == pytest.approx(4000)
        assert stream.stats.commit_ms == pytest.approx(1000)
        assert [each.outcome for each in stream.stats.attempts] == ["won"]

    virtually(body, {"eu": ScriptedProvider(answer(*STORY, every_s=1))})


def test_entering_the_block_returns_at_the_first_content() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            assert trio.current_time() == pytest.approx(3)
            assert stream.completion.text == "Once "

    virtually(body, {"eu": ScriptedProvider([headers(), silence(3), chunk("Once "), hang()])})


def test_the_first_content_of_a_race_wins_and_the_other_is_closed_at_once() -> None:
    eu = ScriptedProvider([silence(7), *answer("late")])
    us = ScriptedProvider(answer(*STORY, every_s=1))

    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            assert trio.current_time() == pytest.approx(6)
            assert eu.log[0].ended_at == pytest.approx(6)
            assert {each.attempt for each in await all_of(stream)} == {1}
        assert stream.completion.text == "Once upon a time."
        assert stream.stats.ttft_ms == pytest.approx(6000)
        assert stream.stats.hedge_reason == "ttft"
        assert [each.cancel_reason for each in stream.stats.attempts] == ["lost the race", None]

    virtually(body, {"eu": eu, "us": us})


def test_after_the_commit_nothing_is_hedged() -> None:
    us = ScriptedProvider(answer("never"))

    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            chunks = await all_of(stream)
        assert [each.text for each in chunks] == ["Once ", "upon", ""]
        assert us.log == []

    virtually(
        body, {"eu": ScriptedProvider([chunk("Once "), silence(50), *answer("upon")]), "us": us}
    )


def test_every_kind_of_content_commits_and_is_delivered_as_what_it_is() -> None:
    script = [
        reasoning("hm"),
        chunk("I look."),
        tool_call('{"port":', name="tide_at", id="c1"),
        tool_call('"Brest"}'),
        finish("tool_calls"),
        done(),
    ]

    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            chunks = await all_of(stream)
        assert [(each.kind, each.delta, each.text) for each in chunks] == [
            ("reasoning", "hm", ""),
            ("text", "I look.", "I look."),
            ("tool_call", '{"port":', ""),
            ("tool_call", '"Brest"}', ""),
            ("end", "", ""),
        ]
        (call,) = stream.completion.tool_calls
        assert (call.id, call.name, call.arguments) == ("c1", "tide_at", '{"port":"Brest"}')
        assert call.complete
        assert stream.completion.finish_reason == "tool_calls"

    virtually(body, {"eu": ScriptedProvider(script)})


def test_errors_before_the_first_content_are_raised_at_the_entry() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        with pytest.raises(RateLimited) as caught:
            async with gw.stream("x", model="m"):
                raise AssertionError("the block must not run")
        assert len(caught.value.attempts) == 1

    virtually(body, {"eu": ScriptedProvider(status(429))})


def test_a_stream_that_is_silent_from_the_start_is_given_up_at_the_entry() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        with pytest.raises(FirstContentTimeout):
            async with gw.stream("x", model="m"):
                raise AssertionError("the block must not run")
        assert trio.current_time() == pytest.approx(60)

    virtually(body, {"eu": ScriptedProvider([headers(), hang()])}, hedge=HedgePolicy(enabled=False))


@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        ([cut()], Truncated),
        ([error_frame("boom")], ServerError),
        ([together(chunk("a "), error_frame("boom"))], ServerError),
        ([*keepalives(500, every_s=5)], StallTimeout),
    ],
    ids=["cut", "error frame", "error in one read with content", "keep-alives only"],
)
def test_a_delivered_stream_that_breaks_says_so_with_all_that_was_delivered(
    ending: list[Step], cause: type[Exception]
) -> None:
    async def body(gw: Gateway, network: MemoryNetwork) -> None:
        got: list[str] = []

        async def read() -> None:
            async with gw.stream("x", model="m") as stream:
                while True:
                    got.append((await anext(stream)).text)

        with pytest.raises(StreamBroken) as caught:
            await read()
        error = caught.value
        assert type(error.__cause__) is cause
        assert error.partial is not None
        assert error.partial.text == "".join(got)
        assert error.partial.text.startswith("Once upon ")
        assert error.partial.finish_reason is None
        assert error.kind == "transient"
        assert error.retryable
        assert [each.outcome for each in error.attempts] == ["failed"]
        assert network.open_connections == 0

    virtually(body, {"eu": ScriptedProvider([chunk("Once "), silence(1), chunk("upon "), *ending])})


def test_a_broken_stream_stays_broken() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            await anext(stream)
            for _i in range(2):
                with pytest.raises(StreamBroken):
                    await anext(stream)

    virtually(body, {"eu": ScriptedProvider([chunk("Once "), cut()])})


def test_after_its_deadline_a_stream_says_so_again() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m", deadline_s=1) as stream:
            await anext(stream)
            for _i in range(2):
                with pytest.raises(DeadlineExceeded):
                    await anext(stream)

    virtually(body, {"eu": ScriptedProvider([chunk("Once "), hang()])})


def test_a_block_can_be_entered_once() -> None:
    async def body(gw: Gateway, network: MemoryNetwork) -> None:
        block = gw.stream("x", model="m")
        async with block:
            with pytest.raises(ConfigurationError, match="entered before"):
                await block.__aenter__()
        with pytest.raises(ConfigurationError, match="entered before"):
            await block.__aenter__()
        assert network.open_connections == 0

    virtually(body, {"eu": ScriptedProvider([chunk("Once "), hang()])})


def test_a_finished_stream_stays_finished() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            await all_of(stream)
            with pytest.raises(StopAsyncIteration):
                await anext(stream)

    virtually(body, {"eu": ScriptedProvider(answer("Once."))})


def test_a_slow_consumer_is_no_stall_of_the_provider() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream(
            "x", model="m", stream_policy=StreamPolicy(stall_timeout_s=3)
        ) as stream:
            async for _chunk in stream:
                await trio.sleep(10)
        assert stream.stats.stall_ms == 0
        assert stream.stats.max_gap_ms == 0
        # All that came meanwhile is read at once.
        assert stream.stats.generation_ms == pytest.approx(10_000)

    virtually(body, {"eu": ScriptedProvider(answer(*STORY, every_s=1))})


def test_the_deadline_counts_the_consumers_time_too() -> None:
    async def body(gw: Gateway, network: MemoryNetwork) -> None:
        async def read() -> None:
            async with gw.stream("x", model="m", deadline_s=5) as stream:
                async for _chunk in stream:
                    await trio.sleep(3)

        with pytest.raises(DeadlineExceeded) as caught:
            await read()
        assert trio.current_time() == pytest.approx(6)
        assert caught.value.partial is not None
        assert caught.value.partial.text == "Once upon "
        assert network.open_connections == 0

    virtually(
        body, {"eu": ScriptedProvider([chunk("Once "), silence(2.5), chunk("upon "), hang()])}
    )


def test_the_deadline_wakes_a_reader() -> None:
    async def body(gw: Gateway, network: MemoryNetwork) -> None:
        async with gw.stream("x", model="m", deadline_s=5) as stream:
            with pytest.raises(DeadlineExceeded) as caught:
                await all_of(stream)
            assert trio.current_time() == pytest.approx(5)
            assert network.open_connections == 0
        assert caught.value.attempts[0].cancel_reason == "deadline"

    virtually(body, {"eu": ScriptedProvider([chunk("Once "), hang()])})


def test_the_deadline_goes_before_a_silence_that_is_given_up_at_the_same_time() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        policy = StreamPolicy(stall_timeout_s=5)
        async with gw.stream("x", model="m", deadline_s=5, stream_policy=policy) as stream:
            with pytest.raises(DeadlineExceeded):
                await all_of(stream)
        assert trio.current_time() == pytest.approx(5)

    virtually(body, {"eu": ScriptedProvider([chunk("Once "), hang()])})


def test_iterating_after_the_block_is_refused() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            pass
        with pytest.raises(trio.ClosedResourceError):
            await anext(stream)

    virtually(body, {"eu": ScriptedProvider(answer(*STORY))})


def test_leaving_the_block_wakes_a_task_that_still_reads() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async def read(stream: CompletionStream) -> None:
            with pytest.raises(trio.ClosedResourceError):
                await all_of(stream)

        async with trio.open_nursery() as nursery, gw.stream("x", model="m") as stream:
            nursery.start_soon(read, stream)
            await trio.sleep(1)
        assert trio.current_time() == pytest.approx(1)

    virtually(body, {"eu": ScriptedProvider([chunk("Once "), hang()])})


def test_two_tasks_at_once_are_refused() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream, trio.open_nursery() as nursery:
            await anext(stream)
            nursery.start_soon(anext, stream)
            await wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await anext(stream)

    virtually(body, {"eu": ScriptedProvider([chunk("Once "), silence(1), *answer("upon")])})


def test_a_cancelled_read_loses_no_chunk() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        texts: list[str] = []
        async with gw.stream("x", model="m") as stream:
            while len(texts) < 5:
                with trio.move_on_after(0.3):
                    texts.append((await anext(stream)).text)
        assert texts == [*STORY, ""]
        assert stream.completion.text == "Once upon a time."
        # Waiting in pieces is waiting all the same.
        assert stream.stats.max_gap_ms == pytest.approx(1000)

    virtually(body, {"eu": ScriptedProvider(answer(*STORY, every_s=1))})


def test_another_task_may_go_on_reading() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        texts: list[str] = []

        async def read_one(stream: CompletionStream) -> None:
            texts.append((await anext(stream)).text)

        async with gw.stream("x", model="m") as stream:
            for _i in range(4):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read_one, stream)
        assert texts == list(STORY)

    virtually(body, {"eu": ScriptedProvider(answer(*STORY, every_s=1))})


def test_leaving_early_closes_the_connection_at_once_and_is_on_the_record() -> None:
    eu = ScriptedProvider([chunk("Once "), silence(1), *answer("upon")])

    async def body(gw: Gateway, network: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            async for _chunk in stream:
                break
        assert network.open_connections == 0
        (attempt,) = stream.stats.attempts
        assert (attempt.outcome, attempt.cancel_reason) == ("cancelled", "caller")
        assert not stream.completion.finish_reason

    virtually(body, {"eu": eu})
    assert (eu.log[0].ended, eu.log[0].ended_at) == ("client closed", 0)


def test_a_whole_stream_leaves_its_connection_for_the_next_call() -> None:
    eu = ScriptedProvider(answer(*STORY))

    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        for _i in range(3):
            async with gw.stream("x", model="m") as stream:
                await all_of(stream)

    virtually(body, {"eu": eu})
    assert [each.connection for each in eu.log] == [0, 0, 0]


def test_usage_behind_the_finish_reason_is_in_the_completion() -> None:
    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            await all_of(stream)
        assert stream.completion.usage.input_tokens == 9
        assert trio.current_time() == pytest.approx(0.5)

    # No end marker ever comes: the answer is whole half a second after its finish reason.
    script: list[Step] = [chunk("Once."), finish(), silence(0.2), usage(9, 1), hang()]
    virtually(body, {"eu": ScriptedProvider(script)})


def test_a_slow_consumer_still_gets_the_usage_behind_the_finish_reason() -> None:
    script: list[Step] = [
        together(chunk("Once."), finish()),
        silence(0.2),
        usage(9, 1),
        silence(0.2),
        done(),
    ]

    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async with gw.stream("x", model="m") as stream:
            async for _chunk in stream:
                await trio.sleep(10)
        assert stream.completion.usage.input_tokens == 9

    virtually(body, {"eu": ScriptedProvider(script)})


# What the application sees of its own errors, and of ours


class _UnclosableStream(trio.abc.Stream):
    """A stream whose close fails, after it has closed what is under it."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self._inner = inner

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inner.receive_some(max_bytes)

    def close(self) -> None:
        raise RuntimeError("cannot close")

    async def aclose(self) -> None:
        await self._inner.aclose()


def interrupted(body: Callable[[Gateway], Awaitable[None]], *, unclosable: bool = False) -> None:
    """Run *body* with a gateway whose provider gives a chunk, then nothing."""

    async def main() -> None:
        provider = ScriptedProvider([chunk("Once "), hang()])
        async with serve_memory({"eu": provider}) as network:

            async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
                stream = await network.connect(host, port, tls)
                return _UnclosableStream(stream) if unclosable else stream

            config = network.config(retry=NO_RETRY, hedge=HedgePolicy(enabled=False))
            async with open_gateway(config, connect=connect) as gw:
                await body(gw)
            assert unclosable or network.open_connections == 0

    run_virtual(main)


class _Own(Exception):
    pass


def test_an_exception_of_the_block_passes_as_it_is() -> None:
    original = _Own("mine")

    async def body(gw: Gateway) -> None:
        async with gw.stream("x", model="m"):
            raise original

    with pytest.raises(_Own) as caught:
        interrupted(body)
    assert caught.value is original
    assert caught.value.__cause__ is None
    assert not hasattr(caught.value, "__notes__")


def test_an_exception_group_of_the_block_passes_untouched() -> None:
    group = ExceptionGroup("mine", [_Own()])

    async def body(gw: Gateway) -> None:
        async with gw.stream("x", model="m"):
            raise group

    with pytest.RaisesGroup(_Own) as caught:
        interrupted(body)
    assert caught.value is group


def test_an_interrupt_in_the_block_passes_plain() -> None:
    async def body(gw: Gateway) -> None:
        async with gw.stream("x", model="m"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(body)


def test_a_cancelled_block_is_caught_by_the_scope_that_cancelled_it() -> None:
    async def body(gw: Gateway) -> None:
        with trio.move_on_after(3) as scope:
            async with gw.stream("x", model="m") as stream:
                await all_of(stream)
        assert scope.cancelled_caught

    interrupted(body)


def test_a_cancellation_reaches_the_application_plain() -> None:
    async def body(gw: Gateway) -> None:
        for call in (
            partial(gw.complete, "x", model="m"),
            gw.stream("x", model="m").__aenter__,
        ):
            with trio.move_on_after(0) as scope:
                with pytest.raises(trio.Cancelled):
                    await call()
                await trio.lowlevel.checkpoint()
            assert scope.cancelled_caught

    interrupted(body)


def test_a_close_that_fails_is_a_note_on_the_exception_of_the_block() -> None:
    async def body(gw: Gateway) -> None:
        with pytest.raises(_Own) as caught:
            async with gw.stream("x", model="m"):
                raise _Own
        assert any("cannot close" in note for note in caught.value.__notes__)

    interrupted(body, unclosable=True)


def test_a_close_that_fails_behind_a_quiet_or_cancelled_block_is_an_internal_error() -> None:
    async def body(gw: Gateway) -> None:
        with pytest.raises(InternalError, match="cannot close"):
            async with gw.stream("x", model="m"):
                pass
        with trio.move_on_after(3), pytest.raises(InternalError, match="cannot close"):
            async with gw.stream("x", model="m") as stream:
                await all_of(stream)
        with trio.move_on_after(3), pytest.raises(InternalError, match="cannot close"):
            await gw.complete("x", model="m")

    interrupted(body, unclosable=True)


def test_a_close_that_fails_under_a_cancelled_nursery_of_the_block_is_told_too() -> None:
    async def body(gw: Gateway) -> None:
        async def block() -> None:
            async with gw.stream("x", model="m"), trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)

        with trio.move_on_after(3), pytest.raises(InternalError, match="cannot close"):
            await block()

    interrupted(body, unclosable=True)


def test_a_close_that_fails_behind_a_failure_is_a_note_on_it() -> None:
    async def main() -> None:
        refusal: list[Step] = [headers(status=400), cut()]
        async with serve_memory({"eu": ScriptedProvider(refusal)}) as network:

            async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
                return _UnclosableStream(await network.connect(host, port, tls))

            async with open_gateway(network.config(), connect=connect) as gw:
                with pytest.raises(InvalidRequest) as caught:
                    await gw.complete("x", model="m")
        assert any("cannot close" in note for note in caught.value.__notes__)

    run_virtual(main)


def test_a_defect_while_waiting_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object, __: bytes) -> list[Chunk]:
        raise KeyError("defect")

    async def body(gw: Gateway) -> None:
        async with gw.stream("x", model="m") as stream:
            await anext(stream)
            monkeypatch.setattr("polygateway.wire.openai_chat.ChatDecoder.feed", broken)
            monkeypatch.setattr("polygateway.wire.openai_chat.ChatDecoder.close", broken)
            with pytest.raises(InternalError, match="KeyError") as caught:
                await anext(stream)
            assert isinstance(caught.value.__cause__, KeyError)

    async def main() -> None:
        provider = ScriptedProvider([chunk("Once "), silence(1), *answer("upon")])
        async with gateway_to({"eu": provider}) as (gw, _):
            await body(gw)

    run_virtual(main)


def test_a_defect_in_a_race_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object, __: bytes) -> list[Chunk]:
        raise KeyError("defect")

    monkeypatch.setattr("polygateway.wire.openai_chat.ChatDecoder.feed", broken)

    async def body(gw: Gateway, network: MemoryNetwork) -> None:
        with pytest.raises(InternalError, match="KeyError") as caught:
            await gw.complete("x", model="m")
        assert isinstance(caught.value.__cause__, KeyError)
        assert network.open_connections == 0

    virtually(body, {"eu": ScriptedProvider(answer("Once."))})


def test_an_interrupt_in_a_race_reaches_the_application_plain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_: object, __: bytes) -> list[Chunk]:
        raise KeyboardInterrupt

    monkeypatch.setattr("polygateway.wire.openai_chat.ChatDecoder.feed", interrupt)

    async def body(gw: Gateway, network: MemoryNetwork) -> None:
        with pytest.raises(KeyboardInterrupt):
            await gw.complete("x", model="m")
        assert network.open_connections == 0

    virtually(body, {"eu": ScriptedProvider(answer("Once."))})


@pytest.mark.parametrize("late", [error_frame("boom"), chunk("upon"), cut()], ids=str)
def test_what_was_on_its_way_when_the_gateway_was_left_counts_for_nothing(
    late: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Exchange.read

    async def body(gw: Gateway, _: MemoryNetwork) -> None:
        async def read_and_leave(exchange: Exchange) -> bytes:
            try:
                return await read(exchange)
            finally:
                gw.close()

        async with gw.stream("x", model="m") as stream:
            await anext(stream)
            monkeypatch.setattr(Exchange, "read", read_and_leave)
            with pytest.raises(GatewayClosed) as caught:
                await anext(stream)
        (attempt,) = caught.value.attempts
        assert (attempt.outcome, attempt.error, attempt.chunk_count) == ("cancelled", None, 1)

    virtually(body, {"eu": ScriptedProvider([chunk("Once "), silence(1), late])})


def test_leaving_the_gateway_ends_its_calls_with_an_error_of_their_own() -> None:
    async def main() -> None:
        provider = ScriptedProvider([chunk("Once "), hang()])
        raised: list[GatewayClosed] = []
        async with serve_memory({"eu": provider}) as network:
            config = network.config(hedge=HedgePolicy(enabled=False))

            async def read(gw: Gateway) -> None:
                with pytest.raises(GatewayClosed) as caught:
                    async with gw.stream("x", model="m") as stream:
                        await all_of(stream)
                raised.append(caught.value)

            async def wait(gw: Gateway) -> None:
                with pytest.raises(GatewayClosed) as caught:
                    await gw.complete("x", model="m")
                raised.append(caught.value)

            async with trio.open_nursery() as nursery:
                async with open_gateway(config, connect=network.connect) as gw:
                    nursery.start_soon(read, gw)
                    nursery.start_soon(wait, gw)
                    await trio.sleep(3)
                assert network.open_connections == 0
        assert trio.current_time() == pytest.approx(3)
        for error in raised:
            assert error.partial is not None
            assert error.partial.text == "Once "
            assert [each.cancel_reason for each in error.attempts] == ["shutdown"]
        assert len(raised) == 2

        with pytest.raises(GatewayClosed):
            await gw.complete("x", model="m")

    run_virtual(main)
