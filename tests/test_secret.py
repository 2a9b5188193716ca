from __future__ import annotations

import copy
import dataclasses
import html
import inspect
import json
import logging
import pickle
import pprint
import reprlib
import traceback
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

import attrs
import pytest
from hypothesis import given, strategies as st

from polygateway.secret import CUT, Secret

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "sk-canary-7d1f"


@attrs.frozen
class Holder:
    secret: Secret


WAYS: list[Callable[[Secret], str]] = [
    repr,
    str,
    ascii,
    format,
    "{0} {0!r} {0:>40}".format,
    lambda secret: f"{secret} {secret!r} {secret:>40}",
    lambda secret: "%s %r" % (secret, secret),  # noqa: UP031 - one of the ways to show it
    lambda secret: repr([secret]),
    lambda secret: repr(Holder(secret)),
    lambda secret: repr(attrs.asdict(Holder(secret))),
    lambda secret: repr(attrs.astuple(Holder(secret))),
    lambda secret: json.dumps(attrs.asdict(Holder(secret)), default=str),
]


@pytest.mark.parametrize("show", WAYS)
def test_no_way_of_showing_it_shows_it(show: Callable[[Secret], str]) -> None:
    shown = show(Secret(KEY))
    assert KEY not in shown
    assert "***" in shown


def test_it_is_aligned_like_any_text() -> None:
    assert f"{Secret(KEY):>15}" == "  Secret('***')"


def test_a_log_record_does_not_show_it(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("test").error("the key is %s", Secret(KEY))
    assert "the key is Secret('***')" in caplog.text


def test_it_has_no_attributes_to_dump() -> None:
    assert not hasattr(Secret(KEY), "__dict__")


def test_it_is_not_pickled_and_the_refusal_does_not_show_it() -> None:
    with pytest.raises(TypeError, match="a Secret is not pickled") as caught:
        pickle.dumps(Secret(KEY))
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy])
def test_a_copy_is_the_secret_itself(take: Callable[[Secret], object]) -> None:
    secret = Secret(KEY)
    assert take(secret) is secret


def test_reveal_gives_the_string_itself() -> None:
    assert Secret(KEY).reveal() == KEY


def test_secrets_are_equal_when_their_strings_are() -> None:
    assert Secret(KEY) == Secret(KEY)
    assert hash(Secret(KEY)) == hash(Secret(KEY))
    assert Secret(KEY) != Secret("other")
    assert Secret(KEY) != KEY


def test_scrub_takes_every_occurrence_out_of_a_text() -> None:
    text = f"Incorrect API key provided: {KEY}. You sent {KEY}"
    assert Secret(KEY).scrub(text) == "Incorrect API key provided: ***. You sent ***"


def test_an_empty_secret_scrubs_nothing() -> None:
    assert Secret("").scrub("a text") == "a text"


def test_the_beginning_of_a_key_before_a_cut_is_taken_out() -> None:
    key = Secret("sk-canary-0123456789")
    assert key.scrub(f"you sent sk-canary-01{CUT} and more") == f"you sent ***{CUT} and more"
    assert key.scrub(f"sk-canary-0123456789{CUT}") == f"***{CUT}"
    # What every key begins with tells nothing, and words that end so are left alone.
    assert key.scrub(f"it begins with sk-{CUT}") == f"it begins with sk-{CUT}"
    assert key.scrub("sk-canary-01 is not cut") == "sk-canary-01 is not cut"


# ---------------------------------------------------------------- what nobody calls showing


@dataclasses.dataclass
class Record:
    secret: Secret


def test_whatever_walks_over_attributes_finds_a_function() -> None:
    secret = Secret(KEY).after("Bearer ")
    walked = [
        repr(inspect.getmembers(secret)),
        repr([getattr(secret, name) for name in Secret.__slots__]),
        repr(dataclasses.asdict(Record(secret))),
        pprint.pformat([secret]),
        reprlib.repr({"key": secret}),
        repr(secret.__getstate__()),
    ]
    assert not [text for text in walked if KEY in text]


def test_it_cannot_be_taken_for_a_text_by_mistake() -> None:
    secret: object = Secret(KEY)
    for mistake in (json.dumps, "".join, len, iter, bytes, str.encode):
        with pytest.raises(TypeError) as caught:
            cast("Callable[[object], object]", mistake)(secret)
        assert KEY not in str(caught.value)


def test_a_frame_that_holds_it_does_not_show_it() -> None:
    def fails(secret: Secret) -> None:
        raise ValueError(f"no use for {secret}")

    with pytest.raises(ValueError, match="no use") as caught:
        fails(Secret(KEY))
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    shown = "".join(told.format())
    assert "secret = Secret('***')" in shown
    assert KEY not in shown.replace(f"KEY = {KEY!r}", "")


# ---------------------------------------------------------------- the prefix


def test_what_a_header_holds_is_the_key_behind_its_prefix() -> None:
    held = Secret(KEY).after("Bearer ")
    assert held.reveal() == f"Bearer {KEY}"
    assert held == Secret(f"Bearer {KEY}")
    assert held.after("x-").reveal() == f"x-Bearer {KEY}"


def test_the_prefix_is_no_secret() -> None:
    held = Secret(KEY).after("Bearer ")
    assert held.scrub(f"you sent {KEY} as a Bearer token") == "you sent *** as a Bearer token"
    assert held.scrub(f"you sent Bearer {KEY}") == "you sent Bearer ***"


# ---------------------------------------------------------------- escaped echoes

ODD = "sk-can/ary+7d1f=\"&<x>'~"


def hexed(form: str) -> str:
    return "".join(form.format(ord(char)) for char in ODD)


ESCAPED = {
    "JSON": json.dumps(ODD)[1:-1],
    "JSON in JSON": json.dumps(json.dumps(ODD))[3:-3],
    "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps(ODD)))[7:-7],
    "JSON with escaped slashes": json.dumps(ODD)[1:-1].replace("/", r"\/"),
    "JSON with nothing but escapes": hexed("\\u{:04x}"),
    "JSON with capital escapes": hexed("\\u{:04X}"),
    "a URL": quote(ODD, safe=""),
    "a URL in small letters": quote(ODD, safe="").lower(),
    "a URL in a URL": quote(quote(ODD, safe=""), safe=""),
    "a URL with nothing but escapes": hexed("%{:02X}"),
    "HTML": html.escape(ODD),
    "HTML in HTML": html.escape(html.escape(ODD)),
    "HTML with numbers": hexed("&#{};"),
    "HTML with hexadecimal numbers": hexed("&#x{:X};"),
    "a repr": repr(ODD)[1:-1],
    "a repr of bytes": repr(ODD.encode())[2:-1],
}


@pytest.mark.parametrize("form", ESCAPED)
def test_an_escaped_echo_is_taken_out(form: str) -> None:
    text = f"You sent <{ESCAPED[form]}>, which nobody knows."
    assert Secret(ODD).scrub(text) == "You sent <***>, which nobody knows."


def json_form(char: str) -> str:
    return json.dumps(char)[1:-1]


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": json_form,
    "JSON in JSON": lambda char: json_form(json_form(char)),
    "JSON with nothing but escapes": lambda char: f"\\u{ord(char):04x}",
    "a URL": lambda char: quote(char, safe=""),
    "a URL with nothing but escapes": lambda char: f"%{ord(char):02x}",
    "HTML": html.escape,
    "HTML with numbers": lambda char: f"&#{ord(char)};",
}


@pytest.mark.parametrize("end", [CUT, f"{CUT} and more", ""], ids=["cut", "cut inside", "end"])
@pytest.mark.parametrize("form", FORMS)
def test_wherever_an_echo_is_cut_three_characters_are_left_at_most(form: str, end: str) -> None:
    key = 'sk-can/ary+7d1f="<x>~'
    forms = [FORMS[form](char) for char in key]
    telling = len("".join(forms[:4]))
    echo = "".join(forms)
    for at in range(telling, len(echo) + 1):
        assert Secret(key).scrub(f"You sent <{echo[:at]}{end}") == f"You sent <***{end}"


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=4), st.text())
def test_no_text_holds_the_key_once_it_is_scrubbed(key: str, text: str) -> None:
    secret = Secret(key)
    assert key not in secret.scrub(f"{text}{key}{text}").replace("***", "")


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=4), st.text())
def test_a_text_without_escapes_and_without_the_key_is_left_alone(key: str, text: str) -> None:
    if key[:4] not in text and not set("\\%&") & set(text):
        assert Secret(key).scrub(text) == text


@pytest.mark.parametrize("text", ["a", "\\", "%61", "&", "&amp;", "aaab"])
def test_scrubbing_a_long_text_that_is_nearly_the_key_takes_no_time(text: str) -> None:
    Secret("a" * 100 + "b").scrub(text * (100_000 // len(text)))


def test_what_is_too_short_to_be_a_secret_is_not_looked_for() -> None:
    assert Secret("x").scrub("an index") == "an index"
    assert Secret("none").scrub("there is none.") == "there is ***."
