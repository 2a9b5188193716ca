"""The shapes that pictures are made of, each in one place for lanes and legends alike."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from .look import pattern
from .markup import Node, node, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ...stats import ContentKind, Outcome, SeamKind, StallCause

Block = tuple[float, float]
"""From where to where."""

_WAIT = 8
_TAIL = 4

TICK = 1.6
"""Width of a tick."""

_APART = 1.0
"""Ticks that are nearer to each other are one block: nobody could tell them apart."""

# The parts of a lane's height that a tick takes.
_PARTS: Mapping[ContentKind, Sequence[tuple[float, float]]] = {
    "text": [(0, 1)],
    "reasoning": [(0.5, 1)],
    "tool_call": [(0, 0.5)],
    "refusal": [(0, 0.3), (0.7, 1)],
}


def blocks(places: Iterable[float]) -> Iterator[Block]:
    """Give the blocks that ticks at *places*, in order, run together into."""
    begin = end = -TICK
    for place in places:
        if begin >= 0 and place - TICK / 2 - end >= _APART:
            yield begin, end
            begin = -TICK
        if begin < 0:
            begin = place - TICK / 2
        end = place + TICK / 2
    if begin >= 0:
        yield begin, end


def content(
    kind: ContentKind, drawn: Iterable[Block], top: float, height: float, *inside: Node
) -> Node:
    """Draw ticks of a kind of content, in *height* from *top* on."""
    path = "".join(
        _box(begin, end, top + upper * height, top + lower * height)
        for begin, end in drawn
        for upper, lower in _PARTS[kind]
    )
    return node("path", *inside, class_=f"content f-{kind}", d=path)


def wait(begin: float, end: float, middle: float, *inside: Node) -> Node:
    """Draw the wait for the first content."""
    return _bar("wait", (begin, end), middle, _WAIT, *inside)


def tail(begin: float, end: float, middle: float, *inside: Node) -> Node:
    """Draw the wait for the end."""
    return _bar("tail", (begin, end), middle, _TAIL, *inside)


def stall(
    cause: StallCause, box: tuple[float, float, float, float], *inside: Node, is_open: bool
) -> Node:
    """Draw a stall, in the *box* of left, right, top and bottom. An open one has a broken edge."""
    left, right, top, bottom = box
    return node(
        "rect",
        *inside,
        class_=f"stall s-{cause}",
        stroke_dasharray="4 3" if is_open else "none",
        x=left,
        y=top,
        width=right - left,
        height=bottom - top,
        fill=pattern(cause),
    )


def skyline(heights: Iterable[float], left: float, bottom: float, *inside: Node) -> Node:
    """Draw columns of time in which nobody asked, 1 wide, side by side from *left* on."""
    path, begin = "", left
    for height, run in groupby(heights):
        end = begin + sum(1 for _ in run)
        path += _box(begin, end, bottom - height, bottom) if height else ""
        begin = end
    return node("path", *inside, class_="held f-held", d=path)


def launch(x: float, y: float, *inside: Node) -> Node:
    """Draw the start of an attempt."""
    path = f"M{number(x)} {number(y - 6)}l9 6l-9 6z"
    return node("path", *inside, class_="launch f-ink s-paper", d=path)


def closed(x: float, top: float, height: float, *inside: Node) -> Node:
    """Draw the closing of a connection."""
    path = f"M{number(x)} {number(top)}v{number(height)}"
    return node("path", *inside, class_="closed s-ink", d=path, stroke_width=2)


def seam(kind: SeamKind, x: float, top: float, bottom: float, *inside: Node) -> Node:
    """Draw how one attempt takes over from another: from the lane of that one down to its own."""
    face, dashes, head = SEAMS[kind]
    line = f"M{number(x)} {number(top)}V{number(bottom)}"
    point = f"M{number(x - 5)} {number(bottom - 8)}h10l-5 8z"
    return node(
        "g",
        *inside,
        node("path", class_=f"s-{face}", d=line, stroke_width=2, stroke_dasharray=dashes),
        node("path", class_=f"f-{head} s-{face}", d=point, stroke_width=1.5),
        class_=f"seam {kind}",
    )


SEAMS: Mapping[SeamKind, tuple[str, str, str]] = {
    "continue": ("good", "none", "good"),
    "restart": ("ink", "3 3", "paper"),
}
"""By kind, in the order of legends: a colour, the dashes of its line, and what fills its head."""


def end(outcome: Outcome, x: float, y: float, *inside: Node) -> Node:
    """Draw what became of an attempt."""
    shape, face, path = ENDS[outcome]
    return node(
        "g",
        *inside,
        node("path", class_=f"{face} s-paper", d=shape),
        node("path", class_="s-paper", d=path, fill="none", stroke_width=2),
        class_=f"end {outcome}",
        transform=f"translate({number(x)} {number(y)})",
    )


ENDS: Mapping[Outcome, tuple[str, str, str]] = {
    "won": ("M-8 0a8 8 0 1 0 16 0a8 8 0 1 0-16 0z", "f-good", "M-4 0l3 3l5-6"),
    "lost": ("M-7-7h14v14h-14z", "f-muted", "M-3.5-3.5l7 7M3.5-3.5l-7 7"),
    "failed": ("M0-9.5l9.5 9.5l-9.5 9.5l-9.5-9.5z", "f-bad", "M0-5v6M0 3v2"),
    "cancelled": ("M-7-7h14v14h-14z", "f-ink", "M-4 0h8"),
}
"""By outcome, in the order of legends: a shape, its colour, and what is cut out of it."""


def _bar(name: str, block: Block, middle: float, height: float, *inside: Node) -> Node:
    begin, end = block
    return node(
        "rect",
        *inside,
        class_=f"{name} f-paper s-muted",
        x=begin,
        y=middle - height / 2,
        width=end - begin,
        height=height,
    )


def _box(left: float, right: float, top: float, bottom: float) -> str:
    across = number(right - left)
    return f"M{number(left)} {number(top)}h{across}v{number(bottom - top)}h-{across}z"
