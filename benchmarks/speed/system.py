"""What is asked of the operating system: cores, sockets, memory. Standard library only."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def cores() -> tuple[int, int]:
    """Give a core for a client and one for the provider: the first and the last that there are."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


def pin(core: int | None) -> None:
    """Let this process run on *core* only; on any with ``None``."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def allow_sockets() -> None:
    """Let this process open as many sockets as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def resident_kib() -> float:
    """Give the memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 1024
