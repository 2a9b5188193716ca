"""What goes in and what comes out: requests, chunks, completions.

The shapes of messages, tools, tool choice, response format and images are those of OpenAI's
chat API; dialects translate them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar

import attrs
from attrs.validators import optional

from ._checks import Number, as_list, as_table, body_fields, headers, text, wrong
from .errors import ConfigurationError
from .stats import CallStats, Seam, SeamKind
from .usage import Usage

T = TypeVar("T")

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""Anything that JSON can say."""

Message: TypeAlias = Mapping[str, JSON]
"""One message in the shape of OpenAI's chat API."""

ChunkKind = Literal["text", "reasoning", "refusal", "tool_call", "seam", "end"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "other"]


def _messages(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept a conversation: at least one message, each with a role."""
    conversation = as_list(value)
    if not conversation:
        raise ConfigurationError(wrong(attribute.name, "a list of at least one message", value))
    for index, message in enumerate(conversation):
        table = as_table(message)
        if table is None or not isinstance(table.get("role"), str):
            wanted = "a mapping with a role, like {'role': 'user', 'content': '...'}"
            raise ConfigurationError(wrong(f"{attribute.name}[{index}]", wanted, message))
        if not isinstance(table.get("content"), str | list | tuple | None):
            wanted = "a string, a list of parts or None"
            place = f"{attribute.name}[{index}]['content']"
            raise ConfigurationError(wrong(place, wanted, table["content"]))


def _words(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept a list of strings that are not empty."""
    words = as_list(value)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ConfigurationError(wrong(attribute.name, "strings that are not empty", value))


def _tables(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept a list of mappings that is not empty."""
    tables = as_list(value)
    if not tables or any(as_table(table) is None for table in tables):
        raise ConfigurationError(wrong(attribute.name, "a list of at least one mapping", value))


def _table(_: object, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept a mapping."""
    if as_table(value) is None:
        raise ConfigurationError(wrong(attribute.name, "a mapping", value))


def _choice(request: ChatRequest, attribute: attrs.Attribute[T], value: T) -> None:
    """Accept a word or a mapping, where there is something to choose from."""
    if not isinstance(value, str) and as_table(value) is None:
        raise ConfigurationError(wrong(attribute.name, "a word or a mapping", value))
    if request.tools is None:
        raise ConfigurationError(f"{attribute.name} = {value!r} contradicts a call without tools")


@attrs.frozen(kw_only=True)
class ChatRequest:
    """What is asked, before a dialect puts it into its provider's words.

    ``None`` means: not said, so that the provider's default holds.
    """

    messages: Sequence[Message] = attrs.field(validator=_messages)
    temperature: float | None = attrs.field(default=None, validator=optional(Number(least=0)))
    top_p: float | None = attrs.field(default=None, validator=optional(Number(over=0, most=1)))
    max_tokens: int | None = attrs.field(
        default=None, validator=optional(Number(least=1, whole=True))
    )
    stop: Sequence[str] | None = attrs.field(default=None, validator=optional(_words))
    seed: int | None = attrs.field(
        default=None, validator=optional(Number(least=-(2**63), most=2**63 - 1, whole=True))
    )
    tools: Sequence[Mapping[str, JSON]] | None = attrs.field(
        default=None, validator=optional(_tables)
    )
    tool_choice: str | Mapping[str, JSON] | None = attrs.field(
        default=None, validator=optional(_choice)
    )
    response_format: Mapping[str, JSON] | None = attrs.field(
        default=None, validator=optional(_table)
    )
    reasoning_effort: str | None = attrs.field(default=None, validator=optional(text))
    extra: Mapping[str, JSON] = attrs.field(factory=dict[str, JSON], validator=body_fields)
    """Merged into the body as it is, over everything else."""

    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], validator=headers, repr=False)
    """Sent besides the target's own."""

    prefix: str = ""
    """The beginning of the answer, which the model shall go on with; empty for none. Only for
    targets with ``prefill``.
    """


@attrs.frozen
class ToolCallDelta:
    """Which tool call a chunk belongs to."""

    index: int
    """Position among the answer's tool calls, from 0."""

    id: str | None
    """The provider's id; ``None`` until it came, or where there is none."""

    name: str
    """The function's name; empty until it came."""


@attrs.frozen
class Chunk:
    """A piece of an answer, as the provider cut it. A chunk is not a token."""

    kind: ChunkKind
    """``text``, ``reasoning``, ``refusal`` and ``tool_call`` are content. ``seam``: what was
    delivered before came from another attempt; its ``seam_kind`` says what becomes of it. ``end``:
    the answer is whole.
    """

    delta: str
    """The piece itself; of a tool call, the piece of its arguments."""

    attempt: int
    """Index of the attempt that produced it."""

    tool_call: ToolCallDelta | None = None
    """Only with kind ``tool_call``."""

    seam_kind: SeamKind | None = None
    """Only with kind ``seam``. ``restart``: discard all that was delivered before. ``continue``:
    keep it, what follows goes on from there.
    """

    @property
    def text(self) -> str:
        """The piece of the answer's text; empty unless this is a text chunk."""
        return self.delta if self.kind == "text" else ""


@attrs.frozen
class ToolCall:
    """A function that the model wants called."""

    id: str | None
    """The provider's id; ``None`` where the wire had none."""

    name: str
    arguments: str
    """The arguments as they were sent: JSON, unless the model got it wrong."""

    complete: bool
    """Whether the answer ended properly and the arguments are a JSON object (none at all
    counts as the empty object). Do not call what is not complete.
    """


@attrs.frozen(kw_only=True)
class Completion:
    """An answer, or what has come of it up to now."""

    text: str
    reasoning: str
    refusal: str
    tool_calls: Sequence[ToolCall]
    finish_reason: FinishReason | None
    """Why the model stopped, in one vocabulary for all providers. ``None``: the wire gave none."""

    raw_finish_reason: str | None
    """The provider's own word for it."""

    usage: Usage
    model: str | None
    """The model's name as the provider said it; ``None`` if it did not."""

    target: str
    """Name of the target that answered."""

    id: str | None
    """The provider's id of this answer."""

    request_id: str | None
    """The provider's id of the request, from the response headers."""

    headers: Mapping[str, str]
    """The response's headers, names in lower case."""

    message: Message
    """The answer as a message, ready to be appended to the next prompt."""

    stats: CallStats
    """Where the time went."""

    @property
    def seams(self) -> Sequence[Seam]:
        """Where another attempt took over what had been delivered in part; mostly empty."""
        return self.stats.seams
