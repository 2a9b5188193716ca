"""The stream that an application reads from: chunks as they come, and what they amount to."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, final

import trio

from .attempt import Attempt, Interrupted
from .errors import (
    AttemptError,
    ConfigurationError,
    GatewayBusy,
    GatewayError,
    InternalError,
    StreamBroken,
)
from .messages import Chunk
from .race import Race, leaves

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .call import Call
    from .core.decisions import Rescue
    from .core.failures import Failure
    from .messages import Completion
    from .race import Winner
    from .report import Report
    from .stats import CallStats, SeamKind


@final
class CompletionStream:
    """The answer to a call, chunk by chunk. You get one by ``async with gw.stream(...)``.

    Iterating gives every :class:`Chunk` of the winner in order, then one of kind ``end``, and
    reads the socket in the task that iterates. One task at a time may iterate.

    With ``stream.recovery`` an answer that breaks or falls silent may be taken over by another
    attempt. A chunk of kind ``seam`` stands before the first one of that attempt.
    """

    def __init__(self, call: Call, race: Race, winner: Winner) -> None:
        self._call = call
        self._race = race
        self._attempt = winner.attempt
        self._chunks: deque[Chunk] = deque(winner.chunks)
        self._failure: Failure | None = None
        """What the attempt ended with, until that is dealt with."""

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

        If cancelled, no chunk is lost: iterating may go on. What was started to rescue the answer
        is closed then, and may be started again.

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
        if self._chunks:
            return self._chunks.popleft()
        self._busy = True
        try:
            while not self._chunks:
                if self._error is not None:
                    raise self._error
                if self._exhausted:
                    raise StopAsyncIteration
                if self._failure is not None:
                    await self._mend(self._failure)
                elif not self._attempt.whole:
                    await self._read()
                else:
                    await self._end()
        finally:
            self._busy = False
        return self._chunks.popleft()

    # Reading

    async def _read(self) -> None:
        """Wait for what the next read brings: chunks, the end, or an error."""
        until_ns, rescue = self._call.deadline_ns, self._possible_rescue()
        if rescue is not None and (silent_ns := self._race.silent_at_ns(self._attempt)):
            until_ns = silent_ns if until_ns is None else min(until_ns, silent_ns)
        try:
            report = await self._attempt.read(until_ns)
        except Interrupted:
            pass
        except trio.ClosedResourceError:
            if not self._call.shut_down:
                raise
        except Exception as error:
            raise InternalError.because(error) from error
        else:
            self._take(report)
            return
        if rescue is None or until_ns == self._call.deadline_ns:
            self._interrupt()
        else:
            await self._rescue(rescue)

    def _interrupt(self) -> None:
        """End the stream because of its deadline, or because the gateway was left."""
        self._call.abandon("deadline")
        self._error = self._call.interrupted(self._attempt)
        self._call.settle()

    def _take(self, report: Report) -> None:
        self._chunks.extend(report.chunks)
        if report.failure is not None:
            self._call.fail(self._attempt, report.failure)
            self._failure = report.failure

    async def _end(self) -> None:
        self._call.settle()
        await finish(self._attempt)
        self._exhausted = True
        self._chunks.append(Chunk("end", "", self._attempt.index))

    # Recovering

    def _possible_rescue(self) -> Rescue | None:
        """Give what ``stream.recovery`` allows for what has been delivered; ``None``: nothing."""
        recovery = self._call.order.stream.recovery
        if recovery in {"raise", "restart"} or self._is_plain_text():
            return None if recovery == "raise" else recovery
        return "restart" if recovery == "continue-or-restart" else None

    def _is_plain_text(self) -> bool:
        decoder = self._attempt.decoder
        if decoder is None or self._call.order.request.response_format is not None:
            return False
        answer = decoder.answer
        return not (answer.text("reasoning") or answer.text("refusal") or answer.calls(ended=False))

    async def _mend(self, failure: Failure) -> None:
        """Deal with the end of the attempt: by another one, or by an error."""
        rescue = self._possible_rescue()
        if rescue is None:
            self._error = self._broken(failure)
        else:
            await self._rescue(rescue)

    async def _rescue(self, rescue: Rescue) -> None:
        if self._call.shut_down:
            self._interrupt()
            return
        self._call.delivered = self.completion.text
        try:
            await self._race.rescue(self._attempt, rescue)
        except (AttemptError, GatewayBusy) as error:
            self._error = self._broken(error)
        except GatewayError as error:
            self._error = error
            self._call.settle()
        finally:
            if self._error is not None:
                self._chunks.extend(self._race.brought(self._attempt))
            elif self._race.winner is not None and not self._closed:
                # Also when it was cancelled: what is decided is decided.
                self._adopt(self._race.winner)

    def _adopt(self, winner: Winner) -> None:
        if winner.attempt is not self._attempt:
            self._join(winner.attempt)
        self._failure = winner.attempt.failure
        self._chunks.extend(winner.chunks)

    def _join(self, after: Attempt) -> None:
        """Tell the application that *after* takes the place of what it has read from."""
        continuation = after.continuation
        anew = continuation is None or continuation.begins_anew
        kind: SeamKind = "restart" if anew else "continue"
        self._call.join(kind, self._attempt, after)
        self._attempt = after
        self._chunks.append(Chunk("seam", "", after.index, seam_kind=kind))

    def _broken(self, failure: Failure) -> StreamBroken:
        self._call.end()
        recovery = self._call.order.stream.recovery
        broke = self._attempt.failure or failure
        rescue = "" if broke is failure else f"; what was to rescue it: {failure}"
        error = StreamBroken(
            f"the stream broke after it was delivered in part: {broke}{rescue}"
            f" (stream.recovery = {recovery!r})",
            failure,
        )
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
            race = Race(call, "content")
            self._stream = CompletionStream(call, race, await race.run())
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
