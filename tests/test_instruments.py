"""What instruments are told of whole calls, and that being told harms and changes nothing."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

import pytest
import trio

from polygateway import (
    DeadlineExceeded,
    GatewayClosed,
    GatewayError,
    HedgePolicy,
    Limits,
    ServerError,
    StallTimeout,
    StreamBroken,
    StreamPolicy,
    narrator,
    open_gateway,
)
from polygateway.instrument import (
    AttemptEnded,
    AttemptStarted,
    CallEnded,
    CallStarted,
    Committed,
    HedgeRefused,
    Instrument,
    StallBegan,
    StallEnded,
)
from polygateway.record import trace_of
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    comment,
    cut,
    done,
    empty,
    finish,
    hang,
    headers,
    keepalives,
    ping,
    run_virtual,
    serve_memory,
    silence,
    status,
    together,
)
from tests.listening import Notes, check, complete, stream, told, watch
from tests.scenario import AT_ONCE, NO_RETRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway import Gateway, Stall
    from polygateway.attempt import Attempt
    from polygateway.testing import Step
    from polygateway.trace import Trace
    from tests.listening import Providers, Use

    T = TypeVar("T")

SECOND = 1_000_000_000
NO_HEDGE = HedgePolicy(enabled=False)


def script(*steps: Step) -> ScriptedProvider:
    return ScriptedProvider(steps)


# ---------------------------------------------------------------- the order of events


@pytest.mark.parametrize("use", [complete, stream])
def test_a_call_that_nothing_happens_to(use: Use) -> None:
    notes = told(use, {"eu": ScriptedProvider(answer("Once ", "upon", every_s=1))})
    assert notes.lines == ["call", "primary 0", "commit 0", "0 won", "call complete"]


@pytest.mark.parametrize("use", [complete, stream])
def test_a_hedge_for_a_late_first_content_that_wins(use: Use) -> None:
    eu, us = script(headers(), hang()), ScriptedProvider(answer("Once ", "upon"))
    notes = told(use, {"eu": eu, "us": us})
    assert notes.lines == [
        *("call", "primary 0", "hedge 1 (ttft)", "0 lost", "commit 1", "1 won", "call complete"),
    ]


def test_a_hedge_for_a_stall_that_wins() -> None:
    eu, us = script(chunk("Once "), hang()), ScriptedProvider(answer("Once ", "upon", every_s=1))
    notes = told(complete, {"eu": eu, "us": us})
    assert notes.lines == [
        *("call", "primary 0", "0 stalls", "hedge 1 (stall)", "0 stalled", "0 lost"),
        *("commit 1", "1 won", "call complete"),
    ]


def test_a_duel_that_the_primary_wins() -> None:
    eu = script(chunk("Once "), silence(6), *answer("upon"))
    us = script(silence(9), *answer("late"))
    notes = told(complete, {"eu": eu, "us": us})
    assert notes.lines == [
        *("call", "primary 0", "0 stalls", "hedge 1 (stall)", "0 stalled", "1 lost"),
        *("commit 0", "0 won", "call complete"),
    ]


def test_a_failure_and_its_retry() -> None:
    eu = ScriptedProvider([chunk("Once "), cut()], answer("Once upon"))
    notes = told(complete, {"eu": eu}, retry=AT_ONCE)
    assert notes.lines == [
        *("call", "primary 0", "0 failed", "retry 1", "commit 1", "1 won", "call complete"),
    ]


@pytest.mark.parametrize("use", [complete, stream])
def test_a_call_all_of_whose_attempts_fail(use: Use) -> None:
    seen: list[GatewayError] = []

    async def failing(gw: Gateway) -> None:
        with pytest.raises(ServerError) as caught:
            await use(gw)
        seen.append(caught.value)

    notes = told(failing, {"eu": ScriptedProvider(status(500))}, retry=AT_ONCE)
    assert notes.lines == [
        *("call", "primary 0", "0 failed", "retry 1", "1 failed", "retry 2", "2 failed"),
        "call failed",
    ]
    assert notes.end.error is seen[0]


async def complete_in_time(gw: Gateway) -> None:
    await gw.complete("x", model="m", deadline_s=3)


async def stream_in_time(gw: Gateway) -> None:
    async with gw.stream("x", model="m", deadline_s=3) as opened:
        async for _ in opened:
            pass


async def stream_slowly_in_time(gw: Gateway) -> None:
    async with gw.stream("x", model="m", deadline_s=3) as opened:
        async for _ in opened:
            await trio.sleep(4)


@pytest.mark.parametrize(
    ("use", "between"),
    [
        (complete_in_time, ["0 stalls", "0 stalled"]),
        (stream_in_time, ["commit 0", "0 stalls", "0 stalled"]),
        (stream_slowly_in_time, ["commit 0"]),
    ],
)
def test_a_call_whose_deadline_passes(use: Use, between: list[str]) -> None:
    seen: list[GatewayError] = []

    async def late(gw: Gateway) -> None:
        with pytest.raises(DeadlineExceeded) as caught:
            await use(gw)
        seen.append(caught.value)

    notes = told(late, {"eu": script(chunk("Once "), hang())})
    assert notes.lines == ["call", "primary 0", *between, "0 cancelled", "call failed"]
    assert notes.end.error is seen[0]
    assert notes.end.stats.attempts[0].cancel_reason == "deadline"


@pytest.mark.parametrize("use", [complete, stream])
def test_a_call_that_its_caller_cancels(use: Use) -> None:
    async def cancelling(gw: Gateway) -> None:
        with trio.move_on_after(1):
            await use(gw)

    notes = told(cancelling, {"eu": script(headers(), hang()), "us": script(hang())})
    assert notes.lines == ["call", "primary 0", "0 cancelled", "call cancelled"]
    assert notes.end.at_ns == SECOND


def test_a_stream_whose_block_is_left_early() -> None:
    async def leaving(gw: Gateway) -> None:
        async with gw.stream("x", model="m") as opened:
            async for _ in opened:
                break

    notes = told(leaving, {"eu": ScriptedProvider(answer("Once ", "upon", every_s=1))})
    assert notes.lines == ["call", "primary 0", "commit 0", "0 cancelled", "call cancelled"]


def test_a_stream_whose_block_is_left_when_all_of_it_had_come() -> None:
    # Nothing was missing any more, so nothing was given up.
    async def leaving(gw: Gateway) -> None:
        async with gw.stream("x", model="m") as opened:
            async for _ in opened:
                break

    eu = script(together(chunk("Once "), chunk("upon"), finish(), done()))
    notes = told(leaving, {"eu": eu})
    assert notes.lines == ["call", "primary 0", "commit 0", "0 won", "call complete"]


def test_a_stream_whose_application_raises_is_no_failure_of_the_call() -> None:
    async def raise_within(gw: Gateway) -> None:
        async with gw.stream("x", model="m") as opened:
            async for _ in opened:
                raise ZeroDivisionError

    async def raising(gw: Gateway) -> None:
        with pytest.raises(ZeroDivisionError):
            await raise_within(gw)

    notes = told(raising, {"eu": ScriptedProvider(answer("Once ", "upon", every_s=1))})
    assert notes.lines == ["call", "primary 0", "commit 0", "0 cancelled", "call cancelled"]


def test_a_stream_that_breaks() -> None:
    seen: list[GatewayError] = []

    async def broken(gw: Gateway) -> None:
        with pytest.raises(StreamBroken) as caught:
            await stream(gw)
        seen.append(caught.value)

    notes = told(broken, {"eu": script(chunk("Once "), cut())})
    assert notes.lines == ["call", "primary 0", "commit 0", "0 failed", "call failed"]
    assert notes.end.error is seen[0]


async def stream_without_reading(gw: Gateway) -> None:
    async with gw.stream("x", model="m"):
        await trio.sleep(20)


@pytest.mark.parametrize(
    ("use", "commit", "outcome"),
    [
        (complete, [], "failed"),
        (stream, ["commit 0"], "failed"),
        # Nobody was told of an error, for nobody asked for more.
        (stream_without_reading, ["commit 0"], "cancelled"),
    ],
)
def test_a_call_whose_gateway_is_left(use: Use, commit: list[str], outcome: str) -> None:
    notes = Notes()

    async def call(gw: Gateway) -> None:
        with suppress(GatewayClosed):
            await use(gw)

    async def main() -> None:
        async with (
            serve_memory({"eu": script(chunk("Once "), hang())}) as network,
            trio.open_nursery() as nursery,
            open_gateway(network.config(), connect=network.connect, instruments=[notes]) as gw,
        ):
            nursery.start_soon(call, gw)
            await trio.sleep(1)

    run_virtual(main)
    check(notes)
    assert notes.lines == ["call", "primary 0", *commit, "0 cancelled", f"call {outcome}"]
    assert notes.end.at_ns == SECOND
    assert notes.end.stats.attempts[0].cancel_reason == "shutdown"


def test_hedges_that_are_refused() -> None:
    eu = script(headers(), silence(12), *answer("Once"))
    notes = told(complete, {"eu": eu}, hedge=HedgePolicy(max_attempts=1))
    assert notes.lines == [
        *("call", "primary 0", "no hedge (ttft): max_attempts", "no hedge (ttft): max_attempts"),
        *("commit 0", "0 won", "call complete"),
    ]
    assert [event.at_ns for event in notes.of(HedgeRefused)] == [5 * SECOND, 10 * SECOND]


def test_calls_that_run_at_the_same_time_are_told_apart_by_their_numbers() -> None:
    async def twenty(gw: Gateway) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(complete, gw)

    eu, us = script(chunk("Once "), hang()), ScriptedProvider(answer("Once ", "upon", every_s=1))
    hedge = HedgePolicy(budget_burst=20)
    notes = told(twenty, {"eu": eu, "us": us}, hedge=hedge, limits=Limits())
    assert len(notes.by_call()) == 20
    assert len(notes.of(AttemptStarted)) == 40


# ---------------------------------------------------------------- what events say


def test_events_say_who_and_where() -> None:
    eu, us = script(headers(), hang()), ScriptedProvider(answer("Once "))

    async def late(gw: Gateway) -> None:
        await trio.sleep(0.25)
        await stream(gw)

    notes = told(late, {"eu": eu, "us": us})
    (call,) = notes.of(CallStarted)
    assert (call.at_ns, call.model, call.stream) == (SECOND // 4, "m", True)
    assert list(call.targets) == ["eu", "us"]
    primary, hedge = notes.of(AttemptStarted)
    assert (primary.dialect, primary.provider_model) == ("openai-chat", "scripted")
    assert (primary.target, primary.host, primary.port) == ("eu", "eu.invalid", 80)
    assert (hedge.target, hedge.kind, hedge.reason) == ("us", "hedge", "ttft")
    assert hedge.at_ns == primary.at_ns + 5 * SECOND
    (commit,) = notes.of(Committed)
    assert (commit.attempt, commit.target, commit.at_ns) == (1, "us", hedge.at_ns)
    end = notes.end
    assert (end.model, end.stream) == ("m", True)
    assert (end.finish_reason, end.provider_model) == ("stop", "scripted")
    assert end.response_id == "chatcmpl-scripted"
    assert (end.usage.input_tokens, end.usage.output_tokens) == (7, 1)
    assert end.usage.confidence == "exact"


def test_of_a_call_without_a_reply_the_end_says_only_what_is_known() -> None:
    end = told(complete, {"eu": ScriptedProvider(status(500))}, retry=NO_RETRY).end
    assert (end.finish_reason, end.provider_model, end.response_id) == (None, None, None)
    assert not end.usage.is_known


@pytest.mark.parametrize("use", [complete, stream])
def test_a_call_is_told_as_over_when_its_answer_is_and_not_after_the_connection(use: Use) -> None:
    # The body's end is waited for so that the connection can be reused: that is nobody's answer.
    moments: list[float] = []

    class Watch(Instrument):
        def attempt_ended(self, event: AttemptEnded) -> None:
            moments.append(trio.current_time())

        def call_ended(self, event: CallEnded) -> None:
            moments.append(trio.current_time())

    eu = script(silence(1), chunk("Once "), silence(1), finish(), done(), silence(0.04))
    watch(use, {"eu": eu}, Watch())
    assert moments == [2, 2]


def test_a_call_is_told_of_what_the_application_is_given() -> None:
    seen: list[object] = []

    async def both(gw: Gateway) -> None:
        seen.append((await gw.complete("x", model="m")).stats)
        async with gw.stream("x", model="m") as opened:
            async for _ in opened:
                pass
        seen.append(opened.stats)

    notes = told(both, {"eu": ScriptedProvider(answer("Once ", "upon", every_s=1))})
    assert [event.stats for event in notes.of(CallEnded)] == seen


def test_a_call_that_nobody_won_is_told_by_the_attempt_that_its_error_is_about() -> None:
    # The first had three chunks when it broke; its text was dropped for that of the second.
    seen: list[GatewayError] = []

    async def failing(gw: Gateway) -> None:
        with pytest.raises(DeadlineExceeded) as caught:
            await gw.complete("x", model="m", deadline_s=5)
        seen.append(caught.value)

    eu = script(*(chunk("a"), silence(0.1)) * 3, cut())
    for us, count in [(script(hang()), 0), (script(chunk("b"), hang()), 1)]:
        notes = told(failing, {"eu": eu, "us": us}, hedge=NO_HEDGE)
        assert notes.end.stats.chunk_count == count
        partial_answer = seen.pop().partial
        assert (partial_answer is not None) == bool(count)
        if partial_answer is not None:
            assert partial_answer.stats == notes.end.stats


# ---------------------------------------------------------------- stalls


def stalls(notes: Notes) -> list[tuple[float, float]]:
    """Give when each stall that was told began and ended, in seconds."""
    return [
        (began.at_ns / SECOND, ended.at_ns / SECOND)
        for began, ended in zip(notes.of(StallBegan), notes.of(StallEnded), strict=True)
    ]


def only_stall(notes: Notes) -> Stall:
    (event,) = notes.of(StallEnded)
    return event.stall


@pytest.mark.parametrize("use", [complete, stream])
@pytest.mark.parametrize(
    "during",
    [
        (silence(7),),
        keepalives(7, every_s=0.3, step=comment()),
        keepalives(7, every_s=0.3, step=ping()),
        keepalives(7, every_s=0.3, step=empty()),
        keepalives(7, every_s=1, step=comment()),
        keepalives(7, every_s=1.999999999, step=comment()),
        keepalives(7, every_s=2, step=comment()),
    ],
    ids=["silence", "comments", "pings", "empty deltas", "at 2 s", "just before", "only at 2 s"],
)
def test_a_stall_is_told_at_its_threshold_whatever_comes_that_is_no_content(
    use: Use, during: Sequence[Step]
) -> None:
    # A deadline that each byte puts off would never be met.
    eu = script(silence(0.5), chunk("Once "), *during, chunk("upon"), finish(), done())
    notes = told(use, {"eu": eu}, hedge=NO_HEDGE)
    assert stalls(notes) == [(2.5, 7.5)]
    stall = only_stall(notes)
    assert (stall.duration_ms, stall.open, stall.next_kind) == (7000, False, "text")
    alive = len(during) > 1
    assert stall.cause == ("server_alive" if alive else "server_silence")


@pytest.mark.parametrize("waited_s", [1.999999999, 2, 2.000000001])
def test_a_gap_of_exactly_the_threshold_is_a_stall_and_one_below_it_is_none(
    waited_s: float,
) -> None:
    eu = script(chunk("Once "), silence(waited_s), chunk("upon"), finish(), done())
    notes = told(complete, {"eu": eu}, hedge=NO_HEDGE)
    assert stalls(notes) == ([(2, waited_s)] if waited_s >= 2 else [])


def test_each_of_several_stalls_is_told() -> None:
    eu = script(*(chunk("a"), silence(3)) * 3, chunk("a"), silence(1), chunk("b"), finish(), done())
    notes = told(complete, {"eu": eu}, hedge=NO_HEDGE)
    assert stalls(notes) == [(2, 3), (5, 6), (8, 9)]


def test_a_wait_for_the_first_content_is_no_stall() -> None:
    eu = script(headers(), *keepalives(30, every_s=1), *answer("Once"))
    assert stalls(told(complete, {"eu": eu}, hedge=NO_HEDGE)) == []


def test_time_in_which_the_application_does_not_ask_puts_a_stall_off() -> None:
    async def slow(gw: Gateway) -> None:
        async with gw.stream("x", model="m") as opened:
            await anext(opened)
            await trio.sleep(1.5)
            with trio.move_on_after(1.2):  # waits from 1.5 to 2.7
                await anext(opened)
            await trio.sleep(1)
            await anext(opened)  # and again from 3.7 on: 2 s have been waited at 4.5

    eu = script(chunk("Once "), silence(6), *answer("upon"))
    assert stalls(told(slow, {"eu": eu})) == [(4.5, 6)]


def test_an_application_that_is_slow_meets_no_stall_where_content_waits_for_it() -> None:
    async def slow(gw: Gateway) -> None:
        async with gw.stream("x", model="m") as opened:
            async for _ in opened:
                await trio.sleep(10)

    eu = ScriptedProvider(answer(*"abcdef", every_s=1))
    assert stalls(told(slow, {"eu": eu})) == []


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ((cut(),), "disconnect"),
        ((hang(),), "server_silence"),
        ((comment(), hang()), "server_alive"),
    ],
    ids=["cut", "watchdog", "watchdog although it lives"],
)
@pytest.mark.parametrize("use", [complete, stream])
def test_a_stall_that_an_attempt_ends_in_is_told_as_open(
    use: Use, end: Sequence[Step], cause: str
) -> None:
    eu = script(chunk("Once "), silence(3), *end)
    policy = StreamPolicy(stall_timeout_s=4)
    notes = told(use, {"eu": eu}, hedge=NO_HEDGE, stream=policy, retry=NO_RETRY)
    stall = only_stall(notes)
    assert (stall.open, stall.next_kind, stall.cause) == (True, None, cause)
    assert list(notes.end.stats.stalls) == [stall]
    assert isinstance(notes.end.error, StreamBroken | StallTimeout) or cause == "disconnect"


def test_a_silence_before_a_proper_end_is_told_and_then_turns_out_to_be_none() -> None:
    # While it lasts nobody can know. It is the tail, and in no figure of stalls.
    eu = script(chunk("Once "), silence(3), finish(), done())
    notes = told(complete, {"eu": eu}, hedge=NO_HEDGE)
    assert stalls(notes) == [(2, 3)]
    assert (only_stall(notes).open, only_stall(notes).next_kind) == (False, None)
    assert notes.end.stats.stalls == ()
    assert notes.end.stats.tail_ms == 3000


def test_what_comes_after_a_finish_reason_is_no_stall_that_is_watched_for() -> None:
    eu = script(chunk("Once "), finish(), silence(0.4), done())
    policy = StreamPolicy(stall_threshold_ms=100)
    assert stalls(told(complete, {"eu": eu}, hedge=NO_HEDGE, stream=policy)) == []


def test_content_that_makes_a_finish_reason_void_ends_a_stall_that_is_told_as_a_whole() -> None:
    eu = script(chunk("Once "), finish(), silence(0.4), chunk("upon"), finish(), done())
    policy = StreamPolicy(stall_threshold_ms=100)
    notes = told(complete, {"eu": eu}, hedge=NO_HEDGE, stream=policy)
    assert stalls(notes) == [(0.4, 0.4)]
    assert only_stall(notes).duration_ms == 400


def test_a_stall_that_the_watchdog_ends_at_its_threshold_is_told_all_the_same() -> None:
    # The figures have it, so whoever counts the events must have heard of it.
    policy = StreamPolicy(stall_timeout_s=2)
    eu = script(chunk("Once "), hang())
    notes = told(complete, {"eu": eu}, hedge=NO_HEDGE, stream=policy, retry=NO_RETRY)
    assert stalls(notes) == [(2, 2)]
    assert list(notes.end.stats.stalls) == [only_stall(notes)]


def test_a_stall_that_a_hedge_ends_at_its_threshold_is_told_all_the_same() -> None:
    eu, us = script(chunk("Once "), hang()), ScriptedProvider(answer("Once "))
    notes = told(complete, {"eu": eu, "us": us}, hedge=HedgePolicy(stall_after_s=2))
    assert stalls(notes) == [(2, 2)]
    assert list(notes.end.stats.attempts[0].stalls) == [only_stall(notes)]


def test_a_stall_behind_a_finish_reason_that_a_deadline_ends_is_told_all_the_same() -> None:
    async def in_time(gw: Gateway) -> None:
        await gw.complete("x", model="m", deadline_s=0.4)

    policy = StreamPolicy(stall_threshold_ms=300)
    eu = script(chunk("Once "), finish(), hang())
    notes = told(in_time, {"eu": eu}, hedge=NO_HEDGE, stream=policy)
    assert stalls(notes) == [(0.4, 0.4)]
    assert list(notes.end.stats.stalls) == [only_stall(notes)]


# ---------------------------------------------------------------- those that raise


def eventful() -> Providers:
    """Give providers at which everything happens that can be told of."""
    eu = script(chunk("Once "), silence(13), *answer("upon"))
    return {"eu": eu, "us": script(headers(), hang())}


def recovering() -> Providers:
    """Give providers of which the first breaks off its answer, and the second begins it anew."""
    return {"eu": script(chunk("Once "), cut()), "us": ScriptedProvider(answer("Once upon"))}


TWO_ATTEMPTS = HedgePolicy(max_attempts=2)
RESTART = StreamPolicy(recovery="restart")

METHODS = [name for name in vars(Instrument) if not name.startswith("_") and "_traces" not in name]


def test_everything_happens_where_it_is_said_to() -> None:
    notes = told(complete, eventful(), hedge=TWO_ATTEMPTS)
    assert notes.lines == [
        *("call", "primary 0", "0 stalls", "hedge 1 (stall)", "no hedge (stall): max_attempts"),
        *("0 stalled", "1 lost", "commit 0", "0 won", "call complete"),
    ]
    recovered = told(stream, recovering(), stream=RESTART, retry=AT_ONCE)
    assert recovered.lines == [
        *("call", "primary 0", "commit 0", "0 failed", "retry 1", "commit 1", "restart 0 -> 1"),
        *("1 won", "call complete"),
    ]
    seen = {type(event) for event in (*notes.events, *recovered.events)}
    assert len(seen) == len(METHODS) == 9


def raising(method: str, error: BaseException) -> Instrument:
    """Give an instrument that raises when it is told of one kind of event."""

    def fail(_: object) -> NoReturn:
        raise error

    kind = type("Raising", (Instrument,), {method: staticmethod(fail)})
    return cast("Instrument", kind())


@pytest.mark.parametrize("method", [each for each in METHODS if each != "seam_made"])
def test_an_instrument_that_raises_is_dropped_with_a_warning_and_harms_no_call(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = Notes(), Notes(wants_traces=False)
    failing = raising(method, ValueError("the disk is full"))
    texts: list[str] = []

    async def twice(gw: Gateway) -> None:
        texts.extend([(await gw.complete("x", model="m")).text for _ in range(2)])

    eu = ScriptedProvider(
        [chunk("Once "), silence(13), *answer("upon")], answer("a ", "time", every_s=1)
    )
    providers = {**eventful(), "eu": eu}
    with caplog.at_level(logging.WARNING, "polygateway"):
        watch(twice, providers, before, failing, after, hedge=TWO_ATTEMPTS)
    assert texts == ["Once upon", "a time"]
    (warning,) = caplog.records
    assert (warning.name, warning.levelname) == ("polygateway", "WARNING")
    check(before)
    assert before.events == after.events
    assert len(before.by_call()) == 2


def test_an_instrument_that_raises_at_a_seam_is_dropped_and_harms_no_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, after = Notes(), Notes(wants_traces=False)
    failing = raising("seam_made", ValueError("the disk is full"))
    with caplog.at_level(logging.WARNING, "polygateway"):
        watch(stream, recovering(), before, failing, after, stream=RESTART, retry=AT_ONCE)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    check(before)
    assert before.events == after.events
    assert before.end.outcome == "complete"


def test_an_interrupt_at_a_seam_comes_out_plain_and_leaves_no_connection() -> None:
    failing = raising("seam_made", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        watch(stream, recovering(), failing, stream=RESTART, retry=AT_ONCE)


@pytest.mark.parametrize(
    ("use", "method"),
    [
        *((complete, method) for method in METHODS if method != "seam_made"),
        *((stream, method) for method in METHODS if method not in {"hedge_refused", "seam_made"}),
    ],
)
def test_an_interrupt_in_an_instrument_comes_out_plain_and_leaves_no_connection(
    use: Use, method: str
) -> None:
    with pytest.raises(KeyboardInterrupt):
        watch(use, eventful(), raising(method, KeyboardInterrupt()), hedge=TWO_ATTEMPTS)


# ---------------------------------------------------------------- without any


def count_events(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the events that are made from now on."""
    made: Counter[str] = Counter()

    def make(event: type[T], /, **fields: object) -> T:
        made[event.__name__] += 1
        return event(**fields)

    for name, value in vars(narrator).items():
        if isinstance(value, type) and hasattr(value, "tell"):
            monkeypatch.setattr(narrator, name, partial(make, value))
    return made


def test_without_instruments_no_event_is_made_but_what_the_statistics_are_made_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = count_events(monkeypatch)
    watch(complete, eventful(), hedge=TWO_ATTEMPTS)
    assert made == {"CallEnded": 1}
    made.clear()
    watch(complete, eventful(), Notes(), hedge=TWO_ATTEMPTS)
    assert len(made) == 8


def test_no_stall_is_told_where_nobody_overrides_what_it_is_told_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Deaf(Instrument):
        def __init__(self) -> None:
            self.attempts = 0

        def attempt_ended(self, event: AttemptEnded) -> None:
            self.attempts += 1

    made, deaf = count_events(monkeypatch), Deaf()
    watch(complete, eventful(), deaf, hedge=TWO_ATTEMPTS)
    assert deaf.attempts == made["AttemptEnded"] == 2
    assert made["StallBegan"] == made["StallEnded"] == 0


def test_a_timeline_is_kept_only_for_those_who_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Trace] = []

    def counted(attempt: Attempt) -> Trace:
        made.append(trace_of(attempt))
        return made[-1]

    monkeypatch.setattr(narrator, "trace_of", counted)
    for wanted in ([], [False], [False, False]):
        instruments = [Notes(wants_traces=each) for each in wanted]
        watch(complete, eventful(), *instruments)
        assert all(event.trace is None for each in instruments for event in each.of(AttemptEnded))
    assert made == []

    modest, curious = Notes(wants_traces=False), Notes(wants_traces=True)
    watch(complete, eventful(), modest, curious)
    assert modest.events == curious.events
    assert [event.trace for event in curious.of(AttemptEnded)] == made
