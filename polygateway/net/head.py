"""The heads of requests, each checked and written by h11 once for all that follow."""

# The requests to a target differ in their bodies, and so in one header: the length, which stands
# last. All others are checked and written once, for that is most of what h11 takes for a request.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import h11

from ..secret import Secret
from .marks import marked

if TYPE_CHECKING:
    from typing import Self


@attrs.frozen(eq=False)
class Head:
    """The head of a request but for the length of its body, which is as h11 would write it."""

    request: h11.Request = attrs.field(repr=False)
    """What h11 is told of such a request. Of its body it says that there is none."""

    secrets: Mapping[bytes, Secret] = attrs.field(repr=False)
    """By the marks that stand for them."""

    _before_length: bytes = attrs.field(repr=False)

    @classmethod
    def of(cls, path: bytes, headers: Sequence[tuple[bytes, str | Secret]]) -> Self:
        """Make the head of a POST to *path*.

        Raises:
            h11.LocalProtocolError: HTTP/1.1 cannot say it.
        """
        marks, sent = marked(headers)
        request = h11.Request(
            method="POST", target=path, headers=[*sent, (b"content-length", b"0")]
        )
        written = h11.Connection(h11.CLIENT).send(request) or b""
        return cls(request, marks, written.removesuffix(b"0\r\n\r\n"))

    @property
    def path(self) -> bytes:
        """Where the request goes."""
        return self.request.target

    def before(self, body: bytes) -> bytes:
        """Give the head of the request that has *body*."""
        return b"%b%d\r\n\r\n" % (self._before_length, len(body))
