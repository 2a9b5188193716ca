"""How the parts of a decoder tell each other that what came is not the wire that was promised."""

from __future__ import annotations

from ..secret import CUT


class Malformed(ValueError):
    """Nothing more can be decoded. The text says what is wrong, with an excerpt of it."""


def excerpt(text: str, most: int = 200) -> str:
    """Give *text*, cut to *most* characters, with a blank for what cannot be printed."""
    cut = text if len(text) <= most else f"{text[: most - 1]}{CUT}"
    shown = "".join(each if each.isprintable() else " " for each in cut)
    return shown.encode(errors="replace").decode()
