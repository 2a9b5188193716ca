from __future__ import annotations

import gzip
import tracemalloc
import zlib
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from polygateway.net.inflate import CodingError, Inflater

MIB = 1024 * 1024
TEXT = b"".join(b"data: %d\n\n" % number for number in range(1000))

# RFC 9110, section 8.4.1: "deflate" is zlib's format (RFC 1950), "x-gzip" is the same as "gzip".
CODED = {"gzip": gzip.compress(TEXT), "x-gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT)}


def inflated(coding: str, *pieces: bytes) -> bytes:
    inflater = Inflater(coding)
    last = len(pieces) - 1
    return b"".join(
        each
        for index, piece in enumerate(pieces)
        for each in inflater.feed(piece, last=index == last)
    )


@pytest.mark.parametrize("coding", CODED)
def test_each_known_coding_is_undone(coding: str) -> None:
    assert inflated(coding, CODED[coding]) == TEXT


@settings(deadline=None)
@given(
    coding=st.sampled_from(sorted(CODED)),
    cuts=st.lists(st.integers(min_value=0, max_value=len(CODED["gzip"])), max_size=8).map(sorted),
)
def test_it_does_not_matter_how_the_bytes_are_cut(coding: str, cuts: list[int]) -> None:
    data = CODED[coding]
    edges = [0, *cuts, len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    assert inflated(coding, *pieces) == TEXT


def test_what_a_server_flushes_is_there_at_once() -> None:
    # Z_SYNC_FLUSH after each event is how a server streams through gzip (RFC 1951, section 3.2.4).
    coder = zlib.compressobj(wbits=31)
    inflater = Inflater("gzip")
    for event in (b"data: one\n\n", b"data: two\n\n"):
        coded = coder.compress(event) + coder.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(inflater.feed(coded, last=False)) == event
    assert list(inflater.feed(coder.flush(), last=True)) == []


def test_a_gzip_body_may_have_several_members() -> None:
    # RFC 1952, section 2.2: members follow each other, with nothing between them.
    members = [gzip.compress(b"one "), gzip.compress(b""), gzip.compress(b"two")]
    assert inflated("gzip", b"".join(members)) == b"one two"
    assert inflated("gzip", *members) == b"one two"


def test_a_bomb_comes_in_pieces_of_bounded_size() -> None:
    bomb = gzip.compress(bytes(64 * MIB))
    assert len(bomb) < 70_000
    tracemalloc.start()
    try:
        sizes = [len(piece) for piece in Inflater("gzip").feed(bomb, last=True)]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) == 64 * MIB
    assert max(sizes) == 16 * 1024
    assert most < MIB


@pytest.mark.parametrize("size", [16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 32 * 1024])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_nothing_is_lost_where_the_text_fills_a_piece_exactly(coding: str, size: int) -> None:
    text = bytes(size)
    coded = gzip.compress(text) if coding == "gzip" else zlib.compress(text)
    assert inflated(coding, coded) == text
    assert inflated(coding, coded[:-1], coded[-1:]) == text


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("gzip", TEXT),
        ("deflate", gzip.compress(TEXT)),
        ("gzip", gzip.compress(TEXT) + b"oops"),
        ("gzip", gzip.compress(TEXT)[:-8] + bytes(8)),  # checksum and length, section 2.3.1
    ],
    ids=["not coded", "another coding", "bytes behind the end", "wrong checksum"],
)
def test_damage_is_an_error_that_names_the_coding(coding: str, data: bytes) -> None:
    with pytest.raises(CodingError, match=f"the {coding} body is damaged"):
        inflated(coding, data)


def test_what_came_before_the_damage_is_given() -> None:
    coder = zlib.compressobj(wbits=31)
    good = coder.compress(b"data: one\n\n") + coder.flush(zlib.Z_SYNC_FLUSH)
    inflater = Inflater("gzip")
    assert list(inflater.feed(good, last=False)) == [b"data: one\n\n"]
    with pytest.raises(CodingError):
        list(inflater.feed(b"\xff" * 10, last=False))


@pytest.mark.parametrize("missing", [1, 8, 20])
def test_a_body_that_ends_before_its_coding_does_is_no_whole_body(missing: int) -> None:
    # A gateway that dies in the middle ends the chunked framing properly, not the gzip stream.
    with pytest.raises(CodingError, match="the gzip body ended before its coding did"):
        inflated("gzip", CODED["gzip"][:-missing])


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress"])
def test_an_unknown_coding_is_refused_by_its_name(coding: str) -> None:
    with pytest.raises(CodingError, match=f"content-encoding '{coding}' was not asked for"):
        Inflater(coding)


def test_an_unknown_coding_with_a_long_name_is_told_in_few_words() -> None:
    with pytest.raises(CodingError) as caught:
        Inflater("x" * 100_000)
    assert len(str(caught.value)) < 300
