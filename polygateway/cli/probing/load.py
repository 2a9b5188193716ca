"""The load: requests to one target, so many at once or at a rate, and what came of them."""

# Theory of operation
# ===================
#
# Rule 1: the warm-up is a load like the one that counts, is over before that begins, and is not
#         counted.
# Rule 2: without a rate, so many requests run at once, and each is followed by the next. A slow
#         answer then delays the requests behind it, and nobody sees what they would have met: this
#         is coordinated omission.
# Rule 3: with a rate, request k is due at k / rate, whatever became of the others. When it begins
#         later than that, because our event loop was late or because no slot was free, the delay is
#         on its record.
# Rule 4: a target whose first requests all fail alike, in a way that will not pass, is left alone.

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

import attrs
import trio

from ...errors import GatewayError
from ...gateway import Gateway
from ...request import CallOptions
from ...response import CompletionStream
from .sample import Sample, is_hopeless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...stats import StreamFigures


@attrs.frozen(kw_only=True)
class Plan:
    """What is asked of each target, and how often."""

    prompt: str
    options: CallOptions
    requests: int
    """How many are counted."""

    warmup: int
    """How many are made before."""

    slots: int
    """How many may run at once."""

    rate: float | None
    """Requests a second; ``None`` for each slot to be used again as soon as it is free."""

    def due_s(self, index: int) -> float:
        """Tell when a request is due, with a rate, from the begin of the load."""
        # No sum of pauses: rounding, or one that took longer, would move all that follow.
        return index / self.rate if self.rate else 0.0


@attrs.define(eq=False)
class Load:
    """The requests to one target. What is known of them is up to date while it runs."""

    gateway: Gateway
    target: str
    """Name of the target, and of the model that consists of it."""

    plan: Plan
    cpu_time: Callable[[], float] = time.process_time
    """Gives the seconds of processor time that this process has used."""

    warmups: list[Sample] = attrs.field(factory=list[Sample], init=False)
    samples: list[Sample] = attrs.field(factory=list[Sample], init=False)
    """What has ended, the earliest end first."""

    measuring: bool = attrs.field(default=False, init=False)
    """Whether the warm-up is over."""

    running: int = attrs.field(default=0, init=False)
    hopeless: bool = attrs.field(default=False, init=False)
    """Whether it was left alone because nothing was to be expected of it."""

    began_s: float = attrs.field(factory=trio.current_time, init=False)
    """Begin of what is under way, or was last, on trio's clock."""

    elapsed_s: float = attrs.field(default=0.0, init=False)
    """How long the part that counts took."""

    cpu_s: float = attrs.field(default=0.0, init=False)
    """Processor time that this process used in it."""

    _record: list[Sample] = attrs.field(init=False)
    _scope: trio.CancelScope = attrs.field(init=False)

    async def run(self) -> None:
        """Make all requests.

        If cancelled, those that run are on record as unfinished.
        """
        await self._perform(self.plan.warmup, self.warmups)
        if self.hopeless:
            return
        self.measuring = True
        cpu_before = self.cpu_time()
        try:
            await self._perform(self.plan.requests, self.samples)
        finally:
            self.elapsed_s = trio.current_time() - self.began_s
            self.cpu_s = self.cpu_time() - cpu_before

    async def _perform(self, count: int, record: list[Sample]) -> None:
        self.began_s, self._record = trio.current_time(), record
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            if self.plan.rate is not None:
                await self._on_schedule(count, nursery)
            else:
                queue = iter(range(count))
                for _ in range(min(self.plan.slots, count)):
                    nursery.start_soon(self._one_after_the_other, queue)

    async def _one_after_the_other(self, queue: Iterator[int]) -> None:
        for index in queue:
            now = trio.current_time()
            await self._make(_Request(index=index, due=now, turn=now, began=now))

    async def _on_schedule(self, count: int, nursery: trio.Nursery) -> None:
        slots = trio.CapacityLimiter(self.plan.slots)
        for index in range(count):
            due = self.began_s + self.plan.due_s(index)
            await trio.sleep_until(due)
            nursery.start_soon(self._when_free, index, due, slots)

    async def _when_free(self, index: int, due: float, slots: trio.CapacityLimiter) -> None:
        turn = trio.current_time()
        async with slots:
            now = trio.current_time()
            await self._make(_Request(index=index, due=due, turn=turn, began=now))

    async def _make(self, request: _Request) -> None:
        """Make a request, put it on record, and stop everything if that makes no sense."""
        await trio.lowlevel.checkpoint_if_cancelled()  # it is not to be made any more
        self.running += 1
        try:
            await request.run(self.gateway, self.target, self.plan)
        finally:
            self.running -= 1
            self._record.append(request.sample(since=self.began_s))
        if is_hopeless(chain(self.warmups, self.samples)):
            self.hopeless = True
            self._scope.cancel(reason="the target is left alone")


@attrs.define(kw_only=True)
class _Request:
    """One request. Times are those of trio's clock."""

    index: int
    due: float
    """When it should have begun."""

    turn: float
    """When it was its turn in our event loop."""

    began: float
    stream: CompletionStream | None = None
    error: GatewayError | None = None
    finished: bool = False

    async def run(self, gateway: Gateway, target: str, plan: Plan) -> None:
        """Read the whole answer. An error of the gateway is a result like another."""
        try:
            async with gateway.stream(plan.prompt, model=target, **plan.options) as self.stream:
                async for _ in self.stream:
                    pass
        except GatewayError as error:
            self.error = error.with_traceback(None)  # frames would keep the whole request alive
        self.finished = True

    def sample(self, *, since: float) -> Sample:
        """Give what is known of it, its times counted from *since* on."""
        return Sample(
            index=self.index,
            due_s=self.due - since,
            late_ms=(self.turn - self.due) * 1000,
            queued_ms=(self.began - self.turn) * 1000,
            elapsed_ms=(trio.current_time() - self.began) * 1000,
            figures=self._figures(),
            finish_reason=None if self.stream is None else self.stream.completion.finish_reason,
            error=self.error,
            finished=self.finished,
        )

    def _figures(self) -> StreamFigures | None:
        if self.stream is not None:
            return self.stream.stats
        if self.error is not None and self.error.attempts:
            return self.error.attempts[-1]
        return None
