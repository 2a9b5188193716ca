"""The wire cases of ``tests/data/wire``, as far as they can be judged by the body alone.

Each file is one reply of some server that speaks OpenAI's chat wire, with where the fact comes from
and what a client should make of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, cast

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from polygateway.messages import Chunk, Completion
from polygateway.policies import Limits
from polygateway.wire.dialect import Fault, Phase
from polygateway.wire.openai_chat import OpenAIChat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polygateway.messages import JSON
    from polygateway.stats import CallStats

    Cut = Callable[[bytes], Iterator[Sequence[bytes]]]
    Case = dict[str, JSON]

DATA = Path(__file__).parent.parent / "data" / "wire"

_NETWORK = "what is judged is the connection, or HTTP's own framing"
_INFLATE = "the body is compressed"
_WATCHDOG = "what is judged is how long nothing comes"
_CLOCK = "a date becomes a wait only by a clock"

LEFT_OUT = {
    "http_chunk_ext_trailers": _NETWORK,
    "http_chunk_size_garbage": _NETWORK,
    "oai_abort_before_content": _NETWORK,
    "oai_http_429_httpdate": _CLOCK,
    "oai_http_429_httpdate_past": _CLOCK,
    "sse_deflate_flushed": _INFLATE,
    "sse_gzip_flushed": _INFLATE,
    "sse_gzip_one_block": _INFLATE,
    "tr_bad_status_line": _NETWORK,
    "tr_headers_split": _NETWORK,
    "tr_headers_then_comments": _WATCHDOG,
    "tr_no_response_fin": _NETWORK,
    "tr_no_response_hang": _WATCHDOG,
}
"""Cases that other parts are judged by, and why not this one."""

CASES: dict[str, Case] = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted(DATA.glob("*.json"))
    if path.stem not in LEFT_OUT
}
REPLIES = [name for name, case in CASES.items() if case["status"] == 200]
REFUSALS = [name for name in CASES if name not in REPLIES]


def as_dict(value: JSON) -> Case:
    return cast("Case", value)


def writes(case: Case) -> list[bytes]:
    """Give the body as the server wrote it."""
    return [
        str(write["text"]).encode() if "text" in write else base64.b64decode(str(write["b64"]))
        for write in map(as_dict, cast("list[JSON]", case["body"]))
    ]


def headers(case: Case) -> dict[str, str]:
    return dict(cast("list[tuple[str, str]]", case["headers"]))


@attrs.frozen
class Seen:
    """What came of a reply."""

    phase: Phase
    fault: Fault | None
    chunks: list[Chunk]
    content_events: int
    keepalives: int
    completion: Completion


def decode(case: Case, reads: Sequence[bytes], stats: CallStats) -> Seen:
    decoder = OpenAIChat().decoder(
        attempt=0, content_type=headers(case).get("content-type", ""), limits=Limits()
    )
    chunks = [chunk for data in reads for chunk in decoder.feed(data)]
    if case["close"] != "hang":
        chunks += decoder.close()
    ended = decoder.phase in {Phase.ENDED, Phase.FINISHING}
    return Seen(
        decoder.phase,
        decoder.fault,
        chunks,
        decoder.content_events,
        decoder.keepalives,
        decoder.answer.completion(
            target="eu", request_id=None, headers={}, stats=stats, ended=ended
        ),
    )


# A reply that hangs after its finish reason is whole: the time that is waited for usage is short.
OUTCOMES = {
    Phase.OPEN: "truncated",
    Phase.FINISHING: "complete",
    Phase.ENDED: "complete",
    Phase.FAILED: "error",
}


def facts(seen: Seen) -> Case:
    """Say what came of a reply as the cases say what is expected."""
    completion = seen.completion
    found: Case = {
        "outcome": OUTCOMES[seen.phase],
        "reasoning": completion.reasoning,
        "refusal": completion.refusal,
        "tool_calls": [
            {"id": c.id, "name": c.name, "arguments_raw": c.arguments, "complete": c.complete}
            for c in completion.tool_calls
        ],
        "finish_reason": completion.raw_finish_reason,
        "usage": {name: getattr(completion.usage, name) for name in NO_USAGE},
        "content_events": seen.content_events,
        "text_sha256": hashlib.sha256(completion.text.encode()).hexdigest(),
    }
    if seen.phase is not Phase.FAILED:
        found["finish_reason_norm"] = completion.finish_reason
    return found | fault_facts(seen.fault)


def fault_facts(fault: Fault | None) -> Case:
    if fault is None:
        return {}
    return {
        "error_class": fault.error.kind,
        "retryable": fault.error.default_retryable and not fault.do_not_retry,
        "retry_after_s": fault.retry_after_s,
    }


NO_USAGE: Case = dict.fromkeys(
    ("input_tokens", "output_tokens", "reasoning_tokens", "cached_input_tokens")
)


def expected(case: Case, found: Case) -> Case:
    """Give what the case expects of the facts that were found."""
    expect = as_dict(case["expect"]).copy()
    text = expect["text"]
    if isinstance(text, str):
        expect["text_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    expect["usage"] = expect["usage"] or NO_USAGE
    expect.setdefault("refusal", "")
    expect["tool_calls"] = [
        {name: value for name, value in call.items() if name != "arguments"}
        for call in map(as_dict, cast("list[JSON]", expect["tool_calls"]))
    ]
    expect.setdefault("retry_after_s", found.get("retry_after_s"))  # else it is not judged
    return {name: expect[name] for name in found}


def test_every_case_is_judged_or_left_out_for_a_reason() -> None:
    files = {path.stem for path in DATA.glob("*.json")}
    assert set(LEFT_OUT) <= files
    assert len(files) == 128
    assert (len(REPLIES), len(REFUSALS)) == (91, 24)


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_means_what_its_case_says(name: str, stats: CallStats) -> None:
    case = CASES[name]
    seen = decode(case, writes(case), stats)
    found = facts(seen)
    assert found == expected(case, found)
    # What the application is given piece by piece is the answer.
    completion = seen.completion
    assert "".join(chunk.text for chunk in seen.chunks) == completion.text
    for kind, whole in (("reasoning", completion.reasoning), ("refusal", completion.refusal)):
        assert "".join(c.delta for c in seen.chunks if c.kind == kind) == whole
    arguments = "".join(c.delta for c in seen.chunks if c.kind == "tool_call")
    assert arguments == "".join(call.arguments for call in completion.tool_calls)


def cuts(name: str, body: bytes, cut_every_way: Cut) -> Iterator[Sequence[bytes]]:
    """Cut in every way what is short; else in reads of few sizes."""
    if len(body) < 1200:
        yield from cut_every_way(body)
        return
    for size in (1, 2, 3, 7, 1460):
        yield [body[i : i + size] for i in range(0, len(body), size)]
    generator = random.Random(name)
    for at in (generator.randrange(1, len(body)) for _ in range(50 if len(body) < 9000 else 0)):
        yield [body[:at], body[at:]]


@pytest.mark.parametrize("name", REPLIES)
def test_no_cut_changes_what_a_reply_means(name: str, stats: CallStats, cut_every_way: Cut) -> None:
    case = CASES[name]
    body = b"".join(writes(case))
    whole = decode(case, [body], stats)
    for reads in cuts(name, body, cut_every_way):
        assert decode(case, reads, stats) == whole


SHORT = [name for name in REPLIES if len(b"".join(writes(CASES[name]))) < 9000]


@settings(deadline=None)
@given(st.sampled_from(SHORT), st.lists(st.integers(1, 200), min_size=1))
def test_no_reads_change_what_a_reply_means(stats: CallStats, name: str, sizes: list[int]) -> None:
    case = CASES[name]
    body = b"".join(writes(case))
    reads, at = list[bytes](), 0
    while at < len(body):
        for size in sizes:
            reads.append(body[at : at + size])
            at += size
    assert decode(case, reads, stats) == decode(case, [body], stats)


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_means_what_its_case_says(name: str) -> None:
    case = CASES[name]
    status = cast("int", case["status"])
    fault = OpenAIChat().refusal(status, headers(case), b"".join(writes(case)))
    found = fault_facts(fault)
    assert found == expected(case, found)
    assert fault.message
