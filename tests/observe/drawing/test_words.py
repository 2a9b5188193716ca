"""Figures in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, strategies as st

from polygateway.observe.drawing import words
from tests.observe.staged import attempt, call, flow

if TYPE_CHECKING:
    from polygateway.stats import RateBasis, RateReason


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (0.42, "0.42 ms"),
        (9.944, "9.94 ms"),
        (9.996, "10.0 ms"),
        (31, "31.0 ms"),
        (99.94, "99.9 ms"),
        (99.96, "100 ms"),
        (999.4, "999 ms"),
        (999.6, "1.00 s"),
        (1600, "1.60 s"),
        (9_994, "9.99 s"),
        (9_996, "10.0 s"),
        (55_000, "55.0 s"),
        (119_400, "119 s"),
        (119_600, "2 min"),
        (602_000, "10 min 2 s"),
        (3_600_000, "1 h"),
        (5_405_000, "1 h 30 min 5 s"),
    ],
)
def test_a_duration_has_a_unit_and_digits_that_can_be_read(ms: float | None, text: str) -> None:
    assert words.duration(ms) == text


def test_no_seconds_are_zero() -> None:
    assert words.clock(0) == "0"


def test_every_figure_of_a_stream_has_its_column() -> None:
    # 10 chunks, 0.1 s apart, then 2.5 s of silence, of which nobody asked for 0.3 s, then a last.
    only = attempt(0, [*flow(1, 1.9, 0.1)], 5, tokens=100)
    assert words.figures(only.stats) == {
        "ttft": "1.00 s",
        "generation": "900 ms",
        "stall": "0 ms",
        "active": "900 ms",
        "backpressure": "0 ms",
        "longest gap": "100 ms",
        "tail": "3.10 s",
        "total": "5.00 s",
        "tokens": "100",
        "tokens/s": "100 active",
    }


def test_what_does_not_exist_is_a_dash_and_no_zero() -> None:
    cells = words.figures(attempt(0, [], 5).stats)
    assert {name for name, cell in cells.items() if cell != "-"} == {"total", "tokens/s"}
    assert cells["tokens/s"] == "empty"


@pytest.mark.parametrize(
    ("per_s", "basis", "reason", "text"),
    [
        (48.24, "active", None, "48.2 active"),
        (99.96, "active", None, "100 active"),
        (12.0, "wall_lower_bound", None, "≥ 12.0 wall"),
        (None, None, "no_token_count", "no token count"),
        (None, None, None, "-"),
    ],
)
def test_a_rate_names_its_basis_or_why_there_is_none(
    per_s: float | None, basis: RateBasis | None, reason: RateReason | None, text: str
) -> None:
    stats = attempt(0, [], 1).stats
    rated = attrs.evolve(stats, tokens_per_s=per_s, rate_basis=basis, rate_reason=reason)
    assert words.rate(rated) == text


def test_an_attempt_says_what_it_was_for_and_what_became_of_it() -> None:
    hedge = attempt(1, [], 1, kind="hedge", reason="ttft", outcome="lost").stats
    assert (words.kind(hedge), words.fate(hedge)) == ("hedge (ttft)", "lost")
    retry = attempt(1, [], 1, kind="retry", outcome="failed", error=("rate_limited", "x")).stats
    assert (words.kind(retry), words.fate(retry)) == ("retry", "failed (rate limited)")
    left = attempt(0, [], 1, outcome="cancelled", cancel_reason="deadline").stats
    assert words.fate(left) == "cancelled (deadline)"
    assert words.fate(attempt(0, [], 1, outcome=None).stats) == "running"


def test_a_call_says_what_became_of_it() -> None:
    only = attempt(0, [], 1)
    assert words.outcome(call(only, total=1)) == "complete"
    broken = call(only, total=1, outcome="failed", error=("context_length", "x"))
    assert words.outcome(broken) == "failed (context length)"


@pytest.mark.parametrize(("count", "text"), [(0, "0 calls"), (1, "1 call"), (2, "2 calls")])
def test_calls_are_counted(count: int, text: str) -> None:
    assert words.counted(count) == text


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("abcde", 5, "abcde"),
        ("abcdef", 5, "abcd…"),
        ("大きさ", 6, "大きさ"),
        ("大きさ", 5, "大き…"),  # each takes two columns
        ("大きさ", 4, "大…"),
        ("a\nb", 3, "a b"),
    ],
)
def test_a_text_is_cut_to_the_columns_it_may_take(text: str, most: int, shown: str) -> None:
    assert words.cut(text, most) == shown


@given(st.text(), st.integers(1, 20))
def test_nothing_cut_is_wider_than_it_may_be(text: str, most: int) -> None:
    assert words.columns(words.cut(text, most)) <= most


def test_a_text_is_wrapped_by_its_columns() -> None:
    assert words.wrapped("one two three", 7) == ["one two", "three"]
    assert words.wrapped("服务器繁忙请稍后", 8) == ["服务器繁", "忙请稍后"]


@given(st.text(), st.integers(4, 30))
def test_no_wrapped_line_is_wider_than_it_may_be(text: str, most: int) -> None:
    assert all(words.columns(line) <= most for line in words.wrapped(text, most))
