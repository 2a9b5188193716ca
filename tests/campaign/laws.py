"""What is said when something does not hold."""

from __future__ import annotations


class Broken(AssertionError):
    """Something that must hold of a series does not."""

    def __init__(self, law: str, *facts: object) -> None:
        super().__init__(": ".join([law, *map(repr, facts)]))
        self.law = law


def require(law: str, holds: object, *facts: object) -> None:
    """Insist that something holds.

    Args:
        law: what, in a few words; it names the failure, so it holds no facts.
        holds: whether it does.
        facts: what tells more of it.

    Raises:
        Broken: it does not.
    """
    if not holds:
        raise Broken(law, *facts)
