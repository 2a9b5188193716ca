"""What a request says, in types: what the dialects translate that have shapes of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from ..messages import JSON


@attrs.frozen(kw_only=True)
class Text:
    """A piece of text."""

    place: str
    text: str
    marks: Mapping[str, JSON]
    """What else stands beside it and the dialect knows."""


@attrs.frozen(kw_only=True)
class Image:
    """A picture: either its bytes or its address."""

    place: str
    media_type: str
    """Empty if it has an address."""

    data: str
    """Base64; empty if it has an address."""

    url: str
    """Its address; a data URL if it has bytes."""

    detail: str
    """How closely to look: ``low``, ``high``; empty where nothing was said or ``auto``."""

    marks: Mapping[str, JSON]


Part: TypeAlias = Text | Image


@attrs.frozen(kw_only=True)
class Call:
    """A function call that the model made."""

    place: str
    id: str
    name: str
    arguments: str
    """As the model wrote them: JSON, unless it got that wrong."""

    has_own_id: bool
    """Whether the id is the provider's; else it stands for its place in the conversation."""


@attrs.frozen(kw_only=True)
class System:
    """What the application tells the model."""

    place: str
    parts: Sequence[Part]


@attrs.frozen(kw_only=True)
class User:
    """What the user says."""

    place: str
    parts: Sequence[Part]


@attrs.frozen(kw_only=True)
class Assistant:
    """What the model said."""

    place: str
    parts: Sequence[Part]
    """A refusal is a text among them: words of the model, whatever a wire calls them."""

    calls: Sequence[Call]
    opaque: Mapping[str, JSON] | None
    """What this dialect alone understands of it; ``None`` if there is nothing."""


@attrs.frozen(kw_only=True)
class Result:
    """What a function gave."""

    place: str
    call: Call | None
    """The call that it answers; ``None`` if none before it has that id."""

    call_id: str
    name: str
    """The function's; empty if nobody said it."""

    parts: Sequence[Part]


Turn: TypeAlias = System | User | Assistant | Result


@attrs.frozen
class Conversation:
    """The messages of a request."""

    turns: Sequence[Turn]
    left_out: Sequence[str]
    """The other dialects whose opaque parts are not among them."""


@attrs.frozen(kw_only=True)
class Tool:
    """A function that the model may ask for."""

    place: str
    name: str
    description: str
    parameters: Mapping[str, JSON] | None
    """JSON schema of its arguments; ``None`` if it takes none."""

    strict: bool | None
    marks: Mapping[str, JSON]


@attrs.frozen
class ToolChoice:
    """Which function the model must ask for."""

    mode: str
    """``auto``, ``none``, ``required`` or ``function``."""

    name: str = ""
    """With ``function``: which."""


@attrs.frozen(kw_only=True)
class Format:
    """The form that the answer must have."""

    kind: str
    """``text``, ``json_object`` or ``json_schema``."""

    name: str = ""
    description: str = ""
    schema: Mapping[str, JSON] | None = None
    strict: bool | None = None
