"""What a probe can be told, and what it refuses before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway import ConfigurationError, Limits
from polygateway.cli.probing.options import How, Where

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = """
[targets]
eu = { dialect = "openai-chat", base_url = "https://eu.invalid/v1", model = "x" }
us = { dialect = "openai-chat", base_url = "https://us.invalid/v1", model = "y", prefill = true }
spare = { dialect = "openai-chat", base_url = "https://spare.invalid/v1", model = "z" }
[models]
m = ["eu", "us"]
[hedge]
after_s = 1
[retry]
max_retries = 5
[stream]
stall_threshold_ms = 500
recovery = "continue"
hold_back_s = 1
"""
LIMITS = Limits()
URL = "https://api.invalid/v1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(CONFIG, "utf-8")
    return file


# ---------------------------------------------------------------- where


def test_every_configured_target_is_measured_by_itself(path: Path) -> None:
    config = Where(config=path).configuration()
    assert config.models == {"eu": ("eu",), "us": ("us",), "spare": ("spare",)}
    assert config.targets["us"].model == "y"


def test_nothing_is_hedged_retried_or_recovered_and_the_rest_is_as_configured(path: Path) -> None:
    config = Where(config=path).configuration()
    assert not config.hedge.enabled
    assert config.retry.max_retries == 0
    assert (config.stream.recovery, config.stream.hold_back_s) == ("raise", 0)
    assert config.stream.stall_threshold_ms == 500


def test_the_targets_can_be_chosen(path: Path) -> None:
    config = Where(config=path, target=("us", "eu", "us")).configuration()
    assert list(config.models) == ["us", "eu"]
    assert list(config.targets) == ["us", "eu"]


def test_a_target_that_is_not_configured_is_refused_with_the_nearest(path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'sprae' is not configured \(nearest: spare\)"):
        Where(config=path, target=("sprae",)).configuration()


def test_the_configuration_is_the_one_that_the_environment_names(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYGATEWAY_CONFIG", str(path))
    assert "spare" in Where().configuration().models


def test_a_base_url_needs_no_configuration() -> None:
    config = Where(base_url=URL, model="lyra-3", api_key_env="API_KEY").configuration()
    assert config.models == {"lyra-3": ("lyra-3",)}
    target = config.targets["lyra-3"]
    assert (target.base_url, target.model, target.dialect, target.api_key_env) == (
        URL,
        "lyra-3",
        "openai-chat",
        "API_KEY",
    )
    assert Where(base_url=URL, model="lyra-3").configuration().targets["lyra-3"].api_key_env is None


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (Where(base_url=URL), "--base-url needs --model"),
        (Where(base_url=URL, model="x", target=("eu",)), "--base-url does without"),
        (Where(model="x"), "--model is only for what --base-url names"),
        (Where(dialect="openai-chat"), "--dialect is only for"),
        (Where(api_key_env="KEY"), "--api-key-env is only for"),
        (Where(base_url=URL, model="x", dialect="morse"), "dialect must be 'openai-chat'"),
        (Where(base_url="nowhere", model="x"), "base_url must be like"),
        (Where(base_url="http://api.invalid", model="x", api_key_env="KEY"), "in clear"),
        (Where(base_url=URL, model=""), "a name is a string that is not empty"),
    ],
)
def test_what_contradicts_itself_or_leads_nowhere_is_refused(where: Where, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        where.configuration()


def test_a_base_url_and_a_configuration_are_one_too_many(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--base-url does without a configuration"):
        Where(base_url=URL, model="x", config=path).configuration()


# ---------------------------------------------------------------- how


def test_without_a_word_one_request_runs_at_a_time_after_one_for_warm_up() -> None:
    plan = How().plan(LIMITS)
    assert (plan.requests, plan.warmup, plan.slots, plan.rate) == (20, 1, 1, None)
    assert plan.options == {"max_tokens": 128, "deadline_s": 300.0}


def test_what_runs_at_once_is_warmed_up_at_once_unless_told_otherwise() -> None:
    assert How(concurrency=8).plan(LIMITS).warmup == 8
    assert How(concurrency=8, warmup=2).plan(LIMITS).warmup == 2
    assert How(warmup=0).plan(LIMITS).warmup == 0


def test_a_rate_has_as_many_slots_as_the_gateway_has_connections_or_as_told() -> None:
    most = Limits(max_connections_per_target=50)
    assert How(rate=5.0).plan(most).slots == 50
    assert How(rate=5.0, concurrency=3).plan(most).slots == 3
    assert How(rate=5.0).plan(most).warmup == 1


def test_more_at_once_than_connections_are_allowed_would_measure_the_wait_for_them() -> None:
    most = Limits(max_connections_per_target=50)
    with pytest.raises(ConfigurationError, match=r"concurrency \(51\) is over .* \(50\)"):
        How(concurrency=51).plan(most)


@pytest.mark.parametrize(
    "made",
    [
        lambda: How(requests=0),
        lambda: How(warmup=-1),
        lambda: How(concurrency=0),
        lambda: How(rate=0.0),
        lambda: How(rate=float("nan")),
        lambda: How(prompt=" ").plan(LIMITS),
        lambda: How(max_tokens=0).plan(LIMITS),
        lambda: How(deadline=0.0).plan(LIMITS),
    ],
)
def test_what_no_probe_can_do_is_refused(made: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        made()
