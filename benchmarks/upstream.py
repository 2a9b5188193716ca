"""A provider in a process of its own: it writes by the clock, and logs when it truly wrote.

By this log can be judged what a client measures. A thread for each connection, plain sockets, no
event loop, and a schedule whose times are all counted from the request: what one write was late,
the next is not. It speaks OpenAI's chat wire on the loopback interface, and the model's name
chooses the schedule. ``python benchmarks/upstream.py LOG [PORT]`` serves until it is killed, and
begins by printing its base URL and the names of its schedules as JSON.

A line of the log is one write, as JSON, and is in the file before the next write: ``request`` (the
``x-request-id`` of the reply, the client's own if it sent one), ``model``, ``at_ns``
(``time.monotonic_ns()`` after the write, or before the end of the connection), ``content`` and
``characters`` (content chunks and characters of text in it), ``ended`` (``done`` or ``cut`` if it
is the last).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import select
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from polygateway.testing import (
    Closing,
    Head,
    Send,
    Silence,
    chunk,
    comment,
    cut,
    done,
    finish,
    hang,
    keepalives,
    reasoning,
    role,
    silence,
    together,
    tool_call,
    usage,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from io import FileIO
    from socketserver import BaseServer

    from polygateway.testing import Step

WORD = chunk("tide ")
FIVE_WORDS = chunk("The tide turns once more. ")
BEGIN = (role(), silence(0.2))


def steady(count: int, every_s: float, piece: Send = WORD) -> Sequence[Step]:
    """Write *piece* so often, each after so long."""
    return (silence(every_s), piece) * count


def end(tokens: int) -> Sequence[Step]:
    """End properly, with so many output tokens."""
    return (finish(), usage(7, tokens), done())


def counting(count: int, every_s: float) -> Sequence[Step]:
    """Write words steadily, each with the count of tokens up to it."""
    pieces = [together(WORD, usage(7, number + 1)) for number in range(count)]
    return [step for piece in pieces for step in (silence(every_s), piece)]


# Stalls are such for a threshold of 500 ms.
SCHEDULES: Mapping[str, Sequence[Step]] = {
    "no-chunk": (*BEGIN, *end(0)),
    "one-chunk": (*BEGIN, WORD, *end(1)),
    "two-in-one-write": (*BEGIN, together(WORD, WORD), *end(2)),
    "five-tokens-a-chunk": (*BEGIN, *steady(30, 0.05, FIVE_WORDS), *end(150)),
    "reasoning-first": (*BEGIN, *steady(20, 0.03, reasoning("hm ")), *steady(20, 0.03), *end(40)),
    "usage-at-the-end": (
        *(*BEGIN, *steady(20, 0.03), silence(0.3), finish()),
        *(silence(0.3), usage(7, 20), done()),
    ),
    "steady-20": (*BEGIN, *steady(100, 0.02), *end(100)),
    "steady-50": (*BEGIN, *steady(40, 0.05), *end(40)),
    "one-stall": (*BEGIN, *steady(10, 0.05), silence(1.5), *steady(10, 0.05), *end(20)),
    "two-stalls": (
        *(*BEGIN, *steady(10, 0.05), silence(0.6), *steady(10, 0.05)),
        *(silence(1.0), *steady(10, 0.05), *end(30)),
    ),
    "stalled-then-ended": (*BEGIN, *steady(10, 0.05), silence(0.8), *end(10)),
    "stalled-then-cut": (*BEGIN, *steady(10, 0.05), silence(0.8), cut()),
    "stalled-but-alive": (
        *(*BEGIN, *steady(10, 0.05), *keepalives(1.4, every_s=0.3)),
        *(*steady(10, 0.05), *end(20)),
    ),
    "mixed": (
        *(*BEGIN, *steady(5, 0.03, reasoning("hm ")), *keepalives(0.7, every_s=0.2)),
        *(together(WORD, WORD, comment()), silence(0.45), *steady(5, 0.02, FIVE_WORDS)),
        *(silence(0.9), *steady(3, 0.05, tool_call("{}", id="call", name="look"))),
        *(silence(0.6), *steady(10, 0.01), *end(45)),
    ),
    # A consumer that takes a second for each piece waits a second before the last but one.
    "every-500": (*BEGIN, *steady(5, 0.5), *end(5)),
    "every-500-but-once": (*BEGIN, *steady(4, 0.5), silence(3.0), *steady(2, 0.5), *end(6)),
    # Beside an event loop that is blocked for a second within the first one and a half.
    "silent-later": (*BEGIN, *steady(75, 0.02), silence(1.0), *steady(25, 0.02), *end(100)),
    # For a race.
    "hanging": (*BEGIN, *steady(10, 0.05), hang()),
    "hanging-and-counting": (*BEGIN, *counting(10, 0.05), hang()),
}


class Log:
    """Holds every write of every connection."""

    def __init__(self, file: FileIO) -> None:
        self._file = file  # without a buffer, so that a line of a thread is whole
        self._numbers = itertools.count()

    def new_request(self) -> str:
        """Give an id for a request."""
        return f"up-{next(self._numbers)}"

    def add(self, **line: str | int | None) -> None:
        """Write a line."""
        self._file.write(json.dumps(line).encode() + b"\n")


class Handler(BaseHTTPRequestHandler):
    """Serves one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(
        self, log: Log, request: socket.socket, address: tuple[str, int], server: BaseServer
    ) -> None:
        self._log = log
        super().__init__(request, address, server)

    def do_POST(self) -> None:
        """Answer a chat completion by the schedule of its model."""
        self._due = time.monotonic()
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._model = str(body["model"])
        if self._model not in SCHEDULES:
            self.send_error(404, f"no schedule {self._model}")
            return
        self._request = self.headers.get("x-request-id") or self._log.new_request()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("x-request-id", self._request)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            self._play(SCHEDULES[self._model])
        except OSError:  # the client left
            self.close_connection = True

    def do_GET(self) -> None:
        """List the models, which some clients ask for before anything else."""
        models = [{"id": name, "object": "model"} for name in SCHEDULES]
        body = json.dumps({"object": "list", "data": models}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _play(self, schedule: Sequence[Step]) -> None:
        for step in schedule:
            match step:
                case Silence(seconds):
                    self._wait(seconds)
                case Send(data):
                    self.connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))
                    self._wrote(step)
                case Closing():
                    self._wrote(Send(b""), ended="cut")
                    self.close_connection = True
                    return
                case Head():
                    raise AssertionError("every schedule has the same head")
        self._wrote(Send(b""), ended="done")
        self.connection.sendall(b"0\r\n\r\n")

    def _wait(self, seconds: float) -> None:
        """Wait until so long after what was due before.

        Raises:
            ConnectionAbortedError: the client left.
        """
        self._due += seconds
        left = max(self._due - time.monotonic(), 0.0)
        # A client that has sent its request and is heard of again is one that closes.
        if select.select([self.connection], [], [], left if left < math.inf else None)[0]:
            raise ConnectionAbortedError

    def _wrote(self, step: Send, *, ended: str | None = None) -> None:
        self._log.add(
            at_ns=time.monotonic_ns(),
            request=self._request,
            model=self._model,
            content=step.content,
            characters=len(step.text),
            ended=ended,
        )


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path, help="file that is written")
    parser.add_argument("port", type=int, nargs="?", default=0, help="any free one by default")
    args = parser.parse_args()
    with (
        args.log.open("wb", buffering=0) as file,
        ThreadingHTTPServer(("127.0.0.1", args.port), partial(Handler, Log(file))) as server,
    ):
        base_url = f"http://127.0.0.1:{server.server_port}/v1"
        print(json.dumps({"base_url": base_url, "schedules": list(SCHEDULES)}), flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
