"""Many calls on a page: self-contained HTML, without scripts or anything from elsewhere."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from .drawing import marks, words
from .drawing.look import COLOURS, SCOPE, patterns, style
from .drawing.markup import Node, node, written
from .picture import svg

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..stats import CallStats
    from .records import RecordedCall

MOST_CALLS = 200
"""Calls that are shown, the last ones; the page says so if there were more."""

# Even if something of a call were taken for markup, it could not load or run anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_WORD = 40
"""Columns of text in a cell."""

_BAR = 150
_BAR_HEIGHT = 12.0
_WORDS = ("call", "started", "model", "outcome", "attempts", "where the time went")


def draw_page(calls: Sequence[RecordedCall]) -> str:
    """Draw calls as the text of an HTML file: a table of their figures, and a picture of each.

    It follows the light or dark scheme of whoever looks at it. Its size is bounded: of many calls
    it shows the last :data:`MOST_CALLS`.
    """
    shown = calls[-MOST_CALLS:]
    page = node("html", _head(), _body(shown, len(calls)), lang="en")
    return f"<!DOCTYPE html>\n{written(page, html=True)}\n"


def _head() -> Node:
    return node(
        "head",
        node("meta", charset="utf-8"),
        node("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        node("meta", name="viewport", content="width=device-width"),
        node("meta", name="color-scheme", content="light dark"),
        node("title", "Calls"),
        style(),
        _style(),
    )


def _body(shown: Sequence[RecordedCall], count: int) -> Node:
    # Pictures take their patterns from here. An element that is not displayed could not give any.
    given = node("svg", patterns(), width=0, height=0, class_=SCOPE, aria_hidden="true")
    return node(
        "body",
        given,
        node("h1", "Calls"),
        node("p", _summary(len(shown), count)),
        node("div", _table(shown), class_="wide"),
        *(node("section", svg(call), id=_anchor(index)) for index, call in enumerate(shown, 1)),
        class_=SCOPE,
    )


def _summary(shown: int, count: int) -> str:
    calls = words.counted(count)
    return f"The last {shown} of {calls}." if shown < count else f"{calls}."


def _table(calls: Sequence[RecordedCall]) -> Node:
    headings = (
        *(node("th", name, scope="col", class_="word") for name in _WORDS),
        *(node("th", name, scope="col") for name in words.COLUMNS),
    )
    rows = (_row(call, _anchor(index)) for index, call in enumerate(calls, 1))
    return node("table", node("thead", node("tr", *headings)), node("tbody", *rows))


def _row(call: RecordedCall, anchor: str) -> Node:
    name = node("a", words.cut(f"{call.call} of {call.run}", _WORD), href=f"#{anchor}")
    targets = ", ".join(attempt.target for attempt in call.stats.attempts)
    says = (call.started_at, call.model, words.outcome(call), targets)
    return node(
        "tr",
        node("th", name, scope="row", class_="word"),
        *(node("td", words.cut(text, _WORD), class_="word") for text in says),
        node("td", _bar(call.stats)),
        *(node("td", cell) for cell in words.figures(call.stats).values()),
    )


def _bar(stats: CallStats) -> Node:
    """Draw how a call's time is divided."""
    parts = node("g", *_parts(stats), transform="translate(1 0)")
    # It is hidden from readers of the text: the figures beside it say the same.
    size = {"width": _BAR + 2.0, "height": _BAR_HEIGHT}
    return node("svg", parts, class_=SCOPE, aria_hidden="true", **size)


def _parts(stats: CallStats) -> Iterator[Node]:
    """Give the wait, what flowed, what stalled, and what was left, side by side.

    Where a stream was taken over, what was delivered before has no part in the figures and none
    here: there is a gap behind the wait.
    """
    still_open = [stall.duration_ms for stall in stats.stalls if stall.open]
    lengths = (
        stats.total_ms if stats.ttft_ms is None else stats.ttft_ms,
        stats.active_generation_ms or 0,
        sum(still_open, stats.stall_ms or 0),
    )
    per_ms = _BAR / (stats.total_ms or 1)
    first, flowed, stalled = (until * per_ms for until in accumulate(lengths))
    committed = first if stats.commit_ms is None else stats.commit_ms * per_ms
    yield marks.wait(0, min(first, committed), _BAR_HEIGHT / 2)
    yield marks.content("text", [(first, flowed)], 0, _BAR_HEIGHT)
    if stats.stalls:
        cause = max(stats.stalls, key=lambda stall: stall.duration_ms).cause
        yield marks.stall(cause, (flowed, stalled, 0.5, _BAR_HEIGHT - 0.5), is_open=False)
    yield marks.tail(stalled, max(stalled, _BAR), _BAR_HEIGHT / 2)


def _anchor(index: int) -> str:
    return f"call-{index}"


def _style() -> Node:
    dark = f"@media (prefers-color-scheme:dark){{{_colours(1)}}}"
    return node("style", f"{_LAYOUT}{_colours(0)}{dark}")


def _colours(scheme: int) -> str:
    names = ("paper", "ink", "muted", "grid", "text")
    paper, ink, muted, grid, link = (COLOURS[name][scheme] for name in names)
    return (
        f"body{{background:{paper};color:{ink}}}p,thead th{{color:{muted}}}"
        f"a{{color:{link}}}td,th,section{{border-color:{grid}}}"
    )


_LAYOUT = (
    "body{margin:24px;font-size:13px}.wide{overflow-x:auto}table{border-collapse:collapse}"
    "td,th{padding:4px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid}"
    "thead th{font-weight:400}.word{text-align:left}"
    "section{margin-top:24px;border-top:1px solid}section>svg{max-width:100%;height:auto}"
)
