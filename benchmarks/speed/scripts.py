"""What the provider does, which the model's name says. Standard library only."""

# MODEL  = ANSWER ("|" ANSWER)*
# ANSWER = STEP ("," STEP)*
# STEP   = "burst-" COUNT ["-" BYTES]     so many contents at once
#        | "paced-" COUNT "-" MS "ms"     so many contents, each after so many milliseconds
#        | "keepalives-" COUNT "-" MS "ms"     likewise, comments
#        | "stall-" MS "ms"               nothing for so long
#        | "silent"                       nothing any more
#
# Of several answers the first request of a call gets the first, the next one the next, and every
# later one the last. A paced content is the time at which it was written, a burst's are numbers.

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from .wires import CHARACTERS, COMMENT, WIRES, Wire, framed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NEVER = 1 << 62
"""Nanoseconds of a pause without an end."""

A_WRITE = 64
"""Events that are written at once, if they may be."""

_STAMP = b"\0" * CHARACTERS


class Step(NamedTuple):
    """What is written after a pause."""

    pause_ns: int
    data: bytes
    rest: bytes | None = None
    """What comes after a stamp, the time in nanoseconds, that follows ``data``; ``None`` without
    a stamp.
    """


END = Step(0, b"0\r\n\r\n")
"""The end of a body; the connection may be used again."""


@lru_cache(maxsize=64)
def answers(model: str, path: str) -> Sequence[Sequence[Step]]:
    """Give the steps of each answer that *model* names, on the wire of *path*.

    Raises:
        ValueError: nothing is known under that name.
    """
    if path not in WIRES:
        raise ValueError(f"the provider speaks no wire at {path}")
    wire = WIRES[path]
    return [tuple(_joined(_steps(answer, wire))) for answer in model.split("|")]


def chunks_in(model: str) -> int:
    """Tell how many contents the last answer has that *model* names."""
    words = (step.split("-") for step in model.rpartition("|")[2].split(","))
    return sum(int(word[1]) for word in words if word[0] in {"burst", "paced"})


def _steps(answer: str, wire: Wire) -> Iterator[Step]:
    for event in wire.begin():
        yield Step(0, framed(event))
    for step in answer.split(","):
        yield from _step(step, wire)
    for event in wire.end(chunks_in(answer)):
        yield Step(0, framed(event))
    yield END


def _step(step: str, wire: Wire) -> Iterator[Step]:
    match step.split("-"):
        case ["burst", count, *size]:
            yield from _burst(int(count), wire.around(*map(int, size)))
        case ["paced", count, pause]:
            data, rest = framed(_STAMP.join(wire.around())).split(_STAMP)
            yield from [Step(_ns(pause), data, rest)] * int(count)
        case ["keepalives", count, pause]:
            yield from [Step(_ns(pause), framed(COMMENT))] * int(count)
        case ["stall", pause]:
            yield Step(_ns(pause), b"")
        case ["silent"]:
            yield Step(NEVER, b"")
        case _:
            raise ValueError(f"the provider knows no step {step!r}")


def _burst(count: int, around: tuple[bytes, bytes]) -> Iterator[Step]:
    before, after = around
    for number in range(count):
        yield Step(0, framed(b"%s%0*d%s" % (before, CHARACTERS, number, after)))


def _ns(pause: str) -> int:
    return round(float(pause.removesuffix("ms")) * 1e6)


def _joined(steps: Iterator[Step]) -> Iterator[Step]:
    """Let what needs no pause be written together with what is before it."""
    last, events = next(steps), 1
    for step in steps:
        if step.pause_ns == 0 and events < A_WRITE:
            last, events = _with(last, step.data), events + 1
        else:
            yield last
            last, events = step, 1
    yield last


def _with(step: Step, data: bytes) -> Step:
    if step.rest is None:
        return step._replace(data=step.data + data)
    return step._replace(rest=step.rest + data)
