"""Colours: contrast as WCAG 2.2 defines and asks for it, in light and in dark surroundings."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from polygateway.observe.drawing.look import CAUSES, COLOURS, CONTENT, patterns, style
from polygateway.observe.drawing.markup import written
from polygateway.stats import ContentKind, StallCause

SCHEMES = {"light": 0, "dark": 1}
WRITTEN = ("ink", "muted", "good", *CAUSES)
DRAWN = (*CONTENT, "held", "bad")


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, as WCAG defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(name: str, scheme: str) -> float:
    """Contrast ratio with the paper."""
    both = (luminance(COLOURS[each][SCHEMES[scheme]]) for each in (name, "paper"))
    dark, light = sorted(both)
    return (light + 0.05) / (dark + 0.05)


def test_black_on_white_has_the_contrast_that_wcag_says_it_has() -> None:
    assert (luminance("#ffffff") + 0.05) / (luminance("#000000") + 0.05) == pytest.approx(21)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", WRITTEN)
def test_text_can_be_read(name: str, scheme: str) -> None:
    assert contrast(name, scheme) >= 4.5  # success criterion 1.4.3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", DRAWN)
def test_shapes_can_be_told_from_the_paper(name: str, scheme: str) -> None:
    assert contrast(name, scheme) >= 3  # success criterion 1.4.11


def test_every_kind_and_cause_has_a_name_and_a_colour() -> None:
    assert set(CONTENT) == set(get_args(ContentKind))
    assert set(CAUSES) == set(get_args(StallCause))
    assert COLOURS.keys() >= {*CONTENT, *CAUSES}


def test_every_colour_can_fill_and_draw_in_both_schemes() -> None:
    light, dark = (style().text or "").split("@media (prefers-color-scheme:dark)")
    for rules, scheme in ((light, 0), (dark, 1)):
        for name, colours in COLOURS.items():
            assert f".f-{name}{{fill:{colours[scheme]}}}" in rules
            assert f".s-{name}{{stroke:{colours[scheme]}}}" in rules


def test_every_rule_stays_inside_pictures() -> None:
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", (style().text or "").replace("@media", "{"))
    assert len(selectors) > 2 * len(COLOURS)
    assert all(selector.startswith((".polygateway ", ".polygateway")) for selector in selectors)


def test_each_cause_of_a_stall_has_a_pattern_of_its_own() -> None:
    drawn = [written(pattern) for pattern in patterns()]
    shapes = {re.sub(r'(class|id)="[^"]*"', "", pattern) for pattern in drawn}
    assert len(shapes) == len(drawn) == len(CAUSES)
