"""What becomes of each attempt: drawn from a seed, so that every system meets the same.

Standard library only, for the provider imports it. A call says in its prompt who it is
(:class:`Wish`), and its n-th attempt meets the same fate whoever makes it, and whenever.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from ..speed.wires import COMMENT, OpenAIWire

Script: TypeAlias = Sequence[tuple[float, bytes]]
"""Pauses in seconds, and what is sent after each. The first pause delays the headers."""

THRESHOLD_S = 0.2
"""The silence that every system takes for a stall in the scenarios A to D."""

KEEPALIVE_EVERY_S = 0.05

_MARK = "stalls"
_WIRE = OpenAIWire()
_BEFORE, _AFTER = _WIRE.around()
_EARLY, _LATE = 1 / 6, 2 / 3


class Wish(NamedTuple):
    """A call, as its prompt names it."""

    scenario: str
    seed: int
    call: int
    system: str
    """Who calls: each has attempts of its own. Without blanks."""

    def __str__(self) -> str:
        return " ".join((_MARK, *map(str, self)))

    @staticmethod
    def read(prompt: str) -> Wish:
        """Read a prompt.

        Raises:
            KeyError: it names no call.
        """
        match prompt.split(" "):
            case [mark, scenario, seed, call, system] if mark == _MARK:
                return Wish(scenario, int(seed), int(call), system)
            case _:
                raise KeyError(prompt)


class Silence(NamedTuple):
    """A time without content in a stream."""

    place: float
    """After which share of its pieces."""

    lasts_s: float
    """From one piece to the next."""

    keepalive: bool = False
    """Whether comments come meanwhile."""


class Fate(NamedTuple):
    """What an attempt meets."""

    head_s: float
    """From its request to its headers."""

    silences: Sequence[Silence] = ()


class Scenario(Protocol):
    """What a provider is like."""

    @property
    def faster(self) -> float:
        """How many times as fast as usual time runs."""
        ...

    @property
    def piece_s(self) -> float:
        """How far apart pieces are."""
        ...

    def length(self, chance: random.Random) -> int:
        """Draw how many pieces the answer to a call has."""
        ...

    def fate(self, chance: random.Random) -> Fate:
        """Draw what an attempt meets."""
        ...


@dataclass(frozen=True)
class Quick:
    """Answers in a third of a second; some attempts meet a silence, none of them two."""

    silences: Sequence[tuple[float, Silence]] = ()
    """Each with the share of attempts that meets it."""

    piece_s: float = 0.01
    faster: float = 1

    def length(self, chance: random.Random) -> int:
        """Give how many pieces each answer has."""
        del chance
        return 30

    def fate(self, chance: random.Random) -> Fate:
        """Draw what an attempt meets."""
        draw, reached = chance.random(), 0.0
        for share, silence in self.silences:
            reached += share
            if draw < reached:
                return Fate(0.02, [silence])
        return Fate(0.02)


@dataclass(frozen=True)
class Usual:
    """The usual case of docs/explanation/tail-latency.md, faster. Its figures are given as usual.

    They are those of benchmarks/tail_model.py, where they are explained. Answers come in pieces
    that are large, so that in a faster time they are no more than every system can take.
    """

    faster: float
    first_median_s: float = 1.6
    first_sigma: float = 0.6
    generation_s: tuple[float, float] = (3.0, 20.0)
    pause_share: float = 0.25
    pause_median_s: float = 0.8
    pause_sigma: float = 0.6
    stall_share: float = 0.05
    stall_median_s: float = 55.0
    stall_sigma: float = 0.8
    usual_piece_s: float = 0.25

    @property
    def piece_s(self) -> float:
        """How far apart pieces are, in the faster time."""
        return self.usual_piece_s / self.faster

    def length(self, chance: random.Random) -> int:
        """Draw how many pieces the answer to a call has."""
        return round(chance.uniform(*self.generation_s) / self.usual_piece_s)

    def fate(self, chance: random.Random) -> Fate:
        """Draw what an attempt meets, always as many random numbers."""
        first_s = self._lognormal(chance, self.first_median_s, self.first_sigma)
        pause_s = self._lognormal(chance, self.pause_median_s, self.pause_sigma)
        stall_s = self._lognormal(chance, self.stall_median_s, self.stall_sigma)
        pause, stall = Silence(chance.random(), pause_s), Silence(chance.random(), stall_s)
        met: list[Silence] = []
        if chance.random() < self.pause_share:
            met.append(pause)
        if chance.random() < self.stall_share:
            met.append(stall)
        return Fate(max(0.0, first_s - self.piece_s), met)

    def _lognormal(self, chance: random.Random, median_s: float, sigma: float) -> float:
        return median_s / self.faster * math.exp(sigma * chance.gauss(0, 1))


def _stalling(*others: tuple[float, Silence], keepalive: bool = False) -> Quick:
    return Quick([(0.1, Silence(_EARLY, 2.0, keepalive)), *others])


SCENARIOS: Mapping[str, Scenario] = {
    "calm": Quick(),
    "A": _stalling(),
    "B": _stalling(keepalive=True),
    "C": _stalling((0.2, Silence(_EARLY, THRESHOLD_S + 0.05))),
    "D": _stalling((0.3, Silence(_LATE, THRESHOLD_S + 0.02))),
    "usual": Usual(faster=25),
}


def answer(wish: Wish) -> Sequence[str]:
    """Give the pieces of the right answer to a call. No two are alike, of whichever calls."""
    chance = random.Random(f"{wish.scenario} {wish.seed} {wish.call}")
    length = SCENARIOS[wish.scenario].length(chance)
    return [f" {wish.call}.{number}" for number in range(length)]


def fate(wish: Wish, attempt: int) -> Fate:
    """Give what the attempt of such a number meets, from 0."""
    chance = random.Random(f"{wish.scenario} {wish.seed} {wish.call} {attempt}")
    return SCENARIOS[wish.scenario].fate(chance)


def script_of(model: str, call: str, attempt: int, prefix: str) -> Script:
    """Give what the provider sends.

    Args:
        model: whatever the system calls it.
        call: the prompt.
        attempt: its number among the attempts of the call, from 0.
        prefix: what of the answer is there already. Silences are placed in the rest.

    Raises:
        KeyError: the prompt names none of these calls.
    """
    del model
    wish = Wish.read(call)
    rest, met = _rest(answer(wish), prefix), fate(wish, attempt)
    items = [(met.head_s, event) for event in _WIRE.begin()]
    for number, piece in enumerate(rest):
        here = [each for each in met.silences if int(each.place * len(rest)) == number]
        wait_s = max(SCENARIOS[wish.scenario].piece_s, sum(each.lasts_s for each in here))
        items += _waited(piece, wait_s, keepalive=any(each.keepalive for each in here))
    return [*items, (0.0, b"".join(_WIRE.end(len(rest))))]


def _waited(piece: str, wait_s: float, *, keepalive: bool) -> Script:
    comments = math.ceil(wait_s / KEEPALIVE_EVERY_S) - 1 if keepalive else 0
    last = wait_s - comments * KEEPALIVE_EVERY_S, _BEFORE + piece.encode() + _AFTER
    return [*[(KEEPALIVE_EVERY_S, COMMENT)] * comments, last]


def _rest(pieces: Sequence[str], prefix: str) -> Sequence[str]:
    """Give the pieces after *prefix*; all of them if the answer does not begin so."""
    whole = "".join(pieces)
    left, rest = len(whole) - len(prefix), list[str]()
    if not whole.startswith(prefix):
        return pieces
    for piece in reversed(pieces):
        if left <= 0:
            break
        rest.append(piece[-left:])
        left -= len(piece)
    return rest[::-1]
