"""What the wire's tests share: bytes cut in every way, and figures for a completion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.records import CALL

if TYPE_CHECKING:
    from polygateway.stats import CallStats

Reads: TypeAlias = Sequence[bytes]


def _cut_every_way(body: bytes) -> Iterator[Reads]:
    yield [body]
    yield [body[i : i + 1] for i in range(len(body))]
    for i in range(1, len(body)):
        yield [body[:i], body[i:]]


@pytest.fixture(scope="session")
def cut_every_way() -> Callable[[bytes], Iterator[Reads]]:
    """Give bytes whole, one by one, and cut in two at every place."""
    return _cut_every_way


@pytest.fixture(scope="session")
def stats() -> CallStats:
    """Give figures of a call: the wire only passes them on."""
    return CALL
