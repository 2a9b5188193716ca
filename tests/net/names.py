"""Host names that mean what the test says, in one run of trio."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Literal, TypeAlias

import trio

if TYPE_CHECKING:
    from collections.abc import Sequence

Address: TypeAlias = tuple[str, int]

_Answer: TypeAlias = (
    tuple[Literal[socket.AddressFamily.AF_INET], socket.SocketKind, int, str, tuple[str, int]]
    | tuple[
        Literal[socket.AddressFamily.AF_INET6],
        socket.SocketKind,
        int,
        str,
        tuple[str, int, int, int] | tuple[int, bytes],
    ]
)


class Names(trio.abc.HostnameResolver):
    """Knows the addresses of some names, and which names it was asked for."""

    def __init__(self, addresses: dict[str, Sequence[Address]]) -> None:
        self._addresses = addresses
        self.asked: list[str] = []

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[_Answer]:
        await trio.lowlevel.checkpoint()
        name = (host or b"").decode("ascii")
        self.asked.append(name)
        if name not in self._addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kind = socket.SOCK_STREAM
        return [(socket.AF_INET, kind, 0, "", address) for address in self._addresses[name]]

    async def getnameinfo(
        self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int
    ) -> tuple[str, str]:
        raise AssertionError("no address is looked up")


def meaning(**addresses: Sequence[Address]) -> Names:
    """Have names mean *addresses* and no other name anything; ``_`` stands for a point."""
    names = Names({name.replace("_", "."): each for name, each in addresses.items()})
    trio.socket.set_custom_hostname_resolver(names)
    return names
