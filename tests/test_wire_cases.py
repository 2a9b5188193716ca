"""The wire cases of ``tests/data/wire`` end to end: exact writes and delays, in virtual time.

``tests/wire/test_cases.py`` judges what the body alone can tell; here the head, HTTP's framing,
content codings, cuts, resets, hangs and the time that it takes count as well.
"""

from __future__ import annotations

import http
import math
from typing import TYPE_CHECKING, cast

import attrs
import pytest
import trio

from polygateway import (
    Completion,
    Config,
    Gateway,
    GatewayError,
    HedgePolicy,
    RetryPolicy,
    StallTimeout,
    StreamBroken,
    StreamPolicy,
    Truncated,
    open_gateway,
)
from polygateway.net.clock import wall_s
from polygateway.testing import run_virtual
from polygateway.testing._memory import MemoryConnection
from tests.cases import CASES, Case, Facts, answer_facts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Call = Callable[[Gateway], Awaitable[Completion]]


# ---------------------------------------------------------------- the server


REASONS = {status.value: status.phrase for status in http.HTTPStatus}


def head(case: Case) -> bytes:
    """Give the response's head; empty where the case writes its own, or none."""
    if not case.status:
        return str(case.raw.get("raw_head", "")).encode()
    lines = [f"HTTP/1.1 {case.status} {REASONS.get(case.status, '')}"]
    lines += [f"{name}: {value}" for name, value in case.headers(now_s=wall_s())]
    match case.raw["framing"]:
        case "chunked":
            lines.append("transfer-encoding: chunked")
        case "length":
            lines.append(f"content-length: {case.raw.get('declared_length', len(case.body))}")
        case "eof":
            lines.append("connection: close")
        case _:
            pass
    return "\r\n".join([*lines, "", ""]).encode()


async def read_request(stream: trio.abc.ReceiveStream) -> None:
    seen = b""
    while not seen.endswith(b"}"):  # the body is one JSON object
        seen += await stream.receive_some()


async def serve(case: Case, connection: MemoryConnection) -> None:
    """Answer one request as the case says, and end as it says."""
    stream = connection.server
    await read_request(stream)
    is_chunked = case.raw["framing"] == "chunked"
    try:
        if first := head(case):
            await stream.send_all(first)
        for write in case.writes if case.raw["framing"] != "none" else ():
            await trio.sleep(write.after_s)
            data = write.data
            await stream.send_all(b"%x\r\n%s\r\n" % (len(data), data) if is_chunked else data)
        if is_chunked and case.raw["close"] == "clean":
            await stream.send_all(b"0\r\n\r\n")
        if case.raw["close"] == "hang":
            await stream.receive_some()
    except trio.BrokenResourceError:
        pass  # the client has left
    finally:
        if case.raw.get("abort_how") == "rst":
            connection.break_off()
        await trio.aclose_forcefully(stream)


# ---------------------------------------------------------------- the calls


async def complete(gw: Gateway) -> Completion:
    return await gw.complete("How is the tide?", model="m")


async def stream(gw: Gateway) -> Completion:
    text = ""
    async with gw.stream("How is the tide?", model="m") as opened:
        async for chunk in opened:
            text += chunk.text
        assert text == opened.completion.text
    return opened.completion


@attrs.frozen
class Seen:
    """What the application sees."""

    outcome: str
    error: GatewayError | None
    answer: Completion | None
    took_s: float


# "set watchdogs of about a second"
def config(case: Case) -> Config:
    return Config(
        targets={"eu": case.target},
        models={"m": ("eu",)},
        hedge=HedgePolicy(enabled=False),
        retry=RetryPolicy(max_retries=0),
        stream=StreamPolicy(ttft_timeout_s=1, stall_timeout_s=1),
    )


async def run(case: Case, call: Call) -> Seen:
    async with trio.open_nursery() as nursery:

        async def connect(*_: object) -> trio.abc.Stream:
            connection = MemoryConnection()
            nursery.start_soon(serve, case, connection)
            return connection.client

        async with open_gateway(config(case), connect=connect) as gw:
            seen = await outcome(gw, call)
    return seen


async def outcome(gw: Gateway, call: Call) -> Seen:
    start = trio.current_time()
    try:
        answer = await call(gw)
    except GatewayError as error:
        return Seen(outcome_of(error), error, error.partial, trio.current_time() - start)
    return Seen("complete", None, answer, trio.current_time() - start)


def outcome_of(error: GatewayError) -> str:
    cause = error.__cause__ if isinstance(error, StreamBroken) else error
    return "truncated" if isinstance(cause, Truncated | StallTimeout) else "error"


# ---------------------------------------------------------------- the judgement


def facts(seen: Seen) -> Facts:
    """Say what was seen as the cases say what is expected."""
    found: Facts = {"outcome": seen.outcome}
    if seen.answer is not None:
        found |= answer_facts(seen.answer, seen.answer.stats.chunk_count)
        if seen.outcome != "error":
            found["finish_reason_norm"] = seen.answer.finish_reason
    if seen.error is not None:
        found |= {"error_class": seen.error.kind, "retryable": seen.error.retryable}
        found["retry_after_s"] = getattr(seen.error.__cause__ or seen.error, "retry_after_s", None)
    return found


@pytest.mark.parametrize("call", [complete, stream])
@pytest.mark.parametrize("name", CASES)
def test_a_call_gives_what_its_case_says(name: str, call: Call) -> None:
    case = CASES[name]
    seen = run_virtual(run, case, call)
    found = facts(seen)
    expected = case.expected(found)
    if "http_date" in str(case.raw["headers"]):  # by the wall clock, in whole seconds
        wait = cast("float", found.pop("retry_after_s"))
        assert wait == pytest.approx(cast("float", expected.pop("retry_after_s")), abs=1.1)
    assert found == expected
    if seen.answer is None:
        assert not case.expect["content_events"], "what was received is lost"
    last_write_s = sum(write.after_s for write in case.writes)
    most_s = float(str(case.expect.get("must_finish_within_s") or math.inf))
    assert seen.took_s <= last_write_s + most_s


def test_every_case_is_tried() -> None:
    assert len(CASES) == 506
