"""Fuzz one target by atheris: ``python -m tests.fuzz.one TARGET SCRIPT [for libFuzzer]...``.

SCRIPT is a program that does this with what libFuzzer gives it: it starts itself anew to merge. An
input for which something does not hold is written beside it, which libFuzzer does not always do.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from .mutator import mutated


def main(target: str, script: str, *arguments: str) -> None:
    atheris = import_module("atheris")  # only the session `fuzz` installs it
    # Imported here, and by nothing above, so that it can be watched.
    with atheris.instrument_imports(include=["polygateway.wire"]):
        properties = import_module("tests.fuzz.properties")
        for dialect in properties.DIALECTS:
            properties.DIALECTS[dialect]  # loads it

    def check(data: bytes) -> None:
        try:
            properties.check(target, data)
        except BaseException:
            Path(script).with_name("failed").write_bytes(data)
            raise

    def mutate(data: bytearray, most: int, seed: int) -> bytes | bytearray:
        changed = mutated(bytes(data), properties.HEAD, seed) if seed % 2 else None
        if changed is None or len(changed) > most:
            plain: bytearray = atheris.Mutate(data, most)
            return plain
        return changed

    atheris.Setup([script, *arguments], check, custom_mutator=mutate)
    atheris.Fuzz()  # ends the process


if __name__ == "__main__":
    main(*sys.argv[1:])
