from __future__ import annotations

from typing import get_args

from polygateway.policies import DialectName
from polygateway.wire import DIALECTS
from polygateway.wire.dialect import Phase


def test_only_an_end_or_a_failure_is_final() -> None:
    assert [phase for phase in Phase if phase.is_final] == [Phase.ENDED, Phase.FAILED]


def test_there_is_a_dialect_for_every_name_that_a_target_may_give() -> None:
    assert set(DIALECTS) == set(get_args(DialectName))
