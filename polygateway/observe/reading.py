"""Reading a journal back into the records that it was written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

from .lines import MOST_BYTES, AttemptLine, read_line
from .records import RecordedAttempt, RecordedCall
from .strict import Misfit

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import BinaryIO

MOST_PROBLEMS = 1000
"""Problems that are told one by one. A file may be something else altogether."""

_Key: TypeAlias = tuple[str, int]
"""Run and number of a call."""


@attrs.frozen(kw_only=True, order=True)
class JournalProblem:
    """Something in a journal that could not be read, or does not fit the rest."""

    line: int
    """Number of the line, from 1."""

    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.why}"


@attrs.frozen(kw_only=True)
class UnfinishedCall:
    """A call of whose end a journal does not tell: it was running, or its process died."""

    run: str
    call: int
    model: str
    attempts: Sequence[RecordedAttempt]
    """Those of its attempts that had ended, by index; at least one."""


@attrs.frozen(kw_only=True)
class JournalReading:
    """What a journal holds."""

    calls: Sequence[RecordedCall]
    """In order of their end. An attempt whose line could not be read is in ``stats.attempts`` only.
    """

    unfinished: Sequence[UnfinishedCall]
    problems: Sequence[JournalProblem]
    """By line."""


def read_journal(path: str | os.PathLike[str]) -> JournalReading:
    """Read a journal, also one that is being written.

    Lines that cannot be read are told as problems, and the rest is read.

    Args:
        path: a file that a :class:`Journal` has written, or lines of several such files.

    Raises:
        OSError: the file cannot be read.
    """
    found = _Found()
    with Path(path).open("rb") as file:
        for number, line in _lines(file):
            try:
                found.add(number, read_line(line))
            except Misfit as misfit:
                found.refuse(number, str(misfit))
    return found.reading()


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Number the lines that hold something. Of one that is too long, only the start is given."""
    read = partial(file.readline, MOST_BYTES + 1)
    for number, line in enumerate(iter(read, b""), 1):
        if not line.isspace():
            yield number, line
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = read()


class _Found:
    """What has been read up to now, each with the number of its line."""

    def __init__(self) -> None:
        self.calls: dict[_Key, tuple[int, RecordedCall]] = {}
        self.attempts: dict[_Key, dict[int, tuple[int, AttemptLine]]] = {}
        self.problems: list[JournalProblem] = []
        self.left_out: int = 0
        self.last: int = 0

    def add(self, number: int, line: AttemptLine | RecordedCall) -> None:
        """Take what a line tells, unless an earlier one told it."""
        key = (line.run, line.call)
        if isinstance(line, RecordedCall):
            first, _ = self.calls.setdefault(key, (number, line))
        else:
            attempts = self.attempts.setdefault(key, {})
            first, _ = attempts.setdefault(line.stats.index, (number, line))
        if first != number:
            self.refuse(number, f"tells again what line {first} tells")

    def refuse(self, number: int, why: str) -> None:
        """Note a problem, or that there are too many."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(JournalProblem(line=number, why=why))
        else:
            self.left_out += 1
            self.last = max(self.last, number)

    def reading(self) -> JournalReading:
        """Put together what belongs together."""
        calls = tuple([self._whole(number, call) for number, call in self.calls.values()])
        unfinished = tuple(map(_unfinished, self.attempts.values()))
        return JournalReading(calls=calls, unfinished=unfinished, problems=self._all_problems())

    def _whole(self, number: int, call: RecordedCall) -> RecordedCall:
        """Give a call its attempts. Their final records are in it: the waste is in those only."""
        lines = self.attempts.pop((call.run, call.call), {})
        attempts: list[RecordedAttempt] = []
        for stats in call.stats.attempts:
            if found := lines.pop(stats.index, None):
                attempts.append(RecordedAttempt(stats=stats, trace=found[1].trace))
            else:
                self.refuse(number, f"attempt {stats.index} of this call has no line")
        for stray, _ in lines.values():
            self.refuse(stray, "tells of an attempt that its call does not have")
        return attrs.evolve(call, attempts=tuple(attempts))

    def _all_problems(self) -> Sequence[JournalProblem]:
        problems = sorted(self.problems)
        if self.left_out:
            why = f"the last of {self.left_out} more problems, which are not told"
            problems.append(JournalProblem(line=self.last, why=why))
        return tuple(problems)


def _unfinished(attempts: Mapping[int, tuple[int, AttemptLine]]) -> UnfinishedCall:
    lines = [attempts[index][1] for index in sorted(attempts)]
    return UnfinishedCall(
        run=lines[0].run,
        call=lines[0].call,
        model=lines[0].model,
        attempts=tuple([RecordedAttempt(stats=line.stats, trace=line.trace) for line in lines]),
    )
