"""What a call and its attempts cost, in figures that can be checked by hand.

Every field has one definition, given under it. ``None`` means that the figure does not
exist for this stream; it is never a stand-in for zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from .usage import Usage

AttemptKind = Literal["primary", "hedge", "retry"]
HedgeReason = Literal["ttft", "stall"]
Outcome = Literal["won", "lost", "failed", "cancelled"]
RefusalReason = Literal[
    "breaker",
    "budget",
    "deadline",
    "max_attempts",
    "max_retries",
    "no_target",
    "rate_limited",
    "throttled",
    "token_budget",
]
"""Why a hedge that was due, or a retry, did not start. ``breaker``: the targets that are left are
failing. ``budget``: the model's purse is empty. ``deadline``: the call's comes first.
``max_attempts``, ``max_retries``: the call had enough. ``no_target``: none is left.
``rate_limited``: those that are left asked not to be tried yet. ``throttled``: most attempts of the
model fail. ``token_budget``: hedges have wasted what they may in an hour.
"""

SeamKind = Literal["restart", "continue"]
"""``restart``: what was delivered before the seam is to be discarded. ``continue``: the text before
it belongs to the answer, and what follows goes on from there.
"""

Standing = Literal["healthy", "degraded", "rate_limited", "open"]
"""What is held of a target. ``degraded``: half of its last attempts fell silent. ``rate_limited``:
it asked not to be tried yet. ``open``: half of its last attempts failed, and its circuit breaker is
open. A target that is not healthy is the primary only when none is, or to probe it.
"""

ContentKind = Literal["text", "reasoning", "refusal", "tool_call"]

StallCause = Literal["server_silence", "server_alive", "disconnect"]
"""``server_silence``: no byte came. ``server_alive``: keep-alives came, but no content.
``disconnect``: the connection ended in it.
"""

EndKind = Literal["complete", "cut", "error", "watchdog", "cancelled"]
"""``complete``: the wire's terminal fact came. ``cut``: the connection ended before it.
``error``: the provider reported a failure, or sent what is no answer. ``watchdog``: a time limit of
ours. ``cancelled``: the race, the caller, a deadline or a shutdown; ``cancel_reason`` says which.
"""

RateBasis = Literal["active", "wall_lower_bound"]
"""``active``: tokens that came in flowing time, over that time. ``wall_lower_bound``: all tokens
after the first arrival over all of the time, so the true rate was at least this.
"""

RateReason = Literal[
    "not_streamed",
    "multiple_choices",
    "empty",
    "single_chunk",
    "burst",
    "truncated",
    "no_token_count",
    "implausible",
]
"""Why there is no rate; the first that holds, in this order. ``not_streamed``: the reply was one
document. ``multiple_choices``: several answers share the stream. ``empty``: no content.
``single_chunk``: one content chunk. ``burst``: less than 200 ms of generation. ``truncated``: no
proper end (yet). ``no_token_count``: the wire counted no output. ``implausible``: no token after
the first arrival, or over 10,000 a second.
"""

WasteConfidence = Literal["exact", "at_least", "estimate", "unknown"]


@attrs.frozen(kw_only=True)
class Stall:
    """One stalled gap: a stretch between two content chunks that was spent waiting."""

    attempt: int
    """Index of the attempt."""

    after_chunk: int
    """Position of the content chunk before it, from 0."""

    offset_ms: float
    """From the attempt's start to that chunk."""

    duration_ms: float
    """Time waited for the provider in it. Later than ``offset_ms`` it ends by this, plus the time
    in which nobody asked.
    """

    characters_before: int
    """Characters of content received before it."""

    next_kind: ContentKind | None
    """Kind of the chunk that ended it. ``None`` if none did, because it is ``open``."""

    keepalives: int
    """Events and comments without content that came during it."""

    open: bool
    """Whether the stream ended in it, without a proper end. Such a stall is no part of
    ``stall_ms``: what it would have become is not known.
    """

    cause: StallCause


@attrs.frozen(kw_only=True)
class Seam:
    """A place in a delivered stream where the text before it was another attempt's."""

    kind: SeamKind
    before: int
    """Index of the attempt that was delivered before it."""

    after: int
    """Index of the attempt that is delivered after it."""

    at_ms: float
    """From the application's call to the first piece of the attempt after it."""

    characters: int
    """Characters of text that had been delivered: since the beginning, or since the last
    ``restart``. Of a ``continue`` this is where in the answer's text the seam is.
    """


@attrs.frozen(kw_only=True)
class Waste:
    """What an attempt cost whose content is no part of what the caller got."""

    ran_ms: float
    """From its start to its end."""

    characters: int
    """Characters of content that were received in vain."""

    input_tokens: int | None
    """Prompt tokens; ``None`` if nothing tells."""

    output_tokens: int | None
    """Generated tokens; ``None`` if nothing tells. What a provider generates after the connection
    was closed is not known here.
    """

    confidence: WasteConfidence
    """``exact`` and ``at_least``: its own usage, see :class:`Usage`. ``estimate``: what its own
    usage lacks is the winner's prompt, and the winner's tokens for each character of its text.
    ``unknown``: neither gave a count.
    """


@attrs.frozen(kw_only=True)
class StreamFigures:
    """The time of one answer, divided into what flowed and what stood still.

    Durations are milliseconds, made of whole nanoseconds of one monotonic clock. A *content chunk*
    is a parsed event with non-empty text, reasoning, refusal, or tool-call name or arguments; all
    chunks parsed from one socket read share the stamp at which that read returned. The time
    *waited* in a gap between two content chunks is what socket reads in it took, less what our own
    event loop was late. A gap is *stalled* when at least ``stream.stall_threshold_ms`` was waited
    in it.

    Of a reply that is no stream, or that holds several choices, all durations but ``total_ms`` are
    ``None``: there is no single stream to time.
    """

    chunk_count: int
    """Content chunks received. Chunks are not tokens: providers put several into one."""

    ttft_ms: float | None
    """Start to first content chunk. For a call: from the application's call, so the delay
    before a hedge is included; for an attempt: from that attempt's own start, so the wait for a
    slot and for a connection is included.

    NVIDIA's and aiperf's TTFT start at the request that is sent; vLLM's bench ends it at the first
    delta, even if that has only a role. ``None`` when no content came.
    """

    ttft_text_ms: float | None
    """The same, to the first chunk of text, so reasoning and tool calls before it are included.

    ``None`` when no text came.
    """

    generation_ms: float | None
    """First to last content chunk on the wall clock, silences included.

    The same as aiperf's ``decode_duration``. vLLM's bench takes the time from the first delta, even
    if that has only a role, to the finish reason; for what follows the last content see
    ``tail_ms``. ``None`` with fewer than two content chunks: one arrival spans no interval.
    """

    stall_ms: float | None
    """The part of ``generation_ms`` spent waiting for the provider in stalled gaps.

    Only time inside socket reads counts; a consumer that does not ask, or an event loop that was
    busy, is no stall. No other tool measures it. ``None`` when ``generation_ms`` is.
    """

    stall_gap_count: int | None
    """Stalled gaps. ``None`` when ``generation_ms`` is."""

    stall_count: int | None
    """Stall events: maximal runs of consecutive stalled gaps, each run counted once.

    Gaps between chunks of the same read are passed over. ``None`` when ``generation_ms`` is.
    """

    active_generation_ms: float | None
    """``generation_ms - stall_ms``. ``None`` when ``generation_ms`` is."""

    backpressure_ms: float | None
    """The part of ``generation_ms`` in which nobody waited for the provider: the consumer did not
    ask, or the event loop was late. It is part of ``active_generation_ms``.

    ``None`` when ``generation_ms`` is.
    """

    max_gap_ms: float | None
    """The longest time waited for the provider between two consecutive content chunks.

    Not an inter-token latency: a chunk may hold several tokens. ``None`` when ``generation_ms`` is.
    """

    tail_ms: float | None
    """Time waited after the last content chunk until the end: for a finish reason, the usage, an
    end marker, or what cut the stream. Never part of ``generation_ms``.

    ``None`` when no content came.
    """

    open_gap_ms: float | None
    """``tail_ms`` of a stream without a proper end: how long it had been silent when it ended, or
    how long it has been up to the last read, while it runs.

    ``None`` when no content came, or the stream ended properly.
    """

    total_ms: float
    """Start to end, or to now while it runs. For a call: from the application's call to
    the end of the answer; for an attempt: from its start to its terminal fact, failure or
    cancellation.
    """

    output_tokens: int | None
    """Generated tokens as the provider counted them, reasoning included.

    Never estimated. ``None`` when the wire had no count.
    """

    tokens_source: Literal["usage", "none"]
    """Where ``output_tokens`` is from: the wire's ``usage``, or ``none``."""

    tpot_ms: float | None
    """Time per output token: ``generation_ms / (output_tokens - 1)``, silences included.

    What NVIDIA and aiperf call inter-token latency (ITL), and vLLM TPOT; theirs divide the latency
    less TTFT. guidellm's TPOT includes TTFT. ``None`` with fewer than two chunks or two tokens.
    """

    tokens_per_s: float | None
    """Speed of generation in tokens per second, on the basis that ``rate_basis`` names.

    ``active``: the tokens of the arrivals that closed flowing gaps, divided by
    ``active_generation_ms``. The tokens that ended a stall took no flowing time, so they are left
    out. It needs a proper end, 200 ms of active time and more than of stall, five flowing gaps of
    1 ms on average, and backpressure of at most a tenth.
    ``wall_lower_bound``: else the tokens after the first arrival divided by ``generation_ms``.

    Tokens are those that the provider counted; unless it counted them arrival by arrival, they are
    shared out by characters. Hidden reasoning came in no chunk and is left out. Others divide all
    output tokens by the request's latency. ``None``: see ``rate_reason``.
    """

    rate_basis: RateBasis | None
    """What ``tokens_per_s`` is measured by; ``None`` when there is none."""

    rate_reason: RateReason | None
    """Why there is no ``tokens_per_s``; ``None`` when there is one."""

    stalls: Sequence[Stall]
    """The longest 64 stalled gaps, in the order of the stream; the open one included."""


@attrs.frozen(kw_only=True)
class AttemptStats(StreamFigures):
    """One try at one target, and what became of it."""

    index: int
    """Position in order of launch, from 0."""

    target: str
    """Name of the target."""

    kind: AttemptKind
    """``primary``; ``hedge``: started while another was running; ``retry``: started because
    the last one had failed.
    """

    reason: HedgeReason | None
    """Why a hedge was started: no first content (``ttft``) or a silence (``stall``).

    ``None`` for every other kind.
    """

    left_out: Sequence[str] = ()
    """The dialects whose opaque parts of the conversation (thinking signatures, reasoning items)
    its request left out, because only their providers understand them; mostly empty.
    """

    started_ms: float
    """From the application's call to the start of this attempt."""

    sent_ms: float | None
    """From its start to the last byte of its request; ``None`` when that was not sent."""

    headers_ms: float | None
    """From its start to the complete head of its response; ``None`` when none arrived."""

    outcome: Outcome | None
    """``won``; ``lost`` the race, a duel, or a stream that it had delivered in part; ``failed`` by
    itself; ``cancelled`` from outside (see ``cancel_reason``). ``None`` while it runs.
    """

    end_kind: EndKind | None
    """How its stream ended. ``None`` while it runs."""

    cancel_reason: str | None
    """Why it was cancelled: ``lost the race``, ``lost a duel``, ``caller``, ``deadline`` or
    ``shutdown``. ``None`` when it was not.
    """

    cancel_to_closed_ms: float | None
    """From the decision to cancel to the closing of its socket. ``None`` when it was not
    cancelled, or had no connection.
    """

    status: int | None
    """HTTP status of its response; ``None`` when none arrived."""

    request_id: str | None
    """The provider's request id, from the response headers; ``None`` when there is none."""

    error: str | None
    """What it failed with, as text; ``None`` unless it failed."""

    error_kind: str | None
    """``kind`` of that error; ``None`` unless it failed."""

    characters: int
    """Characters of content received."""

    usage: Usage
    """What its provider counted."""

    wasted: Waste | None
    """What it cost in vain; ``None`` while it runs, and for one whose content the caller keeps."""


@attrs.frozen(kw_only=True)
class CallStats(StreamFigures):
    """What one call cost, as seen by its caller.

    The figures are the winner's (of a call still open, or failed: those of the attempt in front; of
    a stream with ``seams``: those of the attempt that answered last), except that ``ttft_ms``,
    ``ttft_text_ms`` and ``total_ms`` start at the application's call. A loser's chunks are in none.
    """

    attempts: Sequence[AttemptStats]
    """Every attempt of the call, in order of launch."""

    front: int
    """Index of the attempt whose figures these are. Of a call that nobody won, that is the one that
    its error is about, else the latest to speak.
    """

    hedge_reason: HedgeReason | None
    """Reason of the call's first hedge; ``None`` when nothing was hedged."""

    hedge_after_ms: float | None
    """From the application's call to the start of its first hedge; ``None`` when nothing was
    hedged.
    """

    hedges_refused: Mapping[RefusalReason, int]
    """How many hedges that were due did not start, by the reason why."""

    commit_ms: float | None
    """From the application's call to the first commit; ``None`` when there was none. A stream that
    broke after it has one; for later ones see ``seams``.
    """

    seams: Sequence[Seam] = ()
    """Where another attempt took over what had been delivered in part, in order; mostly empty."""

    holdout: bool | None = None
    """Whether ``hedge.holdout`` kept it from being hedged; ``None`` without ``hedge.enabled``."""

    estimated_saved_ms: float | None
    """An estimate of what the hedge saved: how long the attempt that it beat had been silent when
    it lost.

    What would have been cannot be known, for the loser was cut off. Silences are heavy-tailed, and
    one that has lasted for a while lasts, in the median, about as long again (exactly so under a
    Pareto law with exponent 1). ``None`` unless a hedge won.
    """
