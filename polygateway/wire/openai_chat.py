"""The wire of OpenAI's chat completions, as OpenAI and some twenty others speak it."""

# What is what on this wire. Numbers are issues or pull requests of the repositories named.
#
# content     choices[].delta.content: a string, or a list of text, thinking and refusal parts
#             (Mistral, symfony/ai#2422); .refusal; .reasoning_content (DeepSeek, Moonshot, Zhipu,
#             xAI) or .reasoning (vllm#50624, Groq, Together, OpenRouter), once where both are
#             there; .reasoning_details (OpenRouter) where neither is; content that Gemini marks as
#             a thought is reasoning. .tool_calls[], whose index may be missing (openai-python#2806,
#             ollama#7881) or the same for all (ollama#15457, lmdeploy#3412), whose id may change
#             (poolsideai/pool#9) or be repeated with the name (litellm#8990); the older
#             .function_call. A whole .message is one delta, unless deltas come: Perplexity ("Stream
#             Mode") and others repeat in it what came.
# keep-alive  comments (DeepSeek, OpenRouter, llama.cpp); role-only, empty and null deltas;
#             annotations, audio, logprobs, images; choices without a delta (Azure,
#             openai-python#1677); {}, null, pings; data that begins with ":", a comment that a
#             proxy wrapped (llm-gateway#2053); what is not JSON, under an event name of its own.
# proper end  a finish_reason that is not empty, for every choice that appeared; "" is as null
#             (ollama#4357), and so is "null" (Qwen's own wire, which gateways relay); content
#             after it makes it void (open-webui#16377). Or "[DONE]", once content or a finish
#             reason came: servers send it without a finish reason (pydantic-ai#6610,
#             oh-my-pi#9433). A whole JSON document ends itself.
# error       an "error" object or text, beside whatever else (goose#8027), also inside a choice;
#             the same without that key: {"object": "error"} (vLLM), {"code", "message"}; an event
#             named error (openai-python#2796); the field "error" (llama.cpp, coddy-agent#106);
#             .x_groq.error (groq-python, chat_completion_chunk.py); the finish reasons in
#             FINISH_ERRORS. All of it under the status 200.
# usage       .usage of the last chunk, of every chunk (vLLM, xAI, Perplexity, Gemini), of a choice
#             (Moonshot, AstrBot#6614), of .x_groq; the last figure that is not null stands
#             (open-webui#29064). Asked for by stream_options.include_usage.

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..errors import Overloaded, ServerError
from .choices import Choices
from .decoder import EventDecoder
from .faults import error_in
from .jsontext import as_count, as_json, as_object, as_objects, as_text, to_json
from .openai_chat_opaque import Kept
from .openai_chat_plain import plain_text
from .openai_chat_request import (
    authentication,
    begun,
    fields_of,
    max_tokens_field,
    messages_for,
    path_of,
)
from .openai_delta import calls_in, is_thought, texts_in, usage_in
from .posting import check_extra, post_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..errors import AttemptError
    from ..messages import JSON, ChatRequest, Chunk, FinishReason
    from ..policies import Limits, Target
    from ..secret import Secret
    from ..trace import ReplyForm
    from .dialect import WireRequest
    from .sse import Event

FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "function_call": "tool_calls",  # OpenAI's older word
    "sensitive": "content_filter",  # Zhipu (promptfoo#9905)
    "model_context_window_exceeded": "length",  # Zhipu; Anthropic's word
    "model_length": "length",  # Mistral: the context is full (its OpenAPI description)
    "eos": "stop",  # Together (litellm, core_helpers.py)
    "eos_token": "stop",  # TGI, as the next one
    "stop_sequence": "stop",
    # Words of Anthropic's and Gemini's wires that gateways relay as they are (litellm#12481,
    # Vibe-Trading#308).
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
}
"""What the words for an end mean; every other word is ``other``."""

FINISH_ERRORS: Mapping[str, type[AttemptError]] = {
    "error": ServerError,  # OpenRouter, Mistral, vLLM
    "network_error": ServerError,  # Zhipu (promptfoo#9905)
    "insufficient_system_resource": Overloaded,  # DeepSeek
    "abort": ServerError,  # vLLM (v1/engine): the server gave the generation up; SGLang
    # Gemini: what it generated is no call, and another try may give one (coder#28470).
    "function_call_filter": ServerError,
    "MALFORMED_FUNCTION_CALL": ServerError,
}
"""Words in the same place that are no end but an error."""

# As null.
_NO_REASON = frozenset({"", "null"})


class OpenAIChat:
    """The dialect ``openai-chat``."""

    own_fields: Collection[str] = ("messages", "model", "n", "stream")

    def check(self, request: ChatRequest) -> None:
        """Make sure that *request* can be said in this dialect.

        Raises:
            ConfigurationError: it cannot; the text names what.
        """
        messages, _ = messages_for("", request.messages)
        to_json(fields_of(request, messages))
        check_extra(request.extra, self.own_fields, "extra")

    def encode(self, request: ChatRequest, target: Target, key: Secret | None) -> WireRequest:
        """Put *request* into the provider's words, for *target*.

        Raises:
            ConfigurationError: as :meth:`check`, for what *target* adds.
        """
        messages, left_out = messages_for(target.base_url, request.messages)
        if request.prefix:
            messages = begun(target.base_url, messages, request.prefix)
        fields = fields_of(request, messages, max_tokens_field(target))
        body: dict[str, JSON] = {"model": target.model, **fields, "stream": True}
        if target.stream_usage:
            body["stream_options"] = {"include_usage": True}
        return post_json(
            path_of(target),
            body,
            authentication(target, key),
            request=request,
            target=target,
            left_out=left_out,
        )

    def decoder(
        self, *, attempt: int, target: Target, content_type: str, limits: Limits
    ) -> ChatDecoder:
        """Make a decoder for the reply of *target* to the attempt with that index."""
        return ChatDecoder(
            attempt=attempt,
            content_type=content_type,
            limits=limits,
            base_url=target.base_url,
        )


class ChatDecoder(EventDecoder):
    """Decodes one reply; see :class:`EventDecoder`."""

    dialect = "openai-chat"
    end_marks: ClassVar[frozenset[str]] = frozenset({"[DONE]"})
    finish_reasons: ClassVar[Mapping[str, FinishReason]] = FINISH_REASONS
    finish_errors: ClassVar[Mapping[str, type[AttemptError]]] = FINISH_ERRORS

    def __init__(self, *, attempt: int, content_type: str, limits: Limits, base_url: str) -> None:
        super().__init__(attempt=attempt, content_type=content_type, limits=limits)
        self._base_url = base_url
        self._choices = Choices()
        self._kept = Kept(self.answer)
        self._has_deltas = False
        self._in_thought = False  # the last content was a thought of Gemini's
        self._goes_on = False  # text for the first choice would change nothing else

    @property
    def form(self) -> ReplyForm:
        """What sort of reply this is, as far as it can be told up to now."""
        return "choices" if len(self._choices) > 1 else super().form

    @property
    def is_finished(self) -> bool:
        """Whether every choice that appeared has a finish reason, or one has and no more come."""
        choices = self._choices
        return choices.all_finished or (self._has_ended and choices.any_finished)

    def opaque_parts(self) -> Mapping[str, JSON] | None:
        """Give what only the provider understands of a whole answer; ``None`` if nothing."""
        return self._kept.parts(self._base_url)

    def plain_text(self, event: Event) -> str:
        """Give the text of an event that brings nothing else; empty if it may bring more."""
        return plain_text(event.data) if self._goes_on and event.name != "error" else ""

    def take_object(self, value: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take one chunk of the stream, or a whole reply."""
        for choice in as_objects(value.get("choices")):
            self._take_choice(choice, chunks)
            if "error" in choice and (error := error_in(choice)):  # OpenRouter
                self.report(error, as_json(value))
        self.answer.identify(id=as_text(value.get("id")), model=as_text(value.get("model")))
        groq = as_object(value.get("x_groq"))
        self._count_tokens(groq.get("usage"))
        self._count_tokens(value.get("usage"))
        if groq and (error := error_in(groq)):
            self.report(error, as_json(value))
        self._goes_on = self._has_deltas and self._is_plain()

    def _is_plain(self) -> bool:
        answer = self.answer
        is_known = answer.id is not None and answer.model is not None
        return is_known and not self._in_thought and self._choices.is_one_open

    def _take_choice(self, choice: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        index = as_count(choice.get("index")) or 0
        self._take_delta(index, self._delta_of(choice), chunks)
        self._count_tokens(choice.get("usage"))
        reason = as_text(choice.get("finish_reason"))
        if reason not in _NO_REASON:
            self._take_reason(index, reason, as_text(choice.get("native_finish_reason")))

    def _take_reason(self, index: int, reason: str, native: str) -> None:
        self._choices.mark(index, finished=True)
        word, _, detail = reason.partition(": ")  # Gemini: "content_filter: RECITATION"
        if index == 0:
            self.answer.finish(reason, FINISH_REASONS.get(word, "other"))
        self.check_finish(word, detail or native)

    def _delta_of(self, choice: Mapping[str, JSON]) -> Mapping[str, JSON]:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._has_deltas = True
            return delta
        return {} if self._has_deltas else as_object(choice.get("message"))

    def _take_delta(self, index: int, delta: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        texts = texts_in(delta, after_thought=self._in_thought and index == 0) if delta else ()
        calls = calls_in(delta) if delta else ()
        begins = index not in self._choices
        if begins or texts or any(piece.is_content for piece in calls):
            self._choices.mark(index, finished=False)
        if index > 0:
            pieces = [text for _, text in texts]
            pieces += [text for piece in calls for text in (piece.name, piece.arguments)]
            self.pass_over(*pieces, begins=begins)
            return
        if delta.get("content"):
            self._in_thought = is_thought(delta)
        for kind, text in texts:
            self.add_text(kind, text, chunks)
        for piece in calls:
            self.add_call(piece, chunks)
        self._kept.take(delta)

    def _count_tokens(self, usage: JSON) -> None:
        if isinstance(usage, dict):
            self.answer.count_tokens(usage_in(usage))
