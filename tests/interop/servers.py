"""Servers of somebody else's, each in a process of its own, and ways to ask them."""

from __future__ import annotations

import http.client
import json
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast
from urllib.parse import urlsplit

import attrs

from polygateway import (
    Config,
    HedgePolicy,
    RetryPolicy,
    StreamPolicy,
    Target,
    open_gateway,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from polygateway import Completion, Gateway
    from polygateway.messages import JSON
    from polygateway.policies import DialectName
    from polygateway.request import CallOptions, Prompt

ROOT = Path(__file__).parents[2]

KEY = "sk-interop-0123456789"
"""What the servers want to see."""

KEY_ENV = "POLYGATEWAY_INTEROP_KEY"

_VERSIONED: Sequence[DialectName] = ("openai-chat", "openai-responses")


@contextmanager
def running(*command: str) -> Generator[str]:
    """Run a server that prints its address, and ends when its standard input does.

    Raises:
        RuntimeError: it ended instead; with what it said.
    """
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(  # noqa: S603 - the commands are ours
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as server,
    ):
        assert server.stdout is not None  # it is a pipe
        if address := server.stdout.readline().strip():
            yield address
            return
        log.seek(0)
        raise RuntimeError(f"{' '.join(command)} has printed no address:\n{log.read()}")


@attrs.frozen
class Server:
    """One that is running."""

    url: str

    def get(self, path: str) -> JSON:
        """Ask it for JSON, past polygateway."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        try:
            connection.request("GET", path, headers={"authorization": f"Bearer {KEY}"})
            return cast("JSON", json.loads(connection.getresponse().read()))
        finally:
            connection.close()

    def target(self, dialect: DialectName) -> Target:
        """Give a target that speaks *dialect* to it."""
        version = "/v1" if dialect in _VERSIONED else ""
        return Target(
            dialect=dialect, base_url=f"{self.url}{version}", model="tiny", api_key_env=KEY_ENV
        )

    async def ask(
        self, dialect: DialectName, prompt: Prompt, **options: Unpack[CallOptions]
    ) -> Completion:
        """Ask it one thing, in *dialect*."""
        async with gateway(self.target(dialect)) as gw:
            return await gw.complete(prompt, model="m", **options)


def gateway(target: Target) -> AbstractAsyncContextManager[Gateway]:
    """Open a gateway whose model ``m`` is at *target*, and nowhere else."""
    return open_gateway(
        Config(
            targets={"theirs": target},
            models={"m": ("theirs",)},
            hedge=HedgePolicy(enabled=False),
            retry=RetryPolicy(max_retries=0),
            stream=StreamPolicy(ttft_timeout_s=30, stall_timeout_s=30),
        )
    )


def table(value: JSON) -> Mapping[str, JSON]:
    """Give a JSON object as such."""
    assert isinstance(value, dict)
    return value


def tables(value: JSON) -> Sequence[Mapping[str, JSON]]:
    """Give an array of JSON objects as such; none for null."""
    assert value is None or isinstance(value, list)
    return [table(each) for each in value or ()]
