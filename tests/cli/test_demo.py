"""``polygateway demo`` over real sockets, played twenty times as fast."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, cast

import attrs
import pytest

from polygateway import AttemptStats, CallStats, ConnectFailed
from polygateway.cli.demo import play, record
from polygateway.cli.scenarios import Result, scenarios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OUTCOMES = {
    "stalled-unhedged": "complete",
    "stalled-hedged": "complete",
    "keepalives-hedged": "complete",
    "slow-start-hedged": "complete",
    "cut": "StreamBroken",
    "cut-continued": "complete",
}
QUICKLY = scenarios(pace=0.05)


async def test_json_holds_every_scenario_with_its_figures_and_nothing_else_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await play(QUICKLY, as_json=True)
    out, err = capsys.readouterr()
    assert err == ""
    told = cast("Mapping[str, Sequence[Mapping[str, object]]]", json.loads(out))
    assert list(told) == ["scenarios"]
    assert {each["name"]: each["outcome"] for each in told["scenarios"]} == OUTCOMES
    for each in told["scenarios"]:
        assert list(each) == ["name", "total_ms", "outcome", "stats"]
        stats = cast("Mapping[str, Sequence[Mapping[str, object]]]", each["stats"])
        assert stats.keys() == attrs.fields_dict(CallStats).keys()
        assert stats["total_ms"] == each["total_ms"]
        for attempt in stats["attempts"]:
            assert attempt.keys() == attrs.fields_dict(AttemptStats).keys()


async def test_for_people_every_scenario_is_drawn_and_the_table_closes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await play(QUICKLY, as_json=False)
    out, err = capsys.readouterr()
    assert err == ""
    assert out.replace("\n", "").isprintable()  # no control characters
    first_words = [line.split()[0] for line in out.splitlines() if line.strip()]
    drawings, rows = [word for word in first_words if word in OUTCOMES], list(OUTCOMES)
    assert drawings == rows * 2
    assert first_words[-len(rows) - 1 :] == [*rows, "loser"]


async def test_a_closed_pipe_ends_the_demo_as_it_ends_every_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        await play(QUICKLY, as_json=False)


def test_of_a_call_without_figures_json_holds_the_attempts() -> None:
    result = Result(
        scenario="cut",
        started=0.0,
        elapsed_ms=12.5,
        completion=None,
        error=ConnectFailed("target 'eu' is gone", target="eu", attempt=0),
        attempts=(),
        lanes=(),
    )
    assert record(result) == {
        "name": "cut",
        "total_ms": 12.5,
        "outcome": "ConnectFailed",
        "stats": {"attempts": []},
    }
