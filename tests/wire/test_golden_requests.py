"""Golden requests: ``tests/data/requests/<dialect>/*.json``, exactly what is sent.

A file is one request: ``what`` it shows, and the ``source`` of that (a provider's page, an SDK);
the ``target`` as in a configuration (the dialect is its folder's; ``base_url`` and ``model`` may be
left out; with ``api_key_env`` the key is "k"); the ``request``: a call's ``prompt`` and other
arguments, and the ``prefix`` of the answer if it has been begun; what to ``expect``: ``path``,
``headers``, ``body``, and ``left_out`` if anything is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs
import pytest

from polygateway.config import load_config
from polygateway.request import CallOptions, Prompt, build_request
from polygateway.secret import Secret
from polygateway.wire import DIALECTS

if TYPE_CHECKING:
    from polygateway.messages import JSON
    from polygateway.policies import Target
    from polygateway.wire.dialect import WireRequest

Table: TypeAlias = "dict[str, JSON]"

DATA = Path(__file__).parents[1] / "data" / "requests"
FILES = {
    f"{path.parent.name}/{path.stem}": cast("Table", json.loads(path.read_text("utf-8")))
    for path in sorted(DATA.glob("*/*.json"))
}


def target_of(name: str) -> Target:
    said = cast("Table", FILES[name]["target"])
    target = {"base_url": "https://eu.invalid/v1", "model": "lyra-3", **said}
    target["dialect"] = name.partition("/")[0]
    return load_config({"targets": {"eu": target}, "models": {"m": ["eu"]}}).targets["eu"]


def encoded(name: str) -> WireRequest:
    options = dict(cast("Table", FILES[name]["request"]))
    prompt, prefix = cast("Prompt", options.pop("prompt")), options.pop("prefix", "")
    plain, _ = build_request(prompt, cast("CallOptions", options))
    request = attrs.evolve(plain, prefix=cast("str", prefix))
    target = target_of(name)
    dialect = DIALECTS[target.dialect]
    dialect.check(request)
    return dialect.encode(request, target, Secret("k") if target.api_key_env else None)


def written(value: JSON) -> str:
    """Write *value* so that the same text means the same JSON: 1, 1.0 and true differ."""
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)


@pytest.mark.parametrize("name", FILES)
def test_a_request_is_sent_exactly_so(name: str) -> None:
    sent = encoded(name)
    shown: Table = {
        "path": sent.path,
        "headers": {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in sent.headers.items()
        },
        "body": json.loads(sent.body),
        "left_out": list(sent.left_out),
    }
    expected: Table = {"left_out": [], **cast("Table", FILES[name]["expect"])}
    assert written(shown) == written(expected)


@pytest.mark.parametrize("name", FILES)
def test_a_golden_request_says_what_it_shows_and_whence_it_is_known(name: str) -> None:
    assert list(FILES[name]) == ["what", "source", "target", "request", "expect"]
    assert FILES[name]["what"]
    assert FILES[name]["source"]


def test_every_dialect_has_golden_requests() -> None:
    assert {name.partition("/")[0] for name in FILES} == set(DIALECTS)
