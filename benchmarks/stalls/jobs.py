"""What the process of a system is asked to do, and what it tells of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs


@attrs.frozen(kw_only=True)
class Job:
    """Calls to make, so many at a time."""

    scenario: str
    seed: int
    calls: int
    at_once: int


@attrs.frozen(kw_only=True)
class Outcome:
    """What came of a job. Calls have numbers, from 0."""

    took_s: Sequence[float]
    """How long each call took, in real time, until its answer or its error."""

    errors: Mapping[int, str]
    """The errors that calls ended with, by their names."""

    wrong: Sequence[int]
    """The calls that gave something else than the right answer."""

    wall_s: float
    cpu_s: float
    """CPU time of the system's process."""
