"""A journal: what was measured, line by line into a file, so that every figure can be checked."""

from __future__ import annotations

import errno
import os
import secrets
from datetime import UTC, datetime
from io import FileIO
from typing import TYPE_CHECKING

from ..instrument import Instrument
from .lines import AttemptLine, attempt_line, call_line
from .records import RecordedCall

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from ..instrument import AttemptEnded, CallEnded, CallStarted


class Journal(Instrument):
    """Writes a line of JSON for each attempt, with its timeline, and one for each call.

    ::

        with Journal("calls.jsonl") as journal:
            async with open_gateway(config, instruments=[journal]) as gw:
                ...

    Leave it after the gateway: a line that cannot be written, because the journal is closed or the
    disk full, raises an ``OSError``, and the gateway then goes on without this journal.

    A line is written by one system call when its attempt or call has ended, in the task that ran
    it. So a process that dies loses what was running, and cuts off at most the line that it was
    writing. Several processes may write into one file on a local disk.

    A journal holds no key and no prompt, and of an answer what ``text`` says. But it holds the
    texts of errors, in which providers may quote what they were sent. A file that is made here can
    be read by its owner only.
    """

    wants_traces = True

    def __init__(self, path: str | os.PathLike[str], *, text: bool = False) -> None:
        """Open a file, to write what :func:`read_journal` reads.

        Args:
            path: what is appended to; made if it is not there.
            text: whether the answers' characters are written, too. Without, only how many came.

        Raises:
            OSError: it cannot be opened.
        """
        self.run: str = secrets.token_hex(8)
        """Tells what this object writes from what others write into the same file."""

        self._text = text
        self._file = FileIO(path, "a+", opener=_open_private)
        self._is_torn = _ends_torn(self._file)
        self._started: dict[int, tuple[CallStarted, str]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Doing so again does nothing."""
        self._file.close()

    def call_started(self, event: CallStarted) -> None:
        """See :meth:`Instrument.call_started`."""
        self._started[event.call] = (event, datetime.now(UTC).isoformat(timespec="milliseconds"))

    def attempt_ended(self, event: AttemptEnded) -> None:
        """See :meth:`Instrument.attempt_ended`."""
        if event.trace is None:
            raise TypeError("AttemptEnded.trace is None: was this passed on by another instrument?")
        started, _ = self._started[event.call]
        line = AttemptLine(
            run=self.run,
            call=event.call,
            model=started.model,
            stats=event.stats,
            trace=event.trace,
        )
        self._write(attempt_line(line, text=self._text))

    def call_ended(self, event: CallEnded) -> None:
        """See :meth:`Instrument.call_ended`."""
        started, started_at = self._started.pop(event.call)
        error = event.error
        call = RecordedCall(
            run=self.run,
            call=event.call,
            started_at=started_at,
            started_ns=started.at_ns,
            ended_ns=event.at_ns,
            model=event.model,
            stream=event.stream,
            targets=started.targets,
            outcome=event.outcome,
            error_kind=None if error is None else error.kind,
            error=None if error is None else f"{type(error).__name__}: {error}",
            stats=event.stats,
            attempts=(),
            usage=event.usage,
            finish_reason=event.finish_reason,
            provider_model=event.provider_model,
            response_id=event.response_id,
        )
        self._write(call_line(call))

    def _write(self, line: bytes) -> None:
        """Append a line, after the end of one that was cut off."""
        if self._file.closed:
            raise OSError(errno.EBADF, "the journal was closed before the gateway", self._file.name)
        rest = memoryview(b"\n" + line if self._is_torn else line)
        self._is_torn = True
        # One call takes a whole line. On a full disk it takes a part, and the next one says why.
        while rest:
            rest = rest[os.write(self._file.fileno(), rest) :]
        self._is_torn = False


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _ends_torn(file: FileIO) -> bool:
    try:
        file.seek(-1, os.SEEK_END)
    except OSError:  # it is empty, or no file on a disk
        return False
    return file.read(1) != b"\n"
