"""Reading pictures back: what is drawn, and where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from xml.etree.ElementTree import Element, fromstring

from polygateway.observe.drawing.words import columns

if TYPE_CHECKING:
    from collections.abc import Iterator

SVG = "{http://www.w3.org/2000/svg}"

_STEP = re.compile(r"([a-zA-Z])([^a-zA-Z]*)")
_NUMBER = re.compile(r"-?\d*\.?\d+")
# Fonts differ: this is what most of them take at least. By anchor, how much of a text is before it.
_LETTER = 5.5
_BEFORE = {"start": 0.0, "middle": 0.5, "end": 1.0}

_ARGUMENTS = {"M": 2, "m": 2, "l": 2, "L": 2, "h": 1, "H": 1, "v": 1, "V": 1, "a": 7, "z": 0}


class Box(NamedTuple):
    """A rectangle that something takes."""

    left: float
    top: float
    right: float
    bottom: float


def read(svg: str) -> Element:
    """Read a picture. What is no XML fails here."""
    return fromstring(svg)  # noqa: S314 - it was drawn here


def of_class(root: Element, name: str) -> list[Element]:
    """Give the elements of a class, in order."""
    return [each for each in root.iter() if name in each.get("class", "").split()]


def title(element: Element) -> str:
    """Give what is shown when the pointer rests on an element."""
    return element.findtext(f"{SVG}title") or ""


def texts(root: Element) -> list[str]:
    """Give all text that is drawn."""
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def boxes(element: Element, x: float = 0, y: float = 0) -> Iterator[tuple[Element, Box]]:
    """Give every shape and every text inside *element* with its box."""
    if element.tag == f"{SVG}defs":
        return
    if moved := re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", element.get("transform", "")):
        x, y = x + float(moved[1]), y + float(moved[2])
    if box := _box(element):
        yield element, Box(x + box.left, y + box.top, x + box.right, y + box.bottom)
    for child in element:
        yield from boxes(child, x, y)


def rectangle(element: Element) -> Box:
    """Give the box of a ``rect``."""
    left, top = float(element.get("x", 0)), float(element.get("y", 0))
    width, height = float(element.attrib["width"]), float(element.attrib["height"])
    assert width >= 0
    assert height >= 0
    return Box(left, top, left + width, top + height)


def subpaths(path: str) -> list[Box]:
    """Give the boxes of the closed parts of a path."""
    return [_around(points) for points in _walks(path)]


def _box(element: Element) -> Box | None:
    if element.tag == f"{SVG}rect":
        return rectangle(element)
    if element.tag == f"{SVG}path":
        return _around([point for walk in _walks(element.attrib["d"]) for point in walk])
    if element.tag == f"{SVG}text":
        width = _LETTER * columns(element.text or "")
        before = _BEFORE[element.get("text-anchor", "start")] * width
        x, y = float(element.attrib["x"]), float(element.attrib["y"])
        return Box(x - before, y, x - before + width, y)
    return None


def _around(points: list[tuple[float, float]]) -> Box:
    across, down = [x for x, _ in points], [y for _, y in points]
    return Box(min(across), min(down), max(across), max(down))


def _walks(path: str) -> list[list[tuple[float, float]]]:
    """Follow the pen: a list of points for each time that it was put down."""
    walks: list[list[tuple[float, float]]] = []
    x = y = 0.0
    for letter, rest in _STEP.findall(path):
        numbers = [float(each) for each in _NUMBER.findall(rest)]
        size = _ARGUMENTS[letter] or 1
        assert len(numbers) % size == 0
        for at in range(0, len(numbers), size):
            x, y = _moved(letter, x, y, *numbers[at : at + size])
            if letter == "M" and at == 0:
                walks.append([])
            walks[-1].append((x, y))
    return walks


def _moved(letter: str, x: float, y: float, *numbers: float) -> tuple[float, float]:
    if letter in "hH":
        return (numbers[0] + x * (letter == "h"), y)
    if letter in "vV":
        return (x, numbers[0] + y * (letter == "v"))
    is_relative = letter.islower()
    return numbers[-2] + x * is_relative, numbers[-1] + y * is_relative
