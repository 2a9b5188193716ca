"""The page of many calls, read back as a browser reads it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

import attrs
import pytest

from polygateway.observe.drawing import words
from polygateway.observe.page import MOST_CALLS, draw_page
from tests.observe.gallery import GALLERY
from tests.observe.staged import Content, attempt, call, flow, seam

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polygateway.observe.records import RecordedCall

_VOID = {"meta"}


class Page(HTMLParser):
    """What a page holds."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data

    def attributes(self, name: str) -> list[str]:
        """Give an attribute wherever it is."""
        return [attrs[name] or "" for _, attrs in self.tags if name in attrs]

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.tags)


def page_of(calls: Sequence[RecordedCall]) -> Page:
    return Page(draw_page(calls))


@pytest.fixture(scope="module")
def gallery() -> Page:
    return page_of([make() for make in GALLERY.values()])


def test_every_call_has_a_row_of_figures_and_a_picture(gallery: Page) -> None:
    head, *rows = gallery.rows
    assert head[-10:] == list(words.COLUMNS)
    assert len(rows) == gallery.count("section") == len(GALLERY)
    figures = [list(words.figures(make().stats).values()) for make in GALLERY.values()]
    assert [row[-10:] for row in rows] == figures


def test_a_row_names_the_call_and_what_became_of_it(gallery: Page) -> None:
    row = gallery.rows[1 + list(GALLERY).index("failed")]
    assert row[:5] == [
        *("17 of 5f3a9c", "2026-03-04T05:06:07.890Z", "fast", "failed (transient)", "eu, us"),
    ]


def test_every_row_leads_to_its_picture(gallery: Page) -> None:
    ids = gallery.attributes("id")
    assert len(ids) == len(set(ids))
    links = gallery.attributes("href")
    sections = [attrs["id"] for tag, attrs in gallery.tags if tag == "section"]
    assert links == [f"#{anchor}" for anchor in sections]


def test_it_runs_nothing_and_loads_nothing(gallery: Page) -> None:
    assert {tag for tag, _ in gallery.tags}.isdisjoint(
        {"script", "link", "img", "iframe", "object"}
    )
    assert gallery.attributes("src") == []
    assert "default-src 'none'; style-src 'unsafe-inline'" in gallery.attributes("content")
    assert not [name for _, attrs in gallery.tags for name in attrs if name.startswith("on")]


def test_it_says_that_it_is_utf_8_and_follows_the_scheme_of_its_reader(gallery: Page) -> None:
    html = draw_page([])
    assert html.startswith("<!DOCTYPE html>\n")
    assert gallery.attributes("charset") == ["utf-8"]
    assert "light dark" in gallery.attributes("content")
    assert html.count("prefers-color-scheme:dark") == 2


def test_styles_and_patterns_are_there_once_however_many_pictures_use_them(gallery: Page) -> None:
    assert gallery.count("pattern") == 3
    assert gallery.count("style") == 2


def test_of_too_many_calls_the_last_are_shown() -> None:
    many = [attrs.evolve(GALLERY["quick"](), call=number) for number in range(1, MOST_CALLS + 6)]
    page = page_of(many)
    assert f"The last {MOST_CALLS} of {MOST_CALLS + 5} calls." in page.text
    assert [row[0] for row in page.rows[1:]] == [
        f"{number} of 5f3a9c" for number in range(6, MOST_CALLS + 6)
    ]


@pytest.mark.parametrize(("count", "said"), [(0, "0 calls."), (1, "1 call.")])
def test_a_page_may_show_a_single_call_or_none(count: int, said: str) -> None:
    page = page_of([GALLERY["quick"]()] * count)
    assert said in page.text
    assert page.count("section") == count


def bar(recorded: RecordedCall) -> dict[str, tuple[float, float]]:
    """Give what stands where in the bar of a call, 150 wide."""
    html = draw_page([recorded])
    inside = html[html.index("<tbody>") : html.index("</table>")]
    found: dict[str, tuple[float, float]] = {}
    for tag, attributes in Page(inside).tags:
        names = (attributes.get("class") or "").split()
        if tag == "rect":
            left = float(attributes["x"] or "")
            found[names[0]] = (left, left + float(attributes["width"] or ""))
    return found


def test_a_calls_bar_is_divided_as_its_time_was() -> None:
    # 2 s of waiting, 1 + 1 s of text around 4 s of stall, 2 s of tail: 10 s on 150 pixels.
    content = [*flow(2, 3, 0.1), *flow(7, 8, 0.1)]
    drawn = bar(call(attempt(0, content, 10), total=10))
    assert drawn["wait"] == pytest.approx((0, 30))
    assert drawn["stall"] == pytest.approx((60, 120))
    assert drawn["tail"] == pytest.approx((120, 150))


def test_an_open_stall_is_in_the_bar_too() -> None:
    drawn = bar(call(attempt(0, [Content(1), Content(2)], 10, end_kind="cut"), total=10))
    assert drawn["stall"] == pytest.approx((30, 150))


def test_what_was_delivered_before_a_seam_leaves_a_gap_in_the_bar() -> None:
    # The first content at 1 s, the first of the last attempt at 6, its last at 8: of 10 s.
    broken = attempt(0, [Content(1), Content(2)], 5, outcome="failed", end_kind="cut")
    last = attempt(1, [Content(6), Content(7), Content(8)], 10, started=5, kind="retry")
    drawn = bar(call(broken, last, total=10, commit=1, seams=[seam("continue", 0, 1, 6)]))
    assert drawn["wait"] == pytest.approx((0, 15))
    assert drawn["tail"] == pytest.approx((120, 150))


def test_a_call_without_content_or_without_any_time_has_a_bar() -> None:
    assert bar(call(attempt(0, [], 4), total=4))["wait"] == pytest.approx((0, 150))
    assert bar(call(attempt(0, [], 0), total=0))["wait"] == pytest.approx((0, 0))


def test_hostile_text_can_only_be_read() -> None:
    text = "</td></table></style><script>alert(1)</script><!-- \x1b\u202e"
    recorded = attrs.evolve(GALLERY["quick"](), run=text, model=text, started_at=text, error=text)
    page = page_of([recorded])
    assert page.count("script") == 0
    assert page.rows[1][2].startswith("</td></table></style><script>alert(1)")
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
