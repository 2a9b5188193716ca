"""What a request says, read from the shapes of OpenAI's chat API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from polygateway.errors import ConfigurationError
from polygateway.messages import ChatRequest
from polygateway.policies import Target
from polygateway.wire import DIALECTS
from polygateway.wire.conversation import (
    Assistant,
    Call,
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
from polygateway.wire.request_reader import Reader, unsayable
from tests.wire.any_request import Table, requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polygateway.messages import JSON, Message
    from polygateway.policies import DialectName


READER = Reader("anthropic", marks=("cache_control",))
ASKED: Table = {"role": "user", "content": "Tide?"}


def read(*messages: Message) -> Sequence[Turn]:
    return READER.conversation(ChatRequest(messages=messages)).turns


def refusal_of(*messages: Message) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(*messages)
    return str(caught.value)


def text(place: str, said: str, **marks: JSON) -> Text:
    return Text(place=place, text=said, marks=marks)


# ---- messages -----------------------------------------------------------------------------------


def test_each_role_has_a_turn_of_its_own() -> None:
    assert read(
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        ASKED,
        {"role": "assistant", "content": "Ebb."},
    ) == [
        System(place="messages[0]", parts=[text("messages[0]['content']", "Be brief.")]),
        System(place="messages[1]", parts=[text("messages[1]['content']", "Be kind.")]),
        User(place="messages[2]", parts=[text("messages[2]['content']", "Tide?")]),
        Assistant(
            place="messages[3]",
            parts=[text("messages[3]['content']", "Ebb.")],
            calls=[],
            opaque=None,
        ),
    ]


BEGUN = Assistant(place="prefix", parts=[text("prefix", "The ti")], calls=[], opaque=None)
CALLED: Message = {"role": "assistant", "tool_calls": [{"function": {"name": "tide"}}]}


def begun(*messages: Message) -> Sequence[Turn]:
    return READER.conversation(ChatRequest(messages=messages, prefix="The ti")).turns


@pytest.mark.parametrize(
    "messages",
    [
        [ASKED],
        [{"role": "system", "content": "Be brief."}],
        [ASKED, CALLED],
        [ASKED, CALLED, {"role": "tool", "content": "3.1 m"}],
        [ASKED, {"role": "assistant", "content": "Ebb."}, ASKED],
    ],
)
def test_the_beginning_of_the_answer_is_the_model_s_turn_after_all_others(
    messages: list[Message],
) -> None:
    assert begun(*messages) == [*read(*messages), BEGUN]


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        ("Hm. ", ["Hm. The ti"]),
        (
            [{"type": "text", "text": "Oh. "}, {"type": "text", "text": "Hm. "}],
            ["Oh. ", "Hm. The ti"],
        ),
        ([{"type": "image_url", "image_url": {"url": "u"}}], ["u", "The ti"]),
        ("", ["The ti"]),
        (None, ["The ti"]),
    ],
)
def test_it_goes_behind_what_the_messages_themselves_begin_of_the_answer(
    content: JSON, whole: list[str]
) -> None:
    asked, answered = begun(ASKED, {"role": "assistant", "content": content})
    assert [asked] == read(ASKED)
    assert isinstance(answered, Assistant)
    said = [part.text if isinstance(part, Text) else part.url for part in answered.parts]
    assert (answered.place, said) == ("messages[1]", whole)


@pytest.mark.parametrize("content", ["", None, [], ()])
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_an_empty_message_has_no_parts(role: str, content: JSON) -> None:
    (turn,) = read({"role": role, "content": content})
    assert turn.parts == []


def test_a_message_may_leave_its_content_out() -> None:
    (turn,) = read({"role": "assistant"})
    assert turn.parts == []


def parts_of(*parts: JSON) -> Sequence[Part]:
    (turn,) = read({"role": "user", "content": parts})
    return turn.parts


def test_parts_keep_their_order_and_what_the_dialect_knows_beside_them() -> None:
    cache: JSON = {"type": "ephemeral"}
    assert parts_of(
        {"type": "text", "text": "a", "cache_control": cache},
        {"type": "text", "text": "", "cache_control": None},
        {"type": "refusal", "refusal": "No."},
        {"type": "text"},
    ) == [
        text("messages[0]['content'][0]", "a", cache_control=cache),
        text("messages[0]['content'][1]", ""),
        text("messages[0]['content'][2]", "No."),
        text("messages[0]['content'][3]", ""),
    ]


def image(**fields: JSON) -> Table:
    return {"type": "image_url", "image_url": fields}


@pytest.mark.parametrize("detail", [{}, {"detail": None}, {"detail": ""}, {"detail": "auto"}])
def test_a_picture_is_told_by_its_address(detail: Table) -> None:
    (seen,) = parts_of(image(url="https://eu.invalid/a.png", **detail))
    assert seen == Image(
        place="messages[0]['content'][0]",
        media_type="",
        data="",
        url="https://eu.invalid/a.png",
        detail="",
        marks={},
    )


@pytest.mark.parametrize(
    ("url", "media_type", "data"),
    [
        ("data:image/png;base64,iVBORw0KGgo=", "image/png", "iVBORw0KGgo="),
        ("data:image/svg+xml;base64,PHN2Zz4_-/+", "image/svg+xml", "PHN2Zz4_-/+"),
        ("DATA:image/PNG;Base64,AAAA", "image/PNG", "AAAA"),
    ],
)
def test_a_picture_may_stand_in_its_address(url: str, media_type: str, data: str) -> None:
    part = {**image(url=url, detail="low"), "cache_control": {"a": 1}}
    (seen,) = parts_of(part)
    assert isinstance(seen, Image)
    assert (seen.media_type, seen.data, seen.url) == (media_type, data, url)
    assert (seen.detail, seen.marks) == ("low", {"cache_control": {"a": 1}})


@pytest.mark.parametrize(
    "url",
    ["data:image/png;base64,", "data:image/png,abc", "data:image/png;base64,a b", "data:;base64,a"],
)
def test_a_data_address_holds_a_type_and_base64(url: str) -> None:
    assert refusal_of({"role": "user", "content": [image(url=url)]}) == (
        "messages[0]['content'][0]['image_url']['url'] must be an address, or"
        " data:<type>;base64,<data>, for the dialect anthropic"
    )


def test_a_refusal_is_among_the_words_of_the_model() -> None:
    (turn,) = read({"role": "assistant", "content": "Well.", "refusal": "No."})
    assert turn.parts == [
        text("messages[0]['content']", "Well."),
        text("messages[0]['refusal']", "No."),
    ]


def called(name: str, arguments: str = "", **more: JSON) -> Table:
    return {**more, "function": {"name": name, "arguments": arguments}}


def calling(*calls: JSON) -> Table:
    return {"role": "assistant", "tool_calls": calls}


def call(place: str, id: str, name: str, *, own: bool, arguments: str = "") -> Call:
    return Call(place=place, id=id, name=name, arguments=arguments, has_own_id=own)


def test_calls_without_an_id_are_called_by_their_place() -> None:
    _, turn = read(
        ASKED,
        calling(
            called("f", '{"a":', id="call_9", type="function", index=0),
            called("g"),
            {"id": "", "type": None, "function": {"name": "g", "arguments": None}},
        ),
    )
    assert turn == Assistant(
        place="messages[1]",
        parts=[],
        calls=[
            call("messages[1]['tool_calls'][0]", "call_9", "f", own=True, arguments='{"a":'),
            call("messages[1]['tool_calls'][1]", "call_1_1", "g", own=False),
            call("messages[1]['tool_calls'][2]", "call_1_2", "g", own=False),
        ],
        opaque=None,
    )


def test_what_an_sdk_writes_out_of_an_empty_field_is_not_said() -> None:
    # ChatCompletionMessage.model_dump() of openai-python
    (turn,) = read(
        {
            "content": None,
            "refusal": None,
            "role": "assistant",
            "annotations": [],
            "audio": None,
            "function_call": None,
            "tool_calls": None,
            "name": "",
            "metadata": {},
            "tags": (),
        }
    )
    assert turn == Assistant(place="messages[0]", parts=[], calls=[], opaque=None)


def answer(content: str = "4 m", **fields: JSON) -> Table:
    return {"role": "tool", "content": content, **fields}


def results(*messages: Message) -> list[tuple[str, str, str | None]]:
    """Give of each result: the call's id, the function's name, and the place of its call."""
    turns = read(*messages)
    return [
        (turn.call_id, turn.name, turn.call.place if turn.call else None)
        for turn in turns
        if isinstance(turn, Result)
    ]


def test_results_find_their_calls_by_id_in_any_order() -> None:
    assert results(
        calling(called("f", id="a"), called("g", id="b")),
        answer(tool_call_id="b"),
        answer(tool_call_id="a", name="other"),
        answer(tool_call_id="c", name="h"),
        answer(tool_call_id="d"),
    ) == [
        ("b", "g", "messages[0]['tool_calls'][1]"),
        ("a", "f", "messages[0]['tool_calls'][0]"),
        ("c", "h", None),
        ("d", "", None),
    ]


def test_an_id_that_a_server_gives_in_every_answer_means_the_last_one() -> None:
    assert results(
        calling(called("f", id="call_0")),
        answer(tool_call_id="call_0"),
        calling(called("g", id="call_0")),
        answer(tool_call_id="call_0"),
    ) == [
        ("call_0", "f", "messages[0]['tool_calls'][0]"),
        ("call_0", "g", "messages[2]['tool_calls'][0]"),
    ]


def test_results_without_an_id_answer_the_last_calls_in_order() -> None:
    assert results(
        calling(called("f"), called("skipped")),
        answer(),
        ASKED,
        calling(called("g"), called("h", id="b"), called("f")),
        answer(tool_call_id=""),
        answer(tool_call_id=None, name="f"),
        answer(),
    ) == [
        ("call_0_0", "f", "messages[0]['tool_calls'][0]"),
        ("call_3_0", "g", "messages[3]['tool_calls'][0]"),
        ("call_3_2", "f", "messages[3]['tool_calls'][2]"),
        ("b", "h", "messages[3]['tool_calls'][1]"),
    ]


@pytest.mark.parametrize(
    "before",
    [
        [],
        [{"role": "assistant", "content": "Ebb."}],
        [calling(called("f")), answer()],
        [calling(called("f", id="a")), answer(tool_call_id="a")],
    ],
)
def test_a_result_of_nothing_is_refused(before: list[Message]) -> None:
    assert refusal_of(ASKED, *before, answer()) == (
        f"messages[{len(before) + 1}]['tool_call_id'] must be the id of a call: none before it is"
        " open, for the dialect anthropic"
    )


def test_a_result_may_not_be_named_otherwise_than_every_open_call() -> None:
    assert "'tool_call_id'" in refusal_of(calling(called("f")), answer(name="g"))


def test_what_only_this_dialect_understands_is_given_and_the_rest_is_named_once() -> None:
    own: JSON = {"dialect": "anthropic", "blocks": [1]}
    conversation = READER.conversation(
        ChatRequest(
            messages=[
                {"role": "assistant", "content": "a", "opaque": own},
                {"role": "assistant", "content": "b", "opaque": {"dialect": "gemini"}},
                {"role": "assistant", "content": "c", "opaque": {"dialect": "ollama"}},
                {"role": "assistant", "content": "d", "opaque": {"dialect": "gemini"}},
                {"role": "assistant", "content": "e", "opaque": None},
            ]
        )
    )
    assert [turn.opaque for turn in conversation.turns if isinstance(turn, Assistant)] == [
        own,
        None,
        None,
        None,
        None,
    ]
    assert conversation.left_out == ("gemini", "ollama")


UNSAID = "cannot be said in the dialect anthropic"
WRONG = "for the dialect anthropic"

MESSAGES: list[tuple[Table, str]] = [
    ({"role": "function", "content": "4 m"}, f": the role 'function' {UNSAID}"),
    ({"role": "x" * 999}, f": the role 'xxxxxxxxxxxx...xxxxxxxxxxxxx' {UNSAID}"),
    ({"role": "user", "content": "a", "name": "Ada"}, f"['name'] {UNSAID}"),
    ({"role": "system", "content": "a", "cache_control": {"a": 1}}, f"['cache_control'] {UNSAID}"),
    ({"role": "user", "opaque": {"dialect": "gemini"}}, f"['opaque'] {UNSAID}"),
    ({"role": "assistant", "audio": {"id": "a"}}, f"['audio'] {UNSAID}"),
    ({"role": "assistant", "function_call": {"name": "f"}}, f"['function_call'] {UNSAID}"),
    ({"role": "assistant", "prefix": False}, f"['prefix'] {UNSAID}"),
    ({"role": "assistant", "refusal": 5}, f"['refusal'] must be a string, {WRONG}"),
    ({"role": "assistant", "tool_calls": {"a": 1}}, f"['tool_calls'] must be a list, {WRONG}"),
    ({"role": "assistant", "tool_calls": "f"}, f"['tool_calls'] must be a list, {WRONG}"),
    ({"role": "tool", "tool_call_id": 5}, f"['tool_call_id'] must be a string, {WRONG}"),
    ({"role": "tool", "tool_call_id": "a", "is_error": True}, f"['is_error'] {UNSAID}"),
]


@pytest.mark.parametrize(("message", "rest"), MESSAGES)
def test_what_is_not_understood_of_a_message_is_refused_by_its_place(
    message: Table, rest: str
) -> None:
    assert refusal_of(ASKED, message) == f"messages[1]{rest}"


PARTS: list[tuple[JSON, str]] = [
    ("a", f" must be a mapping, {WRONG}"),
    (None, f" must be a mapping, {WRONG}"),
    ({}, f": a part of type None {UNSAID}"),
    ({"type": ["text"]}, f": a part of type ['text'] {UNSAID}"),
    ({"type": "input_audio"}, f": a part of type 'input_audio' {UNSAID}"),
    ({"type": "text", "text": 5}, f"['text'] must be a string, {WRONG}"),
    ({"type": "text", "text": "a", "annotations": [1]}, f"['annotations'] {UNSAID}"),
    ({"type": "refusal", "refusal": {}}, f"['refusal'] must be a string, {WRONG}"),
    ({"type": "refusal", "text": "a"}, f"['text'] {UNSAID}"),
    ({"type": "image_url"}, f"['image_url'] must be a mapping, {WRONG}"),
    ({"type": "image_url", "image_url": "u"}, f"['image_url'] must be a mapping, {WRONG}"),
    (image(), f"['image_url']['url'] must be a string that is not empty, {WRONG}"),
    (image(url=""), f"['image_url']['url'] must be a string that is not empty, {WRONG}"),
    (image(url="u", detail=1), f"['image_url']['detail'] must be a string, {WRONG}"),
    (image(url="u", size=1), f"['image_url']['size'] {UNSAID}"),
]


@pytest.mark.parametrize(("part", "rest"), PARTS)
def test_what_is_not_understood_of_a_part_is_refused_by_its_place(part: JSON, rest: str) -> None:
    assert refusal_of({"role": "user", "content": [part]}) == (f"messages[0]['content'][0]{rest}")


CALLS: list[tuple[JSON, str]] = [
    ("f", f" must be a mapping, {WRONG}"),
    ({}, f"['function'] must be a mapping, {WRONG}"),
    ({"function": {}}, f"['function']['name'] must be a string that is not empty, {WRONG}"),
    (called("f", type="custom"), f": the type 'custom' {UNSAID}"),
    (called("f", id=7), f"['id'] must be a string, {WRONG}"),
    (called("f", extra_content={"a": 1}), f"['extra_content'] {UNSAID}"),
    (
        {"function": {"name": "f", "arguments": {"a": 1}}},
        f"['function']['arguments'] must be a string, {WRONG}",
    ),
    ({"function": {"name": "f", "strict": True}}, f"['function']['strict'] {UNSAID}"),
]


@pytest.mark.parametrize(("value", "rest"), CALLS)
def test_what_is_not_understood_of_a_call_is_refused_by_its_place(value: JSON, rest: str) -> None:
    assert refusal_of(calling(value)) == f"messages[0]['tool_calls'][0]{rest}"


def made(arguments: str) -> Call:
    return call("messages[0]['tool_calls'][0]", "a", "f", own=True, arguments=arguments)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [("", {}), (" \n", {}), ("{}", {}), ('{"a": [1.0, null]}', {"a": [1.0, None]})],
)
def test_arguments_are_an_object_and_none_at_all_an_empty_one(arguments: str, value: JSON) -> None:
    assert READER.arguments(made(arguments)) == value


@pytest.mark.parametrize("arguments", ["{", "[]", "null", "7", "[" * 100_000, "9" * 5000])
def test_arguments_that_are_no_object_are_refused_by_their_place(arguments: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        READER.arguments(made(arguments))
    assert str(caught.value) == (
        f"messages[0]['tool_calls'][0]['function']['arguments'] must be a JSON object, {WRONG}"
    )


# ---- tools --------------------------------------------------------------------------------------


def tools_of(*tools: Table) -> Sequence[Tool]:
    return READER.tools(ChatRequest(messages=[ASKED], tools=tools))


def function(**fields: JSON) -> Table:
    return {"type": "function", "function": {"name": "f", **fields}}


def test_a_tool_is_read_with_all_that_it_says() -> None:
    schema: Table = {"type": "object", "properties": {}}
    cache: JSON = {"type": "ephemeral"}
    assert tools_of(
        {
            **function(description="Does.", parameters=schema, strict=True),
            "cache_control": cache,
        },
        {"function": {"name": "f", "description": None, "parameters": None, "strict": None}},
        function(parameters={}),
    ) == [
        Tool(
            place="tools[0]",
            name="f",
            description="Does.",
            parameters=schema,
            strict=True,
            marks={"cache_control": cache},
        ),
        Tool(place="tools[1]", name="f", description="", parameters=None, strict=None, marks={}),
        Tool(place="tools[2]", name="f", description="", parameters=None, strict=None, marks={}),
    ]


def test_without_tools_there_are_none_and_nothing_to_choose_from() -> None:
    request = ChatRequest(messages=[ASKED])
    assert READER.tools(request) == []
    assert READER.tool_choice(request) is None


TOOLS: list[tuple[Table, str]] = [
    ({}, f"['function'] must be a mapping, {WRONG}"),
    ({"type": "web_search"}, f": the type 'web_search' {UNSAID}"),
    ({"type": "function", "name": "f"}, f"['name'] {UNSAID}"),
    (function(name=None), f"['function']['name'] must be a string that is not empty, {WRONG}"),
    (function(description=5), f"['function']['description'] must be a string, {WRONG}"),
    (function(parameters=[1]), f"['function']['parameters'] must be a mapping, {WRONG}"),
    (function(parameters=0), f"['function']['parameters'] must be a mapping, {WRONG}"),
    (function(strict=1), f"['function']['strict'] must be true or false, {WRONG}"),
    (function(examples=[1]), f"['function']['examples'] {UNSAID}"),
]


@pytest.mark.parametrize(("tool", "rest"), TOOLS)
def test_what_is_not_understood_of_a_tool_is_refused_by_its_place(tool: Table, rest: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        tools_of(function(), tool)
    assert str(caught.value) == f"tools[1]{rest}"


def choice_of(choice: str | Table) -> ToolChoice | None:
    return READER.tool_choice(ChatRequest(messages=[ASKED], tools=[function()], tool_choice=choice))


@pytest.mark.parametrize("word", ["auto", "none", "required"])
def test_a_choice_may_be_a_word(word: str) -> None:
    assert choice_of(word) == ToolChoice(word)


def test_a_choice_may_be_a_function() -> None:
    assert choice_of(function()) == ToolChoice("function", "f")


CHOICES: list[tuple[str | Table, str]] = [
    ("any", f" must be 'auto', 'none', 'required' or a function, not 'any', {WRONG}"),
    ({}, f"['function'] must be a mapping, {WRONG}"),
    ({"type": "allowed_tools"}, f": the type 'allowed_tools' {UNSAID}"),
    ({"type": "function", "name": "f"}, f"['name'] {UNSAID}"),
    (function(strict=True), f"['function']['strict'] {UNSAID}"),
    (function(name=""), f"['function']['name'] must be a string that is not empty, {WRONG}"),
    (
        function(name="g"),
        f"['function']['name'] must be the name of one of the tools, not 'g', {WRONG}",
    ),
]


@pytest.mark.parametrize(("choice", "rest"), CHOICES)
def test_what_is_not_understood_of_a_choice_is_refused(choice: str | Table, rest: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        choice_of(choice)
    assert str(caught.value) == f"tool_choice{rest}"


# ---- form ---------------------------------------------------------------------------------------


def format_of(form: Table | None) -> Format | None:
    return READER.response_format(ChatRequest(messages=[ASKED], response_format=form))


SCHEMA: Table = {"type": "object"}


@pytest.mark.parametrize(
    ("form", "read_as"),
    [
        (None, None),
        ({"type": "text"}, Format(kind="text")),
        ({"type": "json_object", "json_schema": None}, Format(kind="json_object")),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
            Format(kind="json_schema", schema=SCHEMA),
        ),
        (
            {
                "type": "json_schema",
                "json_schema": {
                    "name": "tide",
                    "description": "Heights.",
                    "schema": SCHEMA,
                    "strict": False,
                },
            },
            Format(
                kind="json_schema",
                name="tide",
                description="Heights.",
                schema=SCHEMA,
                strict=False,
            ),
        ),
    ],
)
def test_a_form_is_read_with_all_that_it_says(form: Table | None, read_as: Format | None) -> None:
    assert format_of(form) == read_as


def schema_with(**fields: JSON) -> Table:
    return {"type": "json_schema", "json_schema": {"schema": SCHEMA, **fields}}


FORMS: list[tuple[Table, str]] = [
    ({}, f": the type None {UNSAID}"),
    ({"type": "grammar"}, f": the type 'grammar' {UNSAID}"),
    ({"type": "json_object", "schema": SCHEMA}, f"['schema'] {UNSAID}"),
    ({"type": "json_schema"}, f"['json_schema'] must be a mapping, {WRONG}"),
    ({"type": "json_schema", "schema": SCHEMA}, f"['schema'] {UNSAID}"),
    (schema_with(schema=None), f"['json_schema']['schema'] must be a mapping, {WRONG}"),
    (schema_with(name=5), f"['json_schema']['name'] must be a string, {WRONG}"),
    (schema_with(strict="yes"), f"['json_schema']['strict'] must be true or false, {WRONG}"),
    (schema_with(title="t"), f"['json_schema']['title'] {UNSAID}"),
]


@pytest.mark.parametrize(("form", "rest"), FORMS)
def test_what_is_not_understood_of_a_form_is_refused(form: Table, rest: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        format_of(form)
    assert str(caught.value) == f"response_format{rest}"


def test_an_error_may_say_what_to_do_instead() -> None:
    assert str(unsayable("gemini", "seed")) == "seed cannot be said in the dialect gemini"
    assert str(unsayable("gemini", "seed", "leave it out")) == (
        "seed cannot be said in the dialect gemini: leave it out"
    )


# ---- anything -----------------------------------------------------------------------------------


def bottomless() -> JSON:
    value: JSON = []
    for _ in range(100_000):
        value = [value]
    return value


DEEP = bottomless()


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "unknown": DEEP},
        {"role": "user", "content": [DEEP]},
        {"role": "user", "content": [{"type": DEEP}]},
        {"role": "user", "content": [{"type": "text", "text": DEEP}]},
        {"role": "assistant", "tool_calls": DEEP},
        {"role": "assistant", "tool_calls": [called("f", type=DEEP)]},
        {"role": "assistant", "refusal": DEEP},
        {"role": "assistant", "opaque": DEEP},
        {"role": "assistant", "opaque": {"dialect": DEEP}},
    ],
)
def test_what_is_nested_without_end_is_refused_like_anything_else(message: Table) -> None:
    assert refusal_of(message).startswith("messages[0]")


def test_what_is_nested_without_end_is_refused_everywhere() -> None:
    deep: Table = {"type": DEEP}
    request = ChatRequest(messages=[ASKED], tools=[deep], tool_choice=deep, response_format=deep)
    for read_it in (READER.tools, READER.tool_choice, READER.response_format):
        with pytest.raises(ConfigurationError, match=UNSAID):
            read_it(request)


def refusal(read_it: Callable[[ChatRequest], object], request: ChatRequest) -> str | None:
    try:
        read_it(request)
    except ConfigurationError as error:
        return str(error)
    return None


@given(requests())
def test_whatever_json_a_request_holds_it_is_read_or_refused_by_its_place(
    request: ChatRequest,
) -> None:
    of_nobody = "['opaque'] must be what a completion's message held there"
    for place, read_it in (
        ("messages[", READER.conversation),
        ("tools[", READER.tools),
        (("tool_choice", "tools["), READER.tool_choice),
        ("response_format", READER.response_format),
    ):
        said = refusal(read_it, request)
        assert said is None or said.startswith(place)
        assert said is None or any(reason in said for reason in (WRONG, UNSAID, of_nobody))


@pytest.mark.parametrize("name", DIALECTS)
@given(request=requests())
def test_whatever_json_a_request_holds_every_dialect_says_it_or_refuses_it(
    name: DialectName, request: ChatRequest
) -> None:
    dialect = DIALECTS[name]
    target = Target(dialect=name, base_url="https://eu.invalid", model="m")
    if refusal(dialect.check, request) is None:
        assert isinstance(json.loads(dialect.encode(request, target, None).body), dict)
