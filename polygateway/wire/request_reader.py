"""Reads what a request says, for the dialects that have shapes of their own.

A conversation comes in the shape of OpenAI's chat API. Here it is read strictly: whatever is not
understood is refused by its place, for a translation would lose it in silence. What is ``None`` or
empty counts as not said, because SDKs write it out so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from reprlib import repr as brief
from typing import TYPE_CHECKING, NoReturn, cast

import attrs

from .._checks import as_list, as_table
from ..errors import ConfigurationError
from .conversation import (
    Assistant,
    Call,
    Conversation,
    Format,
    Image,
    Part,
    Result,
    System,
    Text,
    Tool,
    ToolChoice,
    Turn,
    User,
)
from .jsontext import from_json
from .malformed import Malformed
from .opaque import KEY, opaque_in

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..messages import JSON, ChatRequest, Message

_DATA_URL = re.compile(
    r"data:(?P<type>[\w.+-]+/[\w.+-]+);base64,(?P<data>[A-Za-z0-9+/=_-]+)",
    re.ASCII | re.IGNORECASE,
)


def unsayable(dialect: str, what: str, instead: str = "") -> ConfigurationError:
    """Make the error for what cannot be said in a dialect.

    Args:
        dialect: its name.
        what: what was to be said, by its place in the request.
        instead: what to do about it, as a clause.
    """
    hint = f": {instead}" if instead else ""
    return ConfigurationError(f"{what} cannot be said in the dialect {dialect}{hint}")


def _is_said(value: object) -> bool:
    return value is not None and not (isinstance(value, str | list | tuple | Mapping) and not value)


class Reader:
    """Reads requests for one dialect."""

    def __init__(self, dialect: str, marks: Collection[str] = ()) -> None:
        """Prepare to read for *dialect*, which knows *marks* on parts and tools as well."""
        self._dialect = dialect
        self._marks = marks

    # ---- messages -------------------------------------------------------------------------------

    def conversation(self, request: ChatRequest) -> Conversation:
        """Read the messages.

        Raises:
            ConfigurationError: something is not what it should be, or not for this dialect.
        """
        turns: list[Turn] = []
        left_out: dict[str, None] = {}
        for index, message in enumerate(request.messages):
            place = f"messages[{index}]"
            opaque = opaque_in(message, place)
            if opaque is not None and opaque.dialect != self._dialect:
                left_out[opaque.dialect] = None
                opaque = None
            parts = None if opaque is None else opaque.parts
            turns.append(self._turn(message, place, index, turns, parts))
        whole = _begun(turns, request.prefix) if request.prefix else turns
        return Conversation(whole, tuple(left_out))

    def _turn(
        self,
        message: Message,
        place: str,
        index: int,
        before: Sequence[Turn],
        opaque: Mapping[str, JSON] | None,
    ) -> Turn:
        match message["role"]:
            case "system" | "developer":
                self._nothing_else(message, place, "role", "content")
                return System(place=place, parts=self._parts(message, place))
            case "user":
                self._nothing_else(message, place, "role", "content")
                return User(place=place, parts=self._parts(message, place))
            case "assistant":
                return self._assistant(message, place, index, opaque)
            case "tool":
                return self._result(message, place, before)
            case role:
                raise unsayable(self._dialect, f"{place}: the role {brief(role)}")

    def _assistant(
        self, message: Message, place: str, index: int, opaque: Mapping[str, JSON] | None
    ) -> Assistant:
        self._nothing_else(message, place, "role", "content", "refusal", "tool_calls", KEY)
        parts = [*self._parts(message, place)]
        if refusal := self._text(message, "refusal", place):
            parts.append(Text(place=f"{place}['refusal']", text=refusal, marks={}))
        calls = [
            self._call(call, f"{place}['tool_calls'][{i}]", f"call_{index}_{i}")
            for i, call in enumerate(self._list(message, "tool_calls", place))
        ]
        return Assistant(place=place, parts=parts, calls=calls, opaque=opaque)

    def _call(self, value: object, place: str, stand_in: str) -> Call:
        call = self._table(value, place)
        self._nothing_else(call, place, "id", "type", "index", "function")
        self._functions_only(call, place)
        function = self._table(call.get("function"), f"{place}['function']")
        self._nothing_else(function, f"{place}['function']", "name", "arguments")
        own = self._text(call, "id", place)
        return Call(
            place=place,
            id=own or stand_in,
            name=self._text(function, "name", f"{place}['function']", needed=True),
            arguments=self._text(function, "arguments", f"{place}['function']"),
            has_own_id=bool(own),
        )

    def _result(self, message: Message, place: str, before: Sequence[Turn]) -> Result:
        self._nothing_else(message, place, "role", "content", "tool_call_id", "name")
        own, name = self._text(message, "tool_call_id", place), self._text(message, "name", place)
        call = _call_with(own, before) if own else _open_call(name, before)
        if call is None and not own:
            self._wrong(f"{place}['tool_call_id']", "the id of a call: none before it is open")
        return Result(
            place=place,
            call=call,
            call_id=call.id if call else own,
            name=call.name if call else name,
            parts=self._parts(message, place),
        )

    def _parts(self, message: Message, place: str) -> Sequence[Part]:
        content, where = message.get("content"), f"{place}['content']"
        if isinstance(content, str):
            return [Text(place=where, text=content, marks={})] if content else []
        parts = self._list(message, "content", place)
        return [self._part(part, f"{where}[{i}]") for i, part in enumerate(parts)]

    def _part(self, value: object, place: str) -> Part:
        part = self._table(value, place)
        match part.get("type"):
            case "text":
                self._nothing_else(part, place, "type", "text", *self._marks)
                text = self._text(part, "text", place)
                return Text(place=place, text=text, marks=self._marked(part))
            case "refusal":
                self._nothing_else(part, place, "type", "refusal")
                return Text(place=place, text=self._text(part, "refusal", place), marks={})
            case "image_url":
                self._nothing_else(part, place, "type", "image_url", *self._marks)
                return self._image(part, place)
            case kind:
                raise unsayable(self._dialect, f"{place}: a part of type {brief(kind)}")

    def _image(self, part: Mapping[str, JSON], place: str) -> Image:
        where = f"{place}['image_url']"
        image = self._table(part.get("image_url"), where)
        self._nothing_else(image, where, "url", "detail")
        url = self._text(image, "url", where, needed=True)
        detail = self._text(image, "detail", where)
        data = _DATA_URL.fullmatch(url)
        if url[:5].lower() == "data:" and data is None:
            self._wrong(f"{where}['url']", "an address, or data:<type>;base64,<data>")
        return Image(
            place=place,
            media_type=data["type"] if data else "",
            data=data["data"] if data else "",
            url=url,
            detail="" if detail == "auto" else detail,
            marks=self._marked(part),
        )

    def arguments(self, call: Call) -> Mapping[str, JSON]:
        """Read the arguments of a call, for a wire that has them as an object; none at all is {}.

        Raises:
            ConfigurationError: the model wrote something else.
        """
        value: JSON = {}
        try:
            if call.arguments.strip():
                value = from_json(call.arguments)
        except Malformed:
            value = None
        return self._table(value, f"{call.place}['function']['arguments']", "a JSON object")

    # ---- tools and form -------------------------------------------------------------------------

    def tools(self, request: ChatRequest) -> Sequence[Tool]:
        """Read the tools; none if the request has none.

        Raises:
            ConfigurationError: something is not what it should be, or not for this dialect.
        """
        tools = request.tools or ()
        return [self._tool(tool, f"tools[{i}]") for i, tool in enumerate(tools)]

    def _tool(self, tool: Mapping[str, JSON], place: str) -> Tool:
        self._nothing_else(tool, place, "type", "function", *self._marks)
        self._functions_only(tool, place)
        inner = f"{place}['function']"
        function = self._table(tool.get("function"), inner)
        self._nothing_else(function, inner, "name", "description", "parameters", "strict")
        parameters = function.get("parameters")
        where = f"{inner}['parameters']"
        return Tool(
            place=place,
            name=self._text(function, "name", inner, needed=True),
            description=self._text(function, "description", inner),
            parameters=self._table(parameters, where) if _is_said(parameters) else None,
            strict=self._flag(function, "strict", inner),
            marks=self._marked(tool),
        )

    def tool_choice(self, request: ChatRequest) -> ToolChoice | None:
        """Read the tool choice; ``None`` if the request has none.

        Raises:
            ConfigurationError: it is none, or none for this dialect.
        """
        choice = request.tool_choice
        if choice is None:
            return None
        if isinstance(choice, str):
            if choice not in {"auto", "none", "required"}:
                wanted = f"'auto', 'none', 'required' or a function, not {brief(choice)}"
                self._wrong("tool_choice", wanted)
            return ToolChoice(choice)
        self._nothing_else(choice, "tool_choice", "type", "function")
        self._functions_only(choice, "tool_choice")
        inner = "tool_choice['function']"
        function = self._table(choice.get("function"), inner)
        self._nothing_else(function, inner, "name")
        name = self._text(function, "name", inner, needed=True)
        if name not in [tool.name for tool in self.tools(request)]:
            self._wrong(f"{inner}['name']", f"the name of one of the tools, not {brief(name)}")
        return ToolChoice("function", name)

    def response_format(self, request: ChatRequest) -> Format | None:
        """Read the answer's form; ``None`` if the request has none.

        Raises:
            ConfigurationError: it is none, or none for this dialect.
        """
        form, place = request.response_format, "response_format"
        if form is None:
            return None
        match form.get("type"):
            case "text" | "json_object" as kind:
                self._nothing_else(form, place, "type")
                return Format(kind=str(kind))
            case "json_schema":
                self._nothing_else(form, place, "type", "json_schema")
                inner = f"{place}['json_schema']"
                table = self._table(form.get("json_schema"), inner)
                self._nothing_else(table, inner, "name", "description", "schema", "strict")
                return Format(
                    kind="json_schema",
                    name=self._text(table, "name", inner),
                    description=self._text(table, "description", inner),
                    schema=self._table(table.get("schema"), f"{inner}['schema']"),
                    strict=self._flag(table, "strict", inner),
                )
            case kind:
                raise unsayable(self._dialect, f"{place}: the type {brief(kind)}")

    # ---- values ---------------------------------------------------------------------------------

    def _wrong(self, place: str, wanted: str) -> NoReturn:
        raise ConfigurationError(f"{place} must be {wanted}, for the dialect {self._dialect}")

    def _marked(self, table: Mapping[str, JSON]) -> Mapping[str, JSON]:
        return {name: table[name] for name in self._marks if table.get(name) is not None}

    def _nothing_else(self, table: Mapping[str, JSON], place: str, *known: str) -> None:
        for name, value in table.items():
            if name not in known and _is_said(value):
                raise unsayable(self._dialect, f"{place}[{brief(name)}]")

    def _functions_only(self, table: Mapping[str, JSON], place: str) -> None:
        kind = table.get("type")
        if kind not in (None, "function"):
            raise unsayable(self._dialect, f"{place}: the type {brief(kind)}")

    def _table(self, value: object, place: str, wanted: str = "a mapping") -> Mapping[str, JSON]:
        table = as_table(value)
        if table is None:
            self._wrong(place, wanted)
        return cast("Mapping[str, JSON]", table)

    def _list(self, table: Mapping[str, JSON], name: str, place: str) -> Sequence[object]:
        value = table.get(name)
        items = as_list(value) if _is_said(value) else ()
        return self._wrong(f"{place}[{name!r}]", "a list") if items is None else items

    def _text(
        self, table: Mapping[str, JSON], name: str, place: str, *, needed: bool = False
    ) -> str:
        value = table.get(name)
        if isinstance(value, str) and (value or not needed):
            return value
        if value is None and not needed:
            return ""
        wanted = "a string that is not empty" if needed else "a string"
        return self._wrong(f"{place}[{name!r}]", wanted)

    def _flag(self, table: Mapping[str, JSON], name: str, place: str) -> bool | None:
        value = table.get(name)
        if value is None or isinstance(value, bool):
            return value
        return self._wrong(f"{place}[{name!r}]", "true or false")


def _begun(turns: Sequence[Turn], prefix: str) -> Sequence[Turn]:
    """Add the beginning of the answer: to what *turns* end with, if that is its beginning, too."""
    *before, last = turns
    if not isinstance(last, Assistant) or last.calls:
        before, last = [*turns], Assistant(place="prefix", parts=[], calls=[], opaque=None)
    match last.parts:
        case [*others, Text() as text]:
            parts = [*others, attrs.evolve(text, text=text.text + prefix)]
        case others:
            parts = [*others, Text(place="prefix", text=prefix, marks={})]
    return [*before, attrs.evolve(last, parts=parts)]


def _call_with(call_id: str, before: Sequence[Turn]) -> Call | None:
    """Give the last call with an id: some servers begin to count anew in every answer."""
    asked = (turn.calls for turn in reversed(before) if isinstance(turn, Assistant))
    return next((call for calls in asked for call in calls if call.id == call_id), None)


def _open_call(name: str, before: Sequence[Turn]) -> Call | None:
    """Give the first unanswered call of the last turn that had any, of *name* if it is said."""
    answered: set[str] = set()
    for turn in reversed(before):
        if isinstance(turn, Result):
            answered.add(turn.call_id)
        elif isinstance(turn, Assistant) and turn.calls:
            asked = (call for call in turn.calls if name in {"", call.name})
            return next((call for call in asked if call.id not in answered), None)
    return None
