"""What ``polygateway probe --json`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .estimate import LEVEL, PERCENTS, Distribution, Percentile, Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .result import Result
    from .sample import Sample

METHOD: Mapping[str, str | float] = {
    "percentile": "nearest rank: sample number ceil(n * p / 100), from the best; null where that"
    " is the worst",
    "interval": "order statistics, distribution-free",
    "share_interval": "Wilson score",
    "level": LEVEL,
}


def record(results: Iterable[Result]) -> Mapping[str, object]:
    """Give everything, ready for JSON. Times end with their unit; null says that there is none."""
    return {"version": 1, "method": METHOD, "targets": [_target(result) for result in results]}


def _target(result: Result) -> Mapping[str, object]:
    load, summary, target = result.load, result.summary, result.target
    return {
        "target": load.target,
        "dialect": target.dialect,
        "base_url": target.base_url,
        "model": target.model,
        "plan": attrs.asdict(load.plan),
        "stall_threshold_ms": result.stream.stall_threshold_ms,
        "left_alone": load.hopeless,
        "verdict": result.verdict,
        "shares": {
            "whole": _share(summary.whole),
            "truncated": _share(summary.truncated),
            "failed": _share(summary.failed),
            "stalled": _share(summary.stalled),
        },
        "unfinished": summary.unfinished,
        "stall_share": summary.stall_share,
        "figures": {name: _distribution(each) for name, each in summary.figures.items()},
        "speeds": dict(summary.speeds),
        "failures": [attrs.asdict(failures) for failures in summary.failures],
        "generator": _generator(result),
        "samples": [_sample(sample) for sample in load.samples],
    }


def _share(share: Share) -> Mapping[str, object]:
    return {"count": share.count, "of": share.of, "share": share.value, "interval": share.interval}


def _distribution(figure: Distribution) -> Mapping[str, object]:
    return {
        "n": len(figure.samples),
        "more_is_better": figure.more_is_better,
        **{f"p{percent}": _percentile(figure.percentile(percent)) for percent in PERCENTS},
        "worst": None if figure.worst is None else attrs.asdict(figure.worst),
    }


def _percentile(found: Percentile | None) -> Mapping[str, object] | None:
    if found is None:
        return None
    return {**attrs.asdict(found.value), "low": found.low, "high": found.high}


def _generator(result: Result) -> Mapping[str, object]:
    effort = result.effort
    return {
        **attrs.asdict(effort),
        "cpu_share": effort.cpu_share,
        "bottleneck": effort.findings(),
    }


def _sample(sample: Sample) -> Mapping[str, object]:
    return {
        "index": sample.index,
        "due_s": sample.due_s,
        "late_ms": sample.late_ms,
        "queued_ms": sample.queued_ms,
        "elapsed_ms": sample.elapsed_ms,
        "outcome": sample.outcome,
        "error": None if sample.cause is None else type(sample.cause).__name__,
        "error_text": sample.says or None,
        "finish_reason": sample.finish_reason,
        "stats": None if sample.figures is None else attrs.asdict(sample.figures),
    }
