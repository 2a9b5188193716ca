from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway.core import recording as module
from polygateway.core.recording import Recording
from polygateway.trace import Arrival, Piece
from tests.strategies import SECOND, Gap, Stream, followed, said, text, trace, waits

if TYPE_CHECKING:
    from polygateway import Chunk

AT_5 = Arrival(5, 3, 1, 3, 4, ("reasoning", "text"), 4)
AT_7 = Arrival(7, 2, 0, 1, 0, ("tool_call",), None)
AT_9 = Arrival(9, 2, 0, 1, 1, ("text",), 6)
HIDDEN = Arrival(8, 1, 0, 2, 0, (), None)  # of a choice that is not kept
BROUGHT: dict[Arrival, tuple[Chunk, ...]] = {
    AT_5: (said("reasoning", "hm"), *text("a", "b")),
    AT_7: (said("tool_call", ""),),
    AT_9: text("c"),
    HIDDEN: (),
}
PIECES = {
    AT_5: (Piece("reasoning", 2, "hm"), Piece("text", 1, "a"), Piece("text", 1, "b")),
    AT_7: (Piece("tool_call", 0, ""),),
    AT_9: (Piece("text", 1, "c"),),
    HIDDEN: (),
}


def kept(*arrivals: Arrival) -> Recording:
    recording = Recording()
    for arrival in arrivals:
        recording.add(arrival, BROUGHT[arrival])
    return recording


@pytest.mark.parametrize(
    "arrivals",
    [(), (AT_5,), (AT_7, AT_9), (AT_7, AT_5), (AT_5, AT_7, AT_9), (HIDDEN,), (AT_7, HIDDEN, AT_5)],
)
def test_arrivals_come_back_with_what_each_brought(arrivals: tuple[Arrival, ...]) -> None:
    recording = kept(*arrivals)
    assert recording.arrivals() == arrivals
    assert recording.pieces() == tuple(PIECES[arrival] for arrival in arrivals)
    assert all(isinstance(arrival, Arrival) for arrival in recording.arrivals())
    assert all(isinstance(piece, Piece) for brought in recording.pieces() for piece in brought)
    assert recording.dropped == 0


@pytest.mark.parametrize("chunks", [0, 1, 2])
def test_as_many_pieces_as_arrivals_need_not_be_one_each(chunks: int) -> None:
    recording = Recording()
    for brought in (text(*"ab"[:chunks]), text(*"cd"[chunks:])):
        recording.add(HIDDEN, brought)
    assert [len(brought) for brought in recording.pieces()] == [chunks, 2 - chunks]


def test_what_came_with_the_same_read_is_added_to_its_arrival() -> None:
    recording = kept(AT_7, AT_5)
    # Nothing was waited for it, and keep-alives between the two are no news.
    recording.extend(Arrival(5, 0, 9, 2, 7, ("text", "refusal"), 11), (said("refusal", "no"),))
    joined = AT_5._replace(
        chunk_count=5, characters=11, kinds=("reasoning", "text", "refusal"), output_tokens=11
    )
    assert recording.arrivals() == (AT_7, joined)
    assert recording.pieces() == (PIECES[AT_7], (*PIECES[AT_5], Piece("refusal", 2, "no")))


@pytest.mark.parametrize(("before", "after"), [(3, 7), (3, None)])
def test_of_counts_that_come_with_one_read_the_last_one_holds(
    before: int, after: int | None
) -> None:
    recording = Recording()
    recording.add(AT_9._replace(output_tokens=before), BROUGHT[AT_9])
    recording.extend(AT_9._replace(output_tokens=after), BROUGHT[AT_9])
    assert [arrival.output_tokens for arrival in recording.arrivals()] == [after]


def test_of_too_many_arrivals_the_first_are_kept_and_the_rest_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_ARRIVALS", 3)
    recording = kept(AT_5, HIDDEN, AT_7)
    for _ in range(2):
        recording.add(AT_9, BROUGHT[AT_9])
        recording.extend(AT_9, BROUGHT[AT_9])
    assert recording.dropped == 2
    assert recording.arrivals() == (AT_5, HIDDEN, AT_7)
    assert recording.pieces() == (PIECES[AT_5], (), PIECES[AT_7])


def test_the_figures_of_a_stream_miss_nothing_that_was_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Stream([*waits(*[3 * SECOND] * 5), Gap(0, SECOND)], 2 * SECOND)
    plain = stream.figures()
    monkeypatch.setattr(module, "MOST_ARRIVALS", 3)
    keeper = followed(stream.observed(), keeps=True)
    assert keeper.figures() == plain
    assert keeper.kept()[0] == trace(stream.observed()).arrivals[:3]
