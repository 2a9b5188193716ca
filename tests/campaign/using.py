"""What applications do with a gateway, and what they see."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import trio

from polygateway import (
    CallStats,
    Chunk,
    Completion,
    GatewayError,
)

from .providing import question
from .series import Call

if TYPE_CHECKING:
    from polygateway import (
        CallOptions,
        CompletionStream,
        Gateway,
    )

    from .series import Series


@attrs.define(eq=False)
class Seen:
    """What an application saw of one call."""

    call: Call
    began: float = math.inf
    """Times are those of trio's clock."""

    over: float = math.inf
    chunks: list[Chunk] = attrs.field(factory=list["Chunk"])
    """What it was given, seams and the end included."""

    completion: Completion | None = None
    """What it had at last; ``None`` if it never entered the block."""

    stats: CallStats | None = None
    error: GatewayError | None = None
    was_cancelled: bool = False

    @property
    def whole(self) -> bool:
        """Whether it was given all of an answer."""
        return bool(self.chunks) and self.chunks[-1].kind == "end"


async def use(gw: Gateway, series: Series, number: int, seen: Seen) -> None:
    """Make one call as the series says, and note in *seen* what comes of it."""
    call = series.calls[number]
    try:
        if call.streams:
            await _stream(gw, series, number, seen)
        else:
            seen.completion = await gw.complete(
                question(number), model="m", **_options(series, call)
            )
            seen.stats = seen.completion.stats
    except GatewayError as error:
        seen.error = error


def _options(series: Series, call: Call) -> CallOptions:
    options: CallOptions = {}
    if call.deadline_ms is not None:
        options["deadline_s"] = call.deadline_ms / 1000
    if call.wants_json:
        options["response_format"] = {"type": "json_object"}
    if call.own_policies:
        own = series.own_policies
        options["hedge_policy"] = own.hedge
        options["stream_policy"] = own.stream
        options["retry_policy"] = own.retry
    return options


async def _stream(gw: Gateway, series: Series, number: int, seen: Seen) -> None:
    call = series.calls[number]
    async with gw.stream(question(number), model="m", **_options(series, call)) as stream:
        try:
            await _read(stream, call, seen)
        finally:
            seen.completion, seen.stats = stream.completion, stream.stats


async def _read(stream: CompletionStream, call: Call, seen: Seen) -> None:
    while len(seen.chunks) != call.breaks_after:
        try:
            seen.chunks.append(await _next(stream, call))
        except StopAsyncIteration:
            break
        if call.pause_ms:
            await trio.sleep(call.pause_ms / 1000)


async def _next(stream: CompletionStream, call: Call) -> Chunk:
    """Wait for a chunk, which an impatient application does again and again."""
    patience = math.inf if call.patience_ms is None else call.patience_ms / 1000
    while True:
        with trio.move_on_after(patience):
            return await stream.__anext__()
        patience = 2 * patience + 0.001
