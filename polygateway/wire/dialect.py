"""What a dialect is: the two directions of one provider's wire, without I/O.

A dialect turns a request into a path, headers and a body, and what comes back into chunks. One
:class:`Decoder` serves one reply. It is fed whatever bytes a read brought, in any split, and
collects the answer as it goes; whoever feeds it asks afterwards how far the wire has come.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from ..errors import AttemptError
from ..secret import Secret

if TYPE_CHECKING:
    from ..messages import ChatRequest, Chunk
    from ..policies import Limits, Target
    from ..trace import ReplyForm
    from .answer import Answer


class Phase(enum.Enum):
    """How far a reply has come."""

    OPEN = "open"
    """More is to come; a transport that ends here has cut the answer."""

    FINISHING = "finishing"
    """A finish reason came: the answer is whole, unless content follows. Usage may follow."""

    ENDED = "ended"
    """The wire's own end marker came. Nothing after it counts."""

    FAILED = "failed"
    """The provider reported an error, or sent what is not its wire: see ``Decoder.fault``."""

    @property
    def is_final(self) -> bool:
        """Whether nothing that is yet to come can change it."""
        return self is Phase.ENDED or self is Phase.FAILED


@attrs.frozen(kw_only=True)
class Fault:
    """What went wrong with a reply, in the words of the error tree, not yet tied to an attempt."""

    error: type[AttemptError]
    message: str
    """What the provider said, or what is wrong with what it sent; cut to a bound."""

    code: str | None = None
    """The provider's own code, or its type of error where there is no code; ``None`` if it gave
    neither.
    """

    retry_after_s: float | None = None
    """Seconds until it will take us again; ``None`` if it did not say."""

    do_not_retry: bool = False
    """The provider asks not to be tried again, whatever the class says."""


@attrs.frozen(kw_only=True)
class WireRequest:
    """A request in a provider's words, ready to be posted."""

    path: str
    """To be appended to the path of the target's ``base_url``, query included."""

    headers: Mapping[str, str | Secret] = attrs.field(repr=False)
    """Names in lower case. Content type, whatever the dialect authenticates with, and the user's
    own over them.
    """

    body: bytes = attrs.field(repr=False)

    left_out: Sequence[str] = ()
    """The dialects whose provider alone understands parts of the conversation that are left out
    of this request: see :data:`polygateway.wire.opaque.KEY`.
    """


class Decoder(Protocol):
    """Decodes one reply with status 200."""

    @property
    def answer(self) -> Answer:
        """What has been received up to now."""
        ...

    @property
    def phase(self) -> Phase:
        """How far the reply has come."""
        ...

    @property
    def fault(self) -> Fault | None:
        """Why it failed; ``None`` unless ``phase`` is ``FAILED``."""
        ...

    @property
    def content_events(self) -> int:
        """Events with content seen up to now: what ``chunk_count`` counts.

        One event may give several chunks (reasoning and text), and one that belongs to another
        choice than the first gives none, although content came.
        """
        ...

    @property
    def keepalives(self) -> int:
        """Events and comments without content seen up to now."""
        ...

    @property
    def stray(self) -> str:
        """The beginning of the last line that belongs to no event; empty if there was none.

        A proxy that loses its provider may write there what happened.
        """
        ...

    @property
    def form(self) -> ReplyForm:
        """What sort of reply this is, as far as it can be told up to now."""
        ...

    def feed(self, data: bytes) -> list[Chunk]:
        """Take the bytes of one read and give the content chunks that they completed.

        Chunks that precede an error in the same bytes are given; the error shows in ``phase``.
        After ``ENDED`` or ``FAILED`` bytes are ignored. Never raises for what a provider sends.
        """
        ...

    def close(self) -> list[Chunk]:
        """Say that the transport has ended, and give what its tail completed.

        Afterwards ``phase`` is final: ``ENDED`` if the answer is whole, ``FAILED`` with a
        ``ProtocolViolation`` if nothing usable came, else ``OPEN`` for an answer that was cut.
        """
        ...


class Dialect(Protocol):
    """One provider's wire."""

    @property
    def own_fields(self) -> Collection[str]:
        """Fields of the body that ``extra`` may not set."""
        ...

    def check(self, request: ChatRequest) -> None:
        """Make sure that *request* can be said in this dialect.

        Raises:
            ConfigurationError: it cannot; the text names what.
        """
        ...

    def encode(self, request: ChatRequest, target: Target, key: Secret | None) -> WireRequest:
        """Put *request* into the provider's words, for *target*.

        What *target* adds has been checked; see :func:`polygateway.wire.posting.check_extra`.

        Raises:
            ConfigurationError: *request* cannot be said in this dialect; the text names what.
        """
        ...

    def decoder(
        self, *, attempt: int, target: Target, content_type: str, limits: Limits
    ) -> Decoder:
        """Make a decoder for the reply of *target* to the attempt with that index."""
        ...
