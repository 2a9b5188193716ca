"""Pictures of calls, read back: everything stands where its time is."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, get_args

import attrs
import pytest
from hypothesis import given, strategies as st

from polygateway.observe.picture import draw_call
from polygateway.stats import SeamKind
from tests.observe.gallery import GALLERY
from tests.observe.geometry import (
    SVG,
    Box,
    boxes,
    of_class,
    read,
    rectangle,
    subpaths,
    texts,
    title,
)
from tests.observe.staged import Content, attempt, call, seam

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from polygateway.observe.records import RecordedAttempt, RecordedCall
    from polygateway.stats import ContentKind, EndKind

LEFT, RIGHT = 206, 920
"""Where the lanes begin and end."""

HOSTILE = (
    "</text><script>alert(1)</script>",
    '"><image href="https://evil.invalid/x.png"/>',
    "]]>&lt;&amp;&#0;<!--",
    "\x1b]0;owned\x07\x00\x08",
    "\u202egnp.exe\u2066",
    "\ud83d\ufffe\uffff",
    "}</style><style>*{display:none}",
    "字" * 500,
    "long " * 500,
    "z\u0351\u0352\u0353" * 200,
)


KINDS: tuple[ContentKind, ...] = ("text", "reasoning", "tool_call", "refusal")
ENDS: tuple[EndKind, ...] = ("complete", "cut", "watchdog", "cancelled")


def drawn(*attempts: RecordedAttempt, total: float, commit: float | None = None) -> Element:
    return read(draw_call(call(*attempts, total=total, commit=commit)))


def at(seconds: float, total: float) -> float:
    """Give where a time must stand on an axis that is *total* seconds long."""
    return LEFT + (RIGHT - LEFT) * seconds / total


def x_of(path: str) -> float:
    """Give where a path begins."""
    return subpaths(path)[0].left


@pytest.fixture(params=GALLERY)
def shown(request: pytest.FixtureRequest) -> RecordedCall:
    return GALLERY[request.param]()


def test_nothing_lies_outside_of_the_picture(shown: RecordedCall) -> None:
    root = read(draw_call(shown))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert (float(root.attrib["width"]), float(root.attrib["height"])) == (width, height)
    for element, box in boxes(root):
        assert 0 <= box.left <= box.right <= width, element.attrib
        assert 0 <= box.top <= box.bottom <= height, element.attrib


def test_every_attempt_has_its_lane_below_the_one_before(shown: RecordedCall) -> None:
    lanes = of_class(read(draw_call(shown)), "lane")
    assert [texts(lane)[0] for lane in lanes] == [each.stats.target for each in shown.attempts]
    tops = [min(box.top for _, box in boxes(lane)) for lane in lanes]
    assert tops == sorted(set(tops))


def test_every_lane_says_what_it_was_for_and_what_became_of_it(shown: RecordedCall) -> None:
    lanes = of_class(read(draw_call(shown)), "lane")
    for lane, recorded in zip(lanes, shown.attempts, strict=True):
        says = texts(lane)[1]
        assert says.startswith(f"{recorded.stats.index} {recorded.stats.kind}")
        assert says.endswith(f", {recorded.stats.outcome}")


def test_it_depends_on_nothing_from_elsewhere(shown: RecordedCall) -> None:
    svg = draw_call(shown)
    assert svg.replace("http://www.w3.org/2000/svg", "").count("//") == 0
    forbidden = {"script", "image", "use", "a", "foreignObject", "link", "iframe", "animate"}
    for element in read(svg).iter():
        assert element.tag.removeprefix(SVG) not in forbidden
        assert not [name for name in element.attrib if name.startswith("on") or "href" in name]
        assert all(
            "url(" not in v or v.startswith("url(#polygateway-") for v in element.attrib.values()
        )
    assert "@import" not in svg


def test_every_pattern_and_class_that_is_used_is_there(shown: RecordedCall) -> None:
    root = read(draw_call(shown))
    ids = {each.attrib["id"] for each in root.iter(f"{SVG}pattern")}
    fills = {each.get("fill", "") for each in root.iter()}
    assert {fill[5:-1] for fill in fills if fill.startswith("url")} <= ids
    style = root.findtext(f"{SVG}style") or ""
    faces = {name for each in root.iter() for name in each.get("class", "").split()}
    coloured = {name for name in faces if name.startswith(("f-", "s-"))}
    assert all(f".{name}{{" in style for name in coloured)


def test_what_can_be_seen_is_told_in_words_too(shown: RecordedCall) -> None:
    root = read(draw_call(shown))
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[1].tag == f"{SVG}desc"
    told = root[1].text or ""
    for recorded in shown.attempts:
        assert f"Attempt {recorded.stats.index} {recorded.stats.target}" in told
    assert told.count("stall: ") + told.count("cut off") == sum(
        len(each.stats.stalls) for each in shown.attempts
    )


def test_a_stall_spans_exactly_its_time() -> None:
    only = attempt(0, [Content(1), Content(2), Content(7.25), Content(7.5)], 10)
    (stall,) = of_class(drawn(only, total=10), "stall")[-1:]
    box = rectangle(stall)
    assert (box.left, box.right) == pytest.approx((at(2, 10), at(7.25, 10)), abs=0.01)
    assert title(stall) == "stall: nothing came for 5.25 s after 2 chunks"
    assert stall.get("stroke-dasharray") == "none"


def test_a_stall_does_not_cover_the_time_in_which_nobody_asked() -> None:
    root = drawn(attempt(0, [Content(1), Content(9, held=3), Content(9.5)], 10), total=10)
    lane = of_class(root, "lane")[0]
    (stall,), (held,) = of_class(lane, "stall"), of_class(lane, "held")
    box = rectangle(stall)
    assert (box.left, box.right) == pytest.approx((at(4, 10), at(9, 10)), abs=0.01)
    strip = subpaths(held.attrib["d"])
    assert strip[0].left == pytest.approx(at(1, 10), abs=1)
    assert strip[-1].right == pytest.approx(at(4, 10), abs=1)
    assert strip[0].top > box.bottom
    assert title(held) == "backpressure, 3.00 s: nobody asked"


def test_the_strip_of_backpressure_is_as_high_as_the_share_of_its_time() -> None:
    # A column is a second: nobody asked for 3/4 of the first, all of the second, 1/2 of the third.
    only = attempt(0, [Content(10.25), Content(20, held=2.25)], RIGHT - LEFT)
    (strip,) = of_class(of_class(drawn(only, total=RIGHT - LEFT), "lane")[0], "held")
    columns = subpaths(strip.attrib["d"])
    places = [(box.left - LEFT, box.right - LEFT) for box in columns]
    assert places == [(10, 11), (11, 12), (12, 13)]
    heights = [box.bottom - box.top for box in columns]
    assert heights == pytest.approx([7 * 0.75, 7, 7 * 0.5], abs=0.051)


@given(st.lists(st.tuples(st.floats(0.001, 1), st.floats(0, 1)), min_size=1, max_size=300))
def test_the_strip_of_backpressure_is_as_large_as_the_time_in_which_nobody_asked(
    gaps: list[tuple[float, float]],
) -> None:
    time, content = 1.0, [Content(1)]
    for gap, share in gaps:
        time += gap
        content.append(Content(time, held=gap * share))
    root = drawn(attempt(0, content, time), total=time)
    held = sum(each.held for each in content)
    area = sum(
        (box.right - box.left) * (box.bottom - box.top)
        for path in of_class(of_class(root, "lane")[0], "held")
        for box in subpaths(path.attrib["d"])
    )
    # It is 7 high; heights are rounded to a tenth in each of 714 columns.
    assert area == pytest.approx(7 * held / time * (RIGHT - LEFT), abs=0.06 * 714)


def test_causes_have_different_patterns_and_an_open_stall_a_broken_edge() -> None:
    root = drawn(
        attempt(0, [Content(1), Content(4, keepalives=5), Content(8)], 12, end_kind="cut"), total=12
    )
    stalls = of_class(of_class(root, "lane")[0], "stall")
    assert [stall.get("fill") for stall in stalls] == [
        "url(#polygateway-server_alive)",
        "url(#polygateway-server_silence)",
        "url(#polygateway-disconnect)",
    ]
    assert [stall.get("stroke-dasharray") for stall in stalls] == ["none", "none", "4 3"]
    assert title(stalls[0]).endswith("with 5 keep-alives")
    assert title(stalls[2]).endswith("until the attempt ended")


def test_a_wide_stall_has_its_duration_above_it_and_a_narrow_one_has_not() -> None:
    wide = drawn(attempt(0, [Content(1), Content(6), Content(6.1)], 10), total=10)
    assert "5.00 s" in texts(of_class(wide, "lane")[0])
    narrow = drawn(attempt(0, [Content(1), Content(6), Content(6.1)], 200), total=200)
    assert "5.00 s" not in texts(of_class(narrow, "lane")[0])


def test_content_ticks_at_its_time_and_by_its_kind() -> None:
    only = attempt(0, [Content(index, kind) for index, kind in enumerate(KINDS, 1)], 5)
    lane = of_class(drawn(only, total=5), "lane")[0]
    paths = {
        path.attrib["class"].removeprefix("content f-"): subpaths(path.attrib["d"])
        for path in of_class(lane, "content")
    }
    for index, kind in enumerate(KINDS, 1):
        for box in paths[kind]:
            assert (box.left + box.right) / 2 == pytest.approx(at(index, 5), abs=0.02)
    shapes = {kind: [(box.top, box.bottom) for box in found] for kind, found in paths.items()}
    assert len({str(shape) for shape in shapes.values()}) == len(KINDS)  # not by colour alone


def test_waits_and_tail_stand_at_both_ends_of_the_content() -> None:
    hedge = attempt(1, [Content(4), Content(5)], 6.5, started=3, kind="hedge", reason="ttft")
    lost = attempt(0, [], 4, outcome="lost", end_kind="cancelled")
    lanes = of_class(drawn(lost, hedge, total=8), "lane")

    def ends(lane: Element, name: str) -> tuple[float, float]:
        box = rectangle(of_class(lane, name)[0])
        return box.left, box.right

    assert ends(lanes[0], "wait") == pytest.approx((at(0, 8), at(4, 8)), abs=0.01)
    assert ends(lanes[1], "wait") == pytest.approx((at(3, 8), at(4, 8)), abs=0.01)
    assert ends(lanes[1], "tail") == pytest.approx((at(5, 8), at(6.5, 8)), abs=0.01)
    assert of_class(lanes[0], "tail") == []


def test_launch_commit_end_and_close_are_marked_at_their_times() -> None:
    lost = attempt(
        0,
        [Content(1)],
        4,
        outcome="lost",
        end_kind="cancelled",
        cancel_reason="lost a duel",
        closing_ms=500,
    )
    hedge = attempt(1, [Content(4), Content(5)], 10, started=3, kind="hedge", reason="stall")
    root = drawn(lost, hedge, total=10, commit=4)
    first, second = of_class(root, "lane")
    assert x_of(of_class(second, "launch")[0].attrib["d"]) == pytest.approx(at(3, 10), abs=0.01)
    assert title(of_class(second, "launch")[0]) == "hedge (stall), launched after 3.00 s"
    assert x_of(of_class(root, "commit")[0].attrib["d"]) == pytest.approx(at(4, 10), abs=0.01)
    assert "commit 4.00 s" in texts(root)
    assert x_of(of_class(first, "closed")[0].attrib["d"]) == pytest.approx(at(4.5, 10), abs=0.01)
    assert "500 ms" in title(of_class(first, "closed")[0])
    (end,) = of_class(first, "lost")
    assert end.attrib["transform"].startswith(f"translate({at(4, 10):.1f}")
    assert title(end) == "lost after 4.00 s"
    assert of_class(second, "closed") == []


def test_a_later_attempt_is_tied_to_the_lane_above_it() -> None:
    root = read(draw_call(GALLERY["rescued"]()))
    first, second = of_class(root, "lane")
    assert of_class(first, "thread") == []
    (thread,) = of_class(second, "thread")
    assert x_of(thread.attrib["d"]) == pytest.approx(at(48.2, 60), abs=0.01)


def test_a_call_that_was_never_committed_has_no_commit() -> None:
    root = read(draw_call(GALLERY["failed"]()))
    assert of_class(root, "commit") == []
    assert not any("commit" in text for text in texts(root))


def test_a_seam_leads_from_one_lane_down_to_the_other_at_its_time() -> None:
    recovered = GALLERY["recovered"]()
    root = read(draw_call(recovered))
    bars = [content_of(lane) for lane in of_class(root, "lane")]
    for drawn_seam, (above, below), (kind, seconds) in zip(
        of_class(root, "seam")[2:],  # behind those of the legend
        pairwise(bars),
        [("continue", 17), ("restart", 26)],
        strict=True,
    ):
        assert drawn_seam.attrib["class"] == f"seam {kind}"
        line, head = (subpaths(path.attrib["d"])[0] for path in drawn_seam.iter(f"{SVG}path"))
        assert line.left == line.right == pytest.approx(at(seconds, 39), abs=0.01)
        assert (line.top, line.bottom) == (above.bottom, below.top)
        assert (head.left + head.right) / 2 == pytest.approx(line.left, abs=0.01)
        assert head.bottom == below.top
        assert title(drawn_seam).startswith(f"seam after {seconds}.0 s: attempt ")


def content_of(lane: Element) -> Box:
    (content,) = of_class(lane, "content")
    return subpaths(content.attrib["d"])[0]


def test_kinds_of_seams_can_be_told_apart_without_colours() -> None:
    seams = of_class(read(draw_call(GALLERY["recovered"]())), "seam")[2:]
    dashes = [next(each.iter(f"{SVG}path")).attrib["stroke-dasharray"] for each in seams]
    assert dashes == ["none", "3 3"]


def test_an_attempt_still_running_has_no_end() -> None:
    root = drawn(attempt(0, [Content(1)], 3, outcome=None), total=3)
    assert of_class(root, "end") == []
    assert "0 primary, running" in texts(root)


def test_the_figures_stand_in_a_row_for_the_call_and_for_each_attempt() -> None:
    rows = texts(of_class(read(draw_call(GALLERY["rescued"]())), "figures")[0])
    assert rows[1:11][:3] == ["ttft", "generation", "stall"]
    assert rows[11:22] == [
        *("call", "50.0 s", "8.98 s", "2.60 s", "6.38 s", "0 ms", "2.60 s", "1.02 s", "60.0 s"),
        *("400", "61.9 active"),
    ]
    assert rows[22] == "0 eu"
    assert rows[33] == "1 us"


def test_the_legend_explains_what_is_there_and_nothing_else() -> None:
    quick = texts(of_class(read(draw_call(GALLERY["quick"]())), "legend")[0])
    assert quick == ["launch", "wait for content", "text", "tail", "won"]
    recovered = texts(of_class(read(draw_call(GALLERY["recovered"]())), "legend")[0])
    assert recovered == [
        *("launch", "wait for content", "text", "tail", "stall: nothing came"),
        *("silence, then cut off", "seam: went on", "seam: began anew"),
        *("won", "lost", "failed", "closed"),
    ]
    odyssey = texts(of_class(read(draw_call(GALLERY["odyssey"]())), "legend")[0])
    assert odyssey == [
        *("launch", "wait for content", "text", "reasoning", "tail"),
        *("stall: nothing came", "stall: only keep-alives", "silence, then cut off"),
        *("backpressure", "won", "lost", "failed", "closed"),
    ]


def test_notes_say_what_no_figure_says() -> None:
    said = texts(read(draw_call(GALLERY["odyssey"]())))
    assert "0 eu failed: StallTimeout: target 'eu' sent no content for 120.0 s" in " ".join(said)
    assert "hedges that were due and did not start (budget): 3" in said
    rescued = texts(read(draw_call(GALLERY["rescued"]())))
    assert "saved by the hedge, an estimate: 40.6 s" in rescued
    assert (
        "0 eu cancelled (lost a duel), closed 0.80 ms later;"
        " cost in vain: tokens 12 in, 157 out (estimate), 628 characters"
    ) in rescued
    assert any(line.startswith("raised: ") for line in texts(read(draw_call(GALLERY["failed"]()))))


def test_what_is_not_drawn_is_said() -> None:
    stalled = attempt(0, [Content(3 * i) for i in range(1, 71)], 220)
    (note,) = texts(drawn(stalled, total=220))[-1:]
    assert note == "0 eu the longest 64 of its stalled gaps are shown, 5 are not"
    (note,) = texts(drawn(attempt(0, [Content(1)], 9, dropped=12), total=9))[-1:]
    assert note == "0 eu 12 more reads brought content, but were not recorded"


def test_an_attempt_whose_timeline_is_lost_keeps_its_figures() -> None:
    whole = GALLERY["rescued"]()
    root = read(draw_call(attrs.evolve(whole, attempts=whole.attempts[1:])))
    assert [texts(lane)[0] for lane in of_class(root, "lane")] == ["us"]
    assert "0 eu" in texts(of_class(root, "figures")[0])
    assert "attempts without a lane: 1" in texts(root)


def test_a_call_without_any_attempt_can_be_drawn() -> None:
    whole = GALLERY["quick"]()
    root = read(
        draw_call(attrs.evolve(whole, attempts=[], stats=attrs.evolve(whole.stats, attempts=[])))
    )
    assert of_class(root, "lane") == []
    assert texts(of_class(root, "legend")[0]) == []


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_can_only_be_read(text: str) -> None:
    failed = attempt(
        0,
        [Content(1)],
        2,
        target=text,
        outcome="cancelled",
        end_kind="cancelled",
        cancel_reason=text,
        error=(text, text),
    )
    recorded = call(failed, total=2, outcome="failed", error=(text, text), model=text, run=text)
    recorded = attrs.evolve(
        recorded, started_at=text, provider_model=text, finish_reason=text, response_id=text
    )
    svg = draw_call(recorded)
    svg.encode("utf-8")
    assert svg.isprintable()
    harmless = GALLERY["slow_consumer"]()
    assert {each.tag for each in read(svg).iter()} <= {
        each.tag for each in read(draw_call(harmless)).iter()
    }
    assert len(svg) < 30_000


@pytest.mark.parametrize("every", [0.000_5, 0.003, 0.01])
def test_a_hundred_thousand_chunks_take_no_more_room_than_there_are_pixels(every: float) -> None:
    count = 100_000
    content = [Content(1 + every * i, KINDS[i % 97 == 0]) for i in range(count)]
    assert len(draw_call(call(attempt(0, content, 2 + every * count), total=2 + every * count))) < (
        30_000
    )


def test_the_worst_call_is_still_a_small_file() -> None:
    # As many attempts as there may be, each full of ticks that can just be told apart.
    content = [
        Content(2.7 * i, KINDS[i % 4], held=(i % 7) * 0.1, keepalives=i % 2) for i in range(1, 265)
    ]
    attempts = [attempt(index, content, 714) for index in range(100)]
    seams = [seam("restart", index % 9, index % 31, 7 * index) for index in range(10_000)]
    assert len(draw_call(call(*attempts, total=714, seams=seams))) < 2_000_000


@given(st.data())
def test_any_call_stays_inside_its_picture(data: st.DataObject) -> None:
    times = st.floats(0, 600)
    content = [
        Content(time, data.draw(st.sampled_from(KINDS)))
        for time in sorted(data.draw(st.lists(times, max_size=30)))
    ]
    last = max([0.0, *(each.at for each in content)])
    ended = last + data.draw(times)
    how = data.draw(st.sampled_from(ENDS))
    closing = data.draw(st.none() | st.floats(0, 1e6))
    only = attempt(0, content, ended, end_kind=how, closing_ms=closing)
    other = attempt(1, [], data.draw(times), started=0, kind="retry", outcome="failed")
    total, kind = data.draw(times), data.draw(st.sampled_from(get_args(SeamKind)))
    before, after = data.draw(st.permutations([0, 1]))
    seams = [seam(kind, before, after, data.draw(times))]
    commit = data.draw(st.none() | times)
    root = read(draw_call(call(only, other, total=total, commit=commit, seams=seams)))
    height = float(root.attrib["height"])
    for element, box in boxes(root):
        assert 0 <= box.left <= box.right <= 960, element.attrib
        assert 0 <= box.top <= box.bottom <= height, element.attrib
