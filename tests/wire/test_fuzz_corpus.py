"""What fuzzing has found worth keeping, again: see ``python -m tests.fuzz``."""

from __future__ import annotations

import pytest

from tests.fuzz.properties import HEAD, PROPERTIES, check
from tests.fuzz.seeds import CORPUS, kept, seeds


@pytest.mark.parametrize("target", PROPERTIES)
def test_everything_holds_of_what_is_kept(target: str) -> None:
    inputs = kept(target)
    assert inputs
    for each in inputs:
        check(target, each)


@pytest.mark.parametrize("target", PROPERTIES)
def test_everything_holds_of_what_fuzzing_begins_with(target: str) -> None:
    for each in seeds(target):
        check(target, each)


FOUND = [
    # White space in many reads, and a byte order mark in it: the error's excerpt differed.
    ("body", b"\x0b" * 12 + b"\xef\xbb\xbf" + b"\x0b" * 11 + b"\0"),
    # A list where a word is looked up.
    ("openai-chat", b'data: {"choices":[{"delta":{"content":[{"type":[],"text":"x"}]}}]}\n\n'),
    ("openai-responses", b'data: {"type":"response.output_item.done","item":{"type":[]}}\n\n'),
]


@pytest.mark.parametrize(("target", "body"), FOUND)
def test_what_was_found_stays_mended(target: str, body: bytes) -> None:
    check(target, bytes(HEAD) + body)


def test_a_corpus_is_kept_for_every_target_and_nothing_else_and_is_small() -> None:
    files = list(CORPUS.iterdir())
    assert {path.stem for path in files} == set(PROPERTIES)
    assert sum(path.stat().st_size for path in files) < 200_000
