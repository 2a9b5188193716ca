from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polygateway.errors import ConfigurationError
from polygateway.wire import DIALECTS
from polygateway.wire.opaque import Opaque, fingerprint, label, opaque_in

if TYPE_CHECKING:
    from polygateway.messages import JSON


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_labelled_is_found_again(dialect: str) -> None:
    kept = label(dialect, {"thinking": "Moon."})
    assert kept == {"dialect": dialect, "thinking": "Moon."}
    assert opaque_in({"role": "assistant", "opaque": kept}, "messages[0]") == Opaque(dialect, kept)


@pytest.mark.parametrize("message", [{"role": "user"}, {"role": "user", "opaque": None}])
def test_a_message_need_not_hold_any(message: dict[str, JSON]) -> None:
    assert opaque_in(message, "messages[0]") is None


@pytest.mark.parametrize(
    "value",
    ["ollama", 5, [], {}, {"dialect": None}, {"dialect": "x"}, {"dialect": ["ollama"]}],
)
def test_what_nobody_labelled_is_refused_by_its_place(value: JSON) -> None:
    with pytest.raises(ConfigurationError) as caught:
        opaque_in({"role": "assistant", "opaque": value}, "messages[3]")
    assert str(caught.value) == (
        "messages[3]['opaque'] must be what a completion's message held there, or be left out"
    )


def test_a_fingerprint_stays_the_same_for_the_same_text_and_calls() -> None:
    # What applications have stored must fit later versions, too.
    assert fingerprint("Ebb é.", [("f", "{}")]) == (
        "023b08572de53dda17f782333043da23436c3ba5f7626f263a7edf5b3951404c"
    )


def test_a_fingerprint_tells_every_edit() -> None:
    said = [
        fingerprint(text, calls)
        for text in ("", "a", "\ud800")
        for calls in ([], [("f", "")], [("f", "{}")], [("g", "{}")], [("f", "{}"), ("f", "{}")])
    ]
    assert len(set(said)) == len(said)
