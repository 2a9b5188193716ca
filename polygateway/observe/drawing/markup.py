"""Elements of SVG and HTML in which no text can do harm."""

from __future__ import annotations

from xml.etree.ElementTree import Element, tostring

Node = Element
"""An element with all that is in it."""


def node(tag: str, /, *inside: Node | str, **attributes: str | float) -> Node:
    """Make an element.

    All text becomes :func:`plain` here, and is escaped when it is written: whatever a provider or
    a journal says, it can only be read.

    Args:
        tag: its name.
        inside: elements and text, in order.
        attributes: ``text_anchor`` is written ``text-anchor``, and ``class_`` is written ``class``.
    """
    made = Element(tag, {_name(name): _value(value) for name, value in attributes.items()})
    for each in inside:
        if isinstance(each, Element):
            made.append(each)
        else:
            _append_text(made, plain(each))
    return made


def written(root: Node, *, html: bool = False) -> str:
    """Write an element and all that is in it, as XML or as HTML."""
    return tostring(root, encoding="unicode", method="html" if html else "xml")


def plain(text: str) -> str:
    """Give one line of text that shows what it holds.

    Line breaks and all other white space become spaces. What cannot be printed, as control
    characters, marks that turn the direction of writing and halves of characters, is spelt out.
    """
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(map(_visible, line))


def number(value: float) -> str:
    """Write a coordinate: a hundredth of a pixel is more than can be seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return plain(value) if isinstance(value, str) else number(value)


def _append_text(parent: Node, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text
