"""One configured model: its targets, the order in which a call is to try them, and its purse."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import attrs

from .core.order import drawn, lined_up
from .core.targets import Candidate
from .net.clock import now_ns
from .route import Route
from .wire.posting import check_extra

if TYPE_CHECKING:
    from .core.budget import Purse
    from .messages import ChatRequest
    from .wire.dialect import Dialect, WireRequest


@attrs.frozen
class Lineup:
    """The targets of a model in an order, the primary first."""

    routes: Sequence[Route]
    candidates: Sequence[Candidate]
    """What is known of each of them."""

    def reordered(self, order: Sequence[int]) -> Lineup:
        """Give the targets in another *order*, which is of their positions here."""
        routes = [self.routes[position] for position in order]
        return Lineup(routes, [self.candidates[position] for position in order])


class Model:
    """What a gateway has of one model."""

    def __init__(self, lineup: Lineup, weights: Sequence[float] | None, purse: Purse) -> None:
        """Prepare for calls.

        Args:
            lineup: its targets as they are configured.
            weights: by which a call's primary is drawn; ``None``: by order.
            purse: what hedges and retries are paid from.
        """
        self.purse: Purse = purse
        self._lineup = lineup
        self._weights = weights
        self._positions = range(len(lineup.routes))
        self._dialects: Collection[Dialect] = {route.dialect for route in lineup.routes}

    def lineup(self) -> Lineup:
        """Give the targets in the order in which a call that begins now is to try them."""
        order: Sequence[int] = self._positions
        if self._weights is not None:
            shares = [random.random() for _ in order]  # noqa: S311 - no secret
            order = drawn(self._weights, shares)
        placed = lined_up(order, [each.health for each in self._lineup.candidates], now_ns())
        return self._lineup if placed is self._positions else self._lineup.reordered(placed)

    def encoded(self, request: ChatRequest, primary: Route) -> WireRequest:
        """Give *request* as the *primary* is sent it, once it is certain that all can be.

        Raises:
            ConfigurationError: it cannot be said to one of the targets; the text names what.
        """
        check_extra(request.extra, primary.dialect.own_fields, "extra")
        for dialect in self._dialects:
            if dialect is not primary.dialect:
                dialect.check(request)
        return primary.encode(request)

    @property
    def can_continue(self) -> bool:
        """Whether one of its targets goes on with an answer that has been begun."""
        return any(each.prefill for each in self._lineup.candidates)
