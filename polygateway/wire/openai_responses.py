"""The wire of OpenAI's Responses API, as OpenAI, Azure, xAI and those who copy it speak it."""

# What is what on this wire. Numbers are issues or pull requests of the repositories named; SDK is
# openai-python 3.57.0.
#
# content     response.output_text.delta, .refusal.delta; .reasoning_text.delta and
#             .reasoning_summary_text.delta, of an item whichever comes first (halogen-flash-server
#             #67); .content_part.delta (OpenRouter's documentation). A call's name in
#             .output_item.added, its arguments in .function_call_arguments.delta or
#             .custom_tool_call_input.delta; its id is call_id. What came in no delta is taken from
#             the .done events, whole items and the final response; what did is not taken again.
#             Parts of a text follow each other as they are, as in the SDK's output_text; between
#             parts of reasoning, which are paragraphs with titles, comes an empty line
#             (OmniRoute#9500).
# keep-alive  everything else: .created, .in_progress, .queued; annotations; what the provider's
#             own tools do; events of later versions; "[DONE]".
# proper end  response.completed, .incomplete; .done (OpenRouter). It says by itself how the answer
#             ended: incomplete_details.reason, else the status. Nothing after it counts. A whole
#             response in place of a stream is its own end, unless its status says otherwise.
# error       the event "error", flat or with an object inside (vercel/ai#12329); response.failed
#             with response.error (langchain#39041); an error in whatever else ends the response;
#             the status "cancelled".
# usage       .usage of the final response; null before.

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, ClassVar

import attrs

from ..errors import ServerError
from ..usage import Usage
from .answer import CallPiece, TextKind
from .decoder import EventDecoder
from .faults import error_in
from .jsontext import as_count, as_json, as_object, as_objects, as_text, to_json
from .malformed import Malformed, excerpt
from .openai_chat_request import authentication
from .openai_responses_items import Given, Items, Output, texts_in
from .openai_responses_request import CALLS, DIALECT, path_of, request_fields, sealed_for
from .posting import check_extra, post_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..errors import AttemptError
    from ..messages import JSON, ChatRequest, Chunk, FinishReason
    from ..policies import Limits, Target
    from ..secret import Secret
    from .dialect import WireRequest
    from .openai_responses_items import Item, Part

FINISH_REASONS: Mapping[str, FinishReason] = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
"""What the words for an end mean; every other word is ``other``."""

FINISH_ERRORS: Mapping[str, type[AttemptError]] = {
    "failed": ServerError,
    "cancelled": ServerError,
}
"""Words in the same place that are no end but an error."""

_ENDS = frozenset({"completed", "incomplete", "failed", "cancelled", "done"})
_OURS = frozenset({"message", "reasoning", *CALLS})
_UNFINISHED = frozenset({"queued", "in_progress"})


@attrs.frozen
class _Text:
    """What an event with a piece of text is about."""

    kind: TextKind
    item: str
    """The type of its item."""

    index: str
    """The field with the part's place."""


_TEXTS: Mapping[str, _Text] = {
    "output_text": _Text("text", "message", "content_index"),
    "content_part": _Text("text", "message", "content_index"),
    "refusal": _Text("refusal", "message", "content_index"),
    "reasoning_text": _Text("reasoning", "reasoning", "content_index"),
    "reasoning": _Text("reasoning", "reasoning", "content_index"),
    "reasoning_summary_text": _Text("reasoning", "reasoning", "summary_index"),
    "reasoning_summary": _Text("reasoning", "reasoning", "summary_index"),
}
"""By the event's name between ``response.`` and ``.delta`` or ``.done``."""

_PARTS: Mapping[str, str] = {
    "output_text": "output_text",
    "refusal": "refusal",
    "reasoning_text": "reasoning_text",
    "summary_text": "reasoning_summary_text",
}
"""The events that bring a part piece by piece, by its type."""

_ARGUMENTS: Mapping[str, str] = {
    "function_call_arguments": "function_call",
    "custom_tool_call_input": "custom_tool_call",
}
"""The type of the item, by the name of the event like :data:`_TEXTS`."""


class OpenAIResponses:
    """The dialect ``openai-responses``."""

    own_fields: Collection[str] = ("input", "messages", "model", "n", "stream")

    def check(self, request: ChatRequest) -> None:
        """Make sure that *request* can be said in this dialect.

        Raises:
            ConfigurationError: it cannot; the text names what.
        """
        fields, _ = request_fields(request, "")
        to_json(fields)
        check_extra(request.extra, self.own_fields, "extra")

    def encode(self, request: ChatRequest, target: Target, key: Secret | None) -> WireRequest:
        """Put *request* into the provider's words, for *target*.

        Raises:
            ConfigurationError: as :meth:`check`, for what *target* adds.
        """
        fields, left_out = request_fields(request, sealed_for(target))
        body: dict[str, JSON] = {"model": target.model, **fields, "stream": True}
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
    ) -> ResponsesDecoder:
        """Make a decoder for the reply of *target* to the attempt with that index."""
        return ResponsesDecoder(
            attempt=attempt, content_type=content_type, limits=limits, host=sealed_for(target)
        )


class ResponsesDecoder(EventDecoder):
    """Decodes one reply; see :class:`EventDecoder`."""

    dialect = DIALECT
    finish_reasons: ClassVar[Mapping[str, FinishReason]] = FINISH_REASONS
    finish_errors: ClassVar[Mapping[str, type[AttemptError]]] = FINISH_ERRORS

    def __init__(self, *, attempt: int, content_type: str, limits: Limits, host: str) -> None:
        super().__init__(attempt=attempt, content_type=content_type, limits=limits)
        self._host = host
        self._items = Items(self.answer)
        self._given: defaultdict[TextKind, Given] = defaultdict(Given)
        self._output = Output(self.answer)
        self._is_stored = False
        self._has_calls = False
        self._reasoning_source = ""
        # Of the reasoning that came last: which part of which item it was, and whether it ended
        # its line.
        self._paragraph: tuple[int, int] | None = None
        self._ended_line = True  # nothing needs no line before it

    def take_object(self, value: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take one event of the stream, or a whole response."""
        name = as_text(value.get("type")).removeprefix("response.")
        response = as_object(value.get("response"))
        subject, _, stage = name.rpartition(".")
        self._identify(response)
        if name in _ENDS:
            self._end(response, name, chunks)
        elif name == "output_item.added":
            self._begin_item(value, chunks)
        elif name == "output_item.done":
            self._take_item(value, chunks)
        elif stage in {"delta", "done"}:
            self._take_piece(subject, value, chunks, is_whole=stage == "done")
        elif not name and not error_in(value):
            self._take_whole(value, chunks)

    # ---- the response ---------------------------------------------------------------------------

    def _identify(self, response: Mapping[str, JSON]) -> None:
        self.answer.identify(id=as_text(response.get("id")), model=as_text(response.get("model")))
        if usage := as_object(response.get("usage")):
            self.answer.count_tokens(_usage_in(usage))
        self._is_stored = self._is_stored or response.get("store") is True

    def _take_whole(self, value: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take what has no type: a response, if it says so, where events were expected."""
        status = as_text(value.get("status"))
        if value.get("object") == "response" and status not in _UNFINISHED:
            self._identify(value)
            self._end(value, status, chunks)
        elif self.form == "document":
            raise Malformed(f"no finished response: {excerpt(as_json(value))!r}")

    def _end(self, response: Mapping[str, JSON], name: str, chunks: list[Chunk]) -> None:
        """Take the final response, which an event of that *name* brings."""
        if error := error_in(response):
            self.report(error, as_json(response))
            return
        status = as_text(response.get("status"))
        word = name if status in _UNFINISHED else status or name
        self.check_finish(word)
        if self.phase.is_final:
            return
        self._take_output(response, chunks)
        cut_by = as_object(response.get("incomplete_details")).get("reason")
        reason = as_text(cut_by) or word
        if not (reason or self._has_content or self.content_events):
            raise Malformed(f"neither a status nor an output: {excerpt(as_json(response))!r}")
        self.finish(reason)
        self.end()

    def _take_output(self, response: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take from a final response what has not been given."""
        output = as_objects(response.get("output"))
        texts: defaultdict[TextKind, list[tuple[int, int, str]]] = defaultdict(list)
        for place, item in enumerate(output):
            for kind, parts in texts_in(item, self._reasoning_source).items():
                texts[kind] += [(place, i, text) for i, text in enumerate(parts)]
        if not output:  # hermes-agent#5707
            texts["text"] = [(0, 0, as_text(response.get("output_text")))]
        for kind in ("reasoning", "text", "refusal"):
            self._take_rest(kind, texts[kind], chunks)
        self._take_calls([item for item in output if as_text(item.get("type")) in CALLS], chunks)
        if len(output) > len(self._output):
            self._output = Output(self.answer)
            for item in output:
                self._output.keep(item, is_stored=self._is_stored)

    def _take_rest(
        self, kind: TextKind, texts: Sequence[tuple[int, int, str]], chunks: list[Chunk]
    ) -> None:
        rests = self._given[kind].rest([text for _, _, text in texts])
        for (place, index, text), piece in zip(texts, rests, strict=True):
            # Below 0, as these places are not the items' numbers.
            paragraph = (-1 - place, index) if piece == text else self._paragraph
            self._give(kind, piece, paragraph, chunks)

    def _take_calls(self, calls: Sequence[Mapping[str, JSON]], chunks: list[Chunk]) -> None:
        seen: defaultdict[str, int] = defaultdict(int)
        for call in calls:
            type_ = as_text(call.get("type"))
            item = self._items.of_output(call, seen[type_])
            seen[type_] += 1
            self._take_arguments(item, call, chunks)

    # ---- items and their pieces -----------------------------------------------------------------

    def _begin_item(self, value: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take an item that is announced."""
        said, index = as_object(value.get("item")), as_count(value.get("output_index"))
        if as_text(said.get("type")) in _OURS:
            item = self._items.of_item(said, index, begins=True)
            if item.type in CALLS:
                # What it holds of the arguments may come again piece by piece.
                self._give_call(item, said, "", chunks)

    def _take_item(self, value: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        """Take an item that is whole."""
        whole, index = as_object(value.get("item")), as_count(value.get("output_index"))
        if as_text(whole.get("type")) in _OURS:
            item = self._items.of_item(whole, index, begins=False)
            if item.type in CALLS:
                self._take_arguments(item, whole, chunks)
            else:
                self._take_texts(item, whole, chunks)
            if item.is_done:
                return
            item.is_done = True
        self._output.keep(whole, is_stored=self._is_stored)

    def _take_texts(self, item: Item, whole: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        source = item.sources.get("reasoning", "")
        for kind, texts in texts_in(whole, source).items():
            for index, piece in enumerate(item.rest(kind, texts)):
                self._give_part(item, (kind, index), piece, chunks)

    def _take_arguments(self, item: Item, whole: Mapping[str, JSON], chunks: list[Chunk]) -> None:
        (rest,) = item.arguments.rest([as_text(whole.get(CALLS[item.type]))])
        self._give_call(item, whole, rest, chunks)

    def _take_piece(
        self, subject: str, value: Mapping[str, JSON], chunks: list[Chunk], *, is_whole: bool
    ) -> None:
        """Take a piece of something, or the whole of it."""
        if type_ := _ARGUMENTS.get(subject):
            item = self._items.of_event(type_, value)
            if is_whole:
                self._take_arguments(item, value, chunks)
            else:
                self._give_call(item, value, as_text(value.get("delta")), chunks)
            return
        if part := as_object(value.get("part")):
            subject, text = _PARTS.get(as_text(part.get("type")), ""), _text_of(part)
        elif is_whole:
            text = _text_of(value)
        else:
            delta = value.get("delta")
            text = as_text(delta) or _text_of(as_object(delta))
        if (about := _TEXTS.get(subject)) and text:
            self._take_text(about, subject, value, text, chunks, is_whole=is_whole)

    def _take_text(
        self,
        about: _Text,
        subject: str,
        value: Mapping[str, JSON],
        text: str,
        chunks: list[Chunk],
        *,
        is_whole: bool,
    ) -> None:
        item = self._items.of_event(about.item, value)
        if item.sources.setdefault(about.kind, subject) != subject:
            return
        if about.kind == "reasoning":
            self._reasoning_source = subject
        part = (about.kind, as_count(value.get(about.index)) or 0)
        if is_whole:
            (text,) = item.rest(part, [text])
        self._give_part(item, part, text, chunks)

    # ---- giving ---------------------------------------------------------------------------------

    def _give_part(self, item: Item, part: Part, piece: str, chunks: list[Chunk]) -> None:
        kind, index = part
        self._give(kind, piece, (item.number, index), chunks)
        self._items.note(item, part, piece)

    def _give(
        self, kind: TextKind, piece: str, paragraph: tuple[int, int] | None, chunks: list[Chunk]
    ) -> None:
        """Give a piece of text, with an empty line before it where it begins a paragraph."""
        if not piece:
            return
        gap = ""
        if kind == "reasoning":
            is_glued = not (self._ended_line or piece.startswith("\n"))
            gap = "\n\n" if is_glued and paragraph != self._paragraph else ""
            self._paragraph, self._ended_line = paragraph, piece.endswith("\n")
        self.add_text(kind, gap + piece, chunks)
        self._given[kind].add(piece)

    def _give_call(
        self, item: Item, value: Mapping[str, JSON], piece: str, chunks: list[Chunk]
    ) -> None:
        """Give a piece of a call, with the name if that has not come before."""
        call_id, name = as_text(value.get("call_id")), as_text(value.get("name"))
        if item.is_named:
            name = ""
        is_announced = item.is_begun or name or call_id or not self._has_calls
        if not (piece or name or call_id) or not is_announced:
            return  # a call that was not announced has its arguments again when it is whole
        self.add_call(CallPiece(item.number, call_id or None, name, piece), chunks)
        item.arguments.add(piece)
        item.is_begun = self._has_calls = True
        item.is_named = item.is_named or bool(name)

    def opaque_parts(self) -> Mapping[str, JSON] | None:
        """Give the items of the answer, if they say more than its message."""
        items = self._output.items()
        if items is None:
            return None
        is_sealed = any(item.get("encrypted_content") for item in items)
        return {"host": self._host, "output": items} if is_sealed else {"output": items}


def _text_of(value: Mapping[str, JSON]) -> str:
    return as_text(value.get("text")) or as_text(value.get("refusal"))


def _usage_in(usage: Mapping[str, JSON]) -> Usage:
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        reasoning_tokens=as_count(
            as_object(usage.get("output_tokens_details")).get("reasoning_tokens")
        ),
        cached_input_tokens=as_count(
            as_object(usage.get("input_tokens_details")).get("cached_tokens")
        ),
    )
