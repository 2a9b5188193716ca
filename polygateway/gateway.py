"""The gateway: what an application opens, and calls models through."""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Unpack, final

import attrs
import trio

from ._checks import nearest
from .call import Call, Observers
from .config import load_config
from .core.allowance import Allowance
from .core.budget import Purse
from .core.health import Health, Rest
from .core.ledger import Ledger, TargetState
from .core.targets import Candidate
from .core.thresholds import Thresholds
from .errors import ConfigurationError, GatewayClosed
from .instrument import Instrument
from .logs import LOGGER, LoggingInstrument
from .model import Lineup, Model
from .net.clock import now_ns
from .net.lateness import LoopWatch
from .net.tls import Contexts
from .order import Order
from .race import Race
from .reporting import Audience
from .request import CallOptions, Prompt, build_request
from .response import StreamBlock, finish
from .route import open_route

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping

    from .aggregates import GatewayStats
    from .messages import Completion
    from .net.dial import Connect
    from .policies import Config, HedgePolicy, StreamPolicy


@asynccontextmanager
async def open_gateway(
    config: Config | Mapping[str, object] | str | os.PathLike[str] | None = None,
    *,
    connect: Connect | None = None,
    instruments: Iterable[Instrument] = (),
) -> AsyncGenerator[Gateway]:
    """Open a gateway for the block.

    Leaving the block closes every connection. A call that still runs then, in another task, raises
    :class:`GatewayClosed`. The gateway runs no task of its own, so nothing is waited for.

    Args:
        config: a :class:`Config`, a mapping of the same shape, or the path of a TOML file.
            ``None``: the file named by ``POLYGATEWAY_CONFIG``, else ``polygateway/config.toml`` in
            the user's configuration folder. ``POLYGATEWAY_SECTION__NAME`` variables go on top of a
            file.
        connect: opens the streams instead of sockets, for tests: ``async (host, port, tls)``, where
            *tls* is an ``ssl.SSLContext`` or ``None``. Closing the stream must need no waiting, as
            trio demands of every ``aclose()`` that is cancelled. For a target with a ``proxy`` it
            is asked for the proxy's address, without TLS; those of the environment are not used.
        instruments: what is told of everything that happens to calls: see
            :mod:`polygateway.observe`.

    Raises:
        ConfigurationError: the configuration has mistakes, all of them named; or this is not trio.
    """
    if not trio.lowlevel.in_trio_run():
        raise ConfigurationError("polygateway needs trio: run the program with trio.run(main)")
    loop, audience = LoopWatch(), Audience(_listening(instruments))
    gateway = Gateway(load_config(config), connect, loop, audience)
    trio.lowlevel.add_instrument(loop)
    try:
        yield gateway
    finally:
        trio.lowlevel.remove_instrument(loop)
        gateway.close()


def _listening(instruments: Iterable[object]) -> Iterator[Instrument]:
    """Give *instruments*, and one for the log where its lines would be seen.

    Raises:
        ConfigurationError: they are no instruments.
    """
    if isinstance(instruments, Instrument):
        raise ConfigurationError("instruments is a single one, where a list of them is wanted")
    logs = LOGGER.isEnabledFor(logging.INFO)
    for instrument in instruments:
        if not isinstance(instrument, Instrument):
            raise ConfigurationError(f"instruments: {instrument!r} is no Instrument")
        logs = logs and not isinstance(instrument, LoggingInstrument)
        yield instrument
    if logs:
        yield LoggingInstrument()


@final
class Gateway:
    """Calls models. You get one by ``async with open_gateway() as gw``.

    Owns the connections, each model's purse, and what is known of each target. May be used by any
    number of tasks at once.
    """

    def __init__(
        self, config: Config, connect: Connect | None, loop: LoopWatch, audience: Audience
    ) -> None:
        self._config = config
        self._ledger = Ledger(config.targets, config.models)
        self._observers = Observers(loop=loop, accounts=Audience([self._ledger]), audience=audience)
        self._closed = False
        self._calls: dict[Call, None] = {}  # a set would end them in another order each time
        self._none_left = trio.Event()
        """Set when no call runs any more that began before the gateway was closed."""

        contexts = Contexts()
        self._routes = {
            name: open_route(name, target, config.limits, connect, contexts)
            for name, target in config.targets.items()
        }
        rests: defaultdict[object, Rest] = defaultdict(Rest)
        self._candidates = {
            name: Candidate(health=Health(rests[route.account]), prefill=bool(route.target.prefill))
            for name, route in self._routes.items()
        }
        self._models = {name: self._model(name) for name in config.models}

    async def complete(
        self, prompt: Prompt, *, model: str, **options: Unpack[CallOptions]
    ) -> Completion:
        """Give a whole answer. Nothing is delivered before its end, so every stall can be raced.

        If cancelled, every attempt is cancelled and its connection closed.

        Args:
            prompt: a question, or the messages of a conversation.
            model: which of the configured models.
            options: see :class:`CallOptions`.

        Raises:
            ConfigurationError: the call cannot be meant like this; nothing was sent.
            DeadlineExceeded: ``deadline_s`` ran out.
            GatewayClosed: the gateway was left.
            GatewayError: no attempt brought a whole answer: the error of the last that failed.
        """
        call = self._begin(prompt, model, options, stream=False)
        try:
            winner = await Race(call, "end").run()
            call.settle()
            await finish(winner.attempt)
        finally:
            self._over(call)
        return call.completion(winner.attempt)

    def stream(self, prompt: Prompt, *, model: str, **options: Unpack[CallOptions]) -> StreamBlock:
        """Give a block in which the answer can be read chunk by chunk.

        Entering the block runs the race and returns at the commit, so errors before the first
        content are raised there. Leaving it, in whatever way, closes every connection that the
        call opened before the block ends.

        Args:
            prompt: a question, or the messages of a conversation.
            model: which of the configured models.
            options: see :class:`CallOptions`.

        Entering raises:
            ConfigurationError: the call cannot be meant like this; nothing was sent.
            DeadlineExceeded: ``deadline_s`` ran out.
            GatewayClosed: the gateway was left.
            GatewayError: no attempt brought any content: the error of the last that failed.
        """
        return StreamBlock(partial(self._begin, prompt, model, options, stream=True), self._over)

    def stats(self) -> GatewayStats:
        """Give what the calls that have ended came to, for each target and each model."""
        now = now_ns()
        levels = {name: model.purse.level for name, model in self._models.items()}
        states = {name: _state(known, now) for name, known in self._candidates.items()}
        return self._ledger.snapshot(now, levels, states)

    def _begin(self, prompt: Prompt, model: str, options: CallOptions, *, stream: bool) -> Call:
        if self._closed:
            raise GatewayClosed("this gateway was left or closed: call it inside its block")
        config = self._config
        try:
            known = self._models.get(model)
        except TypeError:  # it cannot be hashed
            known = None
        if known is None:
            raise ConfigurationError(
                f"model {model!r} is not configured {nearest(model, config.models)}"
            )
        request, policies = build_request(prompt, options)
        lineup = known.lineup()
        encoded = known.encoded(request, lineup.routes[0])
        _check_recovery(policies.stream_policy, model, known)
        known.purse.put()
        hedge, holdout = _drawn_hedging(policies.hedge_policy or config.hedge)
        call = Call(
            Order(
                model=model,
                streamed=stream,
                lineup=lineup,
                thresholds=Thresholds(hedge, lineup.candidates, now_ns()),
                request=request,
                hedge=hedge,
                retry=policies.retry_policy or config.retry,
                stream=policies.stream_policy or config.stream,
                limits=config.limits,
                purse=known.purse,
                deadline_s=policies.deadline_s,
                holdout=holdout,
            ),
            encoded,
            self._observers,
        )
        self._calls[call] = None
        return call

    def _model(self, name: str) -> Model:
        names = self._config.names_of(name)
        routes = [self._routes[each] for each in names]
        lineup = Lineup(routes, [self._candidates[each] for each in names])
        return Model(lineup, self._config.weights_of(name), _purse(self._config.hedge))

    def _over(self, call: Call) -> None:
        try:
            call.abandon("caller")
        finally:
            call.settle()
            self._calls.pop(call, None)
            if self._closed and not self._calls:
                self._none_left.set()

    async def aclose(self, *, grace_s: float = 30.0) -> None:
        """Close gracefully: take no call any more, wait for those that run, then close all.

        Leaving the block does not wait; do this before, in a task that is told to stop. If
        cancelled, everything is closed at once.

        Args:
            grace_s: how long to wait, in seconds. Calls that run longer raise
                :class:`GatewayClosed`.
        """
        self._closed = True
        try:
            if self._calls:
                with trio.move_on_after(grace_s):
                    await self._none_left.wait()
        finally:
            self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close every connection at once; the calls that still run end with an error."""
        self._closed = True
        with ExitStack() as closing:
            for route in self._routes.values():
                closing.callback(route.connections.close)
            for call in list(self._calls):
                closing.callback(call.shut)


def _purse(hedge: HedgePolicy) -> Purse:
    most = hedge.budget_tokens_per_hour
    allowance = None if most is None else Allowance(most)
    return Purse(ratio=hedge.budget_ratio, burst=hedge.budget_burst, allowance=allowance)


def _state(known: Candidate, now: int) -> TargetState:
    after = known.latency.after_ns(now)
    return TargetState(
        standing=known.health.standing(now), after_s=None if after is None else after / 1e9
    )


def _check_recovery(stream: StreamPolicy | None, model: str, known: Model) -> None:
    """Refuse a call that wants its stream continued where nobody can do so."""
    continues = stream is not None and stream.recovery == "continue"
    if continues and not known.can_continue:
        raise ConfigurationError(
            f'stream_policy has recovery = "continue", but no target of {model!r} has prefill'
        )


def _drawn_hedging(hedge: HedgePolicy) -> tuple[HedgePolicy, bool | None]:
    """Give the policy for one call, and whether it is in the holdout; ``None``: nothing is hedged.

    A call of the holdout is never hedged.
    """
    if not hedge.enabled:
        return hedge, None
    held_out = _chance() < hedge.holdout
    return attrs.evolve(hedge, enabled=False) if held_out else hedge, held_out


def _chance() -> float:
    return random.random()  # noqa: S311 - no secret
