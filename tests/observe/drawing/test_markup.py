"""Elements that no text can break."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given, strategies as st

from polygateway.observe.drawing.markup import node, number, plain, written


def test_attributes_get_the_names_that_python_cannot_spell() -> None:
    made = node("text", class_="strong", text_anchor="end", viewBox="0 0 1 1", x=2)
    assert made.attrib == {"class": "strong", "text-anchor": "end", "viewBox": "0 0 1 1", "x": "2"}


def test_text_and_elements_keep_their_order() -> None:
    made = node("p", "a", "b", node("b", "c"), "d", "e")
    assert written(made) == "<p>ab<b>c</b>de</p>"


def test_html_has_elements_without_an_end_and_xml_has_not() -> None:
    assert written(node("meta", charset="utf-8"), html=True) == '<meta charset="utf-8">'
    assert written(node("meta", charset="utf-8")) == '<meta charset="utf-8" />'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a name", "a name"),
        ("two\nlines\tand  more ", "two lines and more"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("null\x00", "null\\x00"),
        ("\u202egnp.exe", "\\u202egnp.exe"),  # turns the direction of what follows
        ("half \ud83d", "half \\ud83d"),  # no UTF-8 can say it
        ("no\ufffecharacter", "no\\ufffecharacter"),  # XML 1.0, section 2.2, forbids it
        ("Größe 大きさ 🌊", "Größe 大きさ 🌊"),
    ],
)
def test_text_becomes_one_line_that_shows_what_it_holds(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text())
def test_whatever_stands_in_it_an_element_can_be_read_back(text: str) -> None:
    made = node("g", node("title", text), text, id=text)
    read = fromstring(written(made))  # noqa: S314 - it was written here
    assert read.get("id") == plain(text)
    assert (read[0].text or "", read[0].tail or "") == (plain(text), plain(text))


class Tags(HTMLParser):
    """Gathers what a reader of HTML finds."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


@given(st.text() | st.text("<>&\"'=/ pb"))
def test_no_text_becomes_markup_in_html(text: str) -> None:
    body = written(node("p", text, title=text), html=True)
    tags = Tags()
    tags.feed(body)
    tags.close()
    assert tags.found == [("p", [("title", plain(text))])]
    body.encode("utf-8")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (10, "10"), (1.5, "1.5"), (2 / 3, "0.67"), (100.004, "100")]
)
def test_coordinates_are_short(value: float, text: str) -> None:
    assert number(value) == text
