"""What a call leaves in the application's log."""

from __future__ import annotations

import logging
from textwrap import dedent

import pytest

from polygateway.logs import LOGGER, LoggingInstrument
from tests.observe.scenes import PROMPT, SCENES, show

OURS = logging.getLogger("tests.logs")

LINES = {
    "rescued": """
        call N: attempt 1, a hedge at 'us' because of a stall
        call N: attempt 0 at 'eu' was silent for 5.10 s after chunk 3 (server_silence), and ended in
            it
        call N 'm': complete in 6.10 s, first content after 5.70 s, 5 chunks, 5 output tokens,
            at least 10.2 tokens/s; primary 'eu' lost, hedge 'us' won
    """,
    "stalled": """
        call N: attempt 0 at 'eu' was silent for 3.00 s after chunk 8 (server_silence)
        call N 'm': complete in 4.10 s, first content after 0.10 s, 12 chunks, stalled for 3.00 s,
            120 output tokens, at least 29.0 tokens/s; primary 'eu' won
    """,
    "refused": """
        call N: no hedge because of a late first content: max_attempts
        call N 'm': complete in 6.00 s, first content after 6.00 s, 2 chunks, 2 output tokens;
            primary 'eu' won
    """,
    "failed": """
        call N: attempt 1, a retry at 'us'
        call N 'm': failed after 0.00 s with AuthenticationFailed (auth), 0 chunks;
            primary 'eu' failed (rate_limited, HTTP 429), retry 'us' failed (auth, HTTP 401)
    """,
    "unreachable": """
        call N 'm': failed after 0.00 s with ConnectFailed (transient), 0 chunks;
            primary 'eu' failed (transient)
    """,
    "cut": """
        call N: attempt 0 at 'eu' was silent for 2.50 s after chunk 2 (disconnect), and ended in it
        call N 'm': failed after 2.70 s with StreamBroken (transient), first content after 0.10 s,
            2 chunks; primary 'eu' failed (transient, HTTP 200)
    """,
    "duel": """
        call N: attempt 1, a hedge at 'us' because of a stall
        call N: attempt 0 at 'eu' was silent for 5.90 s after chunk 1 (server_silence), and ended in
            it
        call N 'm': cancelled after 6.00 s, first content after 0.10 s, 1 chunk;
            primary 'eu' cancelled, hedge 'us' cancelled
    """,
    "document": """
        call N 'm': complete in 1.00 s, 1 chunk, 2 output tokens; primary 'eu' won
    """,
    "restarted": """
        call N: attempt 0 at 'eu' was silent for 2.50 s after chunk 2 (disconnect), and ended in it
        call N: attempt 1, a retry at 'us'
        call N: attempt 1 takes over from attempt 0, and begins anew: what was delivered is to be
            discarded (9 characters)
        call N 'm': complete in 3.00 s, first content after 2.80 s, 3 chunks, 1 seam,
            3 output tokens, at least 11.0 tokens/s; primary 'eu' failed (transient, HTTP 200),
            retry 'us' won
    """,
    "continued": """
        call N: attempt 1, a hedge at 'us' because of a stall
        call N: attempt 0 at 'eu' was silent for 5.10 s after chunk 2 (server_silence), and ended in
            it
        call N: attempt 1 takes over from attempt 0, and goes on where that one stopped
            (9 characters)
        call N 'm': complete in 5.40 s, first content after 5.30 s, 2 chunks, 1 seam,
            2 output tokens; primary 'eu' lost, hedge 'us' won
    """,
    "held out": """
        call N: attempt 0 at 'eu' was silent for 8.00 s after chunk 1 (server_silence)
        call N 'm': complete in 8.10 s, first content after 0.10 s, 2 chunks, stalled for 8.00 s,
            2 output tokens, at least 0.1 tokens/s; primary 'eu' won
    """,
    "left": """
        call N 'm': cancelled after 0.50 s, first content after 0.50 s, 1 chunk;
            primary 'eu' cancelled
    """,
}


def lines(text: str) -> list[str]:
    """Give the lines of a text in which those that go on are indented more."""
    return dedent(text).replace("\n    ", " ").split("\n")[1:-1]


@pytest.mark.parametrize("name", SCENES)
def test_a_call_is_one_line_and_so_is_all_that_was_unusual(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, OURS.name):
        shown = show(name, LoggingInstrument(OURS))
    records = [record for record in caplog.records if record.name == OURS.name]
    assert {record.levelno for record in records} == {logging.INFO}
    number = f"call {shown.event.call}"
    assert [record.message.replace(number, "call N") for record in records] == lines(LINES[name])


@pytest.mark.parametrize("name", SCENES)
def test_no_line_holds_what_was_asked_even_if_a_provider_repeats_it(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        show(name, LoggingInstrument())
    assert caplog.records
    assert PROMPT not in caplog.text


def test_an_error_quotes_what_its_provider_repeats_and_the_log_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        shown = show("failed")
    assert PROMPT in str(shown.event.error)
    assert PROMPT not in caplog.text


def test_a_logger_that_is_not_enabled_for_info_gets_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, OURS.name):
        show("rescued", LoggingInstrument(OURS))
    assert OURS.name not in loggers(caplog)


def loggers(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.name for record in caplog.records]


def test_a_gateway_logs_by_itself_when_polygateway_is_enabled_for_info(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "polygateway"):
        show("left")
    assert loggers(caplog) == ["polygateway"]


def test_a_gateway_logs_nothing_when_polygateway_is_not_enabled_for_info(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "polygateway"):
        show("rescued")
    assert loggers(caplog) == []


def test_a_gateway_that_is_given_another_logger_writes_to_that_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        show("left", LoggingInstrument(OURS))
    assert loggers(caplog) == [OURS.name]


def test_an_instrument_writes_to_polygateway_unless_told_otherwise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert LOGGER.name == "polygateway"
    with caplog.at_level(logging.INFO, "polygateway"):
        show("left", LoggingInstrument())
    assert loggers(caplog) == ["polygateway"]
