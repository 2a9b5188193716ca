"""What is made of the benchmark's samples: medians, goals, tables and pictures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from benchmarks.speed import plan, results
from benchmarks.speed.__main__ import KEPT
from benchmarks.speed.about import about, sentence
from benchmarks.speed.chart import Scale
from benchmarks.speed.clients import CLIENTS, HTTPCORE, LITELLM, OPENAI, RAW, STREAM
from benchmarks.speed.document import DOCUMENT, filled, table
from benchmarks.speed.goals import GOALS, Goal, Judged, judge
from benchmarks.speed.report import PICTURES, TABLES, write_report, written
from benchmarks.speed.results import Cell, NotMeasured, Results, Sample
from benchmarks.speed.statistics import Spread, quantile, shown, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

BURST, CALL = Cell("chunks", STREAM, 20_000), Cell("chunks", STREAM)
FIGURES = (
    *("cpu_us", "wall_us", "wall_s", "p50_ms", "p99_ms", "kib_a_stream"),
    *("plain_us", "other_us", "more_us", "ratio", "cpu_ms", "kib"),
)


def measured(cells: Iterable[Cell], rounds: int = 1, **figures: float) -> Sequence[Sample]:
    """Give samples whose figures are all the same."""
    found = dict.fromkeys(FIGURES, 0.1) | figures
    return [Sample(cell, number, found) for cell in cells for number in range(rounds)]


def made(*samples: Sample) -> Results:
    return Results(about(["trio"]), samples)


def cpu(cell: Cell, *rounds: float) -> Sequence[Sample]:
    return [Sample(cell, number, {"cpu_us": value}) for number, value in enumerate(rounds)]


def found_of(goal: str, found: Results) -> Judged:
    return next(each for each in judge(found) if each.goal.what == goal)


@pytest.mark.parametrize(
    ("ordered", "share", "value"),
    [([5], 0.5, 5), ([1, 2, 3, 4], 0.5, 2), (range(1, 101), 0.99, 99), (range(1, 101), 1, 100)],
)
def test_a_quantile_is_a_value_that_was_seen(
    ordered: Sequence[float], share: float, value: float
) -> None:
    assert quantile(ordered, share) == value


def test_a_spread_is_the_median_between_the_extremes() -> None:
    assert spread([3, 1, 2, 9]) == Spread(2.5, 1, 9)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.4, "1,234"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.01234, "0.012")],
)
def test_figures_are_written_with_about_three_digits(value: float, text: str) -> None:
    assert shown(value) == text
    assert shown(-value) == f"-{text}"


# Results


def test_a_figure_is_the_median_over_the_rounds_in_which_it_was_measured() -> None:
    failed = Sample(BURST, 3, {}, "not done after 60 s")
    found = made(*cpu(BURST, 10, 30, 20), failed, *cpu(CALL, 500))
    assert found.spread(BURST, "cpu_us") == Spread(20, 10, 30)
    assert found.error(BURST) == "not done after 60 s"
    assert found.error(CALL) is None


def test_what_was_not_measured_is_an_error_and_never_a_zero() -> None:
    with pytest.raises(NotMeasured, match="p99_ms of Cell"):
        made(*cpu(BURST, 10)).median(BURST, "p99_ms")


def test_what_is_kept_is_what_is_read(tmp_path: Path) -> None:
    found = made(*cpu(BURST, 10, 12.5), Sample(CALL, 0, {}, "it failed"))
    results.write(found, tmp_path / "folder" / "speed.json")
    again = results.read(tmp_path / "folder" / "speed.json")
    assert again.samples == list(found.samples)
    assert again.about == found.about


# The plan


def test_the_short_form_judges_every_goal_but_that_of_very_long_answers() -> None:
    names = {each.goal.what for each in judge(made(*measured(plan.short())))}
    left_out = {goal.what for goal in GOALS} - names
    assert left_out == {"CPU a chunk of 100,000 at once, to that of 10,000"}


def test_the_full_form_measures_all_that_the_short_one_does_and_every_client() -> None:
    full = plan.full()
    assert set(plan.short()) <= set(full)
    for name in CLIENTS:
        kinds = {cell.kind for cell in full if cell.what == name}
        assert kinds == {"chunks", "paced", "streams", "spread"}


# Goals


def test_a_goal_compares_medians_and_shows_what_single_rounds_gave() -> None:
    openai = Cell("chunks", OPENAI, 20_000)
    judged = found_of(
        "burst, CPU a chunk, to the openai SDK",
        made(*cpu(BURST, 10, 11, 30), *cpu(openai, 100, 110, 120)),
    )
    assert judged.value == 0.1
    assert judged.rounds == Spread(0.1, 0.1, 0.25)
    assert judged.is_met
    assert str(judged) == (
        "met    burst, CPU a chunk, to the openai SDK: 0.100 (0.100 to 0.250), at most 0.125"
    )


@pytest.mark.parametrize(
    ("goal", "ours", "other", "figure", "most"),
    [
        ("burst, CPU a chunk, to litellm", BURST, Cell("chunks", LITELLM, 5000), "cpu_us", 1 / 30),
        (
            "burst, CPU a chunk, to bare httpcore",
            BURST,
            Cell("chunks", HTTPCORE, 20_000),
            "cpu_us",
            1.15,
        ),
        (
            f"CPU a call of {STREAM}, to the openai SDK",
            CALL,
            Cell("chunks", OPENAI),
            "cpu_us",
            0.25,
        ),
        (
            "200 streams, CPU a chunk, to the openai SDK",
            *(Cell("streams", STREAM, 200), Cell("streams", OPENAI, 200), "cpu_us", 1 / 3),
        ),
        (
            "200 streams, added delay p99, to raw trio sockets",
            *(Cell("spread", STREAM, 200), Cell("spread", RAW, 200), "p99_ms", 2),
        ),
    ],
)
def test_a_ratio_is_met_at_its_bound_and_missed_beyond(
    goal: str, ours: Cell, other: Cell, figure: str, most: float
) -> None:
    for factor, met in ((0.999, True), (1.001, False)):
        samples = [Sample(ours, 0, {figure: most * factor}), Sample(other, 0, {figure: 1.0})]
        assert found_of(goal, made(*samples)).is_met is met


@pytest.mark.parametrize(
    ("ours", "raw", "met"),
    [(1.5, 1.0, True), (1.51, 1.0, False), (1.9, 1.5, True), (1.96, 1.5, False)],
)
def test_a_thousand_streams_may_take_what_the_larger_bound_allows(
    ours: float, raw: float, met: bool
) -> None:
    cells = {Cell("streams", STREAM, 1000): ours, Cell("streams", RAW, 1000): raw}
    found = made(*(Sample(cell, 0, {"wall_s": wall}) for cell, wall in cells.items()))
    (judged,) = judge(found)
    assert judged.is_met is met


def test_a_goal_is_missed_if_measuring_failed_and_left_out_if_nobody_measured() -> None:
    failed = Sample(Cell("imports", plan.OPEN), 0, {}, "ImportError: no such name")
    assert [each.value for each in judge(made(failed))] == [math.inf, math.inf]
    assert judge(made()) == []


def test_the_memory_of_an_import_is_judged_in_mebibytes() -> None:
    found = made(Sample(Cell("imports", plan.OPEN), 0, {"cpu_ms": 50.0, "kib": 8192.0}))
    assert [each.value for each in judge(found)] == [50, 8]


def test_goals_with_a_unit_are_written_with_it() -> None:
    goal = Goal("more", lambda _: 0, 100, "µs")
    assert str(Judged(goal, 120, Spread(120, 90, 130))) == (
        "MISSED more: 120 µs (90.0 µs to 130 µs), at most 100 µs"
    )


# The document


def test_a_table_has_names_on_the_left_and_figures_on_the_right() -> None:
    assert table(["client", "CPU", "wall"], [["raw", "1", "2"]]) == (
        "| client | CPU | wall |\n| --- | ---: | ---: |\n| raw | 1 | 2 |"
    )


def test_only_what_is_between_the_marks_is_replaced() -> None:
    text = "a\n<!-- m: one -->\nold\n<!-- /m -->\nb <!-- n: one -->kept<!-- /n -->\n"
    once = filled(text, "m", str.upper)
    assert once == "a\n<!-- m: one -->\nONE\n<!-- /m -->\nb <!-- n: one -->kept<!-- /n -->\n"
    assert filled(once, "m", str.upper) == once


def test_a_cell_of_a_table_says_why_it_has_no_figure() -> None:
    found = made(*cpu(CALL, 500, 400, 700), Sample(BURST, 0, {}, "not done after 60 s"))
    assert written(found, CALL, "cpu_us") == "500 (400 to 700)"
    assert written(found, BURST, "cpu_us") == "not done after 60 s"
    assert written(found, CALL, "p99_ms") == "-"


def test_the_sentence_about_a_run_names_place_and_versions() -> None:
    assert sentence(
        {
            "date": "2026-11-29",
            "system": "Linux 6.18 on x86_64",
            "cores": 2,
            "python": "3.11.7",
            "versions": {"trio": "0.35.0", "h11": "0.16.0"},
        }
    ) == (
        "Measured on 2026-11-29: 2 cores, Linux 6.18 on x86_64, Python 3.11.7,"
        " trio 0.35.0, h11 0.16.0."
    )


def test_versions_are_told_of_what_is_installed() -> None:
    assert set(about(["trio", "no-such-distribution"])["versions"]) == {"trio"}


@pytest.fixture(scope="module")
def whole() -> Results:
    """Give results in which every figure is there, twice."""
    return made(*measured(plan.full(), rounds=2))


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_written_of_a_whole_run_and_of_an_empty_one(
    whole: Results, name: str
) -> None:
    assert "0.100 (0.100 to 0.100)" in TABLES[name](whole) or name in {"about", "goals"}
    assert TABLES[name](made(*cpu(CALL, 500)))


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_svg_in_which_no_name_is_missing(whole: Results, name: str) -> None:
    drawn = ET.fromstring(PICTURES[name](whole))  # noqa: S314 - our own
    texts = {each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert texts >= set(CLIENTS if name == "clients" else plan.GROWTH)


def test_a_logarithmic_scale_has_powers_of_ten_where_they_belong() -> None:
    scale = Scale(1, 1000, 100, 400)
    assert [scale.place(value) for value in scale.marks()] == pytest.approx([100, 200, 300, 400])


def test_a_report_fills_a_document_and_draws_beside_it(whole: Results, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n<!-- speed: targets -->\n<!-- /speed -->\n", "utf-8")
    write_report(whole, page)
    assert "0.100 (0.100 to 0.100)" in page.read_text("utf-8")
    drawn = {each.name for each in tmp_path.glob("*.svg")}
    assert drawn == {f"page-{name}.svg" for name in PICTURES}


# The document that is published


def test_the_published_tables_and_pictures_are_those_of_the_kept_run() -> None:
    kept, page = results.read(KEPT), DOCUMENT.read_text("utf-8")
    assert filled(page, "speed", lambda name: TABLES[name](kept)) == page
    for name, drawn in PICTURES.items():
        picture = DOCUMENT.with_name(f"{DOCUMENT.stem}-{name}.svg")
        assert picture.read_text("utf-8") == drawn(kept)
