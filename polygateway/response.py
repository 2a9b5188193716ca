"""The stream that an application reads from: chunks as they come, and what they amount to."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, final

import trio

from .errors import ConfigurationError, InternalError, StreamBroken
from .messages import Chunk
from .net.clock import trio_deadline
from .race import leaves, race

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .attempt import Attempt, Report
    from .call import Call
    from .core.failures import Failure
    from .errors import GatewayError
    from .messages import Completion
    from .race import Winner
    from .stats import CallStats


@final
class CompletionStream:
    """The answer to a call, chunk by chunk. You get one by ``async with gw.stream(...)``.

    Iterating gives every :class:`Chunk` of the winner in order, then one of kind ``end``, and
    reads the socket in the task that iterates. One task at a time may iterate.
    """

    def __init__(self, call: Call, winner: Winner) -> None:
        self._call = call
        self._attempt = winner.attempt
        self._chunks: deque[Chunk] = deque(winner.report.chunks)
        self._busy = False
        self._closed = False
        self._exhausted = False
        self._error: GatewayError | None = None

    @property
    def target(self) -> str:
        """Name of the target that answers."""
        return self._attempt.route.name

    @property
    def completion(self) -> Completion:
        """What has been received up to now; final after the end."""
        return self._call.completion(self._attempt)

    @property
    def stats(self) -> CallStats:
        """Where the time went up to now; final after the end."""
        return self._call.stats(self._attempt)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        """Wait for the next chunk.

        If cancelled, no chunk is lost: iterating may go on.

        Raises:
            StreamBroken: the answer was cut or failed; ``partial`` is what was received.
            DeadlineExceeded: the call's ``deadline_s`` ran out.
            GatewayClosed: the gateway was left.
            trio.ClosedResourceError: the block was left.
            trio.BusyResourceError: another task is waiting for a chunk.
        """
        if self._busy:
            raise trio.BusyResourceError("another task is waiting for this stream's next chunk")
        if self._closed:
            raise trio.ClosedResourceError("the block of this stream was left")
        await trio.lowlevel.checkpoint_if_cancelled()
        self._busy = True
        try:
            return await self._next()
        finally:
            self._busy = False

    async def _next(self) -> Chunk:
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._exhausted:
                raise StopAsyncIteration
            if self._attempt.whole:
                return await self._end()
            await self._read()
        return self._chunks.popleft()

    async def _read(self) -> None:
        """Wait for what the next read brings: chunks, the end, or an error."""
        try:
            with trio.CancelScope(deadline=trio_deadline(self._call.deadline_ns)):
                self._take(await self._attempt.read())
                return
            self._call.abandon("deadline")
        except trio.ClosedResourceError:
            if not self._call.shut_down:
                raise
        except Exception as error:
            raise InternalError.because(error) from error
        self._error = self._call.interrupted(self._attempt)
        self._call.settle()

    def _take(self, report: Report) -> None:
        self._chunks.extend(report.chunks)
        if report.failure is not None:
            self._error = self._broken(report.failure)

    async def _end(self) -> Chunk:
        self._call.settle()
        await finish(self._attempt)
        self._exhausted = True
        return Chunk("end", "", self._attempt.index)

    def _broken(self, failure: Failure) -> StreamBroken:
        self._call.fail(self._attempt, failure)
        self._call.end()
        error = StreamBroken(f"the stream broke after it was delivered in part: {failure}", failure)
        self._call.describe(error, self._attempt)
        self._call.settle()
        return error

    def close(self) -> None:
        """Give no chunk any more: the block was left."""
        self._closed = True
        self._chunks.clear()


async def finish(attempt: Attempt) -> None:
    """Give up the connection of an answer that has ended: for reuse where that is possible.

    If cancelled, it is closed.

    Raises:
        InternalError: it could not be closed.
    """
    try:
        await attempt.finish()
    except Exception as error:
        raise InternalError.because(error) from error


class StreamBlock:
    """What ``gw.stream(...)`` gives: a block in which a stream can be read."""

    def __init__(self, begin: Callable[[], Call], over: Callable[[Call], None]) -> None:
        """Prepare the block.

        Args:
            begin: checks and begins the call.
            over: ends it.
        """
        self._begin = begin
        self._over = over
        self._entered = False
        self._call: Call | None = None
        self._stream: CompletionStream | None = None

    async def __aenter__(self) -> CompletionStream:
        """Run the race and return at the commit.

        If cancelled, no attempt and no connection survives.

        Raises:
            GatewayError: no attempt brought anything; or the call's deadline, or the gateway's end.
            ConfigurationError: the call cannot be meant like this; or the block was entered before.
        """
        if self._entered:
            raise ConfigurationError("this block was entered before: call gw.stream(...) for each")
        self._entered = True
        call = self._begin()
        with ExitStack() as unless_won:
            unless_won.callback(self._over, call)
            self._stream = CompletionStream(call, await race(call, "content"))
            self._call = call
            unless_won.pop_all()
        return self._stream

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection that the call opened."""
        if self._stream is None or self._call is None:
            return
        self._stream.close()
        try:
            self._over(self._call)
        except InternalError as trouble:
            if error is None or _is_cancellation(error):
                raise
            error.add_note(f"polygateway could not close a connection: {trouble.__cause__!r}")


def _is_cancellation(error: BaseException) -> bool:
    """Tell whether nobody will see *error*, because it ends at the scope that cancelled."""
    return all(isinstance(leaf, trio.Cancelled) for leaf in leaves(error))
