from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from polygateway.wire.reports import error_in, report_in, report_of

if TYPE_CHECKING:
    from polygateway.messages import JSON

# ---- what an error looks like -------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"error": None},
        {"error": {}},
        {"error": ""},
        {"error": False, "message": "all is well"},
        {"choices": [], "message": "m", "code": 1},
        {"message": "m"},
        {"message": "success", "code": 0},
        {"message": {}, "code": 1},
        {"code": 1},
        {"object": "chat.completion.chunk", "type": "ping"},
        {"object": ["error"], "type": {"error": 1}},
    ],
)
def test_these_are_no_errors(value: dict[str, JSON]) -> None:
    assert error_in(value) is None


ERRORS: list[tuple[dict[str, JSON], JSON]] = [
    ({"error": "x", "choices": [{}]}, "x"),
    ({"error": "x", "code": "c"}, {"error": "x", "code": "c"}),  # xAI
    ({"error": "x", "error_type": "t"}, {"error": "x", "error_type": "t"}),  # TGI
    ({"error": {"code": 1}}, {"code": 1}),
    ({"error": 1, "message": "m"}, {"error": 1, "message": "m"}),
    ({"error": [{"message": "m"}]}, {"error": [{"message": "m"}]}),  # Cloudflare
    ({"object": "error"}, {"object": "error"}),
    ({"type": "error", "code": "c"}, {"type": "error", "code": "c"}),
    ({"message": "m", "code": 504}, {"message": "m", "code": 504}),
    (
        {"message": "m", "code": "InvalidParameter"},
        {"message": "m", "code": "InvalidParameter"},
    ),
]


@pytest.mark.parametrize(("value", "error"), ERRORS)
def test_these_are_errors(value: dict[str, JSON], error: JSON) -> None:
    assert error_in(value) == error


# ---- texts and codes ----------------------------------------------------------------------------

INNER = '{"error": {"message": "No.", "code": 503, "status": "UNAVAILABLE"}}'


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ('{"error":{"message":"No.","type":"t","code":"c"}}', "No.", "c"),
        ('{"error":{"message":"No.","type":"t","code":null}}', "No.", "t"),
        ('{"error":{"message":"No.","status":"UNAVAILABLE"}}', "No.", "UNAVAILABLE"),
        ('{"error":{"message":"No.","code":""}}', "No.", ""),
        ('{"error":{"message":"No.","code":429}}', "No.", "429"),
        ('{"error":{"message":"No.","code":429.0}}', "No.", "429"),
        ('{"error":{"message":"No.","code":4.5}}', "No.", ""),
        ('{"error":{"message":"No.","code":NaN}}', "No.", ""),
        ('{"error":{"message":"No.","code":true}}', "No.", ""),
        ('{"error":{"message":"No.","code":[1]}}', "No.", ""),
        ('{"error":{"message":"No.","type":"t","details":{"error_code":"e"}}}', "No.", "e"),
        ('{"type":"error","error":{"message":"No.","type":"t"}}', "No.", "t"),
        ('{"type":"error","message":"No."}', "No.", ""),
        ('{"error":"No."}', "No.", ""),
        ('{"error":"No.","code":"c"}', "No.", "c"),
        ('{"error":"No.","error_type":"t"}', "No.", "t"),
        ('{"error":true,"message":"No."}', "No.", ""),
        ('{"error":{},"message":"No.","code":"c"}', "No.", "c"),
        ('{"object":"error","message":"No.","code":400}', "No.", "400"),
        ('{"message":"No."}', "No.", ""),
        ('{"msg":" No. "}', "No.", ""),
        ('{"error":{"code":7}}', '{"error":{"code":7}}', "7"),
        # In lists, in each other, and in texts
        ('[{"error":{"message":"No."}}]', "No.", ""),  # gemini-cli#6454
        ('{"success":false,"error":[{"code":7,"message":"No."}]}', "No.", "7"),
        ('{"errors":[{"code":7,"message":"No."}]}', "No.", "7"),
        ('{"error":{"message":"outer","error":{"message":"No.","code":"c"}}}', "No.", "c"),
        ('{"error":{"message":"No.","code":"c","error":{"x":1}}}', "No.", "c"),
        (json.dumps({"error": {"message": INNER, "code": 500}}), "No.", "503"),
        (json.dumps({"error": {"message": f"[{INNER}]"}}), "No.", "503"),
        ('{"error":{"message":"{not JSON","code":"c"}}', "{not JSON", "c"),
        ('{"error":{"message":"[]","code":"c"}}', "[]", "c"),
        # FastAPI
        ('{"detail":"Not Found"}', "Not Found", ""),
        ('{"detail":{"error_type":"t","message":"No."}}', "No.", "t"),
        ('{"detail":[{"loc":["body","n",0],"msg":"bad"}]}', "body.n.0: bad", ""),
        ('{"detail":[{"loc":["a"],"msg":"x","input":"i"},{"msg":"y"}]}', "a: x; y", ""),
        ('{"detail":[7]}', '{"detail":[7]}', ""),
        # What is no JSON object
        ("[]", "[]", ""),
        ("7", "7", ""),
        ("null", "null", ""),
        ('"No."', "No.", ""),
        ("upstream connect error", "upstream connect error", ""),
        ('{"error": {"message": "cut', '{"error": {"message": "cut', ""),
        ("", "", ""),
        ("<html>No.</html>", "", ""),
        # Streams
        ('data: {"error":{"message":"No."}}\n\ndata: [DONE]\n\n', "No.", ""),
        ('event: error\r\ndata: {"message":"No."}', "No.", ""),
        ('data: {"id":1}\n\ndata: {"error":{"message":"No."}}\n\n', "No.", ""),
        ('data: {"id":1}\n\ndata: {"id":2}\n\n', 'data: {"id":1}\n\ndata: {"id":2}\n\n', ""),
    ],
)
def test_a_body_is_read_for_its_text_and_its_code(body: str, message: str, code: str) -> None:
    report = report_in(body)
    assert (report.message, report.code) == (message, code)


def test_what_a_gateway_quotes_of_its_provider_is_kept_apart_from_its_own_words() -> None:
    quoted = '{"error":{"message":"too long","code":"c","metadata":{"raw":"at last"}}}'
    report = report_of({"message": "Provider error", "metadata": {"raw": quoted}}, "")
    assert report.text == "Provider error"
    assert report.message == "Provider error: too long: at last"
    assert report.relayed is not None
    assert report.relayed.code == "c"
    assert report_of({"metadata": {"raw": "x"}}, "raw").message == "x"
    assert report_of({"metadata": {"raw": "<html>"}}, "raw").message == ""
    assert report_of({"message": "m", "metadata": {"raw": {"message": "x"}}}, "").message == "m"


def test_the_words_of_an_error_come_the_most_exact_first() -> None:
    error: JSON = {
        "type": "t",
        "code": "c",
        "status": "s",
        "error_type": "e",
        "innererror": {"code": "i"},
        "details": [{"reason": "r"}, {"violations": [{"quotaId": "q"}, {"quotaId": 7}, {}]}],
        "metadata": {"error_type": "m", "reason": "n", "limit_source": "l", "reasons": ["x"]},
        "error": {"code": "inner", "type": "kind"},
    }
    report = report_of(error, "")
    assert report.words == (
        *("inner", "c"),
        *("i", "r", "m", "n", "l", "metadata.reasons"),
        *("kind", "e", "t", "s"),
    )
    assert report.clues == "q"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 503}, 503),
        ({"status_code": 429, "code": 400}, 429),
        ({"status": "UNAVAILABLE", "code": 503}, 503),
        ({"code": 503, "error": {"code": 429}}, 429),
        ({"code": 503, "error": {"code": "x"}}, 503),
        ({"code": 600}, None),
        ({"code": "\uff14\uff12\uff19"}, None),  # digits, but not those of HTTP
    ],
)
def test_an_error_may_have_a_status_in_it(error: JSON, status: int | None) -> None:
    assert report_of(error, "").status == status


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        ({"details": [{"x": 1}, {"retryDelay": "7.5s"}]}, 7.5),
        ({"details": [{"retryDelay": "-7s"}]}, None),
        ({"details": [{"retryDelay": "soon"}, {"retryDelay": "2s"}]}, 2.0),
        ({"details": "7s"}, None),
        ({"metadata": {"retry_after_seconds": 3}}, 3.0),
        ({"metadata": {"retry_after_seconds": -3}}, None),
        ({"error": {"details": [{"retryDelay": "4s"}]}}, 4.0),
        ({}, None),
    ],
)
def test_a_field_may_say_how_long_to_wait(error: JSON, wait_s: float | None) -> None:
    assert report_of(error, "").wait_s == wait_s
