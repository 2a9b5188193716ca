"""A stream that breaks or falls silent after it was delivered in part, and what takes its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from polygateway import (
    Chunk,
    Completion,
    CompletionStream,
    ConfigurationError,
    DeadlineExceeded,
    Gateway,
    GatewayClosed,
    GatewayError,
    HedgePolicy,
    RetryPolicy,
    Seam,
    StreamBroken,
    StreamPolicy,
    Truncated,
    open_gateway,
)
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    cut,
    done,
    empty,
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
    tool_call,
    usage,
)
from tests.scenario import gateway_to

if TYPE_CHECKING:
    from typing import TypeAlias

    from polygateway.policies import Recovery
    from polygateway.testing import Script, Step

    Scripts: TypeAlias = Mapping[str, Sequence[Script]]

AT_ONCE = RetryPolicy(backoff_base_s=0)

STORY = "Once upon a time there was a river. "
BROKEN: list[Step] = [chunk("Once upon a time "), chunk("there was a river. "), cut()]
SILENT: list[Step] = [chunk("Once upon a time "), chunk("there was a river. "), hang()]


def resuming(after_s: float) -> list[Step]:
    """Give a stream that stands still for a while in the middle."""
    return [chunk("Once upon a time "), silence(after_s), chunk("it rained."), finish(), done()]


@attrs.define
class Reading:
    """What an application saw of a stream."""

    chunks: list[Chunk] = attrs.field(factory=list[Chunk])
    times: list[float] = attrs.field(factory=list[float])
    completion: Completion | None = None
    error: GatewayError | None = None
    requests: Mapping[str, Sequence[float]] = {}
    """When each provider was asked."""

    bodies: Mapping[str, Sequence[object]] = {}
    """The messages of each request."""

    @property
    def text(self) -> str:
        """All texts, with "|" where the application is told to discard what it has, "+" to keep."""
        marks = {"restart": "|", "continue": "+", None: ""}
        return "".join(marks[each.seam_kind] + each.text for each in self.chunks)

    @property
    def whole(self) -> Completion:
        """The answer, which must have come whole."""
        assert self.error is None, self.error
        assert self.chunks[-1].kind == "end"
        assert self.completion is not None
        return self.completion

    @property
    def broken(self) -> StreamBroken:
        """The error, which must be that of a broken stream."""
        assert isinstance(self.error, StreamBroken)
        return self.error

    @property
    def kinds(self) -> list[str]:
        """The kind of each attempt."""
        assert self.completion is not None
        return [each.kind for each in self.completion.stats.attempts]

    @property
    def outcomes(self) -> list[str | None]:
        """What became of each attempt."""
        assert self.completion is not None
        return [each.outcome for each in self.completion.stats.attempts]


def read(
    scripts: Scripts,
    recovery: Recovery,
    *,
    pause_s: float = 0,
    patience_s: float | None = None,
    hedge: HedgePolicy | None = None,
    retry: RetryPolicy = AT_ONCE,
    deadline_s: float | None = None,
    response_format: Mapping[str, str] | None = None,
) -> Reading:
    """Read a stream in virtual time.

    Args:
        scripts: what each provider does.
        recovery: what becomes of a stream that breaks.
        pause_s: how long the application takes for each chunk.
        patience_s: how long it waits for one before it asks again; for ever by default.
        hedge: as configured.
        retry: as configured.
        deadline_s: of the call.
        response_format: of the request.
    """
    reading = Reading()
    providers = {name: ScriptedProvider(*script) for name, script in scripts.items()}

    async def next_chunk(stream: CompletionStream) -> Chunk | None:
        while True:
            with trio.move_on_after(float("inf") if patience_s is None else patience_s):
                return await chunk_or_none(stream)

    async def use(gw: Gateway) -> None:
        async with gw.stream(
            "x", model="m", deadline_s=deadline_s, response_format=response_format
        ) as stream:
            try:
                while (each := await next_chunk(stream)) is not None:
                    reading.chunks.append(each)
                    reading.times.append(trio.current_time())
                    await trio.sleep(pause_s)
            except GatewayError as error:
                reading.error = error
            reading.completion = stream.completion

    async def main() -> None:
        async with serve_memory(providers) as network:
            config = network.config(
                prefill=tuple(providers),
                hedge=hedge or HedgePolicy(after_s=5),
                stream=StreamPolicy(recovery=recovery),
                retry=retry,
            )
            async with open_gateway(config, connect=network.connect) as gw:
                await use(gw)
                assert not gw._calls
                connections = [route.connections for route in gw._routes.values()]
                assert all(each.free_slots == 1000 for each in connections)
            assert network.open_connections == 0

    run_virtual(main)
    reading.requests = {
        name: [each.started_at for each in provider.log] for name, provider in providers.items()
    }
    reading.bodies = {
        name: [each.request.body["messages"] for each in provider.log]
        for name, provider in providers.items()
    }
    return reading


async def chunk_or_none(stream: CompletionStream) -> Chunk | None:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return None


async def exhaust(stream: CompletionStream) -> None:
    async for _ in stream:
        pass


# ---------------------------------------------------------------- restart


def test_a_stream_that_is_cut_begins_anew_elsewhere_behind_a_seam() -> None:
    reading = read({"eu": [BROKEN], "us": [answer("Another ", "story.")]}, "restart")
    assert reading.text == f"{STORY}|Another story."
    assert reading.whole.text == "Another story."
    assert reading.whole.message == {"role": "assistant", "content": "Another story."}
    assert reading.kinds == ["primary", "retry"]
    assert reading.outcomes == ["failed", "won"]
    (seam,) = reading.whole.seams
    assert (seam.kind, seam.before, seam.after, seam.characters) == ("restart", 0, 1, len(STORY))
    assert [each.attempt for each in reading.chunks] == [0, 0, 1, 1, 1, 1]


def test_by_default_it_is_broken_and_nothing_is_asked_again() -> None:
    reading = read({"eu": [BROKEN], "us": [answer("Another.")]}, "raise")
    assert reading.text == STORY
    assert reading.requests["us"] == []
    assert isinstance(reading.broken.__cause__, Truncated)
    assert reading.broken.partial is not None
    assert reading.broken.partial.text == STORY


def test_a_silence_starts_a_rival_and_its_first_content_makes_the_seam() -> None:
    late = [silence(2), *answer("Another ", "story.")]
    reading = read({"eu": [SILENT], "us": [late]}, "restart")
    assert reading.requests["us"] == [5.0]
    assert reading.text == f"{STORY}|Another story."
    assert reading.times[2] == 7.0
    assert reading.kinds == ["primary", "hedge"]
    assert reading.outcomes == ["lost", "won"]
    assert reading.whole.stats.hedge_reason == "stall"


def test_an_old_attempt_that_resumes_first_goes_on_without_a_seam() -> None:
    late = [silence(2), *answer("Another.")]
    reading = read({"eu": [resuming(6)], "us": [late]}, "restart")
    assert reading.text == "Once upon a time it rained."
    assert reading.whole.seams == ()
    assert reading.times[1] == 6.0
    assert reading.outcomes == ["won", "lost"]


def test_an_old_attempt_that_ends_properly_first_is_the_answer() -> None:
    ends: list[Step] = [chunk("Once upon a time."), silence(6), finish(), done()]
    reading = read({"eu": [ends], "us": [[silence(2), *answer("Another.")]]}, "restart")
    assert reading.text == "Once upon a time."
    assert reading.whole.finish_reason == "stop"
    assert reading.outcomes == ["won", "lost"]


def test_when_the_old_attempt_breaks_the_new_race_goes_on() -> None:
    breaks: list[Step] = [chunk("Once "), silence(6), cut()]
    reading = read({"eu": [breaks], "us": [[silence(2), *answer("Another.")]]}, "restart")
    assert reading.text == "Once |Another."
    assert reading.requests["us"] == [5.0]
    assert reading.outcomes == ["failed", "won"]


def test_when_the_new_attempt_fails_the_old_one_is_read_on() -> None:
    reading = read({"eu": [resuming(8)], "us": [status(500)]}, "restart")
    assert reading.text == "Once upon a time it rained."
    assert reading.times[1] == 8.0
    assert reading.outcomes == ["won", "failed"]


def test_a_rescue_that_is_refused_leaves_the_old_attempt_to_its_watchdog() -> None:
    never = HedgePolicy(after_s=5, max_attempts=1)
    reading = read(
        {"eu": [SILENT], "us": [answer("Another.")]},
        "restart",
        hedge=never,
        retry=RetryPolicy(max_retries=0),
    )
    assert reading.text == STORY
    assert reading.broken.__cause__ is not None
    assert "120 s" in str(reading.broken)
    assert reading.requests["us"] == []
    assert reading.broken.attempts[0].outcome == "failed"


def test_without_hedging_a_silence_starts_nothing_but_a_break_does() -> None:
    off = HedgePolicy(enabled=False)
    scripts: Scripts = {"eu": [resuming(50)], "us": [answer("Another.")]}
    assert read(scripts, "restart", hedge=off).text == "Once upon a time it rained."
    scripts = {"eu": [BROKEN], "us": [answer("Another.")]}
    assert read(scripts, "restart", hedge=off).text == f"{STORY}|Another."


def test_a_stream_may_be_rescued_more_than_once_and_only_the_last_answer_counts() -> None:
    scripts: Scripts = {
        "eu": [BROKEN],
        "us": [[chunk("Another "), cut()]],
        "ap": [answer("The third.")],
    }
    reading = read(scripts, "restart")
    assert reading.text == f"{STORY}|Another |The third."
    assert reading.whole.text == "The third."
    assert [(each.before, each.after) for each in reading.whole.seams] == [(0, 1), (1, 2)]
    wasted = [each.wasted is not None for each in reading.whole.stats.attempts]
    assert wasted == [True, True, False]


def test_with_no_retry_left_the_stream_is_broken_and_keeps_what_was_delivered() -> None:
    scripts: Scripts = {"eu": [BROKEN], "us": [status(503)], "ap": [answer("The third.")]}
    reading = read(scripts, "restart", retry=RetryPolicy(max_retries=1, backoff_base_s=0))
    assert reading.text == STORY
    assert reading.broken.partial is not None
    assert reading.broken.partial.text == STORY
    assert reading.broken.kind == "overloaded"
    assert [each.outcome for each in reading.broken.attempts] == ["failed", "failed"]
    assert "enough retries" in str(reading.broken)


def test_the_time_that_the_application_takes_is_no_silence() -> None:
    reading = read({"eu": [SILENT], "us": [answer("Another.")]}, "restart", pause_s=30)
    # The second chunk was given at 30 s and worked on for 30 s; 5 s after that it is silent.
    assert reading.requests["us"] == [65.0]


def test_nor_does_it_spoil_the_excuse_of_an_answer_that_is_about_to_end() -> None:
    whole: list[Step] = [chunk("Once "), chunk("upon."), finish(), hang()]
    reading = read(
        {"eu": [whole], "us": [answer("Another.")]},
        "restart",
        pause_s=0.5,
        hedge=HedgePolicy(after_s=5, stall_after_s=0.5),
    )
    assert reading.text == "Once upon."
    assert reading.kinds == ["primary"]


def test_keep_alives_are_no_progress() -> None:
    kept: list[Step] = [chunk("Once "), *keepalives(60, every_s=1), chunk("late"), finish(), done()]
    reading = read({"eu": [kept], "us": [answer("Another.")]}, "restart")
    assert reading.text == "Once |Another."
    assert reading.requests["us"] == [5.0]


def test_reasoning_and_tool_calls_are_restarted_as_well() -> None:
    first: list[Step] = [reasoning("Hm. "), tool_call("{", id="c", name="f"), cut()]
    reading = read({"eu": [first], "us": [answer("Another.")]}, "restart")
    assert [each.kind for each in reading.chunks] == [
        *("reasoning", "tool_call", "seam", "text", "end")
    ]
    assert reading.whole.tool_calls == ()
    assert reading.whole.reasoning == ""


def test_an_error_in_the_stream_is_a_break_like_any_other() -> None:
    failing: list[Step] = [chunk("Once "), error_frame("overloaded", code=529)]
    reading = read({"eu": [failing], "us": [answer("Another.")]}, "restart")
    assert reading.text == "Once |Another."


# ---------------------------------------------------------------- continue


def test_another_attempt_goes_on_where_the_stream_broke() -> None:
    rest = [chunk("It was "), chunk("long."), finish(), usage(9, 4), done()]
    reading = read({"eu": [BROKEN], "us": [rest]}, "continue")
    assert reading.text == f"{STORY}+It was long."
    assert reading.whole.text == f"{STORY}It was long."
    assert reading.whole.message == {"role": "assistant", "content": f"{STORY}It was long."}
    assert reading.bodies["us"] == [
        [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": STORY.rstrip()},
        ]
    ]
    (seam,) = reading.whole.seams
    assert (seam.kind, seam.before, seam.after, seam.characters) == ("continue", 0, 1, len(STORY))
    assert [each.wasted for each in reading.whole.stats.attempts] == [None, None]


def test_the_same_target_may_go_on_with_it() -> None:
    rest = [chunk("It was long."), finish(), usage(9, 4), done()]
    reading = read({"eu": [BROKEN, rest]}, "continue")
    assert reading.whole.text == f"{STORY}It was long."
    _, asked_again = reading.bodies["eu"]
    assert asked_again == [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": STORY.rstrip()},
    ]


def test_what_is_said_again_is_not_delivered_twice() -> None:
    again = answer("Once upon a time there ", "was a river. It ", "was long.")
    reading = read({"eu": [BROKEN], "us": [again]}, "continue")
    assert reading.text == f"{STORY}+It was long."
    assert reading.whole.text == f"{STORY}It was long."


OTHERWISE = "Once upon a time there was a road. It was short."


def test_an_answer_that_begins_anew_otherwise_is_a_restart_if_that_will_do() -> None:
    scripts: Scripts = {"eu": [BROKEN], "us": [answer(OTHERWISE[:30], OTHERWISE[30:])]}
    reading = read(scripts, "continue-or-restart")
    assert reading.text == f"{STORY}|{OTHERWISE}"
    assert reading.whole.text == OTHERWISE
    assert reading.whole.seams[0].kind == "restart"


def test_and_else_it_is_of_no_use() -> None:
    scripts: Scripts = {"eu": [BROKEN], "us": [answer(OTHERWISE)], "ap": [answer("It was long.")]}
    reading = read(scripts, "continue")
    assert reading.text == f"{STORY}+It was long."
    assert reading.outcomes == ["failed", "failed", "won"]
    scripts = {"eu": [BROKEN, status(503)], "us": [answer(OTHERWISE)]}
    reading = read(scripts, "continue")
    assert reading.text == STORY
    assert reading.broken.partial is not None
    assert reading.broken.partial.text == STORY


def test_a_silent_attempt_is_not_given_up_for_one_that_repeats_it() -> None:
    again: list[Step] = [
        chunk("Once upon a time "),
        silence(30),
        chunk("nothing."),
        finish(),
        done(),
    ]
    reading = read({"eu": [resuming(9)], "us": [again]}, "continue", hedge=HedgePolicy(after_s=20))
    assert reading.text == "Once upon a time it rained."
    assert reading.whole.seams == ()


@pytest.mark.parametrize(
    "first",
    [
        [reasoning("Hm. "), chunk("Once "), cut()],
        [chunk("Once "), tool_call("{", id="c", name="f"), cut()],
    ],
)
def test_only_plain_text_is_continued(first: list[Step]) -> None:
    scripts: Scripts = {"eu": [first], "us": [answer("Another.")]}
    reading = read(scripts, "continue")
    assert isinstance(reading.error, StreamBroken)
    assert reading.requests["us"] == []
    assert "|Another." in read(scripts, "continue-or-restart").text


def test_a_response_format_is_not_continued() -> None:
    scripts: Scripts = {"eu": [BROKEN], "us": [answer("{}")]}
    form = {"type": "json_object"}
    assert read(scripts, "continue", response_format=form).error is not None
    assert read(scripts, "continue-or-restart", response_format=form).text == f"{STORY}|{{}}"


def test_a_target_that_refuses_to_go_on_is_passed_over() -> None:
    scripts: Scripts = {"eu": [BROKEN], "us": [status(400)], "ap": [answer("It was long.")]}
    reading = read(scripts, "continue")
    assert reading.text == f"{STORY}+It was long."
    assert reading.kinds == ["primary", "retry", "retry"]


def test_a_continuation_that_reports_an_invalid_request_after_content_has_broken() -> None:
    fails: list[Step] = [
        chunk("It was "),
        error_frame("no", type="invalid_request_error", code="invalid"),
    ]
    reading = read({"eu": [SILENT], "us": [fails]}, "continue", retry=RetryPolicy(max_retries=0))
    assert reading.text == f"{STORY}+It was "
    assert reading.broken.kind == "invalid_request"


def test_and_may_begin_anew_where_that_will_do() -> None:
    # What was cut is tried again at its own target only when there is nothing else.
    scripts: Scripts = {"eu": [BROKEN, status(400)], "us": [status(400), answer("Another.")]}
    reading = read(scripts, "continue-or-restart", retry=RetryPolicy(max_retries=5))
    assert reading.text == f"{STORY}|Another."


def test_a_continuation_that_is_empty_completes_the_answer() -> None:
    reading = read({"eu": [BROKEN], "us": [[empty(), finish(), done()]]}, "continue")
    assert reading.text == f"{STORY}+"
    assert reading.whole.text == STORY
    assert reading.whole.finish_reason == "stop"


def test_a_continuation_may_itself_be_continued() -> None:
    scripts: Scripts = {"eu": [BROKEN], "us": [[chunk("It was "), cut()]], "ap": [answer("long.")]}
    reading = read(scripts, "continue")
    assert reading.text == f"{STORY}+It was +long."
    assert reading.whole.text == f"{STORY}It was long."
    assert [seam.characters for seam in reading.whole.seams] == [len(STORY), len(STORY) + 7]


# ---------------------------------------------------------------- the caller


@pytest.mark.parametrize("recovery", ["restart", "continue"])
@pytest.mark.parametrize("patience_s", [0.5, 1.7, 4.0])
def test_an_impatient_application_loses_no_chunk(recovery: Recovery, patience_s: float) -> None:
    # Each time it loses patience, what was started beside is closed.
    reading = read({"eu": [resuming(7)], "us": [[silence(9)]]}, recovery, patience_s=patience_s)
    assert reading.text == "Once upon a time it rained."
    assert reading.whole.seams == ()


def test_an_impatient_application_is_rescued_when_the_rival_is_quick() -> None:
    quick = [silence(0.2), *answer("Another.")]
    reading = read({"eu": [SILENT], "us": [quick]}, "restart", patience_s=1)
    assert reading.text == f"{STORY}|Another."


def test_after_a_break_an_impatient_application_may_still_be_rescued() -> None:
    scripts: Scripts = {"eu": [BROKEN], "us": [[silence(3), *answer("Slow.")], answer("Quick.")]}
    reading = read(scripts, "restart", patience_s=1)
    assert reading.text == f"{STORY}|Quick."


def test_a_deadline_before_the_silence_that_would_be_rescued_is_met() -> None:
    reading = read({"eu": [SILENT], "us": [SILENT]}, "restart", deadline_s=3)
    assert isinstance(reading.error, DeadlineExceeded)
    assert reading.kinds == ["primary"]


def test_the_deadline_ends_a_rescue_with_what_was_delivered() -> None:
    reading = read({"eu": [SILENT], "us": [[hang()]]}, "restart", deadline_s=8)
    assert isinstance(reading.error, DeadlineExceeded)
    assert reading.error.partial is not None
    assert reading.error.partial.text == STORY
    assert reading.text == STORY
    assert [each.outcome for each in reading.error.attempts] == ["cancelled", "cancelled"]


def test_leaving_the_block_in_a_rescue_closes_everything() -> None:
    providers = {"eu": ScriptedProvider(SILENT), "us": ScriptedProvider([headers(), hang()])}

    async def main() -> None:
        async with serve_memory(providers) as network:
            config = network.config(stream=StreamPolicy(recovery="restart"))
            async with open_gateway(config, connect=network.connect) as gw:
                async with gw.stream("x", model="m") as stream:
                    with trio.move_on_after(7):
                        await exhaust(stream)
                assert network.open_connections == 0
                assert [each.outcome for each in stream.stats.attempts] == ["cancelled"] * 2

    run_virtual(main)


def test_the_gateway_may_be_left_in_a_rescue() -> None:
    providers = {"eu": ScriptedProvider(SILENT), "us": ScriptedProvider([headers(), hang()])}

    async def main() -> None:
        async with serve_memory(providers) as network:
            config = network.config(stream=StreamPolicy(recovery="restart"))

            async def use(gw: Gateway) -> None:
                async with gw.stream("x", model="m") as stream:
                    with pytest.raises(GatewayClosed):
                        await exhaust(stream)

            async with (
                trio.open_nursery() as nursery,
                open_gateway(config, connect=network.connect) as gw,
            ):
                nursery.start_soon(use, gw)
                await trio.sleep(7)
            assert network.open_connections == 0

    run_virtual(main)


def test_a_seam_says_what_it_is() -> None:
    reading = read({"eu": [BROKEN], "us": [answer("Another.")]}, "restart")
    seam = next(each for each in reading.chunks if each.kind == "seam")
    assert seam == Chunk("seam", "", 1, None, "restart")
    assert isinstance(reading.whole.seams[0], Seam)


def test_a_break_before_the_gateway_was_left_is_not_rescued_after_it() -> None:
    providers = {"eu": ScriptedProvider(BROKEN), "us": ScriptedProvider(answer("Another."))}

    async def main() -> None:
        async with serve_memory(providers) as network:
            config = network.config(stream=StreamPolicy(recovery="restart"))
            async with (
                open_gateway(config, connect=network.connect) as gw,
                gw.stream("x", model="m") as stream,
            ):
                assert (await anext(stream)).text
                assert (await anext(stream)).text
                await trio.sleep(1)
                gw.close()
                with pytest.raises(GatewayClosed):
                    await exhaust(stream)
            assert network.open_connections == 0

    run_virtual(main)
    assert providers["us"].log == []


def test_a_call_that_wants_to_be_continued_needs_a_target_that_can() -> None:
    async def main() -> None:
        async with gateway_to({"eu": ScriptedProvider(BROKEN)}) as (gw, _):
            policy = StreamPolicy(recovery="continue")
            with pytest.raises(ConfigurationError, match="no target of 'm' has prefill"):
                await gw.stream("x", model="m", stream_policy=policy).__aenter__()

    run_virtual(main)
