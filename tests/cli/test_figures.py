from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from polygateway import Usage
from polygateway.cli.figures import call_lines
from polygateway.stats import Seam
from tests.records import CALL

if TYPE_CHECKING:
    from polygateway.stats import RateBasis

FLOWED = attrs.evolve(
    CALL, ttft_ms=400.0, generation_ms=2500.0, stall_ms=0.0, tokens_per_s=46.875, total_ms=3000.0
)


@pytest.mark.parametrize(
    ("basis", "speed"),
    [("active", "speed 46.9 tokens/s"), ("wall_lower_bound", "speed at least 46.9 tokens/s")],
)
def test_a_rate_is_told_with_what_it_is_worth(basis: RateBasis, speed: str) -> None:
    times, _ = call_lines(attrs.evolve(FLOWED, rate_basis=basis), Usage())
    assert times == f"total 3.00 s   ttft 0.40 s   generation 2.50 s   stall 0.00 s   {speed}"


def test_without_a_rate_nothing_is_said_of_speed() -> None:
    times, _ = call_lines(attrs.evolve(FLOWED, tokens_per_s=None), Usage())
    assert times == "total 3.00 s   ttft 0.40 s   generation 2.50 s   stall 0.00 s"


def test_seams_are_told_with_what_became_of_the_text_before_them() -> None:
    seams = [
        Seam(kind="continue", before=0, after=1, at_ms=7000.0, characters=80),
        Seam(kind="restart", before=1, after=2, at_ms=9000.0, characters=95),
    ]
    _, attempts = call_lines(attrs.evolve(FLOWED, seams=seams), Usage(output_tokens=12))
    assert attempts.endswith("   seams 2: continue, restart   tokens 12 out")
