"""What ``docs/reference/dialects.md`` says of every option is what the dialects do."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs
import pytest

from polygateway import ConfigurationError
from polygateway.policies import DialectName, Target
from polygateway.request import build_request
from polygateway.wire import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway import CallOptions
    from polygateway.messages import JSON

Table: TypeAlias = "dict[str, JSON]"

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "dialects.md").read_text("utf-8")

SCHEMA: JSON = {"type": "object"}
TOOLS: list[Mapping[str, JSON]] = [
    {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
]
NAMED: Mapping[str, JSON] = {"type": "function", "function": {"name": "f"}}

# By the first cell of a row.
OPTIONS: Mapping[str, CallOptions] = {
    "`temperature`": {"temperature": 0.5},
    "`top_p`": {"top_p": 0.5},
    "`max_tokens`": {"max_tokens": 7},
    "`stop`": {"stop": "END"},
    "`seed`": {"seed": 3},
    "`tools`": {"tools": TOOLS},
    '`tool_choice`: `"auto"`': {"tools": TOOLS, "tool_choice": "auto"},
    '`tool_choice`: `"none"`': {"tools": TOOLS, "tool_choice": "none"},
    '`tool_choice`: `"required"`': {"tools": TOOLS, "tool_choice": "required"},
    "`tool_choice`: a function": {"tools": TOOLS, "tool_choice": NAMED},
    "`response_format`: `json_schema`": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    },
    "`response_format`: `json_object`": {"response_format": {"type": "json_object"}},
    "`reasoning_effort`": {"reasoning_effort": "low"},
}


def table(title: str) -> list[list[str]]:
    """Give the cells of the first table below a title, without the two lines of its head."""
    below = f"\n{PAGE}".split(f"\n{title}\n")[1]
    lines = below.partition("\n|")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


CELLS = [
    (option, name, cell)
    for option, *cells in table("## Where an option goes")
    for name, cell in zip(DIALECTS, cells, strict=True)
]


def body(dialect: DialectName, options: CallOptions) -> Mapping[str, JSON]:
    """Give the body of a request with *options*."""
    request, _ = build_request("How is the tide?", options)
    DIALECTS[dialect].check(request)
    target = Target(dialect=dialect, base_url="https://llm.invalid", model="m")
    decoded: object = json.loads(DIALECTS[dialect].encode(request, target, None).body)
    return cast("Mapping[str, JSON]", decoded)


def said(body: Mapping[str, JSON], path: str) -> JSON:
    value: JSON = body
    for name in path.split("."):
        value = cast("Mapping[str, JSON]", value).get(name, {})
    return value


def test_the_page_has_a_row_for_every_option_and_a_column_for_every_dialect() -> None:
    assert [row[0] for row in table("## Where an option goes")] == list(OPTIONS)
    assert [row[0] for row in table("# Dialects")] == [f"`{name}`" for name in DIALECTS]


@pytest.mark.parametrize(("option", "dialect", "cell"), CELLS)
def test_an_option_goes_where_the_page_says(option: str, dialect: DialectName, cell: str) -> None:
    options = OPTIONS[option]
    tools_only: CallOptions = {"tools": TOOLS} if "tool_choice" in options else {}
    plain = body(dialect, tools_only)
    if cell == "refused":
        with pytest.raises(ConfigurationError, match=option.split("`")[1]):
            body(dialect, options)
    elif cell == "the default":
        assert body(dialect, options) == plain
    elif cell == "the tools are left out":
        assert body(dialect, options) == body(dialect, {})
    else:
        path = cell.strip("`")
        assert said(body(dialect, options), path) not in ({}, said(plain, path))


@pytest.mark.parametrize(("row", "dialect"), list(zip(table("# Dialects"), DIALECTS, strict=True)))
def test_a_request_goes_where_the_page_says(row: list[str], dialect: DialectName) -> None:
    request, _ = build_request("How is the tide?", {})
    target = Target(dialect=dialect, base_url=row[2].strip("`"), model="MODEL")
    assert DIALECTS[dialect].encode(request, target, None).path == row[3].strip("`")


BEGUN = attrs.evolve(build_request("How is the tide?", {})[0], prefix="It ebbs")


def begun(target: Target) -> Mapping[str, JSON]:
    """Give the body of a request whose answer has been begun."""
    decoded: object = json.loads(DIALECTS[target.dialect].encode(BEGUN, target, None).body)
    return cast("Mapping[str, JSON]", decoded)


@pytest.mark.parametrize(
    ("row", "dialect"), list(zip(table("## Going on with an answer"), DIALECTS, strict=True))
)
def test_the_beginning_of_an_answer_goes_where_the_page_says(
    row: list[str], dialect: DialectName
) -> None:
    name, place, role = (cell.strip("`") for cell in row)
    assert name == dialect
    if place == "refused":
        with pytest.raises(ConfigurationError, match="prefill"):
            Target(dialect=dialect, base_url="https://llm.invalid", model="m", prefill=True)
    else:
        target = Target(dialect=dialect, base_url="https://llm.invalid", model="m", prefill=True)
        messages = cast("list[Mapping[str, JSON]]", begun(target)[place])
        assert messages[-1]["role"] == role
        assert "It ebbs" in str(messages[-1])


@pytest.mark.parametrize("row", table("### Who wants to be told"), ids=lambda row: str(row[0]))
def test_who_goes_on_is_told_what_the_page_says(row: list[str]) -> None:
    _, base_url, prefill, mark = (cell.strip("`") for cell in row)
    wanted = cast("Table | bool", tomllib.loads(f"prefill = {prefill}")["prefill"])
    target = Target(dialect="openai-chat", base_url=base_url, model="m", prefill=wanted)
    marks: Table = {} if mark == "none" else {mark: True}
    plain = body("openai-chat", {})
    last: Table = {"role": "assistant", "content": "It ebbs", **marks}
    messages = [*cast("list[JSON]", plain["messages"]), last]
    fields: Table = {} if isinstance(wanted, bool) else wanted
    assert begun(target) == {**plain, "messages": messages, **fields}
