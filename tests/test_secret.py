from __future__ import annotations

import copy
import json
import logging
import pickle
import traceback
from typing import TYPE_CHECKING

import attrs
import pytest

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
