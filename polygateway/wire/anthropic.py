"""The wire of Anthropic's Messages API, as Anthropic and those who imitate it speak it."""

# What is what on this wire. Numbers are issues or pull requests of the repositories named; "SDK" is
# the source of anthropic 2.14.0, the other pages are Anthropic's.
#
# content     content_block_delta: text_delta, thinking_delta, and the input_json_delta of a
#             tool_use block; the beginning of a tool_use block, for its name. What is not empty
#             of these counts, also where content_block_start brings it (oh-my-pi#8319), or where
#             there was none (bifrost#5169). The input of a tool_use block may come whole with its
#             beginning: it stands unless deltas follow (gajae-code#1895).
# keep-alive  ping (litellm#36024); the other beginnings, and the ends, of blocks; empty deltas
#             (litellm#33315); signature_delta, citations_delta; what the server's own tools do
#             (server_tool_use, web_search_tool_result and the like), for those are not the
#             application's calls; events, blocks and deltas of unknown types (page on versions).
# proper end  message_stop, once content or a stop_reason came; a stop_reason in message_delta
#             that no content followed is as good. content_block_stop may be missing
#             (anthropic-sdk-kotlin#147). A whole message in place of a stream: as JSON it ends
#             itself, as an event by its stop_reason.
# error       an event of the type error, under the status 200: {"error": {"type", "message"}}, also
#             without that outer type, also as the first event (vercel/ai#10653).
# usage       .message.usage of message_start, .usage of message_delta. The last figure of each
#             kind that is not null stands; any may be missing (litellm#11920,
#             anthropic-sdk-python#1806). The input is the sum of input_tokens,
#             cache_read_input_tokens and cache_creation_input_tokens (SDK); output_tokens is
#             cumulative and includes output_tokens_details.thinking_tokens (SDK).
#
# The type in the data says what an event is; event names may be missing. Blocks are told apart by
# their index, but a delta that does not fit its block (sglang#24293) is believed as it stands.

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from ..usage import Usage
from .answer import CallPiece
from .anthropic_blocks import Blocks
from .anthropic_request import fields_of
from .decoder import EventDecoder
from .jsontext import as_count, as_json, as_object, as_objects, as_text, to_json
from .opaque import source_of
from .posting import check_extra, post_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..errors import AttemptError
    from ..messages import JSON, ChatRequest, Chunk, FinishReason
    from ..policies import Limits, Target
    from ..secret import Secret
    from .anthropic_blocks import Block
    from .dialect import WireRequest

FINISH_REASONS: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "pause_turn": "other",  # the server's own tools are not done: send the message back to go on
    "compaction": "other",
}
"""What the words for an end mean; every other word is ``other``."""

FINISH_ERRORS: Mapping[str, type[AttemptError]] = {}
"""No word in that place is an error."""

VERSION = "2023-06-01"
"""What ``anthropic-version`` is unless a target says otherwise: the one that is imitated. The next,
2026-10-21, refuses ``temperature`` and ``top_p`` (page on versions).
"""

_TOKENS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)


class Anthropic:
    """The dialect ``anthropic``."""

    own_fields: Collection[str] = ("messages", "model", "stream", "system")

    def check(self, request: ChatRequest) -> None:
        """Make sure that *request* can be said in this dialect.

        Raises:
            ConfigurationError: it cannot; the text names what.
        """
        body, _ = fields_of(request, {})
        to_json(body)
        check_extra(request.extra, self.own_fields, "extra")

    def encode(self, request: ChatRequest, target: Target, key: Secret | None) -> WireRequest:
        """Put *request* into the provider's words, for *target*.

        Raises:
            ConfigurationError: as :meth:`check`, for what *target* adds.
        """
        body, left_out = fields_of(request, source_of(target))
        return post_json(
            _path(target),
            {"model": target.model, **body, "stream": True},
            {"anthropic-version": target.api_version or VERSION, **_authentication(target, key)},
            request=request,
            target=target,
            left_out=left_out,
        )

    def decoder(
        self, *, attempt: int, target: Target, content_type: str, limits: Limits
    ) -> AnthropicDecoder:
        """Make a decoder for the reply of *target* to the attempt with that index."""
        return AnthropicDecoder(
            attempt=attempt,
            content_type=content_type,
            limits=limits,
            source=source_of(target),
        )


def _path(target: Target) -> str:
    """Anthropic's SDK takes a ``base_url`` without the version; others write it with it."""
    is_versioned = urlsplit(target.base_url).path.rstrip("/").endswith("/v1")
    return "/messages" if is_versioned else "/v1/messages"


def _authentication(target: Target, key: Secret | None) -> Mapping[str, Secret]:
    if key is None:
        return {}
    host = urlsplit(target.base_url).hostname or ""
    if f".{host}".endswith(".anthropic.com"):
        return {"x-api-key": key}
    # Elsewhere some know only the one header and some only the other: vLLM (vllm#51572), MiniMax
    # (models.dev#1398) and Ollama's cloud (ollama#16922) want a bearer.
    return {"x-api-key": key, "authorization": key.after("Bearer ")}


class AnthropicDecoder(EventDecoder):
    """Decodes one reply; see :class:`EventDecoder`."""

    dialect = "anthropic"
    finish_reasons: ClassVar[Mapping[str, FinishReason]] = FINISH_REASONS
    finish_errors: ClassVar[Mapping[str, type[AttemptError]]] = FINISH_ERRORS

    def __init__(
        self, *, attempt: int, content_type: str, limits: Limits, source: Mapping[str, JSON]
    ) -> None:
        super().__init__(attempt=attempt, content_type=content_type, limits=limits)
        self._source = source
        self._blocks = Blocks(self.answer)
        self._tokens: dict[str, int] = {}
        self._held: tuple[Block, str] | None = None  # a call's input that came with its beginning

    def opaque_parts(self) -> Mapping[str, JSON] | None:
        """Give the blocks of the answer; ``None`` if its text and calls say all that is in them."""
        content = self._blocks.opaque()
        return None if content is None else {**self._source, "content": content}

    def take_object(self, value: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take one event of the stream, or a whole message."""
        index = as_count(value.get("index"))
        match value.get("type"):
            case "message_start":
                self._take_message(as_object(value.get("message")), chunks)
            case "message":
                self._take_message(value, chunks)
            case "content_block_start":
                self._begin(index, as_object(value.get("content_block")), chunks)
            case "content_block_delta":
                self._take_delta(index, as_object(value.get("delta")), chunks)
            case "content_block_stop":
                self._settle(chunks)
            case "message_delta":
                self._take_end(as_object(value.get("delta")), value.get("usage"), chunks)
            case "message_stop":
                self._settle(chunks)
                self.end()
            case _:
                pass

    def _take_message(self, message: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        self.answer.identify(id=as_text(message.get("id")), model=as_text(message.get("model")))
        for fields in as_objects(message.get("content")):
            self._begin(None, fields, chunks)
        self._take_end(message, message.get("usage"), chunks)

    def _take_end(self, end: Mapping[str, JSON], usage: JSON, chunks: list[Chunk]) -> None:
        self._settle(chunks)
        self._count_tokens(as_object(usage))
        self.finish(as_text(end.get("stop_reason")))

    # ---- blocks ---------------------------------------------------------------------------------

    def _begin(self, index: int | None, fields: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        self._settle(chunks)
        block = self._blocks.begin(index, fields)
        self._add_text(block, as_text(fields.get(block.type)), chunks)
        if block.type == "tool_use":
            self.add_call(CallPiece(block.number, block.id or None, block.name, ""), chunks)
            if arguments := _arguments(fields.get("input")):
                self._held = block, arguments
                self._note_content()

    def _take_delta(
        self, index: int | None, delta: Mapping[str, JSON], chunks: list[Chunk]
    ) -> None:
        match delta.get("type"):
            case "text_delta":
                self._take_text(index, "text", as_text(delta.get("text")), chunks)
            case "thinking_delta":
                self._take_text(index, "thinking", as_text(delta.get("thinking")), chunks)
            case "input_json_delta":
                self._take_input(index, as_text(delta.get("partial_json")), chunks)
            case _:
                self._blocks.keep(index, delta)

    def _take_text(self, index: int | None, type: str, piece: str, chunks: list[Chunk]) -> None:
        if piece:
            self._add_text(self._blocks.at(index, type), piece, chunks)

    def _add_text(self, block: Block, piece: str, chunks: list[Chunk]) -> None:
        if block.kind is not None:
            before = len(chunks)
            self.add_text(block.kind, piece, chunks)
            # A half of a character waits for the other one, and does not come yet.
            self._blocks.extend(block, "".join(chunk.delta for chunk in chunks[before:]))

    def _take_input(self, index: int | None, piece: str, chunks: list[Chunk]) -> None:
        if not piece:
            return
        block = self._blocks.at(index, "tool_use")
        if block.type != "tool_use":
            self._blocks.extend(block, piece)
        elif not block.is_whole:
            if self._held is not None and self._held[0] is block:
                self._held = None
            self.add_call(CallPiece(block.number, None, "", piece), chunks)

    def _settle(self, chunks: list[Chunk]) -> None:
        """Take the input that is held: no delta came that would replace it."""
        if self._held is not None:
            block, arguments = self._held
            self._held = None
            block.is_whole = True
            has_content = self._has_content
            self.add_call(CallPiece(block.number, None, "", arguments), chunks)
            self._has_content = has_content  # the event that brought it was counted

    # ---- usage ----------------------------------------------------------------------------------

    def _count_tokens(self, usage: Mapping[str, JSON]) -> None:
        counts = {name: as_count(usage.get(name)) for name in _TOKENS}
        self._tokens |= {name: count for name, count in counts.items() if count is not None}
        tokens, details = self._tokens, as_object(usage.get("output_tokens_details"))
        cached = tokens.get("cache_read_input_tokens")
        given = tokens.get("input_tokens")
        written = tokens.get("cache_creation_input_tokens", 0)
        self.answer.count_tokens(
            Usage(
                input_tokens=None if given is None else given + (cached or 0) + written,
                output_tokens=tokens.get("output_tokens"),
                reasoning_tokens=as_count(details.get("thinking_tokens")),
                cached_input_tokens=cached,
            )
        )


def _arguments(input: JSON) -> str:
    """Give the input of a call as text; empty where it is empty, or is still to come."""
    return as_json(input) if isinstance(input, dict) and input else as_text(input)
