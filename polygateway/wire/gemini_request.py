"""What a request says, in Gemini's words."""

# By the API's reference (models.generateContent), its pages and the sources of google-genai.
#
# system      systemInstruction: text, which stands before everything else.
# pictures    fileData takes addresses as well (File input methods). How closely to look is said
#             once, in generationConfig: for each only some models know it (Media resolution).
# functions   parametersJsonSchema takes any JSON schema; parameters knows a part of OpenAPI only,
#             and refuses the rest (hermes-agent#98928). "strict" is said for all at once, by the
#             mode VALIDATED (vercel/ai#12967); ANY keeps to the schemas anyhow.
# results     an object: "output" is the key that the reference gives them. They stand together,
#             in the order of their calls, which tells those of one function apart.
# parts       as the answer had them go back to where they came from: a signature holds nowhere else
#             (alphaXiv/agents#61). With them the ids of calls: the API wants to see its own again,
#             others mean nothing to it, and Vertex AI refuses the field (pydantic-ai#5081).
# signatures  Newer models refuse a call that has none, unless a word of the page on them stands in
#             its place. Both APIs know this one (pydantic-ai#3881).
# thinking    as Google's own OpenAI endpoint translates reasoning_effort (OpenAI compatibility).
#             Thoughts are asked for with it: models that think in silence look as if they stalled.

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import attrs

from .conversation import Assistant, Image, Result, System, Text
from .gemini_parts import SIGNATURE, restored
from .request_reader import Reader, unsayable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..messages import JSON, ChatRequest
    from ..policies import Target
    from .conversation import Call, Part, Tool, Turn

DIALECT = "gemini"

_READER = Reader(DIALECT)

_RESOURCES = ("models/", "tunedModels/", "publishers/", "projects/")
_VERSION = re.compile(r"/v\d+[a-z\d]*(?=/|$)")
_OLDER = re.compile(r"\bgemini-[12]\b")
_PRO = re.compile(r"\bpro\b")

_UNSIGNED = "skip_thought_signature_validator"

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "function": "ANY"}

_MEDIA_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
}
"""Of the pictures that the API reads, by the end of their names."""

_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
"""Tokens to think, for models that are told so."""


def path_of(target: Target) -> str:
    """Give the path below a base URL, which may have the API's version or be without it."""
    has_version = _VERSION.search(urlsplit(target.base_url).path)
    version = "" if has_version else f"/{target.api_version or 'v1beta'}"
    named = target.model.startswith(_RESOURCES)
    model = target.model if named else f"models/{target.model}"
    return f"{version}/{quote(model, safe='/@')}:streamGenerateContent?alt=sse"


def fields_of(
    request: ChatRequest, source: Mapping[str, JSON]
) -> tuple[dict[str, JSON], Sequence[str]]:
    """Give what *request* says, in Gemini's names, and the dialects left out of it.

    Args:
        request: what is asked.
        source: :func:`source_of` its target; empty for any.

    Raises:
        ConfigurationError: something cannot be said; the text names its place.
    """
    conversation = _READER.conversation(request)
    contents = _Contents(source)
    for turn in conversation.turns:
        contents.add(turn)
    generation = {
        **_sampling(request),
        **_form(request),
        "thinkingConfig": _thinking(request.reasoning_effort, _model_in(source)),
        "mediaResolution": _resolution(conversation.turns),
    }
    said: dict[str, JSON] = {
        "contents": contents.finished(),
        "systemInstruction": {"parts": contents.system} if contents.system else None,
        "tools": _tools(request),
        "toolConfig": _tool_config(request),
        "generationConfig": _said(generation) or None,
    }
    left_out = dict.fromkeys(conversation.left_out)
    if contents.is_cut:
        left_out[DIALECT] = None
    return _said(said), tuple(left_out)


def _said(fields: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in fields.items() if value is not None}


def _model_in(source: Mapping[str, JSON]) -> str:
    return str(source.get("model", ""))


# ---- contents -----------------------------------------------------------------------------------


class _Contents:
    """The contents of a request, while they are put together."""

    def __init__(self, source: Mapping[str, JSON]) -> None:
        self.system: list[JSON] = []
        """The parts of what comes before everything else."""

        self.is_cut: bool = False
        """Whether parts of an answer were left out."""

        self._source = source
        self._all: list[JSON] = []
        self._results: list[Result] = []  # since the last other turn
        self._order: dict[str, int] = {}  # of the calls, by their ids
        self._ids: set[str] = set()  # those which the API gave

    def add(self, turn: Turn) -> None:
        """Add a message.

        Raises:
            ConfigurationError: it cannot be said.
        """
        if isinstance(turn, Result):
            self._results.append(turn)
            return
        self._append_results()
        match turn:
            case System():
                self._add_system(turn)
            case Assistant():
                self._append("model", self._parts_of(turn))
            case _:
                self._append("user", _parts(turn.parts))

    def finished(self) -> Sequence[JSON]:
        """Give all contents.

        Raises:
            ConfigurationError: there are none, or the last cannot be said.
        """
        self._append_results()
        if not self._all:
            raise unsayable(DIALECT, "messages: a prompt without a user's words")
        return self._all

    def _append(self, role: str, parts: Sequence[JSON]) -> None:
        self._all.append({"role": role, "parts": parts or [{"text": ""}]})

    def _add_system(self, turn: System) -> None:
        if self._all:
            raise unsayable(
                DIALECT, f"{turn.place}: a system message behind others", "put it first"
            )
        image = next((part for part in turn.parts if isinstance(part, Image)), None)
        if image is not None:
            raise unsayable(DIALECT, f"{image.place}: an image in a system message")
        self.system.extend(_parts(turn.parts))

    def _append_results(self) -> None:
        if self._results:
            self._results.sort(key=lambda turn: self._order.get(turn.call_id, len(self._order)))
            self._append("user", [self._result(turn) for turn in self._results])
            self._results = []

    def _result(self, turn: Result) -> JSON:
        if not turn.name:
            place = f"{turn.place}['name']"
            raise unsayable(DIALECT, f"{place}: the result of a function without a name")
        texts: list[JSON] = [part.text for part in turn.parts if isinstance(part, Text)]
        images: list[JSON] = [_part(part) for part in turn.parts if isinstance(part, Image)]
        said: dict[str, JSON] = {
            "id": turn.call_id if turn.call_id in self._ids else None,
            "name": turn.name,
            "response": {"output": texts if len(texts) > 1 else "".join(map(str, texts))},
            "parts": images or None,
        }
        return {"functionResponse": _said(said)}

    def _parts_of(self, turn: Assistant) -> Sequence[JSON]:
        for call in turn.calls:
            self._order[call.id] = len(self._order)
        parts = restored(turn, self._source, _call)
        if parts is not None:
            self._ids.update(call.id for call in turn.calls if call.has_own_id)
        else:
            self.is_cut = self.is_cut or turn.opaque is not None
            parts = _parts(turn.parts)
            for call in turn.calls:
                parts.append({"functionCall": _call(attrs.evolve(call, has_own_id=False))})
        self._sign(parts)
        return parts

    def _sign(self, parts: Sequence[dict[str, JSON]]) -> None:
        """Make the first call acceptable to models that want it signed."""
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and not _OLDER.search(_model_in(self._source)):
            first.setdefault(SIGNATURE, _UNSIGNED)


def _parts(parts: Iterable[Part]) -> list[dict[str, JSON]]:
    return [_part(part) for part in parts if isinstance(part, Image) or part.text]


def _part(part: Part) -> dict[str, JSON]:
    if isinstance(part, Text):
        return {"text": part.text}
    if part.media_type:
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    return {"fileData": _said({"mimeType": _media_type(part.url), "fileUri": part.url})}


def _media_type(url: str) -> str | None:
    """Give the type that an address tells by its end; Vertex AI wants to be told."""
    end = urlsplit(url).path.lower().rpartition(".")[2]
    return _MEDIA_TYPES.get(end)


def _call(call: Call) -> Mapping[str, JSON]:
    return _said(
        {
            "id": call.id if call.has_own_id else None,
            "name": call.name,
            "args": _READER.arguments(call),
        }
    )


# ---- tools --------------------------------------------------------------------------------------


def _tools(request: ChatRequest) -> JSON:
    tools = [_tool(tool) for tool in _READER.tools(request)]
    return [{"functionDeclarations": tools}] if tools else None


def _tool(tool: Tool) -> JSON:
    return _said(
        {
            "name": tool.name,
            "description": tool.description or None,
            "parametersJsonSchema": tool.parameters,
        }
    )


def _tool_config(request: ChatRequest) -> JSON:
    choice = _READER.tool_choice(request)
    is_strict = any(tool.strict for tool in _READER.tools(request))
    if is_strict and (choice is None or choice.mode == "auto"):
        return {"functionCallingConfig": {"mode": "VALIDATED"}}
    if choice is None:
        return None
    allowed = {"allowedFunctionNames": [choice.name]} if choice.name else {}
    return {"functionCallingConfig": {"mode": _MODES[choice.mode], **allowed}}


# ---- generationConfig ---------------------------------------------------------------------------


def _sampling(request: ChatRequest) -> Mapping[str, JSON]:
    if request.seed is not None and not -(2**31) <= request.seed < 2**31:
        raise unsayable(DIALECT, f"seed = {request.seed}", "it has 32 bits there")
    return {
        "temperature": request.temperature,
        "topP": request.top_p,
        "maxOutputTokens": request.max_tokens,
        "stopSequences": request.stop,
        "seed": request.seed,
    }


def _form(request: ChatRequest) -> Mapping[str, JSON]:
    """Say the form of the answer. A schema's name is OpenAI's label, and it is always kept to."""
    form = _READER.response_format(request)
    if form is None or form.kind == "text":
        return {}
    if form.description:
        place = "response_format['json_schema']['description']"
        raise unsayable(DIALECT, place, "give it in the schema")
    return {"responseMimeType": "application/json", "responseJsonSchema": form.schema}


def _thinking(effort: str | None, model: str) -> JSON:
    if effort is None:
        return None
    if effort not in _BUDGETS:
        raise unsayable(DIALECT, f"reasoning_effort = {effort!r}", f"it has {', '.join(_BUDGETS)}")
    shown: Mapping[str, JSON] = {} if effort == "none" else {"includeThoughts": True}
    if _OLDER.search(model):
        return {"thinkingBudget": _BUDGETS[effort], **shown}
    level = "minimal" if effort == "none" else effort  # which is next to none
    if effort == "minimal" and _PRO.search(model):
        level = "low"  # the least that these have
    return {"thinkingLevel": level.upper(), **shown}


def _resolution(turns: Iterable[Turn]) -> JSON:
    images = [part for turn in turns for part in turn.parts if isinstance(part, Image)]
    details = {image.detail for image in images}
    if len(details) > 1:
        raise unsayable(DIALECT, "messages: images with and without a detail, or different ones")
    detail = "".join(details)
    if detail not in {"", "low", "high"}:
        raise unsayable(DIALECT, f"{images[0].place}['image_url']['detail'] = {detail!r}")
    return f"MEDIA_RESOLUTION_{detail.upper()}" if detail else None
