"""From the requests to one target to what they say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import attrs

from .estimate import Distribution, Observed, Share
from .sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...stats import StreamFigures

FigureName = Literal[
    "ttft_ms",
    "ttft_from_due_ms",
    "total_ms",
    "total_from_due_ms",
    "max_silence_ms",
    "tokens_per_s_active",
    "tokens_per_s_wall_lower_bound",
]
"""``ttft_ms``: call to first content. ``total_ms``: call to whole answer. ``..._from_due_ms``: the
same from when the request should have begun. ``max_silence_ms``: the longest time without content
after first content. ``tokens_per_s_...``: the speeds of that basis.
"""


@attrs.frozen(kw_only=True)
class Failures:
    """Requests that ended with the same class of error."""

    error: str
    """Name of the class."""

    count: int
    example: str
    """What the first of them said."""


@attrs.frozen(kw_only=True)
class Summary:
    """What the finished requests to a target say of it."""

    whole: Share
    truncated: Share
    failed: Share
    unfinished: int
    """Requests that were stopped. They are in none of the other figures."""

    stalled: Share
    """Answers with at least one stall, of those that brought content."""

    stall_share: float | None
    """Of the time of generation, of all together. ``None`` without any."""

    backpressure_share: float | None
    """Likewise, the time in which nobody waited for the provider."""

    backpressure_ms: float | None
    """The same as a mean of those answers. ``None`` without any."""

    figures: Mapping[FigureName, Distribution]
    speeds: Mapping[str, int]
    """How many answers have tokens a second on which basis, or why they have none."""

    failures: Sequence[Failures]
    """The most frequent first."""


def summarize(samples: Iterable[Sample]) -> Summary:
    """Say what *samples* amount to."""
    every = list(samples)
    finished = [sample for sample in every if sample.finished]
    outcomes = Counter(sample.outcome for sample in finished)
    streams = [sample.figures for sample in finished if sample.figures is not None]
    spoken = [stream for stream in streams if stream.chunk_count]
    timed = [stream for stream in streams if stream.generation_ms is not None]
    generation_ms = sum(stream.generation_ms or 0.0 for stream in timed)
    backpressure_ms = sum(stream.backpressure_ms or 0.0 for stream in timed)
    return Summary(
        whole=Share(outcomes["whole"], len(finished)),
        truncated=Share(outcomes["truncated"], len(finished)),
        failed=Share(outcomes["failed"], len(finished)),
        unfinished=len(every) - len(finished),
        stalled=Share(sum(1 for stream in spoken if stream.stalls), len(spoken)),
        stall_share=_ratio(sum(stream.stall_ms or 0.0 for stream in timed), generation_ms),
        backpressure_share=_ratio(backpressure_ms, generation_ms),
        backpressure_ms=_ratio(backpressure_ms, len(timed)),
        figures={**_times(finished), **_speeds(streams)},
        speeds=Counter(stream.rate_basis or stream.rate_reason or "unknown" for stream in streams),
        failures=_failures(finished),
    )


def _times(samples: Sequence[Sample]) -> Mapping[FigureName, Distribution]:
    def of(observe: Callable[[Sample], Observed | None]) -> Distribution:
        observed = map(observe, samples)
        return Distribution.rising([each for each in observed if each is not None])

    return {
        "ttft_ms": of(Sample.ttft_ms),
        "ttft_from_due_ms": of(lambda sample: sample.from_due(sample.ttft_ms())),
        "total_ms": of(Sample.total_ms),
        "total_from_due_ms": of(lambda sample: sample.from_due(sample.total_ms())),
        "max_silence_ms": of(Sample.silence_ms),
    }


def _speeds(streams: Sequence[StreamFigures]) -> Mapping[FigureName, Distribution]:
    def of(basis: str) -> Distribution:
        speeds = [stream.tokens_per_s for stream in streams if stream.rate_basis == basis]
        return Distribution.falling([speed for speed in speeds if speed is not None])

    return {
        "tokens_per_s_active": of("active"),
        "tokens_per_s_wall_lower_bound": of("wall_lower_bound"),
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _failures(samples: Iterable[Sample]) -> list[Failures]:
    causes: dict[str, list[str]] = {}
    for sample in samples:
        if sample.cause is not None:
            causes.setdefault(type(sample.cause).__name__, []).append(sample.says)
    found = [
        Failures(error=error, count=len(texts), example=texts[0]) for error, texts in causes.items()
    ]
    return sorted(found, key=lambda each: -each.count)
