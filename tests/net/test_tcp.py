from __future__ import annotations

import socket

import pytest
import trio
from trio.testing import check_two_way_stream

from polygateway.net.tcp import TCPStream


def pair() -> tuple[TCPStream, TCPStream]:
    here, there = socket.socketpair()
    return TCPStream(here), TCPStream(there)


async def made() -> tuple[TCPStream, TCPStream]:
    return pair()


async def clogged() -> tuple[TCPStream, TCPStream]:
    """Give two ends whose buffers are full, as trio's check wants them."""
    ends = pair()
    for end in ends:
        while end.send_nowait(bytes(1 << 20)):
            pass
    return ends


async def test_it_is_a_stream_as_trio_wants_them() -> None:
    with trio.fail_after(60):
        await check_two_way_stream(made, clogged)


async def test_without_waiting_there_is_what_has_come_and_no_more() -> None:
    here, there = pair()
    async with here, there:
        assert here.receive_nowait(100) is None
        assert there.send_nowait(b"tide") == 4
        assert here.receive_nowait(2) == b"ti"
        assert here.receive_nowait(100) == b"de"
        await there.aclose()
        assert here.receive_nowait(100) == b""


async def test_what_there_is_no_room_for_is_not_sent() -> None:
    here, there = await clogged()
    async with here, there:
        assert here.send_nowait(b"x") == 0


async def test_what_was_closed_on_our_side_can_neither_be_read_nor_written() -> None:
    here, there = pair()
    here.close()
    here.close()
    with pytest.raises(trio.ClosedResourceError):
        here.receive_nowait(1)
    with pytest.raises(trio.ClosedResourceError):
        here.send_nowait(b"x")
    assert not here.is_readable()
    there.close()


async def test_what_broke_says_why() -> None:
    here, there = pair()
    there.close()
    with pytest.raises(trio.BrokenResourceError, match="socket connection broken"):
        here.send_nowait(b"x")
    here.close()


async def test_a_connection_taken_from_a_stream_of_trios_is_the_same_one() -> None:
    here, there = trio.socket.socketpair()
    trios = trio.SocketStream(here)
    ours = TCPStream.taken_from(trios)
    await there.send(b"x")
    assert await ours.receive_some() == b"x"
    assert trios.socket.fileno() == -1
    ours.close()
    there.close()
