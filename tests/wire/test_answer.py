from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from polygateway.messages import Chunk, Completion, ToolCall, ToolCallDelta
from polygateway.usage import Usage
from polygateway.wire.answer import Answer, CallPiece
from polygateway.wire.malformed import Malformed

if TYPE_CHECKING:
    from polygateway.stats import CallStats
    from polygateway.usage import Confidence


def answer(*, max_bytes: int = 100_000) -> Answer:
    return Answer(attempt=3, max_bytes=max_bytes)


def whole(
    given_answer: Answer,
    stats: CallStats,
    *,
    ended: bool = True,
    before: str = "",
    withheld: int = 0,
) -> Completion:
    return given_answer.completion(
        target="eu",
        request_id="r-1",
        headers={"a": "b"},
        stats=stats,
        ended=ended,
        before=before,
        withheld=withheld,
    )


def test_a_chunk_says_what_was_added_and_by_which_attempt() -> None:
    assert answer().add_text("reasoning", "hm") == Chunk("reasoning", "hm", 3)
    assert answer().add_call(CallPiece(5, "c1", "f", "{")) == Chunk(
        "tool_call", "{", 3, ToolCallDelta(0, "c1", "f")
    )


def test_a_completion_holds_everything_that_came(stats: CallStats) -> None:
    collected = answer()
    for piece in ("The ", "tide"):
        collected.add_text("text", piece)
    collected.add_text("reasoning", "hm")
    collected.identify(id="a1", model="lyra-3")
    collected.count_tokens(Usage(input_tokens=1))
    collected.finish("STOP", "stop")
    assert whole(collected, stats) == Completion(
        text="The tide",
        reasoning="hm",
        refusal="",
        tool_calls=(),
        finish_reason="stop",
        raw_finish_reason="STOP",
        usage=Usage(input_tokens=1, confidence="exact"),
        model="lyra-3",
        target="eu",
        id="a1",
        request_id="r-1",
        headers={"a": "b"},
        message={"role": "assistant", "content": "The tide"},
        stats=stats,
    )


def test_a_completion_may_be_taken_at_any_time(stats: CallStats) -> None:
    collected, seen = answer(), ""
    for piece in ("a", "\r", "\n\r\n", "c"):
        assert whole(collected, stats, ended=False).text == seen
        collected.add_text("text", piece)
        seen += piece
    assert whole(collected, stats).text == "a\r\n\r\nc"


def test_the_first_id_and_model_that_are_not_empty_stay() -> None:
    collected = answer()
    for answer_id, model in (("", ""), ("a1", ""), ("a2", "lyra-3"), ("", "lyra-4")):
        collected.identify(id=answer_id, model=model)
    assert (collected.id, collected.model) == ("a1", "lyra-3")


def test_of_each_token_count_the_last_that_is_known_stands() -> None:
    # Summing what is cumulative is open-webui#29064.
    collected = answer()
    collected.count_tokens(Usage(input_tokens=11, output_tokens=1))
    collected.count_tokens(Usage(output_tokens=4, cached_input_tokens=0))
    collected.count_tokens(Usage())
    assert collected.usage == Usage(input_tokens=11, output_tokens=4, cached_input_tokens=0)


# A count of 0 is a count.
COUNTS = [
    Usage(input_tokens=0),
    Usage(output_tokens=0),
    Usage(reasoning_tokens=0),
    Usage(cached_input_tokens=0),
]


@pytest.mark.parametrize("usage", COUNTS)
@pytest.mark.parametrize(("ended", "confidence"), [(True, "exact"), (False, "at_least")])
def test_a_count_is_final_where_the_answer_ended_and_a_lower_bound_before(
    usage: Usage, ended: bool, confidence: Confidence, stats: CallStats
) -> None:
    collected = answer()
    collected.count_tokens(usage)
    counted = attrs.evolve(usage, confidence=confidence)
    assert collected.counted(ended=ended) == counted
    assert whole(collected, stats, ended=ended).usage == counted


@pytest.mark.parametrize("ended", [True, False])
def test_where_nothing_was_counted_nothing_is_known(ended: bool, stats: CallStats) -> None:
    collected = answer()
    collected.count_tokens(Usage())
    assert collected.counted(ended=ended) == Usage(confidence="unknown")
    assert whole(collected, stats, ended=ended).usage == Usage(confidence="unknown")


# ---- finish reasons -----------------------------------------------------------------------------


def test_the_first_finish_reason_stands_unless_content_follows_it() -> None:
    collected = answer()
    assert (collected.raw_finish_reason, collected.finish_reason) == (None, None)
    collected.finish("end", "stop")
    collected.finish("max", "length")
    assert (collected.raw_finish_reason, collected.finish_reason) == ("end", "stop")
    collected.reopen()
    assert (collected.raw_finish_reason, collected.finish_reason) == (None, None)
    collected.finish("max", "length")
    assert (collected.raw_finish_reason, collected.finish_reason) == ("max", "length")


def test_stop_after_tool_calls_means_tool_calls_and_nothing_else_does(stats: CallStats) -> None:
    collected = answer()
    collected.add_call(CallPiece(0, "c1", "f", "{}"))
    assert collected.finish_reason is None
    collected.finish("eos", "stop")
    assert whole(collected, stats).finish_reason == "tool_calls"
    assert whole(collected, stats).raw_finish_reason == "eos"
    collected.reopen()
    collected.finish("max", "length")
    assert whole(collected, stats).finish_reason == "length"


# ---- tool calls ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # By index; the first id and name stay (poolsideai/pool#9, litellm#8990).
        ("0 a f {|0 b - :|0 a g }", "a f {:}"),
        ("0 a f {|1 b g [|0 - - }", "a f {}|b g ["),
        ("7 - f {|7 late - }", "late f {}"),
        ("0 - - {|0 - late }", "- late {}"),
        # The same id under two indexes is two calls.
        ("0 a f 1|1 a g 2|0 - - 3", "a f 13|a g 2"),
        # Without an index: by id, then by who came last (openai-python#2806).
        ("a a f {|- - - }", "a f {}"),
        ("a a f 1|b b g 2|a a - 3", "a f 13|b g 2"),
        ("a a f 1|b b g 2|- - - 3", "a f 1|b g 23"),
        ("- - f 1|- - - 2|- - f 3", "- f 12|- f 3"),
        ("- - - {}", "- - {}"),
        # With an index on the first piece only.
        ("0 a f 1|1 b g 2|a a - 3", "a f 13|b g 2"),
    ],
)
def test_pieces_find_their_call(pieces: str, calls: str, stats: CallStats) -> None:
    collected = answer()
    for piece in pieces.split("|"):
        key, call_id, name, arguments = (None if word == "-" else word for word in piece.split())
        number = int(key) if key and key.isdecimal() else key
        collected.add_call(CallPiece(number, call_id, name or "", arguments or ""))
    found = whole(collected, stats).tool_calls
    assert [f"{c.id or '-'} {c.name or '-'} {c.arguments}" for c in found] == calls.split("|")


def test_a_chunk_names_its_call_by_position_and_by_the_id_and_name_that_stay() -> None:
    collected = answer()
    collected.add_call(CallPiece(4, "a", "f", ""))
    collected.add_call(CallPiece(9, "b", "g", ""))
    assert collected.add_call(CallPiece(4, "x", "y", "{}")) == Chunk(
        "tool_call", "{}", 3, ToolCallDelta(0, "a", "f")
    )
    assert collected.add_call(CallPiece(9, None, "", "{}")) == Chunk(
        "tool_call", "{}", 3, ToolCallDelta(1, "b", "g")
    )


def test_a_piece_without_name_and_arguments_is_no_chunk(stats: CallStats) -> None:
    collected = answer()
    assert collected.add_call(CallPiece(0, None, "", "")) is None
    assert whole(collected, stats).tool_calls == ()
    assert collected.add_call(CallPiece(0, "a", "", "")) is None
    assert whole(collected, stats).tool_calls == (ToolCall("a", "", "", complete=True),)


@pytest.mark.parametrize(
    ("arguments", "is_object"),
    [
        ('{"a": 1}', True),
        ("{}", True),
        ("", True),  # none at all
        (" \n", True),
        ('{"a', False),
        ("[]", False),
        ("1", False),
        ("{}{}", False),
        ("[" * 100_000, False),
    ],
)
def test_a_call_is_complete_when_the_answer_ended_and_its_arguments_are_an_object(
    arguments: str, is_object: bool, stats: CallStats
) -> None:
    collected = answer(max_bytes=1_000_000)
    collected.add_call(CallPiece(0, "a", "f", arguments))
    assert whole(collected, stats, ended=True).tool_calls[0].complete is is_object
    assert whole(collected, stats, ended=False).tool_calls[0].complete is False


# ---- the message --------------------------------------------------------------------------------


def test_the_message_of_a_refusal_has_it(stats: CallStats) -> None:
    collected = answer()
    collected.add_text("refusal", "No.")
    assert whole(collected, stats).message == {
        "role": "assistant",
        "content": "",
        "refusal": "No.",
    }


def test_the_message_of_tool_calls_has_them_in_the_shape_of_openai_s_api(stats: CallStats) -> None:
    collected = answer()
    collected.add_text("reasoning", "hm")
    collected.add_call(CallPiece(0, "c1", "f", '{"a": 1}'))
    collected.add_call(CallPiece(1, None, "g", ""))
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"type": "function", "function": {"name": "g", "arguments": ""}},
    ]
    assert whole(collected, stats).message == {
        "role": "assistant",
        "content": None,
        "tool_calls": calls,
    }
    collected.add_text("text", "Let me see.")
    assert whole(collected, stats).message["content"] == "Let me see."


def test_an_empty_answer_invents_nothing(stats: CallStats) -> None:
    empty = whole(answer(), stats)
    assert empty.message == {"role": "assistant", "content": ""}
    assert (empty.id, empty.model, empty.usage) == (None, None, Usage())


@pytest.mark.parametrize(("withheld", "text"), [(0, "The tide tide."), (5, "The tide.")])
def test_an_answer_that_goes_on_has_the_text_before_it_and_repeats_none(
    withheld: int, text: str, stats: CallStats
) -> None:
    collected = answer()
    collected.add_text("text", " tide")
    collected.add_text("text", ".")
    completion = whole(collected, stats, before="The tide", withheld=withheld)
    assert completion.text == text
    assert completion.message == {"role": "assistant", "content": text}


@pytest.mark.parametrize(("before", "kept"), [("", True), ("The", False)])
def test_what_only_the_provider_understands_is_of_no_use_in_half_a_message(
    before: str, kept: bool, stats: CallStats
) -> None:
    collected = Answer(attempt=0, max_bytes=100, opaque=lambda: {"dialect": "gemini"})
    assert ("opaque" in whole(collected, stats, before=before).message) is kept


# ---- the limit ----------------------------------------------------------------------------------


def test_the_size_counts_the_memory_of_what_is_kept() -> None:
    collected = answer()
    collected.add_text("text", "é")
    assert collected.size == 1
    # Python holds every character of a text in as many bytes as its widest one needs.
    collected.add_text("text", "波")
    assert collected.size == 2 + 2
    collected.add_text("text", "🌊")
    assert collected.size == 4 + 4 + 4
    collected.add_text("text", "a")
    assert collected.size == 16
    collected.add_text("reasoning", "ab")
    collected.add_text("refusal", "\ud83c")  # half of a pair that JSON's escapes cut
    assert collected.size == 16 + 2 + 2
    collected.add_call(CallPiece(0, "id", "name", "{}"))
    # A call costs memory however short it is: each weighs 512 bytes more.
    assert collected.size == 20 + 512 + 2 + 4 + 2
    collected.add_call(CallPiece(0, "id", "name", "{}"))  # repeated: kept once (litellm#8990)
    assert collected.size == 540 + 2


def test_calls_of_a_byte_each_cannot_fill_the_memory() -> None:
    collected = answer(max_bytes=16 * 1024)
    for index in range(31):
        collected.add_call(CallPiece(index, "a", "", ""))
    with pytest.raises(Malformed, match=r"limits\.max_answer_bytes"):
        collected.add_call(CallPiece(31, "a", "", ""))


def test_an_answer_may_have_so_many_bytes_and_not_one_more(stats: CallStats) -> None:
    collected = answer(max_bytes=512 + 6)
    collected.add_text("text", "123")
    collected.add_call(CallPiece(0, "i", "n", "a"))
    with pytest.raises(Malformed, match=r"over 518 bytes \(limits\.max_answer_bytes\)"):
        collected.add_text("text", "4")
    for piece in (CallPiece(0, None, "", "b"), CallPiece(1, "i", "", "")):
        with pytest.raises(Malformed, match=r"limits\.max_answer_bytes"):
            collected.add_call(piece)
    assert collected.size == 518
    assert whole(collected, stats).text == "123"
    assert [call.arguments for call in whole(collected, stats).tool_calls] == ["a"]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, "a", "b", None]),
            st.sampled_from([None, "a", "b"]),
            st.sampled_from(["", "f"]),
            st.sampled_from(["", "x", "y"]),
        )
    )
)
def test_no_argument_is_lost_and_each_chunk_s_position_is_its_call_s(
    stats: CallStats, pieces: list[tuple[int | str | None, str | None, str, str]]
) -> None:
    collected, arguments = answer(), dict[int, str]()
    for piece in pieces:
        if chunk := collected.add_call(CallPiece(*piece)):
            assert chunk.tool_call is not None
            position = chunk.tool_call.index
            arguments[position] = arguments.get(position, "") + chunk.delta
    calls = whole(collected, stats).tool_calls
    assert [call.arguments for call in calls] == [arguments.get(i, "") for i in range(len(calls))]
    assert collected.size == sum(
        512 + len(call.id or "") + len(call.name) + len(call.arguments) for call in calls
    )
