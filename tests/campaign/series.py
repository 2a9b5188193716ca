"""What a campaign plays: a series of calls through one gateway, as plain values.

Every field has a default, the simplest there is. So a series can be made simpler field by field,
and what it is printed as names only what matters.
"""

from __future__ import annotations

from typing import Literal

import attrs

from polygateway import HedgePolicy, Limits, RetryPolicy, StreamPolicy

What = Literal[
    "text", "two", "reasoning", "refusal", "tool_call", "comment", "ping", "empty", "role"
]
"""What one write brings. ``two``: two pieces of text."""

Ending = Literal[
    "whole",
    "no marker",
    "marker only",
    "length",
    "cut",
    "reset",
    "hang",
    "error",
    "overloaded",
    "rate limited",
    "garbage",
    "eof",
]

GoingOn = Literal[
    "goes on", "goes on after a blank", "starts over", "starts differently", "refuses"
]
"""What a model does with an answer that has been begun."""

NAMES = ("eu", "us", "ap", "sa", "af")
"""The targets, by position."""


@attrs.frozen
class Beat:
    """Something that a provider writes, after a wait."""

    what: What = "text"
    wait_ms: int = 0


@attrs.frozen
class Reply:
    """What a provider does with one request."""

    beats: tuple[Beat, ...] = ()
    ending: Ending = "whole"
    wait_ms: int = 0
    """Before the ending; of a refusal, before it."""

    status: int = 200
    code: str | None = None
    """The provider's word for its refusal."""

    retry_after: str | None = None
    head_first: bool = False
    """Whether the head is sent at once, in a write of its own."""

    counts: bool = False
    """Whether a whole answer comes with its token counts."""

    going_on: GoingOn = "goes on"


@attrs.frozen
class Spell:
    """A stretch of time in which a provider is sick."""

    begin_ms: int = 0
    end_ms: int = 0
    reply: Reply | None = None
    """What it does with every request meanwhile; ``None``: it refuses connections."""


@attrs.frozen
class Provider:
    """Who answers at one target."""

    replies: tuple[Reply, ...] = (Reply((Beat(),)),)
    """Which one a request gets, the luck of its call decides."""

    connect_ms: int = 0
    keep_alive_ms: int | None = None
    drops_reused: bool = False
    spell: Spell | None = None
    prefill: bool = False
    weight: float = 1.0
    """Only if the series is weighted."""


@attrs.frozen
class Policies:
    """How calls are to be had."""

    hedge: HedgePolicy = attrs.field(factory=HedgePolicy)
    stream: StreamPolicy = attrs.field(factory=StreamPolicy)
    retry: RetryPolicy = attrs.field(factory=RetryPolicy)


@attrs.frozen
class Call:
    """What an application does with one call."""

    at_ms: int = 0
    luck: int = 0
    streams: bool = False
    deadline_ms: int | None = None
    cancelled_after_ms: int | None = None
    cancelled_after_steps: int = 0
    """Turns of the scheduler that pass then, so that it strikes between any two of them."""

    pause_ms: int = 0
    """How long each chunk is looked at."""

    patience_ms: int | None = None
    """How long it waits for a chunk before it asks anew, each time longer."""

    breaks_after: int | None = None
    """Chunks after which the block is left."""

    wants_json: bool = False
    own_policies: bool = False
    """Whether it brings the second policies of the series."""


@attrs.frozen
class Series:
    """Calls over one gateway, and what there is at the other end."""

    seed: int = 0
    """Of everything that is drawn while it is played: the scheduler's turns, backoffs, weights."""

    providers: tuple[Provider, ...] = (Provider(),)
    calls: tuple[Call, ...] = (Call(),)
    policies: Policies = attrs.field(factory=Policies)
    """As configured."""

    own_policies: Policies = attrs.field(factory=Policies)
    """What some calls bring."""

    limits: Limits = attrs.field(factory=Limits)
    weighted: bool = False
    left_at_ms: int | None = None
    """When the gateway is left, whatever runs then; ``None``: when all calls have ended."""

    grace_ms: int | None = None
    """How long it waits for the calls that run then; ``None``: it is left without being closed."""

    def by_name(self) -> dict[str, Provider]:
        """Give the providers by the names of their targets."""
        return dict(zip(NAMES, self.providers, strict=False))

    def policies_of(self, call: Call) -> Policies:
        """Give the policies that hold for *call*."""
        return self.own_policies if call.own_policies else self.policies
