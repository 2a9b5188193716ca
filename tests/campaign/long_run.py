"""Examine one series after the other, on several cores, with the same result on any number."""

from __future__ import annotations

import time
from collections import Counter, deque
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from typing import TYPE_CHECKING

import attrs

from .checking import run
from .drawing import draw
from .finding import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

_BATCH = 5
"""How many series are examined at a stretch, by one process."""


@attrs.frozen
class Result:
    """What came of the series that were examined up to one that failed, or to the last."""

    counts: Counter[str]
    failed: str | None = None
    """The name of the series that failed."""

    failure: str = ""
    """What of it did not hold."""


def examined(seed: str, jobs: int, seconds: float) -> Iterator[Result]:
    """Examine the series of *seed*, and give what comes of each batch, in order.

    Ends after the first failure, or when the time is over.
    """
    until = time.monotonic() + seconds
    names = (f"{seed}/{number}" for number in count())
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        running: deque[Future[Result]] = deque()
        while time.monotonic() < until:
            while len(running) < 2 * jobs:
                running.append(pool.submit(_examine, [next(names) for _ in range(_BATCH)]))
            result = running.popleft().result()
            yield result
            if result.failed is not None:
                break
        pool.shutdown(cancel_futures=True)


def _examine(names: list[str]) -> Result:
    counts: Counter[str] = Counter()
    for name in names:
        try:
            counts += run(draw(name))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is found
            return Result(counts, name, name_of(error))
    return Result(counts)
