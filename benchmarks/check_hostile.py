"""What a hostile provider costs: memory, time, and everybody else's turn.

Every stream of ``tests/hostile.py`` is sent over a socket, as fast as it is read, to a gateway in a
process of its own, with the limits that are the defaults. ``python benchmarks/check_hostile.py
[NAME...]`` takes some minutes and prints, for each, the most resident memory above what the process
had before, what of it the limit concerned allows, how long the call took after the timeout that it
was to meet, and the longest time in which no other task had its turn. The exit code is 1 if a goal
is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
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
from tests.hostile import ATTACKS, FLOODS, Attack

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

MIB = 1024 * 1024
WARM = [b"HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\n{}"]
TIMEOUT_S = 1.0

MOST_MIB = 32.0
"""Above what the limit concerned allows."""

MOST_S = 2.0
MOST_BLOCKED_S = 0.25

ALL: Mapping[str, Attack] = {**ATTACKS, **FLOODS}


# ---------------------------------------------------------------- the process that is measured


@attrs.frozen
class Cost:
    """What one call cost."""

    outcome: str
    peak_mib: float
    took_s: float
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


async def call(attack: Attack, base_url: str) -> str:
    """Make one call and say what came of it."""
    async with open_gateway(config(attack, base_url)) as gw:
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
        start = time.perf_counter()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(longest_turn, worst)
            outcome = await call(attack, base_url)
            took = time.perf_counter() - start
            nursery.cancel_scope.cancel()
    return Cost(outcome, peak[0], took, worst[0])


# ---------------------------------------------------------------- the server


class Server:
    """Sends an attack to whoever connects, as fast as it is read."""

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                request = b""
                while not request.endswith(b"}"):  # read whole, or closing would reset
                    request += connection.recv(65536)
                self._send(connection, WARM if b"/warm" in request else self._attack.sent())

    def _send(self, connection: socket.socket, pieces: Iterable[bytes]) -> None:
        try:
            for piece in pieces:
                connection.sendall(piece)
                self.sent += len(piece)
        except OSError:
            pass  # the client has left


# ---------------------------------------------------------------- all of it


def run(name: str) -> Cost:
    """Measure an attack in a process of its own."""
    server = Server(ALL[name])
    command = [sys.executable, __file__, "--child", server.base_url, name]
    done = subprocess.run(  # noqa: S603 - ours
        command, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        return Cost(done.stderr[-500:], 0, 0, 0)
    return Cost(**json.loads(done.stdout))


def allowed_mib(attack: Attack) -> float:
    """Give what may legally be held of it."""
    if attack.bound in {"max_event_bytes", "max_body_bytes", "max_answer_bytes"}:
        limit: int = getattr(Limits(), attack.bound)
        return limit / MIB
    return 0.0


def is_met(attack: Attack, cost: Cost) -> bool:
    """Tell whether every goal is met."""
    return (
        cost.peak_mib <= MOST_MIB + allowed_mib(attack)
        and cost.took_s <= MOST_S + (TIMEOUT_S if attack.bound == "time" else 0)
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
        cost = run(name)
        missed += not is_met(attack, cost)
        print(
            f"{'met   ' if is_met(attack, cost) else 'MISSED'} {name:40}"
            f" {cost.peak_mib:6.1f} MiB of {MOST_MIB + allowed_mib(attack):.0f},"
            f" {cost.took_s:6.3f} s, others waited {cost.blocked_s * 1e3:4.0f} ms"
            f"  {cost.outcome[:60]}",
            flush=True,
        )
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
