"""The upstream: one thread, epoll and plain sockets, everything that it writes made beforehand.

``python -m benchmarks.speed.provider [--core N] [--scripts MODULE]`` serves on the loopback
interface until it is killed, and begins by printing its port. It speaks the wires of ``wires.py``
over HTTP/1.1, keeps connections alive, and does what the model's name says: see ``scripts.py``.
Times are counted from the request, so that what one write was late the next is not.

A module of scripts may be added, with a function ``script_of(model, call, attempt, prefix)`` that
gives pairs of a pause in seconds and the events that are then written, or raises ``KeyError`` for a
model that it does not know. *call* is the first message of the user, *attempt* how many requests
of that call came before, *prefix* the answer that was begun, if the last message is one.

``GET /status`` tells the requests for each model, CPU time, and how late timed writes were.

Standard library only, and nothing of polygateway: it must be light.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import select
import socket
import time
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypedDict, cast

from .scripts import END, NEVER, Step, answers
from .system import allow_sockets, pin
from .wires import CHARACTERS, framed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_READ = 65536
_HEAD_END = b"\r\n\r\n"
_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"date: Sat, 29 Nov 2025 00:00:00 GMT\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\n"
    b"x-request-id: req_0123456789abcdef\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class ScriptOf(Protocol):
    """Gives the script of one request."""

    def __call__(
        self, model: str, call: str, attempt: int, prefix: str
    ) -> Sequence[tuple[float, bytes]]:
        """Give pauses in seconds, and the events after each."""
        ...


class Status(TypedDict):
    """What the provider says of itself."""

    requests: dict[str, int]
    """By model."""

    cpu_s: float
    writes: int
    """Of those that were due at a time."""

    late_ms: float
    """How late they were, all together."""


class Connection:
    """A client's connection: at most one request of it is being answered."""

    __slots__ = ("due", "is_open", "position", "received", "socket", "steps", "unsent")

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.is_open = True
        self.received = b""
        self.unsent = b""
        self.steps: Sequence[Step] = ()
        self.position = 0
        self.due = 0


class Provider:
    """Serves until the process ends."""

    def __init__(self, script_of: ScriptOf | None = None) -> None:
        self._script_of = script_of
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.settimeout(0)
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._connections: dict[int, Connection] = {}
        self._timers: list[tuple[int, int, Connection]] = []
        self._serial = 0
        self._requests = Counter[str]()
        self._attempts = Counter[tuple[str, str]]()
        self._writes = self._late_ns = 0

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def serve(self) -> None:
        """Serve for ever."""
        while True:
            # epoll's own timeout is of whole milliseconds.
            select.select([self._epoll], [], [], self._patience())
            for number, events in self._epoll.poll(0):
                if number == self._listener.fileno():
                    self._accept()
                else:
                    self._attend(self._connections[number], events)
            self._play_due()

    def _patience(self) -> float | None:
        if not self._timers:
            return None
        return max(0, self._timers[0][0] - time.monotonic_ns()) / 1e9

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                return
            client.settimeout(0)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[client.fileno()] = Connection(client)
            self._epoll.register(client, select.EPOLLIN)

    def _attend(self, connection: Connection, events: int) -> None:
        try:
            if events & select.EPOLLOUT:
                self._resume(connection)
            if events & ~select.EPOLLOUT:
                self._read(connection)
        except OSError:  # the client left
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        connection.is_open = False
        del self._connections[connection.socket.fileno()]
        connection.socket.close()

    # Requests

    def _read(self, connection: Connection) -> None:
        data = connection.socket.recv(_READ)
        if not data:
            raise ConnectionResetError
        connection.received += data
        head, end, body = connection.received.partition(_HEAD_END)
        if not end or len(body) < (length := _content_length(head)):
            return
        connection.received = body[length:]
        connection.steps = self._answer(head, body[:length])
        connection.position = 0
        connection.due = time.monotonic_ns() + connection.steps[0].pause_ns
        self._play(connection)

    def _answer(self, head: bytes, body: bytes) -> Sequence[Step]:
        """Give what is answered, from its status line on."""
        method, path, _ = head.decode().split(" ", 2)
        if method == "GET":
            return _document(200, self._status())
        try:
            steps = self._script(path, json.loads(body))
        except ValueError as error:
            return _document(400, {"error": {"message": str(error)}})
        return (steps[0]._replace(data=_HEAD + steps[0].data), *steps[1:])

    def _status(self) -> Status:
        return {
            "requests": dict(self._requests),
            "cpu_s": time.process_time(),
            "writes": self._writes,
            "late_ms": self._late_ns / 1e6,
        }

    def _script(self, path: str, asked: Mapping[str, object]) -> Sequence[Step]:
        model, (call, prefix) = str(asked["model"]), _said(asked["messages"])
        attempt = self._attempts[model, call]
        self._attempts[model, call] += 1
        self._requests[model] += 1
        if self._script_of is not None:
            try:
                return [*map(_step, self._script_of(model, call, attempt, prefix)), END]
            except KeyError:
                pass
        built_in = answers(model, path)
        return built_in[min(attempt, len(built_in) - 1)]

    # Answers

    def _play_due(self) -> None:
        now = time.monotonic_ns()
        while self._timers and self._timers[0][0] <= now:
            _, _, connection = heapq.heappop(self._timers)
            if connection.is_open:
                self._writes += 1
                self._late_ns += time.monotonic_ns() - connection.due
                try:
                    self._play(connection)
                except OSError:  # the client left
                    self._close(connection)

    def _play(self, connection: Connection) -> None:
        """Write what is due, and see to it that what comes next will be, or what is unsent."""
        steps = connection.steps
        while connection.position < len(steps):
            if connection.due > time.monotonic_ns():
                self._wait(connection)
                return
            _, data, rest = steps[connection.position]
            connection.position += 1
            if connection.position < len(steps):
                connection.due += steps[connection.position].pause_ns
            if rest is not None:
                data = b"%s%0*d%s" % (data, CHARACTERS, time.monotonic_ns(), rest)
            if not self._send(connection, data):
                return

    def _wait(self, connection: Connection) -> None:
        if connection.due < NEVER:
            self._serial += 1  # before connections, which cannot be compared
            heapq.heappush(self._timers, (connection.due, self._serial, connection))

    def _send(self, connection: Connection, data: bytes) -> bool:
        """Send *data*, and tell whether there was room for it."""
        try:
            sent = connection.socket.send(data)
        except BlockingIOError:
            sent = 0
        connection.unsent = data[sent:]
        if connection.unsent:
            self._epoll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)
        return not connection.unsent

    def _resume(self, connection: Connection) -> None:
        if self._send(connection, connection.unsent):
            self._epoll.modify(connection.socket, select.EPOLLIN)
            self._play(connection)


def _content_length(head: bytes) -> int:
    _, _, value = head.lower().partition(b"content-length:")
    return int(value.partition(b"\r\n")[0] or 0)


def _said(messages: object) -> tuple[str, str]:
    """Give the first message of the user, and the answer that was begun, if the last is one."""
    said = cast("Sequence[Mapping[str, object]]", messages)
    call = next((str(each["content"]) for each in said if each["role"] == "user"), "")
    return call, str(said[-1]["content"]) if said[-1]["role"] == "assistant" else ""


def _step(item: tuple[float, bytes]) -> Step:
    pause_s, events = item
    pause_ns = NEVER if math.isinf(pause_s) else round(pause_s * 1e9)
    return Step(pause_ns, framed(events) if events else b"")


def _document(status: int, value: object) -> Sequence[Step]:
    body = json.dumps(value).encode()
    head = "HTTP/1.1 {} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    return [Step(0, head.format(status, len(body)).encode() + body)]


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description="A provider for benchmarks.")
    parser.add_argument("--core", type=int, help="the processor core to run on")
    parser.add_argument("--scripts", help="a module with a function script_of")
    asked = parser.parse_args()
    pin(asked.core)
    allow_sockets()
    scripts = asked.scripts and import_module(asked.scripts)
    provider = Provider(cast("ScriptOf", scripts.script_of) if scripts else None)
    print(provider.port, flush=True)
    provider.serve()


if __name__ == "__main__":
    main()
