"""A script for the provider of the benchmarks: it tells what it was asked."""

from __future__ import annotations

import json
import math


def script_of(model: str, call: str, attempt: int, prefix: str) -> list[tuple[float, bytes]]:
    """Give events with the arguments, after 50 ms, and then silence for a call of ``hang``."""
    if model != "echo":
        raise KeyError(model)
    asked = json.dumps([call, attempt, prefix]).encode()
    told = [(0.05, asked), (0.05, b" and "), (0.0, b"more")]
    return [*told, (math.inf, b"never")] if call == "hang" else told
