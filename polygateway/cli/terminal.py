"""Text for a terminal."""

from __future__ import annotations

import re

# All but line feed and tab: with the others, text can move the cursor, change colours, or make
# terminals answer.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """Show control characters instead of letting the terminal obey them."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
