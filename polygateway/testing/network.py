"""Serve scripted providers: in memory under host names, or on ports of the loopback interface."""

from __future__ import annotations

import errno
import os
import re
import socket
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

import trio

from ..policies import Config, HedgePolicy, Limits, RetryPolicy, StreamPolicy, Target
from ._memory import ClientStream, MemoryConnection

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Collection, Mapping

    from .provider import ScriptedProvider

_LOOPBACK = "127.0.0.1"


class Policies(TypedDict, total=False):
    """What :meth:`ServedProviders.config` can be given; for the rest the defaults hold."""

    hedge: HedgePolicy
    stream: StreamPolicy
    retry: RetryPolicy
    limits: Limits


class ServedProviders:
    """Providers that can be reached."""

    def __init__(self, base_urls: Mapping[str, str]) -> None:
        self.base_urls = base_urls
        """By the providers' names, in the order in which they were given."""

    def config(self, *, prefill: Collection[str] = (), **policies: Unpack[Policies]) -> Config:
        """Give a configuration with the model ``m``, whose targets are all the providers.

        Args:
            prefill: names of the providers that go on with answers.
            policies: as for :class:`Config`.
        """
        targets = {
            name: Target(
                dialect="openai-chat", base_url=url, model="scripted", prefill=name in prefill
            )
            for name, url in self.base_urls.items()
        }
        return Config(targets=targets, models={"m": tuple(targets)}, **policies)


class MemoryNetwork(ServedProviders):
    """Providers that are reached over memory streams, and so in virtual time."""

    def __init__(self, providers: Mapping[str, ScriptedProvider], nursery: trio.Nursery) -> None:
        super().__init__({name: f"http://{name}.invalid/v1" for name in providers})
        self._hosts = {f"{name}.invalid": provider for name, provider in providers.items()}
        self._nursery = nursery
        self._connections: list[MemoryConnection] = []

    @property
    def open_connections(self) -> int:
        """How many connections clients have opened and not closed, as of this moment."""
        return sum(not connection.closed for connection in self._connections)

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> ClientStream:
        """Open a connection, for ``open_gateway(config, connect=network.connect)``.

        Each half of the stream has a ``close()`` that does not wait. If cancelled, no connection
        is left.

        Args:
            host: ``NAME.invalid``.
            port: any.
            tls: not used, so that https addresses work: the bytes do not leave the process.

        Raises:
            ConnectionRefusedError: no provider is there, or it refuses.
        """
        provider = self._hosts.get(host)
        await trio.sleep(provider.connect_s if provider else 0)
        if provider is None or provider.refuses:
            raise ConnectionRefusedError(
                errno.ECONNREFUSED, f"{os.strerror(errno.ECONNREFUSED)}: {host}:{port}"
            )
        connection = MemoryConnection()
        self._connections.append(connection)
        self._nursery.start_soon(
            partial(provider.serve, connection.server, reset=connection.break_off)
        )
        return connection.client


@asynccontextmanager
async def serve_memory(providers: Mapping[str, ScriptedProvider]) -> AsyncGenerator[MemoryNetwork]:
    """Serve each provider under the base URL ``http://NAME.invalid/v1`` while the block runs.

    Leaving the block ends all connections. Exceptions come out as they are; one of a server (the
    client speaks no HTTP, a script's callable raised) comes before one of the block.

    Args:
        providers: by name, in the order in which a model is to try them. A name is made of small
            letters, digits and hyphens, for it becomes a host name.

    Raises:
        ValueError: a name that cannot be a host's.
    """
    for name in providers:
        if not re.fullmatch(r"[a-z0-9-]+", name):
            raise ValueError(f"{name!r} cannot be a host name: use small letters, digits, hyphens")
    async with _servers() as nursery:
        yield MemoryNetwork(providers, nursery)


@asynccontextmanager
async def serve_tcp(providers: Mapping[str, ScriptedProvider]) -> AsyncGenerator[ServedProviders]:
    """Serve each provider on a port of 127.0.0.1 while the block runs, in real time.

    Leaving the block ends all connections. Exceptions come out as they are; one of a server (the
    client speaks no HTTP, a script's callable raised) comes before one of the block.

    Args:
        providers: by name, in the order in which a model is to try them. Whether one refuses
            connections is settled at the start.

    Raises:
        ValueError: a provider with ``connect_s``: the operating system opens the connections.
    """
    for name, provider in providers.items():
        if provider.connect_s:
            raise ValueError(f"{name!r} has connect_s, which only serve_memory() can do")
    async with _servers() as nursery:
        base_urls: dict[str, str] = {}
        for name, provider in providers.items():
            port = await _open_port(provider, nursery)
            base_urls[name] = f"http://{_LOOPBACK}:{port}/v1"
        yield ServedProviders(base_urls)


async def _open_port(provider: ScriptedProvider, nursery: trio.Nursery) -> int:
    """Serve *provider* in *nursery* on a port that the operating system chooses."""
    if provider.refuses:
        port: int = await nursery.start(_hold_port)
        return port
    (listener,) = await trio.open_tcp_listeners(0, host=_LOOPBACK)
    nursery.start_soon(_accept, provider, listener, nursery)
    return int(listener.socket.getsockname()[1])


async def _accept(
    provider: ScriptedProvider, listener: trio.SocketListener, nursery: trio.Nursery
) -> None:
    # Not trio.serve_listeners(): its close of the stream is a checkpoint, and a server's error is
    # lost when the block's own error cancels it there.
    async with listener:
        while True:
            nursery.start_soon(provider.serve, await listener.accept())


async def _hold_port(task_status: trio.TaskStatus[int]) -> None:
    """Hold a port without listening: the operating system refuses connections to it."""
    with socket.socket() as sock:
        sock.bind((_LOOPBACK, 0))
        task_status.started(sock.getsockname()[1])
        await trio.sleep_forever()


@asynccontextmanager
async def _servers() -> AsyncGenerator[trio.Nursery]:
    """Open a nursery for servers, which are cancelled when the block ends.

    What the block raises comes out as it is. What a server raises comes before that, because the
    block's error is likely to follow from it.
    """
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            except Exception as error:  # noqa: BLE001 - raised below, outside of the nursery
                failure = error
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        failure, *others = group.exceptions
        if others:
            raise
    if failure is not None:
        raise failure
