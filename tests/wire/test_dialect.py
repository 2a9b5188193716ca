from __future__ import annotations

from typing import TYPE_CHECKING, get_args, get_type_hints

from polygateway.policies import Target
from polygateway.wire import DIALECTS
from polygateway.wire.dialect import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polygateway.wire.dialect import Dialect


def test_only_an_end_or_a_failure_is_final() -> None:
    assert [phase for phase in Phase if phase.is_final] == [Phase.ENDED, Phase.FAILED]


def test_there_is_a_dialect_for_every_name_that_a_target_may_give() -> None:
    dialects: Mapping[str, Dialect] = DIALECTS
    assert set(dialects) == set(get_args(get_type_hints(Target)["dialect"]))
