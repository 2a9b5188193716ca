"""Marks that stand for secrets until the bytes that hold them are written."""

# Keys are not among what httpcore and h11 handle: they hold what is sent in variables, which
# tracebacks show.

from __future__ import annotations

from typing import TYPE_CHECKING

from ..secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def marked(
    headers: Sequence[tuple[bytes, str | Secret]],
) -> tuple[Mapping[bytes, Secret], list[tuple[bytes, bytes]]]:
    """Put a mark, which no other part of a head and no UTF-8 can hold, in each secret's place.

    Returns:
        The secrets by their marks, and the headers.
    """
    marks: dict[bytes, Secret] = {}
    sent: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if isinstance(value, Secret):
            mark = b"\xff%d\xff" % len(marks)
            marks[mark] = value
            sent.append((name, mark))
        else:
            sent.append((name, value.encode("ascii")))
    return marks, sent


def in_clear(buffer: bytes, secrets: Mapping[bytes, Secret]) -> bytes:
    """Put secrets in the place of their marks: to be called as the argument of a write."""
    for mark, secret in secrets.items():
        buffer = _InClear(buffer.replace(mark, secret.reveal().encode("ascii")))
    return buffer


class _InClear(bytes):
    """What is sent, with its secrets: no traceback that shows variables shows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} bytes with secrets>"

    __str__ = __repr__
