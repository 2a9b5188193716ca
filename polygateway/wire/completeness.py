"""When an answer is whole: one table for each dialect.

Three facts decide, whatever the wire: whether content came, whether a finish reason came that no
content followed, and whether the wire's own end came (``[DONE]``, ``message_stop``, the close of an
array). How the transport ended is none of them: it only says that nothing more will come. So a
connection that is reset behind a finish reason has brought a whole answer, and one that is closed
properly in the middle of a sentence has not.

``docs/reference/completeness.md`` shows the same tables with the wires' own words.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeAlias


class Fact(enum.Flag):
    """What has been seen of an answer."""

    CONTENT = enum.auto()
    FINISH = enum.auto()
    """A finish reason, and no content after it."""

    END = enum.auto()
    """The wire's own end."""


class Verdict(enum.Enum):
    """What an answer is if nothing more comes."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"
    NOTHING = "failed"
    """Nothing usable came."""


Completeness: TypeAlias = Mapping[Fact, Verdict]

_CONTENT, _FINISH, _END = Fact

# "[DONE]", or the end of a JSON document or array, makes an answer whole where there is something
# to be whole: servers leave the finish reason out of whole answers (pydantic-ai#6610), and send
# the marker alone when they failed (hermes-agent#67616).
_MARKED: Completeness = {
    Fact(0): Verdict.NOTHING,
    _CONTENT: Verdict.TRUNCATED,
    _FINISH: Verdict.COMPLETE,
    _CONTENT | _FINISH: Verdict.COMPLETE,
    _END: Verdict.NOTHING,
    _CONTENT | _END: Verdict.COMPLETE,
    _FINISH | _END: Verdict.COMPLETE,
    _CONTENT | _FINISH | _END: Verdict.COMPLETE,
}

# A terminal event that says by itself how the answer ended: without content it is an empty one.
_SAID: Completeness = {**_MARKED, _END: Verdict.COMPLETE}

COMPLETENESS: Mapping[str, Completeness] = {
    "openai-chat": _MARKED,  # finish_reason; "[DONE]", or the end of a document
    "openai-responses": _SAID,  # none; response.completed or response.incomplete
    "anthropic": _MARKED,  # stop_reason; message_stop, or the end of a document
    "gemini": _MARKED,  # finishReason; "]", the end of the array without alt=sse
    "ollama": _SAID,  # none; "done": true
}
"""By the dialect's name."""

# Decoders ask at each event, and sets of flags are slow to make.
_VERDICTS: Mapping[str, Mapping[tuple[bool, bool, bool], Verdict]] = {
    dialect: {
        (_CONTENT in seen, _FINISH in seen, _END in seen): verdict
        for seen, verdict in table.items()
    }
    for dialect, table in COMPLETENESS.items()
}


def verdict_on(dialect: str, *, content: bool, finish: bool, end: bool) -> Verdict:
    """Give what an answer is, on the wire of *dialect*, of which these facts have been seen."""
    return _VERDICTS[dialect][content, finish, end]
