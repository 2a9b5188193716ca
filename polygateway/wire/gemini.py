"""The wire of Gemini's own API, and of Vertex AI where it has the same shapes."""

# What is what on this wire, by the API's reference (GenerateContentResponse), Vertex AI's, and the
# sources of google-genai. Numbers are issues or pull requests of the repositories named.
#
# content     candidates[].content.parts[]: text, reasoning where thought is true; functionCall,
#             whole with args (an object; often no id), or in pieces with partialArgs until one is
#             without willContinue (Vertex AI; vercel/ai#13929). Candidate 0's; others are counted.
# keep-alive  empty texts and parts; signatures; usage; what the API's own tools did and drew
#             (executableCode, codeExecutionResult, inlineData, toolCall, ...), which is kept for
#             the next prompt.
# proper end  a finishReason for every candidate that appeared, which may be there early or all the
#             time (one-api#1477, kelivo#1003): content after it makes it void, and there is no
#             sentinel (req_llm#638). Without alt=sse also the end of the array. Never
#             FINISH_REASON_UNSPECIFIED: it is the enumeration's way to say that there is none.
# error       {"error": {"code", "status", "message"}}, also as the array's element; the finish
#             reasons in FINISH_ERRORS; promptFeedback.blockReason without candidates. All of it
#             under the status 200.
# usage       usageMetadata of any chunk, cumulative; the last figure that is not null stands.
#             Thoughts are counted apart from candidates; where both are 0 both are left out.

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..errors import AuthenticationFailed, ContentFiltered, InvalidRequest, ServerError
from ..usage import Usage
from .choices import Choices
from .decoder import EventDecoder
from .dialect import Fault
from .gemini_calls import Calls
from .gemini_parts import SIGNATURE, KeptParts, signature_in
from .gemini_request import DIALECT, fields_of, path_of
from .json_stream import ARRAY_END
from .jsontext import as_count, as_json, as_object, as_objects, as_text, to_json
from .malformed import excerpt
from .opaque import source_of
from .posting import check_extra, post_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..errors import AttemptError
    from ..messages import JSON, ChatRequest, Chunk, FinishReason
    from ..policies import Limits, Target
    from ..secret import Secret
    from ..trace import ReplyForm
    from .answer import CallPiece
    from .dialect import WireRequest

FINISH_REASONS: Mapping[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",  # the most that one request gives; the rest is asked for by a token
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",  # of a text under copyright
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",  # personal information
    "ESCALATION": "content_filter",  # a rule of the API's
    "MODEL_ARMOR": "content_filter",  # a filter of Google Cloud's
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
}
"""What the words for an end mean; every other word is ``other``."""

FINISH_ERRORS: Mapping[str, type[AttemptError]] = {
    # The generation was bad; another may be good (coder#28470, vellum-assistant#43134).
    "MALFORMED_FUNCTION_CALL": ServerError,
    "UNEXPECTED_TOOL_CALL": ServerError,  # of a function that nobody declared
    "MALFORMED_RESPONSE": ServerError,
    "TOO_MANY_TOOL_CALLS": ServerError,  # of the API's own tools, before there was an answer
    "MISSING_THOUGHT_SIGNATURE": InvalidRequest,
    "PUP_LIMITED_DISABLED": AuthenticationFailed,  # the account broke the policy on use
}
"""Words in the same place that are no end but an error."""

# What can be beside any part; one that has nothing else has an empty text.
_BESIDE = frozenset({"text", "thought", SIGNATURE, "partMetadata"})

_NOT_SAID = frozenset({"FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})


class Gemini:
    """The dialect ``gemini``."""

    own_fields: Collection[str] = (
        *("contents", "model", "stream", "systemInstruction"),
        "system_instruction",  # the same to the API
    )

    def check(self, request: ChatRequest) -> None:
        """Make sure that *request* can be said in this dialect.

        Raises:
            ConfigurationError: it cannot; the text names what.
        """
        fields, _ = fields_of(request, source={})
        to_json(fields)
        check_extra(request.extra, self.own_fields, "extra")

    def encode(self, request: ChatRequest, target: Target, key: Secret | None) -> WireRequest:
        """Put *request* into the provider's words, for *target*.

        Raises:
            ConfigurationError: as :meth:`check`, for what *target* adds.
        """
        fields, left_out = fields_of(request, source_of(target))
        own = {} if key is None else {"x-goog-api-key": key}
        return post_json(
            path_of(target), fields, own, request=request, target=target, left_out=left_out
        )

    def decoder(
        self, *, attempt: int, target: Target, content_type: str, limits: Limits
    ) -> GeminiDecoder:
        """Make a decoder for the reply of *target* to the attempt with that index."""
        return GeminiDecoder(
            attempt=attempt, content_type=content_type, limits=limits, source=source_of(target)
        )


class GeminiDecoder(EventDecoder):
    """Decodes one reply; see :class:`EventDecoder`."""

    dialect = DIALECT
    streams_json = True
    end_marks: ClassVar[frozenset[str]] = frozenset({ARRAY_END.data})
    finish_reasons: ClassVar[Mapping[str, FinishReason]] = FINISH_REASONS
    finish_errors: ClassVar[Mapping[str, type[AttemptError]]] = FINISH_ERRORS

    def __init__(
        self, *, attempt: int, content_type: str, limits: Limits, source: Mapping[str, JSON]
    ) -> None:
        super().__init__(attempt=attempt, content_type=content_type, limits=limits)
        self._candidates = Choices()
        self._calls = Calls(lambda: self.answer.weigh(begins=True))
        self._kept = KeptParts(self.answer, source)
        self._candidate_tokens: int | None = None
        self._thought_tokens: int | None = None

    @property
    def form(self) -> ReplyForm:
        """What sort of reply this is, as far as it can be told up to now."""
        return "choices" if len(self._candidates) > 1 else super().form

    @property
    def is_finished(self) -> bool:
        """Whether every candidate that appeared has a finish reason."""
        return self._candidates.all_finished

    def opaque_parts(self) -> Mapping[str, JSON] | None:
        """Give what only the provider understands of a whole answer; ``None`` if nothing."""
        return self._kept.opaque()

    def take_object(self, value: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take one chunk of the stream, or a whole reply."""
        candidates = as_objects(value.get("candidates"))
        for candidate in candidates:
            self._take_candidate(candidate, chunks)
        self.answer.identify(
            id=as_text(value.get("responseId")), model=as_text(value.get("modelVersion"))
        )
        if usage := as_object(value.get("usageMetadata")):
            self._count_tokens(usage)
        if not candidates and (feedback := as_object(value.get("promptFeedback"))):
            self._check_prompt(feedback)

    # ---- candidates -----------------------------------------------------------------------------

    def _take_candidate(self, candidate: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        index = as_count(candidate.get("index")) or 0
        parts = as_objects(as_object(candidate.get("content")).get("parts"))
        if index:
            pieces = list(map(_content_of, parts))
            self.pass_over(*pieces, begins=index not in self._candidates)
            is_finished = self._candidates.is_finished(index) and not any(pieces)
        else:
            for part in parts:
                self._take_part(part, chunks)
            is_finished = self.answer.raw_finish_reason is not None
        self._candidates.mark(index, finished=is_finished)
        reason = as_text(candidate.get("finishReason"))
        if reason and reason not in _NOT_SAID:
            self._finish(index, reason, as_text(candidate.get("finishMessage")), chunks)

    def _finish(self, index: int, reason: str, said: str, chunks: list[Chunk]) -> None:
        self._candidates.mark(index, finished=True)
        if index:
            self.check_finish(reason, said)
        else:
            self._add_pieces(self._calls.end(), chunks)
            self.finish(reason, said)

    def _take_part(self, part: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        is_thought, text = part.get("thought") is True, as_text(part.get("text"))
        if isinstance(part.get("functionCall"), dict):
            self._take_call(part, chunks)
        elif text or not any(part.get(name) for name in part.keys() - _BESIDE):
            before = len(chunks)
            self.add_text("reasoning" if is_thought else "text", text, chunks)
            self._kept.take_text(part, "".join(chunk.delta for chunk in chunks[before:]))
        elif signature_in(part) or not is_thought:
            self._kept.take_whole(part)

    def _take_call(self, part: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        pieces = self._calls.take(as_object(part.get("functionCall")))
        self._add_pieces(pieces, chunks)
        if pieces:
            self._kept.take_call(self._calls.last, part)

    def _add_pieces(self, pieces: list[CallPiece], chunks: list[Chunk]) -> None:
        for piece in pieces:
            self.add_call(piece, chunks)

    # ---- beside them ----------------------------------------------------------------------------

    def _check_prompt(self, feedback: Mapping[str, JSON]) -> None:
        reason = excerpt(as_text(feedback.get("blockReason")))
        if reason and reason not in _NOT_SAID:
            said = excerpt(as_text(feedback.get("blockReasonMessage")))
            more = f": {said}" if said else ""
            message = f"the provider blocked the prompt for the reason {reason!r}{more}"
            self._fail(Fault(error=ContentFiltered, message=message, code=reason))

    def _count_tokens(self, usage: Mapping[str, JSON]) -> None:
        candidates = as_count(usage.get("candidatesTokenCount"))
        thoughts = as_count(usage.get("thoughtsTokenCount"))
        if candidates is not None:
            self._candidate_tokens = candidates
        if thoughts is not None:
            self._thought_tokens = thoughts
        known = [n for n in (self._candidate_tokens, self._thought_tokens) if n is not None]
        counted = Usage(
            input_tokens=as_count(usage.get("promptTokenCount")),
            output_tokens=as_count(sum(known)) if known else None,
            reasoning_tokens=thoughts,
            cached_input_tokens=as_count(usage.get("cachedContentTokenCount")),
        )
        self.answer.count_tokens(counted)


def _content_of(part: Mapping[str, JSON]) -> str:
    """Give what is content in a part, as one text."""
    call = as_object(part.get("functionCall"))
    return as_text(part.get("text")) + (as_json(call) if call else "")
