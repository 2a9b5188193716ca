"""Which of an answer's choices have appeared, and which of them are finished."""

from __future__ import annotations


class Choices:
    """Choices by index. What it can tell takes the same time however many there are."""

    def __init__(self) -> None:
        self._finished: dict[int, bool] = {}
        self._count = 0  # of those that are finished

    def __len__(self) -> int:
        return len(self._finished)

    def __contains__(self, index: int) -> bool:
        """Tell whether a choice has appeared."""
        return index in self._finished

    def mark(self, index: int, *, finished: bool) -> None:
        """Note whether a choice, which may be a new one, is finished."""
        self._count += finished - self._finished.get(index, False)
        self._finished[index] = finished

    def is_finished(self, index: int) -> bool:
        """Tell whether a choice is finished."""
        return self._finished.get(index, False)

    @property
    def is_one_open(self) -> bool:
        """Whether only the first choice has appeared, and is not finished."""
        return self._finished == {0: False}

    @property
    def any_finished(self) -> bool:
        """Whether at least one is finished."""
        return self._count > 0

    @property
    def all_finished(self) -> bool:
        """Whether at least one has appeared, and all that have are finished."""
        return self._count == len(self._finished) > 0
