"""Find series that fail, and what is simplest about them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from .checking import run
from .laws import Broken
from .shrinking import shrunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .series import Series

_SEEDS = (0, 1, 2)
"""What is tried where nothing simpler fails as it is: tasks run in another order then."""


_SIMPLER_S = 5.0
"""What a simpler series may take on the real clock: one that hangs does not go on for ever."""


def failure_of(series: Series, *, real_limit_s: float = 60) -> Exception | None:
    """Play *series* and give what does not hold; ``None`` if all does."""
    try:
        run(series, real_limit_s=real_limit_s)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is found
        return error
    return None


def name_of(error: Exception) -> str:
    """Say in a few words what failed, so that the same failure has the same name."""
    if isinstance(error, Broken):
        return error.law
    if isinstance(error, trio.TooSlowError):
        return "it hangs"
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    place = "" if traceback is None else f" in {traceback.tb_frame.f_code.co_name}"
    return f"{type(error).__name__}{place}"


def told(error: Exception) -> str:
    """Say what failed, in one line."""
    what = "" if isinstance(error, Broken) else name_of(error)
    return " ".join([what, *str(error).split()]).strip()


def simplest(series: Series, failure: str) -> Series:
    """Give the simplest series that was found to fail in the same way."""
    for seeds in ((), _SEEDS):
        series = shrunk(series, partial(_failing, failure=failure, seeds=seeds))
    return series


def _failing(series: Series, *, failure: str, seeds: Sequence[int]) -> Series | None:
    for seed in (series.seed, *seeds):
        candidate = attrs.evolve(series, seed=seed)
        error = failure_of(candidate, real_limit_s=_SIMPLER_S)
        if error is not None and name_of(error) == failure:
            return candidate
    return None
