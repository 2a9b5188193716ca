"""Requests of every shape for hypothesis: about half are as they should be, the rest nearly."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hypothesis import strategies as st

from polygateway.messages import JSON, ChatRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

Table: TypeAlias = "dict[str, JSON]"
Values: TypeAlias = "st.SearchStrategy[JSON]"
Tables: TypeAlias = "st.SearchStrategy[Table]"


def either(*values: Values) -> Values:
    return st.one_of(*values)


def word(*words: str) -> Values:
    return st.sampled_from(words)


def listed(values: Values) -> Values:
    return st.lists(values, max_size=3)


ANY_JSON: Values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)


def table(fields: Mapping[str, Values], optional: Mapping[str, Values] | None = None) -> Tables:
    return st.fixed_dictionaries(dict(fields), optional=dict(optional or {}))


def messy(*names: str, values: Values) -> Tables:
    """Draw a table in which any field may be missing or hold anything."""
    return st.dictionaries(st.sampled_from(names), either(values, ANY_JSON), max_size=len(names))


def mostly(good: Tables, other: Tables) -> Tables:
    return st.integers(0, 5).flatmap(lambda drawn: good if drawn else other)


IDS = word("a", "b")
TEXTS: Values = st.text(max_size=2)
TYPES = word("function", "text", "refusal", "image_url", "json_object", "json_schema")

FUNCTIONS = mostly(
    table({"name": IDS, "arguments": word("", "{}", "{")}),
    messy("name", "arguments", "x", values=IDS),
)
CALLS = listed(
    mostly(
        table({"function": FUNCTIONS}, {"id": IDS}),
        messy("id", "type", "function", "x", values=either(TYPES, FUNCTIONS)),
    )
)
IMAGES = messy("url", "detail", "x", values=word("u", "data:a/b;base64,AAAA", "data:"))
PARTS = listed(
    mostly(
        st.one_of(
            table({"type": st.just("text"), "text": TEXTS}),
            table({"type": st.just("image_url"), "image_url": IMAGES}),
        ),
        messy(
            *("type", "text", "refusal", "image_url", "cache_control", "x"),
            values=either(TYPES, IMAGES),
        ),
    )
)
CONTENTS = either(TEXTS, TEXTS, st.none(), PARTS)
OPAQUE = messy("dialect", "x", values=word("anthropic", "gemini", "ollama"))


def spoken(message: Table, role: str, content: JSON) -> Table:
    return {**message, "role": role, "content": content}


def said_by(fields: Tables, *roles: str) -> Tables:
    return st.builds(spoken, fields, st.sampled_from(roles), CONTENTS)


MESSAGES = st.one_of(
    said_by(st.just({}), "system", "developer", "user"),
    said_by(table({}, {"tool_calls": CALLS, "refusal": TEXTS}), "assistant"),
    said_by(table({}, {"tool_call_id": IDS, "name": IDS}), "tool"),
    said_by(
        messy(
            *("tool_calls", "tool_call_id", "name", "refusal", "opaque", "x"),
            values=either(CALLS, OPAQUE, IDS),
        ),
        *("user", "assistant", "tool", "function"),
    ),
)

SCHEMAS: Values = st.just({"type": "object"})
TOOLS = mostly(
    table(
        {
            "type": st.just("function"),
            "function": mostly(
                table({"name": IDS}, {"description": TEXTS, "parameters": SCHEMAS}),
                messy("name", "description", "parameters", "strict", "x", values=IDS),
            ),
        }
    ),
    messy("type", "function", "cache_control", "x", values=either(TYPES, FUNCTIONS)),
)
FORMS = mostly(
    st.one_of(
        table({"type": word("text", "json_object")}),
        table({"type": st.just("json_schema"), "json_schema": table({"schema": SCHEMAS})}),
    ),
    messy(
        *("type", "json_schema", "x"),
        values=either(TYPES, messy("name", "schema", "strict", values=SCHEMAS)),
    ),
)


@st.composite
def requests(draw: st.DrawFn) -> ChatRequest:
    """Draw a request with messages, tools, a tool choice, a response format and a prefix."""
    tools = draw(st.none() | st.lists(TOOLS, min_size=1, max_size=2))
    choice = draw(st.sampled_from([None, "auto", "none", "any"]) | TOOLS)
    return ChatRequest(
        messages=draw(st.lists(MESSAGES, min_size=1, max_size=4)),
        tools=tools,
        tool_choice=None if tools is None else choice,
        response_format=draw(st.none() | FORMS),
        prefix=draw(st.sampled_from(["", "", "Ebb"])),
    )
