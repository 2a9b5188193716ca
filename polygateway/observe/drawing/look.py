"""Colours, patterns and type of pictures, in light and dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .markup import Node, node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...stats import ContentKind, SeamKind, StallCause

# Hues of Okabe and Ito (Color Universal Design, 2008), made darker or lighter until they reach the
# contrast that WCAG 2.2 asks of text (4.5) and of what must be told from its background (3). What
# has a colour also has a shape, a place or a pattern of its own: no eye needs to tell hues apart.
COLOURS: Mapping[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#15181d"),
    "ink": ("#1b1f24", "#e9ecf0"),
    "muted": ("#59636e", "#a3adb8"),
    "grid": ("#e4e8ec", "#2b3139"),
    "text": ("#0072b2", "#56b4e9"),
    "reasoning": ("#008a65", "#35c49a"),
    "tool_call": ("#b0568a", "#e296c0"),
    "refusal": ("#1b1f24", "#e9ecf0"),
    "server_silence": ("#c94f00", "#ff8b45"),
    "server_alive": ("#a06a00", "#f0c04a"),
    "disconnect": ("#1b1f24", "#e9ecf0"),
    "held": ("#59636e", "#a3adb8"),
    "good": ("#007a59", "#35c49a"),
    "bad": ("#c02b2b", "#ff7b72"),
}
"""By what they stand for: in light and in dark surroundings."""

CONTENT: Mapping[ContentKind, str] = {
    "text": "text",
    "reasoning": "reasoning",
    "tool_call": "tool call",
    "refusal": "refusal",
}
"""Kinds of content with their names, in the order of legends."""

CAUSES: Mapping[StallCause, str] = {
    "server_silence": "stall: nothing came",
    "server_alive": "stall: only keep-alives",
    "disconnect": "silence, then cut off",
}
"""Causes of stalls with their names, in the order of legends."""

SEAMS: Mapping[SeamKind, str] = {
    "continue": "seam: went on",
    "restart": "seam: began anew",
}
"""Kinds of seams with their names, in the order of legends."""

SCOPE = "polygateway"
"""Class of the element inside which the style holds."""

_TYPE = (
    f".{SCOPE}{{font-family:system-ui,sans-serif;font-size:12px;"
    "font-variant-numeric:tabular-nums}"
    f".{SCOPE} .strong{{font-weight:600}}.{SCOPE} .title{{font-size:19px;font-weight:600}}"
    f".{SCOPE} .small{{font-size:11px}}"
)


def style() -> Node:
    """Give the style sheet. An element of class ``f-NAME`` is filled, one of ``s-NAME`` drawn."""
    light = "".join(_rules(name, pair[0]) for name, pair in COLOURS.items())
    dark = "".join(_rules(name, pair[1]) for name, pair in COLOURS.items())
    return node("style", f"{_TYPE}{light}@media (prefers-color-scheme:dark){{{dark}}}")


def patterns() -> Node:
    """Give the patterns; see :func:`pattern`."""
    return node("defs", *(_pattern(name, drawn) for name, drawn in _DRAWN.items()))


def pattern(cause: StallCause) -> str:
    """Give the value of ``fill`` that stands for a cause of stalls."""
    return f"url(#{SCOPE}-{cause})"


def _rules(name: str, colour: str) -> str:
    return f".{SCOPE} .f-{name}{{fill:{colour}}}.{SCOPE} .s-{name}{{stroke:{colour}}}"


def _pattern(name: str, drawn: Iterable[Node]) -> Node:
    paper = node("rect", class_="f-paper", width=8, height=8)
    tint = node("rect", class_=f"f-{name}", width=8, height=8, fill_opacity=0.16)
    tile = {"patternUnits": "userSpaceOnUse", "id": f"{SCOPE}-{name}"}
    return node("pattern", paper, tint, *drawn, width=8, height=8, **tile)


def _stroke(name: str, path: str) -> Node:
    return node("path", class_=f"s-{name}", d=path, stroke_width=1.5, fill="none")


# Lines go on beyond the edge of a tile, so that its corners have no gaps.
_RISING = "M-2 2l4-4M0 8l8-8M6 10l4-4"
_FALLING = "M-2 6l4 4M0 0l8 8M6-2l4 4"

_DRAWN: Mapping[StallCause, Iterable[Node]] = {
    "server_silence": [_stroke("server_silence", _RISING)],
    "server_alive": [node("circle", class_="f-server_alive", cx=at, cy=at, r=1.4) for at in (2, 6)],
    "disconnect": [_stroke("disconnect", _RISING + _FALLING)],
}
