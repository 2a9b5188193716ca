"""What a gateway writes into the log of the application: one line a call, and what was unusual."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .instrument import Instrument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .instrument import AttemptStarted, CallEnded, HedgeRefused, SeamMade, StallEnded
    from .stats import AttemptStats, CallStats

LOGGER = logging.getLogger("polygateway")


class LoggingInstrument(Instrument):
    """Writes one line at INFO for each call, hedge or retry, hedge refused, stall, and seam.

    A line holds names from the configuration, figures, and words of ours. It never holds text of a
    prompt or an answer, nor a key; nor the text of an error, for providers quote prompts in theirs.

    A gateway that is given none has its own, for the logger ``polygateway``, if that is enabled for
    INFO when the gateway is opened.
    """

    def __init__(self, logger: logging.Logger = LOGGER) -> None:
        """Write to a logger.

        Args:
            logger: where to write.
        """
        self._logger = logger

    def attempt_started(self, event: AttemptStarted) -> None:
        """Write that a hedge or a retry began."""
        if event.kind != "primary":
            why = "" if event.reason is None else f" because of a {_REASONS[event.reason]}"
            what = f"a {event.kind} at {event.target!r}{why}"
            self._logger.info("call %d: attempt %d, %s", event.call, event.attempt, what)

    def hedge_refused(self, event: HedgeRefused) -> None:
        """Write that a hedge was due and did not start."""
        reason = _REASONS[event.reason]
        self._logger.info("call %d: no hedge because of a %s: %s", event.call, reason, event.why)

    def stall_ended(self, event: StallEnded) -> None:
        """Write how long a silence was."""
        stall = event.stall
        silence = f"{stall.duration_ms / 1e3:.2f} s after chunk {stall.after_chunk + 1}"
        where = f"attempt {event.attempt} at {event.target!r}"
        end = ", and ended in it" if stall.open else ""
        self._logger.info(
            "call %d: %s was silent for %s (%s)%s", event.call, where, silence, stall.cause, end
        )

    def seam_made(self, event: SeamMade) -> None:
        """Write which attempt took over, and what becomes of what was delivered before."""
        seam = event.seam
        how = f"{_SEAMS[seam.kind]} ({seam.characters} characters)"
        self._logger.info(
            "call %d: attempt %d takes over from attempt %d, %s",
            *(event.call, seam.after, seam.before, how),
        )

    def call_ended(self, event: CallEnded) -> None:
        """Write what became of a call."""
        if self._logger.isEnabledFor(logging.INFO):
            figures = ", ".join([_ending(event), *_figures(event.stats)])
            attempts = ", ".join(map(_attempt, event.stats.attempts))
            self._logger.info("call %d %r: %s; %s", event.call, event.model, figures, attempts)


_REASONS = {"ttft": "late first content", "stall": "stall"}
_SEAMS = {
    "restart": "and begins anew: what was delivered is to be discarded",
    "continue": "and goes on where that one stopped",
}


def _ending(event: CallEnded) -> str:
    took = f"{event.stats.total_ms / 1e3:.2f} s"
    if event.error is not None:
        return f"failed after {took} with {type(event.error).__name__} ({event.error.kind})"
    return f"complete in {took}" if event.outcome == "complete" else f"cancelled after {took}"


def _figures(stats: CallStats) -> Iterator[str]:
    if stats.ttft_ms is not None:
        yield f"first content after {stats.ttft_ms / 1e3:.2f} s"
    yield f"{stats.chunk_count} chunk{'' if stats.chunk_count == 1 else 's'}"
    if stats.seams:
        yield f"{len(stats.seams)} seam{'' if len(stats.seams) == 1 else 's'}"
    if stats.stall_ms:
        yield f"stalled for {stats.stall_ms / 1e3:.2f} s"
    if stats.output_tokens is not None:
        yield f"{stats.output_tokens} output tokens"
    if stats.tokens_per_s is not None:
        bound = "at least " if stats.rate_basis == "wall_lower_bound" else ""
        yield f"{bound}{stats.tokens_per_s:.1f} tokens/s"


def _attempt(stats: AttemptStats) -> str:
    status = "" if stats.status is None else f", HTTP {stats.status}"
    why = "" if stats.error_kind is None else f" ({stats.error_kind}{status})"
    return f"{stats.kind} {stats.target!r} {stats.outcome}{why}"
