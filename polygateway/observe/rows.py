"""The arrivals of an attempt as rows of a journal, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeGuard, get_args

import attrs

from ..stats import ContentKind
from ..trace import Arrival, Piece
from .strict import Misfit, is_count, list_at, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..trace import Trace

_PLACE = ".trace.arrivals"
_KINDS = get_args(ContentKind)
_quoted = json.JSONEncoder().encode


def rows_of(trace: Trace, *, text: bool) -> str:
    """Give an array with a row for each arrival, and its pieces' characters only if *text*.

    A row is the time since the attempt's start, the time waited, keep-alives, chunks, tokens, and
    the pieces. What else an :class:`Arrival` has follows from them.
    """
    # What a journal costs for each chunk of an answer is mostly this: an encoder, and the lists
    # that it would be given, take a third longer than writing whole numbers and known words.
    start, write = trace.started_ns, _texts if text else _lengths
    rows = [
        f"[{at - start},{waited},{keepalives},{count},{'null' if tokens is None else tokens},"
        f"[{write(pieces)}]]"
        for (at, waited, keepalives, count, _, _, tokens), pieces in zip(
            trace.arrivals, trace.pieces, strict=True
        )
    ]
    return f"[{','.join(rows)}]"


def _lengths(pieces: Sequence[Piece]) -> str:
    if len(pieces) == 1:  # as in most rows
        kind, length, _ = pieces[0]
        return f'["{kind}",{length}]'
    return ",".join([f'["{kind}",{length}]' for kind, length, _ in pieces])


def _texts(pieces: Sequence[Piece]) -> str:
    return ",".join([f'["{kind}",{length},{_quoted(text)}]' for kind, length, text in pieces])


def with_rows(trace: Trace, rows: object) -> Trace:
    """Give *trace* with the arrivals that *rows* tell.

    Raises:
        Misfit: a row is none, or time runs backwards.
    """
    arrivals: list[Arrival] = []
    pieces: list[Sequence[Piece]] = []
    last = trace.started_ns
    for index, row in enumerate(list_at(_PLACE, rows)):
        place = f"{_PLACE}[{index}]"
        arrival, brought = _arrival(row, trace.started_ns, place)
        if arrival.waited_ns > arrival.at_ns - last:
            raise Misfit(f"{place} waited longer than there was time since the one before")
        arrivals.append(arrival)
        pieces.append(brought)
        last = arrival.at_ns
    if trace.ended_ns < last:
        raise Misfit(".trace.ended_ns lies before the last arrival, or before the start")
    return attrs.evolve(trace, arrivals=tuple(arrivals), pieces=tuple(pieces))


def _arrival(row: object, start: int, place: str) -> tuple[Arrival, Sequence[Piece]]:
    # What is missing from a row is None, which is refused; what it has beyond is passed over.
    at, waited, keepalives, count, tokens, brought = [*list_at(place, row), *[None] * 6][:6]
    if not (
        is_count(at)
        and is_count(waited)
        and is_count(keepalives)
        and is_count(count)
        and count
        and (tokens is None or is_count(tokens))
    ):
        refuse(place, "four whole numbers, the last of them over 0, a fifth or null, pieces", row)
    pieces = tuple([_piece(piece, place) for piece in list_at(f"{place}[5]", brought)])
    characters = sum([length for _, length, _ in pieces])
    kinds: tuple[ContentKind, ...] = tuple(dict.fromkeys([kind for kind, _, _ in pieces]))
    return Arrival(start + at, waited, keepalives, count, characters, kinds, tokens), pieces


def _piece(piece: object, place: str) -> Piece:
    kind, length, text = [*list_at(f"{place}[5]", piece), *[None] * 3][:3]
    if not (_is_kind(kind) and is_count(length) and (text is None or isinstance(text, str))):
        refuse(f"{place}[5]", "pieces, each a kind, a length and perhaps a text", piece)
    return Piece(kind, length, text)


def _is_kind(value: object) -> TypeGuard[ContentKind]:
    return value in _KINDS
