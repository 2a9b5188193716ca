"""``docs/explanation/scenarios.md`` names every scenario, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "explanation" / "scenarios.md"


def test_the_page_names_every_scenario() -> None:
    files = set(HERE.glob("test_*.py")) - {Path(__file__)}
    tests = {
        name
        for file in files
        for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
    }
    assert len(tests) > 50
    assert set(re.findall(r"`(test_\w+)`", PAGE.read_text("utf-8"))) == tests
