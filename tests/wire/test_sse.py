from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import pytest
from hypothesis import given, settings, strategies as st

from polygateway.wire import sse
from polygateway.wire.malformed import Malformed
from polygateway.wire.sse import BOM, Event, SSEDecoder

Cut = Callable[[bytes], Iterator[Sequence[bytes]]]

ROOM = 10_000


def decode(reads: Sequence[bytes], most: int = ROOM) -> tuple[list[Event], Event | None, int]:
    decoder = SSEDecoder(most)
    events = [event for data in reads for event in decoder.feed(data)]
    return events, decoder.close(), decoder.keepalives


def decode_damaged(reads: Sequence[bytes], most: int = ROOM) -> tuple[list[Event], str]:
    """Decode what must turn out to be damaged: the events before, and the error's text."""
    decoder, events = SSEDecoder(most), list[Event]()
    try:
        for data in reads:
            events.extend(decoder.feed(data))
    except Malformed as damage:
        return events, str(damage)
    pytest.fail("nothing was wrong")


# Streams with LF, what they give, and the comments in them. From the examples and rules of
# https://html.spec.whatwg.org/multipage/server-sent-events.html unless a report is named.
STREAMS: dict[str, tuple[bytes, list[tuple[str, str]], int]] = {
    "two events": (b"data: a\n\ndata: b\n\n", [("", "a"), ("", "b")], 0),
    "lines of data are joined": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [("", "YHOO\n+2\n10")], 0),
    "comment": (b": test stream\n\ndata: first\nid: 1\n\n", [("", "first")], 1),
    "several comments": (b":\n: a\n:b\n\n", [], 3),
    "only one space is dropped": (b"data:  two\n\ndata:none\n\n", [("", " two"), ("", "none")], 0),
    "empty first line of data": (b"data:\ndata: x\n\n", [("", "\nx")], 0),
    "two empty lines of data": (b"data\ndata\n\n", [("", "\n")], 0),
    "no data is no event": (b"event: ping\n\ndata: x\n\n", [("", "x")], 0),
    "empty data is no event": (b"data\n\ndata:\n\ndata: \n\n", [], 0),
    "id alone is no event (openai-python#2722)": (
        b"id: 1\n\n: ping\n\ndata: x\n\n",
        [("", "x")],
        1,
    ),
    "name of the event": (b"event: add\ndata: 1\n\ndata: 2\n\n", [("add", "1"), ("", "2")], 0),
    "last name wins": (b"event: a\ndata: 1\nevent:b\n\n", [("b", "1")], 0),
    "name after the data": (b"data: 1\nevent: a\n\n", [("a", "1")], 0),
    "retry and unknown fields": (
        b"retry: 10\nfoo: bar\nfoo\ndatax: 1\ndata: x\n\n",
        [("", "x")],
        0,
    ),
    "names are exact": (b"Data: 1\n data: 2\ndata : 3\ndata: x\n\n", [("", "x")], 0),
    "colons in a value": (b'data: {"a": ":"}\n\n', [("", '{"a": ":"}')], 0),
    "blank lines are nothing": (b"\n\n\ndata: x\n\n\n\n", [("", "x")], 0),
    "NUL": (b": \0\nid: \0\ndata: \0\n\n", [("", "\0")], 1),
    "error field (coddy-agent#106)": (b'error: {"code":1}\n\n', [("error", '{"code":1}')], 0),
    "error field over a name": (b'event: x\nerror: "y"\n\n', [("error", '"y"')], 0),
    "error field in plain words (agenc-core#2492)": (b"error: y\ndata: x\n\n", [("", "x")], 0),
    "error field without a value": (b"error\nerror:\nerror: \ndata: x\n\n", [("", "x")], 0),
    "no other line ends (httpx-sse#34, codex-lb#1010)": (
        "data: \u2028 \u2029 \u0085 \v\f\x1c\x1d\x1e|\n\n".encode(),
        [("", "\u2028 \u2029 \u0085 \v\f\x1c\x1d\x1e|")],
        0,
    ),
    "every length of UTF-8": ("data: é波🌊\n\n".encode(), [("", "é波🌊")], 0),
    "BOM (openai-python#3819)": (BOM + b"data: x\n\n", [("", "x")], 0),
    "one BOM only": (BOM + BOM + b"data: y\ndata: x\n\n", [("", "x")], 0),
    "BOM inside": (b"data: x\n\n" + BOM + b"data: y\n\n", [("", "x")], 0),
    "BOM before a blank line": (BOM + b"\n" + BOM + b"data: y\n\n", [], 0),
    "damage in what is skipped": (b": \xff\nid: \xff\nx\xff: \xff\ndata: x\n\n", [("", "x")], 1),
}


@pytest.mark.parametrize("ending", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_its_events_however_it_is_cut(
    name: str, ending: bytes, cut_every_way: Cut
) -> None:
    stream, expected, keepalives = STREAMS[name]
    for reads in cut_every_way(stream.replace(b"\n", ending)):
        events, tail, comments = decode(reads)
        assert ([tuple(event) for event in events], tail, comments) == (expected, None, keepalives)


def test_mixed_line_ends_are_one_line_end_each(cut_every_way: Cut) -> None:
    stream = b"data: a\r\ndata: b\rdata: c\n\r\rdata: d\n\n\r\ndata: e\r\n\rdata: f\r\r\n"
    for reads in cut_every_way(stream):
        events, _, _ = decode(reads)
        assert [event.data for event in events] == ["a\nb\nc", "d", "e", "f"]


def test_an_event_that_ends_with_cr_is_given_without_waiting_for_an_lf() -> None:
    decoder = SSEDecoder(ROOM)
    assert [event.data for event in decoder.feed(b"data: x\r\r")] == ["x"]
    assert list(decoder.feed(b"")) == []
    assert [event.data for event in decoder.feed(b"\ndata: y\r\n\r\n")] == ["y"]


@pytest.mark.parametrize(
    ("stream", "tail"),
    [
        (b"data: x", "x"),
        (b"data: x\n", "x"),
        (b"data: x\r", "x"),
        (b"data: x\ndata: y", "x\ny"),
        (b"data: x\n: comm", "x"),
        (b"data: x\neve", "x"),
        (b"data: x\ndata: \xe6\xb3", None),  # cut inside a character
        (b"event: \xe6", None),
        (b"data: x\n\n", None),
        (b"event: ping\n", None),
        (b"", None),
        (BOM + b"data: x", "x"),
        (BOM, None),
    ],
)
def test_what_the_end_cut_is_given_apart(
    stream: bytes, tail: str | None, cut_every_way: Cut
) -> None:
    for reads in cut_every_way(stream):
        _, event, _ = decode(reads)
        assert (event and event.data) == tail


@pytest.mark.parametrize(
    ("stream", "at", "before"),
    [
        (b"data: \xff\n\n", 6, 0),
        (b"data: x\n\ndata: ab\xffcd\n\n", 17, 1),
        (b"data: x\r\n\r\ndata:\xff\r\n\r\n", 16, 1),
        (b"\r\r\rdata: a\r\ndata: \xc3\x28\r\n\r\n", 18, 0),
        (BOM + b"data: a\n\nevent: \xff\n\n", 19, 1),
        (b"data: a\n\nerror: {\xff\n\n", 17, 1),
        (b": \xff\n: \xff\n\ndata: a\n\ndata: \xed\xa0\x80\n\n", 24, 1),  # a surrogate is no UTF-8
    ],
)
def test_damage_is_told_with_its_place_and_loses_nothing_before_it(
    stream: bytes, at: int, before: int, cut_every_way: Cut
) -> None:
    for reads in cut_every_way(stream):
        events, text = decode_damaged(reads)
        assert len(events) == before
        assert f"at byte {at} of the stream" in text


@pytest.mark.parametrize(
    ("fits", "exceeds", "before"),
    [
        (b"data: 456789\n\n", b"data: 4567890\n\n", 0),
        (b"data: 456789\r\n\r\n", b"data: 4567890\r\n\r\n", 0),
        (b": 3456789012\n", b": 34567890123\n", 0),
        (b"data:6\ndata:6\n\n", b"data:67\ndata:6\n\n", 0),
        (b"event:\ndata:6\n\n", b"event:\ndata:67\n\n", 0),
        (b"data:6\n:23456\n\n", b"data:6\n:234567\n\n", 0),
        (b"event:\ndata: \n\n:\n", b"event:\ndata: \n:\n\n", 0),
        (b"data: \nevent:\n\n:\n", b"data: \nevent:\n:\n\n", 0),
        (b"data: \ndata: \n\n:\n", b"data: \ndata: \n:\n\n", 0),
        (b"data:6\n\ndata:6789012\n\n", b"data:6\n\ndata:6\n\ndata:67890123\n\n", 2),
    ],
)
def test_an_event_may_have_so_many_bytes_and_not_one_more(
    fits: bytes, exceeds: bytes, before: int, cut_every_way: Cut
) -> None:
    for reads in cut_every_way(fits):
        decode(reads, 12)
    for reads in cut_every_way(exceeds):
        events, text = decode_damaged(reads, 12)
        assert len(events) == before
        assert "over 12 bytes (limits.max_event_bytes)" in text


@pytest.mark.parametrize("line", [b"data: xxxxxxxx", b"data:ab\n", b": comment", b"x", b"event: y"])
@pytest.mark.parametrize("pieces", [1, 100, 4096])
def test_no_more_is_kept_than_the_limit_and_one_read(line: bytes, pieces: int) -> None:
    most = 65_536
    decoder, endless = SSEDecoder(most), (line * pieces)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):  # noqa: PT012  # it may stop at any read
            for _ in range(2 * most // len(endless) + 2):
                assert list(decoder.feed(endless)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What is kept, and a few copies of one read with the objects of its lines.
    assert peak < 3 * most + 20 * len(endless) + 50_000


class CountingBytearray(bytearray):
    """Counts the bytes that the operations on it look at: all of them, but for appending."""

    work = 0

    def __getattribute__(self, name: str) -> object:
        CountingBytearray.work += len(self)
        return super().__getattribute__(name)

    def __iadd__(self, other: object) -> Self:
        assert isinstance(other, (bytes, bytearray))
        CountingBytearray.work += len(other)
        super().__iadd__(other)
        return self

    def __bytes__(self) -> bytes:
        CountingBytearray.work += len(self)
        return bytes(memoryview(self))

    def __contains__(self, key: object) -> bool:
        CountingBytearray.work += len(self)
        assert isinstance(key, bytes)
        return super().__contains__(key)


@pytest.mark.parametrize("piece", [b"x", b"data: x", b"data:ab\n"])
def test_what_is_endless_costs_in_proportion_to_its_length_however_small_the_reads(
    piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "bytearray", CountingBytearray, raising=False)
    monkeypatch.setattr(CountingBytearray, "work", 0)
    length = 4000 * len(piece)
    decoder = SSEDecoder(length)
    for _ in range(4000):
        assert list(decoder.feed(piece)) == []
    assert len(list(decoder.feed(b"\n\n"))) == (piece != b"x")
    assert length // 4 <= CountingBytearray.work <= 3 * length


def oracle(stream: bytes) -> tuple[list[Event], int]:
    """Decode a whole stream as the standard's algorithm says, line by line."""
    text = stream.removeprefix(BOM).decode()
    events, comments, name, data = list[Event](), 0, "", list[str]()
    for line in re.split(r"\r\n|\r|\n", text)[:-1]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if joined := "\n".join(data):
                events.append(Event(name, joined))
            name, data = "", []
        elif line.startswith(":"):
            comments += 1
        elif field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "error" and value.startswith(("{", '"')):
            name = "error"
            data.append(value)
    return events, comments


PARTS = [
    "data",
    "event",
    "error",
    "id",
    ":",
    " ",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "data: ",
    "{",
    "x",
    "é🌊",
    "\ufeff",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PARTS)).map("".join), st.lists(st.integers(1, 9), min_size=1))
def test_any_stream_in_any_reads_decodes_as_the_standard_says(text: str, sizes: list[int]) -> None:
    stream, reads, at = text.encode(), list[bytes](), 0
    for size in sizes:
        reads.append(stream[at : at + size])
        at += size
    events, _, comments = decode([*reads, stream[at:], b"\n"])
    assert (events, comments) == oracle(stream + b"\n")


def test_a_generator_left_at_the_end_marker_decodes_nothing_after_it() -> None:
    events = SSEDecoder(ROOM).feed(b"data: [DONE]\n\ndata: \xff\n\n")
    assert next(events).data == "[DONE]"


def test_the_last_line_of_an_unknown_field_is_kept_and_cut() -> None:
    decoder = SSEDecoder(100_000)
    assert list(
        decoder.feed(b"id: 1\ndata: a\n\nlost\xff: " + b"x" * 10_000 + b"\nretry: 1\n")
    ) == [Event("", "a")]
    assert decoder.stray.startswith("lost\ufffd: xxx")
    assert len(decoder.stray) == 200
