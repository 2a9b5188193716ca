"""The provider of the benchmarks, in its own process and over the loopback interface."""

from __future__ import annotations

import json
import sys
import time
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

if sys.platform != "linux":
    pytest.skip("the provider needs epoll", allow_module_level=True)

from benchmarks.speed.serving import serving
from benchmarks.speed.wires import WIRES, OpenAIWire

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.speed.serving import Upstream


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """Give a provider that runs."""
    with serving(scripts="tests.benchmarks.echoing") as running:
        yield running


@pytest.fixture
def connection(upstream: Upstream) -> Iterator[HTTPConnection]:
    """Give a connection to it."""
    opened = HTTPConnection("127.0.0.1", upstream.port, timeout=10)
    yield opened
    opened.close()


def ask(
    connection: HTTPConnection,
    model: str,
    call: str = "hello",
    *others: Mapping[str, str],
    path: str = OpenAIWire.path,
) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": call}]
    connection.request("POST", path, json.dumps({"model": model, "messages": [*messages, *others]}))


def answer(connection: HTTPConnection) -> bytes:
    return connection.getresponse().read()


@pytest.mark.parametrize("path", WIRES)
def test_every_wire_is_answered_on_one_connection(connection: HTTPConnection, path: str) -> None:
    for count in (1, 3):
        ask(connection, f"burst-{count}", path=path)
        assert answer(connection).count(WIRES[path].around()[0]) == count


def test_a_long_burst_comes_whole(connection: HTTPConnection) -> None:
    ask(connection, "burst-20000")
    assert answer(connection).count(b"data: ") == 20_003


def test_a_paced_content_tells_when_it_was_written(connection: HTTPConnection) -> None:
    before = time.monotonic_ns()
    ask(connection, "paced-3-10ms")
    body, after = answer(connection), time.monotonic_ns()
    start, _ = OpenAIWire().around()
    stamps = [int(piece[:20]) for piece in body.split(start)[1:]]
    assert stamps == sorted(stamps)
    for number, stamp in enumerate(stamps, 1):
        assert before + number * 10_000_000 <= stamp <= after


def test_the_first_request_of_a_call_gets_the_first_answer_and_later_ones_the_last(
    connection: HTTPConnection,
) -> None:
    found: list[int] = []
    for call in ("one", "other", "one", "one"):
        ask(connection, "burst-1|burst-2", call)
        found.append(answer(connection).count(b"obfuscation"))
    assert found == [1, 1, 2, 2]


def test_a_script_is_told_the_call_the_attempt_and_what_was_begun(
    connection: HTTPConnection,
) -> None:
    ask(connection, "echo", "why")
    assert answer(connection) == b'["why", 0, ""] and more'
    ask(connection, "echo", "why", {"role": "assistant", "content": "Because"})
    assert answer(connection) == b'["why", 1, "Because"] and more'


def test_the_head_comes_with_the_first_event_and_no_sooner(connection: HTTPConnection) -> None:
    before = time.monotonic()
    ask(connection, "echo", "head")
    connection.getresponse()
    assert time.monotonic() >= before + 0.05


def test_a_client_that_leaves_a_silent_answer_leaves_the_provider_well(
    upstream: Upstream, connection: HTTPConnection
) -> None:
    leaving = HTTPConnection("127.0.0.1", upstream.port, timeout=10)
    ask(leaving, "echo", "hang")
    assert leaving.getresponse().read(5) == b'["han'
    leaving.close()
    ask(connection, "burst-1")
    assert b"[DONE]" in answer(connection)


def test_what_is_not_known_is_refused_by_name(connection: HTTPConnection) -> None:
    for model, path, said in (
        ("gpt-4o", OpenAIWire.path, b"the provider knows no step 'gpt-4o'"),
        ("burst-1", "/v1/embeddings", b"the provider speaks no wire at /v1/embeddings"),
    ):
        ask(connection, model, path=path)
        response = connection.getresponse()
        assert response.status == 400
        assert said in response.read()


def test_requests_are_counted_by_model(upstream: Upstream, connection: HTTPConnection) -> None:
    before = upstream.status()["requests"].get("burst-4", 0)
    for _ in range(3):
        ask(connection, "burst-4")
        answer(connection)
    assert upstream.status()["requests"]["burst-4"] == before + 3
