"""The head of a request is what h11 writes for it."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given, strategies as st

from polygateway.net.head import Head
from polygateway.net.parser import Parser
from polygateway.secret import Secret

NAMES = st.sampled_from(["host", "accept", "X-Team", "content-type", "zz"])
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=9)
HEADERS = st.dictionaries(NAMES, VALUES).map(lambda drawn: {"host": "h", **drawn})


@given(HEADERS, st.binary(max_size=300))
def test_head_and_body_are_what_h11_sends(headers: dict[str, str], body: bytes) -> None:
    named = [(name.encode(), value) for name, value in headers.items()]
    length = ("content-length", str(len(body)))
    plain = h11.Connection(h11.CLIENT)
    events = (
        h11.Request(method="POST", target="/v1", headers=[*headers.items(), length]),
        h11.Data(data=body),
        h11.EndOfMessage(),
    )
    sent = b"".join([plain.send(event) or b"" for event in events])
    head = Head.of(b"/v1", named)
    assert head.before(body) + body == sent
    ours = Parser(h11.CLIENT)
    ours.sends(head.request)
    assert ours.states == plain.states


def test_a_head_has_marks_in_the_place_of_its_secrets() -> None:
    secret = Secret("crumb-0123")
    head = Head.of(b"/v1", [(b"host", "h"), (b"x-key", secret)])
    (mark,) = head.secrets
    assert head.secrets[mark] is secret
    assert mark in head.before(b"")
    assert "crumb" not in repr(head)


def test_a_request_that_has_no_turn_is_refused() -> None:
    ours = Parser(h11.CLIENT)
    head = Head.of(b"/v1", [(b"host", "h")])
    ours.sends(head.request)
    with pytest.raises(h11.LocalProtocolError):
        ours.sends(head.request)
