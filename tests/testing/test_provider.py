from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import attrs
import h11
import pytest
import trio
from trio.testing import (
    MemoryReceiveStream,
    MemorySendStream,
    memory_stream_pair,
    memory_stream_pump,
)

from polygateway.testing import (
    Request,
    Script,
    ScriptedProvider,
    answer,
    chunk,
    comment,
    cut,
    done,
    finish,
    hang,
    headers,
    keepalives,
    page,
    reset,
    role,
    run_virtual,
    serve_memory,
    silence,
    status,
    together,
)

Memory = trio.StapledStream[MemorySendStream, MemoryReceiveStream]


@attrs.define
class Reply:
    status: int
    headers: Mapping[str, str]
    head_at: float
    pieces: list[tuple[float, bytes]]
    """Each chunk of the body, and when it had been read."""

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.pieces)


class Client:
    """A bare HTTP/1.1 client."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.h11 = h11.Connection(h11.CLIENT)

    async def post(self, body: bytes = b"{}", extra: Mapping[str, str] | None = None) -> None:
        fields = {"Host": "eu.invalid", "Content-Length": str(len(body)), **(extra or {})}
        head = h11.Request(method="POST", target="/v1/x", headers=list(fields.items()))
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            await self.stream.send_all(self.h11.send(event) or b"")

    async def event(self) -> object:
        while (event := self.h11.next_event()) is h11.NEED_DATA:
            self.h11.receive_data(bytes(await self.stream.receive_some()))
        return event

    async def reply(self) -> Reply:
        head = await self.event()
        assert isinstance(head, h11.Response)
        fields = {name.decode(): value.decode() for name, value in head.headers}
        reply = Reply(head.status_code, fields, trio.current_time(), [])
        while isinstance(event := await self.event(), h11.Data):
            reply.pieces.append((trio.current_time(), bytes(event.data)))
        assert isinstance(event, h11.EndOfMessage)
        return reply

    async def ask(self, body: bytes = b"{}") -> Reply:
        if self.h11.our_state is h11.DONE:
            self.h11.start_next_cycle()
        await self.post(body)
        return await self.reply()


@asynccontextmanager
async def connected(provider: ScriptedProvider) -> AsyncGenerator[Client]:
    async with serve_memory({"eu": provider}) as network:
        yield Client(await network.connect("eu.invalid", 80, None))


def asked_once(*scripts: Script) -> tuple[Reply, ScriptedProvider]:
    """Ask a provider once in virtual time."""
    provider = ScriptedProvider(*scripts)

    async def main() -> Reply:
        async with connected(provider) as client:
            return await client.ask()

    return run_virtual(main), provider


# ---------------------------------------------------------------- what is sent, and when


def test_every_step_is_written_at_its_time() -> None:
    reply, provider = asked_once([chunk("a"), silence(1.5), chunk("b"), silence(55), chunk("c")])
    pieces = [(0, chunk("a")), (1.5, chunk("b")), (56.5, chunk("c"))]
    assert reply.pieces == [(at, step.data) for at, step in pieces]
    assert provider.log[0].sent == pieces


def test_an_answer_takes_as_long_as_its_pieces() -> None:
    reply, provider = asked_once(answer("The ", "tide ", "turns.", every_s=0.25))
    assert [at for at, _ in reply.pieces] == [0, 0.25, 0.5, 0.75, 0.75, 0.75, 0.75]
    assert provider.log[0].ended == "done"
    assert provider.log[0].ended_at == 0.75


def test_keepalives_come_all_through_the_silence() -> None:
    reply, _ = asked_once([*keepalives(55, every_s=0.25), chunk("late")])
    assert [at for at, _ in reply.pieces] == [0.25 * i for i in range(1, 221)]
    assert [data for _, data in reply.pieces].count(comment().data) == 219


def test_the_head_waits_for_the_first_piece_of_the_body() -> None:
    reply, _ = asked_once([silence(3), chunk("a")])
    assert (reply.head_at, reply.pieces[0][0]) == (3, 3)
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["transfer-encoding"] == "chunked"


def test_headers_sends_the_head_at_once() -> None:
    reply, _ = asked_once([headers({"x-request-id": "r1"}), silence(3), chunk("a")])
    assert (reply.head_at, reply.pieces[0][0]) == (0, 3)
    assert reply.headers["x-request-id"] == "r1"


def test_a_script_without_steps_is_an_empty_stream() -> None:
    reply, provider = asked_once([])
    assert (reply.status, reply.body) == (200, b"")
    assert provider.log[0].ended == "done"


def test_each_step_is_one_write_the_first_with_the_head() -> None:
    writes: list[bytes] = []

    async def main() -> None:
        client_end, server_end = memory_stream_pair()
        record_writes(server_end, client_end, writes)
        provider = ScriptedProvider([role(), together(chunk("a"), chunk("b")), done()])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(provider.serve, server_end)
            await Client(client_end).ask()
            nursery.cancel_scope.cancel()

    run_virtual(main)
    first, second, third, end = writes
    assert first.startswith(b"HTTP/1.1 200 ")
    assert role().data in first
    assert chunk("a").data + chunk("b").data in second
    assert done().data in third
    assert end == b"0\r\n\r\n"


def test_the_log_has_the_times_at_which_writes_began() -> None:
    provider = ScriptedProvider([chunk("a"), silence(1), chunk("b")])

    async def main() -> None:
        client_end, server_end = memory_stream_pair()

        async def slowly() -> None:
            await trio.sleep(3)
            memory_stream_pump(server_end.send_stream, client_end.receive_stream)

        server_end.send_stream.send_all_hook = slowly
        async with trio.open_nursery() as nursery:
            nursery.start_soon(provider.serve, server_end)
            assert [at for at, _ in (await Client(client_end).ask()).pieces] == [3, 7]
            nursery.cancel_scope.cancel()

    run_virtual(main)
    assert provider.log[0].sent == [(0, chunk("a")), (4, chunk("b"))]


def record_writes(sender: Memory, receiver: Memory, writes: list[bytes]) -> None:
    """Note the bytes of each send of *sender* on their way to *receiver*."""

    async def pump() -> None:
        writes.append(bytes(sender.send_stream.get_data_nowait()))
        receiver.receive_stream.put_data(writes[-1])

    sender.send_stream.send_all_hook = pump


def test_a_status_comes_with_its_headers_and_body_after_its_time() -> None:
    reply, _ = asked_once([silence(2), *status(429, {"error": "slow"}, {"Retry-After": "7"})])
    assert (reply.status, reply.head_at, reply.headers["retry-after"]) == (429, 2, "7")
    assert json.loads(reply.body) == {"error": "slow"}
    assert "transfer-encoding" not in reply.headers


def test_a_page_comes_as_html_with_status_200() -> None:
    reply, _ = asked_once(page("<html>Log in</html>"))
    assert (reply.status, reply.body) == (200, b"<html>Log in</html>")
    assert reply.headers["content-type"].startswith("text/html")


# ---------------------------------------------------------------- which script a request gets


def test_each_request_takes_the_next_script_and_the_last_one_repeats() -> None:
    provider = ScriptedProvider(status(500), answer("a"))

    async def main() -> list[int]:
        async with connected(provider) as client:
            return [(await client.ask()).status for _ in range(3)]

    assert run_virtual(main) == [500, 200, 200]
    assert [exchange.index for exchange in provider.log] == [0, 1, 2]
    assert [exchange.connection for exchange in provider.log] == [0, 0, 0]


def test_a_callable_chooses_the_script_by_the_request() -> None:
    def by_model(request: Request) -> Script:
        return answer("yes") if request.body["model"] == "lyra" else status(404)

    provider = ScriptedProvider(by_model)

    async def main() -> list[int]:
        async with connected(provider) as client:
            bodies = [b'{"model": "lyra"}', b'{"model": "vega"}']
            return [(await client.ask(body)).status for body in bodies]

    assert run_virtual(main) == [200, 404]


def test_what_a_callable_raises_comes_out_and_not_what_the_client_makes_of_it() -> None:
    def refuse(request: Request) -> Script:
        raise LookupError(request.path)

    async def main() -> None:
        async with connected(ScriptedProvider(refuse)) as client:
            await client.ask()

    for _ in range(50):  # the order of the two tasks is trio's to choose
        with pytest.raises(LookupError, match="/v1/x"):
            run_virtual(main)


def test_the_log_keeps_the_request() -> None:
    provider = ScriptedProvider(answer("a"))

    async def main() -> None:
        async with connected(provider) as client:
            await trio.sleep(4)
            await client.post(b'{"n": [1]}', {"X-Team": "search"})
            await client.reply()

    run_virtual(main)
    (exchange,) = provider.log
    assert exchange.started_at == 4
    assert (exchange.request.method, exchange.request.path) == ("POST", "/v1/x")
    assert exchange.request.headers["x-team"] == "search"
    assert exchange.request.content == b'{"n": [1]}'
    assert exchange.request.body == {"n": [1]}


def test_a_request_may_come_in_pieces() -> None:
    provider = ScriptedProvider(answer("a"))

    async def main() -> None:
        async with connected(provider) as client:
            await client.stream.send_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Le")
            for piece in (b"ngth: 8\r\n\r\n", b'{"n"', b": 1}"):
                await trio.sleep(1)
                await client.stream.send_all(piece)
            await trio.sleep(1)

    run_virtual(main)
    assert provider.log[0].started_at == 3
    assert provider.log[0].request.body == {"n": 1}


@pytest.mark.parametrize("content", [b"[]", b"", b"{", b"\xff"])
def test_a_body_that_is_no_json_object_is_an_error_when_it_is_asked_for(content: bytes) -> None:
    request = Request(method="POST", path="/", headers={}, content=content)
    with pytest.raises(ValueError, match=r"."):
        _ = request.body


# ---------------------------------------------------------------- the client leaves


@pytest.mark.parametrize(
    "script",
    [
        [chunk("a"), hang()],
        [chunk("a"), silence(60), chunk("b")],
        [chunk("a"), *keepalives(60, every_s=5), chunk("b")],
    ],
)
def test_the_clients_close_is_seen_at_once_and_nothing_is_written_after_it(script: Script) -> None:
    provider = ScriptedProvider(script)

    async def main() -> None:
        async with connected(provider) as client:
            await client.post()
            await trio.sleep(7.25)
            await client.stream.aclose()
            await trio.sleep(1000)

    run_virtual(main)
    (exchange,) = provider.log
    assert (exchange.ended, exchange.ended_at) == ("client closed", 7.25)
    assert all(at < 7.25 for at, _ in exchange.sent)
    assert exchange.sent[0] == (0, chunk("a"))


def test_the_clients_close_is_seen_before_the_head_was_sent() -> None:
    provider = ScriptedProvider([silence(60), *answer("a")])

    async def main() -> None:
        async with connected(provider) as client:
            await client.post()
            await trio.sleep(1)
            await client.stream.aclose()
            await trio.sleep(1000)

    run_virtual(main)
    assert (provider.log[0].ended, provider.log[0].ended_at) == ("client closed", 1)
    assert provider.log[0].sent == []


def test_a_client_that_leaves_at_the_very_moment_of_a_write_is_no_error() -> None:
    provider = ScriptedProvider([silence(1), chunk("a"), silence(1), chunk("b")])

    async def main() -> None:
        async with connected(provider) as client:
            await client.post()
            await trio.sleep(1)
            await client.stream.aclose()
            await trio.sleep(1000)

    for _ in range(50):  # the order of the two tasks is trio's to choose
        run_virtual(main)
    assert {exchange.ended for exchange in provider.log} == {"client closed"}
    assert {exchange.ended_at for exchange in provider.log} == {1}


def test_a_client_that_stops_reading_is_seen_at_the_next_write() -> None:
    provider = ScriptedProvider([chunk("a"), silence(5), chunk("b"), silence(5), chunk("c")])

    async def main() -> None:
        async with serve_memory({"eu": provider}) as network:
            stream = await network.connect("eu.invalid", 80, None)
            await Client(stream).post()
            await trio.sleep(1)
            stream.receive_stream.close()
            await trio.sleep(1000)

    run_virtual(main)
    assert (provider.log[0].ended, provider.log[0].ended_at) == ("client closed", 5)
    assert provider.log[0].sent == [(0, chunk("a"))]


def test_a_client_that_leaves_without_a_request_is_no_exchange() -> None:
    provider = ScriptedProvider(answer("a"))

    async def main() -> None:
        async with connected(provider) as client:
            await trio.sleep(1)
            await client.stream.aclose()
            await trio.sleep(1)

    run_virtual(main)
    assert provider.log == []


def test_a_client_that_leaves_in_the_middle_of_its_request_is_no_exchange() -> None:
    provider = ScriptedProvider(answer("a"))

    async def main() -> None:
        async with connected(provider) as client:
            await client.stream.send_all(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
            )
            await client.stream.aclose()
            await trio.sleep(1)

    run_virtual(main)
    assert provider.log == []


def test_a_client_that_speaks_no_http_is_an_error() -> None:
    async def main() -> None:
        async with connected(ScriptedProvider(answer("a"))) as client:
            await client.stream.send_all(b"HELO\r\n\r\n")
            await trio.sleep(1)

    with pytest.raises(h11.RemoteProtocolError):
        run_virtual(main)


def test_what_still_runs_when_the_server_stops_is_logged_as_stopped() -> None:
    provider = ScriptedProvider([chunk("a"), hang()])

    async def main() -> None:
        async with connected(provider) as client:
            await client.post()
            await trio.sleep(3)
        assert await client.stream.receive_some() != b""
        assert await client.stream.receive_some() == b""

    run_virtual(main)
    assert (provider.log[0].ended, provider.log[0].ended_at) == ("stopped", 3)


# ---------------------------------------------------------------- the server ends the connection


def test_a_cut_is_an_end_of_stream_in_the_middle_of_the_body() -> None:
    provider = ScriptedProvider([chunk("a"), silence(2), cut()])

    async def main() -> None:
        async with connected(provider) as client:
            await client.post()
            with pytest.raises(h11.RemoteProtocolError, match="without sending complete message"):
                await client.reply()
            assert trio.current_time() == 2
            assert await client.stream.receive_some() == b""

    run_virtual(main)
    assert (provider.log[0].ended, provider.log[0].ended_at) == ("cut", 2)


def test_a_cut_before_anything_is_sent_closes_the_connection_without_a_reply() -> None:
    async def main() -> None:
        async with connected(ScriptedProvider([cut()])) as client:
            await client.post()
            assert await client.stream.receive_some() == b""

    run_virtual(main)


def test_a_reset_breaks_the_connection_after_what_was_sent() -> None:
    provider = ScriptedProvider([chunk("a"), silence(2), reset()])

    async def main() -> None:
        async with connected(provider) as client:
            await client.post()
            assert isinstance(await client.event(), h11.Response)
            assert isinstance(await client.event(), h11.Data)
            with pytest.raises(trio.BrokenResourceError):
                await client.event()
            assert trio.current_time() == 2
            with pytest.raises(trio.BrokenResourceError):
                await client.stream.send_all(b"x")

    run_virtual(main)
    assert (provider.log[0].ended, provider.log[0].ended_at) == ("reset", 2)


def test_what_was_sent_before_a_reset_can_be_read_after_it() -> None:
    async def main() -> None:
        async with connected(ScriptedProvider([chunk("a"), chunk("b"), reset()])) as client:
            await client.post()
            await trio.sleep(60)
            received = await client.stream.receive_some()
            assert chunk("a").data in received
            assert chunk("b").data in received
            with pytest.raises(trio.BrokenResourceError):
                await client.stream.receive_some()

    run_virtual(main)


def test_a_reset_needs_a_stream_that_can_be_reset() -> None:
    async def main() -> None:
        client_end, server_end = memory_stream_pair()
        await Client(client_end).post()
        await ScriptedProvider([reset()]).serve(server_end)

    with pytest.raises(TypeError, match="cannot reset a StapledStream"):
        run_virtual(main)


@pytest.mark.parametrize("keep_alive_s", [0, 5])
def test_an_idle_connection_is_closed_after_its_time(keep_alive_s: float) -> None:
    provider = ScriptedProvider([silence(1), *answer("a")], keep_alive_s=keep_alive_s)

    async def main() -> None:
        async with connected(provider) as client:
            await trio.sleep(60)  # not idle: nothing was asked yet
            await client.ask()
            assert await client.stream.receive_some() == b""
            assert trio.current_time() == 61 + keep_alive_s

    run_virtual(main)
    assert provider.log[0].ended == "done"


def test_a_reused_connection_can_be_dropped_when_its_second_request_comes_in() -> None:
    provider = ScriptedProvider(answer("a"), status(500), drops_reused=True)

    async def main() -> None:
        async with serve_memory({"eu": provider}) as network:
            client = Client(await network.connect("eu.invalid", 80, None))
            await client.ask()
            client.h11.start_next_cycle()
            await client.post()
            assert await client.stream.receive_some() == b""
            fresh = Client(await network.connect("eu.invalid", 80, None))
            assert (await fresh.ask()).status == 500

    run_virtual(main)
    assert [exchange.ended for exchange in provider.log] == ["done", "dropped", "done"]
    assert [exchange.connection for exchange in provider.log] == [0, 0, 1]
    assert provider.log[1].sent == []


def test_a_client_that_asks_for_the_connections_end_gets_it() -> None:
    provider = ScriptedProvider(answer("a"))

    async def main() -> None:
        async with connected(provider) as client:
            await client.post(b"{}", {"Connection": "close"})
            reply = await client.reply()
            assert reply.headers["connection"] == "close"
            assert await client.stream.receive_some() == b""

    run_virtual(main)
    assert provider.log[0].ended == "done"


def test_a_request_that_comes_too_early_waits_for_its_turn() -> None:
    provider = ScriptedProvider([silence(3), *status(500)], status(501))
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"

    async def main() -> None:
        async with connected(provider) as client:
            await client.stream.send_all(request)
            await trio.sleep(1)
            await client.stream.send_all(request)
            await trio.sleep(10)

    run_virtual(main)
    assert [exchange.ended for exchange in provider.log] == ["done", "done"]
    assert [exchange.started_at for exchange in provider.log] == [0, 3]


# ---------------------------------------------------------------- what cannot be played


def test_a_provider_without_scripts_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one script"):
        ScriptedProvider()


def test_a_script_that_cannot_be_played_is_refused_when_the_provider_is_made() -> None:
    with pytest.raises(ValueError, match="must be the last step"):
        ScriptedProvider(answer("a"), [cut(), finish()])


def test_what_a_callable_returns_is_checked_too() -> None:
    async def main() -> None:
        async with connected(ScriptedProvider(lambda _: [cut(), finish()])) as client:
            await client.ask()

    with pytest.raises(ValueError, match="must be the last step"):
        run_virtual(main)
