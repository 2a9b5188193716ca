"""The wire of OpenAI's chat completions, as OpenAI and some twenty others speak it."""

# What is what on this wire. Numbers are issues or pull requests of the repositories named.
#
# content     choices[].delta.content: a string, or a list of text and thinking parts (Mistral,
#             symfony/ai#2422); .refusal; .reasoning_content (DeepSeek) or .reasoning (vllm#50624),
#             once where both are there; .reasoning_details (OpenRouter) where neither is;
#             .tool_calls[], whose index may be missing (openai-python#2806), whose id may change
#             (poolsideai/pool#9) or be repeated with the name (litellm#8990); the older
#             .function_call. A whole .message in place of .delta is one delta.
# keep-alive  comments (DeepSeek, OpenRouter); role-only, empty and null deltas; choices without
#             a delta (Azure, openai-python#1677); {}, null, pings; data that begins with ":", a
#             comment that a proxy wrapped (llm-gateway#2053); what is not JSON, under an event
#             name of its own.
# proper end  a finish_reason that is not empty, for every choice that appeared; "" is as null
#             (ollama#4357); content after it makes it void (open-webui#16377). Or "[DONE]", once
#             content or a finish reason came: servers send it without a finish reason
#             (pydantic-ai#6610, oh-my-pi#9433). A whole JSON document ends itself.
# error       an "error" object or text, beside whatever else (goose#8027); the same without that
#             key: {"object": "error"} (vLLM), {"code", "message"}; an event named error
#             (openai-python#2796); the field "error" (llama.cpp, coddy-agent#106); the finish
#             reasons in FINISH_ERRORS. All of it under the status 200.
# usage       .usage of the last chunk, of every chunk (vLLM, xAI), of a choice (Moonshot,
#             AstrBot#6614), of .x_groq; the last figure that is not null stands
#             (open-webui#29064). Asked for by stream_options.include_usage.

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Overloaded, ProtocolViolation, ServerError
from .answer import Answer
from .body import Body
from .dialect import Fault, Phase, WireRequest
from .faults import error_in, refused, reported
from .jsontext import as_count, as_object, as_objects, as_text, from_json, to_json
from .malformed import Malformed, excerpt
from .openai_delta import calls_in, texts_in, usage_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..errors import AttemptError
    from ..messages import JSON, ChatRequest, Chunk, FinishReason
    from ..policies import Limits, Target
    from ..secret import Secret
    from ..trace import ReplyForm
    from .sse import Event

FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "function_call": "tool_calls",  # OpenAI's older word
    "sensitive": "content_filter",  # Zhipu (promptfoo#9905)
    "model_length": "length",  # Mistral: the context is full
    "eos": "stop",  # Together
    "eos_token": "stop",  # TGI, as the next one
    "stop_sequence": "stop",
}
"""What the words for an end mean; every other word is ``other``."""

FINISH_ERRORS: Mapping[str, type[AttemptError]] = {
    "error": ServerError,  # OpenRouter, Mistral, vLLM
    "network_error": ServerError,  # Zhipu (promptfoo#9905)
    "insufficient_system_resource": Overloaded,  # DeepSeek
    "abort": ServerError,  # vLLM: the server gave the generation up
}
"""Words in the same place that are no end but an error."""

_DONE = "[DONE]"


class OpenAIChat:
    """The dialect ``openai-chat``."""

    def check(self, request: ChatRequest) -> None:
        """Make sure that *request* can be said in this dialect.

        Raises:
            ConfigurationError: it cannot; the text names what.
        """
        to_json(_fields(request))
        to_json(request.extra, "extra")

    def encode(self, request: ChatRequest, target: Target, key: Secret | None) -> WireRequest:
        """Put *request* into the provider's words, for *target*.

        Raises:
            ConfigurationError: as :meth:`check`, for what *target* adds.
        """
        body: dict[str, JSON] = {"model": target.model, **_fields(request), "stream": True}
        if target.stream_usage:
            body["stream_options"] = {"include_usage": True}
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if key is not None:
            headers["authorization"] = f"Bearer {key.reveal()}"
        for name, value in (*target.headers.items(), *request.headers.items()):
            headers[name.lower()] = value
        return WireRequest(
            path="/chat/completions",
            headers=headers,
            body=to_json({**body, **target.extra, **request.extra}),
        )

    def decoder(self, *, attempt: int, content_type: str, limits: Limits) -> ChatDecoder:
        """Make a decoder for one reply to the attempt with that index."""
        return ChatDecoder(attempt=attempt, content_type=content_type, limits=limits)

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> Fault:
        """Classify a reply whose status is not 200; see ``Dialect.refusal``."""
        return refused(status, headers, body)


def _fields(request: ChatRequest) -> dict[str, JSON]:
    """Give what *request* says, in OpenAI's names."""
    said: dict[str, JSON] = {
        "messages": request.messages,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
        "stop": request.stop,
        "seed": request.seed,
        "tools": request.tools,
        "tool_choice": request.tool_choice,
        "response_format": request.response_format,
        "reasoning_effort": request.reasoning_effort,
    }
    return {name: value for name, value in said.items() if value is not None}


class ChatDecoder:
    """Decodes one reply; see :class:`Decoder`."""

    def __init__(self, *, attempt: int, content_type: str, limits: Limits) -> None:
        self.answer: Answer = Answer(attempt=attempt, max_bytes=limits.max_answer_bytes)
        self.phase: Phase = Phase.OPEN
        self.fault: Fault | None = None
        self.content_events: int = 0
        self._empty_events = 0
        self._body = Body(content_type, limits)
        self._has_content = False  # the event that is being taken
        self._finished: dict[int, bool] = {}  # by index, of every choice that appeared

    @property
    def keepalives(self) -> int:
        """Events and comments without content seen up to now."""
        return self._body.keepalives + self._empty_events

    @property
    def form(self) -> ReplyForm:
        """What sort of reply this is, as far as it can be told up to now."""
        if self._body.is_document:
            return "document"
        return "choices" if len(self._finished) > 1 else "stream"

    def feed(self, data: bytes) -> list[Chunk]:
        """Take the bytes of one read and give the content chunks that they completed."""
        chunks: list[Chunk] = []
        if not self.phase.is_final:
            self._read(data, chunks)
        return chunks

    def close(self) -> list[Chunk]:
        """Say that the transport has ended, and give what its tail completed."""
        chunks: list[Chunk] = []
        if not self.phase.is_final:
            self._read_tail(chunks)
        return chunks

    def _read(self, data: bytes, chunks: list[Chunk]) -> None:
        try:
            for event in self._body.feed(data):
                self._take(event, chunks)
                if self.phase.is_final:
                    return
        except Malformed as damage:
            self._violated(str(damage))

    def _read_tail(self, chunks: list[Chunk]) -> None:
        try:
            tail = self._body.close()
            if tail is not None and (self._body.is_document or _is_whole(tail.data)):
                self._take(tail, chunks)
            self._conclude(tail)
        except Malformed as damage:
            self._violated(str(damage))

    # ---- how far it has come --------------------------------------------------------------------

    def _fail(self, fault: Fault) -> None:
        self.phase = Phase.FAILED
        self.fault = fault

    def _violated(self, message: str) -> None:
        self._fail(Fault(error=ProtocolViolation, message=message))

    @property
    def _is_usable(self) -> bool:
        return self.content_events > 0 or any(self._finished.values())

    def _done(self) -> None:
        """Take the end marker."""
        if self._is_usable:
            self.phase = Phase.ENDED
        else:
            self._violated("[DONE] came before any content or finish reason")

    def _conclude(self, tail: Event | None) -> None:
        """Judge what there is at the transport's end."""
        if self.phase.is_final:
            return
        if not self._is_usable:
            last = f": {excerpt(tail.data)!r}" if tail else ""
            count = self.keepalives
            self._violated(f"the reply ended without content, after {count} keep-alives{last}")
        elif self.phase is Phase.FINISHING or self._body.is_document:
            self.phase = Phase.ENDED

    # ---- events ---------------------------------------------------------------------------------

    def _take(self, event: Event, chunks: list[Chunk]) -> None:
        data = event.data.strip()
        if data == _DONE:
            self._done()
        elif event.name == "error":
            self._fail(reported(_named_error(data), data))
        elif (value := _object_in(event.name, data)) is None:
            self._empty_events += 1
        else:
            self._take_object(value, data, chunks)

    def _take_object(self, value: Mapping[str, JSON], raw: str, chunks: list[Chunk]) -> None:
        self._has_content = False
        try:
            for choice in as_objects(value.get("choices")):
                self._take_choice(choice, raw, chunks)
        finally:  # what fits into the answer counts, whatever comes of the rest
            self.content_events += self._has_content
            self._empty_events += not self._has_content
        self.answer.identify(id=as_text(value.get("id")), model=as_text(value.get("model")))
        self._count_tokens(as_object(value.get("x_groq")).get("usage"))
        self._count_tokens(value.get("usage"))
        self._take_error(value, raw)
        if self._finished and not self.phase.is_final:
            self.phase = Phase.FINISHING if all(self._finished.values()) else Phase.OPEN

    def _take_choice(self, choice: Mapping[str, JSON], raw: str, chunks: list[Chunk]) -> None:
        index = as_count(choice.get("index")) or 0
        delta = as_object(choice.get("delta")) or as_object(choice.get("message"))
        self._take_delta(index, delta, chunks)
        self._count_tokens(choice.get("usage"))
        if reason := as_text(choice.get("finish_reason")):
            self._finish(index, reason)
        if "error" in choice:  # OpenRouter
            self._take_error(choice, raw)

    def _take_delta(self, index: int, delta: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        texts, calls = texts_in(delta), calls_in(delta)
        if texts or any(piece.is_content for piece in calls):
            self._has_content = True
            self._reopen(index)
        begins = index not in self._finished
        self._finished.setdefault(index, False)
        if index > 0:
            pieces = [*(text for _, text in texts), *(piece.arguments for piece in calls)]
            self.answer.pass_over(*pieces, begins=begins)
            return
        for kind, text in texts:
            chunks.append(self.answer.add_text(kind, text))
        for piece in calls:
            if chunk := self.answer.add_call(piece):
                chunks.append(chunk)  # noqa: PERF401  # one by one: a limit may stop it midway

    def _reopen(self, index: int) -> None:
        if self._finished.get(index):
            self._finished[index] = False
            if index == 0:
                self.answer.reopen()

    def _finish(self, index: int, reason: str) -> None:
        self._finished[index] = True
        if index == 0:
            self.answer.finish(reason, FINISH_REASONS.get(reason, "other"))
        if error := FINISH_ERRORS.get(reason):
            message = f"the provider ended the answer with finish_reason {reason!r}"
            self._fail(Fault(error=error, message=message, code=reason))

    def _count_tokens(self, usage: JSON) -> None:
        if isinstance(usage, dict):
            self.answer.count_tokens(usage_in(usage))

    def _take_error(self, value: Mapping[str, JSON], raw: str) -> None:
        if error := error_in(value):
            self._fail(reported(error, raw))


def _object_in(name: str, data: str) -> Mapping[str, JSON] | None:
    """Give the object that an event's data is; ``None`` for a keep-alive.

    Raises:
        Malformed: it is something else.
    """
    if data[:1] in {"", ":"}:
        return None
    has_own_name = name not in {"", "message"}
    try:
        value = from_json(data)
    except Malformed:
        if has_own_name:
            return None
        raise
    if isinstance(value, dict):
        return value
    if value is None or has_own_name:
        return None
    raise Malformed(f"JSON, but no object: {excerpt(data)!r}")


def _is_whole(data: str) -> bool:
    """Tell whether an event whose empty line did not come was not cut inside its data."""
    try:
        return data.strip() == _DONE or isinstance(from_json(data), dict)
    except Malformed:
        return False


def _named_error(data: str) -> JSON:
    """Give the error that an event named so holds, of whatever shape."""
    try:
        value = from_json(data)
    except Malformed:
        return data
    return error_in(value) or value if isinstance(value, dict) else data
