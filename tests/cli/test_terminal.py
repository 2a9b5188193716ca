"""What strangers write must not work the user's terminal."""

from __future__ import annotations

import pytest

from polygateway.cli.terminal import harmless


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;ZXZpbA==\x07", "\\x1b]52;c;ZXZpbA==\\x07"),  # xterm: set the clipboard
        ("\x1b[2J", "\\x1b[2J"),  # ECMA-48: clear the screen
        ("\x9b2J", "\\x9b2J"),  # the same, in one eight-bit character
        ("safe\rfake", "safe\\x0dfake"),  # overwrites what stood there
        ("a\x7f", "a\\x7f"),
    ],
)
def test_control_characters_are_shown_instead_of_obeyed(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.parametrize("text", ["", "two\nlines\tand a tab", "Größe, 大きさ, \N{NO-BREAK SPACE}"])
def test_all_other_text_stays_as_it_is(text: str) -> None:
    assert harmless(text) == text
