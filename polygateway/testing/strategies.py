"""Hypothesis strategies: gaps between chunks, and scripts for providers.

This module needs hypothesis (``pip install polygateway[testing]``); nothing else here does.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import strategies as st

from . import script
from .script import Send, Silence, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import SearchStrategy

Steps: TypeAlias = tuple[Step, ...]


def gaps_ns(threshold_ns: int, *, max_size: int = 40) -> SearchStrategy[list[int]]:
    """Draw gaps between chunks, in nanoseconds, with those around *threshold_ns* in plenty.

    Args:
        threshold_ns: what a gap is compared with; at least 1.
        max_size: the most gaps in one list.
    """
    around = sorted({0, threshold_ns - 1, threshold_ns, threshold_ns + 1})
    gap = st.sampled_from(around) | st.integers(0, 1_000_000) | st.integers(0, 10**12)
    return st.lists(gap, max_size=max_size)


def answers() -> SearchStrategy[Steps]:
    """Draw scripts of whole answers, with at least one content chunk and a proper end.

    Silences, keep-alives and other events without content come in between. Times are whole
    milliseconds.
    """
    return _joined(_HEADS, _BODIES, _CONTENTS.map(_alone), _BODIES, st.sampled_from(_PROPER_ENDS))


def scripts() -> SearchStrategy[Steps]:
    """Draw whatever a provider may do.

    Streams with a proper end, with and without content; streams that break off, hang, report an
    error or only stop; replies that are no streams. Times are whole milliseconds.
    """
    proper, other = (
        _joined(_HEADS, _BODIES, st.sampled_from(ends)) for ends in (_PROPER_ENDS, _OTHER_ENDS)
    )
    replies = _joined(_SILENCES.map(_alone), _STATUSES.map(script.status) | st.just(_PAGE))
    return proper | other | replies


# ---------------------------------------------------------------- parts of scripts


def _alone(step: Step) -> Steps:
    return (step,)


def _flat(parts: Iterable[Steps]) -> Steps:
    return tuple(chain.from_iterable(parts))


def _joined(*parts: SearchStrategy[Steps]) -> SearchStrategy[Steps]:
    return st.tuples(*parts).map(_flat)


def _silent(ms: int) -> Silence:
    return script.silence(ms / 1000)


def _late_head(silence: Silence) -> Steps:
    return (silence, script.headers())


def _kept_alive(ms: int, count: int, step: Send) -> Steps:
    """Fill *ms* milliseconds with about *count* keep-alives, whole milliseconds apart."""
    return script.keepalives(ms / 1000, every_s=max(1, ms // count) / 1000, step=step)


def _merged(steps: list[Send]) -> Steps:
    return (script.together(*steps),)


# The longest silence is over the median stall (55 s) and under the default watchdog (120 s).
_MILLISECONDS = st.integers(0, 100_000)
_SILENCES = _MILLISECONDS.map(_silent)

_PIECES = st.text(min_size=1, max_size=8)
_CONTENTS = (
    _PIECES.map(script.chunk)
    | _PIECES.map(script.reasoning)
    | _PIECES.map(script.refusal)
    | st.builds(script.tool_call, _PIECES, id=st.just("call_1"), name=st.just("look_up"))
)
_KEEPALIVES = st.sampled_from(
    [script.comment(), script.comment(""), script.ping(), script.empty(), script.role()]
)
_PARTS = (
    _CONTENTS.map(_alone)
    | _KEEPALIVES.map(_alone)
    | _SILENCES.map(_alone)
    | st.lists(_CONTENTS | _KEEPALIVES, min_size=2, max_size=4).map(_merged)
    | st.builds(_kept_alive, _MILLISECONDS, st.integers(1, 12), _KEEPALIVES)
)
_BODIES = st.lists(_PARTS, max_size=8).map(_flat)

_EARLY_HEADS: list[Steps] = [(), (script.headers(),)]
_HEADS = st.sampled_from(_EARLY_HEADS) | _SILENCES.map(_late_head)

_PROPER_ENDS: list[Steps] = [
    (script.finish(), script.usage(7, 5), script.done()),
    (script.finish(), script.done()),
    (script.finish("length"), script.done()),
    (script.finish(),),
    (script.done(),),
]
_OTHER_ENDS: list[Steps] = [
    (),
    (script.cut(),),
    (script.reset(),),
    (script.hang(),),
    (script.error_frame("scripted failure"),),
    (script.error_frame("scripted overload", type="overloaded_error", code=529), script.done()),
]

_STATUSES = st.sampled_from([400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529])
_PAGE: Steps = script.page("<html><body>Please log in.</body></html>")
