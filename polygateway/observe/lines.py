"""The lines of a journal: records to JSON, and back."""

# The format (docs/reference/journal.md tells it to readers)
# ==========
#
# 1. A line is a JSON object in ASCII, and a line feed. ``v`` is the version of the format; ``type``
#    says what it tells of, an attempt or a call.
# 2. All else has the names and values of its record. The one exception is by far the most of a
#    journal: in ``trace.arrivals`` an arrival is a row, its time counts from the attempt's start,
#    and its pieces stand at the row's end. Its kinds and characters are those of the pieces.
# 3. Fields may be added within a version, so a reader passes over those that it does not know.
# 4. What is read is a record that keeps time, or nothing: arrivals come in order, between start and
#    end, and nobody waited longer than there was time. So no figure made of it is below zero.

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from ..stats import AttemptStats
from ..trace import Trace
from .records import RecordedCall
from .rows import rows_of, with_rows
from .strict import Misfit, is_count, record, refuse, table_at

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1

# 100,000 arrivals of one piece take a third of it. The objects that JSON is read into take up to
# thirty times its length, so this also bounds what a hostile file costs.
MOST_BYTES = 16 * 2**20
"""The longest line that is written or read."""


@attrs.frozen(kw_only=True)
class AttemptLine:
    """What the line of an attempt tells. The line of a call tells a :class:`RecordedCall`."""

    run: str
    call: int
    model: str
    stats: AttemptStats
    trace: Trace


# ---- out ----------------------------------------------------------------------------------------


def attempt_line(attempt: AttemptLine, *, text: bool) -> bytes:
    """Write an attempt, with the characters of its pieces only if *text*.

    If the line would be too long, the arrivals are left out and count as dropped.
    """
    line = _attempt_line(attempt, text=text)
    if len(line) > MOST_BYTES:
        trace = attempt.trace
        dropped = trace.dropped + len(trace.arrivals)
        trace = attrs.evolve(trace, arrivals=(), pieces=(), dropped=dropped)
        line = _attempt_line(attrs.evolve(attempt, trace=trace), text=text)
    return line


def _attempt_line(attempt: AttemptLine, *, text: bool) -> bytes:
    trace = _fields(attempt.trace, "arrivals", "pieces")
    line = _line("attempt", {**_fields(attempt, "trace"), "trace": trace})
    # The trace ends the line, and the rows end the trace.
    return f'{line[:-2]},"arrivals":{rows_of(attempt.trace, text=text)}}}}}\n'.encode()


def call_line(call: RecordedCall) -> bytes:
    """Write a call, without its attempts, which have lines of their own."""
    return f"{_line('call', _fields(call, 'attempts'))}\n".encode()


def _line(kind: str, fields: Mapping[str, object]) -> str:
    return _encoder.encode({"v": VERSION, "type": kind, **fields})


def _fields(value: attrs.AttrsInstance, *without: str) -> dict[str, object]:
    return attrs.asdict(value, recurse=False, filter=attrs.filters.exclude(*without))


# ASCII, because half a surrogate pair, which providers do send, is no UTF-8.
_encoder = json.JSONEncoder(
    separators=(",", ":"), check_circular=False, allow_nan=False, default=_fields
)


# ---- in -----------------------------------------------------------------------------------------


def read_line(line: bytes) -> AttemptLine | RecordedCall:
    """Read a line; a call is without its attempts.

    Raises:
        Misfit: it cannot be read. The text says why.
    """
    table = table_at("it", _from_json(line))
    version, kind = table.get("v"), table.get("type")
    if not is_count(version):
        raise Misfit("no line of a journal, for its v is no version")
    if version != VERSION:
        raise Misfit(f"of version {version}; this polygateway reads version {VERSION}")
    if kind == "attempt":
        return _attempt(table)
    if kind == "call":
        return record(RecordedCall, {**table, "attempts": ()})
    return refuse(".type", "'attempt' or 'call'", kind)


def _attempt(table: Mapping[object, object]) -> AttemptLine:
    trace = table_at(".trace", table.get("trace"))
    bare = record(AttemptLine, {**table, "trace": {**trace, "arrivals": (), "pieces": ()}})
    if bare.trace.attempt != bare.stats.index:
        raise Misfit(f".trace.attempt is {bare.trace.attempt}, .stats.index {bare.stats.index}")
    return attrs.evolve(bare, trace=with_rows(bare.trace, trace.get("arrivals")))


def _from_json(line: bytes) -> object:
    if len(line) > MOST_BYTES:
        raise Misfit(f"longer than {MOST_BYTES:,} bytes")
    try:
        return _decoder.decode(line.decode())
    except UnicodeDecodeError as error:
        raise Misfit(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Misfit(f"cut off, or no JSON: {error.msg} at character {error.pos}") from None
    except (ValueError, RecursionError) as error:  # also thousands of digits, or of brackets
        raise Misfit(f"not to be read as JSON: {error}") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("an object has one name twice")
    return table


_decoder = json.JSONDecoder(object_pairs_hook=_no_twins, parse_constant=_no_constant)
