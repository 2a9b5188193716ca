"""What the attempts of a call teach: about their targets, and about what is left to spend."""

# Theory of operation
# ===================
#
# Rule 1: every attempt is told of once when it starts and once when it ends, whatever end.
# Rule 2: a proper end speaks for its target, and a failure against it, unless the request or one of
#         our own limits was at fault. What we cancelled says neither.
# Rule 3: how long something took is known when it is over. What was cut off before took longer than
#         that, which is a lesson too; not if it was the caller who left, for callers leave when
#         they like.
# Rule 4: a silence is a fact, whoever ends it. It is told when a race notices it, or else at the
#         attempt's end.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from .core.budget import Purse
from .core.failures import judge
from .core.targets import Candidate
from .core.thresholds import Thresholds
from .errors import FirstContentTimeout
from .net.clock import now_ns

if TYPE_CHECKING:
    from .attempt import Attempt
    from .core.failures import Failure
    from .core.latency import Latency
    from .stats import AttemptStats, CallStats, Waste

_LEFT = ("caller", "shutdown")

# Where a provider counts nothing: English text has about four characters a token.
_CHARACTERS_A_TOKEN = 4


@attrs.frozen
class Lessons:
    """Passes on what the attempts of one call teach."""

    candidates: Sequence[Candidate]
    """The call's targets, in the order in which it tries them."""

    thresholds: Thresholds
    purse: Purse

    def begun(self, attempt: Attempt) -> None:
        """Pass on that an attempt starts."""
        self.thresholds.after_ns(attempt.position)  # by what is known before it has taught anything
        self._known(attempt).health.launched(attempt.started_ns)
        self.purse.launched(attempt.started_ns)

    def fell_silent(self, attempt: Attempt) -> None:
        """Pass on that an attempt fell silent. Only the first time counts."""
        if not attempt.has_been_silent:
            attempt.has_been_silent = True
            self._known(attempt).health.fell_silent(attempt.started_ns, now_ns())

    def ended(self, attempt: Attempt) -> None:
        """Pass on what became of an attempt."""
        _teach_times(self._known(attempt).latency, attempt)
        if self._was_silent(attempt):
            self.fell_silent(attempt)
        if attempt.whole:
            self._succeeded(attempt)
        elif attempt.failure is not None and attempt.cancel_reason is None:
            self._failed(attempt, attempt.failure)
        else:
            self._says_nothing(attempt)

    def spent(self, attempts: Sequence[Attempt], stats: CallStats) -> None:
        """Pass on what a call's hedges have wasted.

        Args:
            attempts: all of them.
            stats: the record of the call.
        """
        allowance = self.purse.allowance
        if allowance is None:
            return
        for attempt, record in zip(attempts, stats.attempts, strict=True):
            if record.wasted is not None and _is_hedges_waste(record):
                allowance.waste(_tokens(record.wasted, attempt), now_ns())

    def _known(self, attempt: Attempt) -> Candidate:
        return self.candidates[attempt.position]

    def _succeeded(self, attempt: Attempt) -> None:
        now, silent = now_ns(), attempt.has_been_silent
        self._known(attempt).health.ended(attempt.started_ns, now, was_silent=silent)
        self.purse.succeeded(attempt.started_ns, now)

    def _failed(self, attempt: Attempt, failure: Failure) -> None:
        verdict = judge(failure)
        if not verdict.blames:
            self._says_nothing(attempt)
            return
        now, health, silent = now_ns(), self._known(attempt).health, attempt.has_been_silent
        health.failed(attempt.started_ns, now, was_silent=silent)
        self.purse.failed(attempt.started_ns, now)
        if verdict.retry_after_ns is not None:
            health.rest.ask(verdict.retry_after_ns, now)

    def _says_nothing(self, attempt: Attempt) -> None:
        health = self._known(attempt).health
        health.cancelled(attempt.started_ns, was_silent=attempt.has_been_silent)
        self.purse.cancelled(attempt.started_ns)

    def _was_silent(self, attempt: Attempt) -> bool:
        """Tell whether an attempt that has ended was silent for too long at any time."""
        first, last = attempt.timeline.first_ns, attempt.timeline.last_ns
        waited = (attempt.ended_ns if first is None else first) or attempt.started_ns
        if waited - attempt.started_ns >= self.thresholds.after_ns(attempt.position):
            return True
        if first is None or last is None:
            return False
        longest = attempt.timeline.tally.max_gap_ns
        if not attempt.whole:
            longest = max(longest, attempt.timeline.waited_ns)
        return longest >= self.thresholds.stall_after_ns(attempt.position, last - first)


def _teach_times(latency: Latency, attempt: Attempt) -> None:
    now, timeline = now_ns(), attempt.timeline
    was_cut_off = not attempt.whole and attempt.cancel_reason not in _LEFT
    if timeline.first_ns is not None:
        latency.first_content(timeline.first_ns - attempt.started_ns, now)
    elif was_cut_off and _had_no_other_end(attempt) and attempt.ended_ns is not None:
        latency.first_content(attempt.ended_ns - attempt.started_ns, now, censored=True)
    for silence in timeline.silences:
        latency.silence(silence, now)
    if was_cut_off and timeline.first_ns is not None:
        latency.silence(timeline.waited_ns, now, censored=True)


def _had_no_other_end(attempt: Attempt) -> bool:
    """Tell whether an attempt without content was only too slow: an error is no slow answer."""
    return attempt.cancel_reason is not None or isinstance(attempt.failure, FirstContentTimeout)


def _is_hedges_waste(record: AttemptStats) -> bool:
    return record.outcome == "lost" or record.kind == "hedge"


def _tokens(waste: Waste, attempt: Attempt) -> int:
    """Give what was wasted; where nobody counted it, by the characters of prompt and answer."""
    if waste.confidence != "unknown":
        return (waste.input_tokens or 0) + (waste.output_tokens or 0)
    return (attempt.request_bytes + waste.characters) // _CHARACTERS_A_TOKEN
