"""Sockets on trio and the least parsing that will do: the floor."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

import trio

from ..loops import TrioLoop
from .openai_chunk import body, decode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ..loops import Loop
    from . import Call, Take

_READ = 65536


class RawTrio:
    """Takes HTTP/1.1 chunks apart itself, and believes that each is an event."""

    loop: ClassVar[Loop] = TrioLoop()

    @asynccontextmanager
    async def open(self, base_url: str, model: str) -> AsyncGenerator[Call]:
        """Keep the connections that are not in use."""
        port, asked = urlsplit(base_url).port or 80, _request(body(model))
        idle: list[trio.SocketStream] = []

        async def call(take: Take) -> int:
            stream = idle.pop() if idle else await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(asked)
            count = await _read(stream, take)
            idle.append(stream)
            return count

        yield call
        for stream in idle:
            await stream.aclose()


RAW_TRIO = RawTrio()


def _request(asked: bytes) -> bytes:
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n"
    return head.format(len(asked)).encode() + asked


async def _read(stream: trio.SocketStream, take: Take) -> int:
    """Read a reply, and count its contents."""
    received, count = b"", 0
    while b"\r\n\r\n" not in received:
        received += await stream.receive_some(_READ)
    received = received.partition(b"\r\n\r\n")[2]
    while True:
        start = 0
        while (line := received.find(b"\r\n", start)) > 0:
            end = line + 2 + int(received[start:line], 16)
            if end + 2 > len(received):
                break
            if end == line + 2:  # the last chunk, which is empty
                return count
            count += _take(received[line + 8 : end - 2], take)
            start = end + 2
        received = received[start:] + await stream.receive_some(_READ)


def _take(data: bytes, take: Take) -> int:
    if data == b"[DONE]":
        return 0
    text = "".join(choice.delta.content or "" for choice in decode(data).choices)
    if text:
        take(text)
    return bool(text)
