"""The wire cases as far as they can be judged by the body alone, whole and in every split."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from polygateway.messages import Chunk, Completion
from polygateway.policies import Limits
from polygateway.wire import DIALECTS
from polygateway.wire.dialect import Fault, Phase
from polygateway.wire.faults import refused
from tests.cases import CASES, Case, Facts, answer_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polygateway.stats import CallStats

    Cut = Callable[[bytes], Iterator[Sequence[bytes]]]

NOW_S = 1_800_000_000.0

_NETWORK = "what is judged is the connection, or HTTP's own framing"
_INFLATE = "the body is compressed"
_WATCHDOG = "what is judged is how long nothing comes"

LEFT_OUT = {
    "ant_ping_only_hang": _WATCHDOG,
    "http_10_response": _NETWORK,
    "http_chunk_ext_trailers": _NETWORK,
    "http_chunk_size_garbage": _NETWORK,
    "http_chunk_size_garbage_after_finish": _NETWORK,
    "http_chunk_size_garbage_first": _NETWORK,
    "http_informational_first": _NETWORK,
    "http_trailing_garbage": _NETWORK,
    "oai_abort_before_content": _NETWORK,
    "oai_ping_events_then_hang": _WATCHDOG,
    "oai_role_then_hang": _WATCHDOG,
    "resp_lifecycle_only_hang": _WATCHDOG,
    "sse_deflate_flushed": _INFLATE,
    "sse_gzip_corrupt_mid": _INFLATE,
    "sse_gzip_flushed": _INFLATE,
    "sse_gzip_no_trailer_after_done": _INFLATE,
    "sse_gzip_one_block": _INFLATE,
    "sse_gzip_upper_case_x_gzip": _INFLATE,
    "sse_not_gzip_at_all": _INFLATE,
    "tr_bad_status_line": _NETWORK,
    "tr_head_cut": _NETWORK,
    "tr_headers_split": _NETWORK,
    "tr_headers_then_comments": _WATCHDOG,
    "tr_headers_then_hang": _WATCHDOG,
    "tr_no_response_fin": _NETWORK,
    "tr_no_response_hang": _WATCHDOG,
    "tr_no_response_rst": _NETWORK,
    "tr_rst_before_content": _NETWORK,
}
"""Cases that only the whole way can judge, and why."""

JUDGED = [name for name in CASES if name not in LEFT_OUT]
REPLIES = [name for name in JUDGED if CASES[name].status == 200]
REFUSALS = [name for name in JUDGED if CASES[name].status != 200]


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
    decoder = DIALECTS[case.dialect].decoder(
        attempt=0,
        target=case.target,
        content_type=dict(case.headers(now_s=NOW_S)).get("content-type", ""),
        limits=Limits(),
    )
    chunks = [chunk for data in reads for chunk in decoder.feed(data)]
    if case.raw["close"] != "hang":
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


def facts(seen: Seen) -> Facts:
    """Say what came of a reply as the cases say what is expected."""
    found: Facts = {"outcome": OUTCOMES[seen.phase]}
    found |= answer_facts(seen.completion, seen.content_events)
    if seen.phase is not Phase.FAILED:
        found["finish_reason_norm"] = seen.completion.finish_reason
    return found | fault_facts(seen.fault)


def fault_facts(fault: Fault | None) -> Facts:
    if fault is None:
        return {}
    return {
        "error_class": fault.error.kind,
        "retryable": fault.error.default_retryable and not fault.do_not_retry,
        "retry_after_s": fault.retry_after_s,
    }


def test_every_case_is_judged_or_left_out_for_a_reason() -> None:
    assert set(LEFT_OUT) <= set(CASES)
    assert len(CASES) == 506
    assert (len(REPLIES), len(REFUSALS)) == (352, 126)


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_means_what_its_case_says(name: str, stats: CallStats) -> None:
    case = CASES[name]
    seen = decode(case, [write.data for write in case.writes], stats)
    found = facts(seen)
    assert found == case.expected(found)
    # What the application is given piece by piece is the answer.
    completion = seen.completion
    assert "".join(chunk.text for chunk in seen.chunks) == completion.text
    for kind, whole in (("reasoning", completion.reasoning), ("refusal", completion.refusal)):
        assert "".join(c.delta for c in seen.chunks if c.kind == kind) == whole
    for index, call in enumerate(completion.tool_calls):
        pieces = [c.delta for c in seen.chunks if c.tool_call and c.tool_call.index == index]
        assert "".join(pieces) == call.arguments


def cuts(name: str, body: bytes, cut_every_way: Cut) -> Iterator[Sequence[bytes]]:
    """Cut in every way what is short; else in reads of few sizes."""
    if len(body) < 1000:
        yield from cut_every_way(body)
        return
    for size in (1, 2, 3, 7, 1460):
        yield [body[i : i + size] for i in range(0, len(body), size)]
    generator = random.Random(name)
    for at in (generator.randrange(1, len(body)) for _ in range(20 if len(body) < 9000 else 0)):
        yield [body[:at], body[at:]]


@pytest.mark.parametrize("name", REPLIES)
def test_no_cut_changes_what_a_reply_means(name: str, stats: CallStats, cut_every_way: Cut) -> None:
    case = CASES[name]
    whole = decode(case, [case.body], stats)
    for reads in cuts(name, case.body, cut_every_way):
        assert decode(case, reads, stats) == whole


SHORT = [name for name in REPLIES if len(CASES[name].body) < 9000]


@settings(deadline=None)
@given(st.sampled_from(SHORT), st.lists(st.integers(1, 200), min_size=1))
def test_no_reads_change_what_a_reply_means(stats: CallStats, name: str, sizes: list[int]) -> None:
    case = CASES[name]
    body = case.body
    reads, at = list[bytes](), 0
    while at < len(body):
        for size in sizes:
            reads.append(body[at : at + size])
            at += size
    assert decode(case, reads, stats) == decode(case, [body], stats)


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_means_what_its_case_says(name: str) -> None:
    case = CASES[name]
    headers = dict(case.headers(now_s=NOW_S))
    found = fault_facts(refused(case.status, headers, case.body, now_s=NOW_S))
    assert found == case.expected(found)
