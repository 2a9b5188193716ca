"""What an event of a stream costs, here and in httpx-sse, which does less: it bounds nothing.

CPU time of interleaved rounds over the same bytes, one event a read and 64 KiB reads. "parts" is
httpx-sse's decoders alone behind an incremental UTF-8 decoder, without the response around them.
``python benchmarks/bench_sse.py [--json]``
"""

from __future__ import annotations

import argparse
import codecs
import json
import time
from statistics import median
from typing import TYPE_CHECKING

import httpx
from httpx_sse import EventSource
from httpx_sse._decoders import SSEDecoder as TheirEvents, SSELineDecoder as TheirLines

from polygateway.wire.sse import SSEDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS = 15
EVENTS = 20_000
READ_BYTES = 64 * 1024

MOST = 0.8
"""Of httpx-sse's cost."""


def event(index: int) -> bytes:
    """Give one chunk of OpenAI's chat wire, of the usual size."""
    delta = {"content": f" word{index % 100}"}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}
    return f"data: {json.dumps(body)}\n\n".encode()


def ours(reads: Sequence[bytes]) -> int:
    """Count the events by our decoder."""
    decoder = SSEDecoder(8 * 1024 * 1024)
    return sum(1 for read in reads for _ in decoder.feed(read))


def theirs(reads: Sequence[bytes]) -> int:
    """Count the events as a user of httpx-sse does."""
    headers = {"content-type": "text/event-stream"}
    response = httpx.Response(200, headers=headers, content=iter(reads))
    return sum(1 for _ in EventSource(response).iter_sse())


def parts(reads: Sequence[bytes]) -> int:
    """Count the events by httpx-sse's decoders alone."""
    text, lines, events = codecs.getincrementaldecoder("utf-8")(), TheirLines(), TheirEvents()
    return sum(
        events.decode(line) is not None
        for read in reads
        for line in lines.decode(text.decode(read))
    )


def cost(count: Callable[[Sequence[bytes]], int], reads: Sequence[bytes]) -> float:
    """Give the CPU microseconds of an event."""
    start = time.process_time_ns()
    if count(reads) != EVENTS:
        raise AssertionError("an event was lost")
    return (time.process_time_ns() - start) / 1000 / EVENTS


def measure(reads: Sequence[bytes]) -> dict[str, float]:
    """Give the median cost of each, and ours as a share of theirs."""
    costs: dict[str, list[float]] = {"ours": [], "theirs": [], "parts": []}
    for _ in range(ROUNDS):
        costs["ours"].append(cost(ours, reads))
        costs["theirs"].append(cost(theirs, reads))
        costs["parts"].append(cost(parts, reads))
    result = {name: median(values) for name, values in costs.items()}
    pairs = zip(costs["ours"], costs["theirs"], strict=True)
    result["ratio"] = median(mine / other for mine, other in pairs)
    pairs = zip(costs["ours"], costs["parts"], strict=True)
    return {**result, "ratio to parts": median(mine / other for mine, other in pairs)}


def main() -> None:
    """Measure both sizes of reads and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json: bool = parser.parse_args().json
    events = [event(index) for index in range(EVENTS)]
    body = b"".join(events)
    large = [body[at : at + READ_BYTES] for at in range(0, len(body), READ_BYTES)]
    results = {"one event a read": measure(events), "64 KiB reads": measure(large)}
    if as_json:
        print(json.dumps(results))
        return
    for name, result in results.items():
        figures = ", ".join(f"{key} {value:.2f}" for key, value in result.items())
        print(f"{name}: {figures} (CPU us an event; at most {MOST} of httpx-sse's)")


if __name__ == "__main__":
    main()
