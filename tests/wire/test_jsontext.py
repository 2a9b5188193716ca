from __future__ import annotations

import contextlib
import json
import math
import tracemalloc
from collections import UserDict, UserList
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings, strategies as st

from polygateway.errors import ConfigurationError
from polygateway.wire.jsontext import (
    as_count,
    as_json,
    as_object,
    as_objects,
    as_text,
    footprint,
    from_json,
    to_json,
)
from polygateway.wire.malformed import Malformed, excerpt

if TYPE_CHECKING:
    from polygateway.messages import JSON


def test_objects_are_written_compactly_in_utf8() -> None:
    assert (
        to_json({"a": [1, 2.5, None, True], "é": "波🌊"})
        == '{"a":[1,2.5,null,true],"é":"波🌊"}'.encode()
    )


def test_what_behaves_like_an_object_or_an_array_is_written_as_one() -> None:
    value: dict[str, object] = {
        "tuple": (1, 2),
        "proxy": MappingProxyType({"a": 1}),
        "dict": UserDict({"b": 2}),
        "list": UserList([3]),
    }
    assert json.loads(to_json(cast("dict[str, JSON]", value))) == {
        "tuple": [1, 2],
        "proxy": {"a": 1},
        "dict": {"b": 2},
        "list": [3],
    }


def nested(depth: int) -> dict[str, JSON]:
    value: dict[str, JSON] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def circular() -> dict[str, object]:
    value: dict[str, object] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"messages": [{"content": "ok"}, {"content": [{"text": "a\ud83c"}]}]},
            r"messages\[1\]\.content\[0\]\.text holds a lone surrogate \(U\+D83C\)",
        ),
        ({"temperature": float("nan")}, "temperature is nan, which JSON cannot say"),
        ({"stop": ("a", float("-inf"))}, r"stop\[1\] is -inf, which JSON cannot say"),
        ({"a": {"b": {1, 2}}}, r"a\.b is of type set, which JSON cannot say"),
        ({"a": b"bytes"}, "a is of type bytes, which JSON cannot say"),
        ({"a": MappingProxyType({"b": object()})}, r"a\.b is of type object"),
        ({"a": {(1, 2): 3}}, r"a has the key \(1, 2\), which is no string"),
        ({(1, 2): 3}, r"the request has the key \(1, 2\), which is no string"),
        ({"a": {"\udc00": 1}}, r"the key '\\udc00' holds a lone surrogate \(U\+DC00\)"),
        (nested(100_000), "the request is nested too deeply, or holds itself"),
        (circular(), "the request is nested too deeply, or holds itself"),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_place(value: object, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{text}"):
        to_json(cast("dict[str, JSON]", value))


def test_the_place_begins_with_the_setting_it_is_of() -> None:
    with pytest.raises(ConfigurationError, match=r"^targets\.eu\.extra\.x\[0\] is nan"):
        to_json({"x": [float("nan")]}, "targets.eu.extra")
    with pytest.raises(ConfigurationError, match=r"^extra is nested too deeply"):
        to_json(nested(100_000), "extra")
    with pytest.raises(ConfigurationError, match=r"^extra has the key None, which is no string"):
        to_json(cast("dict[str, JSON]", {None: {1}}), "extra")


def test_what_has_no_place_is_refused_with_the_writer_s_own_words() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be written as JSON: Exceeds the limit"):
        to_json({"seed": 10**5000})


# Lone surrogates are among these characters.
words = st.text(st.characters(), max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(words, json_values, max_size=3))
def test_what_is_written_reads_as_it_was(value: dict[str, JSON]) -> None:
    try:
        written = to_json(value)
    except ConfigurationError:
        with pytest.raises((ValueError, UnicodeEncodeError)):
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    else:
        assert from_json(written.decode()) == value


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "nope", "[" * 100_000, "1" * 5000])
def test_what_is_not_json_is_malformed_with_an_excerpt(text: str) -> None:
    with pytest.raises(Malformed, match=r"^not JSON \(.*\): '") as caught:
        from_json(text)
    assert excerpt(text)[:50] in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "a": null}', {"a": None}),
        ('{"error": {}, "error": "x"}', {"error": "x"}),
        (r'"\u0000"', "\0"),
        (r'"\ud83c\udf0a"', "🌊"),
        (r'"\ud83c"', "\ud83c"),  # the text that it is of joins it: see polygateway.wire.halves
        ('"\ud83c"', "\ud83c"),
        ("1" * 4000, int("1" * 4000)),
        ("1e999", math.inf),
        ("[-Infinity]", [-math.inf]),
        (" 7\n", 7),
    ],
)
def test_what_json_leaves_open_is_read_in_one_way(text: str, value: JSON) -> None:
    assert from_json(text) == value


def test_not_a_number_is_read_where_nobody_looks_at_it() -> None:
    assert as_count(as_object(from_json('{"logprob": NaN, "n": 7}')).get("n")) == 7


def test_a_value_is_written_as_it_was_read() -> None:
    assert as_json({"é": 1}) == '{"é": 1}'
    assert as_json([None, "\0", 10**20, 1.5]) == '[null, "\\u0000", 100000000000000000000, 1.5]'


def test_what_cannot_be_written_again_is_malformed() -> None:
    with pytest.raises(Malformed, match="nested too deeply"):
        as_json(nested(100_000))
    for text in ("1e999", "NaN", "-Infinity"):
        with pytest.raises(Malformed, match="cannot be written again"):
            as_json({"a": [from_json(text)]})


@given(st.text(st.characters(), max_size=20) | st.text('[]{}",:0123e+-.nul\\', max_size=20))
def test_no_text_is_too_strange_to_be_read(text: str) -> None:
    with contextlib.suppress(Malformed):
        assert isinstance(from_json(text), (bool, int, float, str, list, dict, NoneType))


VALUES: list[JSON] = [
    None,
    True,
    False,
    0,
    7,
    -1,
    1.5,
    "",
    "x",
    [],
    [{"a": 1}, 2, {}],
    {},
    {"a": 1},
]


@pytest.mark.parametrize(
    ("read", "kept", "empty"),
    [
        (as_object, [{}, {"a": 1}], {}),
        (as_text, ["", "x"], ""),
        (as_count, [0, 7], None),
    ],
)
def test_a_value_of_another_type_reads_as_the_empty_one(
    read: object, kept: list[JSON], empty: JSON
) -> None:
    assert callable(read)
    for value in VALUES:
        is_kept = any(value == good and type(value) is type(good) for good in kept)
        assert read(value) == (value if is_kept else empty)


def test_only_the_objects_of_an_array_are_read() -> None:
    assert as_objects([{"a": 1}, 2, None, {}, [{}]]) == [{"a": 1}, {}]
    assert [as_objects(value) for value in VALUES if not isinstance(value, list)] == [[]] * 11


def test_an_excerpt_is_cut_and_can_be_printed() -> None:
    assert excerpt("abc", 3) == "abc"
    assert excerpt("abcd", 3) == "ab…"
    assert excerpt("a\ud83c") == "a "
    assert excerpt("a\n\x1b[31mb") == "a  [31mb"  # it must not move a terminal's cursor
    assert len(excerpt("x" * 1000)) == 200


# ---- memory -------------------------------------------------------------------------------------

DENSE = {
    "arrays": "[],",
    "objects": '{"":0},',
    "objects in arrays": "[{}],",
    "strings": '"ab",',
    "numbers": "999,",
    "small numbers": "0,",
}
LARGE = 1024 * 1024


@pytest.mark.parametrize("name", DENSE)
def test_the_memory_of_values_is_not_far_from_what_is_estimated(name: str) -> None:
    text = f"[{DENSE[name] * 20_000}0]"
    tracemalloc.start()
    try:
        value = from_json(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(value, list)
    assert len(value) == 20_001
    assert taken / 1.5 < footprint(text) < taken * 6


@pytest.mark.parametrize("name", DENSE)
def test_values_that_would_take_many_times_their_text_are_refused(name: str) -> None:
    with pytest.raises(Malformed, match="take over 24 MiB"):
        from_json(f"[{DENSE[name] * (8 * LARGE // len(DENSE[name]))}0]")


def test_a_long_text_is_read_however_long_it_is() -> None:
    prose = "The tide turns, and turns again; who counts it? " * (8 * LARGE // 48)
    assert from_json(json.dumps({"text": prose})) == {"text": prose}


def test_the_probabilities_of_a_long_answer_are_read() -> None:
    # Five alternatives for each of 5,000 tokens: what the last event of a Responses stream holds.
    one = {"token": " tide", "logprob": -0.123456, "bytes": [32, 116, 105, 100, 101]}
    text = json.dumps({"logprobs": [{**one, "top_logprobs": [one] * 5}] * 5000})
    assert len(text) > 2 * LARGE
    assert isinstance(from_json(text), dict)
