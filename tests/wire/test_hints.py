from __future__ import annotations

import math
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from polygateway.wire.hints import duration_s, retry_after_s, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway.messages import JSON

NOW_S = 784_111_770.0  # Sun, 06 Nov 1994 08:49:30 GMT


def wait(headers: Mapping[str, str], text: str = "", told_s: float | None = None) -> float | None:
    return retry_after_s(headers, told_s, text, now_s=NOW_S)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2", 2.0),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("10800", 10800.0),
        ("2, 3", 2.0),  # it came twice
        # The three forms of RFC 9110, section 5.6.7
        ("Sun, 06 Nov 1994 08:49:37 GMT", 7.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 7.0),
        ("Sun Nov  6 08:49:37 1994", 7.0),
        ("Sun, 06 Nov 1994 09:49:37 +0100", 7.0),
        ("Sun, 06 Nov 1994 08:48:30 GMT", 0.0),  # past
        # What is neither is as if it were not there.
        ("-1", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("1_0", None),
        ("٣", None),
        ("soon", None),
        ("9" * 400, None),
        ("5 s", None),
        ("Mon, 01 Jan 99999 00:00:00 GMT", None),
        ("Sun, 06 Nov 1994", None),
        ("1994-11-06T08:49:37Z", None),
    ],
)
def test_retry_after_is_a_plain_decimal_or_a_date(value: str, expected: float | None) -> None:
    assert wait({"retry-after": value}) == expected


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_a_date_without_a_zone_is_no_local_time(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    assert wait({"retry-after": "Sun Nov  6 08:49:37 1994"}) == 7.0


def test_a_date_counts_from_when_the_response_was_sent_by_the_clock_that_made_it() -> None:
    date = "Sun, 06 Nov 1994 20:00:05 GMT"
    assert wait({"retry-after": date, "date": "Sun, 06 Nov 1994 20:00:00 GMT"}) == 5.0
    assert wait({"retry-after": date, "date": "Sun, 06 Nov 1994 20:00:09 GMT"}) == 0.0
    for unusable in ("", "today", "Sun, 06 Nov 99999 20:00:00 GMT"):
        assert wait({"retry-after": date, "date": unusable}) == 40235.0


@given(st.integers(0, 4_000_000_000))
def test_every_date_that_can_be_written_is_understood(at_s: int) -> None:
    assert wait({"retry-after": formatdate(at_s, usegmt=True)}) == max(0.0, at_s - NOW_S)


@given(st.text(st.characters(), max_size=20) | st.from_regex(r"\w{3}, \d+ Nov \d+ [\d:.+]+ \w+"))
def test_no_header_is_too_strange(value: str) -> None:
    found = wait({"retry-after": value, "retry-after-ms": value, "date": value})
    assert found is None or 0 <= found < math.inf


# The texts are the providers': OpenAI and Groq (Aider-AI/aider#3265, Fabric#364), Azure
# (microsoft/action-python#12), Gemini, GitHub Models.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rate limit reached. Please try again in 1.5s.", 1.5),
        ("Please try again in 50.597142857s. Visit https://example.invalid", 50.597142857),
        ("Please try again in 20ms.", 0.02),
        ("Please try again in 6m0s.", 360.0),
        ("please try again in 1m26.4s", 86.4),
        ("Try again in 1h2m3s500ms", 3723.5),
        ("Please retry after 6 seconds.", 6.0),
        ("Please retry after 1 second", 1.0),
        ("Please retry in 7.5s.", 7.5),
        ("Please retry in 14h3m2.5s.", 50582.5),
        ("Please wait 46 seconds before retrying.", 46.0),
        ("Your quota will reset after 50m28s.", 3028.0),
        ("Try again in about 5 days 3 hours.", 442800.0),
        ("try again in 1 minute, 2 seconds", 62.0),
        ("try again in 1 hr and 2 mins", 3720.0),
        ("retry in 2 minutes", 120.0),
        ("RETRY AFTER 3 HOURS", 10800.0),
        ("try again in 5 min", 300.0),
        ("try again in 3 milliseconds", 0.003),
        ("Try again in a while. Retry after 4s.", 4.0),
        ("Please try again later.", None),
        ("Please wait a moment and try again. It took 5 seconds.", None),
        ("try again in a minute", None),
        ("try again in 5 moons", None),
        ("try again in 5", None),
        ("try again in -5s", None),
        ("in 5 seconds", None),
        ("The connection was reset after 30 seconds.", None),
        ("Entry in 5 seconds", None),
        ("try again in " + "9" * 400 + "s", None),
        ("", None),
    ],
)
def test_prose_tells_how_long_to_wait(text: str, expected: float | None) -> None:
    found = wait({}, text)
    assert (found is None) == (expected is None)
    assert math.isclose(found or 0.0, expected or 0.0)


def test_the_most_exact_hint_counts() -> None:
    headers = {"retry-after-ms": "5800", "retry-after": "6"}
    assert wait(headers, "try again in 9s", 7.0) == 5.8
    assert wait({"retry-after": "6"}, "try again in 9s", 7.0) == 6.0
    assert wait({}, "try again in 9s", 7.0) == 7.0
    assert wait({"retry-after-ms": "x", "retry-after": "x"}, "try again in 9s") == 9.0
    assert wait({"retry-after-ms": "0", "retry-after": "6"}) == 0.0
    assert wait({"retry-after": "0"}, "try again in 9s", 7.0) == 0.0
    assert wait({}, "try again in 9s", 0.0) == 0.0


# Azure sends -1 and 0 there; elsewhere it is long after the next request would be taken.
@pytest.mark.parametrize(
    "headers",
    [
        {"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"},
        {"x-ratelimit-reset-tokens": "0", "x-ratelimit-limit-tokens": "-1"},
        {"x-ratelimit-reset-tokens": "-1"},
        {"x-ratelimit-reset": "784111777000"},
        {"anthropic-ratelimit-requests-reset": "1994-11-06T08:49:37Z"},
    ],
)
def test_the_time_to_a_full_bucket_is_no_hint(headers: dict[str, str]) -> None:
    assert wait(headers) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7.5s", 7.5),
        ("0s", 0.0),
        ("0.000000001s", 1e-9),
        ("-1s", None),
        ("7.5", None),
        ("7m", None),
        ("s", None),
        (" 7s", None),
        ("9" * 400 + "s", None),
        (7, None),
        (None, None),
    ],
)
def test_a_duration_is_a_decimal_with_its_unit(value: JSON, expected: float | None) -> None:
    assert duration_s(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (0.5, 0.5),
        (0, 0.0),
        (-1, None),
        (math.nan, None),
        (math.inf, None),
        (10**400, None),
        (True, None),
        ("3", None),
        (None, None),
    ],
)
def test_a_number_of_seconds_can_be_waited(value: JSON, expected: float | None) -> None:
    assert seconds(value) == expected


def test_a_hint_is_not_looked_for_in_megabytes() -> None:
    assert wait({}, "retry in " * 10_000 + "retry in 5s") is None
