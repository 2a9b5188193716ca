"""What an attempt cost in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..stats import Waste, WasteConfidence
from ..usage import Usage

if TYPE_CHECKING:
    from typing import Self


@attrs.frozen(kw_only=True)
class Cost:
    """What is known of the cost of one attempt."""

    usage: Usage
    characters: int
    """Characters of content received."""

    def or_else(self, other: Self) -> Self:
        """Fill what this one's usage lacks from *other*'s, an answer to the same prompt."""
        usage = self.usage
        input_tokens = usage.input_tokens
        if input_tokens is None:
            input_tokens = other.usage.input_tokens
        output_tokens = usage.output_tokens
        if output_tokens is None:
            output_tokens = other._tokens_for(self.characters)
        filled = attrs.evolve(usage, input_tokens=input_tokens, output_tokens=output_tokens)
        return attrs.evolve(self, usage=filled)

    def _tokens_for(self, characters: int) -> int | None:
        count = self.usage.output_tokens
        if count is None or not self.characters:
            return None
        return round(count * characters / self.characters)


def wasted(cost: Cost, *, ran_ns: int, sent: bool, refused: bool, winner: Cost | None) -> Waste:
    """Tell what an attempt cost that was in vain.

    Args:
        cost: what is known of it.
        ran_ns: from its start to its end.
        sent: whether its request was sent. If not, it cost nothing.
        refused: whether its request was refused. Nothing is estimated then.
        winner: what is known of the winner's cost; ``None`` if nobody won.
    """
    if not sent:
        cost = attrs.evolve(cost, usage=Usage(input_tokens=0, output_tokens=0, confidence="exact"))
    known = cost.usage
    filled = known if refused or winner is None else cost.or_else(winner).usage
    return Waste(
        ran_ms=ran_ns / 1e6,
        characters=cost.characters,
        input_tokens=filled.input_tokens,
        output_tokens=filled.output_tokens,
        confidence=_confidence(known, filled),
    )


def _confidence(known: Usage, filled: Usage) -> WasteConfidence:
    return known.confidence if filled == known else "estimate"
