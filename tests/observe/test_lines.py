"""A line of a journal says all of its record; what cannot be read is refused, with the reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from polygateway.core.figures import figures_of
from polygateway.observe import lines
from polygateway.observe.lines import AttemptLine, attempt_line, call_line, read_line
from polygateway.observe.records import RecordedCall
from polygateway.observe.strict import Misfit
from polygateway.stats import Seam
from polygateway.trace import Arrival, Piece
from tests.observe.gallery import GALLERY
from tests.observe.recorded import attempts, bare, calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polygateway.observe.records import RecordedAttempt

Node: TypeAlias = "dict[str, Node] | list[Node] | str | int | float | bool | None"


def line_of(attempt: RecordedAttempt) -> AttemptLine:
    return AttemptLine(run="r", call=7, model="m", stats=attempt.stats, trace=attempt.trace)


ATTEMPTS = attempts(1).map(line_of)


# ---------------------------------------------------------------- there and back


@given(ATTEMPTS)
def test_an_attempt_is_read_as_it_was_written(attempt: AttemptLine) -> None:
    assert read_line(attempt_line(attempt, text=True)) == attempt


@given(ATTEMPTS)
def test_without_text_an_attempt_lacks_nothing_but_text(attempt: AttemptLine) -> None:
    expected = attrs.evolve(attempt, trace=bare(attempt.trace))
    assert read_line(attempt_line(attempt, text=False)) == expected
    assert read_line(attempt_line(expected, text=True)) == expected


@given(calls())
def test_a_call_is_read_as_it_was_written_but_for_its_attempts(call: RecordedCall) -> None:
    assert read_line(call_line(call)) == attrs.evolve(call, attempts=())


@given(ATTEMPTS, st.booleans())
def test_a_line_is_one_line_of_ascii_to_whoever_cuts_lines(
    attempt: AttemptLine, text: bool
) -> None:
    line = attempt_line(attempt, text=text)
    assert line.isascii()
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1


@given(ATTEMPTS)
def test_figures_follow_from_what_was_read_as_from_what_was_written(attempt: AttemptLine) -> None:
    trace = attrs.evolve(attempt.trace, dropped=0)
    line = read_line(attempt_line(attrs.evolve(attempt, trace=trace), text=False))
    assert isinstance(line, AttemptLine)
    assert figures_of(line.trace) == figures_of(trace)


# ---------------------------------------------------------------- what the format says

START = 1_000_000_000_000


def example() -> dict[str, Node]:
    """Give the line of an attempt as the documentation describes it."""
    return {
        "v": 1,
        "type": "attempt",
        "run": "5f0c",
        "call": 7,
        "model": "fast",
        "stats": {
            "chunk_count": 3,
            "ttft_ms": 1.5,
            "ttft_text_ms": None,
            "generation_ms": 2.0,
            "stall_ms": 2.0,
            "stall_gap_count": 1,
            "stall_count": 1,
            "active_generation_ms": 0.0,
            "backpressure_ms": 0.0,
            "max_gap_ms": 2.0,
            "tail_ms": 0.0,
            "open_gap_ms": None,
            "total_ms": 4.0,
            "output_tokens": None,
            "tokens_source": "none",
            "tpot_ms": None,
            "tokens_per_s": None,
            "rate_basis": None,
            "rate_reason": "burst",
            "stalls": [
                {
                    "attempt": 0,
                    "after_chunk": 0,
                    "offset_ms": 1.5,
                    "duration_ms": 2.0,
                    "characters_before": 5,
                    "next_kind": "text",
                    "keepalives": 1,
                    "open": False,
                    "cause": "server_alive",
                }
            ],
            "index": 0,
            "target": "eu",
            "kind": "primary",
            "reason": None,
            "started_ms": 0.25,
            "sent_ms": 0.5,
            "headers_ms": 1.0,
            "outcome": "won",
            "end_kind": "complete",
            "cancel_reason": None,
            "cancel_to_closed_ms": None,
            "status": 200,
            "request_id": None,
            "error": None,
            "error_kind": None,
            "characters": 12,
            "usage": {"input_tokens": 7},
            "wasted": None,
        },
        "trace": {
            "attempt": 0,
            "started_ns": START,
            "ended_ns": START + 4_000_000,
            "sent_ns": START + 500_000,
            "headers_ns": None,
            "threshold_ns": 2_000_000,
            "arrivals": [
                [1_500_000, 1_000_000, 0, 1, None, [["reasoning", 5]]],
                [3_500_000, 2_000_000, 1, 2, 9, [["text", 3, "abc"], ["text", 4]]],
            ],
            "waited_ns": 0,
            "keepalives": 0,
            "end_kind": "complete",
            "form": "stream",
            "usage": {},
        },
    }


def read(table: Node) -> AttemptLine | RecordedCall:
    return read_line(json.dumps(table).encode())


def why(line: Node | bytes) -> str:
    """Give the reason for which a line is refused."""
    with pytest.raises(Misfit) as refused:
        read_line(line if isinstance(line, bytes) else json.dumps(line).encode())
    return str(refused.value)


def test_a_row_is_an_arrival_whose_time_counts_from_the_start() -> None:
    line = read(example())
    assert isinstance(line, AttemptLine)
    assert line.trace.arrivals == (
        Arrival(START + 1_500_000, 1_000_000, 0, 1, 5, ("reasoning",), None),
        Arrival(START + 3_500_000, 2_000_000, 1, 2, 7, ("text",), 9),
    )
    assert line.trace.pieces == (
        (Piece("reasoning", 5),),
        (Piece("text", 3, "abc"), Piece("text", 4)),
    )


@given(ATTEMPTS, calls())
@settings(max_examples=1)
def test_the_documentation_names_every_field_of_a_line(
    attempt: AttemptLine, call: RecordedCall
) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "journal.md"
    tables = [
        set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))
        for part in re.split(r"^##+ ", page.read_text("utf-8"), flags=re.MULTILINE)
        if part.startswith(("The format", "An attempt", "A call"))
    ]
    of_all, of_attempts, of_calls = tables
    assert of_all | of_attempts == json.loads(attempt_line(attempt, text=True)).keys()
    assert of_all | of_calls == json.loads(call_line(call)).keys()


def test_fields_that_a_later_writer_added_are_passed_over() -> None:
    table = example()
    expected = read(table)
    for place, node in [*walk(table)]:
        if isinstance(node, dict):
            node["added"] = {"later": [1]}
        if isinstance(node, list) and re.fullmatch(r"\.trace\.arrivals\[.\]", place):
            node.append("later")
    assert read(table) == expected


def test_whole_numbers_will_do_where_durations_are_expected() -> None:
    # jq 1.6 writes 2.0 as 2.
    table = cast("dict[str, dict[str, Node]]", example())
    table["stats"]["stall_ms"] = 2
    assert read(cast("Node", table)) == read(example())


def test_a_line_that_would_be_too_long_says_how_many_arrivals_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempt = read(example())
    assert isinstance(attempt, AttemptLine)
    size = len(attempt_line(attempt, text=True))
    monkeypatch.setattr(lines, "MOST_BYTES", size)
    assert read_line(attempt_line(attempt, text=True)) == attempt
    monkeypatch.setattr(lines, "MOST_BYTES", size - 1)
    trace = attrs.evolve(attempt.trace, arrivals=(), pieces=(), dropped=2)
    assert read_line(attempt_line(attempt, text=True)) == attrs.evolve(attempt, trace=trace)


# ---------------------------------------------------------------- what is refused


def walk(node: Node, place: str = "") -> Iterator[tuple[str, Node]]:
    """Give every node with its place."""
    yield place, node
    if isinstance(node, dict):
        for name, inner in list(node.items()):
            yield from walk(inner, f"{place}.{name}")
    if isinstance(node, list):
        for index, inner in enumerate(list(node)):
            yield from walk(inner, f"{place}[{index}]")


def replaced(node: Node, place: str, new: Node) -> Node:
    """Give *node* with another one in a place."""
    if place == "":
        return new
    if isinstance(node, dict):
        for name, inner in node.items():
            head = f".{name}"
            if place == head or place.startswith((f"{head}.", f"{head}[")):
                return {**node, name: replaced(inner, place.removeprefix(head), new)}
    assert isinstance(node, list)
    index, _, rest = place[1:].partition("]")
    return [replaced(each, rest, new) if i == int(index) else each for i, each in enumerate(node)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "cut off, or no JSON: Expecting property name enclosed in double quotes at"),
        (b'{"v": 1, "type": "att', "cut off, or no JSON: Unterminated string starting at at char"),
        (b"hello", "cut off, or no JSON: Expecting value at character 0"),
        (b'{"v": 1}{"v": 1}', "cut off, or no JSON: Extra data at character 8"),
        (b"\xef\xbb\xbf{}", "cut off, or no JSON: Expecting value at character 0"),
        (b'{"v": "\xff"}', "not UTF-8: invalid start byte at byte 7"),
        ('{"v": 1}'.encode("utf-16"), "not UTF-8: invalid start byte at byte 0"),
        (b'{"v": 1, "v": 1}', "not to be read as JSON: an object has one name twice"),
        (b'{"v": NaN}', "not to be read as JSON: NaN is no number"),
        (b'{"v": -Infinity}', "not to be read as JSON: -Infinity is no number"),
        (b'{"v": ' + b"[" * 100_000, "not to be read as JSON: maximum recursion depth exceeded"),
        (b'{"v": 1' + b"0" * 5000 + b"}", "not to be read as JSON: Exceeds the limit"),
        (b"[]", "it must be an object, not a list of 0"),
        (b"null", "it must be an object, not None"),
        (b"{}", "no line of a journal, for its v is no version"),
        (b'{"v": "1"}', "no line of a journal, for its v is no version"),
        (b'{"v": true}', "no line of a journal, for its v is no version"),
        (b'{"v": 2, "type": "attempt"}', "of version 2; this polygateway reads version 1"),
        (b'{"v": 0}', "of version 0; this polygateway reads version 1"),
        (b'{"v": 1}', ".type must be 'attempt' or 'call', not None"),
        (b'{"v": 1, "type": ["call"]}', ".type must be 'attempt' or 'call', not a list of 1"),
        (b'{"v": 1, "type": "call"}', ".run is missing"),
        (b'{"v": 1, "type": "attempt"}', ".trace must be an object, not None"),
    ],
)
def test_what_is_no_line_of_a_journal_is_refused(line: bytes, reason: str) -> None:
    assert why(line).startswith(reason)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (".run", 5, ".run must be a string, not 5"),
        (".call", "7", ".call must be a whole number from 0 to 2^63, not '7'"),
        (".call", True, ".call must be a whole number from 0 to 2^63, not True"),
        (".call", 7.0, ".call must be a whole number from 0 to 2^63, not 7.0"),
        (".call", -1, ".call must be a whole number from 0 to 2^63, not -1"),
        (".call", 2**63, ".call must be a whole number from 0 to 2^63, not 9223372036854775808"),
        (".call", 10**400, ".call must be a whole number from 0 to 2^63, not a number of 1329 b"),
        (".stats", [], ".stats must be an object, not a list of 0"),
        (".stats.total_ms", None, ".stats.total_ms must be a number from 0 to 2^63, not None"),
        (".stats.total_ms", "4", ".stats.total_ms must be a number from 0 to 2^63, not '4'"),
        (".stats.total_ms", -0.1, ".stats.total_ms must be a number from 0 to 2^63, not -0.1"),
        (".stats.ttft_ms", 1e300, ".stats.ttft_ms must be a number from 0 to 2^63, not 1e+300"),
        (".stats.ttft_ms", False, ".stats.ttft_ms must be a number from 0 to 2^63, not False"),
        (
            ".stats.kind",
            "third",
            ".stats.kind must be 'primary' or 'hedge' or 'retry', not 'third'",
        ),
        (".stats.kind", None, ".stats.kind must be 'primary' or 'hedge' or 'retry', not None"),
        (".stats.kind", [], ".stats.kind must be 'primary' or 'hedge' or 'retry', not a list of 0"),
        (".stats.reason", "x", ".stats.reason must be 'ttft' or 'stall', not 'x'"),
        (".stats.stalls", {}, ".stats.stalls must be an array, not a table of 0"),
        (".stats.stalls[0].open", 1, ".stats.stalls[0].open must be true or false, not 1"),
        (".stats.usage.input_tokens", 1.5, ".stats.usage.input_tokens must be a whole number"),
        (".stats.index", 1, ".trace.attempt is 0, .stats.index 1"),
        (".trace.arrivals", None, ".trace.arrivals must be an array, not None"),
        (".trace.arrivals[0]", 5, ".trace.arrivals[0] must be an array, not 5"),
        (
            ".trace.arrivals[0]",
            [],
            ".trace.arrivals[0] must be four whole numbers, the last of the",
        ),
        (
            ".trace.arrivals[0][0]",
            "x",
            ".trace.arrivals[0] must be four whole numbers, the last of",
        ),
        (
            ".trace.arrivals[0][1]",
            -1,
            ".trace.arrivals[0] must be four whole numbers, the last of ",
        ),
        (
            ".trace.arrivals[0][2]",
            0.5,
            ".trace.arrivals[0] must be four whole numbers, the last of",
        ),
        (
            ".trace.arrivals[0][3]",
            0,
            ".trace.arrivals[0] must be four whole numbers, the last of t",
        ),
        (
            ".trace.arrivals[0][4]",
            "",
            ".trace.arrivals[0] must be four whole numbers, the last of ",
        ),
        (".trace.arrivals[0][5]", None, ".trace.arrivals[0][5] must be an array, not None"),
        (".trace.arrivals[0][5][0]", 1, ".trace.arrivals[0][5] must be an array, not 1"),
        (".trace.arrivals[0][5][0]", ["text"], ".trace.arrivals[0][5] must be pieces, each a kind"),
        (
            ".trace.arrivals[0][5][0][0]",
            "x",
            ".trace.arrivals[0][5] must be pieces, each a kind, a",
        ),
        (
            ".trace.arrivals[0][5][0][0]",
            [],
            ".trace.arrivals[0][5] must be pieces, each a kind, a ",
        ),
        (
            ".trace.arrivals[0][5][0][1]",
            -1,
            ".trace.arrivals[0][5] must be pieces, each a kind, a ",
        ),
        (
            ".trace.arrivals[1][5][0][2]",
            7,
            ".trace.arrivals[1][5] must be pieces, each a kind, a l",
        ),
    ],
)
def test_what_does_not_fit_the_record_is_refused_with_its_place(
    place: str, value: Node, reason: str
) -> None:
    assert why(replaced(example(), place, value)).startswith(reason)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (
            ".trace.arrivals[1][0]",
            1_499_999,
            ".trace.arrivals[1] waited longer than there was time",
        ),
        (
            ".trace.arrivals[1][1]",
            2_000_001,
            ".trace.arrivals[1] waited longer than there was time",
        ),
        (
            ".trace.arrivals[0][1]",
            1_500_001,
            ".trace.arrivals[0] waited longer than there was time",
        ),
        (
            ".trace.ended_ns",
            START + 3_499_999,
            ".trace.ended_ns lies before the last arrival, or b",
        ),
    ],
)
def test_a_trace_in_which_time_runs_backwards_is_refused(
    place: str, value: Node, reason: str
) -> None:
    assert why(replaced(example(), place, value)).startswith(reason)


def test_an_attempt_that_ends_before_it_starts_is_refused() -> None:
    table = replaced(example(), ".trace.arrivals", [])
    assert "before the start" in why(replaced(table, ".trace.ended_ns", START - 1))


OPTIONAL = {
    ".trace.dropped",
    *(f"{place}.usage.input_tokens" for place in (".stats", ".trace")),
}


@pytest.mark.parametrize(
    "place",
    [
        place
        for place, _ in walk(example())
        if place and not place.endswith("]") and place not in OPTIONAL
    ],
)
def test_every_field_is_needed_but_those_that_may_be_left_out(place: str) -> None:
    table = example()
    parent, _, name = place.rpartition(".")
    owner = next(node for at, node in walk(table) if at == parent)
    assert isinstance(owner, dict)
    del owner[name]
    assert (name if place != ".v" else "its v is no version") in why(table)


def a_call(**changes: Node) -> Node:
    """Give the line of a call, with some fields of its stats changed."""
    table = cast("dict[str, dict[str, Node]]", json.loads(call_line(GALLERY["recovered"]())))
    table["stats"] |= changes
    return cast("Node", table)


def test_a_journal_of_before_there_were_seams_and_a_holdout_is_read() -> None:
    older = cast("dict[str, dict[str, Node]]", a_call())
    del older["stats"]["seams"], older["stats"]["holdout"]
    line = read(cast("Node", older))
    assert isinstance(line, RecordedCall)
    assert (line.stats.seams, line.stats.holdout) == ((), None)


SEAM: dict[str, Node] = {
    "kind": "restart",
    "before": 0,
    "after": 1,
    "at_ms": 7.5,
    "characters": 12,
}


def test_a_seam_is_read_field_by_field() -> None:
    line = read(a_call(seams=[SEAM], holdout=False))
    assert isinstance(line, RecordedCall)
    assert line.stats.holdout is False
    assert line.stats.seams == (Seam(kind="restart", before=0, after=1, at_ms=7.5, characters=12),)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "glue"}, "[0].kind must be 'restart' or 'continue', not 'glue'"),
        ({"after": -1}, "[0].after must be a whole number from 0 to 2^63, not -1"),
        ({"at_ms": None}, "[0].at_ms must be a number from 0 to 2^63, not None"),
        ({"characters": 1.5}, "[0].characters must be a whole number from 0 to 2^63, not 1.5"),
    ],
)
def test_a_seam_that_is_none_is_refused_with_its_place(
    changes: dict[str, Node], reason: str
) -> None:
    assert why(a_call(seams=[SEAM | changes])) == f".stats.seams{reason}"


@pytest.mark.parametrize("name", SEAM)
def test_a_seam_needs_all_of_its_fields(name: str) -> None:
    torn = {key: value for key, value in SEAM.items() if key != name}
    assert why(a_call(seams=[torn])) == f".stats.seams[0].{name} is missing"


def test_whether_a_call_was_held_out_is_yes_no_or_unknown() -> None:
    assert why(a_call(holdout=1)) == ".stats.holdout must be true or false, not 1"


def test_a_line_that_is_too_long_is_refused_unread() -> None:
    line = b" " * lines.MOST_BYTES + b"\n"
    assert why(line) == "longer than 16,777,216 bytes"
    assert why(line[1:]).startswith("cut off, or no JSON")


# ---------------------------------------------------------------- whatever stands in it

NODES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["text", "stream", "complete", "won", ""]),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
PLACES = [place for place, _ in walk(example())]


@given(st.lists(st.tuples(st.sampled_from(PLACES), NODES), min_size=1, max_size=3))
def test_whatever_stands_in_a_line_it_is_read_or_refused(changes: list[tuple[str, Node]]) -> None:
    table: Node = example()
    for place, node in changes:
        if place in dict(walk(table)):
            table = replaced(table, place, node)
    try:
        line = read(table)
    except Misfit as misfit:
        reason = str(misfit)
    else:
        reason = ""
        assert isinstance(line, AttemptLine)
        figures = attrs.asdict(figures_of(attrs.evolve(line.trace, dropped=0)), recurse=False)
        assert all(value >= 0 for value in figures.values() if isinstance(value, int | float))
    assert len(reason.splitlines()) <= 1
    assert len(reason) < 400


@given(st.binary() | st.text().map(str.encode))
def test_whatever_bytes_are_there_no_record_comes_of_them(line: bytes) -> None:
    assert why(line)
