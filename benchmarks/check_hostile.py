"""What a hostile provider costs: memory, time, and everybody else's turn.

Every stream of ``tests/hostile.py`` and ``tests/giants.py`` is sent over a socket, as fast as it is
read, to a gateway in a process of its own, with the limits that are the defaults. ``python
benchmarks/check_hostile.py [NAME...]`` takes four minutes and prints, for each, the most resident
memory above what the process had before, and of how much: 32 MiB and what the limit concerned
allows; how long the call went on after that limit, or the timeout, was met; and the longest time in
which no other task had its turn. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

sys.path.append(str(Path(__file__).parents[1]))  # behind what is installed, for tests/hostile.py

from polygateway import (
    Config,
    GatewayError,
    HedgePolicy,
    Limits,
    RetryPolicy,
    StreamPolicy,
    Target,
    open_gateway,
)
from tests.giants import GIANTS
from tests.hostile import ATTACKS, FLOODS, Attack

if TYPE_CHECKING:
    import ssl
    from collections.abc import Generator, Iterable, Mapping

MIB = 1024 * 1024
WARM = [b"HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\n{}"]
TIMEOUT_S = 1.0
BUFFER = 64 * 1024
ON_THE_WAY = 512 * 1024
"""What can be between the server and the client: twice the buffers, which Linux doubles."""

MOST_MIB = 32.0
"""Above what the limit concerned allows."""

MOST_S = 2.0
MOST_BLOCKED_S = 0.25

ALL: Mapping[str, Attack] = {**ATTACKS, **FLOODS, **GIANTS}


# ---------------------------------------------------------------- the process that is measured


@attrs.frozen
class Cost:
    """What one call cost."""

    outcome: str
    peak_mib: float
    took_s: float
    ended_s: float
    """When it ended, by the clock that all processes have."""

    blocked_s: float


def status_mib(name: str) -> float:
    """Give one of Linux's figures of this process."""
    found = re.search(rf"{name}:\s*(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert found is not None, name  # noqa: S101 - Linux has it
    return int(found[1]) / 1024


@contextmanager
def peak_memory() -> Generator[list[float]]:
    """Measure by how much the resident memory grows at most."""
    gc.collect()
    before = status_mib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak begins anew
    peak: list[float] = []
    yield peak
    peak.append(status_mib("VmHWM") - before)


def config(attack: Attack, base_url: str) -> Config:
    """Give a configuration with one target, which nothing but the attack's bound saves from it."""
    return Config(
        targets={"eu": Target(dialect=attack.dialect, base_url=base_url, model="m")},
        models={"m": ("eu",)},
        hedge=HedgePolicy(enabled=False),
        retry=RetryPolicy(max_retries=0),
        stream=StreamPolicy(ttft_timeout_s=TIMEOUT_S, stall_timeout_s=TIMEOUT_S)
        if attack.bound == "time"
        else StreamPolicy(),
    )


async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.SocketStream:
    """Open a connection which holds little of what has not been read."""
    stream = await trio.open_tcp_stream(host, port)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    return stream


async def call(attack: Attack, base_url: str) -> str:
    """Make one call and say what came of it."""
    async with open_gateway(config(attack, base_url), connect=connect) as gw:
        try:
            answer = await gw.complete("How is the tide?", model="m")
        except GatewayError as error:
            return f"{type(error).__name__}: {error}"
        return f"complete: {len(answer.text)}, {len(answer.tool_calls)}"


async def longest_turn(worst: list[float]) -> None:
    """Notice how long other tasks have to wait."""
    while True:
        start = time.perf_counter()
        await trio.sleep(0.001)
        worst[0] = max(worst[0], time.perf_counter() - start - 0.001)


async def measure(attack: Attack, base_url: str) -> Cost:
    """Make a call, and measure what it costs."""
    await call(attack, f"{base_url}/warm")  # what only a first call needs is no cost of this one
    worst = [0.0]
    with peak_memory() as peak:
        start = time.monotonic()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(longest_turn, worst)
            outcome = await call(attack, base_url)
            end = time.monotonic()
            nursery.cancel_scope.cancel()
    return Cost(outcome, peak[0], end - start, end, worst[0])


# ---------------------------------------------------------------- the server


class Server:
    """Sends an attack to whoever connects, as fast as it is read."""

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._log: list[tuple[float, int]] = []
        """When so many bytes had been sent."""

        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            with connection:
                request = b""
                while not request.endswith(b"}"):  # read whole, or closing would reset
                    request += connection.recv(65536)
                self._send(connection, WARM if b"/warm" in request else self._attack.sent())

    def _send(self, connection: socket.socket, pieces: Iterable[bytes]) -> None:
        sent = 0
        self._log = [(time.monotonic(), sent)]
        try:
            for piece in pieces:
                connection.sendall(piece)
                sent += len(piece)
                self._log.append((time.monotonic(), sent))
        except OSError:
            pass  # the client has left

    def last_read_s(self) -> float:
        """Give a time at which the client had not yet read the last bytes that it was to read."""
        _, total = self._log[-1]
        return next(at for at, sent in self._log if sent >= total - ON_THE_WAY)


# ---------------------------------------------------------------- all of it


def run(name: str) -> tuple[Cost, float]:
    """Measure an attack in a process of its own; tell how late it ended."""
    server = Server(ALL[name])
    command = [sys.executable, __file__, "--child", server.base_url, name]
    done = subprocess.run(  # noqa: S603 - ours
        command, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        return Cost(done.stderr[-500:], 0, math.inf, 0, 0), math.inf
    cost = Cost(**json.loads(done.stdout))
    is_timed = ALL[name].bound == "time"
    return cost, cost.took_s - TIMEOUT_S if is_timed else cost.ended_s - server.last_read_s()


def allowed_mib(attack: Attack) -> float:
    """Give what may legally be held of it."""
    if attack.bound in {"max_event_bytes", "max_body_bytes", "max_answer_bytes"}:
        limit: int = getattr(Limits(), attack.bound)
        return limit / MIB
    return 0.0


def is_met(attack: Attack, cost: Cost, late_s: float) -> bool:
    """Tell whether every goal is met."""
    return (
        cost.peak_mib <= MOST_MIB + allowed_mib(attack)
        and late_s <= MOST_S
        and cost.blocked_s <= MOST_BLOCKED_S
        and bool(re.search(attack.says, cost.outcome))
    )


def main() -> int:
    """Measure what is asked for and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", metavar="URL")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.child:
        cost = trio.run(measure, ALL[options.names[0]], options.child)
        print(json.dumps(attrs.asdict(cost)))
        return 0
    missed = 0
    for name in [name for name in ALL if not options.names or name in options.names]:
        attack = ALL[name]
        cost, late_s = run(name)
        verdict = "met   " if is_met(attack, cost, late_s) else "MISSED"
        missed += verdict == "MISSED"
        print(
            f"{verdict} {name:40}"
            f" {cost.peak_mib:6.1f} MiB of {MOST_MIB + allowed_mib(attack):.0f},"
            f" {late_s:6.3f} s late, others waited {cost.blocked_s * 1e3:4.0f} ms"
            f"  {cost.outcome[:60]}",
            flush=True,
        )
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
