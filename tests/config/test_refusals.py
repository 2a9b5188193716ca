"""One mistake at a time: what is refused, and what the line about it says."""

from __future__ import annotations

import datetime
import math

import pytest

from polygateway.config import load_config
from polygateway.policies import WeightedTarget
from tests.config.examples import CANARY, minimal, one_target, target, told

SECONDS = "a number at least 0.001 and at most 1,000,000,000"
SILENCE = f"{SECONDS} or 'auto'"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (
            minimal(hedge={"after_s": "3"}),
            f"hedge.after_s must be {SILENCE}, not '3'",
        ),
        (
            minimal(hedge={"after_s": True}),
            f"hedge.after_s must be {SILENCE}, not True",
        ),
        (
            minimal(hedge={"after_s": None}),
            f"hedge.after_s must be {SILENCE}, not None",
        ),
        (
            minimal(hedge={"after_s": 0}),
            f"hedge.after_s must be {SILENCE}, not 0",
        ),
        (
            minimal(hedge={"after_s": math.nan}),
            f"hedge.after_s must be {SILENCE}, not nan",
        ),
        (
            minimal(hedge={"after_s": math.inf}),
            f"hedge.after_s must be {SILENCE}, not inf",
        ),
        (
            minimal(hedge={"after_s": 10**400}),
            f"hedge.after_s must be {SILENCE}, not a number of 1329 bits",
        ),
        (
            minimal(hedge={"after_s": [3]}),
            f"hedge.after_s must be {SILENCE}, not a list of 1",
        ),
        (
            minimal(hedge={"after_s": datetime.date(2026, 1, 1)}),
            f"hedge.after_s must be {SILENCE}, not a date",
        ),
        (
            minimal(hedge={"max_attempts": 6}),
            "hedge.max_attempts must be a whole number at least 1 and at most 5, not 6",
        ),
        (
            minimal(hedge={"max_attempts": 2.0}),
            "hedge.max_attempts must be a whole number at least 1 and at most 5, not 2.0",
        ),
        (
            minimal(hedge={"stall_after_s": "Auto"}),
            f"hedge.stall_after_s must be {SILENCE}, not 'Auto'",
        ),
        (
            minimal(hedge={"holdout": 5}),
            "hedge.holdout must be a number at least 0 and at most 1, not 5",
        ),
        (
            minimal(hedge={"budget_tokens_per_hour": 2e6}),
            "hedge.budget_tokens_per_hour must be a whole number at least 0, not 2000000.0",
        ),
        (
            minimal(stream={"recovery": "continue or restart"}),
            (
                "stream.recovery must be 'raise' or 'restart' or 'continue' or"
                " 'continue-or-restart', not 'continue or restart'"
            ),
        ),
        (
            minimal(stream={"hold_back_s": "auto"}),
            "stream.hold_back_s must be a number at least 0 and at most 1,000,000,000, not 'auto'",
        ),
        (
            minimal(limits={"idle_timeout_s": -1}),
            "limits.idle_timeout_s must be a number at least 0 and at most 1,000,000,000, not -1",
        ),
        (
            minimal(limits={"connection_lifetime_s": 0}),
            f"limits.connection_lifetime_s must be {SECONDS}, not 0",
        ),
        (minimal(hedge={"enabled": 1}), "hedge.enabled must be true or false, not 1"),
        (
            minimal(hedge={"winner": "first"}),
            "hedge.winner must be 'first-delivered' or 'first-complete', not 'first'",
        ),
        (
            minimal(stream={"stall_threshold_ms": 0}),
            (
                "stream.stall_threshold_ms must be a number at least 1e-06"
                " and at most 1,000,000,000,000, not 0"
            ),
        ),
        (
            minimal(limits={"max_body_bytes": "16 MiB"}),
            "limits.max_body_bytes must be a whole number at least 1, not '16 MiB'",
        ),
        (minimal(hedge=5), "hedge must be a table, not 5"),
        (minimal(targets={"eu": "x"}, models={"m": ["eu"]}), "targets.eu must be a table, not 'x'"),
        (minimal(models={}), "models must be a table of at least one model, not a table of 0"),
        (minimal(models=["eu"]), "models must be a table of at least one model, not a list of 1"),
        (
            minimal(models={"fast": "eu"}),
            "models.fast must be a list of at least one target's name, not 'eu'",
        ),
        (
            minimal(models={"fast": []}),
            "models.fast must be a list of at least one target's name, not a list of 0",
        ),
        (minimal(models={"fast": ["eu", "eu"]}), "models.fast[1] names 'eu' a second time"),
        (
            minimal(models={"fast": ["EU1"]}),
            "models.fast[0] must be the name of a target (nearest: eu), not 'EU1'",
        ),
        (
            minimal(models={"fast": ["mars"]}),
            "models.fast[0] must be the name of a target (known: eu), not 'mars'",
        ),
        (
            minimal(models={"fast": [7]}),
            "models.fast[0] must be the name of a target (known: eu), not 7",
        ),
        (
            minimal(models={"gpt-4.1": ["mars"]}),
            "models.'gpt-4.1'[0] must be the name of a target (known: eu), not 'mars'",
        ),
        (
            minimal(models={" ": ["eu"]}),
            "models has the name ' '; a name is a string that is not empty",
        ),
        (
            minimal(targets={"eu": target(), "": target()}),
            "targets has the name ''; a name is a string that is not empty",
        ),
        (
            minimal(retry={"backoff_base_s": 9}),
            "retry.backoff_max_s (8) is under backoff_base_s (9)",
        ),
        (
            one_target(model=""),
            "targets.eu.model must be a string that is not empty, not ''",
        ),
        (
            one_target(model=3),
            "targets.eu.model must be a string that is not empty, not 3",
        ),
        (
            one_target(dialect="openai"),
            (
                "targets.eu.dialect must be 'openai-chat' or 'openai-responses' or 'anthropic'"
                " or 'gemini' or 'ollama', not 'openai'"
            ),
        ),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_place_and_what_is_allowed(
    data: dict[str, object], line: str
) -> None:
    assert told(data) == [line]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (minimal(hedges={}), "hedges is no setting (nearest: hedge)"),
        (minimal(hedge={"after": 3}), "hedge.after is no setting (nearest: after_s)"),
        (minimal(stream={"holdback": 3}), "stream.holdback is no setting (nearest: hold_back_s)"),
        (
            one_target(client_cert="/c.pem"),
            "targets.eu.client_cert is no setting (nearest: client_cert_file)",
        ),
        (
            minimal(models={"fast": [{"target": "eu", "weight": 1, "wait": 2}]}),
            "models.fast[0].wait is no setting (nearest: weight)",
        ),
        (
            minimal(hedge={"Max-Attempts": 3}),
            "hedge.Max-Attempts is no setting (nearest: max_attempts)",
        ),
        (
            one_target(base_uri="x"),
            "targets.eu.base_uri is no setting (nearest: base_url)",
        ),
        (
            minimal(retry={"zzz": 1}),
            (
                "retry.zzz is no setting (known: backoff_base_s, backoff_max_s, max_retries,"
                " retry_after_max_s, wait_for_target_s)"
            ),
        ),
        (
            minimal(hedge={3: 1}),
            (
                "hedge.3 is no setting (known: after_s, budget_burst, budget_ratio,"
                " budget_tokens_per_hour, enabled, holdout, max_attempts, same_target,"
                " stall_after_s, winner)"
            ),
        ),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest_known_one(
    data: dict[str, object], line: str
) -> None:
    assert told(data) == [line]


def test_targets_that_are_no_table_leave_the_models_without_any() -> None:
    assert told(minimal(targets=5)) == [
        "models.fast[0] must be the name of a target (known: none), not 'eu'",
        "targets must be a table of targets, not 5",
    ]


def test_what_is_missing_is_named() -> None:
    assert told({}) == ["models is missing", "targets is missing"]
    assert told(minimal(targets={"eu": {}})) == [
        "targets.eu.base_url is missing",
        "targets.eu.dialect is missing",
        "targets.eu.model is missing",
    ]


NEVER_ENDING: dict[str, object] = {}
NEVER_ENDING["a"] = NEVER_ENDING

WEIGHT = "a number over 0 and at most 1,000,000"


@pytest.mark.parametrize(
    ("entries", "lines"),
    [
        ([{"target": "eu"}], ["[0].weight is missing"]),
        ([{"weight": 1}], ["[0].target is missing"]),
        ([dict[str, int]()], ["[0].target is missing", "[0].weight is missing"]),
        ([{"target": "eu", "weight": 0}], [f"[0].weight must be {WEIGHT}, not 0"]),
        ([{"target": "eu", "weight": math.nan}], [f"[0].weight must be {WEIGHT}, not nan"]),
        ([{"target": "eu", "weight": "3"}], [f"[0].weight must be {WEIGHT}, not '3'"]),
        (
            [{"target": " ", "weight": 1}],
            ["[0].target must be a string that is not empty, not ' '"],
        ),
        (
            [{"target": 7, "weight": 1}],
            ["[0].target must be a string that is not empty, not 7"],
        ),
        (
            [{"target": "mars", "weight": 1}],
            ["[0] must be the name of a target (known: eu, us), not 'mars'"],
        ),
        (
            [{"target": "eu", "weight": 1}, {"target": "us", "weight": 1}] * 2,
            ["[2] names 'eu' a second time", "[3] names 'us' a second time"],
        ),
        (
            ["eu", {"target": "us", "weight": 1}],
            [" has targets with and without a weight; give every one a weight, or none"],
        ),
        (
            [{"target": "eu", "weight": 1}, 7],
            [
                " has targets with and without a weight; give every one a weight, or none",
                "[1] must be the name of a target (known: eu, us), not 7",
            ],
        ),
        ({"eu": 3, "us": 1}, [" must be a list of at least one target's name, not a table of 2"]),
        (
            [WeightedTarget(target="eu", weight=1)],
            ["[0] must be the name of a target (known: eu, us), not a WeightedTarget"],
        ),
    ],
)
def test_a_target_with_a_weight_is_a_table_of_both(entries: object, lines: list[str]) -> None:
    data = {"targets": {"eu": target(), "us": target()}, "models": {"fast": entries}}
    assert told(data) == [f"models.fast{line}" for line in lines]


def test_all_that_is_wrong_with_the_targets_of_a_model_is_told_at_once() -> None:
    entries = [
        *({"target": "eu", "weight": math.nan}, {"target": "eu", "wait": 1}, {"weight": 2}),
        *("us", {"target": "mars", "weight": -1}),
    ]
    data = {"targets": {"eu": target(), "us": target()}, "models": {"fast": entries, "slow": []}}
    assert told(data) == [
        "models.fast has targets with and without a weight; give every one a weight, or none",
        "models.fast[1] names 'eu' a second time",
        "models.fast[4] must be the name of a target (known: eu, us), not 'mars'",
        f"models.fast[0].weight must be {WEIGHT}, not nan",
        "models.fast[1].wait is no setting (nearest: weight)",
        "models.fast[1].weight is missing",
        "models.fast[2].target is missing",
        f"models.fast[4].weight must be {WEIGHT}, not -1",
        "models.slow must be a list of at least one target's name, not a list of 0",
    ]


def test_a_stream_cannot_be_continued_if_no_target_can() -> None:
    assert told(minimal(stream={"recovery": "continue"})) == [
        "stream.recovery is 'continue', but no target of any model has prefill"
    ]


def test_whether_a_stream_can_be_continued_is_judged_when_all_else_is_right() -> None:
    data = minimal(stream={"recovery": "continue", "hold_back_s": -1})
    assert [line.split(" ")[0] for line in told(data)] == ["stream.hold_back_s"]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"proxy": f"http://user:{CANARY}@proxy.example:3128"},
            (
                "proxy must be like http://host:port, without login or path, or 'direct'"
                " (what it holds is not shown)"
            ),
        ),
        (
            {
                "base_url": "http://127.0.0.1:1",
                "api_key_env": "EU_KEY",
                "proxy": "http://proxy.example:3128",
            },
            "proxy: the key would reach the proxy in clear; base_url must be https",
        ),
        (
            {"prefill": "yes"},
            (
                "prefill must be true, false or a table that is not empty"
                " (what it holds is not shown)"
            ),
        ),
        (
            {"prefill": {"stream": False}},
            "prefill may not set 'stream', which polygateway decides",
        ),
        (
            {"dialect": "openai-responses", "prefill": True},
            "prefill: with openai-responses an answer that was begun cannot be continued",
        ),
        (
            {"client_key_file": "/k.pem"},
            "client_key_file is of no use without client_cert_file",
        ),
    ],
)
def test_what_a_targets_other_settings_may_hold(fields: dict[str, object], line: str) -> None:
    assert told(one_target(**fields)) == [f"targets.eu.{line}"]


@pytest.mark.parametrize("proxy", ["http://proxy.example:3128", None])
def test_a_rule_about_a_targets_two_fields_waits_until_the_other_is_right(
    proxy: str | None,
) -> None:
    fields = {"base_url": "nowhere", "dialect": "morse", "client_cert_file": ""}
    more = {"api_key_env": "EU_KEY", "proxy": proxy, "prefill": True, "client_key_file": "/k.pem"}
    assert [line.split(" ")[0] for line in told(one_target(**fields, **more))] == [
        "targets.eu.base_url",
        "targets.eu.client_cert_file",
        "targets.eu.dialect",
    ]


@pytest.mark.parametrize("name", ["api_key", "key", "token", "API-KEY", "bearer_token"])
def test_a_key_in_a_file_is_refused_and_not_shown(name: str) -> None:
    (line,) = told(minimal(targets={"eu": target(**{name: CANARY})}))
    assert line == (
        f"targets.eu.{name}: a file never holds a key; name its variable with api_key_env"
    )


@pytest.mark.parametrize(
    "base_url",
    [
        "https://a..b/v1",
        f"https://{'a' * 64}.invalid/v1",
        "example.invalid/v1",
        "ftp://example.invalid",
        "https://",
        "https://:443/v1",
        "https://example.invalid/v1?key=x",
        "https://example.invalid/v1?",
        "https://example.invalid/v1#top",
        f"https://user:{CANARY}@example.invalid/v1",
        "https://@example.invalid",
        "https://example.invalid:0/v1",
        "https://example.invalid:99999/v1",
        "https://example.invalid:x/v1",
        "https://[::1/v1",
        "https://example.invalid/v1\n",
        " https://example.invalid/v1",
        "https://exa\tmple.invalid/v1",
        "https://exämple.invalid/v1",
        "https:\\\\example.invalid\\v1",
        "",
        5,
        None,
        [CANARY],
    ],
)
def test_a_base_url_that_cannot_be_one_is_refused_and_not_shown(base_url: object) -> None:
    (line,) = told(one_target(base_url=base_url))
    assert line == (
        "targets.eu.base_url must be like https://host/path, without query, fragment, login or"
        " blanks (what it holds is not shown)"
    )


@pytest.mark.parametrize(
    "base_url",
    [
        "https://example.invalid",
        "HTTPS://Example.Invalid:8443/v1/",
        "http://127.0.0.1:8080/v1",
        "http://[::1]:8080",
        "http://localhost:11434/v1",
        "http://models.localhost",
    ],
)
def test_a_key_may_go_over_tls_and_to_this_machine(base_url: str) -> None:
    data = one_target(base_url=base_url, api_key_env="EU_KEY")
    assert load_config(data).targets["eu"].base_url == base_url


@pytest.mark.parametrize(
    "base_url", ["http://example.invalid/v1", "http://10.0.0.1", "http://127.0.0.1.example.invalid"]
)
def test_a_key_never_goes_over_plain_http_to_another_machine(base_url: str) -> None:
    (line,) = told(one_target(base_url=base_url, api_key_env="EU_KEY"))
    assert line == (
        "targets.eu.api_key_env: the key would cross the network in clear; base_url must be https,"
        " or http to a loopback host"
    )
    load_config(one_target(base_url=base_url))


@pytest.mark.parametrize(
    ("headers", "lines"),
    [
        (CANARY, [" must be a table of names and values (what it holds is not shown)"]),
        (
            {"x-team": 3},
            [
                (
                    "['x-team'] must be a string of visible ASCII characters, without blanks around"
                    " it (what it holds is not shown)"
                )
            ],
        ),
        (
            {"x-a": f"{CANARY}\r\nx-b: 1", "x-c": f" {CANARY}", "x-d": f"{CANARY}é"},
            [
                f"['{name}'] must be a string of visible ASCII characters, without blanks around"
                " it (what it holds is not shown)"
                for name in ("x-a", "x-c", "x-d")
            ],
        ),
        (
            {f"Authorization: Bearer {CANARY}": ""},
            [" has 'Authorization' with something after it, which is no header name"],
        ),
        ({"": "x"}, [" has something, which is no header name"]),
        ({3: "x"}, [" has something, which is no header name"]),
        ({"Content-Length": "3"}, [" has 'Content-Length', which the connection sets"]),
        ({"host": "x"}, [" has 'host', which the connection sets"]),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_without_their_values(
    headers: object, lines: list[str]
) -> None:
    assert told(one_target(headers=headers)) == [f"targets.eu.headers{line}" for line in lines]


def test_headers_may_be_empty_and_hold_blanks_inside() -> None:
    headers = {"x-empty": "", "x-inside": "a b\tc"}
    config = load_config(one_target(headers=headers))
    assert config.targets["eu"].headers == headers


@pytest.mark.parametrize(
    ("extra", "lines"),
    [
        (CANARY, [" must be a table of names and values (what it holds is not shown)"]),
        (
            {"stream": False, "n": 2, "model": "x", "messages": [], "top_k": 5},
            [
                f" may not set '{name}', which polygateway decides"
                for name in ("messages", "model", "n", "stream")
            ],
        ),
        (
            {
                "a": {"b": [1, datetime.date(2026, 1, 1)]},
                "c": math.nan,
                "d": {CANARY},
                "e": f"{CANARY}\ud800",
            },
            [
                f"{place} must be something that JSON can say: no date, nan, inf or half a"
                " surrogate pair"
                " (what it holds is not shown)"
                for place in ("['a']['b'][1]", "['c']", "['d']", "['e']")
            ],
        ),
        ({"a": {5: 1}}, ["['a'] has the name 5, which is no string"]),
        (NEVER_ENDING, [" is nested too deeply, or holds itself"]),
    ],
)
def test_extra_must_be_json_and_leave_the_gateway_its_own_fields(
    extra: object, lines: list[str]
) -> None:
    assert told(one_target(extra=extra)) == [f"targets.eu.extra{line}" for line in lines]


@pytest.mark.parametrize("name", [CANARY, "EU KEY", "1KEY", "", "CLÉ", 5])
def test_what_is_no_variables_name_may_be_the_key_itself_and_is_not_shown(name: object) -> None:
    (line,) = told(one_target(api_key_env=name))
    assert line == (
        "targets.eu.api_key_env must be the name of an environment variable: letters, digits and"
        " underscores (what it holds is not shown)"
    )
