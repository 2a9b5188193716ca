"""What came out of a call must be what one provider said to it, from its beginning."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import attrs

from polygateway.stats import SeamKind

from .laws import require
from .providing import Piece, voice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from polygateway import Chunk, Completion
    from polygateway.policies import Recovery

    from .providing import Asked
    from .sides import Sides

_ALLOWED: Mapping[Recovery, Collection[str | None]] = {
    "raise": (),
    "restart": ("restart",),
    "continue": ("continue",),
    "continue-or-restart": ("restart", "continue"),
}

_CONTENT = {"text", "reasoning", "refusal", "tool_call"}


@attrs.define
class Stretch:
    """What was delivered between two seams."""

    attempt: int
    seam: SeamKind | None
    """The seam before it; ``None`` if it is the first."""

    before: str
    """The text of the answer before it."""

    pieces: list[Piece] = attrs.field(factory=list["Piece"])

    @property
    def text(self) -> str:
        """Its own part of the answer's text."""
        return "".join(text for kind, text in self.pieces if kind == "text")


def check_voices(sides: Sides) -> None:
    """Check whatever the application was given of a call."""
    stretches = list(stretches_of(sides.seen.chunks))
    _check_seams(sides, stretches)
    for stretch in stretches:
        _check_stretch(sides, stretch, whole=sides.seen.whole and stretch is stretches[-1])
    if sides.seen.completion is not None:
        whole = sides.seen.whole or not sides.seen.call.streams
        _check_completion(sides, sides.seen.completion, stretches, whole=whole)
    error = sides.seen.error
    if error is not None and error.partial is not None:
        _check_completion(sides, error.partial, stretches, whole=False)


def _check_seams(sides: Sides, stretches: Sequence[Stretch]) -> None:
    """Check that seams are told, and are where the application allowed them."""
    told = [(each.seam, each.attempt) for each in stretches[1:]]
    known = [(each.kind, each.after) for each in sides.ended.stats.seams]
    require("the seams are on record", told == known[: len(told)], told, known)
    require("every seam is told", not sides.seen.whole or told == known, told, known)
    recovery = sides.policies.stream.recovery
    for before, after in pairwise(stretches):
        require("a seam is allowed", after.seam in _ALLOWED[recovery], after.seam, recovery)
        if after.seam == "continue":
            plain = {kind for kind, _ in before.pieces} <= {"text"}
            require("only plain text is gone on with", plain and not sides.seen.call.wants_json)


def stretches_of(chunks: Sequence[Chunk]) -> Iterator[Stretch]:
    """Divide what was delivered at its seams."""
    stretch: Stretch | None = None
    for chunk in chunks:
        if chunk.kind == "seam":
            require("a seam comes after something", stretch)
            assert stretch is not None
            yield stretch
            before = stretch.before + stretch.text if chunk.seam_kind == "continue" else ""
            stretch = Stretch(chunk.attempt, chunk.seam_kind, before)
        elif stretch is None:
            stretch = Stretch(chunk.attempt, None, "")
        require("one attempt speaks between two seams", chunk.attempt == stretch.attempt, chunk)
        if chunk.kind in _CONTENT:
            stretch.pieces.append((chunk.kind, chunk.delta))
    if stretch is not None:
        yield stretch


def _check_stretch(sides: Sides, stretch: Stretch, *, whole: bool) -> None:
    asked = sides.requests.get(stretch.attempt)
    require("what is delivered was asked for", asked, stretch.attempt)
    assert asked is not None
    if stretch.seam == "continue":
        said, heard = _by_kind(asked.spoken()), _by_kind(stretch.pieces)
        said["text"] = joined(stretch.before, asked)[len(stretch.before) :]
        for kind in said:
            _compare(said[kind], heard[kind], whole=whole)
    else:
        _compare(voice(asked.spoken()), voice(stretch.pieces), whole=whole)


def _compare(said: str, heard: str, *, whole: bool) -> None:
    require("what is delivered was said, in order", said.startswith(heard), said, heard)
    if whole:
        require("what is called whole is whole", said == heard, said, heard)


def joined(before: str, asked: Asked) -> str:
    """Give the text of an answer that went on after *before*."""
    require("what is gone on with was delivered", asked.prefix == before.rstrip(), asked.prefix)
    said = asked.text()
    said = said.removeprefix(asked.prefix)
    blank = before[len(asked.prefix) :]
    return before + (said.removeprefix(blank) if blank else said)


def _check_completion(
    sides: Sides, answer: Completion, stretches: Sequence[Stretch], *, whole: bool
) -> None:
    front = answer.stats.front
    asked = sides.requests.get(front)
    require("an answer was asked for", asked, front)
    assert asked is not None
    require("an answer names its target", answer.target == asked.target, answer.target)
    said, last = _by_kind(asked.spoken()), stretches[-1] if stretches else None
    if last is not None and last.attempt == front:
        delivered = last.before + last.text
        require("the answer has what was delivered", answer.text.startswith(delivered), answer)
        if last.seam == "continue":
            said["text"] = joined(last.before, asked)
    elif last is not None and asked.prefix:  # it has taken over, and nobody was told yet
        said["text"] = joined(last.before + last.text, asked)
    arguments = "".join(call.arguments for call in answer.tool_calls)
    got = {
        "text": answer.text,
        "reasoning": answer.reasoning,
        "refusal": answer.refusal,
        "tool_call": arguments,
    }
    for kind, text in got.items():
        require("an answer is what was said", said[kind].startswith(text), kind, said[kind], text)
        if whole:
            require("a whole answer is all of it", said[kind] == text, kind, said[kind], text)
    if whole:
        proper = {"whole", "no marker", "marker only", "length"}
        require("a whole answer has a proper end", asked.reply.ending in proper, asked.reply)


def _by_kind(pieces: Sequence[Piece]) -> dict[str, str]:
    return {
        kind: "".join(text for each, text in pieces if each == kind) for kind in sorted(_CONTENT)
    }
