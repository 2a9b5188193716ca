"""litellm's Router: as it is, and going on with streams that broke."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from litellm import Router

from ..fates import THRESHOLD_S
from ..systems import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..systems import Ask

_NAMES = [f"m{number}" for number in range(ATTEMPTS)]


def _deployment(name: str, url: str) -> dict[str, object]:
    """Give a deployment of a model that litellm knows to go on with an answer."""
    return {
        "model_name": name,
        "litellm_params": {
            "model": "deepseek/deepseek-chat",
            "api_base": f"{url}/v1",
            "api_key": "none",
        },
    }


def _ask_of(router: Router) -> Ask:
    async def ask(prompt: str) -> str:
        message = {"role": "user", "content": prompt}
        stream = await router.acompletion(model=_NAMES[0], messages=[message], stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    return ask


@asynccontextmanager
async def default(url: str) -> AsyncGenerator[Ask]:
    """As it is, with three deployments of one name."""
    yield _ask_of(Router(model_list=[_deployment(_NAMES[0], url)] * 3))


@asynccontextmanager
async def continued(url: str) -> AsyncGenerator[Ask]:
    """With the threshold as its timeout, after which the next model goes on with the answer."""
    router = Router(
        model_list=[_deployment(name, url) for name in _NAMES],
        fallbacks=[{_NAMES[0]: _NAMES[1:]}],
        timeout=THRESHOLD_S,
        num_retries=0,
        disable_cooldowns=True,
        enable_mid_stream_fallback_continuation=True,
    )
    yield _ask_of(router)
