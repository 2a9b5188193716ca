"""Opening, leaving, and what is refused before anything is sent."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, cast

import attrs
import pytest
import trio

from polygateway import (
    CallOptions,
    ConfigurationError,
    Gateway,
    GatewayClosed,
    HedgePolicy,
    RetryPolicy,
    StreamPolicy,
    Target,
    open_gateway,
)
from polygateway.instrument import Instrument
from polygateway.testing import (
    ScriptedProvider,
    answer,
    chunk,
    hang,
    headers,
    page,
    run_virtual,
    serve_memory,
    silence,
    status,
)
from tests.scenario import NO_RETRY, complete, gateway_to

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from polygateway import Message
    from polygateway.instrument import CallEnded, CallStarted
    from polygateway.messages import JSON

CONFIG = {
    "targets": {"eu": {"dialect": "openai-chat", "base_url": "http://eu.invalid/v1", "model": "x"}},
    "models": {"m": ["eu"]},
}

KEYED = {
    "targets": {
        "eu": {
            "dialect": "openai-chat",
            "base_url": "https://eu.invalid/v1",
            "model": "x",
            "api_key_env": "EU_KEY",
        }
    },
    "models": {"m": ["eu"]},
    "retry": {"max_retries": 0},
}


def refused(call: Callable[[Gateway], Awaitable[object]]) -> str:
    """Give the text with which *call* is refused before any I/O."""

    async def main() -> str:
        eu = ScriptedProvider(answer("Once."))
        async with gateway_to({"eu": eu}) as (gw, network):
            with pytest.raises(ConfigurationError) as caught:
                await call(gw)
            assert eu.log == []
            assert network.open_connections == 0
        return str(caught.value)

    return run_virtual(main)


def refused_with(**options: object) -> str:
    """Give the text with which such options are refused, by both methods."""

    async def by_complete(gw: Gateway) -> None:
        await gw.complete("x", model="m", **cast("CallOptions", options))

    async def by_stream(gw: Gateway) -> None:
        async with gw.stream("x", model="m", **cast("CallOptions", options)):
            raise AssertionError("the block must not run")

    text = refused(by_complete)
    assert refused(by_stream) == text
    return text


# What is refused


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    text = refused(lambda gw: gw.complete("x", model="M"))
    assert "'M'" in text
    assert "m" in text


def test_a_model_that_is_no_name_is_refused() -> None:
    refused(lambda gw: gw.complete("x", model=cast("str", ["m"])))


@pytest.mark.parametrize("prompt", ["", "  \n", [], [{}], [{"role": 1}], ["x"], 7, None])
def test_a_prompt_that_says_nothing_is_refused(prompt: object) -> None:
    refused(lambda gw: gw.complete(cast("str", prompt), model="m"))


def test_a_message_with_a_content_of_the_wrong_type_is_refused_with_its_place() -> None:
    messages: list[Message] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": 7},
    ]
    assert "messages[1]['content']" in refused(lambda gw: gw.complete(messages, model="m"))


def test_everybodys_habit_is_told_the_right_method() -> None:
    assert "gw.stream(" in refused_with(stream=True)


BAD_OPTIONS: list[dict[str, object]] = [
    {"temperature": -1},
    {"temperature": "hot"},
    {"temperature": True},
    {"temperature": float("nan")},
    {"top_p": 0},
    {"top_p": 1.1},
    {"max_tokens": 0},
    {"max_tokens": 1.5},
    {"stop": []},
    {"stop": [1]},
    {"stop": ""},
    {"seed": 1.5},
    {"tools": []},
    {"tools": ["x"]},
    {"tool_choice": "auto"},
    {"tool_choice": 7, "tools": [{}]},
    {"response_format": "json"},
    {"reasoning_effort": 7},
    {"extra": {"model": "y"}},
    {"extra": {"messages": []}},
    {"extra": {"stream": False}},
    {"extra": {"n": 2}},
    {"extra": {"x": float("inf")}},
    {"extra": {"x": "\ud800"}},
    {"seed": 10**5000},
    {"headers": {"host": "elsewhere"}},
    {"headers": {"x y": "z"}},
    {"headers": {"x": "a\r\nb"}},
    {"deadline_s": 0},
    {"deadline_s": 1e300},
    {"deadline_s": "soon"},
    {"hedge_policy": {"after_s": 1}},
    {"retry_policy": HedgePolicy()},
    {"stream_policy": RetryPolicy()},
]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=lambda options: next(iter(options)))
def test_an_option_that_cannot_be_meant_is_refused_by_name(options: dict[str, object]) -> None:
    text = refused_with(**options)
    assert any(name in text for name in options)


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    assert "temperature" in refused_with(temprature=0.5)


def test_text_that_is_no_text_is_refused_with_its_place() -> None:
    messages: list[Message] = [{"role": "user", "content": "half a pair: \ud800"}]
    assert "messages" in refused(lambda gw: gw.complete(messages, model="m"))


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: dict[str, JSON] = {}
    for _ in range(500_000):
        deep = {"a": deep}
    for options in ({"extra": deep}, {"response_format": deep}, {"tools": [deep]}):
        assert "nested too deeply" in refused_with(**options)
    with pytest.raises(ConfigurationError, match="extra is nested too deeply"):
        Target(dialect="openai-chat", base_url="https://x.invalid", model="x", extra=deep)


# Opening


def test_outside_trio_the_error_says_so() -> None:
    with pytest.raises(ConfigurationError, match=r"trio\.run"):
        open_gateway(CONFIG).__aenter__().send(None)


def test_a_mapping_of_the_same_shape_as_a_file_is_a_configuration() -> None:
    async def main() -> None:
        async with (
            serve_memory({"eu": ScriptedProvider(answer("Once."))}) as network,
            open_gateway(CONFIG, connect=network.connect) as gw,
        ):
            assert (await gw.complete("x", model="m")).text == "Once."

    run_virtual(main)


def test_a_file_is_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(
        "[targets.eu]\ndialect = 'openai-chat'\nbase_url = 'http://eu.invalid/v1'\nmodel = 'x'\n"
        "[models]\nm = ['eu']\n"
    )

    async def main() -> None:
        async with (
            serve_memory({"eu": ScriptedProvider(answer("Once."))}) as network,
            open_gateway(path, connect=network.connect) as gw,
        ):
            assert (await gw.complete("x", model="m")).text == "Once."

    run_virtual(main)


def test_mistakes_of_the_configuration_are_named_at_the_entry() -> None:
    async def main() -> None:
        with pytest.raises(ConfigurationError, match=r"hedge\.after_s"):
            async with open_gateway({**CONFIG, "hedge": {"after_s": -1}}):
                raise AssertionError("the block must not run")

    run_virtual(main)


def test_a_ca_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    target = {"dialect": "openai-chat", "base_url": "https://x.invalid", "model": "x"}

    async def main(content: str | None) -> str:
        if content is not None:
            path.write_text(content)
        config = {"targets": {"eu": {**target, "ca_file": str(path)}}, "models": {"m": ["eu"]}}
        with pytest.raises(ConfigurationError) as caught:
            async with open_gateway(config):
                raise AssertionError("the block must not run")
        return str(caught.value)

    assert "targets.eu.ca_file" in run_virtual(main, None)
    assert "targets.eu.ca_file" in run_virtual(main, "no certificate")


class Count(Instrument):
    """Counts the calls that have ended."""

    def __init__(self) -> None:
        self.calls = 0

    def call_ended(self, event: CallEnded) -> None:
        self.calls += 1


def test_instruments_are_told_of_the_calls_of_their_gateway_and_of_no_other() -> None:
    async def main() -> None:
        first, second, both = Count(), Count(), Count()
        async with (
            serve_memory({"eu": ScriptedProvider(answer("Once."))}) as network,
            open_gateway(CONFIG, connect=network.connect, instruments=[first, both]) as one,
            open_gateway(CONFIG, connect=network.connect, instruments=iter([second, both])) as two,
        ):
            await one.complete("x", model="m")
            for _ in range(2):
                await two.complete("x", model="m")
        assert (first.calls, second.calls, both.calls) == (1, 2, 3)

    run_virtual(main)


@pytest.mark.parametrize("impostor", [Count, "journal.jsonl", None, object()], ids=type)
def test_what_is_no_instrument_is_named_at_the_entry(impostor: object) -> None:
    async def main() -> None:
        instruments = cast("list[Instrument]", [Count(), impostor])
        with pytest.raises(ConfigurationError, match=re.escape(repr(impostor))):
            async with open_gateway(CONFIG, instruments=instruments):
                raise AssertionError("the block must not run")

    run_virtual(main)


def test_a_gateway_that_was_left_takes_no_calls() -> None:
    async def main() -> None:
        async with serve_memory({"eu": ScriptedProvider(answer("Once."))}) as network:
            async with open_gateway(network.config(), connect=network.connect) as gw:
                pass
            with pytest.raises(GatewayClosed):
                await gw.complete("x", model="m")
            with pytest.raises(GatewayClosed):
                async with gw.stream("x", model="m"):
                    raise AssertionError("the block must not run")

    run_virtual(main)


def test_a_stream_that_is_never_entered_costs_nothing() -> None:
    async def main() -> None:
        eu = ScriptedProvider(answer("Once."))
        async with gateway_to({"eu": eu}) as (gw, _):
            gw.stream("x", model="m")
            assert not gw._calls
        assert eu.log == []

    run_virtual(main)


# What is sent


def test_what_is_sent_is_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EU_KEY", "sk-canary")
    eu = ScriptedProvider(answer("Once."))
    config = {
        "targets": {
            "eu": {
                "dialect": "openai-chat",
                "base_url": "https://eu.invalid:8443/v1/",
                "model": "lyra-3",
                "api_key_env": "EU_KEY",
                "headers": {"x-team": "search"},
                "extra": {"logprobs": True, "top_k": 3},
            }
        },
        "models": {"m": ["eu"]},
    }

    async def main() -> None:
        async with (
            serve_memory({"eu": eu}) as network,
            open_gateway(config, connect=network.connect) as gw,
        ):
            await gw.complete(
                [{"role": "user", "content": "Är du där?"}],
                model="m",
                temperature=0.5,
                max_tokens=9,
                stop="END",
                extra={"top_k": 4},
                headers={"x-call": "7"},
            )

    run_virtual(main)
    request = eu.log[0].request
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["host"] == "eu.invalid:8443"
    assert request.headers["authorization"] == "Bearer sk-canary"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["x-team"] == "search"
    assert request.headers["x-call"] == "7"
    assert json.loads(request.content) == {
        "model": "lyra-3",
        "messages": [{"role": "user", "content": "Är du där?"}],
        "temperature": 0.5,
        "max_tokens": 9,
        "stop": ["END"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "logprobs": True,
        "top_k": 4,
    }


def test_without_a_key_none_is_sent() -> None:
    eu = ScriptedProvider(answer("Once."))

    async def main() -> None:
        async with gateway_to({"eu": eu}) as (gw, _):
            await complete(gw)

    run_virtual(main)
    assert "authorization" not in eu.log[0].request.headers


def test_a_key_that_a_provider_echoes_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EU_KEY", "sk-canary")
    eu = ScriptedProvider(status(401, {"error": {"message": "wrong key sk-canary"}}))

    async def main() -> str:
        async with (
            serve_memory({"eu": eu}) as network,
            open_gateway(KEYED, connect=network.connect) as gw,
        ):
            error = (await complete(gw)).failure
            return f"{error} {error!r} {error.attempts}"

    shown = run_virtual(main)
    assert "wrong key ***" in shown
    assert "canary" not in shown


@pytest.mark.parametrize("before", ["", "x" * 480, "x" * 150])
def test_a_key_whose_echo_is_cut_is_not_shown_in_part(
    before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-Abcdefghijklmnop0123456789QRSTUV"
    monkeypatch.setenv("EU_KEY", key)
    error = {"error": {"message": before + key, "code": key}}
    scripts = [
        status(401, error, headers={"x-request-id": key}),
        page(f"<html>{before}{key}", code=401),
        page(f"<html>{before}{key}"),
    ]

    async def main() -> str:
        async with (
            serve_memory({"eu": ScriptedProvider(*scripts)}) as network,
            open_gateway(KEYED, connect=network.connect) as gw,
        ):
            errors = [(await complete(gw)).failure for _ in scripts]
        return " ".join(f"{each} {vars(each)} {each.attempts}" for each in errors)

    shown = run_virtual(main)
    assert key[:5] not in shown
    assert "***" in shown


def test_an_interrupt_before_the_first_attempt_comes_out_plain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Python raises it between any two instructions of the main task.
    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        async with gateway_to({"eu": ScriptedProvider(answer("Once."))}) as (gw, _):
            monkeypatch.setattr("polygateway.gateway.Race.run", interrupted)
            await gw.complete("x", model="m")

    with pytest.raises(KeyboardInterrupt):
        run_virtual(main)


# What a gateway knows about its calls


def test_the_statistics_of_a_gateway_count_what_has_ended_for_each_target_and_model() -> None:
    async def main() -> None:
        eu = ScriptedProvider([chunk("Once "), hang()], answer("Once ", "upon"))
        us = ScriptedProvider(answer("The ", "tide ", "turns.", every_s=1))
        async with gateway_to({"eu": eu, "us": us}) as (gw, _):
            before = gw.stats()
            assert (before.models["m"].calls, before.targets["eu"].calls) == (0, 0)

            await complete(gw)  # eu falls silent, and us wins
            await complete(gw)
            after = gw.stats()

        assert (before.models["m"].calls, before.targets["eu"].calls) == (0, 0)  # it is a snapshot
        model, eu_stats, us_stats = after.models["m"], after.targets["eu"], after.targets["us"]
        assert (model.calls, eu_stats.calls, us_stats.calls) == (2, 2, 1)
        assert model.outcomes == {"complete": 2, "failed": 0, "cancelled": 0}
        assert eu_stats.attempts["primary"] == {"won": 1, "lost": 1, "failed": 0, "cancelled": 0}
        assert us_stats.attempts["hedge"] == {"won": 1, "lost": 0, "failed": 0, "cancelled": 0}
        assert (model.output_tokens, us_stats.output_tokens) == (5, 3)
        # The loser's stall is its target's, not the call's: the call did not have to wait it out.
        assert (eu_stats.stalls, us_stats.stalls, model.stalls) == (1, 0, 0)

    run_virtual(main)


def test_a_call_that_runs_is_in_no_statistics_and_one_that_fails_or_is_left_is() -> None:
    async def main() -> None:
        eu = ScriptedProvider([chunk("Once "), silence(2), *answer("upon")], status(400))
        async with gateway_to({"eu": eu}, retry=NO_RETRY) as (gw, _):
            async with gw.stream("x", model="m") as stream:
                await anext(stream)
                assert gw.stats().models["m"].calls == 0
            await complete(gw)
            assert gw.stats().models["m"].outcomes == {"complete": 0, "failed": 1, "cancelled": 1}

    run_virtual(main)


def test_the_statistics_hold_the_level_of_the_purse() -> None:
    async def main() -> None:
        eu, us = ScriptedProvider([headers(), hang()]), ScriptedProvider(answer("Once."))
        policy = HedgePolicy(budget_burst=4, budget_ratio=0.5)
        async with gateway_to({"eu": eu, "us": us}, hedge=policy) as (gw, _):
            levels = [gw.stats().models["m"].budget_level]
            for _ in range(3):
                await complete(gw)
                levels.append(gw.stats().models["m"].budget_level)
        # Full at the start; each call puts in a half, and its hedge takes one.
        assert levels == [4, 3, 2.5, 2]

    run_virtual(main)


def test_statistics_cannot_be_changed_and_may_be_taken_when_the_gateway_was_left() -> None:
    async def main() -> None:
        async with gateway_to({"eu": ScriptedProvider(answer("Once."))}) as (gw, _):
            await complete(gw)
            within = gw.stats()
        assert gw.stats() == within
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            within.models["m"].calls = 7  # type: ignore[misc]  # it is frozen, which is the point

    run_virtual(main)


def test_an_instrument_that_looks_at_the_statistics_meets_the_calls_before_its_own() -> None:
    seen: list[int] = []

    class Look(Instrument):
        gateway: Gateway | None = None

        def call_started(self, event: CallStarted) -> None:
            assert self.gateway is not None
            seen.append(self.gateway.stats().models["m"].calls)

    async def main() -> None:
        look = Look()
        async with (
            serve_memory({"eu": ScriptedProvider(answer("Once."))}) as network,
            open_gateway(CONFIG, connect=network.connect, instruments=[look]) as look.gateway,
        ):
            for _ in range(3):
                await look.gateway.complete("x", model="m")

    run_virtual(main)
    assert seen == [0, 1, 2]


# Policies of a call


def test_the_policies_of_a_call_replace_the_configured_ones() -> None:
    async def main() -> None:
        eu = ScriptedProvider([chunk("Once "), silence(30), *answer("upon.")])
        us = ScriptedProvider(answer("The tide turns."))
        async with gateway_to({"eu": eu, "us": us}, hedge=HedgePolicy(enabled=False)) as (gw, _):
            assert (await complete(gw)).text == "Once upon."
            result = await complete(gw, hedge_policy=HedgePolicy(stall_after_s=1))
            assert result.text == "The tide turns."
            assert result.took_s == pytest.approx(1)

        eu = ScriptedProvider([headers(), hang()])
        async with gateway_to({"eu": eu}, hedge=HedgePolicy(enabled=False)) as (gw, _):
            policy = StreamPolicy(ttft_timeout_s=3)
            result = await complete(gw, stream_policy=policy, retry_policy=NO_RETRY)
            assert result.took_s == pytest.approx(3)

    run_virtual(main)


def test_the_purse_of_a_model_is_shared_by_its_calls() -> None:
    async def main() -> None:
        eu = ScriptedProvider([chunk("Once "), silence(30), *answer("upon.")])
        us = ScriptedProvider(answer("The tide turns."))
        policy = HedgePolicy(budget_ratio=0.5, budget_burst=2)
        async with gateway_to({"eu": eu, "us": us}, hedge=policy) as (gw, _):
            texts = [(await complete(gw)).text for _ in range(8)]
        # Two tokens to begin with, and another half with each call (the purse is full at first).
        hedged = [text == "The tide turns." for text in texts]
        assert hedged == [True, True, True, False, True, False, True, False]

    run_virtual(main)


def test_an_error_page_is_told_from_an_answer() -> None:
    async def main(provider: ScriptedProvider) -> str:
        async with gateway_to({"eu": provider}, retry=NO_RETRY) as (gw, _):
            return str((await complete(gw)).failure)

    text = run_virtual(main, ScriptedProvider(page("<html>Bad gateway</html>")))
    assert "text/html" in text
    assert "Bad gateway" in text


def test_a_thousand_calls_whose_primaries_stall_are_all_rescued() -> None:
    async def main() -> None:
        eu = ScriptedProvider([chunk("Once "), silence(55), *answer("upon.")])
        us = ScriptedProvider(answer("The ", "tide ", "turns.", every_s=0.1))
        policy = HedgePolicy(budget_ratio=1, budget_burst=1000)
        async with gateway_to({"eu": eu, "us": us}, hedge=policy) as (gw, network):

            async def call() -> None:
                result = await complete(gw)
                assert result.text == "The tide turns."
                assert result.took_s == pytest.approx(5.3)

            async with trio.open_nursery() as nursery:
                for _ in range(1000):
                    nursery.start_soon(call)
            assert network.open_connections == 1000  # idle ones, of the second target

    run_virtual(main, real_limit_s=300)
