"""What the planner decides, for whoever runs the race to carry out."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from ..stats import AttemptKind, HedgeReason, RefusalReason

Rescue: TypeAlias = Literal["restart", "continue", "continue-or-restart"]
"""What may be started for a stream that was delivered in part: an answer from the beginning, one
that goes on with it, or that and, where it cannot be had, one from the beginning.
"""


@attrs.frozen
class Launch:
    """Start an attempt; its index is the number of attempts before it."""

    target: int
    """Position in the model's list of targets."""

    kind: AttemptKind
    reason: HedgeReason | None = None
    goes_on: bool = False
    """Whether it shall go on with what was delivered."""


@attrs.frozen
class Cancel:
    """Take an attempt out of the race."""

    attempt: int
    reason: Literal["lost the race", "lost a duel"]


@attrs.frozen
class Commit:
    """Make an attempt the winner; every other one has lost."""

    attempt: int


@attrs.frozen
class Fail:
    """End the call with the error of that attempt, the last that failed by itself."""

    attempt: int
    not_tried: RefusalReason | None
    """Why nothing was tried after it; ``None`` where nothing was to be tried."""


@attrs.frozen
class Refuse:
    """Start no hedge, although one is due."""

    reason: HedgeReason
    """Why it is due."""

    why: RefusalReason


Decision: TypeAlias = Launch | Cancel | Commit | Fail | Refuse
