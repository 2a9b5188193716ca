"""The wire of Ollama's own chat endpoint, locally and at ollama.com."""

# What is what on this wire, by the server's source (api/types.go, server/routes.go) and pages of
# docs.ollama.com.
#
# content     lines of JSON: message.content, .thinking and .tool_calls[]. Calls are whole, their
#             arguments objects. function.index tells no call from another: some models' is always
#             0 (ollama#15457, ollama#16212), and older servers send neither an index nor an id.
# keep-alive  blank lines; lines without a message, or with an empty one.
# proper end  "done": true; the same line may have content, and a done_reason (older servers send
#             none). Without "done" a done_reason is not looked at.
# error       {"error": "..."}, under the status 200 once a line was sent (api/errors); the finish
#             words in FINISH_ERRORS.
# usage       prompt_eval_count and eval_count of the last line; left out where they are 0, as for
#             a prompt that was cached. Nothing tells what was thought from what was said.

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..errors import InvalidRequest
from ..usage import Usage
from .answer import CallPiece
from .decoder import EventDecoder
from .jsontext import as_count, as_json, as_object, as_objects, as_text, to_json
from .ollama_request import DIALECT, fields_of, path_below
from .opaque import fingerprint
from .posting import check_extra, post_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..errors import AttemptError
    from ..messages import JSON, ChatRequest, Chunk, FinishReason
    from ..policies import Limits, Target
    from ..secret import Secret
    from .dialect import WireRequest

FINISH_REASONS: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}
"""What the words for an end mean; every other word is ``other``."""

FINISH_ERRORS: Mapping[str, type[AttemptError]] = {
    # The server found nothing to answer, and only loaded the model or dropped it. Asking again
    # changes nothing (langchain#31482, oh-my-pi#7465).
    "load": InvalidRequest,
    "unload": InvalidRequest,
}
"""Words in the same place that are no end but an error."""


class Ollama:
    """The dialect ``ollama``."""

    own_fields: Collection[str] = ("messages", "model", "stream")

    def check(self, request: ChatRequest) -> None:
        """Make sure that *request* can be said in this dialect.

        Raises:
            ConfigurationError: it cannot; the text names what.
        """
        fields, _ = fields_of(request)
        to_json(fields)
        check_extra(request.extra, self.own_fields, "extra")

    def encode(self, request: ChatRequest, target: Target, key: Secret | None) -> WireRequest:
        """Put *request* into the provider's words, for *target*.

        Raises:
            ConfigurationError: as :meth:`check`, for what *target* adds.
        """
        fields, left_out = fields_of(request)
        return post_json(
            path_below(target.base_url),
            {"model": target.model, **fields, "stream": True},
            {} if key is None else {"authorization": key.after("Bearer ")},
            request=request,
            target=target,
            accept="application/x-ndjson",
            left_out=left_out,
        )

    def decoder(
        self, *, attempt: int, target: Target, content_type: str, limits: Limits
    ) -> OllamaDecoder:
        """Make a decoder for the reply of *target* to the attempt with that index."""
        return OllamaDecoder(attempt=attempt, content_type=content_type, limits=limits)


class OllamaDecoder(EventDecoder):
    """Decodes one reply; see :class:`EventDecoder`."""

    dialect = DIALECT
    streams_json = True
    finish_reasons: ClassVar[Mapping[str, FinishReason]] = FINISH_REASONS
    finish_errors: ClassVar[Mapping[str, type[AttemptError]]] = FINISH_ERRORS

    def take_object(self, value: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take one line."""
        message = as_object(value.get("message"))
        self.add_text("reasoning", as_text(message.get("thinking")), chunks)
        self.add_text("text", as_text(message.get("content")), chunks)
        for call in as_objects(message.get("tool_calls")):
            self.add_call(_call(call), chunks)
        self.answer.identify(id="", model=as_text(value.get("model")))
        self.answer.count_tokens(_usage(value))
        if value.get("done") is True:
            self.finish(as_text(value.get("done_reason")))
            self.end()

    def opaque_parts(self) -> Mapping[str, JSON] | None:
        """Give what the model thought before its tool calls.

        The model shall see it again together with their results (capabilities/streaming); after
        other answers nobody wants it.
        """
        thinking, calls = self.answer.text("reasoning"), self.answer.calls(ended=True)
        if not (thinking and calls):
            return None
        said = [(call.name, call.arguments) for call in calls]
        return {"thinking": thinking, "of": fingerprint(self.answer.text("text"), said)}


def _call(call: Mapping[str, JSON]) -> CallPiece:
    function = as_object(call.get("function"))
    name, arguments = as_text(function.get("name")), _text_of(function.get("arguments"))
    return CallPiece(None, as_text(call.get("id")) or None, name, arguments)


def _text_of(arguments: JSON) -> str:
    """Give arguments as text, whatever they are: what is no object must not be called."""
    if arguments is None or isinstance(arguments, str):  # some imitations send OpenAI's text
        return arguments or ""
    return as_json(arguments)


def _usage(line: Mapping[str, JSON]) -> Usage:
    return Usage(
        input_tokens=as_count(line.get("prompt_eval_count")),
        output_tokens=as_count(line.get("eval_count")),
    )
