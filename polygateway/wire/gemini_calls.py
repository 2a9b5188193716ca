"""Function calls of Gemini's: whole ones, and those whose arguments come in pieces."""

# Pieces come from Vertex AI, where ``toolConfig.functionCallingConfig.streamFunctionCallArguments``
# is set (its reference, FunctionCall and PartialArg): each has a path (RFC 9535, as
# "$.stops[0].port") and a value of one of four types; a string may go on in further pieces with the
# same path. The call has more to come while it says so by ``willContinue``; what ends it is often
# an empty functionCall (vercel/ai#13929).
#
# Pieces are written as they come, so that the texts that are given, one behind the other, are one
# JSON object at the end. That asks for values in the order in which JSON has them: the members of
# an object or array together, elements by their numbers, nothing twice. Models write no other way,
# and what came otherwise could only be written wrong.

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, TypeAlias

import attrs

from .answer import CallPiece
from .jsontext import as_json, as_object, as_objects, as_text
from .malformed import Malformed, excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..messages import JSON

Path: TypeAlias = "list[str | int]"

_DEEPEST = 100  # which is what protocol buffers allow

_SEGMENT = re.compile(
    r"\.(?P<name>[^.\[\]]+)"
    r"|\[(?P<index>\d{1,9})\]"
    r'|\["(?P<double>(?:[^"\\]|\\.)*+)"\]'
    r"|\['(?P<single>(?:[^'\\]|\\.)*+)'\]",
    re.ASCII | re.DOTALL,
)


class Calls:
    """Reads the calls of one answer, each by its number."""

    def __init__(self, weigh: Callable[[], None]) -> None:
        """Begin with none.

        Args:
            weigh: is called for every argument that comes in pieces; may raise
                :class:`Malformed`.
        """
        self._weigh = weigh
        self._count = 0
        self._name = ""  # of the last one
        self._arguments: _Arguments | None = None  # of the last one, if more of them may come
        self._will_continue = False  # more must come

    @property
    def last(self) -> int:
        """The number of the last call, from 0."""
        return self._count - 1

    def take(self, call: Mapping[str, JSON]) -> list[CallPiece]:
        """Take a call or a piece of one, and give what it brings.

        Raises:
            Malformed: it has arguments that cannot be placed.
        """
        name, call_id = as_text(call.get("name")), as_text(call.get("id")) or None
        is_same = self._will_continue and name == self._name
        if self._arguments is not None and (is_same or not name):
            return [CallPiece(self.last, call_id, "", self._go_on(self._arguments, call))]
        if not name:
            if as_object(call.get("args")) or as_objects(call.get("partialArgs")):
                raise Malformed("arguments without the name of a function")
            return []
        ended = self.end()
        self._count += 1
        self._name = name
        return [*ended, CallPiece(self.last, call_id, name, self._begin(call))]

    def end(self) -> list[CallPiece]:
        """Give what closes the arguments of the last call, unless more of them must come."""
        if self._arguments is None or self._will_continue:
            return []
        text = self._arguments.end()
        self._arguments = None
        return [CallPiece(self.last, None, "", text)] if text else []

    def _begin(self, call: Mapping[str, JSON]) -> str:
        args = call.get("args")
        self._will_continue = call.get("willContinue") is True
        if isinstance(args, dict) and not (self._will_continue or call.get("partialArgs")):
            self._arguments = None
            return as_json(args)
        self._arguments = _Arguments(self._weigh)
        return self._arguments.take(call)

    def _go_on(self, arguments: _Arguments, call: Mapping[str, JSON]) -> str:
        self._will_continue = call.get("willContinue") is True
        text = arguments.take(call)
        if self._will_continue or call.get("partialArgs"):
            return text  # what has no more to come may have it all the same
        self._arguments = None
        return text + arguments.end()


@attrs.define
class _Container:
    """An object or an array whose end is not written."""

    is_array: bool
    size: int = 0
    names: set[str] = attrs.field(factory=set[str])


class _Arguments:
    """Writes the arguments of one call."""

    def __init__(self, weigh: Callable[[], None]) -> None:
        self._weigh = weigh  # for every member, whose name is kept
        self._path: Path = []  # of the last value
        self._open: list[_Container] = []  # for each segment of it, what holds that
        self._in_string = False  # it is a string, which may go on

    def take(self, call: Mapping[str, JSON]) -> str:
        """Give the text for the pieces in *call*.

        Raises:
            Malformed: a path is none, or leads to where nothing can be written any more.
        """
        if as_object(call.get("args")):
            raise Malformed("a call with arguments in pieces and as a whole")
        return "".join(map(self._add, as_objects(call.get("partialArgs"))))

    def _add(self, piece: Mapping[str, JSON]) -> str:
        string = piece.get("stringValue")
        if isinstance(string, str):
            return self._add_string(_path_in(piece), json.dumps(string, ensure_ascii=False)[:-1])
        value = _value_in(piece)
        return self._place(_path_in(piece)) + value if value else ""

    def end(self) -> str:
        """Give the text that is missing at the end; empty if there are no arguments."""
        return self._close(0)

    def _add_string(self, path: Path, text: str) -> str:
        if self._in_string and path == self._path:
            return text[1:]
        before = self._place(path)
        self._in_string = True
        return before + text

    def _place(self, path: Path) -> str:
        """Give the text between the last value and one at *path*."""
        common = _count_common(path, self._path)
        text = self._close(common + 1)
        for depth, segment in enumerate(path[common:], common):
            if depth == len(self._open):
                self._open.append(_Container(isinstance(segment, int)))
                text += "[" if isinstance(segment, int) else "{"
            text += self._member(self._open[depth], segment)
        self._path = path
        return text

    def _member(self, container: _Container, segment: str | int) -> str:
        is_index = isinstance(segment, int)
        is_late = segment != container.size if is_index else segment in container.names
        if is_late or is_index != container.is_array:
            raise Malformed(f"a piece of arguments for {segment!r}, which nothing can follow there")
        self._weigh()
        comma = "," if container.size else ""
        container.size += 1
        if isinstance(segment, int):
            return comma
        container.names.add(segment)
        return f"{comma}{json.dumps(segment, ensure_ascii=False)}:"

    def _close(self, depth: int) -> str:
        """Give the text that closes all but *depth* of what is open."""
        text = '"' if self._in_string else ""
        self._in_string = False
        while len(self._open) > depth:
            text += "]" if self._open.pop().is_array else "}"
        return text


def _count_common(path: Path, last: Path) -> int:
    """Count the segments at the beginning that two paths share, without the last of either."""
    inner = max(min(len(path), len(last)) - 1, 0)
    return next((i for i in range(inner) if path[i] != last[i]), inner)


def _value_in(piece: Mapping[str, JSON]) -> str:
    """Give the JSON of a number, a truth or a null; empty if there is none."""
    for name in ("numberValue", "boolValue"):
        value = piece.get(name)
        if isinstance(value, (int, float)):
            return json.dumps(value)
    return "null" if "nullValue" in piece else ""


def _path_in(piece: Mapping[str, JSON]) -> Path:
    text = as_text(piece.get("jsonPath"))
    path: Path = []
    at = 1
    while len(path) < _DEEPEST and (found := _SEGMENT.match(text, at)):
        at = found.end()
        path.append(_segment(found))
    if not path or at < len(text) or not text.startswith("$"):
        raise Malformed(f"a piece of arguments with the path {excerpt(text)!r}")
    return path


def _segment(found: re.Match[str]) -> str | int:
    match found.lastgroup:
        case "index":
            return int(found["index"])
        case "double":
            return _unquoted(found["double"])
        case "single":
            return _unquoted(found["single"].replace("\\'", "'").replace('"', '\\"'))
        case _:
            return found["name"]


def _unquoted(text: str) -> str:
    try:
        return as_text(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text
