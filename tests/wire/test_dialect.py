from __future__ import annotations

from typing import get_args

import pytest

from polygateway.policies import DialectName
from polygateway.wire import DIALECTS
from polygateway.wire.dialect import Phase


def test_only_an_end_or_a_failure_is_final() -> None:
    assert [phase for phase in Phase if phase.is_final] == [Phase.ENDED, Phase.FAILED]


def test_there_is_a_dialect_for_every_name_that_a_target_may_give() -> None:
    kinds = {type(DIALECTS[name]) for name in get_args(DialectName)}
    assert len(kinds) == len(DIALECTS) == len(get_args(DialectName))
    assert list(DIALECTS) == list(get_args(DialectName))


def test_a_dialect_is_always_the_same_object() -> None:
    assert list(DIALECTS.values()) == list(DIALECTS.values())  # as they have no equality


def test_there_is_no_dialect_for_any_other_name() -> None:
    with pytest.raises(KeyError, match="morse"):
        DIALECTS["morse"]  # type: ignore[index] # the mistake that is made here
    assert "morse" not in DIALECTS
