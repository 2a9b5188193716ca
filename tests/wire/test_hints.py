from __future__ import annotations

import math

import pytest

from polygateway.wire.hints import retry_after_s


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2", 2.0),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("10800", 10800.0),
        # What is not a plain decimal is as if it were not there; dates need a clock.
        ("-1", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("1_0", None),
        ("٣", None),
        ("soon", None),
        ("9" * 400, None),
        ("Mon, 01 Jan 99999 00:00:00 GMT", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", None),
    ],
)
def test_retry_after_counts_as_seconds_when_it_is_a_plain_decimal(
    value: str, seconds: float | None
) -> None:
    assert retry_after_s({"retry-after": value}, "") == seconds


# The texts are the providers': OpenAI and Groq (Aider-AI/aider#3265, Fabric#364), Azure
# (microsoft/action-python#12), Gemini.
@pytest.mark.parametrize(
    ("text", "seconds"),
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
        ("retry in 2 minutes", 120.0),
        ("RETRY AFTER 3 HOURS", 10800.0),
        ("try again in 5 min", 300.0),
        ("try again in 3 milliseconds", 0.003),
        ("Please try again later.", None),
        ("try again in a minute", None),
        ("try again in 5 moons", None),
        ("try again in 5", None),
        ("in 5 seconds", None),
        ("try again in " + "9" * 400 + "s", None),
        ("", None),
    ],
)
def test_prose_tells_how_long_to_wait(text: str, seconds: float | None) -> None:
    wait = retry_after_s({}, text)
    assert (wait is None) == (seconds is None)
    assert math.isclose(wait or 0.0, seconds or 0.0)


def test_milliseconds_beat_seconds_and_both_beat_prose() -> None:
    headers = {"retry-after-ms": "5800", "retry-after": "6"}
    assert retry_after_s(headers, "try again in 9s") == 5.8
    assert retry_after_s({"retry-after": "6"}, "try again in 9s") == 6.0
    assert retry_after_s({"retry-after-ms": "x", "retry-after": "x"}, "try again in 9s") == 9.0
    assert retry_after_s({"retry-after-ms": "0", "retry-after": "6"}, "") == 0.0


def test_the_time_to_a_full_bucket_is_no_hint() -> None:
    assert retry_after_s({"x-ratelimit-reset-requests": "6m0s"}, "") is None
