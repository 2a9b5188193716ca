from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from polygateway.wire.json_stream import ARRAY_END, JSONStream
from polygateway.wire.malformed import Malformed
from polygateway.wire.sse import BOM, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polygateway.messages import JSON

    Cut = Callable[[bytes], Iterator[Sequence[bytes]]]

MOST = 10_000
END = ARRAY_END.data


def read(reads: Sequence[bytes], most: int = MOST) -> list[str]:
    """Give the data of all events, without the tail."""
    stream = JSONStream(most)
    return [event.data for data in reads for event in stream.feed(data)]


def tail_of(data: bytes) -> Event | None:
    stream = JSONStream(MOST)
    assert list(stream.feed(data)) == []
    return stream.close()


STREAMS: list[tuple[bytes, list[str]]] = [
    # One after another, whatever is between them.
    (b'{"a":1}\n{"b":2}\n', ['{"a":1}', '{"b":2}']),
    (b'{"a":1}\r\n\r\n {"b":2}', ['{"a":1}', '{"b":2}']),
    (b'{"a":1}{"b":2},{"c":3} , \n,{}', ['{"a":1}', '{"b":2}', '{"c":3}', "{}"]),
    (b'{\n "a": [\n  1\n ]\n}\n{}', ['{\n "a": [\n  1\n ]\n}', "{}"]),
    (b"{}\n[1,[2]]\n", ["{}", "[1,[2]]"]),
    # The elements of an array.
    (b'[{"a":1},{"b":2}]', ['{"a":1}', '{"b":2}', END]),
    (b'[{"a":1}\r\n,\r\n{"b":2}\n]\n', ['{"a":1}', '{"b":2}', END]),
    (b"\n[ {} , ] ", ["{}", END]),
    (b"[]", [END]),
    (b"[[1],[[2]]]", ["[1]", "[[2]]", END]),
    (b"[{}]\n{}\n[1]", ["{}", END, "{}", "[1]"]),
    (b"[{}]]\n", ["{}", END, "]"]),
    # Strings, whatever they hold.
    (b'{"a":"}"}{"[":"{"}', ['{"a":"}"}', '{"[":"{"}']),
    (
        rb'{"a":"\"}"}{"\\":"\\\\"}{"a":"\\\"}{"}',
        [r'{"a":"\"}"}', r'{"\\":"\\\\"}', r'{"a":"\\\"}{"}'],
    ),
    (b'{"a":"\xc3\xa9\xf0\x9f\x8c\x8a\xe2\x80\xa8","b":"x\ty"}', ['{"a":"é🌊\u2028","b":"x\ty"}']),
    # What is no JSON is somebody else's affair, and what follows it stays apart.
    (b"{]{}", ["{]", "{}"]),
    (b"}\n{}", ["}", "{}"]),
    (b'{} null\n"}"\r1 2 {}\n{}', ["{}", "null", '"}"', "1 2 {}", "{}"]),
    (b"<html>\n<p>{}\n", ["<html>", "<p>{}"]),
    (b"[1, 2]\n{}", ["1, 2]", "{}"]),
    (b"", []),
    (b" \r\n ,", []),
]


@pytest.mark.parametrize(("body", "values"), STREAMS)
def test_values_are_told_apart_in_every_split(
    body: bytes, values: list[str], cut_every_way: Cut
) -> None:
    for reads in cut_every_way(body):
        assert read(reads) == values


@pytest.mark.parametrize(
    ("value", "rest"), [(b'{"a": "b"}', b""), (b"[[1]]", b"x"), (b'{"a": {"b": "\\\\"}}', b"{")]
)
def test_a_value_is_given_with_its_last_bracket(value: bytes, rest: bytes) -> None:
    stream = JSONStream(MOST)
    assert list(stream.feed(b"{}" + value[:-1])) == [Event("", "{}")]
    assert list(stream.feed(value[-1:] + rest)) == [Event("", value.decode())]


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
VALUES = st.lists(TREES, max_size=4) | st.dictionaries(st.text(), TREES, max_size=4)
BETWEEN = st.text(st.sampled_from(" \t\r\n,"), max_size=4)


@given(st.data(), st.lists(VALUES, min_size=1), st.booleans(), st.booleans())
def test_any_values_in_any_reads_are_what_json_reads(
    data: st.DataObject, values: list[JSON], in_array: bool, plain: bool
) -> None:
    if not in_array and isinstance(values[0], list):
        values[0] = {"a": values[0]}  # a stream that begins with an array is that array
    indent = data.draw(st.sampled_from([None, 1]))
    texts = [json.dumps(value, ensure_ascii=plain, indent=indent) for value in values]
    body = "".join(text + data.draw(BETWEEN) for text in texts)
    encoded = (f"[{body}]" if in_array else body).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)))))
    reads = [encoded[a:b] for a, b in zip([0, *cuts], [*cuts, len(encoded)], strict=True)]
    found = read(reads, most=10**6)
    assert found[len(texts) :] == ([END] if in_array else [])
    assert [json.loads(text) for text in found[: len(texts)]] == values


@given(st.binary(), st.lists(st.integers(1, 5), min_size=1))
def test_no_bytes_at_all_are_read_otherwise_in_other_reads(body: bytes, sizes: list[int]) -> None:
    def outcome(reads: Sequence[bytes]) -> tuple[list[str], Event | str | None]:
        stream, found = JSONStream(MOST), list[str]()
        try:
            found += [event.data for data in reads for event in stream.feed(data)]
            return found, stream.close()
        except Malformed as damage:
            return [], str(damage)

    reads, at = list[bytes](), 0
    while at < len(body):
        for size in sizes:
            reads.append(body[at : at + size])
            at += size
    assert outcome(reads) == outcome([body])


def test_one_byte_order_mark_is_dropped() -> None:
    assert read([BOM + b" \n{}"]) == ["{}"]
    assert read([BOM, b"[{}]"]) == ["{}", END]
    assert read([BOM + BOM + b"{}\n"]) == ["\ufeff{}"]


# ---- the tail -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "tail"),
    [
        (b'{"a": 1', '{"a": 1'),
        (b'{"a": "\\', '{"a": "\\'),
        (b'{"a": "}', '{"a": "}'),
        (b" \n[{", "{"),
        (b'"done"', '"done"'),
        (b"upstream failed", "upstream failed"),
        (b"", None),
        (b" \n", None),
        (b"[", None),
        (b'{"a": "\xc3', None),  # a character that the cut divides
    ],
)
def test_the_tail_is_what_was_cut(data: bytes, tail: str | None) -> None:
    assert tail_of(data) == (None if tail is None else Event("", tail))


# ---- damage and limits --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "damaged"),
    [
        (b"", b'{"a":"\xff"}'),
        (b"", b'{"a":"\xc3"}'),
        (b"", b'{"a":"\xed\xa0\x80"}'),
        (b"", b"\xff\n"),
        (BOM + b'{"a":"\xc3\xa9"}\r\n , ', b'{"a":"\xff"}'),
        (b'[{"a":"\xc3\xa9"},\n', b'{"a":"\xff"}'),
    ],
)
def test_bytes_that_are_not_utf8_are_refused_with_their_place(
    before: bytes, damaged: bytes, cut_every_way: Cut
) -> None:
    try:
        damaged.decode()
    except UnicodeDecodeError as error:
        place = len(before) + error.start
    else:
        pytest.fail("it is UTF-8")
    cuts = cut_every_way(before + damaged + b"{}")
    for reads in ([before, damaged + b"{}"],) if before.startswith(BOM) else cuts:
        with pytest.raises(Malformed, match=rf"^not UTF-8: .* at byte {place} of the stream$"):
            read(reads)


@pytest.mark.parametrize("cut", [b'{"a', b'{"a":"b', b'{"a":"\\"', b'{"a":[{"b":1},{"'])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_line_that_ends_inside_a_string_does_not_swallow_what_follows(
    cut: bytes, line_end: bytes, cut_every_way: Cut
) -> None:
    before = b"{}\n" + cut
    for reads in cut_every_way(before + line_end + b"{}\n"):
        with pytest.raises(Malformed, match=rf"string, at byte {len(before)} of the stream$"):
            read(reads)


@pytest.mark.parametrize("value", [b'{"a":"bcd"}', b"[[[[[1]]]]]"])
def test_a_value_may_have_so_many_bytes_and_not_one_more(value: bytes, cut_every_way: Cut) -> None:
    for reads in cut_every_way(b"{}" + value + b"\n" + value):
        assert read(reads, most=len(value)) == ["{}", value.decode(), value.decode()]
        with pytest.raises(Malformed, match=r"over 10 bytes \(limits\.max_event_bytes\)"):
            read(reads, most=len(value) - 1)


@pytest.mark.parametrize(
    "endless", [b"[", b"{", b'{"', b'{"\\', b"x", b'{"a":', b'{"a":"b",', b"[]", b"{]"]
)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_what_never_ends_is_refused_at_the_limit(endless: bytes, size: int) -> None:
    body = b'{"a":[' + endless * 3000
    stream = JSONStream(2000)
    taken = 0

    def feed(data: bytes) -> None:
        nonlocal taken
        assert list(stream.feed(data)) == []
        taken += len(data)

    with pytest.raises(Malformed):
        deque(map(feed, (body[at : at + size] for at in range(0, len(body), size))))
    assert len(stream._held) <= 2000 + size
    assert taken <= 2000


def test_what_stands_between_values_is_not_kept() -> None:
    stream = JSONStream(4)
    for data in [b"{}", *[b" \n,"] * 1000, b"{}", b"\r" * 1000]:
        assert all(event == Event("", "{}") for event in stream.feed(data))
        assert stream._held == b""
    assert stream.close() is None


def test_a_stream_of_values_has_no_comments() -> None:
    stream = JSONStream(MOST)
    assert list(stream.feed(b"{}\n\n\n{}")) == [Event("", "{}")] * 2
    assert stream.keepalives == 0
