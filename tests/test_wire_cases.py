"""The wire cases of ``tests/data/wire`` end to end: exact writes and delays, in virtual time.

``tests/wire/test_openai_chat_cases.py`` judges what the body alone can tell; here the head, HTTP's
framing, content codings, cuts, hangs and the time that it takes count as well.
"""

from __future__ import annotations

import base64
import hashlib
import http
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, cast

import attrs
import pytest
import trio
from trio.testing import memory_stream_pair

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
    Target,
    Truncated,
    open_gateway,
)
from polygateway.testing import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from polygateway.messages import JSON

    Case = dict[str, JSON]
    Call = Callable[[Gateway], Awaitable[Completion]]

DATA = Path(__file__).parent / "data" / "wire"

_DATES = "a date in Retry-After comes with a later version"
_RESET = "memory streams know no reset; test_sockets.py sends real ones"

LEFT_OUT = {
    "oai_abort_rst_mid": _RESET,
    "oai_http_429_httpdate": _DATES,
    "oai_http_429_httpdate_past": _DATES,
}

CASES: dict[str, Case] = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted(DATA.glob("*.json"))
    if path.stem not in LEFT_OUT
}


# ---------------------------------------------------------------- the server


@attrs.frozen
class Write:
    """A piece of the body, and how long the server waits before it."""

    after_s: float
    data: bytes


def writes(case: Case) -> list[Write]:
    return [
        Write(
            float(str(write["after_s"])),
            str(write["text"]).encode() if "text" in write else base64.b64decode(str(write["b64"])),
        )
        for write in (cast("Case", each) for each in cast("list[JSON]", case["body"]))
    ]


def head(case: Case, size: int) -> bytes:
    """Give the response's head; empty where the case writes its own, or none."""
    status = cast("int", case["status"])
    if not status:
        return str(case.get("raw_head", "")).encode()
    reason = http.HTTPStatus(status).phrase
    lines = [f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in cast("list[list[str]]", case["headers"])]
    match case["framing"]:
        case "chunked":
            lines.append("transfer-encoding: chunked")
        case "length":
            lines.append(f"content-length: {case.get('declared_length', size)}")
        case "eof":
            lines.append("connection: close")
        case _:
            pass
    return "\r\n".join([*lines, "", ""]).encode()


async def read_request(stream: trio.abc.ReceiveStream) -> None:
    seen = b""
    while not seen.endswith(b"}"):  # the body is one JSON object
        seen += await stream.receive_some()


async def serve(case: Case, stream: trio.abc.Stream) -> None:
    """Answer one request as the case says, and end as it says."""
    await read_request(stream)
    body = writes(case)
    is_chunked = case["framing"] == "chunked"
    try:
        if first := head(case, sum(len(write.data) for write in body)):
            await stream.send_all(first)
        for write in body if case["framing"] != "none" else ():
            await trio.sleep(write.after_s)
            data = write.data
            await stream.send_all(b"%x\r\n%s\r\n" % (len(data), data) if is_chunked else data)
        if is_chunked and case["close"] == "clean":
            await stream.send_all(b"0\r\n\r\n")
        if case["close"] == "hang":
            await stream.receive_some()
    except trio.BrokenResourceError:
        pass  # the client has left
    finally:
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
CONFIG = Config(
    targets={
        "eu": Target(dialect="openai-chat", base_url="http://eu.invalid/v1", model="lyra-3"),
    },
    models={"m": ("eu",)},
    hedge=HedgePolicy(enabled=False),
    retry=RetryPolicy(max_retries=0),
    stream=StreamPolicy(ttft_timeout_s=1, stall_timeout_s=1),
)


async def run(case: Case, call: Call) -> Seen:
    async with trio.open_nursery() as nursery:

        async def connect(*_: object) -> trio.abc.Stream:
            client, server = memory_stream_pair()
            nursery.start_soon(serve, case, server)
            return client

        async with open_gateway(CONFIG, connect=connect) as gw:
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


def answer_facts(answer: Completion) -> Case:
    return {
        "text_sha256": hashlib.sha256(answer.text.encode()).hexdigest(),
        "reasoning": answer.reasoning,
        "refusal": answer.refusal,
        "tool_calls": [
            {"id": c.id, "name": c.name, "arguments_raw": c.arguments, "complete": c.complete}
            for c in answer.tool_calls
        ],
        "finish_reason": answer.raw_finish_reason,
        "usage": {name: getattr(answer.usage, name) for name in NO_USAGE},
        "content_events": answer.stats.chunk_count,
    }


def facts(seen: Seen) -> Case:
    """Say what was seen as the cases say what is expected."""
    found: Case = {"outcome": seen.outcome}
    if seen.answer is not None:
        found |= answer_facts(seen.answer)
        if seen.outcome != "error":
            found["finish_reason_norm"] = seen.answer.finish_reason
    if seen.error is not None:
        found |= {"error_class": seen.error.kind, "retryable": seen.error.retryable}
        wait = getattr(seen.error.__cause__ or seen.error, "retry_after_s", None)
        found["retry_after_s"] = wait
    return found


NO_USAGE: Case = dict.fromkeys(
    ("input_tokens", "output_tokens", "reasoning_tokens", "cached_input_tokens")
)


def expected(case: Case, found: Case) -> Case:
    expect = cast("Case", case["expect"]).copy()
    if isinstance(text := expect["text"], str):
        expect["text_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    expect["usage"] = expect["usage"] or NO_USAGE
    expect.setdefault("refusal", "")
    expect.setdefault("retry_after_s", found.get("retry_after_s"))  # else it is not judged
    expect["tool_calls"] = [
        {name: value for name, value in cast("Case", call).items() if name != "arguments"}
        for call in cast("list[JSON]", expect["tool_calls"])
    ]
    return {name: expect[name] for name in found}


@pytest.mark.parametrize("call", [complete, stream])
@pytest.mark.parametrize("name", CASES)
def test_a_call_gives_what_its_case_says(name: str, call: Call) -> None:
    case = CASES[name]
    seen = run_virtual(run, case, call)
    found = facts(seen)
    assert found == expected(case, found)
    expect = cast("Case", case["expect"])
    if seen.answer is None:
        assert not expect["content_events"], "what was received is lost"
    last_write_s = sum(write.after_s for write in writes(case))
    most_s = float(str(expect.get("must_finish_within_s") or math.inf))
    assert seen.took_s <= last_write_s + most_s


def test_every_case_is_tried_or_left_out_for_a_reason() -> None:
    assert set(LEFT_OUT) <= {path.stem for path in DATA.glob("*.json")}
    assert len(CASES) == 125
