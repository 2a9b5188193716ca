"""What a model's targets are asked, and whether all of them can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import pytest

from polygateway import CallOptions, Config, ConfigurationError, Gateway, Target, open_gateway
from polygateway.testing import run_virtual

if TYPE_CHECKING:
    from polygateway.policies import DialectName


def refused(*dialects: DialectName, **options: Unpack[CallOptions]) -> str:
    """Give the text with which a call is refused by a model with targets that speak so."""
    targets = {
        f"t{number}": Target(dialect=dialect, base_url="http://127.0.0.1:9", model="x")
        for number, dialect in enumerate(dialects)
    }

    async def ask(gw: Gateway) -> str:
        with pytest.raises(ConfigurationError) as caught:
            await gw.complete("x", model="m", **options)
        return str(caught.value)

    async def main() -> str:
        async with open_gateway(Config(targets=targets, models={"m": list(targets)})) as gw:
            return await ask(gw)

    return run_virtual(main)


def test_what_belongs_to_the_primarys_dialect_may_not_be_set_by_a_call() -> None:
    assert "'contents'" in refused("gemini", extra={"contents": []})


def test_nor_what_belongs_to_a_fallbacks() -> None:
    assert "'contents'" in refused("openai-chat", "gemini", extra={"contents": []})


def test_what_a_fallback_cannot_be_told_is_refused_before_anything_is_sent() -> None:
    assert "seed" in refused("openai-chat", "anthropic", seed=7)
