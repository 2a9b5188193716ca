"""What all decoders have in common: one body, cut into events, collected into one answer.

A dialect's decoder says what one JSON object of its wire means. How bodies are read, what an error
is, and when an answer is whole (see :mod:`polygateway.wire.completeness`) is the same for all.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

import attrs

from ..errors import ProtocolViolation
from .answer import Answer
from .body import Body
from .completeness import Verdict, verdict_on
from .dialect import Fault, Phase
from .faults import error_in, reported
from .halves import Halves
from .jsontext import from_json
from .malformed import Malformed, excerpt
from .opaque import label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..errors import AttemptError
    from ..messages import JSON, Chunk, FinishReason
    from ..policies import Limits
    from ..trace import ReplyForm
    from .answer import CallPiece, TextKind
    from .sse import Event


class EventDecoder(abc.ABC):
    """Decodes one reply; see :class:`polygateway.wire.dialect.Decoder`."""

    dialect: ClassVar[str]
    """Its name: what :data:`~polygateway.wire.completeness.COMPLETENESS` has its table by."""

    streams_json: ClassVar[bool] = False
    """Whether the wire streams bare JSON."""

    end_marks: ClassVar[frozenset[str]] = frozenset()
    """Data that is no JSON object but the wire's own end."""

    finish_reasons: ClassVar[Mapping[str, FinishReason]]
    """What the words for an end mean; every other word is ``other``."""

    finish_errors: ClassVar[Mapping[str, type[AttemptError]]]
    """Words in the same place that are no end but an error."""

    def __init__(self, *, attempt: int, content_type: str, limits: Limits) -> None:
        self.answer: Answer = Answer(
            attempt=attempt, max_bytes=limits.max_answer_bytes, opaque=self._opaque
        )
        self.phase: Phase = Phase.OPEN
        self.fault: Fault | None = None
        self.content_events: int = 0
        self._empty_events = 0
        self._halves = Halves()
        self._body = Body(content_type, limits, streams_json=self.streams_json)
        self._has_content = False  # the event that is being taken
        self._has_ended = False

    # ---- for whoever feeds it -------------------------------------------------------------------

    @property
    def keepalives(self) -> int:
        """Events and comments without content seen up to now."""
        return self._body.keepalives + self._empty_events

    @property
    def stray(self) -> str:
        """The beginning of the last line that belongs to no event; empty if there was none."""
        return self._body.stray

    @property
    def form(self) -> ReplyForm:
        """What sort of reply this is, as far as it can be told up to now."""
        return "document" if self._body.is_document else "stream"

    def feed(self, data: bytes) -> list[Chunk]:
        """Take the bytes of one read and give the content chunks that they completed."""
        chunks: list[Chunk] = []
        if not self.phase.is_final:
            self._read(data, chunks)
        return chunks

    def close(self) -> list[Chunk]:
        """Say that the transport has ended, and give what its tail completed."""
        chunks: list[Chunk] = []
        if not self.phase.is_final:
            self._read_tail(chunks)
        return chunks

    def _read(self, data: bytes, chunks: list[Chunk]) -> None:
        try:
            for event in self._body.feed(data):
                if text := self.plain_text(event):
                    self.content_events += 1
                    self.add_text("text", text, chunks)
                    continue
                self._take(event, chunks)
                if self.phase.is_final:
                    return
        except Malformed as damage:
            self._violated(str(damage))

    def _read_tail(self, chunks: list[Chunk]) -> None:
        try:
            tail = self._body.close()
            if tail is not None and (self._body.is_document or self._is_whole(tail.data)):
                self._take(tail, chunks)
            self._has_ended = self._has_ended or self._body.is_document
            self._conclude(tail)
        except Malformed as damage:
            self._violated(str(damage))

    # ---- how far it has come --------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether a finish reason came that no content followed."""
        return self.answer.raw_finish_reason is not None

    def _verdict(self) -> Verdict:
        return verdict_on(
            self.dialect,
            content=self.content_events > 0,
            finish=self.is_finished,
            end=self._has_ended,
        )

    def _conclude(self, tail: Event | None) -> None:
        """Judge what there is at the transport's end."""
        if self.phase.is_final:
            return
        verdict = self._verdict()
        if verdict is Verdict.NOTHING:
            last = f": {excerpt(tail.data)!r}" if tail else ""
            count = self.keepalives
            self._violated(f"the reply ended without content, after {count} keep-alives{last}")
        elif verdict is Verdict.COMPLETE:
            self.phase = Phase.ENDED

    def _advance(self, event: Event) -> None:
        """Judge what there is while more may come."""
        if not (self._has_ended or self.is_finished):
            self.phase = Phase.OPEN
            return
        if self._verdict() is Verdict.NOTHING:
            self._violated(f"{excerpt(event.data)} came before any content or finish reason")
        else:
            self.phase = Phase.ENDED if self._has_ended else Phase.FINISHING

    def _fail(self, fault: Fault) -> None:
        self.phase = Phase.FAILED
        self.fault = fault

    def _violated(self, message: str) -> None:
        self._fail(Fault(error=ProtocolViolation, message=message))

    # ---- events ---------------------------------------------------------------------------------

    def _take(self, event: Event, chunks: list[Chunk]) -> None:
        data = event.data.strip()
        if data in self.end_marks:
            self._has_ended = True
        elif event.name == "error":
            self.report(_named_error(data), data)
        elif (value := _object_in(event.name, data)) is None:
            self._empty_events += 1
        else:
            self._count_object(value, data, chunks)
        if not self.phase.is_final:
            self._advance(event)

    def _count_object(self, value: Mapping[str, JSON], raw: str, chunks: list[Chunk]) -> None:
        self._has_content = False
        try:
            self.take_object(value, chunks)
        finally:  # what fits into the answer counts, whatever comes of the rest
            self.content_events += self._has_content
            self._empty_events += not self._has_content
        if error := error_in(value):
            self.report(error, raw)

    def _is_whole(self, data: str) -> bool:
        """Tell whether an event whose end did not come was not cut inside its data."""
        try:
            return data.strip() in self.end_marks or isinstance(from_json(data), dict)
        except Malformed:
            return False

    # ---- for the dialects -----------------------------------------------------------------------

    @abc.abstractmethod
    def take_object(self, value: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take one JSON object of the wire, and append the content in it to *chunks*.

        An error in it is found afterwards, and reported, by whoever calls this.

        Raises:
            Malformed: it cannot be what the wire allows, or the answer would exceed its limit.
        """

    @abc.abstractmethod
    def opaque_parts(self) -> Mapping[str, JSON] | None:
        """Give what only the provider understands of a whole answer; ``None`` if nothing."""

    def plain_text(self, event: Event) -> str:
        """Give the text of an event that brings nothing else; empty if it may bring more.

        A way past :meth:`take_object` for what nearly all events are. To be overridden by wires
        that can tell at less cost. Taking the text must come to the same as taking the event.
        """
        return ""

    def add_text(self, kind: TextKind, piece: str, chunks: list[Chunk]) -> None:
        """Add a piece of text to the answer, unless it is empty.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        if not piece:
            return
        self._note_content()
        if whole := self._halves.take(kind, piece):
            chunks.append(self.answer.add_text(kind, whole))

    def add_call(self, piece: CallPiece, chunks: list[Chunk]) -> None:
        """Add a piece of a tool call to the answer.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        if piece.is_content:
            self._note_content()
        if piece.arguments:
            arguments = self._halves.take(("arguments", piece.key), piece.arguments)
            piece = attrs.evolve(piece, arguments=arguments)
        if chunk := self.answer.add_call(piece):
            chunks.append(chunk)

    def pass_over(self, *pieces: str, begins: bool) -> None:
        """Take content of another choice than the first, which is counted and not kept.

        Args:
            pieces: its texts, empty ones among them.
            begins: whether they are the first of their choice.

        Raises:
            Malformed: the answer would exceed its limit.
        """
        self._has_content = self._has_content or any(pieces)
        self.answer.weigh(*pieces, begins=begins)

    def finish(self, reason: str, said: str = "") -> None:
        """Take a finish reason, unless it is empty.

        Args:
            reason: the provider's word.
            said: what else the provider said about it.
        """
        if reason:
            self.answer.finish(reason, self.finish_reasons.get(reason, "other"))
            self.check_finish(reason, said)

    def check_finish(self, reason: str, said: str = "") -> None:
        """Fail if a finish reason means an error; see :meth:`finish`."""
        if error := self.finish_errors.get(reason):
            more = f": {excerpt(said)}" if said else ""
            message = f"the provider ended the answer with the reason {reason!r}{more}"
            self._fail(Fault(error=error, message=message, code=reason))

    def end(self) -> None:
        """Take the wire's own end."""
        self._has_ended = True

    def report(self, error: JSON, raw: str = "") -> None:
        """Take an error that the provider reports in its stream.

        Args:
            error: an object or a text.
            raw: quoted where the error itself has no text.
        """
        self._fail(reported(error, raw))

    def _note_content(self) -> None:
        self._has_content = True
        self.answer.reopen()

    def _opaque(self) -> Mapping[str, JSON] | None:
        parts = self.opaque_parts()
        return None if parts is None else label(self.dialect, parts)


def _object_in(name: str, data: str) -> Mapping[str, JSON] | None:
    """Give the object that an event's data is; ``None`` for a keep-alive.

    Raises:
        Malformed: it is something else.
    """
    if data[:1] in {"", ":"} or data == "[DONE]":  # of a wire that knows no such mark
        return None
    has_own_name = name not in {"", "message"}
    try:
        value = from_json(data)
    except Malformed:
        # What begins as an object should have been one: to pass over it would lose text in silence.
        if has_own_name and data[0] != "{":
            return None
        raise
    if isinstance(value, dict):
        return value
    if value is None or has_own_name:
        return None
    raise Malformed(f"JSON, but no object: {excerpt(data)!r}")


def _named_error(data: str) -> JSON:
    """Give the error that an event named so holds, of whatever shape."""
    try:
        value = from_json(data)
    except Malformed:
        return data
    return error_in(value) or value if isinstance(value, dict) else data
