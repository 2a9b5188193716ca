from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from polygateway.policies import Limits
from polygateway.wire.body import Body
from polygateway.wire.malformed import Malformed
from polygateway.wire.sse import BOM, Event

Cut = Callable[[bytes], Iterator[Sequence[bytes]]]

SSE, JSON = "text/event-stream", "application/json"


def read(
    reads: Sequence[bytes], content_type: str, limits: Limits, *, streams_json: bool = False
) -> tuple[list[str], bool]:
    """Give the data of all events, the last included, and whether it is a document."""
    body = Body(content_type, limits, streams_json=streams_json)
    events = [event for data in reads for event in body.feed(data)]
    tail = body.close()
    return [event.data for event in (*events, *([tail] if tail else []))], body.is_document


@pytest.mark.parametrize(
    "content_type", [SSE, "Text/Event-Stream; charset=utf-8", JSON, "text/plain", ""]
)
@pytest.mark.parametrize(
    "body",
    [
        b"data: x\n\n",
        b"\r\n\n data: y\ndata: x\n\n",
        b"event: a\ndata: x\n\n",
        b"id: 1\ndata: x\n\n",
        b"retry: 1\ndata: x\n\n",
        b": comment\n\ndata: x\n\n",
        b"error: a\ndata: x\n\n",
        BOM + b"data: x\n\n",
    ],
)
def test_what_begins_like_a_stream_is_one_whatever_its_label(
    body: bytes, content_type: str, cut_every_way: Cut
) -> None:
    for reads in cut_every_way(body):
        for streams_json in (False, True):
            found = read(reads, content_type, Limits(), streams_json=streams_json)
            assert found == (["x"], False)


@pytest.mark.parametrize("content_type", [SSE, JSON, "text/plain", ""])
@pytest.mark.parametrize(
    "body", [b'{"a": "\xc3\xa9"}', b" \n[1]\n", b"\n\n\n{", BOM + b"{}", BOM + b" {}"]
)
def test_what_begins_like_json_is_a_document_whatever_its_label(
    body: bytes, content_type: str, cut_every_way: Cut
) -> None:
    for reads in cut_every_way(body):
        data = body.decode().removeprefix("\ufeff")
        assert read(reads, content_type, Limits()) == ([data], True)


@pytest.mark.parametrize("content_type", [SSE, JSON, "application/x-ndjson", ""])
@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b'{"a": "\xc3\xa9"}\n{}', ['{"a": "é"}', "{}"]),
        (b" \n[{}]\n", ["{}", "]"]),
        (b"\n\n\n{", ["{"]),
        (BOM + b"{}", ["{}"]),
        (BOM + b" \r\n [{},{", ["{}", "{"]),
    ],
)
def test_where_the_wire_streams_json_it_is_a_stream_of_values_whatever_its_label(
    body: bytes, values: list[str], content_type: str, cut_every_way: Cut
) -> None:
    for reads in cut_every_way(body):
        assert read(reads, content_type, Limits(), streams_json=True) == (values, False)


def test_a_declared_stream_may_begin_with_a_field_that_nobody_knows(cut_every_way: Cut) -> None:
    for content_type in (SSE, "text/event-stream; charset=utf-8", "TEXT/event-stream ;x"):
        for reads in cut_every_way(b"foo: bar\ndata: x\n\n"):
            assert read(reads, content_type, Limits()) == (["x"], False)


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (b"<html>blocked</html>", "text/html", "but text/html: '<html>blocked</html>'"),
        (b"<html>blocked</html>", SSE, "but text/event-stream: '<html>"),
        (b"Bad Gateway", "", "but untyped: 'Bad Gateway'"),
        (b"dat", "text/plain", "but text/plain: 'dat'"),
        (b"database", "text/plain", "but text/plain: 'database'"),
        (b"  \xff\xfe", "text/plain", "but text/plain: '\ufffd\ufffd'"),
        (b"<" * 5000, "text/html", "but text/html: '" + "<" * 199 + "…'"),
    ],
)
def test_anything_else_is_refused_with_its_type_and_an_excerpt(
    body: bytes, content_type: str, text: str, cut_every_way: Cut
) -> None:
    cuts = cut_every_way(body) if len(body) < 100 else iter([[body], [body[:9], body[9:]]])
    for reads in cuts:
        for streams_json in (False, True):
            with pytest.raises(Malformed) as caught:
                read(reads, content_type, Limits(), streams_json=streams_json)
            assert str(caught.value).startswith("neither a stream of events nor JSON, ")
            assert text in str(caught.value)


def test_a_long_page_is_refused_before_it_ends() -> None:
    body = Body("text/html", Limits(), streams_json=False)
    assert list(body.feed(b"<" * 499)) == []
    with pytest.raises(Malformed):
        body.feed(b"<")


@pytest.mark.parametrize("body", [b"", b"\n \r\n\t"])
def test_nothing_at_all_is_no_event(body: bytes, cut_every_way: Cut) -> None:
    for reads in cut_every_way(body):
        assert read(reads, "text/plain", Limits()) == ([], False)


def test_a_document_may_have_so_many_bytes_and_not_one_more(cut_every_way: Cut) -> None:
    limits = Limits(max_body_bytes=10)
    for reads in cut_every_way(b'  {"a": 1}'):
        assert read(reads, JSON, limits) == (['  {"a": 1}'], True)
    for body in (b'{"a": 1234}', b" " * 11):
        for reads in cut_every_way(body):
            with pytest.raises(Malformed, match=r"over 10 bytes \(limits\.max_body_bytes\)"):
                read(reads, JSON, limits)


def test_white_space_is_looked_at_once() -> None:
    body = Body(JSON, Limits(max_body_bytes=1000), streams_json=True)
    for data in (BOM, *[b" "] * 997):
        assert list(body.feed(data)) == []
        assert body._head == BOM
    with pytest.raises(Malformed, match=r"limits\.max_body_bytes"):
        body.feed(b" ")


def test_a_stream_of_values_is_bounded_by_each_of_them_alone() -> None:
    limits = Limits(max_event_bytes=8, max_body_bytes=9)
    assert read([b'{"a": 1}\n' * 10], JSON, limits, streams_json=True)[0] == ['{"a": 1}'] * 10
    with pytest.raises(Malformed, match=r"limits\.max_event_bytes"):
        read([b'{"a": 12}'], JSON, limits, streams_json=True)


def test_a_stream_is_bounded_by_its_events_alone() -> None:
    stream = [b"data: 123\n\n"] * 10
    assert read(stream, "text/plain", Limits(max_body_bytes=12))[0] == ["123"] * 10
    with pytest.raises(Malformed, match=r"limits\.max_event_bytes"):
        read(stream, SSE, Limits(max_event_bytes=5))


def test_a_document_that_is_not_utf8_is_refused_with_the_place(cut_every_way: Cut) -> None:
    for reads in cut_every_way(BOM + b'{"a": "\xff"}'):
        with pytest.raises(Malformed, match=r"not UTF-8: .* at byte 10"):
            read(reads, JSON, Limits())


def test_comments_are_counted_and_the_tail_is_given_apart() -> None:
    body = Body(SSE, Limits(), streams_json=False)
    assert list(body.feed(b": a\n\n: b\n\ndata: x")) == []
    assert body.keepalives == 2
    assert body.close() == Event("", "x")


def test_values_that_are_not_utf8_are_refused_with_their_place_in_the_body(
    cut_every_way: Cut,
) -> None:
    for reads in cut_every_way(BOM + b'\n{"a": "\xff"}'):
        with pytest.raises(Malformed, match=r"not UTF-8: .* at byte 11 of the stream"):
            read(reads, JSON, Limits(), streams_json=True)
