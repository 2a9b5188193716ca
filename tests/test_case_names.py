"""The wire cases hold invented names, and neither they nor the golden requests anybody's key."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.cases import CASES, DATA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INVENTED = re.compile(r"(?:lyra|harbor|tern|quill)-[a-z0-9]+|")
"""Names of models that no provider has; the empty one is what some send in its place."""

MODEL = re.compile(r'"model(?:Version|_slug)?": ?"([^"]*)"')

PRODUCTS = re.compile(
    r"\b(?:gpt|chatgpt|o[134](?=-)|claude|gemini|gemma|llama|mi[sx]tral|codestral|qwen|deepseek"
    r"|kimi|glm|grok|command|phi|nova|sonar|ernie|hunyuan|doubao|minimax|yi)"
    r"-(?=[a-z0-9.]*\d|chat|large|medium|small|mini|nano|pro|flash|turbo|opus|sonnet|haiku|latest)",
    re.IGNORECASE,
)
"""Beginnings of real models' names."""

KEYS = re.compile(
    r"\b(?:sk|gsk|xai|hf|r8|pplx|nvapi|fw|csk|key|rk|ak|tp)[-_](?=[\w-]*\d)[\w-]{16,}"
    r"|AIza[\w-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|eyJ[\w-]{10,}\.[\w-]{10,}"
    r"|(?:Bearer|Basic) [\w.~+/=-]{16,}"
)
"""What the keys of providers look like."""

WIRE = {f"wire/{name}": case.body.decode(errors="replace") for name, case in CASES.items()}


def without_source(path: Path) -> str:
    """Give a file's text without its source, which names the repositories that reported it."""
    facts = json.loads(path.read_text("utf-8"))
    facts.pop("source", None)
    return json.dumps(facts, ensure_ascii=False)


CASE_TEXTS = WIRE | {path.name: without_source(path) for path in sorted(DATA.glob("*.json"))}
REQUEST_TEXTS = {
    f"{path.parent.name}/{path.name}": without_source(path)
    for path in sorted((DATA.parent / "requests").glob("*/*.json"))
}


def test_every_model_of_a_wire_case_is_invented() -> None:
    models = {name: set(MODEL.findall(body)) for name, body in WIRE.items()}
    assert any(models.values())
    assert {name: found for name, found in models.items() if not all(map(invented, found))} == {}


def invented(model: str) -> bool:
    return INVENTED.fullmatch(model) is not None


def found_in(texts: Mapping[str, str], names: re.Pattern[str]) -> Mapping[str, list[str]]:
    return {name: names.findall(text) for name, text in texts.items() if names.search(text)}


def test_no_wire_case_names_a_real_model() -> None:
    # Some golden requests do, for what a model takes depends on its name.
    assert found_in(CASE_TEXTS, PRODUCTS) == {}


def test_neither_a_case_nor_a_request_holds_what_looks_like_a_key() -> None:
    assert found_in(CASE_TEXTS | REQUEST_TEXTS, KEYS) == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("the model gpt-4o-mini", PRODUCTS),
        ("claude-3-haiku", PRODUCTS),
        ("deepseek-chat", PRODUCTS),
        ("qwen-turbo", PRODUCTS),
        ("sk-proj-" + "a1" * 12, KEYS),
        ("AIza" + "b2" * 17, KEYS),
        ("Bearer " + "c3" * 12, KEYS),
    ],
)
def test_a_real_name_or_a_key_would_be_found(text: str, names: re.Pattern[str]) -> None:
    assert names.search(text)
