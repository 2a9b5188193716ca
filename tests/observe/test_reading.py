"""What a journal holds is read whatever stands beside it, and what cannot be read is told."""

from __future__ import annotations

import re
import tracemalloc
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, strategies as st

from polygateway.observe import lines, reading
from polygateway.observe.lines import AttemptLine, attempt_line, call_line
from polygateway.observe.reading import JournalProblem, JournalReading, UnfinishedCall, read_journal
from tests.observe.recorded import calls, plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    from polygateway.observe.records import RecordedCall

ONE, TWO = plain(1, attempts=2), plain(2)


def attempt_lines(call: RecordedCall, *, text: bool = False) -> list[bytes]:
    return [
        attempt_line(
            AttemptLine(
                run=call.run,
                call=call.call,
                model=call.model,
                stats=attempt.stats,
                trace=attempt.trace,
            ),
            text=text,
        )
        for attempt in call.attempts
    ]


def lines_of(call: RecordedCall, *, text: bool = False) -> list[bytes]:
    return [*attempt_lines(call, text=text), call_line(call)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def read(path: Path, *parts: bytes) -> JournalReading:
    path.write_bytes(b"".join(parts))
    return read_journal(path)


def told(found: JournalReading) -> list[str]:
    return list(map(str, found.problems))


# ---------------------------------------------------------------- what belongs together


def test_calls_come_in_the_order_of_their_ends_with_their_attempts(path: Path) -> None:
    first, second, end = lines_of(ONE)
    found = read(path, first, *lines_of(TWO), second, end)
    assert found == JournalReading(calls=(TWO, ONE), unfinished=(), problems=())


def test_runs_with_the_same_numbers_are_kept_apart(path: Path) -> None:
    other = attrs.evolve(plain(1), run="another", model="slow")
    mixed = [
        line for pair in zip(lines_of(plain(1)), lines_of(other), strict=True) for line in pair
    ]
    assert read(path, *mixed).calls == (plain(1), other)


def test_an_attempt_has_the_record_that_its_call_ended_with(path: Path) -> None:
    early = attrs.evolve(TWO.attempts[0], stats=attrs.evolve(TWO.attempts[0].stats, characters=1))
    told_early = attempt_lines(attrs.evolve(TWO, attempts=(early,)))
    assert read(path, *told_early, call_line(TWO)).calls == (TWO,)


def test_attempts_of_a_call_without_an_end_are_unfinished(path: Path) -> None:
    found = read(path, *reversed(attempt_lines(ONE)), *lines_of(TWO))
    assert found.calls == (TWO,)
    assert found.problems == ()
    assert found.unfinished == (
        UnfinishedCall(run="r", call=1, model="fast", attempts=ONE.attempts),
    )


def test_a_call_whose_attempt_was_lost_says_so_and_has_the_others(path: Path) -> None:
    _, second, end = lines_of(ONE)
    found = read(path, second, end)
    assert found.calls == (attrs.evolve(ONE, attempts=ONE.attempts[1:]),)
    assert told(found) == ["line 2: attempt 0 of this call has no line"]


def test_an_attempt_that_its_call_does_not_know_is_told(path: Path) -> None:
    first, second, _ = lines_of(ONE)
    found = read(path, first, second, call_line(plain(1)))
    assert found.calls == (plain(1),)
    assert found.unfinished == ()
    assert told(found) == ["line 2: tells of an attempt that its call does not have"]


def test_what_is_told_twice_counts_once(path: Path) -> None:
    later = attrs.evolve(TWO, model="slow")
    found = read(path, *lines_of(TWO), *lines_of(later))
    assert found.calls == (TWO,)
    assert told(found) == [
        "line 3: tells again what line 1 tells",
        "line 4: tells again what line 2 tells",
    ]


@given(calls(), calls(number=2), st.randoms(use_true_random=False))
def test_lines_may_come_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, one: RecordedCall, two: RecordedCall, random: Random
) -> None:
    shuffled = [*lines_of(one, text=True), *lines_of(two, text=True)]
    random.shuffle(shuffled)
    found = read(tmp_path_factory.mktemp("journal") / "shuffled", *shuffled)
    assert sorted(found.calls, key=lambda call: call.call) == [one, two]
    assert not found.problems
    assert not found.unfinished


# ---------------------------------------------------------------- files


def test_an_empty_file_is_an_empty_journal(path: Path) -> None:
    assert read(path) == JournalReading(calls=(), unfinished=(), problems=())


def test_empty_lines_are_nothing(path: Path) -> None:
    found = read(path, b"\n", *lines_of(TWO), b"\n \t\r\n", b"\n")
    assert found.calls == (TWO,)
    assert found.problems == ()


def test_lines_may_end_as_in_windows_and_the_last_one_not_at_all(path: Path) -> None:
    journal = b"\r\n".join(line.rstrip() for line in lines_of(TWO))
    assert read(path, journal).calls == (TWO,)


def test_a_file_that_is_not_there_is_the_operating_systems_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"calls\.jsonl"):
        read_journal(str(path))


def test_a_folder_is_no_journal(path: Path) -> None:
    with pytest.raises(OSError, match=re.escape(str(path.parent))):
        read_journal(path.parent)


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_a_crash_costs_the_line_that_was_being_written_and_no_other(path: Path, cut: int) -> None:
    first, second, end = lines_of(ONE)
    found = read(path, *lines_of(TWO), first, second, end[:cut])
    assert found.calls == (TWO,)
    (unfinished,) = found.unfinished
    assert unfinished.attempts == ONE.attempts
    (problem,) = found.problems
    assert problem.line == 5
    assert problem.why.startswith("cut off, or no JSON: ")


def test_what_cannot_be_read_is_told_with_its_line_and_the_rest_is_read(path: Path) -> None:
    first, second, end = lines_of(ONE)
    found = read(
        path,
        *(first, b"2026-03-04 INFO started\n", second[:50], b"\n", b'{"v": 2, "type": "call"}\n'),
        *(b"\xff\xfe\n", second, b"[]\n", end, b'{"v": 1, "type": "note"}\n'),
    )
    assert found.calls == (ONE,)
    assert [problem.line for problem in found.problems] == [2, 3, 4, 5, 7, 9]
    assert told(found)[0] == "line 2: cut off, or no JSON: Extra data at character 4"
    assert told(found)[2] == "line 4: of version 2; this polygateway reads version 1"


# ---------------------------------------------------------------- hostile files


def test_a_line_of_any_length_is_passed_over_in_bounded_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = max(map(len, lines_of(TWO)))
    monkeypatch.setattr(lines, "MOST_BYTES", most)
    monkeypatch.setattr(reading, "MOST_BYTES", most)
    path.write_bytes(b"".join([b"x" * (500 * most), b"\n", *lines_of(TWO), b"y" * (most + 1)]))
    tracemalloc.start()
    found = read_journal(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.calls == (TWO,)
    assert told(found) == [
        f"line 1: longer than {most:,} bytes",
        f"line 4: longer than {most:,} bytes",
    ]
    assert peak < 100 * most


def test_of_a_file_that_is_no_journal_not_every_line_is_told(path: Path) -> None:
    found = read(path, b"nonsense\n" * 3000, *lines_of(TWO), b"nonsense\n" * 7)
    assert found.calls == (TWO,)
    assert [problem.line for problem in found.problems[:1000]] == list(range(1, 1001))
    assert found.problems[1000:] == (
        JournalProblem(line=3009, why="the last of 2007 more problems, which are not told"),
    )


@given(
    st.lists(
        st.sampled_from([*lines_of(ONE), *lines_of(TWO)])
        | st.binary(max_size=20)
        | st.sampled_from([b"\n", b"{", b'{"v": 1, "type": "call"}\n']),
        max_size=12,
    )
)
def test_whatever_a_file_holds_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, parts: Sequence[bytes]
) -> None:
    found = read(tmp_path_factory.mktemp("journal") / "mixed", *parts)
    assert {call.call for call in found.calls} <= {1, 2}
    assert list(found.problems) == sorted(found.problems)
    assert not {(each.run, each.call) for each in found.unfinished} & {
        (call.run, call.call) for call in found.calls
    }
