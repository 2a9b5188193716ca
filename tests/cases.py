"""The wire cases of ``tests/data/wire``: what a provider sent, and what a client should make of it.

Each file is one reply of some server, with where the fact comes from. Two tests judge them: by the
body alone, in every split (``wire/test_cases.py``), and end to end, with HTTP's framing, cuts,
hangs and the time that it takes (``test_wire_cases.py``).
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs

from polygateway.messages import JSON
from polygateway.policies import Target

if TYPE_CHECKING:
    from polygateway.messages import Completion
    from polygateway.policies import DialectName

Facts: TypeAlias = "dict[str, JSON]"

DATA = Path(__file__).parent / "data" / "wire"

NO_USAGE: Facts = dict.fromkeys(
    ("input_tokens", "output_tokens", "reasoning_tokens", "cached_input_tokens")
)

# Everybody else speaks OpenAI's chat wire.
_OWN_WIRES: Mapping[str, DialectName] = {
    "anthropic": "anthropic",
    "gemini": "gemini",
    "ollama": "ollama",
    "openai-responses": "openai-responses",
}


@attrs.frozen
class Write:
    """A piece of the body, and how long the server waits before it."""

    after_s: float
    data: bytes


@attrs.frozen
class Case:
    """One case."""

    name: str
    raw: Mapping[str, JSON] = attrs.field(repr=False)

    @property
    def dialect(self) -> DialectName:
        """The wire that the provider speaks."""
        return _OWN_WIRES.get(str(self.raw["provider"]), "openai-chat")

    @property
    def target(self) -> Target:
        """A target that speaks it."""
        return Target(dialect=self.dialect, base_url="http://eu.invalid/v1", model="lyra-3")

    @property
    def status(self) -> int:
        """The HTTP status; 0 where there is no proper head."""
        return cast("int", self.raw["status"])

    @property
    def writes(self) -> list[Write]:
        """The body, as the server wrote it."""
        return [_write(each) for each in cast("list[Facts]", self.raw["body"])]

    @property
    def body(self) -> bytes:
        """The body as a whole."""
        return b"".join(write.data for write in self.writes)

    @property
    def expect(self) -> Facts:
        """What a client should make of it."""
        return cast("Facts", self.raw["expect"])

    def headers(self, *, now_s: float) -> list[tuple[str, str]]:
        """Give the response's headers; dates in them count from *now_s*."""
        pairs = cast("list[tuple[str, str]]", self.raw["headers"])
        return [(name, _dated(value, now_s)) for name, value in pairs]

    def expected(self, found: Facts) -> Facts:
        """Give what is expected of the facts that were *found*, in the same form."""
        expect = {"refusal": "", **self.expect}
        if isinstance(text := expect["text"], str):
            expect["text_sha256"] = _sha256(text)
        expect["usage"] = expect["usage"] or NO_USAGE
        calls = cast("list[Facts]", expect["tool_calls"])
        expect["tool_calls"] = [_expected_call(call) for call in calls]
        expect.setdefault("retry_after_s", found.get("retry_after_s"))  # else it is not judged
        return {name: expect[name] for name in found}


def _write(write: Facts) -> Write:
    text = write.get("text")
    data = base64.b64decode(str(write["b64"])) if text is None else str(text).encode()
    return Write(float(str(write["after_s"])), data)


def _dated(value: str, now_s: float) -> str:
    return re.sub(
        r"\{http_date([+-]\d+)\}",
        lambda found: email.utils.formatdate(now_s + int(found[1]), usegmt=True),
        value,
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _expected_call(call: Facts) -> Facts:
    raw = call["arguments_raw"]
    if raw is None:  # the wire had an object: any text of it will do
        raw = json.dumps(call["arguments"], ensure_ascii=False)
    return {**{name: call[name] for name in call if name != "arguments"}, "arguments_raw": raw}


def answer_facts(answer: Completion, content_events: int) -> Facts:
    """Say what an answer is as the cases do."""
    return {
        "text_sha256": _sha256(answer.text),
        "reasoning": answer.reasoning,
        "refusal": answer.refusal,
        "tool_calls": [
            {
                "id": call.id,
                "name": call.name,
                "arguments_raw": call.arguments,
                "complete": call.complete,
            }
            for call in answer.tool_calls
        ],
        "finish_reason": answer.raw_finish_reason,
        "usage": {name: getattr(answer.usage, name) for name in NO_USAGE},
        "content_events": content_events,
    }


CASES: Mapping[str, Case] = {
    path.stem: Case(path.stem, json.loads(path.read_text("utf-8")))
    for path in sorted(DATA.glob("*.json"))
}
"""All of them, by name."""
